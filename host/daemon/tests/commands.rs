//! Commands as people run them: files in, text and exit codes out.

mod aws;
mod bundles;
mod cel;
mod check_config;
mod cli;
mod consolidation;
mod field;
mod journal;
mod regions;
mod toolchains;

//! Components in the host: ours, and those that mean harm.

mod chain;
mod common;
mod consolidation;
mod hostile;
mod plugins;

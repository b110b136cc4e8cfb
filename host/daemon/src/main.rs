//! The `longshore` command, being put together: modules first, wiring when the planner lands.
#![allow(dead_code)]
mod args;
mod config;
mod failure;
mod options;
mod process;
mod report;
mod words;
fn main() {}

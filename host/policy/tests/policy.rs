//! Components in the host: ours, and those that mean harm.

mod chain;
mod common;
mod consolidation;
mod contract;
mod crafted;
mod facts;
mod hostile;
mod plugins;

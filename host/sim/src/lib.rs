//! Production in one process, decided by one seed: scenarios, faults and judges around the daemon.
//!
//! The daemon's code runs against a simulated cluster (`longshore-simcluster`) unchanged; only its
//! environment is replaced. Absent on purpose: anything that the daemon decides.

pub mod harness;
pub mod scenario;
pub mod show;
pub mod stats;
#[cfg(feature = "terminal")]
pub mod terminal;

//! A cluster in virtual time: production in one process, decided by one seed.
//!
//! The daemon's code runs against it unchanged; only its environment is replaced. Absent on
//! purpose: anything that the daemon decides.

pub mod actors;
pub mod clock;
pub mod cloud;
pub mod event_queue;
pub mod faults;
pub mod fields;
pub mod harness;
pub mod keyed_rng;
pub mod log;
pub mod object;
pub mod scenario;
pub mod server;
pub mod show;
pub mod stats;
#[cfg(feature = "terminal")]
pub mod terminal;
pub mod world;

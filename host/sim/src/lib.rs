//! A cluster in virtual time: what the daemon meets in production, in one process, decided by one
//! seed.
//!
//! The daemon's own code runs against it unchanged; only its edges are other ones. Absent on
//! purpose: anything that the daemon decides.

pub mod actors;
pub mod clock;
pub mod cloud;
pub mod faults;
pub mod harness;
pub mod live;
pub mod log;
pub mod object;
pub mod scenario;
pub mod server;
pub mod show;
pub mod stats;
pub mod world;

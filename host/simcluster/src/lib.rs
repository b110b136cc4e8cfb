//! A cluster in virtual time, decided by one seed: the API server, its controllers, kubelets,
//! kube-scheduler, a cloud, and their faults.
//!
//! Absent on purpose: the daemon. Its tests and the scenarios of `longshore-sim` run against this.

pub mod actors;
pub mod clock;
pub mod cloud;
pub mod event_queue;
pub mod faults;
pub mod fields;
pub mod keyed_rng;
pub mod log;
pub mod object;
pub mod server;
pub mod world;

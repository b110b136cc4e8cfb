//! Every decision of Longshore, as ordinary functions over plain data.
//!
//! [`ClusterObjects`](model::ClusterObjects) is what was observed; [`Snapshot`](snapshot::Snapshot)
//! adds indexes, ready to plan on; [`plan`](planner::plan) turns a snapshot into a
//! [`Plan`](plan::Plan); [`check`](check::check) says, without trusting the planner, whether the
//! plan keeps every rule.
//!
//! What is absent on purpose: no clock (time is `snapshot.now`), no randomness but the seed, no
//! I/O, no async, no environment, no log, no Kubernetes client. Same input, same bytes out.

#![warn(missing_docs)]

pub mod check;
pub mod cron;
pub mod disrupt;
pub mod explain;
pub mod ids;
pub mod kube_scheduler;
pub mod matching;
pub mod model;
pub mod optimize;
pub mod overlay;
pub mod plan;
pub mod planner;
pub mod policy;
pub mod reasons;
pub mod rng;
pub mod schedule;
pub mod snapshot;
pub mod stop;

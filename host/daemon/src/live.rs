//! The daemon behind `longshore run`.
//!
//! Data flows one way. [`watch`] reports changes and [`state`] folds them. [`controller`] decides
//! which objects to reconcile and when to plan. [`lifecycle`], [`termination`] and [`pools`] act on
//! single objects, and the watch brings back what they write. `host/ARCHITECTURE.md` follows one
//! pod through it.

#[cfg(feature = "aws")]
pub mod aws;
mod backoff;
mod bug_report;
pub(crate) mod claim_conditions;
mod claim_writes;
pub(crate) mod claims;
pub mod clock;
mod cloud;
pub mod connection;
mod context;
mod controller;
mod create_claims;
pub(crate) mod definitions;
#[cfg(test)]
mod deploy_tests;
pub(crate) mod disruption;
mod drains;
pub mod environment;
mod events;
mod explain_requests;
pub mod fail_points;
mod finalize;
mod freshness;
#[doc(hidden)]
pub mod fuzz;
mod garbage;
mod gauges;
mod guard;
mod instrumented;
pub mod journal;
pub(crate) mod kinds;
mod launch_backoff;
mod launch_groups;
mod launch_request;
mod launches;
pub mod leader;
pub(crate) mod lifecycle;
pub(crate) mod lock;
mod log;
mod metrics;
pub mod mutants;
pub(crate) mod node;
mod node_capacity;
pub(crate) mod node_claim;
mod offers;
mod overlays;
mod plan_index;
mod planned_pods;
mod pod_events;
mod pod_latency;
pub mod policies;
pub(crate) mod pools;
mod proof;
mod protection;
mod pulse;
pub mod questions;
mod recent;
#[cfg(test)]
mod reference;
mod refusals;
pub(crate) mod repair;
mod rollout;
mod round;
mod round_input;
mod round_timer;
mod run;
mod serve;
mod server_pods;
pub(crate) mod settings;
mod shared_list;
pub(crate) mod state;
mod static_pools;
mod step_error;
mod stop;
mod strip_managed_fields;
mod termination;
mod unavailable_offerings;
mod useless_purchases;
pub(crate) mod watch;
mod work_queue;

pub(crate) use run::run;

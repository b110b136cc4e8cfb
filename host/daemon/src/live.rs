//! The daemon: what runs for as long as `longshore run` does.
//!
//! Data goes round one way. [`watch`] tells changes, [`state`] folds them, [`control`] decides what to look at again and
//! when to plan, [`lifecycle`], [`termination`] and [`pools`] act on single objects, and what they write comes back by
//! the watch. `host/ARCHITECTURE.md` walks one pod through it.

mod arrivals;
mod claims;
pub mod clock;
pub mod connection;
mod context;
mod control;
mod decisions;
mod definitions;
#[cfg(test)]
mod deploy_tests;
mod doors;
mod drains;
pub mod edges;
mod events;
pub mod fail_points;
mod finalize;
mod freshness;
#[doc(hidden)]
pub mod fuzz;
mod garbage;
mod gauges;
mod guard;
mod hints;
mod jobs;
pub mod journal;
pub(crate) mod kinds;
mod launch_backoff;
mod launches;
pub mod leader;
mod lifecycle;
pub(crate) mod lock;
mod measured;
mod metrics;
pub mod mutants;
mod node;
mod plan_index;
mod pod_events;
pub mod policies;
mod pools;
mod proof;
mod pulse;
mod questions;
#[cfg(test)]
mod reference;
mod repair;
mod round;
mod run;
mod serve;
pub(crate) mod settings;
mod shortages;
mod slim;
pub(crate) mod state;
mod step_error;
mod termination;
mod timetable;
pub(crate) mod watch;

pub(crate) use run::run;

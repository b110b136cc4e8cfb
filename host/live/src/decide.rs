//! What should change: rounds of planning, looks for disruption, and the order of registrations.

pub mod claims;
pub mod command;
pub mod deadline;
pub mod disruption;
#[cfg(any(test, feature = "testing"))]
pub mod fixture;
pub(crate) mod rollout;
pub(crate) mod round;
pub(crate) mod round_input;
pub(crate) mod round_timer;
pub mod staying;
pub mod waves;

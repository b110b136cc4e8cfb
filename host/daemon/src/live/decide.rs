//! What should change: rounds of planning, looks for disruption, and the order of registrations.

pub(crate) mod claims;
pub mod command;
pub mod deadline;
pub mod disruption;
#[cfg(test)]
pub(crate) mod fixture;
pub(in crate::live) mod rollout;
pub(in crate::live) mod round;
pub(in crate::live) mod round_input;
pub(in crate::live) mod round_timer;
pub mod staying;
pub mod waves;

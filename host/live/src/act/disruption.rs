//! Disruption: how nodes that a round of [`longshore_core::disrupt`] removes come to their end.
//!
//! A *command* is one proposal that is carried out: candidates that go, and replacements that are
//! bought first. Its state is on objects. Each candidate's NodeClaim has the annotation [`COMMAND`]
//! with the command's ID, [`DETAILS`] with the rest and [`MOVES`] with where its pods go; each
//! replacement has [`REPLACES`]. A process
//! that is killed anywhere leaves commands that the next one carries on or takes back:
//!
//! 1. candidates are annotated, their nodes tainted, the condition `DisruptionReason` is set;
//! 2. replacements are created;
//! 3. once all replacements are initialized, the candidates are deleted, and
//!    [`termination`](super::end::termination) drains them;
//! 4. if a replacement is gone, or time is over, the candidates stay: replacements that no pod uses are
//!    deleted, then taint, condition and annotations are taken back. The NodePool remembers it
//!    ([`failures`]).

pub mod counts;
pub mod events;
pub mod failures;
pub mod known_disruptions;
pub mod known_failures;
pub mod memory;
pub mod step;

pub use crate::decide::command::DETAILS;
pub use longshore_core::disrupt::verdicts::{COMMAND, REPLACES};
pub use longshore_core::snapshot::moves::MOVES;

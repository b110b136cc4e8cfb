//! What was decided, in words for people and as data for programs.
//!
//! This crate owns each sentence about a pod, a node or a NodePool. It takes snapshots, plans and
//! rounds of the core, and gives text or what serde writes. Absent on purpose: decisions, clocks,
//! files, clients, and what a configuration says.

#![warn(missing_docs)]

pub mod decision;
pub mod disruption;
pub mod explained;
pub mod hex;
pub mod messages;
pub mod pod_explanation;
pub mod table;

/// `1 fault`, `2 faults`.
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

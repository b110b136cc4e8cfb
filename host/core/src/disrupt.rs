//! Disruption: which nodes may go, and what is worth doing.
//!
//! [`verdicts`] says for every node and method whether the rules of its NodePool, its pods and their
//! budgets let it go. [`search`] says which of these nodes are worth removing, what is bought for
//! them, and where each pod goes: the objective is the price of all nodes, a cost for each node, and
//! [`MoveCost`](costs::MoveCost) for each pod that moves. The result is a list of [`Proposal`]s that
//! do not depend on each other. [`paper`] carries them out on records.

pub mod backoff;
pub mod bound;
pub mod budgets;
pub mod checked;
pub mod compile;
pub mod compiled;
pub mod consolidation;
pub mod costs;
mod decided;
mod exact;
pub mod fill;
pub mod methods;
pub mod neighbourhood;
pub mod pack;
pub mod paper;
pub mod proposals;
pub mod repair;
pub mod replacements;
pub mod search;
pub mod state;
pub mod static_capacity;
pub mod verdicts;

pub use proposals::{Move, Proposal, Replacement, To};
pub use verdicts::{Method, Reason, Stays};

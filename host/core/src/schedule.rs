//! Places pods on existing nodes, on nodes already planned, and on new nodes.
//!
//! [`pod_groups`] groups identical pods and lists their requirements, relaxed preference by
//! preference; [`by_label`] indexes them by selector. [`node_specs`] narrows what a new node may
//! be, label by label, with every result interned; [`settled`] says what that leaves to NodeClaims, and
//! [`excluded`] takes what policies exclude off that.
//! [`fit`] finds the instance types that are large enough. [`leaders`] finds where pods can be
//! followed. [`incompatible_pools`] finds NodePools without any compatible instance type.
//! [`topology`] counts pods by domain, and [`domains`] says which domains count; [`bought_domains`]
//! finds those that a plan overlooked. [`pool_limits`] says what limits leave. [`first_fit`] packs
//! first-fit-decreasing with all of them. The optimizer starts from its result.

pub mod bit_set;
pub mod bought_domains;
pub mod by_label;
pub mod domains;
pub mod excluded;
pub mod first_fit;
pub mod fit;
pub mod incompatible_pools;
pub mod leaders;
pub mod members;
pub mod node_specs;
pub mod pod_groups;
pub mod pool_limits;
pub mod questions;
pub mod ranking;
pub mod refusal;
pub mod room;
pub mod sets;
pub mod settled;
pub mod topology;
pub mod undo;

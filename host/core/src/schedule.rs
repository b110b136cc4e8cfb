//! Placing pods: on nodes that exist, on nodes already planned, on new ones.
//!
//! [`pod_groups`] groups pods that are alike and works out what each asks for, preference by
//! preference, with [`by_label`] saying which of them a selector means; [`node_specs`] narrows what
//! a new node may be, label by label, with every result interned; [`fit`] says which instance types
//! are big enough; [`incompatible_pools`] finds NodePools that nothing can be bought for;
//! [`topology`] counts pods by domain, [`domains`] says which domains count; [`first_fit`] packs
//! first-fit-decreasing with all of them. The improver starts where first fit ends.

pub mod bit_set;
pub mod by_label;
pub mod domains;
pub mod first_fit;
pub mod fit;
pub mod incompatible_pools;
pub mod members;
pub mod node_specs;
pub mod pod_groups;
pub mod questions;
pub mod ranking;
pub mod refusal;
pub mod room;
pub mod sets;
pub mod topology;
pub mod undo;

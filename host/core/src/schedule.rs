//! Placing pods: on nodes that exist, on nodes already planned, on new ones.
//!
//! [`items`] groups pods that are alike and works out what each asks for, preference by preference, with [`by_label`] saying
//! which of them a selector means; [`states`] narrows
//! what a new node may be, label by label, with every result interned; [`fit`] says which instance types are big
//! enough; [`barren`] finds NodePools that nothing can be bought for; [`topology`] counts pods by domain, [`domains`] says
//! which domains count; [`floor`] packs first-fit-decreasing with all of them. The improver starts where the floor ends.

pub mod barren;
pub mod bits;
pub mod by_label;
pub mod domains;
pub mod fit;
pub mod floor;
pub mod items;
pub mod members;
pub mod questions;
pub mod ranking;
pub mod refusal;
pub mod room;
pub mod sets;
pub mod states;
pub mod topology;
pub mod undo;

//! The end of a node: drain, proof, instance, garbage.

pub(in crate::live) mod drains;
pub(in crate::live) mod finalize;
pub(in crate::live) mod garbage;
pub(in crate::live) mod proof;
pub(in crate::live) mod shared_list;
pub(in crate::live) mod termination;

//! The end of a node: drain, proof, instance, garbage.

pub(crate) mod drains;
pub(crate) mod finalize;
pub(crate) mod garbage;
pub(crate) mod memory;
pub(crate) mod proof;
pub(crate) mod shared_list;
pub(crate) mod termination;

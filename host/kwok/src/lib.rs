//! Nodes without machines: the instance types of Karpenter's KWOK provider, built in or from a file
//! in its format, and (feature `provider`) a cloud that creates such nodes in any cluster.

#![warn(missing_docs)]

pub mod catalogue;
#[cfg(feature = "provider")]
pub mod provider;

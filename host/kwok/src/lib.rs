//! Nodes without machines: the instance types of Karpenter's KWOK provider, built in or from a file in its format.

pub mod catalogue;

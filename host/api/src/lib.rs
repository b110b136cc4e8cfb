//! Kubernetes and Karpenter objects at the boundary: their names, their quantities, and the reader
//! that folds manifests into the records that planning works on.
//!
//! Everything that people or clusters write is checked here, once; behind it nobody checks again.
//! Absent on purpose: a client, async, files (callers hand over bytes), and any decision.

#[cfg(feature = "crd")]
pub mod crd;
pub mod json;
pub mod labels;
pub mod manifests;
pub mod quantity;
pub mod time;

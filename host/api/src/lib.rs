//! Kubernetes and Karpenter objects at the boundary: their names, their quantities, and the reader
//! that folds manifests into the records used for planning.
//!
//! All input of people and clusters is validated here once; code behind the boundary does not
//! validate again. Absent on purpose: a client, async, files (callers pass bytes), and decisions.

#![warn(missing_docs)]

#[cfg(feature = "crd")]
pub mod crd;
pub mod failures;
pub mod json;
pub mod kinds;
pub mod labels;
pub mod manifests;
pub mod quantity;
pub mod strip_managed_fields;
pub mod time;

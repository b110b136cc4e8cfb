//! Manifests in, records or diagnostics out.

#[cfg(feature = "crd")]
mod admitted;
mod bad;
mod good;
mod real;

use super::{Diagnostics, Reader};
use longshore_core::model::ClusterObjects;

/// What is in a text that is given as `cluster.yaml`.
fn read(text: &str) -> (ClusterObjects, Diagnostics) {
    read_bytes(text.as_bytes())
}

fn read_bytes(bytes: &[u8]) -> (ClusterObjects, Diagnostics) {
    let mut reader = Reader::new();
    reader.read("cluster.yaml", bytes);
    reader.finish()
}

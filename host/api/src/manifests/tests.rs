//! Manifests in, records or problems out.

mod bad;
mod good;

use super::{Problems, Reader};
use longshore_core::model::World;

/// What is in a text that is given as `cluster.yaml`.
fn read(text: &str) -> (World, Problems) {
    read_bytes(text.as_bytes())
}

fn read_bytes(bytes: &[u8]) -> (World, Problems) {
    let mut reader = Reader::new();
    reader.read("cluster.yaml", bytes);
    reader.finish()
}

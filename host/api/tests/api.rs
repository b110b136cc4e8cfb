//! Custom resources as Rust types, definitions and rules.
#![cfg(feature = "crd")]

mod crd_definitions;
mod crd_hash;
mod crd_rules;
mod crd_types;
mod overlays;
#[path = "crd/table.rs"]
mod table;

//! The first-party component in this binary, for `cel` and `prefer` of a configuration.
//!
//! Its bytes are committed, so that every build of the binary has it, also without Rust's target for
//! WebAssembly. `cargo xtask shipped` makes them of `plugins/cel`. The same sources give the same bytes
//! on every machine, and a test compares them.

use sha2::{Digest as _, Sha256};

use longshore_report::hex::hex;

/// What messages call it.
pub const NAME: &str = "cel";

/// The component of `plugins/cel`.
pub const CEL: &[u8] = include_bytes!("../../shipped/cel.wasm");

/// SHA-256 of it, in hex.
pub fn digest() -> String {
    hex(&Sha256::digest(CEL))
}

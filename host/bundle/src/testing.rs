//! A registry and a signer for tests, of this crate and of those that use it.

mod registry;
mod signer;

pub use registry::{Reply, Request, Server, Shelf};
pub use signer::{IN_TOTO, SIGN, Signer, statement};

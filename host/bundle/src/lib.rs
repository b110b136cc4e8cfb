//! Policies from OCI registries and from folders in the OCI image layout, fetched by digest and
//! verified.
//!
//! Knows nothing of WebAssembly: what comes out are bytes whose digest holds and, where a key is
//! configured, whose manifest that key signed. Whether they are a component is for the caller.
//! Nothing is tried again here; how long a registry is waited for is [`Patience`].
//!
//! - [`Reference`]: where a policy is.
//! - [`RegistrySettings`] and [`TrustSettings`]: what the configuration says of registries, keys.
//! - [`Sources`]: fetches, with a [`Cache`] from which a policy starts while its registry is down.
//! - [`Error`]: what failed, at which [`Step`].
//!
//! A policy is one manifest with a config `application/vnd.wasm.config.v0+json` and one layer
//! `application/wasm`: `wkg oci push` and `oras push` write it. A signature is what `cosign sign
//! --key` of cosign 3 writes, by a P-256 key. Copy both with `oras cp -r` or `regctl image copy
//! --referrers`; `crane copy`, `skopeo copy` and plain `oras cp` leave the signature behind.
//!
//! # Libraries
//!
//! ureq 3.5.1 and ring 0.17.14 were in the lock file. ureq blocks, which is what the thread that
//! loads policies wants, and its TLS is on ring. Crates for registries (oci-client, oci-distribution)
//! are async, on tokio and reqwest; crates for Sigstore bring its online services.

#![warn(missing_docs)]

mod cache;
mod challenge;
mod client;
mod credentials;
mod digest;
mod error;
mod fetch;
mod layout;
mod manifest;
mod reference;
mod settings;
mod signature;
mod sources;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use cache::Cache;
pub use client::Patience;
pub use digest::Digest;
pub use error::{Error, Step};
pub use fetch::Policy;
pub use manifest::{MAX_BUNDLE_BYTES, MAX_COMPONENT_BYTES, MAX_MANIFEST_BYTES, MAX_REFERRERS};
pub use reference::{LayoutReference, OciReference, Reference, ReferenceError};
pub use settings::{RegistrySettings, SettingsError, TrustSettings};
pub use signature::{Key, KeyError, Refusal, verify};
pub use sources::Sources;

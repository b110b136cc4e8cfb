//! Developer commands as functions, for the binary and for tests that need what they build.

pub mod control_plane;
pub mod emulated_aws;
pub mod guests;
pub mod helm;

pub use control_plane::cache;

/// Whether this is an unattended run that gates changes. A test that cannot run there is a failure.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

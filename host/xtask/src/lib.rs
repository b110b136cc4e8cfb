//! Developer commands as functions, for the binary and for tests that need what they build.

mod ci;
pub mod control_plane;
pub mod emulated_aws;
pub mod guests;
pub mod helm;

pub use ci::in_ci;
pub use control_plane::cache;

//! Developer commands as functions, for the binary and for tests that need what they build.

pub mod control_plane;
pub mod guests;

//! What runs for as long as the daemon does.

pub mod policies;

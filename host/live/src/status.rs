//! What a daemon says of itself at `/status`, as data and as text.

pub mod parts;
pub mod policies;
mod text;
pub mod windows;

/// Lines of text for a status.
pub use text::text as as_text;

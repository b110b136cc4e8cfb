//! What a command answers with.

/// What a command prints on standard output, and its exit code.
pub struct Answer {
    /// What is printed on standard output.
    pub text: String,
    /// The exit code.
    pub code: u8,
}

impl Answer {
    /// An answer of a command that did what it was asked for.
    pub fn ok(text: String) -> Self {
        Answer { text, code: 0 }
    }
}

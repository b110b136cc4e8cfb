//! Expressions in the syntax of CEL, without its types: words, grammar, and faults with their
//! columns. A [`Language`] says which names there are and which types go together. `ec2` has the one
//! of `spec.kubelet`.
//!
//! The parser is our own. An operator can write text on which the parser of the `cel` crate
//! overflows the stack or panics (cel-rust issues 212 and 305). That crate checks no types either.
//!
//! A crate of its own with few dependencies: the host reads expressions with it, and so does a
//! first-party policy, compiled for wasm32.

#![warn(missing_docs)]

pub mod columns;
mod parse;
mod tokens;

use std::borrow::Cow;

pub use parse::{Arithmetic, Comparison, Language, Literal, Logical, parse};

/// Most bytes of an expression.
pub const MAX_BYTES: usize = 4096;

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {what}")]
pub struct Refused {
    /// The character of the text, from 1.
    pub column: usize,
    /// What is wrong there.
    pub what: String,
    /// What can be done about it; empty where nothing helps.
    pub hint: Cow<'static, str>,
}

impl Refused {
    /// A fault at a byte of a text.
    pub fn at(
        text: &str,
        byte: usize,
        what: impl Into<String>,
        hint: impl Into<Cow<'static, str>>,
    ) -> Self {
        Refused {
            column: text[..byte].chars().count() + 1,
            what: what.into(),
            hint: hint.into(),
        }
    }
}

//! Why a command gave no answer. Every one of these ends with exit code 2.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::config::Fault;

/// What stops a command; printed once, in `main`.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A file could not be read.
    #[error("cannot read {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Configuration or settings with faults.
    #[error("the configuration has {}", count(.0.len(), "fault"))]
    Config(Vec<Fault>),
    /// A file that cannot be used at all.
    #[error("{}: {reason}", file.display())]
    Input {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What can be done.
        hint: String,
    },
    /// Arguments that say nothing sensible together.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What can be done.
        hint: String,
    },
    /// A policy that is refused.
    #[error("policy {}: {reason}", file.display())]
    Policy {
        /// The component.
        file: PathBuf,
        /// Why.
        reason: String,
        /// What can be done.
        hint: String,
    },
    /// Standard output is gone.
    #[error("cannot print the answer")]
    Print(#[source] std::io::Error),
}

impl Failure {
    /// The failure with its cause, its faults and its hint, over several lines.
    pub fn report(&self) -> String {
        let mut text = self.to_string();
        match self {
            Failure::Config(faults) => faults.iter().for_each(|fault| _ = write!(text, "\n  {fault}")),
            Failure::Input { hint, .. } | Failure::Usage { hint, .. } | Failure::Policy { hint, .. }
                if !hint.is_empty() =>
            {
                _ = write!(text, "\n  hint: {hint}");
            }
            _ => {
                if let Some(cause) = std::error::Error::source(self) {
                    _ = write!(text, ": {cause}");
                }
            }
        }
        text
    }
}

/// `1 fault`, `2 faults`.
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

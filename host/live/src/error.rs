//! Why a command failed. All of these end with exit code 2.

use std::fmt::Write as _;
use std::path::PathBuf;

use longshore_api::manifests::{Diagnostic, Diagnostics};
use longshore_core::planner::Rejected;
use longshore_policy::LoadError;
use longshore_report::count;

use crate::config::ConfigError;

/// What stops a command; printed once, in `main`.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A file could not be read.
    #[error("cannot read {}", file.display())]
    Read {
        file: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// Configuration or settings with faults.
    #[error("the configuration has {}", count(.0.len(), "fault"))]
    Config(Vec<ConfigError>),
    /// A file that cannot be used at all.
    #[error("{}: {reason}", file.display())]
    Input {
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
        hint: String,
    },
    /// Manifests without a single usable object, or that are none.
    #[error("{source_name} cannot be used")]
    Unusable {
        /// The first that cannot be used.
        source_name: String,
        /// Everything that is wrong, with it and with others.
        problems: Diagnostics,
    },
    /// Arguments that say nothing sensible together.
    #[error("{message}")]
    Usage { message: String, hint: String },
    /// A policy that is refused.
    #[error("policy {0}")]
    Policy(String, #[source] LoadError),
    /// A plan that breaks a rule: our fault, not that of the input.
    #[error("the plan breaks {} and is dropped: a defect of Longshore, please report it", count(.0.violations.len(), "rule"))]
    Rejected(Box<Rejected>),
    /// The daemon has lost a part that it cannot do without.
    #[error("the daemon has ended")]
    Ended(#[from] Ended),
    /// Standard output is gone.
    #[error("cannot print the answer")]
    Print(#[source] std::io::Error),
}

impl From<longshore_journal::OpenError> for Failure {
    fn from(error: longshore_journal::OpenError) -> Failure {
        Failure::Usage {
            message: error.to_string(),
            hint: error.hint().into(),
        }
    }
}

impl From<longshore_journal::segment::ReadError> for Failure {
    fn from(error: longshore_journal::segment::ReadError) -> Failure {
        Failure::Usage {
            message: error.to_string(),
            hint: error.hint().into(),
        }
    }
}

/// Why a daemon has ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// A task that runs for ever has returned.
    #[error("{0} ended by itself")]
    Task(&'static str),
    #[error("a task has panicked ({0}): a defect, please report it")]
    Panicked(String),
}

impl Failure {
    /// A text that one problem makes useless.
    pub fn unusable(problem: Diagnostic) -> Self {
        let source_name = problem.location.source.clone();
        let mut problems = Diagnostics::default();
        problems.push(problem);
        Failure::Unusable {
            source_name,
            problems,
        }
    }

    /// The failure with its cause, its faults and its hint, over several lines.
    pub fn report(&self) -> String {
        let mut text = self.to_string();
        match self {
            Failure::Config(faults) => faults
                .iter()
                .for_each(|fault| _ = write!(text, "\n  {fault}")),
            Failure::Input { hint, .. } | Failure::Usage { hint, .. } if !hint.is_empty() => {
                _ = write!(text, "\n  hint: {hint}");
            }
            Failure::Rejected(rejected) => {
                rejected
                    .violations
                    .iter()
                    .for_each(|violation| _ = write!(text, "\n  {violation}"));
            }
            Failure::Unusable { problems, .. } => {
                problems
                    .list
                    .iter()
                    .for_each(|problem| _ = write!(text, "\n  {problem}"));
                if problems.more > 0 {
                    _ = write!(text, "\n  … and {} more", problems.more);
                }
            }
            _ => {
                let mut cause = std::error::Error::source(self);
                while let Some(error) = cause {
                    // A cause that its effect already quotes is not said twice.
                    let said = error.to_string();
                    if !text.contains(&said) {
                        _ = write!(text, ": {said}");
                    }
                    cause = error.source();
                }
            }
        }
        text
    }
}

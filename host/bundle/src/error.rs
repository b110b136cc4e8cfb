//! What went wrong, at which step.

use std::fmt;

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reading what the configuration names: a key, an authority, credentials.
    Settings,
    /// Asking for a token.
    Token,
    /// Getting and reading the manifest.
    Manifest,
    /// Looking for signatures.
    Referrers,
    /// Verifying them.
    Signature,
    /// Getting the component.
    Component,
    /// Reading what was kept.
    Cache,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Settings => "settings",
            Self::Token => "token",
            Self::Manifest => "manifest",
            Self::Referrers => "referrers",
            Self::Signature => "signature",
            Self::Component => "component",
            Self::Cache => "cache",
        })
    }
}

/// Why a policy was not loaded. All but what stands in `after` is a sentence for people.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{place}: {step}: {reason}")]
pub struct Error {
    /// What was asked: an address, a file.
    pub place: String,
    /// What was being done.
    pub step: Step,
    /// What happened, and what can be done where that is known.
    pub reason: String,
    /// It is not there: another source may have it.
    pub not_found: bool,
    /// Seconds after which the registry wants to be asked again.
    pub after: Option<u64>,
}

impl Error {
    pub(crate) fn new(step: Step, place: impl fmt::Display, reason: impl Into<String>) -> Self {
        let (place, reason) = (place.to_string(), reason.into());
        let (not_found, after) = (false, None);
        Self {
            place,
            step,
            reason,
            not_found,
            after,
        }
    }

    pub(crate) fn absent(self) -> Self {
        Self {
            not_found: true,
            ..self
        }
    }
}

//! Why a step failed, by what has to follow.

use std::time::Duration;

/// The result of a step: after which time it is run again, if it asks for that.
pub type StepOutcome = Result<Option<Duration>, StepError>;

/// A step that was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The object has changed since the copy was taken: the step is run again once the watch has
    /// brought the new version.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The API server does not have the object any more.
    #[error("it is gone")]
    Gone,
    /// Another replica may lead: nothing is tried again before this one leads.
    #[error("this replica does not lead")]
    NotLeading,
    /// Anything else: tried again, later and later.
    #[error("{0}")]
    Other(String),
}

impl StepError {
    /// Any other error, in its own words.
    pub fn other(error: impl std::fmt::Display) -> Self {
        StepError::Other(error.to_string())
    }
}

impl From<longshore_cloud::CloudError> for StepError {
    fn from(error: longshore_cloud::CloudError) -> Self {
        StepError::other(error)
    }
}

impl From<String> for StepError {
    fn from(why: String) -> Self {
        StepError::Other(why)
    }
}

impl From<StepError> for String {
    fn from(error: StepError) -> Self {
        error.to_string()
    }
}

impl From<kube::Error> for StepError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 409 && status.reason != "AlreadyExists" => {
                StepError::Conflict(status.message)
            }
            kube::Error::Api(status) if status.code == 404 => StepError::Gone,
            error if super::connection::is_not_leading(&error) => StepError::NotLeading,
            error => StepError::Other(error.to_string()),
        }
    }
}

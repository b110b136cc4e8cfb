//! Errors of a cloud, by what the caller does next.

use std::fmt;

use super::offering::OfferingName;

/// Why a cloud did not do as it was asked. Messages have the request, the cloud's reason and, if
/// known, a hint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloudError {
    /// None of the offerings that the claim admits is available now. The claim is deleted, and its
    /// pods are planned again without unavailable offerings.
    #[error("insufficient capacity: {0}")]
    InsufficientCapacity(Shortage),
    /// The node class is missing or not ready. The claim is deleted; its pods wait for the class.
    #[error("node class is not ready: {0}")]
    NodeClassNotReady(String),
    /// Asked too often. Asked again, later and later.
    #[error("throttled: {0}")]
    Throttled(String),
    /// Not allowed. Asked again, for permissions get granted; said loudly.
    #[error("unauthorized: {0}")]
    Unauthorized(String),
    /// There is no such instance (any more).
    #[error("not found: {0}")]
    NotFound(String),
    /// The request makes no sense to the cloud; asked again only until the claim's liveness limit.
    #[error("invalid: {0}")]
    Invalid(String),
    /// Anything else: a network failure, a server error. Asked again.
    #[error("{0}")]
    Other(String),
}

impl CloudError {
    /// The word for metrics and condition reasons.
    pub fn reason(&self) -> &'static str {
        match self {
            CloudError::InsufficientCapacity(_) => "InsufficientCapacity",
            CloudError::NodeClassNotReady(_) => "NodeClassNotReady",
            CloudError::Throttled(_) => "Throttled",
            CloudError::Unauthorized(_) => "Unauthorized",
            CloudError::NotFound(_) => "NotFound",
            CloudError::Invalid(_) => "Invalid",
            CloudError::Other(_) => "LaunchFailed",
        }
    }
}

/// What could not be had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shortage {
    /// In words.
    pub message: String,
    /// Which offerings the cloud has no instance of now, where it says so. They are not asked for
    /// again for a while.
    pub offerings: Vec<OfferingName>,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<String> for Shortage {
    fn from(message: String) -> Self {
        Shortage {
            message,
            offerings: Vec::new(),
        }
    }
}

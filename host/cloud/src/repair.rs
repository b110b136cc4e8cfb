//! What a cloud says of unhealthy nodes: which conditions they do not recover from, and what helps.

use std::time::Duration;

use super::error::CloudError;

/// What is done about a condition of a node that lasts.
///
/// A set of policies has exactly one whose `reason` is empty. It is the fallback: it is about every
/// condition that some policy names by type and status, where no policy's reason is found in the
/// condition's. Its action is [`RepairAction::Replace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairPolicy {
    /// Type of the condition of the Node, as `Ready`.
    pub condition: &'static str,
    /// Its status then: `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// Regular expression that is searched for in the condition's reason; empty for the fallback.
    pub reason: &'static str,
    /// How long it may be so before something is done.
    pub toleration: Duration,
    /// For how long pods may be asked to leave before they have to; nothing for no bound.
    pub grace: Option<Duration>,
    /// From 0 to 100: nodes with a higher one come first.
    pub priority: u8,
    /// Replacement or reboot.
    pub action: RepairAction,
}

/// What helps an unhealthy node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairAction {
    /// Another node takes its place.
    Replace,
    /// Its machine starts anew.
    Reboot,
}

/// Why a machine was not started anew.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RebootError {
    /// This cloud starts no machine anew. It is not asked again; the node is replaced.
    #[error("{0} does not start machines anew; the node is replaced")]
    NotImplemented(&'static str),
    /// It never will be. It is not asked again; the node is replaced.
    #[error("the machine cannot be started anew: {0}")]
    Failed(String),
    /// A failure that says when to try again.
    #[error(transparent)]
    Again(#[from] CloudError),
}

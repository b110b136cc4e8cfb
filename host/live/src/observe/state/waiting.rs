//! What is kept of a pod: whether it waits, and what it has reached.

use std::sync::Arc;

use crate::observe::pod_latency::PodStage;

/// A pod that waits for a node.
pub(super) struct Waiting {
    /// kube-scheduler's own words, if it has tried it in vain; at most [`MAX_WORDS_CHARS`](super::pods) of them.
    pub(super) words: Box<str>,
    /// It is nominated to a node.
    pub(super) nominated: bool,
    /// kube-scheduler has tried it in vain; others have not been tried yet.
    pub(super) refused: bool,
    /// The version of the object that it came into kube-scheduler's queue with: when it was made,
    /// or tried.
    pub(super) queued: u64,
}

/// What is kept of a pod beside the store.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct PodSummary {
    pub(super) node: Option<Arc<str>>,
    pub(super) phase: Phase,
    pub(super) ready: bool,
    pub(super) leaving: bool,
    pub(super) daemon: bool,
}

/// `status.phase` of a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
    #[default]
    Unknown,
}

impl Phase {
    /// The value of `status.phase`.
    pub fn text(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Running => "Running",
            Phase::Succeeded => "Succeeded",
            Phase::Failed => "Failed",
            Phase::Unknown => "Unknown",
        }
    }

    pub(super) fn read(text: &str) -> Self {
        let all = [
            Phase::Pending,
            Phase::Running,
            Phase::Succeeded,
            Phase::Failed,
        ];
        all.into_iter()
            .find(|phase| phase.text() == text)
            .unwrap_or_default()
    }
}

impl PodSummary {
    pub(super) fn ended(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Whether it is as before for its node.
    pub(super) fn is_unchanged(&self, old: &PodSummary) -> bool {
        (&self.node, self.ended(), self.leaving, self.daemon)
            == (&old.node, old.ended(), old.leaving, old.daemon)
    }
}

/// A step in the life of a pod that was seen before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodTransition {
    pub what: PodStage,
    /// `namespace/name`.
    pub pod: Box<str>,
    /// `metadata.creationTimestamp`.
    pub created: String,
    /// It asks for dynamic resources.
    pub dynamic: bool,
}

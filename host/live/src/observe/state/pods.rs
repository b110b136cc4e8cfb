//! Pods: which of them wait, and what they have reached.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::waiting::{Phase, PodSummary, PodTransition, Waiting};
use super::work_item::WorkItem;
use crate::observe::pod_latency::PodStage;
use crate::observe::state::head::PodHead;

/// Most characters of kube-scheduler's words on a pod that are kept.
const MAX_WORDS_CHARS: usize = 500;

/// Limit of unread transitions; a replay never reads them.
pub(super) const MAX_MILESTONES: usize = 4096;

/// The pods that are there.
#[derive(Default)]
pub struct Pods {
    /// Whether pods that kube-scheduler has not tried yet (no condition PodScheduled) wait as well:
    /// `new-pods` of the configuration.
    pub plans_unattempted: bool,
    /// By `namespace/name`.
    all: HashMap<Box<str>, PodSummary>,
    /// Pods that wait for a node.
    pending: BTreeMap<Box<str>, Waiting>,
    /// What happened to pods that wait since this was last asked: whether a node is nominated,
    /// nothing if they wait no longer.
    waits_changed: Vec<(Box<str>, Option<bool>)>,
    /// Transitions of pods since the last read, if they are read at all.
    transitions: Vec<PodTransition>,
}

impl Pods {
    /// How many pods wait for a node.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether a pod, `namespace/name`, exists.
    pub fn contains(&self, name: &str) -> bool {
        self.all.contains_key(name)
    }

    /// Pods with a changed waiting state since the last call: whether they are nominated; nothing
    /// if they wait no longer.
    pub fn waits_changed(&mut self) -> Vec<(Box<str>, Option<bool>)> {
        std::mem::take(&mut self.waits_changed)
    }

    /// What pods have reached since this was last asked.
    pub fn transitions(&mut self) -> Vec<PodTransition> {
        std::mem::take(&mut self.transitions)
    }

    /// Whether a pod waits that kube-scheduler has not tried yet.
    pub fn is_unattempted(&self, pod: &str) -> bool {
        self.pending
            .get(pod)
            .is_some_and(|waiting| !waiting.refused)
    }

    /// Pods that wait and that kube-scheduler has not looked at yet, `namespace/name`.
    pub fn unattempted(&self) -> impl Iterator<Item = &str> {
        let unattempted = self.pending.iter().filter(|(_, waiting)| !waiting.refused);
        unattempted.map(|(pod, _)| &**pod)
    }

    /// Pods that wait for a node, `namespace/name`.
    pub fn waiting(&self) -> impl Iterator<Item = &str> {
        self.pending.keys().map(|pod| &**pod)
    }

    /// Why kube-scheduler has found no node for a pod that waits, in its own words; may be empty.
    pub fn words_of_scheduler(&self, pod: &str) -> &str {
        self.pending.get(pod).map_or("", |waiting| &waiting.words)
    }

    /// Whether a pod waits for a node.
    pub fn waits(&self, pod: &str) -> bool {
        self.pending.contains_key(pod)
    }

    /// The place of each pod that waits in kube-scheduler's queue, among those of its priority. What
    /// is made or tried first comes first, and versions of objects of one kind are numbers that grow
    /// (Kubernetes says so since 1.35; the place of a pod whose version is no number is 0).
    pub fn queue(&self) -> HashMap<String, u64> {
        let waiting = self.pending.iter();
        waiting
            .map(|(pod, waiting)| (pod.to_string(), waiting.queued))
            .collect()
    }

    /// How many pods are known.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(|name| &**name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&PodSummary> {
        self.all.get(name)
    }

    /// Lets go of a pod. Returns what that touches.
    pub(super) fn remove(&mut self, name: &str) -> Option<WorkItem> {
        if self.pending.remove(name).is_some() {
            self.waits_changed.push((name.into(), None));
        }
        let pod = self.all.remove(name)?;
        let node = pod.node.filter(|_| !pod.daemon && !pod.leaving)?;
        Some(WorkItem::PodEvent(node.to_string()))
    }

    /// Takes in a pod as it is now. Returns what that touches.
    pub(super) fn fold(&mut self, name: Box<str>, pod: &PodHead) -> Vec<WorkItem> {
        let mark = PodSummary {
            node: pod
                .spec
                .node_name
                .as_deref()
                .filter(|n| !n.is_empty())
                .map(Arc::from),
            phase: Phase::read(&pod.status.phase),
            ready: pod
                .status
                .conditions
                .iter()
                .any(|c| c.kind == "Ready" && c.status == "True"),
            leaving: pod.metadata.deletion_timestamp.is_some(),
            daemon: pod
                .metadata
                .owner_references
                .iter()
                .any(|o| o.kind == "DaemonSet"),
        };
        let verdict = pod
            .status
            .conditions
            .iter()
            .find(|c| c.kind == "PodScheduled");
        let refused = verdict.is_some_and(|c| c.status == "False" && c.reason == "Unschedulable");
        let fresh = self.plans_unattempted && verdict.is_none() && pod.is_for_kube_scheduler();
        let waits = mark.node.is_none()
            && !mark.ended()
            && !mark.leaving
            && !mark.daemon
            && (refused || fresh);
        let mut touched = Vec::new();
        let old = self.all.get(&name);
        if let Some(node) = &mark.node
            && !mark.daemon
            && old.is_none_or(|old| !mark.is_unchanged(old))
        {
            touched.push(WorkItem::PodEvent(node.to_string()));
        }
        if let Some(old) = old {
            let bound = (old.node.is_none() && mark.node.is_some() && !mark.ended())
                .then_some(PodStage::Bound);
            let runs = (old.phase == Phase::Pending && mark.phase == Phase::Running)
                .then_some(PodStage::Running);
            let room = MAX_MILESTONES.saturating_sub(self.transitions.len());
            for what in bound.into_iter().chain(runs).take(room) {
                let dynamic = !pod.spec.resource_claims.is_empty();
                let created = pod.metadata.creation_timestamp.clone();
                self.transitions.push(PodTransition {
                    what,
                    pod: name.clone(),
                    created,
                    dynamic,
                });
            }
        }
        if waits {
            let nominated = !pod.status.nominated_node_name.is_empty();
            let before = self.pending.get(&name);
            if before.is_none() {
                touched.push(WorkItem::Pending);
            }
            if before.is_none_or(|before| before.nominated != nominated) {
                self.waits_changed.push((name.clone(), Some(nominated)));
            }
            let known = before
                .filter(|before| before.refused == refused)
                .map(|before| before.queued);
            let queued =
                known.unwrap_or_else(|| pod.metadata.resource_version.parse().unwrap_or(0));
            let words = verdict.filter(|_| refused).map_or("", |said| &said.message);
            self.pending.insert(
                name.clone(),
                Waiting {
                    words: words.chars().take(MAX_WORDS_CHARS).collect(),
                    nominated,
                    refused,
                    queued,
                },
            );
        } else if self.pending.remove(&name).is_some() {
            self.waits_changed.push((name.clone(), None));
        }
        self.all.insert(name, mark);
        touched
    }
}

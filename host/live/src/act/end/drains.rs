//! What is known of nodes that are being drained: their pods, refused evictions, and attached
//! volumes. `termination/evictions.rs` decides which pod is evicted, and how long it may stay.
//!
//! The pods of a node are listed once when its drain begins, and updated from the watch afterwards.
//! A watch may lag, so the higher version of two copies of a pod wins (Kubernetes promises since
//! 1.35 that versions of a kind are ordered numbers). Details are kept only for nodes that are
//! being deleted. For volumes, only the node that each is attached to is kept. Nothing here has to
//! outlive the process: its successor lists again.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_api::crd::Timestamp;
use serde::Deserialize;
use tokio::time::Instant;

use super::termination::pod::DrainingPod;
use crate::observe::watch::Change;
use crate::process::lock::lock;
use longshore_api::kinds::ObjectKind;

/// A node that still has pods is listed again after this long, in case that the watch has lost
/// something.
const POD_LIST_INTERVAL: Duration = Duration::from_secs(60);
/// The cloud is asked this often whether the instance of a node that is not ready is gone.
const INSTANCE_CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// How soon a pod is evicted again after it refused for the first time; doubled each time, up to
/// [`MAX_EVICTION_RETRY`].
const MIN_EVICTION_RETRY: Duration = Duration::from_millis(100);
/// Longest wait before a pod is evicted again.
const MAX_EVICTION_RETRY: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Drains(Mutex<DrainTables>);

#[derive(Default)]
struct DrainTables {
    /// Drains under way, by name of their node.
    nodes: BTreeMap<String, Drain>,
    /// The node of each pod that is kept, by the pod's `namespace/name`.
    node_of: HashMap<String, String>,
    /// Pods that are kept and were named by the list of pods that is being read.
    listing: Option<HashSet<String>>,
    attachments: BTreeMap<String, Attachment>,
    /// Names of attachments by node.
    attached: BTreeMap<String, BTreeSet<String>>,
    /// Attachments that were named by the list that is being read.
    listing_attachments: Option<HashSet<String>>,
}

/// The drain of one node.
#[derive(Default)]
struct Drain {
    /// UID of the node.
    uid: String,
    /// By `namespace/name`.
    pods: BTreeMap<String, Arc<DrainingPod>>,
    /// When its pods were listed last.
    listed: Option<Instant>,
    /// UIDs of pods that have ended since a pending list was requested.
    gone: Option<HashSet<String>>,
    /// How pods were asked, by UID.
    tries: HashMap<String, BTreeMap<PodRequest, Try>>,
    /// When its taint was first seen.
    closed: Option<Instant>,
    /// When its instance was last requested from the cloud.
    asked_cloud: Option<Instant>,
    /// Volumes of claims, by `namespace/name` of the claim; nothing while a claim is not bound.
    volumes: HashMap<String, (Option<String>, Instant)>,
}

/// What is asked of a pod. Each has its own backoff: a refused eviction does not delay a pod whose
/// grace period ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PodRequest {
    /// To leave, if its disruption budget allows it.
    Evict,
    /// Deletes the pod, whatever its disruption budget says.
    Delete,
}

/// How a pod was asked.
#[derive(Default)]
struct Try {
    /// How often it refused in a row.
    refusals: u32,
    /// When it may be asked again.
    next: Option<Instant>,
    /// Why it refused last, empty for its budget.
    why: String,
}

/// A volume on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Name of the VolumeAttachment object.
    pub name: String,
    node: String,
    /// Name of the PersistentVolume, if it is one.
    pub volume: Option<String>,
}

impl Drains {
    /// Folds a change from a watch. Returns the nodes whose drains have changed.
    pub fn observe(&self, kind: ObjectKind, change: &Change) -> Vec<String> {
        match kind {
            ObjectKind::Pod => lock(&self.0).pod(change),
            ObjectKind::VolumeAttachment => lock(&self.0).attachment(change),
            _ => Vec::new(),
        }
    }

    /// A node is being drained: from now on its pods are kept.
    pub fn begin(&self, node: &str, uid: &str) {
        let mut known = lock(&self.0);
        if known.nodes.get(node).is_none_or(|drain| drain.uid != uid) {
            known.forget(node);
            known.nodes.insert(
                node.to_owned(),
                Drain {
                    uid: uid.to_owned(),
                    ..Drain::default()
                },
            );
        }
    }

    /// A node is not drained (any more).
    pub fn end(&self, node: &str) {
        lock(&self.0).forget(node);
    }

    /// How long this process has seen a node with the taint that keeps kube-scheduler away.
    pub fn seen_closed(&self, node: &str, now: Instant) -> Duration {
        let mut known = lock(&self.0);
        let closed = known
            .nodes
            .get_mut(node)
            .map(|drain| *drain.closed.get_or_insert(now));
        closed.map_or(Duration::ZERO, |closed| {
            now.saturating_duration_since(closed)
        })
    }

    /// Whether the pods of a node have to be listed.
    pub fn wants_list(&self, node: &str, now: Instant) -> bool {
        let known = lock(&self.0);
        known
            .nodes
            .get(node)
            .is_none_or(|drain| match drain.listed {
                Some(at) => !drain.pods.is_empty() && now >= at + POD_LIST_INTERVAL,
                None => true,
            })
    }

    /// A list of the pods of a node is asked for.
    pub fn lists(&self, node: &str) {
        if let Some(drain) = lock(&self.0).nodes.get_mut(node) {
            drain.gone = Some(HashSet::new());
        }
    }

    /// The pods of a node were listed. What the watch has brought since is newer and stays.
    pub fn listed(&self, node: &str, pods: Vec<DrainingPod>, version: &str, now: Instant) {
        let mut known = lock(&self.0);
        let Some(drain) = known.nodes.get_mut(node) else {
            return;
        };
        let gone = drain.gone.take().unwrap_or_default();
        let version: Option<u64> = version.parse().ok();
        let named: HashSet<String> = pods.iter().map(DrainingPod::full).collect();
        let newer = |pod: &DrainingPod| {
            pod.version()
                .zip(version)
                .is_some_and(|(pod, list)| pod > list)
        };
        let lost: Vec<String> = drain
            .pods
            .iter()
            .filter(|(name, pod)| !named.contains(*name) && !newer(pod))
            .map(|(n, _)| n.clone())
            .collect();
        drain.listed = Some(now);
        lost.iter().for_each(|name| known.drop_pod(name));
        for pod in pods.into_iter().filter(|pod| !gone.contains(pod.uid())) {
            known.keep(node, pod);
        }
    }

    /// The pods of a node; nothing before they have been listed.
    pub fn pods(&self, node: &str) -> Option<Vec<Arc<DrainingPod>>> {
        let known = lock(&self.0);
        let drain = known
            .nodes
            .get(node)
            .filter(|drain| drain.listed.is_some())?;
        Some(drain.pods.values().cloned().collect())
    }

    /// Whether a pod may be asked now.
    pub fn may_ask(&self, node: &str, pod: &DrainingPod, ask: PodRequest, now: Instant) -> bool {
        let known = lock(&self.0);
        let next = known.tried(node, pod, ask).and_then(|tried| tried.next);
        next.is_none_or(|next| now >= next)
    }

    /// Pods that stay on a node, `namespace/name`, each with why; nothing of those that were not asked yet.
    pub fn refusing(&self, node: &str, now: Timestamp) -> Vec<(String, String)> {
        let known = lock(&self.0);
        let Some(drain) = known.nodes.get(node) else {
            return Vec::new();
        };
        let why = |pod: &DrainingPod| {
            if pod.held(now) {
                return Some("do-not-disrupt".to_owned());
            }
            let mut tries = drain.tries.get(pod.uid())?.values();
            let refused = tries.find(|tried| tried.refusals > 0)?;
            Some(match refused.why.as_str() {
                "" => "its disruption budget".to_owned(),
                why => why.to_owned(),
            })
        };
        let pods = drain.pods.iter();
        let pods = pods.filter(|(_, pod)| pod.counts(now));
        pods.filter_map(|(name, pod)| Some((name.clone(), why(pod)?)))
            .collect()
    }

    /// Why a pod refused when it was asked last, empty if nothing was said; nothing if it did not.
    pub fn refusal(&self, node: &str, pod: &DrainingPod, ask: PodRequest) -> Option<String> {
        let known = lock(&self.0);
        known
            .tried(node, pod, ask)
            .filter(|tried| tried.refusals > 0)
            .map(|tried| tried.why.clone())
    }

    /// A pod was asked; `refused` says why it does not do it. One that does is asked again only if
    /// much later it still is not going.
    pub fn asked(
        &self,
        node: &str,
        pod: &DrainingPod,
        ask: PodRequest,
        refused: Option<&str>,
        now: Instant,
    ) {
        let mut known = lock(&self.0);
        let Some(drain) = known.nodes.get_mut(node) else {
            return;
        };
        let tried = drain
            .tries
            .entry(pod.uid().to_owned())
            .or_default()
            .entry(ask)
            .or_default();
        tried.refusals = if refused.is_some() {
            tried.refusals.saturating_add(1)
        } else {
            0
        };
        tried.next = Some(now + pause(tried.refusals));
        refused.unwrap_or_default().clone_into(&mut tried.why);
    }

    /// How long until one of the pods of a node may be asked again, if any was asked.
    pub fn next_ask(&self, node: &str, now: Instant) -> Option<Duration> {
        let known = lock(&self.0);
        let tries = known
            .nodes
            .get(node)?
            .tries
            .values()
            .flat_map(BTreeMap::values);
        tries
            .filter_map(|tried| tried.next)
            .filter(|next| *next > now)
            .map(|next| next - now)
            .min()
    }

    /// Whether the cloud may be asked for the instance of a node now; it counts as asked.
    pub fn may_ask_cloud(&self, node: &str, now: Instant) -> bool {
        let mut known = lock(&self.0);
        let Some(drain) = known.nodes.get_mut(node) else {
            return true;
        };
        let may = drain
            .asked_cloud
            .is_none_or(|at| now >= at + INSTANCE_CHECK_INTERVAL);
        if may {
            drain.asked_cloud = Some(now);
        }
        may
    }

    /// What is attached to a node, by name.
    pub fn attachments(&self, node: &str) -> Vec<Attachment> {
        let known = lock(&self.0);
        let names = known.attached.get(node).into_iter().flatten();
        names
            .filter_map(|name| known.attachments.get(name).cloned())
            .collect()
    }

    /// The volume of a claim, if that was asked already: what is bound stays bound, what is not is
    /// asked again later.
    pub fn volume(&self, node: &str, claim: &str, now: Instant) -> Option<Option<String>> {
        let known = lock(&self.0);
        let (volume, asked) = known.nodes.get(node)?.volumes.get(claim)?;
        (volume.is_some() || now < *asked + MAX_EVICTION_RETRY).then(|| volume.clone())
    }

    /// The volume of a claim was asked for.
    pub fn note_volume(&self, node: &str, claim: &str, volume: Option<String>, now: Instant) {
        if let Some(drain) = lock(&self.0).nodes.get_mut(node) {
            drain.volumes.insert(claim.to_owned(), (volume, now));
        }
    }
}

/// How long a pod is left alone after it has been asked.
fn pause(refusals: u32) -> Duration {
    match refusals.checked_sub(1) {
        Some(before) => (MIN_EVICTION_RETRY * (1 << before.min(10))).min(MAX_EVICTION_RETRY),
        None => MAX_EVICTION_RETRY,
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PodHead {
    metadata: Head,
    spec: PodSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Head {
    name: String,
    namespace: String,
    uid: String,
}

impl Head {
    fn full(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AttachmentWire {
    metadata: Head,
    spec: AttachmentSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct AttachmentSpec {
    node_name: String,
    source: Source,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Source {
    persistent_volume_name: Option<String>,
}

impl DrainTables {
    fn tried(&self, node: &str, pod: &DrainingPod, ask: PodRequest) -> Option<&Try> {
        self.nodes.get(node)?.tries.get(pod.uid())?.get(&ask)
    }

    fn pod(&mut self, change: &Change) -> Vec<String> {
        if self.nodes.is_empty() {
            self.listing = None;
            return Vec::new();
        }
        match change {
            Change::Begin => self.listing = Some(HashSet::new()),
            Change::Upsert(json) => return self.see(json),
            Change::Remove(json) => {
                let Ok(PodHead { metadata, .. }) = serde_json::from_str(json) else {
                    return Vec::new();
                };
                return self.lose(&metadata);
            }
            Change::End => {
                let Some(listed) = self.listing.take() else {
                    return Vec::new();
                };
                let lost: Vec<String> = self
                    .node_of
                    .keys()
                    .filter(|name| !listed.contains(*name))
                    .cloned()
                    .collect();
                let touched: BTreeSet<String> = lost
                    .iter()
                    .filter_map(|name| self.node_of.get(name).cloned())
                    .collect();
                lost.iter().for_each(|name| self.drop_pod(name));
                return touched.into_iter().collect();
            }
            Change::Failed(_) | Change::Recovered | Change::Version => {}
        }
        Vec::new()
    }

    fn see(&mut self, json: &str) -> Vec<String> {
        let Ok(PodHead { metadata, spec }) = serde_json::from_str(json) else {
            return Vec::new();
        };
        let (name, node) = (metadata.full(), spec.node_name);
        let mut touched = Vec::new();
        // The name belongs to a pod on another node by now.
        if let Some(was) = self.node_of.get(&name).filter(|was| **was != node) {
            touched.push(was.clone());
            self.drop_pod(&name);
        }
        let Some(drain) = self.nodes.get_mut(&node) else {
            return touched;
        };
        match serde_json::from_str::<DrainingPod>(json) {
            Ok(pod) => self.keep(&node, pod),
            // The list will say what is wrong with it.
            Err(_) => drain.listed = None,
        }
        touched.push(node);
        touched
    }

    /// Keeps a pod of a node that is drained, unless a newer copy is known.
    fn keep(&mut self, node: &str, pod: DrainingPod) {
        let Some(drain) = self.nodes.get_mut(node) else {
            return;
        };
        let name = pod.full();
        if let Some(listing) = &mut self.listing {
            listing.insert(name.clone());
        }
        let known = drain.pods.get(&name);
        let older = known.is_some_and(|known| {
            pod.version()
                .zip(known.version())
                .is_some_and(|(new, old)| new < old)
        });
        if !older {
            if let Some(known) = known.filter(|known| known.uid() != pod.uid()) {
                drain.tries.remove(known.uid());
            }
            drain.pods.insert(name.clone(), Arc::new(pod));
            self.node_of.insert(name, node.to_owned());
        }
    }

    /// Forgets a pod that has gone. Returns the node that it was drained from, if any.
    fn lose(&mut self, head: &Head) -> Vec<String> {
        for drain in self.nodes.values_mut() {
            if let Some(gone) = &mut drain.gone {
                gone.insert(head.uid.clone());
            }
        }
        let name = head.full();
        let Some(node) = self.node_of.get(&name).cloned() else {
            return Vec::new();
        };
        let known = self
            .nodes
            .get(&node)
            .and_then(|drain| drain.pods.get(&name));
        if known.is_some_and(|known| known.uid() != head.uid && !head.uid.is_empty()) {
            return Vec::new();
        }
        self.drop_pod(&name);
        vec![node]
    }

    fn drop_pod(&mut self, name: &str) {
        let Some(node) = self.node_of.remove(name) else {
            return;
        };
        let Some(drain) = self.nodes.get_mut(&node) else {
            return;
        };
        if let Some(pod) = drain.pods.remove(name) {
            drain.tries.remove(pod.uid());
        }
    }

    fn forget(&mut self, node: &str) {
        let Some(drain) = self.nodes.remove(node) else {
            return;
        };
        drain
            .pods
            .keys()
            .for_each(|name| drop(self.node_of.remove(name)));
    }

    fn attachment(&mut self, change: &Change) -> Vec<String> {
        match change {
            Change::Begin => self.listing_attachments = Some(HashSet::new()),
            Change::Upsert(json) => {
                let Ok(AttachmentWire { metadata, spec }) = serde_json::from_str(json) else {
                    return Vec::new();
                };
                let name = metadata.name;
                if let Some(listing) = &mut self.listing_attachments {
                    listing.insert(name.clone());
                }
                let mut touched = self.detach(&name);
                touched.push(spec.node_name.clone());
                self.attached
                    .entry(spec.node_name.clone())
                    .or_default()
                    .insert(name.clone());
                let volume = spec.source.persistent_volume_name;
                self.attachments.insert(
                    name.clone(),
                    Attachment {
                        name,
                        node: spec.node_name,
                        volume,
                    },
                );
                return self.drained(touched);
            }
            Change::Remove(json) => {
                let Ok(AttachmentWire { metadata, .. }) = serde_json::from_str(json) else {
                    return Vec::new();
                };
                let touched = self.detach(&metadata.name);
                return self.drained(touched);
            }
            Change::End => {
                let Some(listed) = self.listing_attachments.take() else {
                    return Vec::new();
                };
                let lost: Vec<String> = self
                    .attachments
                    .keys()
                    .filter(|name| !listed.contains(*name))
                    .cloned()
                    .collect();
                let touched = lost.iter().flat_map(|name| self.detach(name)).collect();
                return self.drained(touched);
            }
            Change::Failed(_) | Change::Recovered | Change::Version => {}
        }
        Vec::new()
    }

    /// Forgets an attachment. Returns its node.
    fn detach(&mut self, name: &str) -> Vec<String> {
        let Some(Attachment { node, .. }) = self.attachments.remove(name) else {
            return Vec::new();
        };
        if let Some(names) = self.attached.get_mut(&node) {
            names.remove(name);
            if names.is_empty() {
                self.attached.remove(&node);
            }
        }
        vec![node]
    }

    /// Those of some nodes that are being drained, each once.
    fn drained(&self, mut nodes: Vec<String>) -> Vec<String> {
        nodes.retain(|node| self.nodes.contains_key(node));
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

//! The state of the cluster: observations folded into indexes.
//!
//! There are two views of the same objects. The [`Store`] holds what planning needs, interned.
//! Beside it are NodeClaims, NodePools and nodes with the fields that steps need. Folding returns
//! the objects that an observation touches ([`WorkItem`]), so that only these are reconciled. An
//! unreadable object leaves the last good version in place and is reported. Two kinds are different:
//! an unreadable pod holds its node, and nothing is bought with a NodePool that cannot be read.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use longshore_api::crd::{Condition, ConditionStatus, NodeClaim, NodeOverlay, NodePool, condition};
use longshore_api::manifests::{Diagnostic, Frozen, Store};
use longshore_core::disrupt::static_capacity::removal_order;
use longshore_core::model::{self, ClusterObjects, Records, Symbol, Symbols};
use longshore_core::snapshot::useless_purchases;

use super::kinds::Kind;
use super::node::NodeView;
use super::node_claim::pool_of;
use super::overlays::OverlaySet;
use super::planned_pods::{PLANNED_PODS, planned_pods};
pub use super::pod_latency::PodStage;
use super::watch::Change;
use crate::live::process::mutants::mutant;
use crate::managed::Managed;
use crate::node_classes;

mod class;
pub mod cost;
mod head;
mod managed;
mod metrics_snapshot;
mod type_table;

pub use class::Class;
use class::NodeClass;
use head::{PodHead, full, head};
pub use metrics_snapshot::{ClassView, MetricsSnapshot, NodeTotals, PodRow};
#[cfg(test)]
pub use type_table::TypeRow;
pub use type_table::{OfferingRow, TypeTable};

/// An object to reconcile.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WorkItem {
    /// A NodeClaim.
    Claim(String),
    Node(String),
    /// A NodePool.
    Pool(String),
    /// A NodeOverlay.
    Overlay(String),
    /// A command of disruption.
    Command(String),
    /// A pod that waits for a node.
    Pending,
    /// A pod was bound to a node, ended or began to go, there.
    PodEvent(String),
}

/// What is known at a moment. Copies nothing until its world is asked for.
pub struct FrozenState {
    objects: Frozen,
    managed: Option<Managed>,
    /// NodePools whose class is missing.
    without_class: Vec<Symbol>,
    /// NodeOverlays.
    pub overlays: OverlaySet,
}

impl FrozenState {
    /// A copy of the objects to plan on; the caller sets `now`, settings and catalogue.
    pub fn world(self) -> ClusterObjects {
        let mut world = self.objects.world();
        if let Some(managed) = self.managed {
            managed.enter(&mut world);
        }
        for pool in world.pools.iter_mut() {
            if self.without_class.contains(&pool.name) {
                pool.ready = Some(false);
            }
        }
        node_classes::tie_pools(&mut world);
        world
    }
}

/// An object that could not be taken in, or not all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    pub kind: Kind,
    pub name: String,
    pub why: String,
    /// The object counts but for what cannot be read.
    pub is_kept: bool,
}

/// The cluster as the watches tell of it, and what follows from it.
#[derive(Default)]
pub struct ClusterState {
    store: Store,
    /// What is managed; all that there is where nothing else is said.
    pub managed: Option<Managed>,
    /// Names of what other providers manage.
    foreign: managed::Foreign,
    /// Managed NodeClaims by name.
    pub claims: BTreeMap<String, Arc<NodeClaim>>,
    /// Managed NodePools by name.
    pub pools: BTreeMap<String, Arc<NodePool>>,
    /// NodeOverlays.
    pub overlays: OverlaySet,
    /// Nodes by name.
    pub nodes: BTreeMap<String, Arc<NodeView>>,
    /// What node classes say of themselves.
    classes: BTreeMap<(Kind, String), NodeClass>,
    /// Names that what can be bought is written with.
    offered: Vec<String>,
    /// Names of nodes by provider ID.
    by_provider: BTreeMap<String, BTreeSet<String>>,
    /// Names of claims by provider ID.
    claims_by_provider: BTreeMap<String, BTreeSet<String>>,
    /// Names of the claims that pods were planned for, by pod.
    claims_by_pod: HashMap<Box<str>, Vec<Arc<str>>>,
    /// Nodes that are being deleted.
    deleting: BTreeSet<String>,
    pods: HashMap<Box<str>, PodSummary>,
    /// Pods that wait for a node.
    pending: BTreeMap<Box<str>, Waiting>,
    /// Whether pods that kube-scheduler has not tried yet (no condition PodScheduled) wait as well:
    /// `new-pods` of the configuration.
    pub plans_unattempted: bool,
    /// What happened to pods that wait since this was last asked: whether a node is nominated,
    /// nothing if they wait no longer.
    waits_changed: Vec<(Box<str>, Option<bool>)>,
    /// Transitions of pods since the last read, if they are read at all.
    transitions: Vec<PodTransition>,
    /// NodeClaims that have gone until they are read.
    claims_gone: Vec<Arc<NodeClaim>>,
    /// Generations of what nodes are bought with, and their changes until they are read.
    generations: BTreeMap<(Kind, Box<str>), i64>,
    spec_changes: Vec<SpecChange>,
    /// Changed conditions of Nodes until they are read: old and new.
    condition_changes: Vec<(Option<Condition>, Condition)>,
    /// Known names by kind, so that a list shows which objects are gone. Pods have their own map.
    known: BTreeMap<Kind, BTreeSet<Box<str>>>,
    /// Names seen in the list that is being read.
    seen: BTreeMap<Kind, HashSet<Box<str>>>,
    listed: BTreeSet<Kind>,
    /// Kinds that are not watched.
    unwatched: BTreeSet<Kind>,
    /// Objects that cannot be read, or not all of them, and why.
    unreadable: BTreeMap<(Kind, Box<str>), String>,
    troubles: BTreeMap<Kind, String>,
    /// Goes up with every change.
    pub revision: u64,
}

/// Most objects that are remembered as unreadable, to be named.
const MAX_UNREADABLE: usize = 1000;

/// Most characters of kube-scheduler's words on a pod that are kept.
const MAX_WORDS_CHARS: usize = 500;

/// Limit of unread transitions; a replay never reads them.
const MAX_MILESTONES: usize = 4096;

/// A pod that waits for a node.
struct Waiting {
    /// kube-scheduler's own words, if it has tried it in vain; at most [`MAX_WORDS_CHARS`] of them.
    words: Box<str>,
    /// It is nominated to a node.
    nominated: bool,
    /// kube-scheduler has tried it in vain; others have not been tried yet.
    refused: bool,
    /// The version of the object that it came into kube-scheduler's queue with: when it was made,
    /// or tried.
    queued: u64,
}

/// What is kept of a pod beside the store.
#[derive(Clone, PartialEq, Eq, Default)]
struct PodSummary {
    node: Option<Arc<str>>,
    phase: Phase,
    ready: bool,
    leaving: bool,
    daemon: bool,
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
    /// As Kubernetes writes it.
    pub fn text(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Running => "Running",
            Phase::Succeeded => "Succeeded",
            Phase::Failed => "Failed",
            Phase::Unknown => "Unknown",
        }
    }

    fn read(text: &str) -> Self {
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
    fn ended(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Whether it is as before for its node.
    fn is_unchanged(&self, old: &PodSummary) -> bool {
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

/// A NodePool, NodeClass or NodeOverlay that is another one than before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecChange {
    pub kind: Kind,
    pub name: Box<str>,
    /// Its generation before; nothing if it is new.
    pub before: Option<i64>,
    /// Its generation now; nothing if it is gone.
    pub now: Option<i64>,
}

impl SpecChange {
    /// `generation 2, was 1`
    pub fn text(&self) -> String {
        match (self.before, self.now) {
            (Some(before), Some(now)) => format!("generation {now}, was {before}"),
            (None, _) => "created".to_owned(),
            (Some(_), None) => "deleted".to_owned(),
        }
    }
}

impl ClusterState {
    /// Nothing known yet; `names` is the table that the catalogue was read with.
    pub fn new(names: Symbols) -> Self {
        ClusterState {
            store: Store::with_names(names),
            ..ClusterState::default()
        }
    }

    /// Waits for no list of a kind: it is not watched.
    pub fn leave_out(&mut self, kind: Kind) {
        self.unwatched.insert(kind);
    }

    /// Folds a change in. Returns what it touches and the object that it could not read, if so.
    pub fn fold(&mut self, kind: Kind, change: &Change) -> (Vec<WorkItem>, Option<Refused>) {
        match change {
            Change::Recovered => {
                self.troubles.remove(&kind);
                return (Vec::new(), None);
            }
            Change::Version => return (Vec::new(), None),
            _ => {}
        }
        self.revision += 1;
        match change {
            Change::Recovered | Change::Version => (Vec::new(), None),
            Change::Begin => {
                self.seen.insert(kind, HashSet::new());
                (Vec::new(), None)
            }
            Change::Upsert(json) => self.upsert(kind, json),
            Change::Remove(json) => (
                self.remove(kind, &full(&head(json).unwrap_or_default())),
                None,
            ),
            Change::End => {
                self.troubles.remove(&kind);
                self.listed.insert(kind);
                let seen = self.seen.remove(&kind).unwrap_or_default();
                let mut gone: Vec<Box<str>> = match kind {
                    _ if mutant("keeps-gone") => Vec::new(),
                    Kind::Pod => self
                        .pods
                        .keys()
                        .filter(|name| !seen.contains(*name))
                        .cloned()
                        .collect(),
                    _ => self
                        .known
                        .entry(kind)
                        .or_default()
                        .iter()
                        .filter(|n| !seen.contains(*n))
                        .cloned()
                        .collect(),
                };
                gone.sort_unstable();
                (
                    gone.iter()
                        .flat_map(|name| self.remove(kind, name))
                        .collect(),
                    None,
                )
            }
            Change::Failed(why) => {
                self.troubles.insert(kind, why.clone());
                (Vec::new(), None)
            }
        }
    }

    /// Every kind that planning cannot do without has been listed once.
    pub fn synced(&self) -> bool {
        let at_least = if mutant("trusts-cache") {
            &Kind::ALL[..1]
        } else {
            &Kind::ALL
        };
        let is_known = |kind: &Kind| self.listed.contains(kind) || self.unwatched.contains(kind);
        at_least.iter().all(is_known)
    }

    /// What cannot be listed or watched now, in words.
    pub fn troubles(&self) -> impl Iterator<Item = (Kind, &str)> {
        self.troubles
            .iter()
            .map(|(kind, why)| (*kind, why.as_str()))
    }

    /// Why a kind cannot be listed or watched now, if so.
    pub fn trouble(&self, kind: Kind) -> Option<&str> {
        self.troubles.get(&kind).map(String::as_str)
    }

    /// Objects that cannot be read, or not all of them, and why.
    pub fn unreadable(&self) -> impl Iterator<Item = (Kind, &str, &str)> {
        let all = self.unreadable.iter();
        all.map(|((kind, name), why)| (*kind, &**name, why.as_str()))
    }

    /// Why nothing may be bought with a NodePool, if its spec cannot be read.
    pub fn pool_fault(&self, pool: &str) -> Option<&str> {
        // One whose default counts is in the store.
        let why = self.unreadable.get(&(Kind::NodePool, pool.into()))?;
        let names = &self.store.unsorted().names;
        let name = names.get(pool);
        let is_read = name.is_some_and(|name| {
            let mut pools = self.store.unsorted().pools.iter();
            pools.any(|pool| pool.name == name)
        });
        (!is_read).then_some(why)
    }

    /// Whether a CSI driver runs on a node.
    pub fn has_csi_drivers(&self) -> bool {
        let mut nodes = self.store.unsorted().csi_nodes.iter();
        nodes.any(|node| !node.drivers.is_empty())
    }

    /// How many pods wait for a node.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether a pod, `namespace/name`, exists.
    pub fn has_pod(&self, name: &str) -> bool {
        self.pods.contains_key(name)
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

    /// NodeClaims that have gone since this was last asked, as they were.
    pub fn claims_gone(&mut self) -> Vec<Arc<NodeClaim>> {
        std::mem::take(&mut self.claims_gone)
    }

    /// What nodes are bought with and is another one since this was last asked.
    pub fn spec_changes(&mut self) -> Vec<SpecChange> {
        std::mem::take(&mut self.spec_changes)
    }

    /// Conditions of Nodes that have changed since this was last asked, as they were and as they
    /// are.
    pub fn condition_changes(&mut self) -> Vec<(Option<Condition>, Condition)> {
        std::mem::take(&mut self.condition_changes)
    }

    /// Whether a node is being deleted whose pods need another place. Who ends another provider's node
    /// has one.
    pub fn any_node_leaves(&self) -> bool {
        let nodes = self.deleting.iter().filter_map(|name| self.nodes.get(name));
        let mut nodes = nodes.filter(|node| !self.is_of_others(node));
        nodes.next().is_some()
    }

    /// The name of the only node of a provider ID.
    pub fn node_name_of(&self, provider_id: &str) -> Option<&str> {
        let names = self
            .by_provider
            .get(provider_id)
            .filter(|names| names.len() == 1)?;
        names.first().map(String::as_str)
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

    /// A NodePool and its node class as they are now, by their digest.
    pub fn given_of(&self, pool: &str) -> u64 {
        let world = self.store.unsorted();
        let name = world.names.get(pool);
        let record = name.and_then(|name| world.pools.iter().find(|pool| pool.name == name));
        record.map_or(0, |pool| useless_purchases::given_of(world, pool))
    }

    /// Names of the claims that a pod was planned for.
    pub fn claims_planned_for(&self, pod: &str) -> impl Iterator<Item = &str> {
        let claims = self.claims_by_pod.get(pod).into_iter().flatten();
        claims.map(|claim| &**claim)
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

    /// What is known of a node class.
    pub fn class(&self, kind: &str, name: &str) -> Class {
        let known =
            Kind::of_class(kind).and_then(|kind| self.classes.get(&(kind, name.to_owned())));
        known.map_or(Class::Missing, |known| known.class.clone())
    }

    /// The generation of a node class.
    pub fn class_generation(&self, kind: &str, name: &str) -> Option<i64> {
        let kind = Kind::of_class(kind)?;
        self.classes.get(&(kind, name.to_owned()))?.generation
    }

    /// How many pods are known.
    pub fn pods(&self) -> usize {
        self.pods.len()
    }

    /// Nodes of a provider ID.
    pub fn nodes_of(&self, provider_id: &str) -> Vec<Arc<NodeView>> {
        let names = self.by_provider.get(provider_id).into_iter().flatten();
        names
            .filter_map(|name| self.nodes.get(name).cloned())
            .collect()
    }

    /// The claim that a node belongs to.
    pub fn claim_of(&self, node: &NodeView) -> Vec<Arc<NodeClaim>> {
        let names = self
            .claims_by_provider
            .get(&node.provider_id)
            .into_iter()
            .flatten();
        names
            .filter_map(|name| self.claims.get(name).cloned())
            .collect()
    }

    /// The table of names, which has those of the catalogue.
    pub fn names(&self) -> &Symbols {
        &self.store.unsorted().names
    }

    /// NodePools as records, with symbols of [`ClusterState::names`].
    pub fn pool_records(&self) -> Records<model::NodePool> {
        self.store.unsorted().pools.clone()
    }

    /// Names of a NodePool's claims in the order in which scale-down takes them; `now` in seconds
    /// since 1970.
    pub fn removal_order(&self, pool: &str, now: i64) -> Vec<String> {
        let world = self.store.unsorted();
        let order = world
            .names
            .get(pool)
            .map(|pool| removal_order(world, pool, now));
        let text = |name| world.names.text(name).to_owned();
        order.into_iter().flatten().map(text).collect()
    }

    /// Names of the claims of a NodePool.
    fn claims_of_pool(&self, pool: &str) -> impl Iterator<Item = &String> {
        let own = move |(_, claim): &(&String, &Arc<NodeClaim>)| pool_of(claim) == pool;
        self.claims.iter().filter(own).map(|(name, _)| name)
    }

    /// A cheap snapshot of everything, to plan on another thread.
    pub fn freeze(&self) -> FrozenState {
        let known = self.store.unsorted();
        let text = |sym| known.names.text(sym);
        let missing = known.pools.iter().filter(|pool| {
            self.class(text(pool.class.kind), text(pool.class.name)) == Class::Missing
        });
        FrozenState {
            without_class: missing.map(|pool| pool.name).collect(),
            overlays: self.overlays.clone(),
            managed: self.managed,
            objects: self.store.freeze(),
        }
    }

    /// The same with NodeClaims that are being created: those of these names that are not known yet.
    pub fn freeze_with<'c>(
        &mut self,
        claims: impl Iterator<Item = (&'c str, &'c serde_json::Value)>,
    ) -> FrozenState {
        let at = Kind::NodeClaim.at();
        let unknown: Vec<_> = claims
            .filter(|(name, _)| !self.claims.contains_key(*name))
            .collect();
        for (_, object) in &unknown {
            // What cannot be read is refused by the server as well.
            let _ = self
                .store
                .apply(&at.api_version(), at.kind, &object.to_string());
        }
        let frozen = self.freeze();
        for (name, _) in unknown {
            self.store.remove("karpenter.sh", at.kind, "", name);
        }
        frozen
    }

    fn upsert(&mut self, kind: Kind, json: &str) -> (Vec<WorkItem>, Option<Refused>) {
        let (touched, refused) = self.take_in(kind, json);
        match &refused {
            Some(Refused { name, why, .. }) => {
                // Nothing is bought from a NodePool that cannot be read, however many others cannot.
                if self.unreadable.len() < MAX_UNREADABLE || kind == Kind::NodePool {
                    self.unreadable
                        .insert((kind, name.as_str().into()), why.clone());
                }
            }
            None if self.unreadable.is_empty() => {}
            None => {
                let name = head(json).map(|head| full(&head)).unwrap_or_default();
                self.unreadable.remove(&(kind, name));
            }
        }
        (touched, refused)
    }

    fn take_in(&mut self, kind: Kind, json: &str) -> (Vec<WorkItem>, Option<Refused>) {
        let at = kind.at();
        let refused = |name: &str, why: String| {
            Some(Refused {
                kind,
                name: name.to_owned(),
                why,
                is_kept: false,
            })
        };
        if kind == Kind::Pod {
            let pod: PodHead = match serde_json::from_str(json) {
                Ok(pod) => pod,
                Err(error) => return (Vec::new(), refused("?", error.to_string())),
            };
            let name = full(&pod.metadata);
            let applied = self.store.apply(&at.api_version(), at.kind, json);
            self.note_seen(kind, &name);
            let touched = self.pod(name.clone(), &pod);
            let is_kept = applied.is_ok();
            let problem = applied.unwrap_or_else(Some);
            let refused = problem.map(|problem| Refused {
                kind,
                name: name.to_string(),
                why: why(&problem),
                is_kept,
            });
            return (touched, refused);
        }
        let (name, generation) = match head(json) {
            Ok(head) => (full(&head), head.generation),
            Err(error) => return (Vec::new(), refused("?", error.to_string())),
        };
        self.note_seen(kind, &name);
        self.known.entry(kind).or_default().insert(name.clone());
        if self.is_foreign(kind, json) {
            return (self.take_foreign(kind, &name, json), None);
        }
        self.foreign.forget(kind, &name);
        self.note_generation(kind, &name, generation);
        if kind == Kind::NodeOverlay {
            return match serde_json::from_str::<NodeOverlay>(json) {
                Ok(overlay) => (self.overlay(&name, overlay), None),
                Err(error) => (
                    self.forget_overlay(&name),
                    refused(&name, error.to_string()),
                ),
            };
        }
        let note = match self.store.apply(&at.api_version(), at.kind, json) {
            Ok(problem) => problem.map(|problem| Refused {
                kind,
                name: name.to_string(),
                why: why(&problem),
                is_kept: true,
            }),
            Err(problem) if kind == Kind::NodePool => {
                let touched = self.unreadable_pool(&name, json);
                return (touched, refused(&name, why(&problem)));
            }
            Err(problem) => return (Vec::new(), refused(&name, why(&problem))),
        };
        let name = name.to_string();
        match kind {
            Kind::NodeClaim => match serde_json::from_str::<NodeClaim>(json) {
                Ok(claim) => {
                    self.claim(&name, Some(claim));
                    (vec![WorkItem::Claim(name)], note)
                }
                Err(error) => (Vec::new(), refused(&name, error.to_string())),
            },
            Kind::NodePool => match serde_json::from_str::<NodePool>(json) {
                Ok(pool) => {
                    let pool = Arc::new(pool);
                    let before = self.pools.insert(name.clone(), pool.clone());
                    let more = before
                        .as_ref()
                        .is_none_or(|before| may_buy_more(before, &pool));
                    let mut touched = vec![WorkItem::Pool(name.clone())];
                    touched.extend(more.then_some(WorkItem::Pending));
                    // Its claims are compared with the NodePool, and overlays may name its labels.
                    if before.is_none_or(|before| before.spec != pool.spec) {
                        touched.extend(self.every_overlay());
                        touched.extend(self.claims_of_pool(&name).cloned().map(WorkItem::Claim));
                    }
                    (touched, note)
                }
                Err(error) => (Vec::new(), refused(&name, error.to_string())),
            },
            Kind::Node => match NodeView::read(json) {
                Ok(node) => (self.node(name, node), note),
                Err(error) => (Vec::new(), refused(&name, error)),
            },
            Kind::KwokNodeClass | Kind::Ec2NodeClass => {
                (self.class_changed(kind, name, class::read(json)), None)
            }
            _ => (Vec::new(), note),
        }
    }

    /// A node class, where it is new or another one. Instances are compared with it: one whose image it
    /// names no longer has drifted.
    fn class_changed(&mut self, kind: Kind, name: String, class: NodeClass) -> Vec<WorkItem> {
        let pools = self.pools.keys().cloned().map(WorkItem::Pool);
        let mut touched: Vec<WorkItem> = pools.chain([WorkItem::Pending]).collect();
        let now = class.compared;
        let before = self.classes.insert((kind, name.clone()), class);
        if before.is_some_and(|before| before.compared != now) {
            let of_class = |claim: &NodeClaim| {
                let named = &claim.spec.node_class_ref;
                named.kind == kind.at().kind && named.name == name
            };
            let claims = self.claims.iter().filter(|(_, claim)| of_class(claim));
            touched.extend(claims.map(|(name, _)| WorkItem::Claim(name.clone())));
        }
        touched
    }

    /// Notes whether the spec of an object is another one than before, where nodes are bought with it;
    /// nothing if the object is gone.
    fn note_generation(&mut self, kind: Kind, name: &str, now: Option<i64>) {
        if !matches!(
            kind,
            Kind::NodePool | Kind::NodeOverlay | Kind::KwokNodeClass | Kind::Ec2NodeClass
        ) {
            return;
        }
        let key = (kind, name.into());
        let before = match now {
            Some(now) => self.generations.insert(key, now),
            None => self.generations.remove(&key),
        };
        // What the first list brings is no change.
        let is_news = before.is_some() || (now.is_some() && self.listed.contains(&kind));
        if is_news && before != now && self.spec_changes.len() < MAX_MILESTONES {
            self.spec_changes.push(SpecChange {
                kind,
                name: name.into(),
                before,
                now,
            });
        }
    }

    /// A NodePool that cannot be planned with. Its last version is forgotten, for nobody wants nodes
    /// of it any more; its status will say why.
    fn unreadable_pool(&mut self, name: &str, json: &str) -> Vec<WorkItem> {
        let at = Kind::NodePool.at();
        self.store.remove(at.group, at.kind, "", name);
        match serde_json::from_str::<NodePool>(json) {
            Ok(pool) => drop(self.pools.insert(name.to_owned(), Arc::new(pool))),
            Err(_) => drop(self.pools.remove(name)),
        }
        let pool = WorkItem::Pool(name.to_owned());
        self.every_overlay()
            .chain([pool, WorkItem::Pending])
            .collect()
    }

    /// An object was listed in a version that is not folded; it exists all the same.
    pub fn is_listed(&mut self, kind: Kind, name: &str) {
        self.note_seen(kind, name);
    }

    fn note_seen(&mut self, kind: Kind, name: &str) {
        if let Some(seen) = self.seen.get_mut(&kind) {
            seen.insert(name.into());
        }
    }

    fn pod(&mut self, name: Box<str>, pod: &PodHead) -> Vec<WorkItem> {
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
        let old = self.pods.get(&name);
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
        self.pods.insert(name, mark);
        touched
    }

    /// Keeps a claim, or lets go of it.
    fn claim(&mut self, name: &str, claim: Option<NodeClaim>) {
        let id = |claim: &NodeClaim| {
            claim
                .status
                .as_ref()
                .map(|s| s.provider_id.clone())
                .filter(|id| !id.is_empty())
        };
        let new = claim.as_ref().and_then(id);
        let claim = claim.map(Arc::new);
        let old = match &claim {
            Some(claim) => self.claims.insert(name.to_owned(), claim.clone()),
            None => {
                let gone = self.claims.remove(name);
                let room = MAX_MILESTONES.saturating_sub(self.claims_gone.len());
                self.claims_gone.extend(gone.iter().take(room).cloned());
                gone
            }
        };
        self.planned(name, old.as_deref(), claim.as_deref());
        let old = old.and_then(|claim| id(&claim));
        if old == new {
            return;
        }
        if let Some(old) = old
            && let Some(names) = self.claims_by_provider.get_mut(&old)
        {
            names.remove(name);
            if names.is_empty() {
                self.claims_by_provider.remove(&old);
            }
        }
        if let Some(new) = new {
            self.claims_by_provider
                .entry(new)
                .or_default()
                .insert(name.to_owned());
        }
    }

    /// Notes which pods a claim was planned for; `old` is the claim as it was.
    fn planned(&mut self, name: &str, old: Option<&NodeClaim>, new: Option<&NodeClaim>) {
        let pods = |claim: &NodeClaim| {
            claim
                .metadata
                .annotations
                .as_ref()?
                .get(PLANNED_PODS)
                .cloned()
        };
        if old.and_then(pods) == new.and_then(pods) {
            return;
        }
        for planned in old.into_iter().flat_map(planned_pods) {
            if let Some(claims) = self.claims_by_pod.get_mut(planned.pod) {
                claims.retain(|claim| **claim != *name);
                if claims.is_empty() {
                    self.claims_by_pod.remove(planned.pod);
                }
            }
        }
        let name: Arc<str> = name.into();
        for planned in new.into_iter().flat_map(planned_pods) {
            let claims = self.claims_by_pod.entry(planned.pod.into()).or_default();
            claims.push(name.clone());
        }
    }

    /// Keeps an overlay. Where its spec is another one, every overlay is looked at: it may be in
    /// conflict with this one, or be no longer.
    fn overlay(&mut self, name: &str, overlay: NodeOverlay) -> Vec<WorkItem> {
        if self.overlays.put(name, overlay) {
            return self.overlays_changed();
        }
        vec![WorkItem::Overlay(name.to_owned())]
    }

    fn forget_overlay(&mut self, name: &str) -> Vec<WorkItem> {
        match self.overlays.remove(name) {
            true => self.overlays_changed(),
            false => Vec::new(),
        }
    }

    /// Prices and resources may be others, so that pods may find a place.
    fn overlays_changed(&mut self) -> Vec<WorkItem> {
        self.keep_names();
        self.every_overlay().chain([WorkItem::Pending]).collect()
    }

    /// Makes something with the table of names, see [`Store::make_with_names`].
    pub fn make_with_names<T>(&mut self, make: impl FnOnce(&mut Symbols) -> T) -> (T, usize) {
        self.store.make_with_names(make)
    }

    /// Keeps these names as if an object used them, and no longer those of the last call.
    pub fn keep_offered(&mut self, names: Vec<String>) {
        self.offered = names;
        self.keep_names();
    }

    fn keep_names(&mut self) {
        let offered = self.offered.iter().map(String::as_str);
        self.store
            .keep_names(self.overlays.names_used().chain(offered));
    }

    pub fn every_overlay(&self) -> impl Iterator<Item = WorkItem> {
        self.overlays
            .names()
            .map(str::to_owned)
            .map(WorkItem::Overlay)
    }

    /// Notes conditions of a node that have changed their status, and those of a new node that are
    /// True or False: Karpenter counts them too. Nodes of a list are not new.
    fn note_conditions(&mut self, old: Option<&NodeView>, node: &NodeView) {
        if old.is_none() && self.seen.contains_key(&Kind::Node) {
            return;
        }
        let old = old.map_or(&[][..], |old| &old.conditions);
        let changed = node.conditions.iter().filter_map(|new| {
            let old = condition(old, &new.type_);
            let was = old.map_or(ConditionStatus::Unknown, |old| old.status);
            (was != new.status).then(|| (old.cloned(), new.clone()))
        });
        let room = MAX_MILESTONES.saturating_sub(self.condition_changes.len());
        self.condition_changes.extend(changed.take(room));
    }

    fn node(&mut self, name: String, node: NodeView) -> Vec<WorkItem> {
        let mut touched = vec![WorkItem::Node(name.clone())];
        let old = self.nodes.get(&name).cloned();
        self.note_conditions(old.as_deref(), &node);
        if let Some(old) = old
            && old.provider_id != node.provider_id
            && let Some(names) = self.by_provider.get_mut(&old.provider_id)
        {
            names.remove(&name);
        }
        if !node.provider_id.is_empty() {
            self.by_provider
                .entry(node.provider_id.clone())
                .or_default()
                .insert(name.clone());
        }
        touched.extend(
            self.claim_of(&node)
                .iter()
                .filter_map(|c| c.metadata.name.clone())
                .map(WorkItem::Claim),
        );
        match node.deletion {
            Some(_) => {
                self.deleting.insert(name.clone());
                touched.push(WorkItem::Pending);
            }
            None => drop(self.deleting.remove(&name)),
        }
        self.nodes.insert(name, Arc::new(node));
        touched
    }

    fn remove(&mut self, kind: Kind, name: &str) -> Vec<WorkItem> {
        let at = kind.at();
        let (namespace, plain) = name.split_once('/').unwrap_or(("", name));
        self.store.remove(at.group, at.kind, namespace, plain);
        if let Some(known) = self.known.get_mut(&kind) {
            known.remove(name);
        }
        self.foreign.forget(kind, name);
        self.note_generation(kind, name, None);
        self.unreadable.remove(&(kind, name.into()));
        match kind {
            Kind::Pod => {
                if self.pending.remove(name).is_some() {
                    self.waits_changed.push((name.into(), None));
                }
                let mark = self.pods.remove(name);
                let node = mark
                    .filter(|m| !m.daemon && !m.leaving)
                    .and_then(|m| m.node);
                node.map(|node| WorkItem::PodEvent(node.to_string()))
                    .into_iter()
                    .collect()
            }
            Kind::NodeClaim => {
                self.claim(name, None);
                vec![WorkItem::Claim(name.to_owned()), WorkItem::Pending]
            }
            Kind::NodePool => {
                self.pools.remove(name);
                let pool = WorkItem::Pool(name.to_owned());
                self.every_overlay().chain([pool]).collect()
            }
            Kind::NodeOverlay => self.forget_overlay(name),
            Kind::Node => {
                let old = self.nodes.remove(name);
                self.deleting.remove(name);
                let mut touched = vec![WorkItem::Node(name.to_owned())];
                if let Some(old) = old {
                    if let Some(names) = self.by_provider.get_mut(&old.provider_id) {
                        names.remove(name);
                        if names.is_empty() {
                            self.by_provider.remove(&old.provider_id);
                        }
                    }
                    let claims = self.claim_of(&old);
                    touched.extend(
                        claims
                            .iter()
                            .filter_map(|c| c.metadata.name.clone())
                            .map(WorkItem::Claim),
                    );
                }
                touched
            }
            Kind::KwokNodeClass | Kind::Ec2NodeClass => {
                self.classes.remove(&(kind, name.to_owned()));
                self.pools.keys().cloned().map(WorkItem::Pool).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Whether a NodePool's change could give a place to pods that have none: its spec is another one,
/// it is ready or going otherwise than before, or it has fewer nodes against its limits. That it
/// has more it says after each purchase.
fn may_buy_more(before: &NodePool, now: &NodePool) -> bool {
    let nodes = |pool: &NodePool| pool.status.as_ref().map_or(0, |status| status.nodes);
    let ready = |pool: &NodePool| {
        let conditions = pool
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        condition(conditions, "Ready").map(|ready| ready.status)
    };
    let spec = |pool: &NodePool| {
        (
            pool.metadata.generation,
            pool.metadata.deletion_timestamp.is_some(),
        )
    };
    spec(before) != spec(now) || ready(before) != ready(now) || nodes(now) < nodes(before)
}

/// What is wrong with an object: the field, the reason and a hint.
fn why(problem: &Diagnostic) -> String {
    let Diagnostic {
        field, what, hint, ..
    } = problem;
    let colon = if field.is_empty() { "" } else { ": " };
    let semicolon = if hint.is_empty() { "" } else { "; " };
    format!("{field}{colon}{what}{semicolon}{hint}")
}

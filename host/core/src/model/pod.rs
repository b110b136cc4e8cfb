//! Pods: what differs from one to the next, and the shape that thousands share.

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use super::excess::Excess;
use super::node::TaintEffect;
use super::requirement::Requirement;
use super::resources::Resources;
use super::symbols::{Labels, Symbol};

/// Index of a shape in [`Shapes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ShapeId(pub u32);

/// A pod. Everything that decides where it may run and that replicas share is in its shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// The shape; it carries the namespace.
    pub shape: ShapeId,
    /// `spec.nodeName`.
    pub node: Option<Symbol>,
    /// Names of the PersistentVolumeClaims it mounts, in its namespace; an ephemeral volume's claim
    /// is `<pod>-<volume>`.
    pub claims: Box<[Symbol]>,
    /// The kind and name of the controlling owner.
    pub owner: Option<(Symbol, Symbol)>,
    /// `metadata.creationTimestamp`, seconds since 1970 (0 if absent).
    pub created: i64,
    /// Place in kube-scheduler's queue: it tries the lowest first. A number of the caller's that
    /// tells pods of one second apart, and pods that were tried already; 0 where nothing is known.
    pub queued: u64,
    /// `status.startTime`, seconds since 1970.
    pub started: Option<i64>,
    /// `spec.terminationGracePeriodSeconds`, 30 if absent.
    pub grace: u32,
    /// `status.phase` is Succeeded or Failed.
    pub terminal: bool,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Condition Ready is there, and not True.
    pub unready: bool,
    /// Phase Pending: no container has started. Once it is bound, evictions of it ask no
    /// PodDisruptionBudget.
    pub waits_to_start: bool,
    /// Condition PodScheduled is False with reason Unschedulable.
    pub unschedulable: bool,
    /// kube-scheduler has not tried it yet, and the live loop expects that no existing node takes it.
    /// It is planned for as if it were `unschedulable`. Manifests never say so.
    pub unattempted: bool,
    /// `spec.schedulingGates` is not empty: kube-scheduler does not try it before they are removed.
    pub gated: bool,
    /// `status.nominatedNodeName`: the node on which kube-scheduler or Longshore expects the pod;
    /// the name of a NodeClaim while the node does not exist. While that node exists, the pod
    /// counts as one of its pods.
    pub nominated: Option<Symbol>,
    /// A static (mirror) pod: annotation `kubernetes.io/config.mirror`, or owned by a Node.
    pub is_static: bool,
    /// Its spec asks for dynamic resource claims.
    pub resource_claims: bool,
    /// Annotation `karpenter.sh/do-not-disrupt`.
    pub do_not_disrupt: DoNotDisrupt,
    /// Annotation `karpenter.sh/disruption-cost`, or else `controller.kubernetes.io/pod-deletion-cost`;
    /// 0 without one, or for a value that is no integer of 32 bits.
    pub deletion_cost: i32,
    /// Why the pod can never be planned, found at the boundary (`matchFields`, an operator unknown
    /// to Kubernetes, …); such a pod is an error of the plan.
    pub invalid: Option<Box<str>>,
    /// It could not be read, [`Pod::invalid`] says why. What it asks for is unknown: it holds the node
    /// that it runs on, as one that is not to be disrupted.
    pub unreadable: bool,
    /// A limit that it passes. It is not planned for, and its shape holds no more than what
    /// concerns others where it runs: what it asks for, labels up to the limit, and required
    /// anti-affinity at least as strict as its own.
    pub excess: Option<Box<Excess>>,
}

/// What annotation `karpenter.sh/do-not-disrupt` of a pod says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum DoNotDisrupt {
    /// Absent, `false` or not understood.
    #[default]
    No,
    /// `true`.
    Always,
    /// A duration in seconds from the pod's start.
    For(u32),
}

impl DoNotDisrupt {
    /// Whether it holds at `now` for a pod that started then; both in seconds since 1970. A duration
    /// has not ended for a pod that has not started.
    pub fn holds(self, started: Option<i64>, now: i64) -> bool {
        match self {
            DoNotDisrupt::No => false,
            DoNotDisrupt::Always => true,
            DoNotDisrupt::For(seconds) => {
                started.is_none_or(|started| now < started.saturating_add(seconds.into()))
            }
        }
    }
}

/// Everything about a pod that decides where it may run and that replicas share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodShape {
    /// `metadata.namespace`.
    pub namespace: Symbol,
    /// `metadata.labels`, all of them (selectors of other pods may read any).
    pub labels: Labels,
    /// The largest sum ever needed at once: containers and sidecars against init containers,
    /// pod-level resources, overhead, and one of `pods`.
    pub requests: Resources,
    /// `spec.nodeSelector` as requirements `In [v]`.
    pub node_selector: Vec<Requirement>,
    /// Terms of required node affinity; a pod without it has none, otherwise one of them must hold.
    pub required: Vec<Vec<Requirement>>,
    /// Terms of preferred node affinity with their weights, as written.
    pub preferred: Vec<(i32, Vec<Requirement>)>,
    /// `spec.tolerations`.
    pub tolerations: Vec<Toleration>,
    /// `spec.topologySpreadConstraints`.
    pub spread: Vec<Spread>,
    /// Required pod affinity.
    pub affinity: Vec<PodTerm>,
    /// Required pod anti-affinity.
    pub anti_affinity: Vec<PodTerm>,
    /// Preferred pod affinity with weights.
    pub preferred_affinity: Vec<(i32, PodTerm)>,
    /// Preferred pod anti-affinity with weights.
    pub preferred_anti_affinity: Vec<(i32, PodTerm)>,
    /// Host ports of its containers.
    pub ports: Vec<HostPort>,
    /// Its priority (`spec.priority`, else that of its PriorityClass, else the default class's,
    /// else 0).
    pub priority: i32,
}

impl PodShape {
    /// The topologyKeys of all its rules.
    pub fn topology_keys(&self) -> impl Iterator<Item = Symbol> {
        let required = self.affinity.iter().chain(&self.anti_affinity);
        let preferred = (self.preferred_affinity.iter()).chain(&self.preferred_anti_affinity);
        let terms = required.chain(preferred.map(|(_, term)| term));
        let spread = self.spread.iter().map(|rule| rule.key);
        spread.chain(terms.map(|term| term.key))
    }

    /// The same, to be changed.
    pub fn topology_keys_mut(&mut self) -> impl Iterator<Item = &mut Symbol> {
        let required = self.affinity.iter_mut().chain(&mut self.anti_affinity);
        let preferred = self.preferred_affinity.iter_mut();
        let preferred = preferred.chain(&mut self.preferred_anti_affinity);
        let terms = required.chain(preferred.map(|(_, term)| term));
        let spread = self.spread.iter_mut().map(|rule| &mut rule.key);
        spread.chain(terms.map(|term| &mut term.key))
    }
}

/// A toleration; absent fields match everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// The taint's key; `None` with `exists` tolerates every taint.
    pub key: Option<Symbol>,
    /// Operator Exists (any value) rather than Equal.
    pub exists: bool,
    /// The taint's value for Equal, the empty string if none was given.
    pub value: Symbol,
    /// The taint's effect; `None` for all.
    pub effect: Option<TaintEffect>,
}

/// Whether nodes that a pod cannot use count for its topology spread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NodeInclusion {
    /// Only nodes that the pod could use count.
    Honor,
    /// All nodes count, whether the pod could use them or not.
    Ignore,
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spread {
    /// `maxSkew`, at least 1.
    pub max_skew: i32,
    /// `topologyKey`.
    pub key: Symbol,
    /// `whenUnsatisfiable: DoNotSchedule`; otherwise ScheduleAnyway.
    pub required: bool,
    /// `labelSelector` with `matchLabelKeys` merged in from the pod's own labels.
    pub selector: LabelSelector,
    /// `minDomains`.
    pub min_domains: Option<i32>,
    /// `nodeAffinityPolicy`, default Honor.
    pub node_affinity: NodeInclusion,
    /// `nodeTaintsPolicy`, default Ignore.
    pub node_taints: NodeInclusion,
}

/// A term of pod affinity or anti-affinity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// `topologyKey`.
    pub key: Symbol,
    /// `labelSelector`, `matchLabelKeys` and `mismatchLabelKeys` merged in.
    pub selector: LabelSelector,
    /// `namespaces`; with no selector and no names the pod's own.
    pub namespaces: Vec<Symbol>,
    /// `namespaceSelector`; present and empty selects all namespaces.
    pub namespace_selector: Option<LabelSelector>,
}

/// A label selector. `None` (absent) selects nothing, an empty list of rules everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct LabelSelector(pub Option<Vec<SelectorRule>>);

/// One rule of a label selector; all must hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SelectorRule {
    /// The label.
    pub key: Symbol,
    /// How the label's value relates to the rule's values.
    pub op: SelectorOp,
}

/// Operators of label selectors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SelectorOp {
    /// One of these (`matchLabels` gives one).
    In(Box<[Symbol]>),
    /// Absent or none of these.
    NotIn(Box<[Symbol]>),
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
}

impl LabelSelector {
    /// Whether these labels are selected.
    pub fn matches(&self, labels: &Labels) -> bool {
        let Some(rules) = &self.0 else { return false };
        rules.iter().all(|rule| {
            let value = labels.get(rule.key);
            match &rule.op {
                SelectorOp::In(values) => value.is_some_and(|v| values.contains(&v)),
                SelectorOp::NotIn(values) => value.is_none_or(|v| !values.contains(&v)),
                SelectorOp::Exists => value.is_some(),
                SelectorOp::DoesNotExist => value.is_none(),
            }
        })
    }
}

/// A port of the host that a container binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// `hostIP`; `None` for all addresses (empty, `0.0.0.0` or `::`).
    pub ip: Option<Symbol>,
    /// `hostPort`.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Symbol,
}

impl HostPort {
    /// Whether both cannot be bound on one host.
    pub fn conflicts(&self, other: &HostPort) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip.is_none() || other.ip.is_none())
    }
}

/// The distinct pod shapes.
#[derive(Clone, Debug, Default)]
pub struct Shapes {
    /// Copies share it until a shape is new to one of them.
    table: Arc<IndexSet<Arc<PodShape>, FxBuildHasher>>,
}

impl Shapes {
    /// The id of a shape, making one if it is new.
    pub fn intern(&mut self, shape: PodShape) -> ShapeId {
        if let Some(at) = self.table.get_index_of(&shape) {
            return ShapeId(at as u32);
        }
        ShapeId(
            Arc::make_mut(&mut self.table)
                .insert_full(Arc::new(shape))
                .0 as u32,
        )
    }

    /// All shapes, in order, while their identities change.
    pub(super) fn take(&mut self) -> Vec<PodShape> {
        let all = Arc::make_mut(&mut self.table).drain(..);
        all.map(Arc::unwrap_or_clone).collect()
    }

    /// Puts them back. Each still has to be different from the others.
    pub(super) fn put_back(&mut self, shapes: Vec<PodShape>) {
        Arc::make_mut(&mut self.table).extend(shapes.into_iter().map(Arc::new));
    }

    /// The shape with an id of this table.
    pub fn get(&self, id: ShapeId) -> &PodShape {
        &self.table[id.0 as usize]
    }

    /// All shapes, by id.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &PodShape> {
        self.table.iter().map(|shape| &**shape)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

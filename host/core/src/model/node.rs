//! Nodes and NodeClaims as observed.

use super::pool::NodeClassRef;
use super::requirement::Requirement;
use super::resources::Resources;
use super::symbols::{Labels, Symbol};

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TaintEffect {
    /// Keeps new pods away.
    NoSchedule,
    /// Keeps new pods away where there is another place.
    PreferNoSchedule,
    /// Keeps new pods away and evicts running ones.
    NoExecute,
}

/// A taint of a node or a NodePool, its texts interned: pods are compared with it for every node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Taint {
    /// Key of the taint.
    pub key: Symbol,
    /// Its value, the empty string if none was given.
    pub value: Symbol,
    /// What happens to pods that do not tolerate it.
    pub effect: TaintEffect,
}

/// A Node object.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRecord {
    /// `metadata.name`.
    pub name: Symbol,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `metadata.annotations` whose key is under `karpenter.sh` or `longshore.dev`.
    pub annotations: Labels,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.providerID`.
    pub provider_id: Option<Symbol>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// The taint that kube-scheduler acts by where `spec.unschedulable` is set and `taints` has none
    /// of its kind (yet).
    pub cordon: Option<Taint>,
    /// Features of [`fields`](super::fields) that it declares, by their keys.
    pub features: Vec<Symbol>,
    /// `status.capacity`.
    pub capacity: Resources,
    /// `status.allocatable`.
    pub allocatable: Resources,
    /// Whether condition Ready is True.
    pub ready: bool,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.creationTimestamp`, seconds since 1970 (0 if absent).
    pub created: i64,
}

/// A node with a condition for which its cloud repairs nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct UnhealthyNode {
    /// `metadata.name` of the Node.
    pub node: Symbol,
    /// The condition as `Type=Status`.
    pub condition: Symbol,
    /// What is due; nothing while the condition is tolerated.
    pub due: Option<DueRepair>,
}

/// A repair that is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DueRepair {
    /// Whether the node is replaced or its machine rebooted.
    pub action: RepairAction,
    /// Nodes with a higher score are repaired first: rank of the priority + age in half hours.
    pub score: f64,
    /// For how long its pods may drain, seconds; nothing if its cloud does not bound that.
    pub grace: Option<i64>,
}

/// What repairs a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairAction {
    /// Another node takes its place.
    Replace,
    /// The cloud restarts its machine; Node and NodeClaim stay.
    Reboot,
}

/// A NodeClaim object.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeClaim {
    /// `metadata.name`.
    pub name: Symbol,
    /// `metadata.uid`.
    pub uid: Symbol,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `metadata.annotations` whose key is under `karpenter.sh` or `longshore.dev`.
    pub annotations: Labels,
    /// `spec.requirements`.
    pub requirements: Vec<Requirement>,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.startupTaints`.
    pub startup_taints: Vec<Taint>,
    /// `spec.nodeClassRef`.
    pub class: NodeClassRef,
    /// `spec.terminationGracePeriod`, seconds.
    pub termination_grace: Option<i64>,
    /// `spec.resources.requests`.
    pub requests: Resources,
    /// `status.providerID`.
    pub provider_id: Option<Symbol>,
    /// `status.nodeName`.
    pub node_name: Option<Symbol>,
    /// `status.capacity`.
    pub capacity: Resources,
    /// `status.allocatable`.
    pub allocatable: Resources,
    /// Types of the conditions whose status is True (`Launched`, `Registered`, `Initialized`,
    /// `Drifted`, …).
    pub conditions: Vec<Symbol>,
    /// When condition Initialized became True, seconds since 1970; nothing if it is not, or without
    /// a time.
    pub initialized: Option<i64>,
    /// When condition Drifted became True, seconds since 1970; nothing if it is not, or without a
    /// time.
    pub drifted: Option<i64>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.creationTimestamp`, seconds since 1970 (0 if absent).
    pub created: i64,
}

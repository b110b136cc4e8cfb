//! All observed objects by kind, without indexes: the output of the boundary and the input of a
//! snapshot.

use rustc_hash::FxHashSet;

use super::catalogue::Catalogue;
use super::node::{NodeClaim, NodeRecord, UnhealthyNode};
use super::pod::{LabelSelector, Pod, PodShape, ShapeId, Shapes, Spread};
use super::pool::{NodeClass, NodeClassKind, NodeClassRef, NodePool};
use super::records::Records;
use super::storage::{
    CsiDriver, CsiNode, StorageCapacity, StorageClass, Volume, VolumeAttachment, VolumeClaim,
};
use super::symbols::{Labels, Symbol, Symbols};

/// Labels of zones and regions, in beta and now.
const BETA_TOPOLOGY: [(&str, &str); 2] = [
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
];

/// A topology label that had another name in beta.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BetaLabel {
    /// The name in beta, if anything uses it.
    pub beta: Option<Symbol>,
    /// The stable name, if anything uses it.
    pub stable: Option<Symbol>,
    /// Whether nodes carry the former, or there is no node that could. New ones will then, too.
    pub is_carried: bool,
}

/// Whether preferences of pods are tried before they are given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PreferencePolicy {
    /// A preference is a requirement until the pod would otherwise stay without a node.
    #[default]
    Respect,
    /// Preferred terms and ScheduleAnyway constraints are ignored.
    Ignore,
}

/// What happens where `minValues` of a NodePool cannot be met.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MinValuesPolicy {
    /// The NodePool is refused for the pod.
    #[default]
    Strict,
    /// The number is lowered to the available values.
    BestEffort,
}

/// What an operator sets, as far as planning depends on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Karpenter's PREFERENCE_POLICY.
    pub preferences: PreferencePolicy,
    /// Karpenter's MIN_VALUES_POLICY.
    pub min_values: MinValuesPolicy,
    /// Karpenter's gate ReservedCapacity.
    pub reserved_capacity: bool,
    /// USD per hour that any node costs beside its price: root volume, addresses, agents billed by
    /// the host, and the work that every node makes for the control plane.
    pub node_cost: f64,
    /// Default topology spread constraints (selector empty: deduced per pod from Services and
    /// owner).
    pub default_spread: Vec<Spread>,
}

impl Settings {
    /// Default of [`Settings::node_cost`]: about 11 USD a month.
    pub const NODE_COST: f64 = 0.015;
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            preferences: PreferencePolicy::default(),
            min_values: MinValuesPolicy::default(),
            reserved_capacity: true,
            node_cost: Settings::NODE_COST,
            default_spread: Vec::new(),
        }
    }
}

/// A DaemonSet: what it adds to every node that it runs on.
#[derive(Clone, Debug, PartialEq)]
pub struct DaemonSet {
    /// `metadata.namespace`.
    pub namespace: Symbol,
    /// `metadata.name`.
    pub name: Symbol,
    /// Its pod template as a shape, limits copied to missing requests.
    pub template: ShapeId,
    /// The template asks for dynamic resource claims: such daemons are left out of overhead.
    pub resource_claims: bool,
}

/// A Service, ReplicationController, ReplicaSet or StatefulSet: the source of selectors of default
/// spread constraints.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// `Service`, `ReplicationController`, `ReplicaSet` or `StatefulSet`.
    pub kind: Symbol,
    /// `metadata.namespace`.
    pub namespace: Symbol,
    /// `metadata.name`.
    pub name: Symbol,
    /// Selects the workload's pods.
    pub selector: LabelSelector,
}

/// A PodDisruptionBudget of `policy/v1`, as far as it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct PodDisruptionBudget {
    /// `metadata.namespace`.
    pub namespace: Symbol,
    /// `metadata.name`.
    pub name: Symbol,
    /// `spec.selector`.
    pub selector: LabelSelector,
    /// `status.disruptionsAllowed`.
    pub allowed: i32,
    /// `maxUnavailable` of 0 or 0 %, or `minAvailable` of 100 %: its pods can never be evicted.
    pub blocks_always: bool,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`.
    pub evicts_unhealthy: bool,
}

/// Everything observed of one cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterObjects {
    /// Interned strings of everything below.
    pub names: Symbols,
    /// What can be bought.
    pub catalogue: Catalogue,
    /// What the operator set.
    pub settings: Settings,
    /// The kind of node class that is managed here: NodePools and NodeClaims of every other kind are
    /// another provider's. `None` where all are managed.
    pub managed: Option<NodeClassKind>,
    /// Names of other providers' Nodes, ordered. Who drains one of them has a place for its pods.
    pub foreign_nodes: Vec<Symbol>,
    /// NodePools of `karpenter.sh/v1`.
    pub pools: Records<NodePool>,
    /// Node classes of every provider.
    pub classes: Records<NodeClass>,
    /// NodeClaims of `karpenter.sh/v1`.
    pub claims: Records<NodeClaim>,
    /// Nodes of `v1`, ours and others'.
    pub nodes: Records<NodeRecord>,
    /// Shapes of pods and daemon templates.
    pub shapes: Shapes,
    /// Pods, running and pending.
    pub pods: Records<Pod>,
    /// DaemonSets, by whose pods new nodes are smaller.
    pub daemons: Records<DaemonSet>,
    /// Owners and Services with their selectors.
    pub workloads: Records<Workload>,
    /// PodDisruptionBudgets, which say what may be evicted.
    pub budgets: Records<PodDisruptionBudget>,
    /// Namespaces with their labels, which selectors of namespaces read.
    pub namespaces: Records<(Symbol, Labels)>,
    /// PersistentVolumeClaims.
    pub volume_claims: Records<VolumeClaim>,
    /// PersistentVolumes.
    pub volumes: Records<Volume>,
    /// StorageClasses.
    pub storage_classes: Records<StorageClass>,
    /// CSINodes, which limit the volumes of a node.
    pub csi_nodes: Records<CsiNode>,
    /// CSIDrivers, which say whether capacity is tracked.
    pub csi_drivers: Records<CsiDriver>,
    /// CSIStorageCapacities.
    pub storage_capacities: Records<StorageCapacity>,
    /// VolumeAttachments, which keep a volume on its node.
    pub attachments: Records<VolumeAttachment>,
    /// Nodes that their cloud repairs, now or later; empty where repair is off.
    pub unhealthy: Vec<UnhealthyNode>,
    /// Seconds since 1970 that planning happens at.
    pub now: i64,
}

impl ClusterObjects {
    /// Says which kind of node class is managed here. NodeClaims of other kinds are left out. Their
    /// Nodes stay: pods have room on them. NodePools of other kinds stay too, and are not bought
    /// from.
    pub fn manage(&mut self, group: &str, kind: &str) {
        let managed = NodeClassKind {
            group: self.names.intern(group),
            kind: self.names.intern(kind),
        };
        self.managed = Some(managed);
        self.foreign_nodes = self.nodes_of_others(managed);
        if self.claims.iter().any(|of| of.class.of_kind() != managed) {
            self.claims.retain(|of| of.class.of_kind() == managed);
        }
    }

    /// Nodes of NodeClaims of other kinds, and those of NodePools of other kinds without a NodeClaim.
    fn nodes_of_others(&self, managed: NodeClassKind) -> Vec<Symbol> {
        let ids = |ours: bool| -> FxHashSet<Symbol> {
            let is = |of: &&NodeClaim| (of.class.of_kind() == managed) == ours;
            let claims = self.claims.iter().filter(is);
            claims.filter_map(|claim| claim.provider_id).collect()
        };
        let pools = self.pools.iter();
        let pools = pools.filter(|pool| pool.class.of_kind() != managed);
        let pools: FxHashSet<Symbol> = pools.map(|pool| pool.name).collect();
        let theirs = ids(false);
        if pools.is_empty() && theirs.is_empty() {
            return Vec::new();
        }
        let (ours, key) = (ids(true), self.names.get("karpenter.sh/nodepool"));
        let is_theirs = |node: &&NodeRecord| {
            let has =
                |ids: &FxHashSet<Symbol>| node.provider_id.is_some_and(|id| ids.contains(&id));
            let pool = key.and_then(|key| node.labels.get(key));
            has(&theirs) || !has(&ours) && pool.is_some_and(|pool| pools.contains(&pool))
        };
        let nodes = self.nodes.iter().filter(is_theirs);
        let mut names: Vec<Symbol> = nodes.map(|node| node.name).collect();
        names.sort_unstable();
        names
    }

    /// Topology labels that had another name in beta.
    pub fn beta_topology(&self) -> [BetaLabel; 2] {
        BETA_TOPOLOGY.map(|(beta, stable)| {
            let beta = self.names.get(beta);
            let carried = |key: Symbol| {
                let mut nodes = self.nodes.iter();
                self.nodes.is_empty() || nodes.any(|of| of.labels.get(key).is_some())
            };
            BetaLabel {
                beta,
                stable: self.names.get(stable),
                is_carried: beta.is_some_and(carried),
            }
        })
    }

    /// Whether rules of pods are written over beta labels that nodes carry.
    pub fn has_beta_rules(&self) -> bool {
        let labels = self.beta_topology();
        let carried = |key: Symbol| {
            labels
                .iter()
                .any(|of| of.is_carried && of.beta == Some(key))
        };
        let of_pods = self.shapes.iter().flat_map(PodShape::topology_keys);
        let by_default = self.settings.default_spread.iter().map(|rule| rule.key);
        labels.iter().any(|of| of.is_carried) && of_pods.chain(by_default).any(carried)
    }

    /// Writes these rules over the stable labels, which NodePools know. Where nodes do not carry the
    /// beta label, it is as unknown to kube-scheduler as any other.
    pub fn use_stable_labels(&mut self) {
        let labels = self.beta_topology();
        let rename = |key: &mut Symbol| {
            let mut carried = labels.iter().filter(|of| of.is_carried);
            let known = carried.find(|of| of.beta == Some(*key));
            *key = known.and_then(|of| of.stable).unwrap_or(*key);
        };
        let by_default = self.settings.default_spread.iter_mut();
        by_default.for_each(|rule| rename(&mut rule.key));
        let mut shapes = self.shapes.take();
        let mut known: FxHashSet<PodShape> = shapes.iter().cloned().collect();
        for shape in &mut shapes {
            let mut renamed = shape.clone();
            renamed.topology_keys_mut().for_each(rename);
            // Shapes are named by their place. One that would be equal to another stays as written.
            if renamed != *shape && known.insert(renamed.clone()) {
                *shape = renamed;
            }
        }
        self.shapes.put_back(shapes);
    }

    /// Whether objects of a node class are managed here.
    pub fn manages(&self, class: NodeClassRef) -> bool {
        self.managed
            .is_none_or(|managed| class.of_kind() == managed)
    }
}

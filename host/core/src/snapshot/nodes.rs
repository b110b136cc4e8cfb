//! Joins Nodes with NodeClaims and bound pods.

mod bind;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::moves;
use super::volumes::Volumes;
use crate::ids::PodIx;
use crate::model::conditions::REGISTERED;
use crate::model::{
    Catalogue, ClusterObjects, HostPort, Labels, NodeClaim, NodeRecord, Op, PodShape, Resources,
    Symbol, Symbols, Taint, TaintEffect, fields,
};

/// An existing or requested node.
#[derive(Clone, Debug, PartialEq)]
pub struct StateNode {
    /// The node's name; the claim's where there is no node yet.
    pub name: Symbol,
    /// The NodePool, if a NodePool owns it.
    pub pool: Option<Symbol>,
    /// Its labels: the claim's until it is registered.
    pub labels: Labels,
    /// Taints that count: startup and ephemeral ones are left out while a managed node is not
    /// initialised.
    pub taints: Vec<Taint>,
    /// What pods can have in total.
    pub allocatable: Resources,
    /// `allocatable` less bound pods, less daemons still to come. May be negative.
    pub free: Resources,
    /// Capacity, which counts against its NodePool's limits.
    pub capacity: Resources,
    /// It has joined and is ready for pods.
    pub initialized: bool,
    /// It has joined long ago and its Node says that it is not ready for pods: nothing waits for it,
    /// and what the Node says counts.
    pub late: bool,
    /// Host ports bound on it.
    pub ports: Vec<HostPort>,
    /// Most volumes by CSI driver; not named is unlimited.
    pub volume_limits: Vec<(Symbol, u32)>,
    /// CSI volumes attached, driver and volume number as in [`PendingPod::volumes`](crate::snapshot::PendingPod::volumes).
    pub volumes: Vec<(Symbol, u32)>,
    /// Pods that take room on it and are neither terminal nor terminating, daemons included: bound,
    /// expected, and those that move here from a node on its way out.
    pub pods: Vec<PodIx>,
    /// Terminating pods on it: they take room, and count for affinity and anti-affinity.
    pub terminating: Vec<PodIx>,
    /// The last of `taints` stands for `spec.unschedulable`, of which the Node has no taint:
    /// kube-scheduler keeps pods away, and topology spread does not know of it.
    pub cordoned: bool,
}

impl StateNode {
    /// Pods that need another place when it goes. One that was to move here still runs elsewhere.
    pub fn own_pods(&self, world: &ClusterObjects) -> impl Iterator<Item = PodIx> {
        let is_here = |ix: &PodIx| {
            let runs_on = world.pods[ix.0 as usize].node;
            runs_on.is_none_or(|node| node == self.name)
        };
        self.pods.iter().copied().filter(is_here)
    }

    /// Taints that the Node has, which is what topology spread reads.
    pub fn written_taints(&self) -> &[Taint] {
        let all = self.taints.len();
        &self.taints[..all - usize::from(self.cordoned && all > 0)]
    }
}

/// DaemonSets as shapes: requests from their newest live pod (so that what admission added counts),
/// the rest from the template. Those that ask for dynamic resources are left out, as Karpenter
/// does.
pub fn daemons(world: &ClusterObjects) -> Vec<Arc<PodShape>> {
    let mut newest: FxHashMap<(Symbol, Symbol), (i64, &str, PodIx)> = FxHashMap::default();
    let kind = world.names.get("DaemonSet");
    for (at, pod) in world.pods.iter().enumerate() {
        let Some((_, name)) = pod.owner.filter(|o| Some(o.0) == kind) else {
            continue;
        };
        if pod.terminal || pod.deleting {
            continue;
        }
        let key = (world.shapes.get(pod.shape).namespace, name);
        let this = (pod.created, &*pod.uid, PodIx(at as u32));
        newest
            .entry(key)
            .and_modify(|best| *best = (*best).max(this))
            .or_insert(this);
    }
    let mut sets: Vec<_> = world
        .daemons
        .iter()
        .filter(|d| !d.resource_claims)
        .collect();
    sets.sort_by_key(|d| (world.names.text(d.namespace), world.names.text(d.name)));
    let shape = |d: &&crate::model::DaemonSet| {
        let template = world.shapes.get(d.template);
        let mut shape = template.clone();
        if let Some(&(_, _, pod)) = newest.get(&(d.namespace, d.name)) {
            let live = world.shapes.get(world.pods[pod.0 as usize].shape);
            shape.requests = live.requests.clone();
        }
        Arc::new(shape)
    };
    sets.iter().map(shape).collect()
}

/// How long a node may take to be initialized, seconds after its NodeClaim was made; meanwhile it is
/// waited for.
pub(super) const INITIALIZATION_LIMIT: i64 = 600;

/// The joined objects.
pub struct Joined {
    /// Nodes that count as capacity, in the order in which they are tried.
    pub nodes: Vec<StateNode>,
    /// Names of terminating nodes.
    pub deleting: FxHashSet<Symbol>,
    /// Positions among the Nodes of those on their way out, which will have no pods, and of those that
    /// have none because they are long not initialized. Those of other providers are included.
    pub hosts_without_pods: Vec<u32>,
    /// Pods whose room on their nominated node was taken by others.
    pub lost_nominations: FxHashSet<PodIx>,
    /// The other nominated ones and the places of their nodes, by priority and UID.
    pub nominated: Vec<(PodIx, usize)>,
    /// Pods of nodes in commands for which room is kept on their destinations.
    pub moved: FxHashSet<PodIx>,
}

/// Joins nodes, claims and pods. The nominations of the pods in `not_here` do not count.
pub fn join(
    world: &ClusterObjects,
    daemons: &[Arc<PodShape>],
    volumes: &Volumes,
    not_here: &FxHashSet<PodIx>,
) -> Joined {
    let special = WellKnown::of(&world.names);
    let mut by_provider: FxHashMap<Symbol, &NodeClaim> = FxHashMap::default();
    let mut by_node: FxHashMap<Symbol, &NodeClaim> = FxHashMap::default();
    for claim in &world.claims {
        claim.provider_id.map(|id| by_provider.insert(id, claim));
        claim.node_name.map(|name| by_node.insert(name, claim));
    }
    let mut deleting = FxHashSet::default();
    let mut hosts_without_pods = Vec::new();
    let mut joined: FxHashSet<Symbol> = FxHashSet::default();
    let mut nodes = Vec::with_capacity(world.nodes.len());
    for (at, node) in (0..).zip(&world.nodes) {
        let claim = match node.provider_id {
            Some(id) => by_provider.get(&id).copied(),
            None => by_node.get(&node.name).copied(),
        };
        claim.map(|c| joined.insert(c.name));
        if node.deleting || claim.is_some_and(|c| c.deleting) {
            hosts_without_pods.push(at);
            // Another provider's node: that provider finds a place for its pods.
            if world.foreign_nodes.binary_search(&node.name).is_err() {
                deleting.insert(node.name);
            }
            continue;
        }
        let mut joined = registered_node(node, claim, &special, world.now);
        let is_overdue = |of: &NodeClaim| {
            world.now > of.created + INITIALIZATION_LIMIT && !special.is_rebooting(of)
        };
        if !joined.initialized && claim.is_some_and(is_overdue) {
            hosts_without_pods.push(at);
        }
        if let Some(taint) = node.cordon {
            joined.taints.push(taint);
            joined.cordoned = true;
        }
        // What a kubelet that has just started does not say yet, it will.
        let declared = match joined.initialized {
            true => &node.features,
            false => &special.features,
        };
        joined.add_fields(declared);
        nodes.push(joined);
    }
    for claim in world.claims.iter().filter(|c| !joined.contains(&c.name)) {
        if claim.deleting {
            continue;
        }
        let mut node = in_flight(claim, world, &special);
        if special
            .condition
            .is_some_and(|known| claim.conditions.contains(&known))
        {
            // Its Node was removed by force. It counts against limits, and is no place for a pod.
            (node.allocatable, node.free) = Default::default();
        }
        node.add_fields(&special.features);
        nodes.push(node);
    }
    nodes.sort_by(|a, b| {
        b.initialized
            .cmp(&a.initialized)
            .then_with(|| world.names.text(a.name).cmp(world.names.text(b.name)))
    });
    if let Some(key) = world.names.get(fields::NAME) {
        let selected = volumes.selected_nodes();
        // The drivers of a node that is not ready yet have not said what room it has.
        let is_counted = |node: &StateNode| {
            volumes.count_rooms_of_nodes() && (node.initialized || node.pool.is_none())
        };
        for node in nodes
            .iter_mut()
            .filter(|node| selected.contains(&node.name) || is_counted(node))
        {
            node.add_labels([(key, node.name)]);
        }
    }
    let bound = bind::bind(world, &mut nodes, daemons, volumes, not_here);
    Joined {
        nodes,
        deleting,
        hosts_without_pods,
        lost_nominations: bound.crowded_out,
        nominated: bound.nominated,
        moved: bound.moved,
    }
}

/// Symbols of the labels and taints that carry a node through its first minutes.
struct WellKnown {
    /// The condition of a NodeClaim whose Node has joined.
    condition: Option<Symbol>,
    registered: Option<Symbol>,
    initialized: Option<Symbol>,
    true_value: Option<Symbol>,
    pool: Option<Symbol>,
    hostname: Option<Symbol>,
    instance_type: Option<Symbol>,
    /// The condition of a NodeClaim whose machine is started anew.
    rebooting: Option<Symbol>,
    /// The taint of its node.
    fence: Option<Symbol>,
    later: Option<Symbol>,
    /// Every feature that a kubelet may declare, by key.
    features: Vec<Symbol>,
    ephemeral: FxHashSet<(Symbol, TaintEffect)>,
    readiness: FxHashSet<Symbol>,
}

impl WellKnown {
    fn of(names: &Symbols) -> Self {
        use TaintEffect::{NoExecute, NoSchedule};
        let ephemeral = [
            ("node.kubernetes.io/not-ready", NoSchedule),
            ("node.kubernetes.io/not-ready", NoExecute),
            ("node.kubernetes.io/unreachable", NoSchedule),
            ("node.cloudprovider.kubernetes.io/uninitialized", NoSchedule),
            ("karpenter.sh/unregistered", NoExecute),
        ];
        let every = (0..names.len()).map(|at| Symbol(at as u32));
        WellKnown {
            condition: names.get(REGISTERED),
            registered: names.get("karpenter.sh/registered"),
            initialized: names.get("karpenter.sh/initialized"),
            true_value: names.get("true"),
            pool: names.get("karpenter.sh/nodepool"),
            hostname: names.get("kubernetes.io/hostname"),
            instance_type: names.get("node.kubernetes.io/instance-type"),
            rebooting: names.get("Rebooting"),
            fence: names.get("karpenter.sh/rebooting"),
            later: names.get(moves::LATER),
            features: fields::FEATURES
                .iter()
                .filter_map(|key| names.get(key))
                .collect(),
            ephemeral: ephemeral
                .iter()
                .filter_map(|&(key, effect)| Some((names.get(key)?, effect)))
                .collect(),
            readiness: every
                .filter(|&s| names.text(s).starts_with("readiness.k8s.io/"))
                .collect(),
        }
    }

    fn is_true(&self, labels: &Labels, key: Option<Symbol>) -> bool {
        key.and_then(|k| labels.get(k))
            .is_some_and(|v| Some(v) == self.true_value)
    }

    /// A machine that is started anew comes back: what it holds is not bought again meanwhile.
    fn is_rebooting(&self, claim: &NodeClaim) -> bool {
        let known = self.rebooting;
        known.is_some_and(|known| claim.conditions.contains(&known))
    }

    fn is_ephemeral(&self, taint: &Taint) -> bool {
        self.ephemeral.contains(&(taint.key, taint.effect)) || self.readiness.contains(&taint.key)
    }
}

fn registered_node(
    node: &NodeRecord,
    claim: Option<&NodeClaim>,
    special: &WellKnown,
    now: i64,
) -> StateNode {
    let Some(claim) = claim else {
        return state_node(
            node.name,
            &node.labels,
            node.taints.clone(),
            &node.capacity,
            &node.allocatable,
            (true, true),
            special,
        );
    };
    let registered = special.is_true(&node.labels, special.registered);
    let rebooting = special.is_rebooting(claim);
    let initialized = special.is_true(&node.labels, special.initialized) && !rebooting;
    let late = registered
        && !initialized
        && !rebooting
        && now > node.created + INITIALIZATION_LIMIT
        && !looks_ready(node, claim, special);
    let mut taints = if registered {
        node.taints.clone()
    } else {
        claim.taints.clone()
    };
    if !initialized && !late {
        taints.retain(|t| !special.is_ephemeral(t) && !claim.startup_taints.contains(t));
    }
    if rebooting {
        taints.retain(|t| Some(t.key) != special.fence);
    }
    taints.retain(|t| Some(t.key) != special.later);
    let labels = if registered {
        &node.labels
    } else {
        &claim.labels
    };
    let (mut capacity, mut allocatable) = (node.capacity.clone(), node.allocatable.clone());
    if !initialized && !late {
        fill_missing(&mut capacity, &claim.capacity);
        fill_missing(&mut allocatable, &claim.allocatable);
    }
    let of_claim = state_node(
        node.name,
        labels,
        taints,
        &capacity,
        &allocatable,
        (initialized, true),
        special,
    );
    StateNode { late, ..of_claim }
}

/// Whether a Node has all that its claim promises, and only its label is missing.
fn looks_ready(node: &NodeRecord, claim: &NodeClaim, special: &WellKnown) -> bool {
    let waits = |t: &Taint| special.is_ephemeral(t) || claim.startup_taints.contains(t);
    let mut promised = claim.allocatable.iter();
    !node.taints.iter().any(waits)
        && promised.all(|(resource, amount)| amount == 0 || node.allocatable.get(resource) > 0)
}

impl StateNode {
    /// Labels that stand for fields of the Node.
    fn add_fields(&mut self, keys: &[Symbol]) {
        if !keys.is_empty() {
            self.add_labels(keys.iter().map(|&key| (key, key)));
        }
    }

    fn add_labels(&mut self, more: impl IntoIterator<Item = (Symbol, Symbol)>) {
        self.labels = Labels::new(self.labels.iter().chain(more).collect());
    }
}

/// What a kubelet that has just started reports as zero is taken from the claim.
fn fill_missing(reported: &mut Resources, promised: &Resources) {
    for (resource, amount) in promised.iter() {
        if reported.get(resource) == 0 {
            reported.set(resource, amount);
        }
    }
}

/// A claim without a node yet. Before its launch is recorded, nothing is known but the types it may
/// become: the smallest of each resource among them is what can be counted on.
fn in_flight(claim: &NodeClaim, world: &ClusterObjects, special: &WellKnown) -> StateNode {
    let taints = claim
        .taints
        .iter()
        .filter(|t| !special.is_ephemeral(t))
        .copied()
        .collect();
    let (capacity, allocatable) = match claim.capacity.is_empty() {
        false => (claim.capacity.clone(), claim.allocatable.clone()),
        true => minimum_of_types(claim, &world.catalogue, special),
    };
    let mut labels: Vec<(Symbol, Symbol)> = claim.labels.iter().collect();
    for r in &claim.requirements {
        if let Op::In(values) = &r.op
            && let [value] = **values
            && claim.labels.get(r.key).is_none()
        {
            labels.push((r.key, value));
        }
    }
    state_node(
        claim.name,
        &Labels::new(labels),
        taints,
        &capacity,
        &allocatable,
        (false, false),
        special,
    )
}

fn minimum_of_types(
    claim: &NodeClaim,
    catalogue: &Catalogue,
    special: &WellKnown,
) -> (Resources, Resources) {
    let names: Vec<Symbol> = claim
        .requirements
        .iter()
        .filter(|r| Some(r.key) == special.instance_type)
        .filter_map(|r| {
            if let Op::In(values) = &r.op {
                Some(values.iter().copied())
            } else {
                None
            }
        })
        .flatten()
        .collect();
    let mut smallest: Option<(Resources, Resources)> = None;
    for t in catalogue.types().iter().filter(|t| names.contains(&t.name)) {
        let least = |have: &Resources, more: &Resources| {
            Resources::new(have.iter().map(|(r, a)| (r, a.min(more.get(r)))))
        };
        smallest = Some(match smallest {
            None => (t.capacity.clone(), t.allocatable.clone()),
            Some((c, a)) => (least(&c, &t.capacity), least(&a, &t.allocatable)),
        });
    }
    smallest.unwrap_or_default()
}

fn state_node(
    name: Symbol,
    labels: &Labels,
    taints: Vec<Taint>,
    capacity: &Resources,
    allocatable: &Resources,
    (initialized, joined): (bool, bool),
    special: &WellKnown,
) -> StateNode {
    let mut labels = labels.clone();
    // Its kubelet will write it; one that has joined without it has no hostname.
    if let Some(hostname) = special.hostname
        && labels.get(hostname).is_none()
        && !(initialized && joined)
    {
        labels = Labels::new(labels.iter().chain([(hostname, name)]).collect());
    }
    StateNode {
        name,
        pool: special.pool.and_then(|key| labels.get(key)),
        labels,
        taints,
        allocatable: allocatable.clone(),
        free: allocatable.clone(),
        capacity: capacity.clone(),
        initialized,
        late: false,
        ports: Vec::new(),
        volume_limits: Vec::new(),
        volumes: Vec::new(),
        pods: Vec::new(),
        terminating: Vec::new(),
        cordoned: false,
    }
}

//! Hosts: nodes that are there, and what the nodes of a plan will be once they have joined.

use rustc_hash::FxHashMap;

use crate::matching::{satisfies, untolerated};
use crate::model::{HostPort, Labels, Names, Op, PodShape, Requirement, ResourceId, Resources, Sym, Taint};
use crate::plan::{Plan, PlannedClaim};
use crate::snapshot::{PendingPod, Snapshot};

/// A place for pods.
pub(super) struct Host {
    labels: Labels,
    /// For a new host the key of the host name: it will have one, and nobody knows it yet.
    unnamed: Option<Sym>,
    pub taints: Vec<Taint>,
    pub allocatable: Resources,
    pub free: Resources,
    ports: Vec<HostPort>,
    volume_limits: Vec<(Sym, u32)>,
    volumes: Vec<(Sym, u32)>,
}

/// The nodes of the snapshot, in its order, then one host per claim of the plan, in its order.
pub(super) fn hosts(snapshot: &Snapshot, plan: &Plan) -> Vec<Host> {
    let standing = snapshot.nodes.iter().map(|node| Host {
        labels: node.labels.clone(),
        unnamed: None,
        taints: node.taints.clone(),
        allocatable: node.allocatable.clone(),
        free: node.free.clone(),
        ports: node.ports.clone(),
        volume_limits: node.volume_limits.clone(),
        volumes: node.volumes.clone(),
    });
    standing.chain(plan.claims.iter().map(|claim| coming(snapshot, claim))).collect()
}

/// What a claim becomes if the cloud grants the offering that the planner counts on.
fn coming(snapshot: &Snapshot, claim: &PlannedClaim) -> Host {
    let world = &snapshot.world;
    let pool = &world.pools[claim.pool.0 as usize];
    let offering = world.catalogue.offering(claim.offering);
    let instance_type = world.catalogue.instance_type(offering.instance_type);
    let mut host = Host {
        labels: labels(snapshot, claim),
        unnamed: world.names.get("kubernetes.io/hostname"),
        taints: pool.taints.clone(),
        allocatable: instance_type.allocatable.clone(),
        free: instance_type.allocatable.clone(),
        ports: Vec::new(),
        volume_limits: instance_type.volume_limits.clone(),
        volumes: Vec::new(),
    };
    for daemon in &snapshot.daemons {
        if host.lets_in(daemon) && host.admits(daemon, &world.names) {
            host.free.sub(&daemon.requests);
            host.ports.extend(&daemon.ports);
        }
    }
    host
}

/// Offering and type say most; of a label that they leave open and the claim narrows to several values any may come,
/// and the first is taken.
fn labels(snapshot: &Snapshot, claim: &PlannedClaim) -> Labels {
    let world = &snapshot.world;
    let pool = &world.pools[claim.pool.0 as usize];
    let offering = world.catalogue.offering(claim.offering);
    let instance_type = world.catalogue.instance_type(offering.instance_type);
    let single = |r: &Requirement| match &r.op {
        Op::In(values) if values.len() == 1 => Some((r.key, values[0])),
        _ => None,
    };
    let open = claim.requirements.iter().filter_map(|(key, values)| Some((*key, *values.first()?)));
    let narrowed = claim.requirements.iter().filter(|(_, values)| values.len() == 1).map(|(key, v)| (*key, v[0]));
    let owner = world.names.get("karpenter.sh/nodepool").map(|key| (key, pool.name));
    Labels::new(
        open.chain(pool.requirements.iter().filter_map(single))
            .chain(instance_type.requirements.iter().filter_map(single))
            .chain(offering.requirements.iter().filter_map(single))
            .chain(pool.labels.iter())
            .chain(narrowed)
            .chain(owner)
            .collect(),
    )
}

impl Host {
    /// The value of a label; a host name that is not known yet has none.
    pub fn label(&self, key: Sym) -> Option<Sym> {
        self.labels.get(key)
    }

    /// Whether it has the label at all.
    pub fn has(&self, key: Sym) -> bool {
        self.unnamed == Some(key) || self.labels.get(key).is_some()
    }

    fn satisfies(&self, requirement: &Requirement, names: &Names) -> bool {
        if self.unnamed == Some(requirement.key) {
            return matches!(requirement.op, Op::NotIn(_) | Op::Exists);
        }
        satisfies(&self.labels, requirement, names)
    }

    /// Whether all of these hold; of none they do not, as in Kubernetes an empty term selects nothing.
    pub fn satisfies_term(&self, term: &[Requirement], names: &Names) -> bool {
        !term.is_empty() && term.iter().all(|r| self.satisfies(r, names))
    }

    /// Node selector and required node affinity.
    pub fn admits(&self, shape: &PodShape, names: &Names) -> bool {
        shape.node_selector.iter().all(|r| self.satisfies(r, names))
            && (shape.required.is_empty() || shape.required.iter().any(|t| self.satisfies_term(t, names)))
    }

    /// Whether the pod tolerates every taint that keeps pods away.
    pub fn lets_in(&self, shape: &PodShape) -> bool {
        untolerated(&shape.tolerations, &self.taints, false).is_none()
    }

    /// Everything that depends on what is on the host already, and on the volumes of this pod.
    pub fn has_room(&self, pod: &PendingPod, names: &Names) -> bool {
        let free_port = |p: &HostPort| !self.ports.iter().any(|taken| taken.conflicts(p));
        pod.shape.requests.fits(&self.free)
            && pod.shape.ports.iter().all(free_port)
            && (pod.volume_alternatives.is_empty()
                || pod.volume_alternatives.iter().any(|a| a.iter().all(|r| self.satisfies(r, names))))
            && self.attaches(&pod.volumes)
    }

    fn attaches(&self, volumes: &[(Sym, u32)]) -> bool {
        if volumes.is_empty() || self.volume_limits.is_empty() {
            return true;
        }
        let mut more: FxHashMap<Sym, u32> = FxHashMap::default();
        for volume in volumes.iter().filter(|v| !self.volumes.contains(v)) {
            *more.entry(volume.0).or_default() += 1;
        }
        self.volume_limits.iter().all(|(driver, limit)| {
            let extra = more.get(driver).copied().unwrap_or(0);
            let have = self.volumes.iter().filter(|v| v.0 == *driver).count();
            extra == 0 || have + extra as usize <= *limit as usize
        })
    }

    /// Binds the pod.
    pub fn take(&mut self, pod: &PendingPod) {
        self.free.sub(&pod.shape.requests);
        self.ports.extend(&pod.shape.ports);
        for volume in &pod.volumes {
            if !self.volumes.contains(volume) {
                self.volumes.push(*volume);
            }
        }
    }

    /// LeastAllocated and BalancedAllocation for a pod of these requests: 0 to 100 each, added up.
    pub fn spare(&self, requests: &Resources) -> f64 {
        let used = |resource| {
            let all = self.allocatable.get(resource).max(1) as f64;
            let free = (self.free.get(resource) - requests.get(resource)) as f64;
            (1.0 - free / all).clamp(0.0, 1.0)
        };
        let (cpu, memory) = (used(ResourceId::Cpu), used(ResourceId::Memory));
        let least = (100.0 * (1.0 - cpu)).floor() + (100.0 * (1.0 - memory)).floor();
        (least / 2.0).floor() + (100.0 * (1.0 - (cpu - memory).abs() / 2.0)).floor()
    }
}

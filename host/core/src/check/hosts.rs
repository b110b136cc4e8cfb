//! Checks each host with its planned pods: labels, taints, sizes, ports, volumes.

mod labels;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Invariant, Violations};
use crate::matching::{admits, satisfies, untolerated};
use crate::model::{Labels, Op, Requirement, ResourceId, Resources, Symbol, TypeId, fields};
use crate::plan::{Plan, PlannedClaim, PodIx};
use crate::snapshot::{PendingPod, Snapshot, StateNode};

pub use self::labels::PossibleLabels;
use self::labels::allowed;

/// Where pods go: an existing node or a claim.
pub enum HostKind<'a> {
    /// An existing node.
    Node(&'a StateNode),
    /// A claim, with the values that labels of its node may have.
    Claim(&'a PlannedClaim, PossibleLabels<'a>),
}

/// A host and its new pods.
pub struct Host<'a> {
    /// An existing node, or a claim of the plan.
    pub kind: HostKind<'a>,
    /// Pods that the plan places on it.
    pub pods: Vec<&'a PendingPod>,
    /// Name for messages.
    pub name: String,
}

/// What claims share, worked out once.
#[derive(Default)]
struct SharedByClaims<'a> {
    /// Room for pods of each requested resource on each type, by NodePool.
    nets: FxHashMap<u32, Vec<Vec<i64>>>,
    /// The types that can be bought at all, by the requirements of a claim.
    purchasable: FxHashMap<&'a [(Symbol, Vec<Symbol>)], Vec<bool>>,
}

/// All hosts of a plan.
pub struct Hosts<'a> {
    /// What the plan was made on.
    pub snapshot: &'a Snapshot,
    /// Existing nodes in the snapshot's order, then claims in the plan's.
    pub hosts: Vec<Host<'a>>,
    /// Resources that pending pods ask for.
    resources: Vec<ResourceId>,
}

impl<'a> Hosts<'a> {
    /// Puts the plan's pods on hosts.
    pub fn new(snapshot: &'a Snapshot, plan: &'a Plan) -> Self {
        let by_pod: FxHashMap<PodIx, &PendingPod> =
            snapshot.pending.iter().map(|p| (p.pod, p)).collect();
        let find = |pods: &[PodIx]| {
            pods.iter()
                .filter_map(|p| by_pod.get(p).copied())
                .collect::<Vec<_>>()
        };
        let mut hosts: Vec<Host<'_>> = snapshot
            .nodes
            .iter()
            .map(|n| Host {
                kind: HostKind::Node(n),
                pods: Vec::new(),
                name: snapshot.world.names.text(n.name).into(),
            })
            .collect();
        for e in &plan.on_existing_nodes {
            hosts[e.node.0 as usize].pods.extend(find(&e.pods));
        }
        for (at, claim) in plan.claims.iter().enumerate() {
            let kind = HostKind::Claim(claim, PossibleLabels::of(&snapshot.world, claim));
            hosts.push(Host {
                kind,
                pods: find(&claim.pods),
                name: format!("claim {at}"),
            });
        }
        let mut resources: Vec<ResourceId> = snapshot
            .pending
            .iter()
            .map(|p| &p.shape)
            .chain(&snapshot.daemons)
            .flat_map(|shape| shape.requests.iter().map(|r| r.0))
            .collect();
        resources.sort_unstable();
        resources.dedup();
        Hosts {
            snapshot,
            hosts,
            resources,
        }
    }

    /// Checks every host by itself.
    pub fn check(&self, found: &mut Violations<'_>) {
        let mut known = SharedByClaims::default();
        for host in self.hosts.iter().filter(|h| !h.pods.is_empty()) {
            match &host.kind {
                HostKind::Node(node) => self.check_node(host, node, found),
                HostKind::Claim(claim, possible) => {
                    self.check_claim(host, claim, possible, &mut known, found)
                }
            }
            ports(host, found);
        }
        self.check_shared_claims(found);
        self.check_unbound_claims(found);
    }

    /// Every claim that is bound when its pod is placed can have a volume of its own on its host.
    fn check_unbound_claims(&self, found: &mut Violations<'_>) {
        let world = &*self.snapshot.world;
        let mut known: FxHashSet<u32> = FxHashSet::default();
        let mut claims: Vec<(&Host<'_>, PodIx, u32, Vec<u32>)> = Vec::new();
        for host in &self.hosts {
            let hold = |all: &Vec<Requirement>| match &host.kind {
                HostKind::Node(node) => {
                    all.iter().all(|r| satisfies(&node.labels, r, &world.names))
                }
                HostKind::Claim(_, possible) => all.iter().all(|r| possible.always(r, world)),
            };
            let usable = |terms: &Vec<Vec<Requirement>>| terms.is_empty() || terms.iter().any(hold);
            for pod in &host.pods {
                for of in pod.to_bind.iter().filter(|of| known.insert(of.claim)) {
                    if of.made.as_ref().is_some_and(usable) {
                        continue;
                    }
                    let affinity = |at: &u32| &world.volumes[*at as usize].node_affinity;
                    let volumes = of.volumes.iter().copied();
                    let volumes = volumes.filter(|at| usable(affinity(at))).collect();
                    claims.push((host, pod.pod, of.claim, volumes));
                }
            }
        }
        let wanted: Vec<&[u32]> = claims.iter().map(|of| of.3.as_slice()).collect();
        for at in without_partner(&wanted) {
            let (host, pod, claim, _) = &claims[at];
            let name = world.names.text(world.volume_claims[*claim as usize].name);
            let detail = format!("no PersistentVolume is left for its claim {name}");
            found.add(
                Invariant::Volumes,
                Some(host.name.clone()),
                Some(*pod),
                detail,
            );
        }
    }

    /// Until the volume of a claim is there, its pods are on one host. One pod at a time uses a
    /// claim that serves one.
    fn check_shared_claims(&self, found: &mut Violations<'_>) {
        let mut users: FxHashMap<u32, usize> = FxHashMap::default();
        for (at, host) in self.hosts.iter().enumerate() {
            for pod in &host.pods {
                for of in pod.shared.iter().flat_map(|shared| &shared.claims) {
                    let nominated = of.first.map(|(_, node)| node as usize);
                    let before = users.insert(of.claim, at).or(nominated);
                    if before.is_some_and(|before| of.one_pod || before != at) {
                        let world = &self.snapshot.world;
                        let name = world.volume_claims[of.claim as usize].name;
                        let detail = format!(
                            "another pod of its PersistentVolumeClaim {} decides where that is",
                            world.names.text(name)
                        );
                        let host = Some(host.name.clone());
                        found.add(Invariant::Volumes, host, Some(pod.pod), detail);
                    }
                }
            }
        }
    }

    fn check_node(&self, host: &Host<'_>, node: &StateNode, found: &mut Violations<'_>) {
        let names = &self.snapshot.world.names;
        let mut free = node.free.clone();
        for pod in &host.pods {
            if let Some(taint) = untolerated(&pod.shape.tolerations, &node.taints, false) {
                let detail = format!("does not tolerate {}", names.text(taint.key));
                found.add(
                    Invariant::Taints,
                    Some(host.name.clone()),
                    Some(pod.pod),
                    detail,
                );
            }
            if !admits(&node.labels, &pod.shape, names) {
                found.add(
                    Invariant::Labels,
                    Some(host.name.clone()),
                    Some(pod.pod),
                    "labels do not fit".into(),
                );
            }
            let fits = |a: &Vec<Requirement>| a.iter().all(|r| satisfies(&node.labels, r, names));
            if !pod.volume_alternatives.is_empty() && !pod.volume_alternatives.iter().any(fits) {
                found.add(
                    Invariant::Volumes,
                    Some(host.name.clone()),
                    Some(pod.pod),
                    "its volume is elsewhere".into(),
                );
            }
            free.sub(&pod.shape.requests);
        }
        let asked = total(&host.pods);
        for (resource, amount) in asked.iter().filter(|(r, _)| free.get(*r) < 0) {
            let detail = format!(
                "{amount} of {} asked, {} missing",
                resource.name(names),
                -free.get(resource)
            );
            found.add(Invariant::Resources, Some(host.name.clone()), None, detail);
        }
        volumes(host, &node.volumes, &node.volume_limits, found);
    }

    fn check_claim(
        &self,
        host: &Host<'_>,
        claim: &'a PlannedClaim,
        possible: &PossibleLabels<'a>,
        known: &mut SharedByClaims<'a>,
        found: &mut Violations<'_>,
    ) {
        let world = &*self.snapshot.world;
        let at = || Some(host.name.clone());
        let class = world.pools[claim.pool.0 as usize].class;
        if !self.snapshot.pools.contains(&claim.pool) || !world.manages(class) {
            found.add(
                Invariant::Pool,
                at(),
                None,
                "its NodePool cannot be bought from".into(),
            );
        }
        self.check_offering(host, claim, known, found);
        let taints = &world.pools[claim.pool.0 as usize].taints;
        for pod in &host.pods {
            if let Some(taint) = untolerated(&pod.shape.tolerations, taints, false) {
                let detail = format!("does not tolerate {}", world.names.text(taint.key));
                found.add(Invariant::Taints, at(), Some(pod.pod), detail);
            }
            if let Some(key) = possible.unsatisfied(&pod.shape, world) {
                let detail = format!(
                    "a node of this claim may have the wrong {}",
                    world.names.text(key)
                );
                found.add(Invariant::Labels, at(), Some(pod.pod), detail);
            }
            let fits = |a: &Vec<Requirement>| a.iter().all(|r| possible.always(r, world));
            if !pod.volume_alternatives.is_empty() && !pod.volume_alternatives.iter().any(fits) {
                found.add(
                    Invariant::Volumes,
                    at(),
                    Some(pod.pod),
                    "its volume may be elsewhere".into(),
                );
            }
        }
        let asked: Vec<i64> = {
            let total = total(&host.pods);
            self.resources.iter().map(|&r| total.get(r)).collect()
        };
        let nets = known.nets.entry(claim.pool.0).or_insert_with(|| {
            let types = 0..world.catalogue.types().len() as u32;
            let net = |t| self.net(claim, TypeId(t));
            types
                .map(net)
                .map(|net| self.resources.iter().map(|&r| net.get(r)).collect())
                .collect()
        });
        for &t in &claim.types {
            let net = &nets[t.0 as usize];
            if let Some(at) = (0..asked.len()).find(|&r| asked[r] > net[r]) {
                let name = world.names.text(world.catalogue.instance_type(t).name);
                let resource = self.resources[at].name(&world.names);
                let detail = format!("{} of {resource} asked, {name} has {}", asked[at], net[at]);
                found.add(Invariant::Resources, Some(host.name.clone()), None, detail);
                break;
            }
            if host.pods.iter().any(|p| !p.volumes.is_empty()) {
                volumes(
                    host,
                    &[],
                    &world.catalogue.instance_type(t).volume_limits,
                    found,
                );
            }
        }
    }

    fn check_offering(
        &self,
        host: &Host<'_>,
        claim: &'a PlannedClaim,
        known: &mut SharedByClaims<'a>,
        found: &mut Violations<'_>,
    ) {
        let world = &*self.snapshot.world;
        let at = || Some(host.name.clone());
        let offering = world.catalogue.offering(claim.offering);
        if claim.types.len() > 600 {
            found.add(
                Invariant::Offering,
                at(),
                None,
                format!("{} types are more than 600", claim.types.len()),
            );
        }
        if claim.types.first() != Some(&offering.instance_type) {
            found.add(
                Invariant::Offering,
                at(),
                None,
                "its offering is not of its first type".into(),
            );
        }
        if offering.price != claim.price {
            let detail = format!(
                "its price is {}, the offering's {}",
                claim.price, offering.price
            );
            found.add(Invariant::Offering, at(), None, detail);
        }
        let pool = &world.pools[claim.pool.0 as usize];
        let had = known
            .purchasable
            .entry(&claim.requirements)
            .or_insert_with(|| {
                let can = |(at, t): (usize, &crate::model::InstanceType)| {
                    let of_type = world.catalogue.offerings_of(TypeId(at as u32));
                    allowed(claim, &t.requirements)
                        && of_type
                            .iter()
                            .any(|o| o.available && allowed(claim, &o.requirements))
                };
                world
                    .catalogue
                    .types()
                    .iter()
                    .enumerate()
                    .map(can)
                    .collect()
            });
        for &t in &claim.types {
            if !had[t.0 as usize] {
                let name = world.names.text(world.catalogue.instance_type(t).name);
                found.add(
                    Invariant::Offering,
                    at(),
                    None,
                    format!("{name} cannot be had under its requirements"),
                );
            }
        }
        if !offering.available || !allowed(claim, &offering.requirements) {
            found.add(
                Invariant::Offering,
                at(),
                None,
                "its offering does not meet its requirements".into(),
            );
        }
        // What the NodePool requires must hold for the node that is counted on.
        let mut labels: Vec<(Symbol, Symbol)> = Vec::new();
        let of_type = &world
            .catalogue
            .instance_type(offering.instance_type)
            .requirements;
        for r in of_type.iter().chain(offering.requirements.iter()) {
            if let Op::In(values) = &r.op
                && let [value] = **values
            {
                labels.push((r.key, value));
            }
        }
        let labels = Labels::new(labels);
        let named = |r: &&Requirement| labels.get(r.key).is_some();
        if let Some(r) = pool
            .requirements
            .iter()
            .filter(named)
            .find(|r| !satisfies(&labels, r, &world.names))
        {
            let detail = format!(
                "its offering is not what its NodePool requires of {}",
                world.names.text(r.key)
            );
            found.add(Invariant::Offering, at(), None, detail);
        }
    }

    /// What a type leaves to pods on nodes of this claim's NodePool.
    fn net(&self, claim: &PlannedClaim, t: TypeId) -> Resources {
        let world = &*self.snapshot.world;
        let pool = &world.pools[claim.pool.0 as usize];
        let instance_type = world.catalogue.instance_type(t);
        let mut net = instance_type.allocatable.clone();
        let known: Vec<&Requirement> = instance_type
            .requirements
            .iter()
            .chain(&pool.requirements)
            .collect();
        let offered: Vec<&Requirement> = world
            .catalogue
            .offerings_of(t)
            .iter()
            .filter(|o| o.available)
            .flat_map(|o| o.requirements.iter())
            .collect();
        let may = |r: &Requirement| {
            if fields::feature(world.names.text(r.key)).is_some() {
                return r.op == Op::Exists;
            }
            if offered.iter().any(|o| o.key == r.key) {
                // A daemon that wants what only some of the offerings have may run.
                let asked = || {
                    pool.requirements
                        .iter()
                        .filter(|q| q.key == r.key)
                        .chain([r])
                };
                let fits = |v: Symbol| {
                    let labels = Labels::new(vec![(r.key, v)]);
                    asked().all(|q| satisfies(&labels, q, &world.names))
                };
                return offered
                    .iter()
                    .filter(|o| o.key == r.key)
                    .any(|o| match &o.op {
                        Op::In(values) => values.iter().any(|&v| fits(v)),
                        _ => false,
                    });
            }
            let fixed = known
                .iter()
                .find(|k| k.key == r.key && matches!(k.op, Op::In(_)));
            let of_pool = world
                .names
                .get("karpenter.sh/nodepool")
                .filter(|&key| key == r.key)
                .map(|_| pool.name);
            let label = of_pool.or_else(|| pool.labels.get(r.key));
            match (fixed.map(|k| &k.op), label) {
                (Some(Op::In(values)), _) => values.iter().any(|&v| {
                    // Keeps only those values of a type that the NodePool admits.
                    let labels = Labels::new(vec![(r.key, v)]);
                    let mut asked = pool
                        .requirements
                        .iter()
                        .filter(|q| q.key == r.key)
                        .chain([r]);
                    asked.all(|q| satisfies(&labels, q, &world.names))
                }),
                (_, Some(value)) => satisfies(&Labels::new(vec![(r.key, value)]), r, &world.names),
                _ => matches!(r.op, Op::NotIn(_) | Op::DoesNotExist),
            }
        };
        for daemon in &self.snapshot.daemons {
            let runs = untolerated(&daemon.tolerations, &pool.taints, false).is_none()
                && daemon.node_selector.iter().all(may)
                && (daemon.required.is_empty()
                    || daemon.required.iter().any(|t| t.iter().all(may)));
            if runs {
                net.sub(&daemon.requests);
            }
        }
        net
    }
}

fn total(pods: &[&PendingPod]) -> Resources {
    let mut all = Resources::default();
    pods.iter().for_each(|p| all.add(&p.shape.requests));
    all
}

fn ports(host: &Host<'_>, found: &mut Violations<'_>) {
    let mut taken = match &host.kind {
        HostKind::Node(node) => node.ports.clone(),
        HostKind::Claim(..) => Vec::new(),
    };
    for pod in host.pods.iter().filter(|p| !p.shape.ports.is_empty()) {
        if let Some(port) = pod
            .shape
            .ports
            .iter()
            .find(|p| taken.iter().any(|t| t.conflicts(p)))
        {
            found.add(
                Invariant::Ports,
                Some(host.name.clone()),
                Some(pod.pod),
                format!("port {} is taken", port.port),
            );
        }
        taken.extend(&pod.shape.ports);
    }
}

fn volumes(
    host: &Host<'_>,
    attached: &[(Symbol, u32)],
    limits: &[(Symbol, u32)],
    found: &mut Violations<'_>,
) {
    let new: FxHashSet<(Symbol, u32)> = host
        .pods
        .iter()
        .flat_map(|p| p.volumes.iter().copied())
        .collect();
    let all: FxHashSet<(Symbol, u32)> = attached
        .iter()
        .copied()
        .chain(new.iter().copied())
        .collect();
    for &(driver, limit) in limits {
        let count = all.iter().filter(|(d, _)| *d == driver).count();
        if count > limit as usize && new.iter().any(|(d, _)| *d == driver) {
            let detail = format!("{count} volumes of {}, at most {limit}", found.text(driver));
            found.add(Invariant::Volumes, Some(host.name.clone()), None, detail);
        }
    }
}

/// Matches each of some claims with one of the volumes that it can have, no volume twice, and
/// returns the claims that stay without. A volume that was given is given away again where its
/// claim can have another.
fn without_partner(wanted: &[&[u32]]) -> Vec<usize> {
    let mut owner: FxHashMap<u32, usize> = FxHashMap::default();
    let mut without = Vec::new();
    for claim in 0..wanted.len() {
        // The volumes that were looked at, each with the claim that would have it.
        let mut seen: FxHashMap<u32, usize> = FxHashMap::default();
        let mut asking = vec![claim];
        let mut free = None;
        while let Some(asks) = asking.pop().filter(|_| free.is_none()) {
            free = wanted[asks].iter().find(|at| !owner.contains_key(*at));
            if let Some(&volume) = free {
                seen.insert(volume, asks);
                break;
            }
            for volume in wanted[asks] {
                if !seen.contains_key(volume) {
                    seen.insert(*volume, asks);
                    asking.extend(owner.get(volume));
                }
            }
        }
        let Some(&volume) = free else {
            without.push(claim);
            continue;
        };
        let mut volume = volume;
        // Each hands on what it had to the one that asked for it.
        while let Some(&asks) = seen.get(&volume) {
            let had = owner.iter().find(|(_, of)| **of == asks).map(|(v, _)| *v);
            owner.insert(volume, asks);
            match had.filter(|_| asks != claim) {
                Some(had) => volume = had,
                None => break,
            }
        }
    }
    without
}

//! Carries proposals out on records: nodes go, replacements are there at once, pods are where they were
//! planned for.

use rustc_hash::{FxHashMap, FxHashSet};

use super::costs;
use super::proposals::{Proposal, To};
use super::verdicts::Method;
use crate::ids::PodIx;
use crate::model::conditions::{CONSOLIDATABLE, INITIALIZED, LAUNCHED, REGISTERED};
use crate::model::{
    ClusterObjects, Labels, NodeClaim, NodeRecord, Op, Requirement, Symbol, Symbols, fields,
};
use crate::plan::PlannedClaim;
use crate::snapshot::Snapshot;

/// Symbols of the nodes that proposals buy: `bought-1`, `bought-2`, …
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial(u32);

/// What was changed, by name.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// Nodes that are gone, with their NodeClaims.
    pub removed: Vec<Symbol>,
    /// Symbols of nodes that were bought.
    pub bought: Vec<Symbol>,
    /// Pods that moved: their position before, and the name of their node.
    pub moved: Vec<(PodIx, Symbol)>,
}

/// The cluster afterwards. Pods of DaemonSets end with their nodes. Static drift is left out: what its
/// nodes are replaced by is the cloud's choice.
pub fn carry_out(
    snapshot: &Snapshot,
    proposals: &[Proposal],
    serial: &mut Serial,
) -> (ClusterObjects, Carried) {
    let mut world = (*snapshot.world).clone();
    let mut carried = Carried::default();
    let mut target: FxHashMap<PodIx, Symbol> = FxHashMap::default();
    let planned = |proposal: &&Proposal| proposal.method != Method::StaticDrift;
    for proposal in proposals.iter().filter(planned) {
        carried.removed.extend(
            proposal
                .nodes
                .iter()
                .map(|node| snapshot.nodes[node.0 as usize].name),
        );
        let mut bought = Vec::new();
        for replacement in &proposal.replacements {
            serial.0 += 1;
            bought.push(buy(&mut world, &replacement.claim, serial.0));
        }
        for moved in &proposal.moves {
            let to = match moved.to {
                To::Node(node) => snapshot.nodes[node.0 as usize].name,
                To::Replacement(at) => bought[at],
            };
            target.insert(moved.pod, to);
            carried.moved.push((moved.pod, to));
        }
        carried.bought.extend(bought);
    }
    let gone: FxHashSet<Symbol> = carried.removed.iter().copied().collect();
    let ids: FxHashSet<Symbol> = world
        .nodes
        .iter()
        .filter(|node| gone.contains(&node.name))
        .filter_map(|node| node.provider_id)
        .collect();
    world.nodes.retain(|node| !gone.contains(&node.name));
    world.claims.retain(|claim| {
        let by_id = claim.provider_id.is_some_and(|id| ids.contains(&id));
        !by_id && claim.node_name.is_none_or(|name| !gone.contains(&name))
    });
    for (pod, to) in target {
        world.pods[pod.0 as usize].node = Some(to);
    }
    let daemon = world.names.get("DaemonSet");
    for pod in world.pods.iter_mut() {
        // It was not worth a place, and waits for one.
        let evicted = pod.node.is_some_and(|node| gone.contains(&node));
        if evicted && costs::has_to_move(pod, daemon) {
            (pod.node, pod.unschedulable) = (None, true);
        }
    }
    world
        .pods
        .retain(|pod| pod.node.is_none_or(|node| !gone.contains(&node)));
    (world, carried)
}

/// A registered, initialised node of the cheapest offering; returns its name.
fn buy(world: &mut ClusterObjects, claim: &PlannedClaim, serial: u32) -> Symbol {
    let mut names = std::mem::take(&mut world.names);
    let name = names.intern(&format!("bought-{serial}"));
    let id = names.intern(&format!("paper://bought-{serial}"));
    let pool = world.pools[claim.pool.0 as usize].clone();
    let offering = world.catalogue.offering(claim.offering);
    let kind = world.catalogue.instance_type(offering.instance_type);
    let labels = labels_of(
        &mut names,
        &pool,
        &kind.requirements,
        &offering.requirements,
        name,
    );
    let conditions = [LAUNCHED, REGISTERED, INITIALIZED, CONSOLIDATABLE, "Ready"];
    let conditions: Vec<Symbol> = conditions.iter().map(|text| names.intern(text)).collect();
    let uid = names.intern(&format!("claim-of-bought-{serial}"));
    world.claims.push(NodeClaim {
        name,
        uid,
        labels: labels.clone(),
        annotations: pool.annotations.clone(),
        requirements: Vec::new(),
        taints: pool.taints.clone(),
        startup_taints: pool.startup_taints.clone(),
        class: pool.class,
        termination_grace: pool.termination_grace,
        requests: crate::model::Resources::default(),
        provider_id: Some(id),
        node_name: Some(name),
        capacity: kind.capacity.clone(),
        allocatable: kind.allocatable.clone(),
        conditions,
        initialized: None,
        drifted: None,
        deleting: false,
        created: world.now,
    });
    world.nodes.push(NodeRecord {
        name,
        labels,
        annotations: pool.annotations.clone(),
        taints: pool.taints.clone(),
        provider_id: Some(id),
        unschedulable: false,
        cordon: None,
        features: fields::FEATURES
            .iter()
            .filter_map(|key| names.get(key))
            .collect(),
        capacity: kind.capacity.clone(),
        allocatable: kind.allocatable.clone(),
        ready: true,
        deleting: false,
        created: world.now,
    });
    world.names = names;
    name
}

/// What a node of a NodePool, an instance type and an offering is labelled.
fn labels_of(
    names: &mut Symbols,
    pool: &crate::model::NodePool,
    kind: &[Requirement],
    offering: &[Requirement],
    name: Symbol,
) -> Labels {
    let single = |r: &Requirement| match &r.op {
        Op::In(values) if values.len() == 1 => Some((r.key, values[0])),
        _ => None,
    };
    let mut labels: Vec<(Symbol, Symbol)> = pool.requirements.iter().filter_map(single).collect();
    labels.extend(pool.labels.iter());
    labels.extend(kind.iter().chain(offering).filter_map(single));
    let truth = names.intern("true");
    for key in ["karpenter.sh/registered", "karpenter.sh/initialized"] {
        labels.push((names.intern(key), truth));
    }
    labels.push((names.intern("karpenter.sh/nodepool"), pool.name));
    labels.push((names.intern("kubernetes.io/hostname"), name));
    let class = pool.class.label(names);
    labels.push((names.intern(&class), pool.class.name));
    Labels::new(labels)
}

//! Does disruption keep every rule? Asked of all that is to be carried out together, before it is, and
//! written without a look at the search.
//!
//! The nodes are taken out of the cluster, the pods that move wait, and the plan for them is checked like
//! any other. Topology spread is judged by what was before: kube-scheduler may have left a skew that is
//! too large, and it must not grow.

mod budgets;
mod may_go;
mod places;

use rustc_hash::FxHashSet;

use super::{Invariant, Violation, Violations};
use crate::ids::{NodeIx, PodIx};
use crate::model::{ClusterObjects, NodeClaim};
use crate::plan::PlannedClaim;
use crate::snapshot::{Snapshot, StateNode};

use self::budgets::{budgets, replicas};
use self::may_go::may_go;
use self::places::{places, skews};

/// Where a pod moves to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A node that is there.
    Node(NodeIx),
    /// A position in [`Disruption::bought`].
    Bought(usize),
}

/// Nodes to remove for one reason, what is bought for them, and where their pods go.
#[derive(Clone, Debug)]
pub struct Disruption {
    /// `Empty`, `Drifted`, `Underutilized` or `Unhealthy`.
    pub reason: &'static str,
    /// Nodes that go.
    pub nodes: Vec<NodeIx>,
    /// Nodes that are bought for their pods.
    pub bought: Vec<PlannedClaim>,
    /// Where each pod goes.
    pub moves: Vec<(PodIx, Place)>,
    /// The nodes are of static NodePools. Each is replaced by another one of its NodePool, and nothing
    /// is planned for its pods.
    pub of_static: bool,
}

/// Checks disruptions that are carried out together.
///
/// # Errors
/// Everything that is wrong with them.
pub fn check(snapshot: &Snapshot, disruptions: &[Disruption]) -> Result<(), Vec<Violation>> {
    let mut found = Violations {
        world: &snapshot.world,
        violations: Vec::new(),
    };
    accounting(snapshot, disruptions, &mut found);
    if !found.violations.is_empty() {
        return Err(found.violations);
    }
    allowed(snapshot, disruptions, &mut found);
    budgets(snapshot, disruptions, &mut found);
    replicas(snapshot, disruptions, &mut found);
    prices(snapshot, disruptions, &mut found);
    places(snapshot, disruptions, &mut found);
    skews(snapshot, disruptions, &mut found);
    if found.violations.is_empty() {
        Ok(())
    } else {
        Err(found.violations)
    }
}

/// Checks nodes that go or are rebooted, each `alone` and without a place for its pods, beside
/// disruptions that are carried out together.
///
/// # Errors
/// Everything that is wrong with them.
pub fn check_alone(
    snapshot: &Snapshot,
    disruptions: &[Disruption],
    alone: &[Disruption],
) -> Result<(), Vec<Violation>> {
    let mut found = Violations {
        world: &snapshot.world,
        violations: Vec::new(),
    };
    let all: Vec<Disruption> = disruptions.iter().chain(alone).cloned().collect();
    nodes_go_once(snapshot, &all, &mut found);
    if !found.violations.is_empty() {
        return Err(found.violations);
    }
    allowed(snapshot, alone, &mut found);
    budgets(snapshot, &all, &mut found);
    if found.violations.is_empty() {
        Ok(())
    } else {
        Err(found.violations)
    }
}

fn name(world: &ClusterObjects, node: &StateNode) -> Option<String> {
    Some(format!("node {}", world.names.text(node.name)))
}

/// Pods that end with a node: those that are to move to it still run on another.
fn pods_of(world: &ClusterObjects, node: &StateNode) -> impl Iterator<Item = PodIx> {
    let elsewhere = |pod: PodIx| {
        world.pods[pod.0 as usize]
            .node
            .filter(|on| *on != node.name)
    };
    let pods = node.pods.iter().copied();
    pods.filter(move |&pod| elsewhere(pod).is_none())
}

/// Whether a pod has to find another place when its node goes.
fn moves(world: &ClusterObjects, pod: PodIx) -> bool {
    let pod = &world.pods[pod.0 as usize];
    let daemon = pod
        .owner
        .is_some_and(|(kind, _)| world.names.text(kind) == "DaemonSet");
    !daemon && !pod.is_static && !pod.terminal
}

/// Whether the eviction of a pod costs anything, by its priority and its deletion cost.
fn costs_something(world: &ClusterObjects, pod: PodIx) -> bool {
    let pod = &world.pods[pod.0 as usize];
    let priority = f64::from(world.shapes.get(pod.shape).priority);
    1.0 + f64::from(pod.deletion_cost) / 2f64.powi(27) + priority / 2f64.powi(25) > 0.0
}

/// Each node is one of the cluster, and goes once: which they are.
fn nodes_go_once(
    snapshot: &Snapshot,
    disruptions: &[Disruption],
    found: &mut Violations<'_>,
) -> FxHashSet<NodeIx> {
    let world = &*snapshot.world;
    let mut gone: FxHashSet<NodeIx> = FxHashSet::default();
    for &node in disruptions.iter().flat_map(|d| &d.nodes) {
        if node.0 as usize >= snapshot.nodes.len() {
            found.add(
                Invariant::Accounting,
                None,
                None,
                format!("there is no node {}", node.0),
            );
        } else if !gone.insert(node) {
            let at = name(world, &snapshot.nodes[node.0 as usize]);
            found.add(Invariant::Accounting, at, None, "goes twice".into());
        }
    }
    gone
}

/// Each node goes once, and exactly its pods move, to nodes that stay or are bought.
fn accounting(snapshot: &Snapshot, disruptions: &[Disruption], found: &mut Violations<'_>) {
    let world = &*snapshot.world;
    let gone = nodes_go_once(snapshot, disruptions, found);
    if !found.violations.is_empty() {
        return;
    }
    for disruption in disruptions {
        if disruption.of_static {
            if !disruption.moves.is_empty() || !disruption.bought.is_empty() {
                let detail = "something is planned for nodes of static NodePools".into();
                found.add(Invariant::Accounting, None, None, detail);
            }
            continue;
        }
        let of_nodes = disruption
            .nodes
            .iter()
            .flat_map(|node| pods_of(world, &snapshot.nodes[node.0 as usize]));
        // Pods that cost nothing to evict fill no node.
        let needs = |pod: PodIx| disruption.reason != "Empty" || costs_something(world, pod);
        let wanted = of_nodes.filter(|&pod| moves(world, pod) && needs(pod));
        let wanted: FxHashSet<PodIx> = wanted.collect();
        let mut moved: FxHashSet<PodIx> = FxHashSet::default();
        for &(pod, place) in &disruption.moves {
            if !wanted.contains(&pod) {
                found.add(
                    Invariant::Accounting,
                    None,
                    Some(pod),
                    "moves though its node stays".into(),
                );
            }
            if !moved.insert(pod) {
                found.add(Invariant::Accounting, None, Some(pod), "moves twice".into());
            }
            let fine = match place {
                Place::Node(node) => {
                    (node.0 as usize) < snapshot.nodes.len() && !gone.contains(&node)
                }
                Place::Bought(at) => disruption
                    .bought
                    .get(at)
                    .is_some_and(|claim| claim.pods.contains(&pod)),
            };
            if !fine {
                found.add(
                    Invariant::Accounting,
                    None,
                    Some(pod),
                    "moves to what is not there".into(),
                );
            }
        }
        for &pod in wanted.difference(&moved) {
            found.add(
                Invariant::Accounting,
                None,
                Some(pod),
                "has no place though its node goes".into(),
            );
        }
        for claim in disruption
            .bought
            .iter()
            .filter(|claim| claim.pods.is_empty())
        {
            let detail = format!("a node of {} types is bought for no pod", claim.types.len());
            found.add(Invariant::Accounting, None, None, detail);
        }
    }
}

/// Nodes that may go at all, by NodePool, claim, annotations and pods.
fn allowed(snapshot: &Snapshot, disruptions: &[Disruption], found: &mut Violations<'_>) {
    let world = &*snapshot.world;
    for disruption in disruptions {
        for node in &disruption.nodes {
            let node = &snapshot.nodes[node.0 as usize];
            if let Err(why) = may_go(world, node, disruption) {
                found.add(Invariant::Disruption, name(world, node), None, why);
            }
        }
    }
    for &(pod, place) in disruptions.iter().flat_map(|d| &d.moves) {
        if let Place::Node(node) = place
            && !snapshot.nodes[node.0 as usize].initialized
        {
            let at = name(world, &snapshot.nodes[node.0 as usize]);
            found.add(
                Invariant::Disruption,
                at,
                Some(pod),
                "moves to a node that is not initialised".into(),
            );
        }
    }
}

/// The NodeClaim of a node; nothing if several say that they are.
fn claim_of<'w>(world: &'w ClusterObjects, node: &StateNode) -> Option<&'w NodeClaim> {
    let record = world.nodes.iter().find(|record| record.name == node.name)?;
    let is_its = |claim: &&NodeClaim| match (record.provider_id, claim.provider_id) {
        (Some(a), Some(b)) => a == b,
        _ => claim.node_name == Some(node.name),
    };
    let mut all = world.claims.iter().filter(is_its);
    all.next().filter(|_| all.next().is_none())
}

/// The price of a node's offering, USD per hour.
fn price_of(world: &ClusterObjects, node: &StateNode) -> f64 {
    let label = |key: &str| world.names.get(key).and_then(|key| node.labels.get(key));
    let kind = label("node.kubernetes.io/instance-type");
    let (zone, capacity) = (
        label("topology.kubernetes.io/zone"),
        label("karpenter.sh/capacity-type"),
    );
    let types = world
        .catalogue
        .types()
        .iter()
        .enumerate()
        .filter(|(_, t)| Some(t.name) == kind);
    let offerings = types.flat_map(|(at, _)| {
        world
            .catalogue
            .offerings_of(crate::model::TypeId(at as u32))
    });
    let same = offerings.filter(|o| o.zone == zone && o.capacity_type == capacity);
    same.map(|o| o.price).min_by(f64::total_cmp).unwrap_or(0.0)
}

/// What is bought for underutilised nodes costs less than they do, whatever is launched.
fn prices(snapshot: &Snapshot, disruptions: &[Disruption], found: &mut Violations<'_>) {
    let world = &*snapshot.world;
    for disruption in disruptions
        .iter()
        .filter(|d| d.reason == "Underutilized" && !d.bought.is_empty())
    {
        let nodes = disruption
            .nodes
            .iter()
            .map(|node| &snapshot.nodes[node.0 as usize]);
        let before: f64 = nodes.map(|node| price_of(world, node)).sum();
        let worst = |claim: &PlannedClaim| {
            let offerings = claim
                .types
                .iter()
                .flat_map(|&t| world.catalogue.offerings_of(t));
            let may = offerings.filter(|offering| {
                offering.available
                    && offering.requirements.iter().all(|r| match &r.op {
                        crate::model::Op::In(values) => claim
                            .requirements
                            .iter()
                            .find(|(key, _)| *key == r.key)
                            .is_none_or(|(_, allowed)| values.iter().any(|v| allowed.contains(v))),
                        _ => true,
                    })
            });
            may.map(|offering| offering.price).fold(0.0, f64::max)
        };
        let after: f64 = disruption.bought.iter().map(worst).sum();
        if after >= before {
            let detail =
                format!("replacements could cost {after} USD per hour, what they replace {before}");
            found.add(Invariant::Price, None, None, detail);
        }
    }
}

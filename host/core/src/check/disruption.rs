//! Does disruption keep every rule? Asked of all that is to be carried out together, before it is, and
//! written without a look at the search.
//!
//! The nodes are taken out of the cluster, the pods that move wait, and the plan for them is checked like
//! any other. Topology spread is judged by what was before: kube-scheduler may have left a skew that is
//! too large, and it must not grow.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::hosts::Hosts;
use super::{Invariant, Violation, Violations, limits, topology};
use crate::cron::Schedule;
use crate::ids::{NodeIx, PodIx};
use crate::model::pod::DoNotDisrupt;
use crate::model::{
    ClusterObjects, ConsolidationPolicy, Labels, NodeClaim, NodePool, NodeRecord, PodShape,
    ShapeId, Spread, Symbol,
};
use crate::plan::{Placement, Plan, PlannedClaim};
use crate::snapshot::{Snapshot, StateNode};

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

fn may_go(world: &ClusterObjects, node: &StateNode, disruption: &Disruption) -> Result<(), String> {
    let text = |symbol: Symbol| world.names.text(symbol);
    let claim = claim_of(world, node).ok_or("it has no Node, or not one NodeClaim")?;
    let pool: &NodePool = world
        .pools
        .iter()
        .find(|pool| Some(pool.name) == node.pool)
        .ok_or("no NodePool owns it")?;
    if disruption.reason == "Unhealthy" {
        return may_be_repaired(world, node, claim);
    }
    if !node.initialized {
        return Err("it is not initialised".into());
    }
    if is_true(world, claim, "Rebooting") {
        return Err("it is rebooting".into());
    }
    match (pool.replicas.is_some(), disruption.of_static) {
        (true, false) => return Err("its NodePool is static".into()),
        (false, true) => return Err("its NodePool is not static".into()),
        (true, true) if disruption.reason != "Drifted" => {
            return Err("nodes of static NodePools go for drift alone".into());
        }
        _ => {}
    }
    let record = world.nodes.iter().find(|record| record.name == node.name);
    let annotations = record
        .into_iter()
        .map(|record| &record.annotations)
        .chain([&claim.annotations]);
    for (key, value) in annotations.flat_map(|annotations| annotations.iter()) {
        if (text(key), text(value)) == ("karpenter.sh/do-not-disrupt", "true") {
            return Err("it must not be disrupted".into());
        }
    }
    let here = |pod: &&crate::model::Pod| {
        pod.node.is_none()
            && !pod.terminal
            && !pod.deleting
            && pod
                .nominated
                .is_some_and(|at| at == node.name || at == claim.name)
    };
    if let Some(pod) = world.pods.iter().find(here) {
        return Err(format!("{} is expected on it", pod.name));
    }
    if in_command(world, claim) {
        return Err("it is disrupted already".into());
    }
    let is = |condition: &str| is_true(world, claim, condition);
    let fills = |pod: PodIx| moves(world, pod) && costs_something(world, pod);
    let movable = pods_of(world, node).filter(|&pod| fills(pod)).count();
    let comes_back = world.pods.iter().find(|pod| {
        let stateful = |(kind, _)| world.names.text(kind) == "StatefulSet";
        let ends = pod.node == Some(node.name) && pod.deleting && !pod.terminal;
        ends && pod.owner.is_some_and(stateful)
    });
    match disruption.reason {
        "Drifted" if !is("Drifted") => return Err("it has not drifted".into()),
        "Drifted" => {}
        _ if pool.consolidate_after.is_none() => return Err("consolidateAfter is Never".into()),
        _ if !is("Consolidatable") => return Err("consolidateAfter has not passed".into()),
        "Empty" if movable > 0 => return Err(format!("{movable} pods are on it")),
        "Empty" | "Underutilized" if comes_back.is_some() => {
            return Err("a pod of a StatefulSet is ending on it".into());
        }
        "Underutilized" if pool.consolidation == ConsolidationPolicy::WhenEmpty => {
            return Err("only empty nodes of its NodePool may go".into());
        }
        _ => {}
    }
    if disruption.reason == "Drifted" && claim.termination_grace.is_some() {
        return Ok(());
    }
    pods_of(world, node).try_for_each(|pod| may_be_evicted(world, pod))
}

fn is_true(world: &ClusterObjects, claim: &NodeClaim, condition: &str) -> bool {
    let mut known = claim.conditions.iter();
    known.any(|&known| world.names.text(known) == condition)
}

/// Repair takes nodes whose condition has lasted too long, where few of the NodePool are unhealthy.
/// Pods are in the way only where nothing bounds how long the node drains.
fn may_be_repaired(
    world: &ClusterObjects,
    node: &StateNode,
    claim: &NodeClaim,
) -> Result<(), String> {
    let unhealthy = world.unhealthy.iter().find(|of| of.node == node.name);
    let due = unhealthy.and_then(|of| of.due).ok_or("no repair is due")?;
    if in_command(world, claim) || claim.deleting || is_true(world, claim, "Rebooting") {
        return Err("it is disrupted already".into());
    }
    let record = world.nodes.iter().find(|record| record.name == node.name);
    let record = record.ok_or("it has no Node")?;
    let said = match is_true(world, claim, "Registered") {
        true => &record.annotations,
        false => &claim.annotations,
    };
    let text = |symbol: Symbol| world.names.text(symbol);
    let vetoed = |(key, value): (Symbol, Symbol)| {
        (text(key), text(value)) == ("karpenter.sh/do-not-repair", "true")
    };
    if said.iter().any(vetoed) {
        return Err("it must not be repaired".into());
    }
    let nodepool = world.names.get("karpenter.sh/nodepool");
    let of = |record: &NodeRecord| nodepool.and_then(|key| record.labels.get(key));
    let mine = world.nodes.iter().filter(|record| of(record) == node.pool);
    let sick = |record: &NodeRecord| world.unhealthy.iter().any(|of| of.node == record.name);
    let (mut all, mut unhealthy) = (0usize, 0usize);
    for record in mine {
        all += 1;
        unhealthy += usize::from(sick(record));
    }
    if unhealthy * 5 > all + 4 {
        return Err(format!(
            "{unhealthy} of {all} nodes of its NodePool are unhealthy"
        ));
    }
    if due.grace.or(claim.termination_grace).is_some() {
        return Ok(());
    }
    pods_of(world, node).try_for_each(|pod| may_be_evicted(world, pod))
}

/// Whether a NodeClaim belongs to a command that is under way.
fn in_command(world: &ClusterObjects, claim: &NodeClaim) -> bool {
    let key = world.names.get("longshore.dev/disruption");
    key.is_some_and(|key| claim.annotations.get(key).is_some())
}

fn may_be_evicted(world: &ClusterObjects, ix: PodIx) -> Result<(), String> {
    let pod = &world.pods[ix.0 as usize];
    let shape = world.shapes.get(pod.shape);
    let held = match pod.do_not_disrupt {
        DoNotDisrupt::No => false,
        DoNotDisrupt::Always => true,
        DoNotDisrupt::For(seconds) => pod.started.is_none_or(|start| start + seconds > world.now),
    };
    if held {
        return Err(format!("pod {} must not be disrupted", pod.name));
    }
    let stays = shape.tolerations.iter().any(|toleration| {
        let any_key = toleration.key.is_none() && toleration.exists;
        let this_key = toleration
            .key
            .is_some_and(|key| world.names.text(key) == "karpenter.sh/disrupted");
        let value = toleration.exists || world.names.text(toleration.value).is_empty();
        let effect = toleration
            .effect
            .is_none_or(|e| e == crate::model::TaintEffect::NoSchedule);
        (any_key || this_key) && value && effect
    });
    if stays || pod.is_static || pod.terminal || pod.waits_to_start {
        return Ok(());
    }
    let budgets = world.budgets.iter();
    let mine =
        budgets.filter(|b| b.namespace == shape.namespace && b.selector.matches(&shape.labels));
    let mine: Vec<_> = mine.collect();
    match mine.as_slice() {
        [] => Ok(()),
        [one] if one.allowed >= 1 || (one.evicts_unhealthy && pod.unready) => Ok(()),
        [one] => Err(format!(
            "PodDisruptionBudget {} keeps {}",
            world.names.text(one.name),
            pod.name
        )),
        _ => Err(format!(
            "{} PodDisruptionBudgets select {}",
            mine.len(),
            pod.name
        )),
    }
}

/// No NodePool loses more nodes than its budgets allow for the reason.
fn budgets(snapshot: &Snapshot, disruptions: &[Disruption], found: &mut Violations<'_>) {
    let world = &*snapshot.world;
    for pool in &world.pools {
        let mut going: FxHashMap<&str, u64> = FxHashMap::default();
        for disruption in disruptions {
            // Repair of a node that is not initialised neither needs nor uses a budget.
            let mine = |node: &&NodeIx| {
                let node = &snapshot.nodes[node.0 as usize];
                let counts = node.initialized || disruption.reason != "Unhealthy";
                node.pool == Some(pool.name) && counts
            };
            *going.entry(disruption.reason).or_default() +=
                disruption.nodes.iter().filter(mine).count() as u64;
        }
        let all: u64 = going.values().sum();
        for (reason, _) in going.into_iter().filter(|(_, nodes)| *nodes > 0) {
            let Some(most) = most_for(world, pool, reason) else {
                continue;
            };
            if all > most {
                let at = Some(format!("NodePool {}", world.names.text(pool.name)));
                let detail = format!("{all} nodes go, {reason} among them, for which {most} may");
                found.add(Invariant::Disruption, at, None, detail);
            }
        }
    }
}

/// How many nodes of a NodePool may go for a reason; nothing if no budget says.
fn most_for(world: &ClusterObjects, pool: &NodePool, reason: &str) -> Option<u64> {
    let label = |key: &str| world.names.get(key);
    let (nodepool, initialized) = (
        label("karpenter.sh/nodepool")?,
        label("karpenter.sh/initialized")?,
    );
    let reboots = |node: &NodeRecord| {
        let mut claims = world.claims.iter();
        claims.any(|claim| claim.node_name == Some(node.name) && is_true(world, claim, "Rebooting"))
    };
    let mine = world.nodes.iter().filter(|node| {
        let ready = node
            .labels
            .get(initialized)
            .is_some_and(|value| world.names.text(value) == "true");
        node.labels.get(nodepool) == Some(pool.name) && (ready || reboots(node))
    });
    let (mut nodes, mut disturbed) = (0u64, late(world, pool, reason));
    for node in mine {
        let ends = |claim: &NodeClaim| is_true(world, claim, "InstanceTerminating");
        let mut own = world.claims.iter();
        if own.any(|claim| claim.node_name == Some(node.name) && ends(claim)) {
            continue;
        }
        nodes += 1;
        let going = node.deleting
            || world.claims.iter().any(|claim| {
                claim.node_name == Some(node.name)
                    && (claim.deleting
                        || in_command(world, claim)
                        || is_true(world, claim, "Rebooting"))
            });
        let not_ready = !node.ready && reason != "Unhealthy";
        disturbed += u64::from(going || not_ready);
    }
    let mut least: Option<u64> = None;
    for budget in &pool.budgets {
        let concerns = budget
            .reasons
            .as_ref()
            .is_none_or(|all| all.iter().any(|&r| world.names.text(r) == reason));
        let open = match (&budget.schedule, budget.duration) {
            (Some(text), duration) => match Schedule::parse(text) {
                // Of what cannot be read it is not known what it allows, for any reason.
                Err(_) => return Some(0),
                Ok(schedule) => {
                    let begun = schedule.next(world.now - duration.unwrap_or(0));
                    begun.is_none_or(|begun| begun <= world.now)
                }
            },
            (None, _) => true,
        };
        if concerns && open {
            let most = match budget.nodes.strip_suffix('%').map(str::parse::<u64>) {
                Some(Ok(share)) if share <= 100 => (nodes * share).div_ceil(100),
                Some(_) => 0,
                None => budget.nodes.parse().unwrap_or(0),
            };
            least = Some(least.map_or(most, |known| known.min(most)));
        }
    }
    least.map(|most| most.saturating_sub(disturbed))
}

/// Nodes of a NodePool that have not become ready in ten minutes, but for those that were bought for
/// nodes that are still there. Repair is not bound by them.
fn late(world: &ClusterObjects, pool: &NodePool, reason: &str) -> u64 {
    let text = |labels: &Labels, key: &str| {
        let value = world.names.get(key).and_then(|key| labels.get(key));
        value.map(|value| world.names.text(value))
    };
    let name = world.names.text(pool.name);
    let is_late = |node: &&NodeRecord| {
        let claim = world
            .claims
            .iter()
            .find(|of| of.node_name == Some(node.name));
        let Some(claim) = claim else { return false };
        let bought_for = text(&claim.annotations, "longshore.dev/replaces");
        let mut all = world.claims.iter();
        let replaces = bought_for.is_some_and(|id| {
            all.any(|of| text(&of.annotations, "longshore.dev/disruption") == Some(id))
        });
        text(&node.labels, "karpenter.sh/nodepool") == Some(name)
            && text(&node.labels, "karpenter.sh/initialized") != Some("true")
            && !is_true(world, claim, "Rebooting")
            && !(node.deleting || claim.deleting || in_command(world, claim))
            && (claim.created == 0 || world.now - claim.created >= 600)
            && !replaces
    };
    match reason {
        "Unhealthy" => 0,
        _ => world.nodes.iter().filter(is_late).count() as u64,
    }
}

/// A static NodePool has its replicas before nodes are replaced, and stays within its node limit while
/// they are.
fn replicas(snapshot: &Snapshot, disruptions: &[Disruption], found: &mut Violations<'_>) {
    let world = &*snapshot.world;
    let Some(nodepool) = world.names.get("karpenter.sh/nodepool") else {
        return;
    };
    let of_static = || disruptions.iter().filter(|d| d.of_static);
    for pool in &world.pools {
        let mine = |node: &&NodeIx| snapshot.nodes[node.0 as usize].pool == Some(pool.name);
        let replaced = of_static().flat_map(|d| &d.nodes).filter(mine).count() as i64;
        let Some(wanted) = pool.replicas.filter(|_| replaced > 0) else {
            continue;
        };
        let own = |claim: &&NodeClaim| claim.labels.get(nodepool) == Some(pool.name);
        let claims = world.claims.iter().filter(own).count() as i64;
        let at = || Some(format!("NodePool {}", world.names.text(pool.name)));
        if pool.deleting || claims != wanted {
            let detail =
                format!("{claims} NodeClaims for {wanted} replicas, and nodes are replaced");
            found.add(Invariant::Disruption, at(), None, detail);
        }
        if pool
            .node_limit
            .is_some_and(|limit| claims + replaced > limit)
        {
            let detail =
                format!("{claims} NodeClaims and {replaced} replacements beyond its limit");
            found.add(Invariant::Limits, at(), None, detail);
        }
    }
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

/// The cluster without the nodes, its moved pods waiting, and the plan for them.
fn places(snapshot: &Snapshot, disruptions: &[Disruption], found: &mut Violations<'_>) {
    let world = &*snapshot.world;
    let gone: FxHashSet<NodeIx> = disruptions
        .iter()
        .flat_map(|d| d.nodes.iter().copied())
        .collect();
    let pending: FxHashSet<PodIx> = disruptions
        .iter()
        .flat_map(|d| d.moves.iter().map(|m| m.0))
        .collect();
    let mut kept: Vec<StateNode> = Vec::new();
    let mut number: FxHashMap<NodeIx, NodeIx> = FxHashMap::default();
    for (at, node) in snapshot.nodes.iter().enumerate() {
        let at = NodeIx(at as u32);
        if !gone.contains(&at) {
            number.insert(at, NodeIx(kept.len() as u32));
            kept.push(node.clone());
        }
    }
    // Candidates are compared by kube-scheduler until they are gone.
    let mut hosts_without_pods = snapshot.hosts_without_pods.clone();
    let removed: FxHashSet<Symbol> = gone
        .iter()
        .map(|at| snapshot.nodes[at.0 as usize].name)
        .collect();
    let of_world = (0..).zip(&world.nodes);
    let leaving = of_world.filter(|(_, node)| removed.contains(&node.name));
    hosts_without_pods.extend(leaving.map(|(at, _)| at));
    let running = Arc::new(crate::snapshot::Running::index(world, &kept));
    let movable = snapshot.movable();
    let after = Snapshot {
        world: snapshot.world.clone(),
        nodes: kept,
        pending: movable
            .into_iter()
            .filter(|pod| pending.contains(&pod.pod))
            .collect(),
        running,
        hosts_without_pods,
        ..snapshot.clone()
    };
    let mut plan = Plan::default();
    let mut existing: FxHashMap<NodeIx, Vec<PodIx>> = FxHashMap::default();
    for disruption in disruptions {
        plan.claims.extend(disruption.bought.iter().cloned());
        for &(pod, place) in &disruption.moves {
            if let Place::Node(node) = place {
                existing.entry(number[&node]).or_default().push(pod);
            }
        }
    }
    plan.on_existing_nodes = existing
        .into_iter()
        .map(|(node, pods)| Placement { node, pods })
        .collect();
    plan.on_existing_nodes
        .sort_by_key(|placement| placement.node);
    let mut inside = Violations {
        world,
        violations: Vec::new(),
    };
    let hosts = Hosts::new(&after, &plan);
    hosts.check(&mut inside);
    topology::check(&hosts, &mut inside);
    // What is bought for drifted nodes may take their share of the limits before they are gone.
    let in_place = ["Drifted", "Unhealthy"];
    let drifts = (disruptions.iter()).any(|d| in_place.contains(&d.reason));
    let beside = if drifts { &after } else { snapshot };
    limits::check(beside, &plan, &mut inside);
    found.violations.extend(
        inside
            .violations
            .into_iter()
            .filter(|v| v.invariant != Invariant::Spread),
    );
}

/// No required topology spread constraint of a pod that moves has a larger skew in the pod's domain than
/// before, unless it is small enough.
fn skews(snapshot: &Snapshot, disruptions: &[Disruption], found: &mut Violations<'_>) {
    let world = &*snapshot.world;
    let mut to: FxHashMap<PodIx, (Place, &Disruption)> = FxHashMap::default();
    for disruption in disruptions {
        to.extend(
            disruption
                .moves
                .iter()
                .map(|&(pod, place)| (pod, (place, disruption))),
        );
    }
    let hostname = world.names.get("kubernetes.io/hostname");
    let mut rules: FxHashMap<(Symbol, &Spread), Vec<PodIx>> = FxHashMap::default();
    let mut moved: Vec<PodIx> = to.keys().copied().collect();
    moved.sort_unstable();
    // Thousands of pods may move for thousands of rules: each rule looks at pods of its shapes only.
    let mut of_shape: FxHashMap<ShapeId, Vec<PodIx>> = FxHashMap::default();
    for &pod in &moved {
        let id = world.pods[pod.0 as usize].shape;
        of_shape.entry(id).or_default().push(pod);
        let shape = world.shapes.get(id);
        for spread in shape
            .spread
            .iter()
            .filter(|s| s.required && Some(s.key) != hostname)
        {
            rules
                .entry((shape.namespace, spread))
                .or_default()
                .push(pod);
        }
    }
    let domain = |pod: PodIx, key: Symbol| match to[&pod] {
        (Place::Node(node), _) => snapshot.nodes[node.0 as usize].labels.get(key),
        (Place::Bought(at), disruption) => domain_of(world, &disruption.bought[at], key),
    };
    let mut from: FxHashMap<PodIx, NodeIx> = FxHashMap::default();
    for &node in disruptions.iter().flat_map(|d| &d.nodes) {
        from.extend(
            snapshot.nodes[node.0 as usize]
                .pods
                .iter()
                .map(|&pod| (pod, node)),
        );
    }
    let mut empty: FxHashMap<Symbol, FxHashMap<Symbol, i64>> = FxHashMap::default();
    for ((namespace, spread), owners) in rules {
        let selects = |shape: &PodShape| {
            shape.namespace == namespace && spread.selector.matches(&shape.labels)
        };
        let of_nodes = || {
            let nodes = snapshot.nodes.iter();
            let values = nodes.filter_map(|node| node.labels.get(spread.key));
            values.map(|value| (value, 0)).collect()
        };
        let mut before = empty.entry(spread.key).or_insert_with(of_nodes).clone();
        let mut selected = snapshot.running.candidates(&spread.selector);
        selected.retain(|&shape| selects(world.shapes.get(shape)));
        for &shape in &selected {
            for &(node, pods) in snapshot.running.on(shape) {
                if let Some(value) = snapshot.nodes[node.0 as usize].labels.get(spread.key) {
                    *before.entry(value).or_default() += i64::from(pods);
                }
            }
        }
        let mut after = before.clone();
        for &pod in selected.iter().filter_map(|id| of_shape.get(id)).flatten() {
            let was = from
                .get(&pod)
                .and_then(|node| snapshot.nodes[node.0 as usize].labels.get(spread.key));
            if let Some(value) = was {
                *after.entry(value).or_default() -= 1;
            }
            if let Some(value) = domain(pod, spread.key) {
                *after.entry(value).or_default() += 1;
            }
        }
        let least = |counts: &FxHashMap<Symbol, i64>| counts.values().copied().min().unwrap_or(0);
        let (least_before, least_after) = (least(&before), least(&after));
        for pod in owners {
            let Some(value) = domain(pod, spread.key) else {
                let detail = "a pod with a spread constraint, but its domain is not settled".into();
                found.add(Invariant::Spread, None, Some(pod), detail);
                continue;
            };
            let skew = after.get(&value).copied().unwrap_or(0) - least_after;
            let was = before.get(&value).copied().unwrap_or(0) - least_before;
            if skew > i64::from(spread.max_skew).max(was) {
                let detail = format!("skew {skew} in {}, {was} before", world.names.text(value));
                found.add(Invariant::Spread, None, Some(pod), detail);
            }
        }
    }
}

/// The domain that a node to be bought is in for certain.
fn domain_of(world: &ClusterObjects, claim: &PlannedClaim, key: Symbol) -> Option<Symbol> {
    let required = claim.requirements.iter().find(|(known, _)| *known == key);
    match required.map(|(_, values)| values.as_slice()) {
        Some([only]) => Some(*only),
        Some(_) => None,
        None => world.pools[claim.pool.0 as usize].labels.get(key),
    }
}

//! Whether pods that move have a place, and no topology constraint becomes worse.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Disruption, Place};
use crate::check::hosts::Hosts;
use crate::check::{Invariant, Violations, limits, topology};
use crate::ids::{NodeIx, PodIx};
use crate::model::{ClusterObjects, PodShape, ShapeId, Spread, Symbol};
use crate::plan::{Placement, Plan, PlannedClaim};
use crate::snapshot::{Snapshot, StateNode};

/// The cluster without the nodes, its moved pods waiting, and the plan for them.
pub(super) fn places(snapshot: &Snapshot, disruptions: &[Disruption], found: &mut Violations<'_>) {
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
pub(super) fn skews(snapshot: &Snapshot, disruptions: &[Disruption], found: &mut Violations<'_>) {
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

//! Whether each node of a proposal may go.

use super::{Disruption, claim_of, costs_something, moves, pods_of};
use crate::ids::PodIx;
use crate::model::conditions::{CONSOLIDATABLE, DRIFTED, REGISTERED};
use crate::model::pod::DoNotDisrupt;
use crate::model::{ClusterObjects, ConsolidationPolicy, NodeClaim, NodePool, NodeRecord, Symbol};
use crate::snapshot::StateNode;

pub(super) fn may_go(
    world: &ClusterObjects,
    node: &StateNode,
    disruption: &Disruption,
) -> Result<(), String> {
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
        "Drifted" if !is(DRIFTED) => return Err("it has not drifted".into()),
        "Drifted" => {}
        _ if pool.consolidate_after.is_none() => return Err("consolidateAfter is Never".into()),
        _ if !is(CONSOLIDATABLE) => return Err("consolidateAfter has not passed".into()),
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

pub(super) fn is_true(world: &ClusterObjects, claim: &NodeClaim, condition: &str) -> bool {
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
    let said = match is_true(world, claim, REGISTERED) {
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
pub(super) fn in_command(world: &ClusterObjects, claim: &NodeClaim) -> bool {
    let key = world.names.get("longshore.dev/disruption");
    key.is_some_and(|key| claim.annotations.get(key).is_some())
}

fn may_be_evicted(world: &ClusterObjects, ix: PodIx) -> Result<(), String> {
    let pod = &world.pods[ix.0 as usize];
    let shape = world.shapes.get(pod.shape);
    let held = match pod.do_not_disrupt {
        DoNotDisrupt::No => false,
        DoNotDisrupt::Always => true,
        DoNotDisrupt::For(seconds) => pod
            .started
            .is_none_or(|start| start.saturating_add(seconds.into()) > world.now),
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

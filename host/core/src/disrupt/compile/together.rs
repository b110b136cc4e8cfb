//! Pods that have to be on one host, and whether they could be scheduled there one after the other.
//!
//! kube-scheduler places a pod with affinity to a host only beside a pod that it selects. The first
//! of its kind is an exception: it selects itself, and no pod that it selects is anywhere.

use smallvec::SmallVec;

use crate::ids::PodIx;
use crate::schedule::first_fit::CompiledCluster;
use crate::schedule::topology::ConstraintKind;

/// A pod that may move.
#[derive(Clone, Copy, Debug)]
pub(super) struct Movable {
    pub pod: PodIx,
    /// Position in [`CompiledCluster::items`].
    pub group: Option<usize>,
    /// Index into the snapshot's nodes.
    pub node: usize,
}

/// Pods that move together.
pub(super) type Unit = SmallVec<[Movable; 1]>;

/// The pods of a node by the units in which they move.
///
/// # Errors
/// A pod that could not be scheduled elsewhere, even together with the pods that it is beside.
pub(super) fn units(p: &CompiledCluster<'_>, pods: &[Movable]) -> Result<Vec<Unit>, PodIx> {
    let single = |pod: &Movable| SmallVec::from_elem(*pod, 1);
    let wanted: Vec<SmallVec<[usize; 1]>> = pods.iter().map(|pod| follows(p, pod)).collect();
    if wanted.iter().all(SmallVec::is_empty) {
        return Ok(pods.iter().map(single).collect());
    }
    let mut units: Vec<Vec<usize>> = Vec::new();
    for at in 0..pods.len() {
        let tied = |&other: &usize| {
            let follow = |a: usize, b: usize| wanted[a].iter().any(|&g| counts(p, &pods[b], g));
            follow(at, other) || follow(other, at)
        };
        let (with, mut others): (Vec<_>, Vec<_>) =
            units.into_iter().partition(|unit| unit.iter().any(tied));
        let mut unit: Vec<usize> = with.into_iter().flatten().collect();
        unit.push(at);
        unit.sort_unstable();
        others.push(unit);
        units = others;
    }
    units.sort_unstable();
    let all = units.iter().map(|unit| {
        let order = in_order(p, pods, &wanted, unit)?;
        Ok(order.into_iter().map(|at| pods[at]).collect())
    });
    all.collect()
}

/// Topology groups that a pod has to be beside on its host.
fn follows(p: &CompiledCluster<'_>, pod: &Movable) -> SmallVec<[usize; 1]> {
    let Some(group) = pod.group else {
        return SmallVec::new();
    };
    let uses = p.items[group].relaxations.last().into_iter();
    uses.flat_map(|relaxation| relaxation.uses.iter())
        .map(|rule| rule.group)
        .filter(|&rule| {
            let of = &p.topology.groups[rule];
            let host = of.key.is_none() && of.spec.rule == ConstraintKind::Affinity;
            host && is_hard(p, group, rule)
        })
        .collect()
}

fn counts(p: &CompiledCluster<'_>, pod: &Movable, rule: usize) -> bool {
    pod.group
        .is_some_and(|group| p.items[group].counted.has(rule))
}

/// The pods of a unit in an order in which each could be scheduled on a host of their own; else the
/// first that could not.
fn in_order(
    p: &CompiledCluster<'_>,
    pods: &[Movable],
    wanted: &[SmallVec<[usize; 1]>],
    unit: &[usize],
) -> Result<Vec<usize>, PodIx> {
    let mut left = unit.to_vec();
    let mut order: Vec<usize> = Vec::new();
    while !left.is_empty() {
        let may = |&at: &usize| {
            wanted[at].iter().all(|&rule| {
                let beside = order.iter().any(|&other| counts(p, &pods[other], rule));
                let all = unit
                    .iter()
                    .filter(|&&of| counts(p, &pods[of], rule))
                    .count();
                let first = counts(p, &pods[at], rule) && order.is_empty();
                beside || (first && p.topology.groups[rule].total <= all as u64)
            })
        };
        let next = left.iter().position(may).ok_or(pods[left[0]].pod)?;
        order.push(left.remove(next));
    }
    Ok(order)
}

/// A rule that is left when all preferences are given up.
pub(super) fn is_hard(p: &CompiledCluster<'_>, group: usize, rule: usize) -> bool {
    let last = p.items[group].relaxations.last();
    last.is_some_and(|last| {
        last.uses
            .iter()
            .any(|kept| kept.group == rule && !kept.soft)
    })
}

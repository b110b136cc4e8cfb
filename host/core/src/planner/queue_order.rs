//! Which of like pods goes where: those that kube-scheduler comes to first go one to each domain.
//!
//! kube-scheduler lets a pod that must spread in only where its group is not ahead of others
//! already. The second pod of a zone, come to before each zone has its first, is sent elsewhere,
//! told of a node or not, and takes a place that was meant for others. To a plan like pods are all
//! the same; kube-scheduler has them in an order, that in which they came.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{PodShape, Requirement, Symbol};
use crate::plan::{Plan, PodIx};
use crate::schedule::first_fit::CompiledCluster;
use crate::snapshot::Snapshot;

/// Exchanges pods that must spread among the claims of a plan, by their queue order: the first of
/// them go to the first node of each domain, the next to the second of each, and so on; who is to
/// come to a node that one of them comes to already is among the last.
pub(super) fn interleave_domains(p: &CompiledCluster<'_>, plan: &mut Plan) {
    let mut of: FxHashMap<PodIx, (usize, usize)> = FxHashMap::default();
    let mut keys: FxHashMap<usize, Symbol> = FxHashMap::default();
    for (at, item) in p.items.iter().enumerate() {
        if let Some(key) = item
            .relaxations
            .last()
            .and_then(|last| p.topology.spreads_over(&last.uses))
        {
            keys.insert(at, key);
            of.extend(
                item.pods
                    .iter()
                    .enumerate()
                    .map(|(place, &pod)| (pod, (at, place))),
            );
        }
    }
    if of.is_empty() {
        return;
    }
    // By item and domain: which of its pods on that node it is, the node, and the place among the
    // node's pods.
    let mut seats: BTreeMap<usize, BTreeMap<Symbol, Vec<(usize, usize, usize)>>> = BTreeMap::new();
    for (at, claim) in plan.claims.iter().enumerate() {
        let mut here: FxHashMap<usize, usize> = FxHashMap::default();
        for (place, pod) in claim.pods.iter().enumerate() {
            let Some(&(item, _)) = of.get(pod) else {
                continue;
            };
            let settled = claim
                .requirements
                .iter()
                .find(|(key, _)| *key == keys[&item]);
            let Some([domain]) = settled.map(|(_, values)| values.as_slice()) else {
                continue;
            };
            let nth = here.entry(item).or_default();
            seats
                .entry(item)
                .or_default()
                .entry(*domain)
                .or_default()
                .push((*nth, at, place));
            *nth += 1;
        }
    }
    for domains in seats.into_values() {
        let mut turns: Vec<(usize, usize, usize)> = Vec::new();
        for mut seats in domains.into_values() {
            seats.sort_unstable();
            turns.extend(
                seats
                    .into_iter()
                    .enumerate()
                    .map(|(turn, (_, claim, place))| (turn, claim, place)),
            );
        }
        turns.sort_unstable();
        let mut pods: Vec<PodIx> = turns
            .iter()
            .map(|&(_, claim, place)| plan.claims[claim].pods[place])
            .collect();
        pods.sort_unstable_by_key(|pod| of[pod].1);
        for ((_, claim, place), pod) in turns.into_iter().zip(pods) {
            plan.claims[claim].pods[place] = pod;
        }
    }
}

/// Exchanges like pods on the claims of a plan, and those of `some`, so that the one that came
/// first, as `came` says, is where the plan has the first in queue order: of pods made in the same
/// second the queue order is nobody's. The pods of each claim and node are in that order
/// afterwards.
pub fn match_queue_order<K: Ord>(
    snapshot: &Snapshot,
    plan: &mut Plan,
    some: &mut FxHashSet<PodIx>,
    came: impl Fn(PodIx) -> K,
) {
    let bought: FxHashSet<PodIx> = plan
        .claims
        .iter()
        .flat_map(|claim| claim.pods.iter().copied())
        .collect();
    let mut alike: FxHashMap<(*const PodShape, &[Vec<Requirement>]), Vec<PodIx>> =
        FxHashMap::default();
    for pending in snapshot
        .pending
        .iter()
        .filter(|p| p.volumes.is_empty() && bought.contains(&p.pod))
    {
        let key = (
            std::sync::Arc::as_ptr(&pending.shape),
            pending.volume_alternatives.as_slice(),
        );
        alike.entry(key).or_default().push(pending.pod);
    }
    let mut instead: FxHashMap<PodIx, PodIx> = FxHashMap::default();
    for queued in alike.into_values() {
        let mut by_arrival = queued.clone();
        by_arrival.sort_by_cached_key(|pod| came(*pod));
        instead.extend(queued.into_iter().zip(by_arrival));
    }
    let exchanged = |pod: PodIx| instead.get(&pod).copied().unwrap_or(pod);
    for claim in &mut plan.claims {
        claim.pods.iter_mut().for_each(|pod| *pod = exchanged(*pod));
        claim.pods.sort_by_cached_key(|pod| came(*pod));
    }
    plan.on_existing_nodes
        .iter_mut()
        .for_each(|placement| placement.pods.sort_by_cached_key(|pod| came(*pod)));
    *some = some.iter().copied().map(exchanged).collect();
}

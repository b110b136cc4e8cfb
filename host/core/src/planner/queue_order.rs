//! Exchanges identical pods so that the first ones in kube-scheduler's queue go one to each domain.
//!
//! kube-scheduler admits a spread pod to a domain only if the domain is not ahead of the others. If
//! the second pod of a zone is tried before each zone has its first, kube-scheduler sends it
//! elsewhere, nominated or not, and it takes another pod's room. A plan may exchange identical pods
//! freely; kube-scheduler tries them in order of creation.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{PodShape, Requirement, Symbol};
use crate::plan::{Plan, PodIx};
use crate::schedule::first_fit::CompiledCluster;
use crate::snapshot::Snapshot;

/// Exchanges spread pods among the claims of a plan by queue order. The first pods go to the first
/// node of each domain, the next to the second node of each, and so on. Further pods of a node that
/// has one already come last.
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
    // By pod group and domain: which of its pods on that node it is, the node, and the place among
    // the node's pods.
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

/// Exchanges identical pods on the claims of a plan, and those of `some`, so that the pod that
/// arrived first (by `came`) takes the slot of the first in queue order. This is needed because
/// queue order does not distinguish pods created in the same second. The pods of each claim and
/// node are in that order afterwards.
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

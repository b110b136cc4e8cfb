//! Exchanges identical pods so that the first ones in kube-scheduler's queue go one to each domain.
//!
//! kube-scheduler admits a spread pod to a domain only if the domain is not ahead of the others. If
//! the second pod of a zone is tried before each zone has its first, kube-scheduler sends it
//! elsewhere, nominated or not, and it takes another pod's room. A plan may exchange identical pods
//! freely; kube-scheduler tries them in order of creation.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::model::Symbol;
use crate::plan::{Plan, PodIx};
use crate::schedule::first_fit::CompiledCluster;

/// Exchanges spread pods among the claims of a plan by queue order. The first pods go to the first
/// node of each domain, the next to the second node of each, and so on. Further pods of a node that
/// has one already come last.
pub(super) fn interleave_domains(p: &CompiledCluster<'_>, plan: &mut Plan) {
    let mut of: FxHashMap<PodIx, (usize, usize)> = FxHashMap::default();
    let mut keys: FxHashMap<usize, Symbol> = FxHashMap::default();
    for (at, pod_group) in p.items.iter().enumerate() {
        if let Some(key) = pod_group
            .relaxations
            .last()
            .and_then(|last| p.topology.spreads_over(&last.uses))
        {
            keys.insert(at, key);
            of.extend(
                pod_group
                    .pods
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
            let Some(&(index, _)) = of.get(pod) else {
                continue;
            };
            let settled = claim
                .requirements
                .iter()
                .find(|(key, _)| *key == keys[&index]);
            let Some([domain]) = settled.map(|(_, values)| values.as_slice()) else {
                continue;
            };
            let nth = here.entry(index).or_default();
            seats
                .entry(index)
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

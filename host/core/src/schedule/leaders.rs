//! Where the first of some pods may go so that others can follow it.
//!
//! A pod that others must be with settles their domain. Their volumes, selectors and NodePools may
//! leave them fewer domains than it has itself, and it is often placed first.

use rustc_hash::FxHashMap;

use super::bit_set::BitSet;
use super::node_specs::{NodeSpecId, NodeSpecs, RequirementsId};
use super::pod_groups::PodGroup;
use super::sets::Sets;
use super::topology::{ConstraintKind, Domains, Topology};
use crate::model::Symbol;
use crate::snapshot::Snapshot;

/// Counts for each group of pod affinity the pod groups that own its rule and cannot be in a domain.
pub fn find_unsuited(
    snapshot: &Snapshot,
    items: &[PodGroup],
    states: &mut NodeSpecs<'_>,
    topology: &mut Topology,
    pools: &[NodeSpecId],
) {
    let mut known: FxHashMap<(RequirementsId, usize), Vec<bool>> = FxHashMap::default();
    for item in items {
        // The last level has no preferences left: what holds there always holds.
        let Some(level) = item.relaxations.last() else {
            continue;
        };
        for rule in level.uses.iter().filter(|rule| rule.owner && !rule.soft) {
            let group = &topology.groups[rule.group];
            let Some(key) = group
                .key
                .filter(|_| group.spec.rule == ConstraintKind::Affinity && group.total == 0)
            else {
                continue;
            };
            let domains = &topology.keys[key];
            let mut suits = vec![false; domains.values.len()];
            for &need in &level.needs {
                let of_need = known
                    .entry((need, key))
                    .or_insert_with(|| suited(need, domains, snapshot, states, pools));
                suits
                    .iter_mut()
                    .zip(of_need)
                    .for_each(|(all, one)| *all |= *one);
            }
            if suits.contains(&false) {
                let unsuited = &mut topology.groups[rule.group].unsuited;
                unsuited.resize(suits.len(), 0);
                let counts = unsuited.iter_mut().zip(suits);
                counts.for_each(|(count, suits)| *count += u32::from(!suits));
            }
        }
    }
}

/// In which domains a node is or can be bought that some requirements admit. What lacks capacity
/// for the moment counts.
fn suited(
    need: RequirementsId,
    domains: &Domains,
    snapshot: &Snapshot,
    states: &mut NodeSpecs<'_>,
    pools: &[NodeSpecId],
) -> Vec<bool> {
    let asked = states.need_sets(need).clone();
    let every = BitSet::all(states.catalogue.types().len());
    let numbers = &states.numbers;
    let mut suits = vec![false; domains.values.len()];
    for (node, &domain) in snapshot.nodes.iter().zip(&domains.of_node) {
        if let Some(suits) = suits.get_mut(domain as usize) {
            *suits |= asked
                .0
                .iter()
                .all(|(key, set)| match node.labels.get(*key) {
                    Some(value) => set.admits(value, numbers),
                    None => set.allows_absence(),
                });
        }
    }
    for (suits, &value) in suits.iter_mut().zip(&domains.values) {
        *suits = *suits || can_be_bought(&asked, (domains.key, value), &every, states, pools);
    }
    suits
}

fn can_be_bought(
    asked: &Sets,
    (key, value): (Symbol, Symbol),
    types: &BitSet,
    states: &mut NodeSpecs<'_>,
    pools: &[NodeSpecId],
) -> bool {
    let admits = |set: &super::sets::Set| set.admits(value, &states.numbers);
    asked.get(key).is_none_or(admits)
        && (pools.iter()).any(|&pool| states.could_be_had(pool, asked, (key, value), types))
}

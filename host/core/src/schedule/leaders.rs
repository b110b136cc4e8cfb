//! Where the first of some pods may go so that others can follow it.
//!
//! A pod that others must be with settles their domain. Their volumes, selectors and NodePools may
//! leave them fewer domains than it has itself, and it is often placed first. So may those of pods
//! that must be with the followers, and so on.

use rustc_hash::FxHashMap;

use super::bit_set::BitSet;
use super::node_specs::{NodeSpecId, NodeSpecs, RequirementsId};
use super::pod_groups::PodGroup;
use super::sets::{Set, Sets};
use super::topology::{ConstraintKind, Domains, Topology};
use crate::matching::untolerated;
use crate::model::{Symbol, Taint, Toleration};
use crate::snapshot::Snapshot;

/// Followers beyond which nothing is handed on: each is compared with each.
const MAX_CHAINED: usize = 256;
/// Rounds in which what followers of followers need is handed on: longer chains are not followed.
const MAX_ROUNDS: usize = 8;

/// A pod group that must be with others in a domain, and the domains that it can be in.
struct Follower {
    item: usize,
    key: usize,
    /// The groups of its rules over that key.
    groups: Vec<usize>,
    suits: Vec<bool>,
}

/// Counts for each group of pod affinity the pod groups that own its rule and cannot be in a domain,
/// for themselves or because of pods that must be with them.
pub fn find_unsuited(
    snapshot: &Snapshot,
    items: &[PodGroup],
    states: &mut NodeSpecs<'_>,
    topology: &mut Topology,
    pools: &[NodeSpecId],
) {
    let mut followers = followers(snapshot, items, states, topology, pools);
    hand_on(&mut followers, items);
    for Follower { groups, suits, .. } in followers {
        if suits.contains(&false) {
            for group in groups {
                topology.groups[group].follow(&suits);
            }
        }
    }
}

fn followers(
    snapshot: &Snapshot,
    items: &[PodGroup],
    states: &mut NodeSpecs<'_>,
    topology: &Topology,
    pools: &[NodeSpecId],
) -> Vec<Follower> {
    let mut known: FxHashMap<(RequirementsId, usize, &[Toleration]), Vec<bool>> =
        FxHashMap::default();
    let mut followers: Vec<Follower> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        // The last level has no preferences left: what holds there always holds.
        let Some(level) = item.relaxations.last() else {
            continue;
        };
        let first = followers.len();
        for rule in level.uses.iter().filter(|rule| rule.owner && !rule.soft) {
            let group = &topology.groups[rule.group];
            let affinity = group.spec.rule == ConstraintKind::Affinity;
            let Some(key) = group.key.filter(|_| affinity) else {
                continue;
            };
            if let Some(of_key) = followers[first..].iter_mut().find(|of| of.key == key) {
                of_key.groups.push(rule.group);
                continue;
            }
            let domains = &topology.keys[key];
            let mut suits = vec![false; domains.values.len()];
            for &need in &level.needs {
                let of_need = known
                    .entry((need, key, &item.shape.tolerations))
                    .or_insert_with(|| suited(item, need, domains, snapshot, states, pools));
                suits
                    .iter_mut()
                    .zip(of_need)
                    .for_each(|(all, one)| *all |= *one);
            }
            followers.push(Follower {
                item: at,
                key,
                groups: vec![rule.group],
                suits,
            });
        }
    }
    followers
}

/// Pods that must be with followers keep these to the domains in which they can be themselves, if
/// that leaves any.
fn hand_on(followers: &mut [Follower], items: &[PodGroup]) {
    if followers.len() > MAX_CHAINED {
        return;
    }
    let mut led_by: Vec<(usize, usize)> = Vec::new();
    for (at, of) in followers.iter().enumerate() {
        let leads = |leader: &Follower| {
            let counted = &items[leader.item].counted;
            leader.key == of.key
                && leader.item != of.item
                && of.groups.iter().any(|group| counted.has(*group))
        };
        let found = followers.iter().enumerate().filter(|(_, of)| leads(of));
        led_by.extend(found.map(|(leader, _)| (leader, at)));
    }
    for _ in 0..MAX_ROUNDS {
        let mut changed = false;
        for &(leader, follower) in &led_by {
            let both = followers[leader].suits.iter();
            let both = both.zip(&followers[follower].suits);
            let both: Vec<bool> = both.map(|(a, b)| *a && *b).collect();
            if both.contains(&true) && both != followers[leader].suits {
                followers[leader].suits = both;
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

/// In which domains a node is or can be bought that some requirements of a pod group admit. What
/// lacks capacity for the moment counts.
fn suited(
    item: &PodGroup,
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
    let tolerates =
        |taints: &[Taint]| untolerated(&item.shape.tolerations, taints, false).is_none();
    for (node, &domain) in snapshot.nodes.iter().zip(&domains.of_node) {
        if let Some(suits) = suits.get_mut(domain as usize).filter(|suits| !**suits) {
            let admits = |(key, set): &(Symbol, Set)| match node.labels.get(*key) {
                Some(value) => set.admits(value, numbers),
                None => set.allows_absence(),
            };
            *suits = tolerates(&node.taints) && asked.0.iter().all(admits);
        }
    }
    let taints = |at: usize| &snapshot.world.pools[snapshot.pools[at].0 as usize].taints;
    let open = pools
        .iter()
        .enumerate()
        .filter(|(at, _)| tolerates(taints(*at)));
    let open: Vec<NodeSpecId> = open.map(|(_, &pool)| pool).collect();
    for (suits, &value) in suits.iter_mut().zip(&domains.values) {
        *suits = *suits || can_be_bought(&asked, (domains.key, value), &every, states, &open);
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
    let admits = |set: &Set| set.admits(value, &states.numbers);
    asked.get(key).is_none_or(admits)
        && (pools.iter()).any(|&pool| states.could_be_had(pool, asked, (key, value), types))
}

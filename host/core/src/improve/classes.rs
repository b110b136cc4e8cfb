//! Pods to be packed, as classes: same size, same demands on the node's labels.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::room;
use crate::schedule::fit::Amounts;
use crate::schedule::floor::{Claim, Floor, Member, Problem};
use crate::schedule::sets::Sets;
use crate::schedule::states::{NeedId, StateId};
use crate::schedule::topology::Rule;

/// A rule about what else may be on the same host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostRule {
    /// The topology group.
    pub group: u32,
    /// The pod counts in it.
    pub counts: bool,
    /// Where the pod is, at most so many may count (`u16::MAX` for any).
    pub cap: u16,
}

/// Interchangeable pods: one item, one level of preferences.
#[derive(Clone, Debug)]
pub struct Pile {
    /// As the floor placed them; `pods` is what is left of the pile.
    pub member: Member,
    /// How many pods' room each of them gets.
    pub rooms: u32,
}

/// Pods of a class with the same rules about their host.
#[derive(Clone, Debug)]
pub struct Sub {
    /// The class.
    pub class: u32,
    /// Rules about the host, sorted by group.
    pub rules: SmallVec<[HostRule; 2]>,
    /// Where its pods come from.
    pub piles: Vec<Pile>,
    /// How many pods there are.
    pub count: u32,
}

/// What pods ask of a node's labels: a state of each NodePool that would do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Home {
    /// States, one for each NodePool that would do.
    pub states: SmallVec<[StateId; 1]>,
}

/// Pods of the same size and the same demands on labels.
#[derive(Clone, Debug)]
pub struct Class {
    /// What one pod gets.
    pub amount: Amounts,
    /// How many pods' room that is.
    pub rooms: u32,
    /// What it asks of the node: position in [`Classes::homes`].
    pub home: usize,
    /// Its subs, `start..end` in [`Classes::subs`].
    pub subs: (u32, u32),
    /// How many pods there are.
    pub count: u32,
}

/// All classes.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    /// Classes.
    pub classes: Vec<Class>,
    /// Their subs.
    pub subs: Vec<Sub>,
    /// What they ask of nodes.
    pub homes: Vec<Home>,
    /// Positions of the claims whose pods these are.
    pub claims: Vec<usize>,
}

/// How many pods the floor put on new nodes.
pub fn pods_on_claims(floor: &Floor) -> usize {
    let members = floor.claims.iter().flat_map(|c| &c.members);
    members.map(|m| (m.pods.1 - m.pods.0) as usize).sum()
}

/// Every pod on a new node with no more than it must have: no preferences, no topology but its own exclusion of its
/// like from a host, any NodePool that would take it. Whatever packs the real pods packs these.
pub fn relaxed(p: &mut Problem<'_>, floor: &Floor) -> Classes {
    let mut piles = Vec::new();
    for claim in &floor.claims {
        for member in &claim.members {
            let home = relaxed_home(p, member.item);
            let rules = solo_rules(p, member.item);
            piles.push((home, rules, Pile { member: member.clone(), rooms: 1 }));
        }
    }
    gather(p, piles)
}

/// The states that a pod must have at the very least: node selector, and the node-affinity term and volume alternative
/// where there is no choice.
fn relaxed_home(p: &mut Problem<'_>, item: usize) -> Home {
    let it = &p.items[item];
    let last = it.variants.last();
    let only = last.filter(|v| v.needs.len() == 1 && it.shape.required.len() <= 1).map(|v| v.needs[0]);
    let need = match only {
        Some(need) => need,
        None => {
            let sets = Sets::new(&it.shape.node_selector, &p.states.numbers);
            p.states.need(sets)
        }
    };
    let tolerations = p.items[item].shape.tolerations.clone();
    let mut states = SmallVec::new();
    for pool in 0..p.pools.len() {
        if crate::matching::untolerated(&tolerations, &p.record(pool).taints, false).is_some() {
            continue;
        }
        states.extend(p.states.narrow(p.pools[pool].initial, need));
    }
    Home { states }
}

/// Required anti-affinity over the hostname against its own like.
fn solo_rules(p: &Problem<'_>, item: usize) -> SmallVec<[HostRule; 2]> {
    let it = &p.items[item];
    let Some(last) = it.variants.last() else { return SmallVec::new() };
    let solo = last.uses.iter().filter(|u| {
        let group = &p.topology.groups[u.group];
        !u.soft && u.own && group.key.is_none() && group.spec.rule == Rule::Anti
    });
    let mut rules: SmallVec<[HostRule; 2]> =
        solo.map(|u| HostRule { group: u.group as u32, counts: true, cap: 1 }).collect();
    rules.sort_unstable();
    rules
}

/// The pods of claims that may be packed anew, each bound to the NodePool, preferences and topology domains that the
/// floor chose for it. Pods of the topology groups `apart` are to be on as many nodes of a domain as their constraint
/// allows to differ, as if it were about hosts; of each of the services `crowded` there is room for up to `more` pods more
/// in each domain.
pub fn movable(p: &mut Problem<'_>, floor: &Floor, apart: &[usize], crowded: &[room::Service], more: u32) -> Classes {
    let mut piles = Vec::new();
    let mut claims = Vec::new();
    let mut homes: FxHashMap<(usize, NeedId, StateId), Option<StateId>> = FxHashMap::default();
    for (at, claim) in floor.claims.iter().enumerate() {
        if !is_movable(p, claim) {
            continue;
        }
        let found: Vec<Option<StateId>> = claim
            .members
            .iter()
            .map(|m| *homes.entry((m.item, m.need, claim.state)).or_insert_with(|| home(p, claim, m)))
            .collect();
        let Some(found) = found.into_iter().collect::<Option<Vec<StateId>>>() else { continue };
        claims.push(at);
        for (member, state) in claim.members.iter().zip(found) {
            let rules = host_rules(p, member, apart);
            piles.push((
                Home { states: SmallVec::from_elem(state, 1) },
                rules,
                Pile { member: member.clone(), rooms: 1 },
            ));
        }
    }
    room::add(&mut piles, crowded, more);
    Classes { claims, ..gather(p, piles) }
}

fn is_movable(p: &Problem<'_>, claim: &Claim) -> bool {
    claim.held.is_empty()
        && claim.members.iter().all(|m| {
            let it = &p.items[m.item];
            let tied = it.variants[m.variant].uses.iter().any(|u| {
                let group = &p.topology.groups[u.group];
                group.key.is_none() && group.spec.rule == Rule::Affinity
            });
            let counted = it.counted.iter().any(|&g| {
                let group = &p.topology.groups[g];
                group.key.is_none() && group.spec.rule == Rule::Affinity
            });
            it.ports.is_empty() && it.volumes.is_empty() && !tied && !counted
        })
}

/// What a member asks of any node it moves to: its own need, and the domains that its claim settled for every topology
/// key that a rule of it or about it looks at.
fn home(p: &mut Problem<'_>, claim: &Claim, member: &Member) -> Option<StateId> {
    let mut state = p.states.narrow(p.pools[claim.pool].initial, member.need)?;
    let it = &p.items[member.item];
    let owned = it.variants[member.variant].uses.iter().map(|u| u.group);
    let others = it.owned_inverse.iter().chain(&it.selected_inverse).chain(&it.counted).copied();
    let mut keys: Vec<usize> = owned.chain(others).filter_map(|g| p.topology.groups[g].key).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let key = p.topology.keys[key].key;
        if let Some(set) = p.states.get(claim.state).sets.get(key).cloned() {
            let need = p.states.need(Sets(vec![(key, set)]));
            state = p.states.narrow(state, need)?;
        }
    }
    Some(state)
}

/// Hard rules over the hostname, and those of groups `apart`: who counts, and how many may.
fn host_rules(p: &Problem<'_>, member: &Member, apart: &[usize]) -> SmallVec<[HostRule; 2]> {
    let it = &p.items[member.item];
    let mut rules: SmallVec<[HostRule; 2]> = SmallVec::new();
    for u in it.variants[member.variant].uses.iter().filter(|u| !u.soft) {
        let group = &p.topology.groups[u.group];
        let cap = match group.spec.rule {
            _ if group.key.is_some() && !apart.contains(&u.group) => continue,
            Rule::Spread { max_skew, .. } => max_skew.clamp(0, i32::from(u16::MAX) - 1) as u16,
            Rule::Anti => u16::from(u.own),
            Rule::Affinity | Rule::Inverse => continue,
        };
        rules.push(HostRule { group: u.group as u32, counts: u.own, cap });
    }
    for &g in &it.counted {
        let known = rules.iter().any(|r| r.group == g as u32);
        let looks = p.topology.groups[g].key.is_none() || apart.contains(&g);
        if looks && !known {
            rules.push(HostRule { group: g as u32, counts: true, cap: u16::MAX });
        }
    }
    rules.sort_unstable();
    rules
}

/// Groups of pods that must spread over domains wider than a host, the largest first, and whether any of the packings
/// has more of them on a node than may come there at a time.
pub fn spreading(p: &Problem<'_>, packings: &[Floor]) -> Vec<(usize, bool)> {
    let mut found: FxHashMap<usize, (u32, bool)> = FxHashMap::default();
    for (first, claim) in packings.iter().enumerate().flat_map(|(at, f)| f.claims.iter().map(move |c| (at == 0, c))) {
        let mut here: FxHashMap<usize, (u32, i32)> = FxHashMap::default();
        for member in &claim.members {
            let uses = &p.items[member.item].variants[member.variant].uses;
            for (group, max_skew) in uses.iter().filter_map(|u| Some((u.group, p.topology.hard_skew(u)?))) {
                here.entry(group).or_insert((0, max_skew)).0 += member.pods.1 - member.pods.0;
            }
        }
        for (group, (pods, max_skew)) in here {
            let (size, doubled) = found.entry(group).or_default();
            *size += if first { pods } else { 0 };
            *doubled |= i64::from(pods) > i64::from(max_skew);
        }
    }
    let mut groups: Vec<(usize, (u32, bool))> = found.into_iter().collect();
    groups.sort_unstable_by_key(|&(group, (size, _))| (std::cmp::Reverse(size), group));
    groups.into_iter().map(|(group, (_, doubled))| (group, doubled)).collect()
}

pub(super) type Loose = (Home, SmallVec<[HostRule; 2]>, Pile);

/// Sorts piles into classes and subs. Groups that nobody caps are no rule.
fn gather(p: &Problem<'_>, piles: Vec<Loose>) -> Classes {
    let mut capped = vec![false; p.topology.groups.len()];
    for rule in piles.iter().flat_map(|(_, rules, _)| rules) {
        capped[rule.group as usize] |= rule.cap != u16::MAX;
    }
    let mut all = Classes::default();
    let mut homes: FxHashMap<Home, usize> = FxHashMap::default();
    let mut index: FxHashMap<(usize, Amounts, u32), FxHashMap<SmallVec<[HostRule; 2]>, Vec<Pile>>> =
        FxHashMap::default();
    let mut order: Vec<(usize, Amounts, u32)> = Vec::new();
    for (home, mut rules, pile) in piles {
        rules.retain(|r| capped[r.group as usize]);
        let next = homes.len();
        let home = *homes.entry(home.clone()).or_insert_with(|| {
            all.homes.push(home);
            next
        });
        let request = &p.items[pile.member.item].request;
        let amount = request.iter().map(|amount| amount.saturating_mul(i64::from(pile.rooms))).collect();
        let key = (home, amount, pile.rooms);
        let subs = index.entry(key.clone()).or_insert_with(|| {
            order.push(key);
            FxHashMap::default()
        });
        subs.entry(rules).or_default().push(pile);
    }
    for key in order {
        let mut subs: Vec<(SmallVec<[HostRule; 2]>, Vec<Pile>)> = index.remove(&key).into_iter().flatten().collect();
        subs.sort_by(|a, b| a.0.cmp(&b.0));
        let class = all.classes.len() as u32;
        let start = all.subs.len() as u32;
        for (rules, piles) in subs {
            let count = piles.iter().map(|p| p.member.pods.1 - p.member.pods.0).sum();
            all.subs.push(Sub { class, rules, piles, count });
        }
        let end = all.subs.len() as u32;
        let count = all.subs[start as usize..end as usize].iter().map(|s| s.count).sum();
        all.classes.push(Class { amount: key.1, rooms: key.2, home: key.0, subs: (start, end), count });
    }
    all
}

impl Classes {
    /// The value of one pod of every class, given that of its relaxed form.
    pub fn values(&self, relaxed: &Classes, of_relaxed: &[f64]) -> Vec<f64> {
        let mut of_item: FxHashMap<usize, f64> = FxHashMap::default();
        for sub in &relaxed.subs {
            for pile in &sub.piles {
                of_item.insert(pile.member.item, of_relaxed[sub.class as usize]);
            }
        }
        let value = |class: &Class| {
            let subs = &self.subs[class.subs.0 as usize..class.subs.1 as usize];
            let worth = subs.iter().flat_map(|s| &s.piles).map(|pile| {
                let pods = f64::from(pile.member.pods.1 - pile.member.pods.0);
                of_item.get(&pile.member.item).copied().unwrap_or(0.0).max(0.0) * pods
            });
            f64::from(class.rooms) * worth.sum::<f64>() / f64::from(class.count.max(1))
        };
        self.classes.iter().map(value).collect()
    }
}

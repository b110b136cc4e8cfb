//! Pods to be packed, as classes: same size, same demands on the node's labels.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::schedule::fit::Amounts;
use crate::schedule::floor::{Claim, Floor, Member, Problem};
use crate::schedule::members::Members;
use crate::schedule::sets::Sets;
use crate::schedule::states::{NeedId, StateId};
use crate::schedule::topology::Rule;

/// A rule about what else may be on the same host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostRule {
    /// The topology group, or [`BUNDLES`](super::bundle::BUNDLES).
    pub group: u32,
    /// The pod counts in it.
    pub counts: bool,
    /// Where the pod is, at most so many may count (`u16::MAX` for any).
    pub cap: u16,
}

/// Where the pods of a class come from.
#[derive(Clone, Debug)]
pub enum Pile {
    /// Interchangeable pods, placed one by one: one item, one level of preferences. As the floor placed them; `pods` is what
    /// is left of the pile.
    Like(Member),
    /// Pods that come to one node together, and the room that they get there.
    Bundle(Vec<Member>, Amounts),
}

impl Pile {
    /// Its pods.
    pub fn members(&self) -> &[Member] {
        match self {
            Pile::Like(member) => std::slice::from_ref(member),
            Pile::Bundle(members, _) => members,
        }
    }

    /// How many things there are to be placed.
    pub fn count(&self) -> u32 {
        match self {
            Pile::Like(member) => member.pods.1 - member.pods.0,
            Pile::Bundle(..) => 1,
        }
    }

    fn amount(&self, p: &Problem<'_>) -> Amounts {
        match self {
            Pile::Like(member) => p.items[member.item].request.clone(),
            Pile::Bundle(_, amount) => amount.clone(),
        }
    }
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
    /// How many pods or bundles there are.
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
    /// What one pod or bundle gets.
    pub amount: Amounts,
    /// What it asks of the node: position in [`Classes::homes`].
    pub home: usize,
    /// Its subs, `start..end` in [`Classes::subs`].
    pub subs: (u32, u32),
    /// How many pods or bundles there are.
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
            piles.push((home, rules, Pile::Like(member.clone())));
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
/// floor chose for it, and the positions of those claims.
pub fn movable(p: &mut Problem<'_>, floor: &Floor) -> (Vec<Loose>, Vec<usize>) {
    let mut piles = Vec::new();
    let mut claims = Vec::new();
    let mut homes: FxHashMap<(usize, NeedId, StateId), Option<StateId>> = FxHashMap::default();
    let capped = capped(p, floor);
    let mut rules = 0;
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
            let home = Home { states: SmallVec::from_elem(state, 1) };
            let own = host_rules(p, member, &capped);
            rules += own.len();
            piles.push((home, own, Pile::Like(member.clone())));
        }
        if rules > MOST_RULES + MOST_RULES_EACH * piles.len() {
            return (Vec::new(), Vec::new());
        }
    }
    (piles, claims)
}

fn is_movable(p: &Problem<'_>, claim: &Claim) -> bool {
    claim.held.is_empty()
        && claim.members.iter().all(|m| {
            let it = &p.items[m.item];
            let tied = it.variants[m.variant].uses.iter().any(|u| {
                let group = &p.topology.groups[u.group];
                group.key.is_none() && group.spec.rule == Rule::Affinity
            });
            it.ports.is_empty() && it.volumes.is_empty() && !tied && !it.followed_on_host
        })
}

/// What a member asks of any node it moves to: its own need, and the domains that its claim settled for every topology
/// key that a rule of it or about it looks at.
fn home(p: &mut Problem<'_>, claim: &Claim, member: &Member) -> Option<StateId> {
    let mut state = p.states.narrow(p.pools[claim.pool].initial, member.need)?;
    let it = &p.items[member.item];
    let owned = it.variants[member.variant].uses.iter().map(|u| u.group);
    let owned = owned.filter_map(|g| p.topology.groups[g].key);
    let mut keys: Vec<usize> = owned.chain(it.keys.iter().copied()).collect();
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

/// Rules about the host of all pods beyond which nothing is packed anew, and how many more for each run of like pods on a
/// claim. To fill a node once costs a look at each. A hundred services that all keep away from each other have a hundred
/// rules each.
const MOST_RULES: usize = 1 << 16;
const MOST_RULES_EACH: usize = 256;

/// Groups over the hostname that some pod on a new node caps.
fn capped(p: &Problem<'_>, floor: &Floor) -> Members {
    let mut capped = Members::default();
    for member in floor.claims.iter().flat_map(|claim| &claim.members) {
        for u in p.items[member.item].variants[member.variant].uses.iter().filter(|u| !u.soft) {
            if p.topology.groups[u.group].key.is_none() {
                capped.insert(u.group);
            }
        }
    }
    capped
}

/// Hard rules over the hostname: who counts, and how many may. Of groups that no pod caps one is enough to say that there
/// are such.
fn host_rules(p: &Problem<'_>, member: &Member, capped: &Members) -> SmallVec<[HostRule; 2]> {
    let it = &p.items[member.item];
    let mut rules: SmallVec<[HostRule; 2]> = SmallVec::new();
    for u in it.variants[member.variant].uses.iter().filter(|u| !u.soft) {
        let group = &p.topology.groups[u.group];
        let cap = match group.spec.rule {
            _ if group.key.is_some() => continue,
            Rule::Spread { max_skew, .. } => max_skew.clamp(0, i32::from(u16::MAX) - 1) as u16,
            Rule::Anti => u16::from(u.own),
            Rule::Affinity | Rule::Inverse => continue,
        };
        rules.push(HostRule { group: u.group as u32, counts: u.own, cap });
    }
    let own: FxHashSet<u32> = rules.iter().map(|rule| rule.group).collect();
    let mut idle = false;
    for g in it.counted.iter() {
        let known = own.contains(&(g as u32));
        let looks = p.topology.groups[g].key.is_none() && (capped.has(g) || !idle);
        if looks && !known {
            idle |= !capped.has(g);
            rules.push(HostRule { group: g as u32, counts: true, cap: u16::MAX });
        }
    }
    rules.sort_unstable();
    rules
}

/// A pile, what its pods ask of the node, and their rules about the host.
pub type Loose = (Home, SmallVec<[HostRule; 2]>, Pile);

/// Sorts piles into classes and subs. Groups that nobody caps are no rule.
pub fn gather(p: &Problem<'_>, piles: Vec<Loose>) -> Classes {
    let rules = piles.iter().flat_map(|(_, rules, _)| rules);
    let capped: FxHashSet<u32> = rules.filter(|rule| rule.cap != u16::MAX).map(|rule| rule.group).collect();
    let mut all = Classes::default();
    let mut homes: FxHashMap<Home, usize> = FxHashMap::default();
    let mut index: FxHashMap<(usize, Amounts), FxHashMap<SmallVec<[HostRule; 2]>, Vec<Pile>>> = FxHashMap::default();
    let mut order: Vec<(usize, Amounts)> = Vec::new();
    for (home, mut rules, pile) in piles {
        rules.retain(|r| capped.contains(&r.group));
        let next = homes.len();
        let home = *homes.entry(home.clone()).or_insert_with(|| {
            all.homes.push(home);
            next
        });
        let key = (home, pile.amount(p));
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
            let count = piles.iter().map(Pile::count).sum();
            all.subs.push(Sub { class, rules, piles, count });
        }
        let end = all.subs.len() as u32;
        let count = all.subs[start as usize..end as usize].iter().map(|s| s.count).sum();
        all.classes.push(Class { amount: key.1, home: key.0, subs: (start, end), count });
    }
    all
}

impl Classes {
    /// The value of one pod or bundle of every class, given that of its relaxed form.
    pub fn values(&self, relaxed: &Classes, of_relaxed: &[f64]) -> Vec<f64> {
        let mut of_item: FxHashMap<usize, f64> = FxHashMap::default();
        for sub in &relaxed.subs {
            for pile in &sub.piles {
                let value = of_relaxed[sub.class as usize];
                of_item.extend(pile.members().iter().map(|member| (member.item, value)));
            }
        }
        let value = |class: &Class| {
            let subs = &self.subs[class.subs.0 as usize..class.subs.1 as usize];
            let worth = subs.iter().flat_map(|s| &s.piles).flat_map(Pile::members).map(|member| {
                let pods = f64::from(member.pods.1 - member.pods.0);
                of_item.get(&member.item).copied().unwrap_or(0.0).max(0.0) * pods
            });
            worth.sum::<f64>() / f64::from(class.count.max(1))
        };
        self.classes.iter().map(value).collect()
    }
}

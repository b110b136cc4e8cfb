//! Pods to be packed, as classes: same size, same demands on the node's labels.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::schedule::first_fit::{Assignment, CompiledCluster, OpenClaim, Packing};
use crate::schedule::fit::ResourceVector;
use crate::schedule::members::Members;
use crate::schedule::node_specs::{NodeSpecId, RequirementsId};
use crate::schedule::sets::Sets;
use crate::schedule::topology::ConstraintKind;

/// A rule about what else may be on the same host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostRule {
    /// The topology group, or [`COLOCATED`](super::colocate::COLOCATED).
    pub group: u32,
    /// The pod counts in it.
    pub counts: bool,
    /// Where the pod is, at most so many may count (`u16::MAX` for any).
    pub cap: u16,
}

/// Where the pods of a class come from.
#[derive(Clone, Debug)]
pub enum Stock {
    /// Interchangeable pods, placed one by one: one pod group, one level of preferences. As first
    /// fit placed them; `pods` is what is left of the stock.
    Identical(Assignment),
    /// Pods that come to one node together, and the room that they get there.
    Colocated(Vec<Assignment>, ResourceVector),
}

impl Stock {
    /// Its pods.
    pub fn members(&self) -> &[Assignment] {
        match self {
            Stock::Identical(member) => std::slice::from_ref(member),
            Stock::Colocated(members, _) => members,
        }
    }

    /// How many things there are to be placed.
    pub fn count(&self) -> u32 {
        match self {
            Stock::Identical(member) => member.pods.1 - member.pods.0,
            Stock::Colocated(..) => 1,
        }
    }

    fn amount(&self, p: &CompiledCluster<'_>) -> ResourceVector {
        match self {
            Stock::Identical(member) => p.items[member.pod_group].request.clone(),
            Stock::Colocated(_, amount) => amount.clone(),
        }
    }
}

/// Pods of a class with the same rules about their host.
#[derive(Clone, Debug)]
pub struct HostClass {
    /// Index into [`Classes::classes`].
    pub class: u32,
    /// Rules about the host, sorted by group.
    pub rules: SmallVec<[HostRule; 2]>,
    /// Where its pods come from.
    pub stocks: Vec<Stock>,
    /// How many pods or bundles there are.
    pub count: u32,
}

/// What pods ask of a node's labels: a spec of each NodePool that would do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Compatibility {
    /// Specs, one for each NodePool that would do.
    pub specs: SmallVec<[NodeSpecId; 1]>,
}

/// Pods of the same size and the same demands on labels.
#[derive(Clone, Debug)]
pub struct SizeClass {
    /// What one pod or bundle gets.
    pub amount: ResourceVector,
    /// What it asks of the node: position in [`Classes::compatibilities`].
    pub compatibility: usize,
    /// Its subs, `start..end` in [`Classes::host_classes`].
    pub host_classes: (u32, u32),
    /// How many pods or bundles there are.
    pub count: u32,
}

/// Pods to be packed, as classes of equal ones.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    /// Classes by size and demands on labels.
    pub classes: Vec<SizeClass>,
    /// Classes within a size class that differ in rules over hosts.
    pub host_classes: Vec<HostClass>,
    /// What they ask of nodes.
    pub compatibilities: Vec<Compatibility>,
}

/// How many pods first fit put on new nodes.
pub fn pods_on_claims(packing: &Packing) -> usize {
    let members = packing.claims.iter().flat_map(|c| &c.members);
    members.map(|m| (m.pods.1 - m.pods.0) as usize).sum()
}

/// Every pod on a new node with no more than it must have: no preferences, no topology but its own
/// exclusion of its like from a host, any NodePool that would take it. Whatever packs the real pods
/// packs these.
pub fn relaxed(p: &mut CompiledCluster<'_>, packing: &Packing) -> Classes {
    let mut stocks = Vec::new();
    for claim in &packing.claims {
        for member in &claim.members {
            let home = relaxed_home(p, member.pod_group);
            let rules = solo_rules(p, member.pod_group);
            stocks.push((home, rules, Stock::Identical(member.clone())));
        }
    }
    gather(p, stocks)
}

/// The specs that a pod must have at the very least: node selector, and the node-affinity term and
/// volume alternative where there is no choice.
fn relaxed_home(p: &mut CompiledCluster<'_>, index: usize) -> Compatibility {
    let pod_group = &p.items[index];
    let last = pod_group.relaxations.last();
    let only = last
        .filter(|v| v.needs.len() == 1 && pod_group.shape.required.len() <= 1)
        .map(|v| v.needs[0]);
    let requirements = match only {
        Some(requirements) => requirements,
        None => {
            let sets = Sets::new(&pod_group.shape.node_selector, &p.states.numbers);
            p.states.requirements(sets)
        }
    };
    let tolerations = p.items[index].shape.tolerations.clone();
    let mut specs = SmallVec::new();
    for pool in 0..p.pools.len() {
        if crate::matching::untolerated(&tolerations, &p.record(pool).taints, false).is_some() {
            continue;
        }
        specs.extend(p.states.narrow(p.pools[pool].initial, requirements));
    }
    Compatibility { specs }
}

/// Required anti-affinity over the hostname against its own like.
fn solo_rules(p: &CompiledCluster<'_>, index: usize) -> SmallVec<[HostRule; 2]> {
    let pod_group = &p.items[index];
    let Some(last) = pod_group.relaxations.last() else {
        return SmallVec::new();
    };
    let solo = last.uses.iter().filter(|u| {
        let group = &p.topology.groups[u.group];
        !u.soft && u.own && group.key.is_none() && group.spec.rule == ConstraintKind::AntiAffinity
    });
    let mut rules: SmallVec<[HostRule; 2]> = solo
        .map(|u| HostRule {
            group: u.group as u32,
            counts: true,
            cap: 1,
        })
        .collect();
    rules.sort_unstable();
    rules
}

/// The pods of claims that may be repacked, each with the NodePool, preferences and topology
/// domains that first fit chose, and the positions of those claims.
pub fn movable(p: &mut CompiledCluster<'_>, packing: &Packing) -> (Vec<UnpackedPods>, Vec<usize>) {
    let mut stocks = Vec::new();
    let mut claims = Vec::new();
    let mut homes: FxHashMap<(usize, RequirementsId, NodeSpecId), Option<NodeSpecId>> =
        FxHashMap::default();
    let capped = capped(p, packing);
    let mut rules = 0;
    for (at, claim) in packing.claims.iter().enumerate() {
        if !is_movable(p, claim) {
            continue;
        }
        let found: Vec<Option<NodeSpecId>> = claim
            .members
            .iter()
            .map(|m| {
                *homes
                    .entry((m.pod_group, m.requirements, claim.state))
                    .or_insert_with(|| home(p, claim, m))
            })
            .collect();
        let Some(found) = found.into_iter().collect::<Option<Vec<NodeSpecId>>>() else {
            continue;
        };
        claims.push(at);
        for (member, spec) in claim.members.iter().zip(found) {
            let home = Compatibility {
                specs: SmallVec::from_elem(spec, 1),
            };
            let own = host_rules(p, member, &capped);
            rules += own.len();
            stocks.push((home, own, Stock::Identical(member.clone())));
        }
        if rules > MAX_RULES + MAX_RULES_EACH * stocks.len() {
            return (Vec::new(), Vec::new());
        }
    }
    (stocks, claims)
}

fn is_movable(p: &CompiledCluster<'_>, claim: &OpenClaim) -> bool {
    claim.reserved.is_empty()
        && claim.members.iter().all(|m| {
            let pod_group = &p.items[m.pod_group];
            let tied = pod_group.relaxations[m.relaxation].uses.iter().any(|u| {
                let group = &p.topology.groups[u.group];
                group.key.is_none() && group.spec.rule == ConstraintKind::Affinity
            });
            let has_own = !pod_group.ports.is_empty()
                || !pod_group.volumes.is_empty()
                || pod_group.shared.is_some()
                || !pod_group.to_bind.is_empty();
            !has_own && !tied && !pod_group.followed_on_host
        })
}

/// What a member asks of any node it moves to: its own need, and the domains that its claim settled
/// for every topology key that a rule of it or about it looks at.
fn home(p: &mut CompiledCluster<'_>, claim: &OpenClaim, member: &Assignment) -> Option<NodeSpecId> {
    let mut spec = p
        .states
        .narrow(p.pools[claim.pool].initial, member.requirements)?;
    let pod_group = &p.items[member.pod_group];
    let owned = pod_group.relaxations[member.relaxation]
        .uses
        .iter()
        .map(|u| u.group);
    let owned = owned.filter_map(|g| p.topology.groups[g].key);
    let mut keys: Vec<usize> = owned.chain(pod_group.keys.iter().copied()).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let key = p.topology.keys[key].key;
        if let Some(set) = p.states.get(claim.state).sets.get(key).cloned() {
            let requirements = p.states.requirements(Sets(vec![(key, set)]));
            spec = p.states.narrow(spec, requirements)?;
        }
    }
    Some(spec)
}

/// Rules about the host of all pods beyond which nothing is packed anew, and how many more for each
/// run of like pods on a claim. To fill a node once costs a look at each. A hundred services that
/// all keep away from each other have a hundred rules each.
const MAX_RULES: usize = 1 << 16;
const MAX_RULES_EACH: usize = 256;

/// Groups over the hostname that some pod on a new node caps.
fn capped(p: &CompiledCluster<'_>, packing: &Packing) -> Members {
    let mut capped = Members::default();
    for member in packing.claims.iter().flat_map(|claim| &claim.members) {
        for u in p.items[member.pod_group].relaxations[member.relaxation]
            .uses
            .iter()
            .filter(|u| !u.soft)
        {
            if p.topology.groups[u.group].key.is_none() {
                capped.insert(u.group);
            }
        }
    }
    capped
}

/// Hard rules over the hostname: which group counts, and its limit. Groups that no pod caps are
/// represented by one of them.
fn host_rules(
    p: &CompiledCluster<'_>,
    member: &Assignment,
    capped: &Members,
) -> SmallVec<[HostRule; 2]> {
    let pod_group = &p.items[member.pod_group];
    let mut rules: SmallVec<[HostRule; 2]> = SmallVec::new();
    for u in pod_group.relaxations[member.relaxation]
        .uses
        .iter()
        .filter(|u| !u.soft)
    {
        let group = &p.topology.groups[u.group];
        let cap = match group.spec.rule {
            _ if group.key.is_some() => continue,
            ConstraintKind::Spread { max_skew, .. } => {
                max_skew.clamp(0, i32::from(u16::MAX) - 1) as u16
            }
            ConstraintKind::AntiAffinity => u16::from(u.own),
            ConstraintKind::Affinity | ConstraintKind::InverseAntiAffinity => continue,
        };
        rules.push(HostRule {
            group: u.group as u32,
            counts: u.own,
            cap,
        });
    }
    let own: FxHashSet<u32> = rules.iter().map(|rule| rule.group).collect();
    let mut idle = false;
    for g in pod_group.counted.iter() {
        let known = own.contains(&(g as u32));
        let looks = p.topology.groups[g].key.is_none() && (capped.has(g) || !idle);
        if looks && !known {
            idle |= !capped.has(g);
            rules.push(HostRule {
                group: g as u32,
                counts: true,
                cap: u16::MAX,
            });
        }
    }
    rules.sort_unstable();
    rules
}

/// A stock, what its pods ask of the node, and their rules about the host.
pub type UnpackedPods = (Compatibility, SmallVec<[HostRule; 2]>, Stock);

/// Sorts stocks into classes and subs. Groups that no pod caps are no rule.
pub fn gather(p: &CompiledCluster<'_>, stocks: Vec<UnpackedPods>) -> Classes {
    let rules = stocks.iter().flat_map(|(_, rules, _)| rules);
    let capped: FxHashSet<u32> = rules
        .filter(|rule| rule.cap != u16::MAX)
        .map(|rule| rule.group)
        .collect();
    let mut all = Classes::default();
    let mut homes: FxHashMap<Compatibility, usize> = FxHashMap::default();
    let mut index: FxHashMap<
        (usize, ResourceVector),
        FxHashMap<SmallVec<[HostRule; 2]>, Vec<Stock>>,
    > = FxHashMap::default();
    let mut order: Vec<(usize, ResourceVector)> = Vec::new();
    for (home, mut rules, stock) in stocks {
        rules.retain(|r| capped.contains(&r.group));
        let next = homes.len();
        let home = *homes.entry(home.clone()).or_insert_with(|| {
            all.compatibilities.push(home);
            next
        });
        let key = (home, stock.amount(p));
        let subs = index.entry(key.clone()).or_insert_with(|| {
            order.push(key);
            FxHashMap::default()
        });
        subs.entry(rules).or_default().push(stock);
    }
    for key in order {
        let mut subs: Vec<(SmallVec<[HostRule; 2]>, Vec<Stock>)> =
            index.remove(&key).into_iter().flatten().collect();
        subs.sort_by(|a, b| a.0.cmp(&b.0));
        let class = all.classes.len() as u32;
        let start = all.host_classes.len() as u32;
        for (rules, stocks) in subs {
            let count = stocks.iter().map(Stock::count).sum();
            all.host_classes.push(HostClass {
                class,
                rules,
                stocks,
                count,
            });
        }
        let end = all.host_classes.len() as u32;
        let count = all.host_classes[start as usize..end as usize]
            .iter()
            .map(|s| s.count)
            .sum();
        all.classes.push(SizeClass {
            amount: key.1,
            compatibility: key.0,
            host_classes: (start, end),
            count,
        });
    }
    all
}

impl Classes {
    /// The value of one pod or bundle of every class, given that of its relaxed form.
    pub fn prices(&self, relaxed: &Classes, of_relaxed: &[f64]) -> Vec<f64> {
        let mut of_item: FxHashMap<usize, f64> = FxHashMap::default();
        for sub in &relaxed.host_classes {
            for stock in &sub.stocks {
                let value = of_relaxed[sub.class as usize];
                of_item.extend(
                    stock
                        .members()
                        .iter()
                        .map(|member| (member.pod_group, value)),
                );
            }
        }
        let value = |class: &SizeClass| {
            let subs =
                &self.host_classes[class.host_classes.0 as usize..class.host_classes.1 as usize];
            let worth = subs
                .iter()
                .flat_map(|s| &s.stocks)
                .flat_map(Stock::members)
                .map(|member| {
                    let pods = f64::from(member.pods.1 - member.pods.0);
                    of_item
                        .get(&member.pod_group)
                        .copied()
                        .unwrap_or(0.0)
                        .max(0.0)
                        * pods
                });
            worth.sum::<f64>() / f64::from(class.count.max(1))
        };
        self.classes.iter().map(value).collect()
    }
}

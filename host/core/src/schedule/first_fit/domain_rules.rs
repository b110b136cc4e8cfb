//! Which domains of a topology key pods may go to, and which one a node to buy is bought in.

use rustc_hash::FxHashMap;

use super::compiled_cluster::CompiledCluster;
use crate::model::Symbol;
use crate::schedule::bit_set::BitSet;
use crate::schedule::fit::ResourceVector;
use crate::schedule::node_specs::NodeSpecId;
use crate::schedule::pod_groups::GroupUse;
use crate::schedule::sets::{Set, Sets};
use crate::schedule::topology::{Asking, ConstraintKind, Domains, ToBuy};

/// Which domains of one topology key a pod may go to now.
pub struct DomainRule {
    /// Position in [`Topology::keys`](crate::schedule::topology::Topology::keys).
    pub key: usize,
    /// Whether the pod may go to each domain.
    pub allowed: Vec<bool>,
    /// Allowed domains, the emptiest first, then the cheapest.
    pub order: Vec<u32>,
    /// The pod must land in one known domain.
    pub pinned: bool,
    /// A node without the label will do, as for anti-affinity.
    pub absent: bool,
}

impl DomainRule {
    /// Whether it allows no domain, and no node is without one.
    fn allows_nothing(&self, domains: &Domains) -> bool {
        let elsewhere = self.absent && domains.lacking;
        !elsewhere && !self.allowed.contains(&true)
    }
}

/// Topology rules of one relaxation of a pod group, without rules that only balance groups that
/// have no pods to plan.
pub(super) fn rules<'p>(
    p: &'p CompiledCluster<'_>,
    item: usize,
    relaxation: usize,
) -> impl Iterator<Item = &'p GroupUse> {
    p.items[item].relaxations[relaxation]
        .uses
        .iter()
        .filter(|rule| rule.owner || p.balanced[rule.group])
}

/// Which domains are allowed now, for every topology key that has to do with the pod group.
///
/// # Errors
/// The group of the first rule that allows no domain.
pub fn domain_rules(
    p: &CompiledCluster<'_>,
    item: usize,
    relaxation: usize,
) -> Result<Vec<DomainRule>, usize> {
    open_domains(p, item, relaxation)?
        .map_err(|emptied| first_emptied(p, item, relaxation, &emptied))
}

/// The same, `Ok(Err)` where others' anti-affinity leaves no domain: of these topology keys.
pub(super) fn open_domains(
    p: &CompiledCluster<'_>,
    item: usize,
    relaxation: usize,
) -> Result<Result<Vec<DomainRule>, Emptied>, usize> {
    let it = &p.items[item];
    let variant = &it.relaxations[relaxation];
    let mut rules: Vec<DomainRule> = Vec::new();
    let (mut spread_on, mut leads_on) = (Vec::<(usize, usize)>::new(), Vec::new());
    for rule in crate::schedule::first_fit::rules(p, item, relaxation) {
        let at = rule.group;
        let group = &p.topology.groups[at];
        let Some(key) = group.key else { continue };
        let domains = &p.topology.keys[key];
        let asking = p.topology.asking(&variant.uses, rule);
        let strict = variant.strict.get(domains.key);
        let mut allowed = group.allowed(domains, asking, strict, &p.states);
        if !rule.owner && !asking.first && group.spec.rule == ConstraintKind::Affinity {
            let value = |domain: usize| domains.values[domain];
            let admits = |d| strict.is_none_or(|set| set.admits(value(d), &p.states.numbers));
            allowed = group.lead(admits).unwrap_or(allowed);
        }
        if asking.first {
            leads_on.push((key, at));
            // Its own rule must not keep it from the only place that is left.
            if !rule.owner {
                group.keep_suited(&mut allowed);
            }
        }
        let absent = group.spec.rule.allows_absence();
        if matches!(group.spec.rule, ConstraintKind::Spread { .. }) {
            spread_on.push((key, at));
        }
        match rules.iter_mut().find(|r| r.key == key) {
            Some(rule) => {
                rule.allowed
                    .iter_mut()
                    .zip(&allowed)
                    .for_each(|(a, &b)| *a &= b);
                rule.absent &= absent;
                if rule.allows_nothing(domains) {
                    return Err(at);
                }
            }
            None => {
                let rule = DomainRule {
                    key,
                    allowed,
                    order: Vec::new(),
                    pinned: true,
                    absent,
                };
                if rule.allows_nothing(domains) {
                    return Err(at);
                }
                rules.push(rule);
            }
        }
    }
    if let Err(emptied) = keep_away(p, item, relaxation, &mut rules) {
        return Ok(Err(emptied));
    }
    for rule in &mut rules {
        let domains = &p.topology.keys[rule.key];
        rule.order = (0..rule.allowed.len() as u32)
            .filter(|&d| rule.allowed[d as usize])
            .collect();
        let load = |d: u32| -> u32 {
            let on = spread_on.iter().filter(|(key, _)| *key == rule.key);
            on.map(|&(_, g)| p.topology.groups[g].count[d as usize])
                .sum()
        };
        let unsuited = |d: u32| -> u32 {
            let led = leads_on.iter().filter(|(key, _)| *key == rule.key);
            led.map(|&(_, g)| p.topology.groups[g].unsuited(d as usize))
                .sum()
        };
        let mut order: Vec<((u32, u32), f64, u32, u32)> = (rule.order.iter())
            .map(|&d| {
                let cost = cheapest_holding(p, domains, d as usize, &it.request);
                let rank = domains.rank[d as usize];
                ((unsuited(d), load(d)), cost, rank, d)
            })
            .collect();
        order.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
        rule.order = order.into_iter().map(|of| of.3).collect();
    }
    Ok(Ok(rules))
}

/// What the cheapest node of a domain costs that holds so much, where the domain says how large a
/// node is; infinite if none does. Zero for other domains.
fn cheapest_holding(
    p: &CompiledCluster<'_>,
    domains: &Domains,
    domain: usize,
    request: &ResourceVector,
) -> f64 {
    let Some(machines) = domains.machines.get(domain) else {
        return 0.0;
    };
    let holds = |&&(_, pool, t): &&ToBuy| {
        let left = p
            .pools
            .get(pool)
            .and_then(|template| template.fit.net(t.0 as usize));
        left.is_some_and(|left| request.iter().zip(left).all(|(want, have)| want <= have))
    };
    machines.iter().find(holds).map_or(f64::INFINITY, |m| m.0)
}

/// Takes the domains out that others' anti-affinity keeps the pod group away from. All terms are
/// evaluated together by domain: of thousands of terms that select a pod, few have a pod anywhere.
fn keep_away(
    p: &CompiledCluster<'_>,
    item: usize,
    relaxation: usize,
    rules: &mut Vec<DomainRule>,
) -> Result<(), Emptied> {
    let it = &p.items[item];
    let mut emptied: Vec<usize> = Vec::new();
    let before = rules.len();
    let mut left: Vec<DomainRule> = Vec::new();
    for &(key, several) in &it.inverse_keys {
        let domains = &p.topology.keys[key];
        let strict = it.relaxations[relaxation].strict.get(domains.key);
        let open = |domain: usize| {
            strict.is_none_or(|s| s.admits(domains.values[domain], &p.states.numbers))
                && !p.topology.repels_in(key, domain, &it.repelled_by)
        };
        let known = rules[..before].iter().find(|rule| rule.key == key);
        let allowed =
            (0..domains.values.len()).map(|d| known.is_none_or(|rule| rule.allowed[d]) && open(d));
        let rule = DomainRule {
            key,
            allowed: allowed.collect(),
            order: Vec::new(),
            pinned: known.is_some_and(|rule| rule.pinned),
            absent: known.is_none_or(|rule| rule.absent),
        };
        if (known.is_some() || several) && rule.allows_nothing(domains) {
            emptied.push(key);
        }
        left.push(rule);
    }
    if !emptied.is_empty() {
        return Err(Emptied {
            keys: emptied,
            rules: std::mem::take(rules),
        });
    }
    for rule in left {
        match rules.iter_mut().find(|known| known.key == rule.key) {
            Some(known) => known.allowed = rule.allowed,
            None => rules.push(rule),
        }
    }
    Ok(())
}

/// Topology keys without a domain left by others' anti-affinity, and the domains that were allowed
/// before.
pub(super) struct Emptied {
    pub(super) keys: Vec<usize>,
    pub(super) rules: Vec<DomainRule>,
}

/// The group of others' anti-affinity that excludes the last domain of a key, found one after the
/// other.
fn first_emptied(
    p: &CompiledCluster<'_>,
    item: usize,
    relaxation: usize,
    emptied: &Emptied,
) -> usize {
    let it = &p.items[item];
    let mut left: FxHashMap<usize, Vec<bool>> = FxHashMap::default();
    left.extend(
        emptied
            .rules
            .iter()
            .map(|rule| (rule.key, rule.allowed.clone())),
    );
    let mut last = 0;
    for at in it.repelled_by.iter() {
        let group = &p.topology.groups[at];
        let Some(key) = group.key.filter(|key| emptied.keys.contains(key)) else {
            continue;
        };
        last = at;
        let domains = &p.topology.keys[key];
        let strict = it.relaxations[relaxation].strict.get(domains.key);
        match left.get_mut(&key) {
            None => {
                _ = left.insert(
                    key,
                    group.allowed(domains, Asking::INVERSE, strict, &p.states),
                )
            }
            Some(left) => {
                left.iter_mut()
                    .zip(&group.count)
                    .for_each(|(open, &pods)| *open &= pods == 0);
                let admitted = |value| strict.is_none_or(|s| s.admits(value, &p.states.numbers));
                if !left
                    .iter()
                    .zip(&domains.values)
                    .any(|(open, value)| *open && admitted(*value))
                {
                    return at;
                }
            }
        }
    }
    last
}

/// The state after every topology key is narrowed to allowed domains, the best ones first, such
/// that some type is big enough.
pub(in crate::schedule) fn narrow_domains(
    p: &mut CompiledCluster<'_>,
    state: NodeSpecId,
    rules: &[DomainRule],
    pool: usize,
    types: &BitSet,
    total: &[i64],
) -> Option<NodeSpecId> {
    let Some((rule, rest)) = rules.split_first() else {
        return p.pools[pool]
            .fit
            .any(types, &p.states.get(state).types, total)
            .then_some(state);
    };
    let (key, values) = (
        p.topology.keys[rule.key].key,
        &p.topology.keys[rule.key].values,
    );
    if p.states.lacks(state, key) {
        if !rule.absent {
            return None;
        }
        // What others on the node ask for must not give it the label later.
        let none = p.states.requirements(Sets(vec![(key, Set::none())]));
        let state = p.states.narrow(state, none)?;
        return narrow_domains(p, state, rest, pool, types, total);
    }
    let set = p.states.get(state).sets.get(key);
    if !rule.pinned {
        if rule.allowed.iter().all(|&a| a) {
            return narrow_domains(p, state, rest, pool, types, total);
        }
        let open: Vec<Symbol> = rule.order.iter().map(|&d| values[d as usize]).collect();
        let need = p.states.requirements(Sets(vec![(key, Set::of(open))]));
        let state = p.states.narrow(state, need)?;
        return narrow_domains(p, state, rest, pool, types, total);
    }
    if let Some(only) = set.and_then(Set::single) {
        let domain = values.iter().position(|&v| v == only)?;
        return if rule.allowed[domain] {
            narrow_domains(p, state, rest, pool, types, total)
        } else {
            None
        };
    }
    for at in 0..rule.order.len() {
        let value = p.topology.keys[rule.key].values[rule.order[at] as usize];
        if let Some(pinned) = p.states.pin(state, key, value)
            && let Some(found) = narrow_domains(p, pinned, rest, pool, types, total)
        {
            return Some(found);
        }
    }
    None
}

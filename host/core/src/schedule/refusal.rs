//! Why a pod gets no node: for each NodePool and each existing node, the first rule that refuses.
//!
//! Asked after packing, of the item's last level: what it still requires when every preference is given up.

use super::bits::Bits;
use super::floor::{Floor, Problem, domain_rules, over_limit, within_limits};
use super::sets::{Set, Sets};
use super::states::StateId;
use super::topology::Rule;
use crate::matching::untolerated;
use crate::model::{MinValuesPolicy, OfferingId, ResourceId, Sym};
use crate::plan::{NodeIx, PoolIx, Refusal, Target, TopologyRule, TypesLeft, Unfit};
use crate::snapshot::Unusable;

/// The first refusal of each NodePool; those that nobody may buy from now come first, for what is told can be cut short,
/// and this passes.
pub fn by_pools(p: &mut Problem<'_>, floor: &Floor, item: usize) -> Vec<Refusal> {
    let snapshot = p.snapshot;
    if p.pools.is_empty() && snapshot.unusable_pools.is_empty() {
        return vec![Refusal { target: Target::Pod, unfit: Unfit::NoPools }];
    }
    let unusable =
        |(pool, why): &(PoolIx, Unusable)| Refusal { target: Target::Pool(*pool), unfit: Unfit::Unusable(why.clone()) };
    let refuse = |p: &mut Problem<'_>, at: usize| Refusal {
        target: Target::Pool(p.pools[at].pool),
        unfit: by_pool(p, floor, item, at),
    };
    let mut refusals: Vec<Refusal> = snapshot.unusable_pools.iter().map(unusable).collect();
    refusals.extend((0..p.pools.len()).map(|at| refuse(p, at)));
    refusals
}

fn by_pool(p: &mut Problem<'_>, floor: &Floor, item: usize, pool: usize) -> Unfit {
    let level = p.items[item].variants.len() - 1;
    let it = &p.items[item];
    let variant = &it.variants[level];
    let taints = &p.record(pool).taints;
    if let Some(taint) = untolerated(&it.shape.tolerations, taints, variant.minds_preference_taints) {
        return Unfit::Taint(*taint);
    }
    let initial = p.pools[pool].initial;
    let need = variant.needs[0];
    let undefined_ok = |key| p.states.may_be_undefined(key);
    let labels = &p.states.get(initial).sets;
    if let Some(key) = labels.conflict(p.states.need_sets(need), undefined_ok, &p.states.numbers) {
        return Unfit::Label { key };
    }
    let mut sets = labels.clone();
    sets.add_all(p.states.need_sets(need), &p.states.numbers);
    let left = types_left(p, item, pool, &sets);
    if left.labels + left.resources.iter().sum::<u32>() + left.offerings == left.all {
        return Unfit::Types(left);
    }
    let rules = match domain_rules(p, item, level) {
        Ok(rules) => rules,
        Err((rule, key)) => return Unfit::Topology { rule: rule.name(), key },
    };
    let it = &p.items[item];
    for u in &it.variants[level].uses {
        let group = &p.topology.groups[u.group];
        if group.key.is_none() && !group.allows_host(usize::MAX, u.own) {
            return Unfit::Topology { rule: group.spec.rule.name(), key: group.spec.key };
        }
    }
    if p.pools[pool].nodes_left.is_some_and(|n| n <= 0) {
        return Unfit::NodeLimitReached;
    }
    if floor.waits[item] {
        return Unfit::ReservedCapacity;
    }
    if let Some(resource) = limit_reached(p, item, pool, &sets) {
        return Unfit::LimitReached { resource };
    }
    let strict = p.snapshot.world.settings.min_values == MinValuesPolicy::Strict;
    let state = p.states.state(pool, sets.clone());
    let mut types = p.states.get(state).types.clone();
    p.pools[pool].fit.keep(&mut types, &p.items[item].request);
    if let Some(key) = p.too_few_values(state, &types).filter(|_| strict) {
        return Unfit::MinValues { key };
    }
    if let Some(pinned) = rules.iter().find(|r| r.pinned) {
        let key = p.topology.keys[pinned.key].key;
        let of_key = |u: &&super::items::GroupUse| p.topology.groups[u.group].key == Some(pinned.key);
        let rule = p.items[item].variants[level].uses.iter().find(of_key).map(|u| p.topology.groups[u.group].spec.rule);
        return Unfit::Topology { rule: rule.map_or(TopologyRule::Spread, Rule::name), key };
    }
    match p.items[item].ports.first() {
        Some(port) => Unfit::HostPort { port: port.port },
        None => match p.items[item].volumes.first() {
            Some(&(driver, _)) => Unfit::VolumeLimit { driver },
            None => Unfit::Types(left),
        },
    }
}

/// Counts types by the first reason that removes each.
fn types_left(p: &mut Problem<'_>, item: usize, pool: usize, sets: &Sets) -> TypesLeft {
    let all = p.snapshot.world.catalogue.types().len();
    let labels = labelled(p, sets);
    let state = p.states.state(pool, sets.clone());
    let offered = p.states.get(state).types.clone();
    let limits = within_limits(p, pool);
    let mut left = TypesLeft { all: all as u32, ..TypesLeft::default() };
    for at in 0..all {
        let net = &p.pools[pool].fit.net[at];
        let short = p.items[item].request.iter().zip(net).position(|(&want, &have)| want > 0 && want > have);
        if !labels.has(at) {
            left.labels += 1;
        } else if let Some(dim) = short {
            let place = match p.dims.0[dim] {
                ResourceId::Cpu => 0,
                ResourceId::Memory => 1,
                ResourceId::Pods => 2,
                ResourceId::EphemeralStorage => 3,
                ResourceId::Other(_) => 4,
            };
            left.resources[place] += 1;
        } else if !offered.has(at) {
            left.offerings += 1;
            count_short(p, state, at, &mut left);
        } else if limits.as_ref().is_some_and(|l| !l.has(at)) {
            left.limits += 1;
        }
    }
    left
}

/// The instance types whose own labels requirements admit.
pub(super) fn labelled(p: &mut Problem<'_>, sets: &Sets) -> Bits {
    let mut left = Bits::all(p.snapshot.world.catalogue.types().len());
    for (key, set) in &sets.0 {
        if !p.states.is_cell_key(*key) {
            left.and(p.states.mask(*key, set));
        }
    }
    left
}

/// Counts the offerings of a type that a state admits and that are taken to be without capacity.
pub(super) fn count_short(p: &Problem<'_>, state: StateId, at: usize, left: &mut TypesLeft) {
    let short = p.snapshot.world.catalogue.short();
    if short.is_empty() {
        return;
    }
    for cell in p.states.get(state).cells.iter() {
        let row = OfferingId(p.states.cells[cell].rows[at]);
        if let Ok(found) = short.binary_search_by_key(&row, |(id, _)| *id) {
            let until = short[found].1;
            left.short_until = if left.short == 0 { until } else { left.short_until.min(until) };
            left.short += 1;
        }
    }
}

/// The first limited resource that no type that would do stays within.
fn limit_reached(p: &mut Problem<'_>, item: usize, pool: usize, sets: &Sets) -> Option<ResourceId> {
    let state = p.states.state(pool, sets.clone());
    let mut types = p.states.get(state).types.clone();
    p.pools[pool].fit.keep(&mut types, &p.items[item].request);
    let mut within = types.clone();
    if let Some(limits) = within_limits(p, pool) {
        within.and(&limits);
    }
    if !within.is_empty() {
        return None;
    }
    let catalogue = &p.snapshot.world.catalogue;
    let over = |&&(resource, left): &&(ResourceId, i64)| {
        types.iter().all(|t| catalogue.types()[t].capacity.get(resource) > left)
    };
    let limits = &p.pools[pool].limits;
    limits.iter().find(over).or(limits.first()).map(|l| l.0)
}

/// The first refusal of each existing node.
pub fn by_nodes(p: &Problem<'_>, floor: &Floor, item: usize) -> Vec<Refusal> {
    let refuse = |at: usize| {
        let unfit = by_node(p, floor, item, at)?;
        Some(Refusal { target: Target::Node(NodeIx(at as u32)), unfit })
    };
    (0..p.snapshot.nodes.len()).filter_map(refuse).collect()
}

fn by_node(p: &Problem<'_>, floor: &Floor, item: usize, at: usize) -> Option<Unfit> {
    let it = &p.items[item];
    let level = it.variants.len() - 1;
    let variant = &it.variants[level];
    let node = &p.snapshot.nodes[at];
    if let Some(taint) = untolerated(&it.shape.tolerations, &node.taints, variant.minds_preference_taints) {
        return Some(Unfit::Taint(*taint));
    }
    let unsatisfied = |sets: &Sets| {
        let admits = |(key, set): &(Sym, Set)| match node.labels.get(*key) {
            Some(value) => set.admits(value, &p.states.numbers),
            None => set.allows_absence(),
        };
        sets.0.iter().find(|pair| !admits(pair)).map(|(key, _)| *key)
    };
    let conflicts: Vec<Option<Sym>> = variant.needs.iter().map(|&n| unsatisfied(p.states.need_sets(n))).collect();
    if let Some(&Some(key)) = conflicts.first().filter(|_| conflicts.iter().all(Option::is_some)) {
        return Some(Unfit::Label { key });
    }
    let mut free = p.dims.amounts(&node.free);
    for member in floor.existing.get(&at).into_iter().flatten() {
        let count = i64::from(member.pods.1 - member.pods.0);
        free.iter_mut().zip(&p.items[member.item].request).for_each(|(f, r)| *f -= r * count);
    }
    let short = it.request.iter().zip(&free).position(|(&want, &have)| want > 0 && want > have);
    if let Some(dim) = short {
        return Some(Unfit::Resource { resource: p.dims.0[dim], wants: it.request[dim], free: free[dim] });
    }
    if let Some(port) = it.ports.iter().find(|p| node.ports.iter().any(|t| t.conflicts(p))) {
        return Some(Unfit::HostPort { port: port.port });
    }
    if let Some(driver) = over_limit(&node.volumes, &it.volumes, &node.volume_limits) {
        return Some(Unfit::VolumeLimit { driver });
    }
    topology_of_node(p, item, level, at)
}

fn topology_of_node(p: &Problem<'_>, item: usize, level: usize, at: usize) -> Option<Unfit> {
    let it = &p.items[item];
    let uses = it.variants[level].uses.iter().map(|u| (u.group, u.own));
    let inverse = it.selected_inverse.iter().map(|&g| (g, false));
    for (group, own) in uses.chain(inverse) {
        let group = &p.topology.groups[group];
        let fine = match group.key {
            None => group.allows_host(at, own),
            Some(key) => {
                let domains = &p.topology.keys[key];
                let strict = it.variants[level].strict.get(domains.key);
                let allowed = group.allowed(domains, own, strict, &p.states);
                let absent_ok = matches!(group.spec.rule, Rule::Inverse);
                allowed.get(domains.of_node[at] as usize).copied().unwrap_or(absent_ok)
            }
        };
        if !fine {
            return Some(Unfit::Topology { rule: group.spec.rule.name(), key: group.spec.key });
        }
    }
    None
}

//! Why a pod gets no node: for each NodePool and each existing node, the first rule that refuses.
//!
//! Evaluated after packing, for the pod's last relaxation: what it still requires when every
//! preference is given up.

use super::bit_set::BitSet;
use super::first_fit::{
    CompiledCluster, DomainRule, Packing, domain_rules, drop_small_volumes, narrow_domains,
    over_limit, within_limits,
};
use super::node_specs::NodeSpecId;
use super::sets::{Set, Sets};
use super::topology::{Asking, ConstraintKind, Group};
use crate::ids::{NodeIx, PoolIx};
use crate::matching::untolerated;
use crate::model::{MinValuesPolicy, OfferingId, ResourceId, Symbol, TypeId};
use crate::reasons::Ineligible;
use crate::reasons::{Barred, Least, LimitReached, Refusal, Target, TypesLeft, Unfit};

/// The first refusal of each NodePool. NodePools that are blocked for now come first, because
/// messages may be cut short and these refusals end.
pub fn by_pools(p: &mut CompiledCluster<'_>, packing: &Packing, item: usize) -> Vec<Refusal> {
    let refusals = by_rules(p, packing, item);
    let decided = packing.decided_by_others(&p.items, item);
    let decided = decided.filter(|_| has_place(p, packing, item, &refusals));
    let decided = decided.map(|(claim, first)| p.snapshot.why_not(claim, first));
    let taken = || packing.without_volume(&p.items[item]);
    match decided.or_else(|| taken().map(|claim| p.snapshot.volumes_taken(claim))) {
        Some(unfit) => vec![Refusal {
            target: Target::Pod,
            unfit,
        }],
        None => refusals,
    }
}

/// Whether the pod would have a place if it shared no claim.
fn has_place(
    p: &CompiledCluster<'_>,
    packing: &Packing,
    item: usize,
    refusals: &[Refusal],
) -> bool {
    let used_up = |refusal: &Refusal| {
        matches!(
            refusal.unfit,
            Unfit::Unexplained | Unfit::LimitReached(_) | Unfit::NodeLimitReached { .. }
        )
    };
    let takes = |node| by_node(p, packing, item, node).is_none();
    refusals.iter().any(used_up) || (0..p.snapshot.nodes.len()).any(takes)
}

fn by_rules(p: &mut CompiledCluster<'_>, packing: &Packing, item: usize) -> Vec<Refusal> {
    let snapshot = p.snapshot;
    if let Some(useless) = &p.items[item].useless {
        return vec![Refusal {
            target: Target::Pod,
            unfit: Unfit::UselessPurchase(useless.clone()),
        }];
    }
    if p.pools.is_empty() && snapshot.ineligible_pools.is_empty() {
        return vec![Refusal {
            target: Target::Pod,
            unfit: Unfit::NoPools,
        }];
    }
    let unusable = |(pool, why): &(PoolIx, Ineligible)| Refusal {
        target: Target::Pool(*pool),
        unfit: Unfit::Unusable(why.clone()),
    };
    let refuse = |p: &mut CompiledCluster<'_>, at: usize| Refusal {
        target: Target::Pool(p.pools[at].pool),
        unfit: by_pool(p, packing, item, at),
    };
    let mut refusals: Vec<Refusal> = snapshot.ineligible_pools.iter().map(unusable).collect();
    refusals.extend((0..p.pools.len()).map(|at| refuse(p, at)));
    refusals
}

fn by_pool(p: &mut CompiledCluster<'_>, packing: &Packing, item: usize, pool: usize) -> Unfit {
    let relaxation = p.items[item].relaxations.len() - 1;
    let it = &p.items[item];
    let variant = &it.relaxations[relaxation];
    let taints = &p.record(pool).taints;
    if let Some(taint) = untolerated(
        &it.shape.tolerations,
        taints,
        variant.avoids_prefer_no_schedule,
    ) {
        return Unfit::Taint(*taint);
    }
    let (sets, left) = match best_alternative(p, item, pool) {
        Ok(found) => found,
        Err(key) => return Unfit::Label { key },
    };
    if nothing_left(&left) {
        return Unfit::Types(left);
    }
    let rules = match domain_rules(p, item, relaxation) {
        Ok(rules) => rules,
        Err(at) => return topology(p, packing, item, at),
    };
    let it = &p.items[item];
    for u in it.relaxations[relaxation].uses.iter() {
        let group = &p.topology.groups[u.group];
        let uses = &it.relaxations[relaxation].uses;
        if group.key.is_none() && !p.topology.allows_host(uses, u, usize::MAX) {
            return Unfit::Topology {
                rule: group.spec.rule.name(),
                key: group.spec.key,
                least: None,
            };
        }
    }
    if let Some(reached) = nodes_reached(p, pool) {
        return reached;
    }
    if packing.awaits_reservation[item] {
        return Unfit::ReservedCapacity;
    }
    if let Some(reached) = limit_reached(p, item, pool, &sets) {
        return reached;
    }
    let state = p.states.state(pool, sets);
    by_opening(p, packing, item, pool, state, &rules)
}

/// What refuses a new claim of a NodePool although types and rules are fine one by one: the same
/// steps as opening one.
fn by_opening(
    p: &mut CompiledCluster<'_>,
    packing: &Packing,
    item: usize,
    pool: usize,
    state: NodeSpecId,
    rules: &[DomainRule],
) -> Unfit {
    let total = p.items[item].request.clone();
    let mut types = p.states.get(p.pools[pool].initial).types.clone();
    if narrow_domains(p, state, rules, pool, &types, &total).is_none() {
        return match narrowest_rule(p, item, rules) {
            Some(group) => topology(p, packing, item, group),
            None => Unfit::Unexplained,
        };
    }
    let clash = p.pools[pool].fit.port_conflicts(&p.items[item].ports);
    clash.iter().for_each(|t| types.remove(t.0 as usize));
    if narrow_domains(p, state, rules, pool, &types, &total).is_none() {
        return p.items[item]
            .ports
            .first()
            .map_or(Unfit::Unexplained, |port| Unfit::HostPort {
                port: port.port,
            });
    }
    drop_small_volumes(p, &mut types, &[], &p.items[item].volumes);
    if narrow_domains(p, state, rules, pool, &types, &total).is_none() {
        let driver = p.items[item].volumes.first();
        return driver.map_or(Unfit::Unexplained, |&(driver, _)| Unfit::VolumeLimit {
            driver,
        });
    }
    let unlimited = types.clone();
    if let Some(limited) = within_limits(p, pool) {
        types.and(&limited);
    }
    let Some(settled) = narrow_domains(p, state, rules, pool, &types, &total) else {
        let limit = p.pools[pool].limits.first();
        return limit.map_or(Unfit::Unexplained, |&limit| {
            reached(p, pool, limit, &unlimited)
        });
    };
    types.and(&p.states.get(settled).types);
    p.pools[pool].fit.keep(&mut types, &total);
    let strict = p.snapshot.world.settings.min_values == MinValuesPolicy::Strict;
    match p.too_few_values(settled, &types).filter(|_| strict) {
        Some(key) => Unfit::MinValues { key },
        None => Unfit::Unexplained,
    }
}

/// The first of a pod group's groups whose rule keeps it out of some domain, or else out of nodes
/// without one.
fn narrowest_rule(p: &CompiledCluster<'_>, item: usize, rules: &[DomainRule]) -> Option<usize> {
    let it = &p.items[item];
    let uses = &it.relaxations.last()?.uses;
    let groups = || uses.iter().map(|u| u.group).chain(it.repelled_by.iter());
    let rule = |group: usize| {
        rules
            .iter()
            .find(|r| Some(r.key) == p.topology.groups[group].key)
    };
    let narrows = |group: &usize| rule(*group).is_some_and(|r| r.allowed.contains(&false));
    groups()
        .find(narrows)
        .or_else(|| groups().find(|&group| rule(group).is_some_and(|r| r.pinned)))
}

/// What is left of a NodePool's types for the first of the pod's alternatives that leaves any; else
/// for the first whose labels agree; else the label on which they do not.
fn best_alternative(
    p: &mut CompiledCluster<'_>,
    item: usize,
    pool: usize,
) -> Result<(Sets, TypesLeft), Symbol> {
    let needs = p.items[item]
        .relaxations
        .last()
        .map(|v| v.needs.clone())
        .unwrap_or_default();
    let initial = p.states.get(p.pools[pool].initial).sets.clone();
    let (mut best, mut conflict) = (None, None);
    for need in needs {
        let asked = p.states.need_sets(need).clone();
        if let Some(key) = initial.conflict(
            &asked,
            |key| p.states.may_be_undefined(key),
            &p.states.numbers,
        ) {
            conflict = conflict.or(Some(key));
            continue;
        }
        let mut sets = initial.clone();
        sets.add_all(&asked, &p.states.numbers);
        let left = types_left(p, item, pool, &sets);
        let enough = !nothing_left(&left);
        if best.is_none() || enough {
            best = Some((sets, left));
        }
        if enough {
            break;
        }
    }
    best.ok_or(conflict.unwrap_or(Symbol(0)))
}

/// Whether labels, sizes and offerings leave no type.
fn nothing_left(left: &TypesLeft) -> bool {
    let without_offering = left.offerings + left.excluded + left.incompatible;
    left.labels + left.resources.iter().sum::<u32>() + without_offering == left.all
}

/// A refusal by the rule of a group, with the domain that a spread constraint would fill first.
fn topology(p: &mut CompiledCluster<'_>, packing: &Packing, item: usize, group: usize) -> Unfit {
    let mut least = least(p, group).or_else(|| followed(p, group));
    if let Some(least) = &mut least
        && p.topology.groups[group].spec.rule != ConstraintKind::Affinity
    {
        least.barred = barred(p, packing, item, group, least.domain);
    }
    let spec = &p.topology.groups[group].spec;
    Unfit::Topology {
        rule: spec.rule.name(),
        key: spec.key,
        least,
    }
}

/// The domain that has most of the pods that a pod must be with, of several the first by name.
fn followed(p: &CompiledCluster<'_>, group: usize) -> Option<Box<Least>> {
    let group = &p.topology.groups[group];
    let (ConstraintKind::Affinity, Some(key)) = (group.spec.rule, group.key) else {
        return None;
    };
    let counts = group.count.iter().enumerate().rev();
    let (domain, &pods) = counts.max_by_key(|(_, pods)| **pods)?;
    (pods > 0).then(|| {
        Box::new(Least {
            domain: p.topology.keys[key].values[domain],
            pods,
            barred: Barred::Unasked,
        })
    })
}

/// The domain of a spread constraint that has the fewest pods, of several the first by name.
fn least(p: &CompiledCluster<'_>, group: usize) -> Option<Box<Least>> {
    let group = &p.topology.groups[group];
    let (ConstraintKind::Spread { .. }, Some(key)) = (group.spec.rule, group.key) else {
        return None;
    };
    let values = &p.topology.keys[key].values;
    let domain = (0..values.len())
        .filter(|&d| group.eligible_domains[d])
        .min_by_key(|&d| group.count[d])?;
    Some(Box::new(Least {
        domain: values[domain],
        pods: group.count[domain],
        barred: Barred::Unasked,
    }))
}

/// What keeps a pod group's pods out of a domain.
fn barred(
    p: &mut CompiledCluster<'_>,
    packing: &Packing,
    item: usize,
    group: usize,
    domain: Symbol,
) -> Barred {
    if let Some(too_few) = too_few_domains(&p.topology.groups[group]) {
        return too_few;
    }
    let key = p.topology.groups[group].spec.key;
    let any = BitSet::all(p.snapshot.world.catalogue.types().len());
    let mut refusals: Vec<(u8, Refusal)> = Vec::new();
    for pool in 0..p.pools.len() {
        let initial = p.pools[pool].initial;
        if p.states
            .could_be_had(initial, &Sets::default(), (key, domain), &any)
        {
            let unfit = refused_in(p, packing, item, pool, (key, domain));
            let passes = match &unfit {
                Unfit::Types(left) if left.short > 0 => 0,
                Unfit::LimitReached(_)
                | Unfit::NodeLimitReached { .. }
                | Unfit::ReservedCapacity => 1,
                Unfit::Types(_) => 2,
                Unfit::Taint(_) => 3,
                _ => 4,
            };
            refusals.push((
                passes,
                Refusal {
                    target: Target::Pool(p.pools[pool].pool),
                    unfit,
                },
            ));
        }
    }
    let first = refusals.into_iter().min_by_key(|(passes, _)| *passes);
    match first {
        None => Barred::NotOffered,
        Some((
            _,
            Refusal {
                unfit: Unfit::Unexplained,
                ..
            },
        )) => Barred::Unasked,
        Some((_, refusal)) => Barred::Refused(refusal),
    }
}

fn too_few_domains(group: &Group) -> Option<Barred> {
    let ConstraintKind::Spread { min_domains, .. } = group.spec.rule else {
        return None;
    };
    let (domains, wanted) = (
        group
            .eligible_domains
            .iter()
            .filter(|&&counts| counts)
            .count() as u32,
        min_domains.max(0) as u32,
    );
    (domains < wanted).then_some(Barred::TooFewDomains { domains, wanted })
}

/// What a NodePool that offers a domain has against a pod group's pods there.
fn refused_in(
    p: &mut CompiledCluster<'_>,
    packing: &Packing,
    item: usize,
    pool: usize,
    (key, domain): (Symbol, Symbol),
) -> Unfit {
    let (tolerations, minds) = {
        let it = &p.items[item];
        (
            &it.shape.tolerations,
            it.relaxations
                .last()
                .is_some_and(|v| v.avoids_prefer_no_schedule),
        )
    };
    if let Some(taint) = untolerated(tolerations, &p.record(pool).taints, minds) {
        return Unfit::Taint(*taint);
    }
    let (mut sets, _) = match best_alternative(p, item, pool) {
        Ok(found) => found,
        Err(key) => return Unfit::Label { key },
    };
    let pin = Set::of([domain]);
    if sets
        .get(key)
        .is_some_and(|set| !set.agrees(&pin, &p.states.numbers))
    {
        return Unfit::Label { key };
    }
    sets.add(key, &pin, &p.states.numbers);
    let left = types_left(p, item, pool, &sets);
    if nothing_left(&left) {
        return Unfit::Types(left);
    }
    if let Some(reached) = nodes_reached(p, pool) {
        return reached;
    }
    if packing.awaits_reservation[item] {
        return Unfit::ReservedCapacity;
    }
    limit_reached(p, item, pool, &sets).unwrap_or(Unfit::Unexplained)
}

/// Counts types by the first reason that removes each.
fn types_left(p: &mut CompiledCluster<'_>, item: usize, pool: usize, sets: &Sets) -> TypesLeft {
    let all = p.snapshot.world.catalogue.types().len();
    let labels = matching_labels(p, sets);
    let state = p.states.state(pool, sets.clone());
    let offered = p.states.get(state).types.clone();
    let limits = within_limits(p, pool);
    let mut left = TypesLeft {
        all: all as u32,
        ..TypesLeft::default()
    };
    for at in 0..all {
        // Less than nothing is left where the daemons alone are too large.
        let net = p.pools[pool].fit.net(at);
        let request = &p.items[item].request;
        let short =
            net.and_then(|net| request.iter().zip(net).position(|(want, have)| want > have));
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
            let resource = p.dims.0[dim];
            let overhead = p.pools[pool].fit.overhead(TypeId(at as u32));
            let taken = overhead.get(resource);
            let free = net.map_or(0, |net| net[dim]);
            if taken > 0 && request[dim] <= free + taken {
                left.by_daemons += 1;
                left.daemons.get_or_insert((resource, taken));
            }
        } else if !offered.has(at) {
            count_not_offered(p, state, at, &mut left);
        } else if limits.as_ref().is_some_and(|l| !l.has(at)) {
            left.limits += 1;
        }
    }
    left
}

/// The instance types whose own labels requirements admit.
pub(super) fn matching_labels(p: &mut CompiledCluster<'_>, sets: &Sets) -> BitSet {
    let mut left = BitSet::all(p.snapshot.world.catalogue.types().len());
    for (key, set) in &sets.0 {
        if !p.states.is_cell_key(*key) {
            left.and(p.states.mask(*key, set));
        }
    }
    left
}

/// Counts a type of which nothing is offered: it does not suit the node class, a policy excludes what
/// it has, or it has no offering; and those of its offerings that a state admits, that no policy
/// excludes, and that are taken to be without capacity.
pub(super) fn count_not_offered(
    p: &CompiledCluster<'_>,
    state: NodeSpecId,
    at: usize,
    left: &mut TypesLeft,
) {
    if let Some(why) = p.snapshot.world.catalogue.types()[at].incompatible {
        left.incompatible += 1;
        left.incompatible_for.get_or_insert(why);
        return;
    }
    if p.states.all_excluded(state, at) {
        left.excluded += 1;
        p.states.add_excluding(state, at, &mut left.excluded_by);
    } else {
        left.offerings += 1;
    }
    let short = p.snapshot.world.catalogue.short();
    if short.is_empty() {
        return;
    }
    for cell in p.states.get(state).cells.iter() {
        let row = OfferingId(p.states.cells[cell].offerings[at]);
        if p.states.is_excluded(state, row) {
            continue;
        }
        if let Ok(found) = short.binary_search_by_key(&row, |(id, _)| *id) {
            let until = short[found].1;
            left.short_until = if left.short == 0 {
                until
            } else {
                left.short_until.min(until)
            };
            left.short += 1;
        }
    }
}

/// The limit of nodes, if it leaves none.
fn nodes_reached(p: &CompiledCluster<'_>, pool: usize) -> Option<Unfit> {
    let left = p.pools[pool].nodes_left.filter(|left| *left <= 0)?;
    let is_tried = p.snapshot.trial.contains(&p.pools[pool].pool);
    let limit = p.record(pool).node_limit.filter(|_| !is_tried);
    Some(Unfit::NodeLimitReached {
        limit: limit.map(|limit| (limit, limit - left)),
    })
}

/// The first limited resource that no type that would do stays within.
fn limit_reached(
    p: &mut CompiledCluster<'_>,
    item: usize,
    pool: usize,
    sets: &Sets,
) -> Option<Unfit> {
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
        types
            .iter()
            .all(|t| catalogue.types()[t].capacity.get(resource) > left)
    };
    let limits = &p.pools[pool].limits;
    let limit = limits.iter().find(over).or(limits.first());
    limit.map(|limit| reached(p, pool, *limit, &types))
}

/// A limit that refuses, by what it leaves of a resource, where these types would do without it.
fn reached(
    p: &CompiledCluster<'_>,
    pool: usize,
    (resource, left): (ResourceId, i64),
    types: &BitSet,
) -> Unfit {
    let mut limits = p.record(pool).limits.iter();
    let limit = limits.find(|(of, _)| *of == resource);
    let limit = limit.map_or(0, |(_, limit)| *limit);
    let catalogue = &p.snapshot.world.catalogue;
    let sizes = types
        .iter()
        .map(|at| catalogue.types()[at].capacity.get(resource));
    Unfit::LimitReached(LimitReached {
        resource,
        limit,
        used: limit - left,
        wants: sizes.min().unwrap_or(0),
    })
}

/// The first refusal of each existing node.
pub fn by_nodes(p: &CompiledCluster<'_>, packing: &Packing, item: usize) -> Vec<Refusal> {
    let refuse = |at: usize| {
        let unfit = by_node(p, packing, item, at)?;
        Some(Refusal {
            target: Target::Node(NodeIx(at as u32)),
            unfit,
        })
    };
    (0..p.snapshot.nodes.len()).filter_map(refuse).collect()
}

fn by_node(p: &CompiledCluster<'_>, packing: &Packing, item: usize, at: usize) -> Option<Unfit> {
    let it = &p.items[item];
    let relaxation = it.relaxations.len() - 1;
    let variant = &it.relaxations[relaxation];
    let node = &p.snapshot.nodes[at];
    if let Some(taint) = untolerated(
        &it.shape.tolerations,
        &node.taints,
        variant.avoids_prefer_no_schedule,
    ) {
        return Some(Unfit::Taint(*taint));
    }
    let unsatisfied = |sets: &Sets| {
        let admits = |(key, set): &(Symbol, Set)| match node.labels.get(*key) {
            Some(value) => set.admits(value, &p.states.numbers),
            None => set.allows_absence(),
        };
        sets.0
            .iter()
            .find(|pair| !admits(pair))
            .map(|(key, _)| *key)
    };
    let conflicts: Vec<Option<Symbol>> = variant
        .needs
        .iter()
        .map(|&n| unsatisfied(p.states.need_sets(n)))
        .collect();
    if let Some(&Some(key)) = conflicts
        .first()
        .filter(|_| conflicts.iter().all(Option::is_some))
    {
        return Some(Unfit::Label { key });
    }
    let mut free = p.dims.amounts(&node.free);
    for member in packing.existing.get(&at).into_iter().flatten() {
        let count = i64::from(member.pods.1 - member.pods.0);
        free.iter_mut()
            .zip(&p.items[member.pod_group].request)
            .for_each(|(f, r)| *f -= r * count);
    }
    let short = it
        .request
        .iter()
        .zip(&free)
        .position(|(&want, &have)| want > 0 && want > have);
    if let Some(dim) = short {
        return Some(Unfit::Resource {
            resource: p.dims.0[dim],
            wants: it.request[dim],
            free: free[dim],
        });
    }
    if let Some(port) = it
        .ports
        .iter()
        .find(|p| node.ports.iter().any(|t| t.conflicts(p)))
    {
        return Some(Unfit::HostPort { port: port.port });
    }
    if let Some(driver) = over_limit(&node.volumes, &it.volumes, &node.volume_limits) {
        return Some(Unfit::VolumeLimit { driver });
    }
    topology_of_node(p, item, relaxation, at)
}

fn topology_of_node(
    p: &CompiledCluster<'_>,
    item: usize,
    relaxation: usize,
    at: usize,
) -> Option<Unfit> {
    let it = &p.items[item];
    let all = &it.relaxations[relaxation].uses;
    let uses = all.iter().map(|u| (u.group, Some(u)));
    let repelled = p.topology.repels_on(at, &it.repelled_by)
        || it.inverse_keys.iter().any(|&(key, _)| {
            let domains = &p.topology.keys[key];
            let admitted = |value| {
                it.relaxations[relaxation]
                    .strict
                    .get(domains.key)
                    .is_none_or(|s| s.admits(value, &p.states.numbers))
            };
            let domain = domains.of_node[at] as usize;
            domains.values.get(domain).is_some_and(|&value| {
                !admitted(value) || p.topology.repels_in(key, domain, &it.repelled_by)
            })
        });
    let inverse = it
        .repelled_by
        .iter()
        .filter(|_| repelled)
        .map(|g| (g, None));
    for (at_group, rule) in uses.chain(inverse) {
        let group = &p.topology.groups[at_group];
        let fine = match (group.key, rule) {
            (None, Some(rule)) => p.topology.allows_host(all, rule, at),
            (None, None) => group.on_host(at) == 0,
            (Some(key), _) => {
                let domains = &p.topology.keys[key];
                let strict = it.relaxations[relaxation].strict.get(domains.key);
                let asking = match rule {
                    Some(rule) => Asking {
                        owner: true,
                        ..p.topology.asking(all, rule)
                    },
                    None => Asking::INVERSE,
                };
                let allowed = group.allowed(domains, asking, strict, &p.states);
                allowed
                    .get(domains.of_node[at] as usize)
                    .copied()
                    .unwrap_or(group.spec.rule.allows_absence())
            }
        };
        if !fine {
            let least = least(p, at_group);
            return Some(Unfit::Topology {
                rule: group.spec.rule.name(),
                key: group.spec.key,
                least,
            });
        }
    }
    None
}

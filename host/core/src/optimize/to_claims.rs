//! Turns the optimizer's nodes into claims.

use rustc_hash::FxHashMap;

use super::bin_types::BinTypes;
use super::classes::{Classes, Stock};
use super::pack::Node;
use crate::schedule::first_fit::{Assignment, CompiledCluster, OpenClaim, Packing};
use crate::schedule::ranking::Ranking;

/// First fit with its movable claims replaced, where that costs less; NodePool by NodePool where
/// limits or `minValues` would be broken.
pub fn replace_movable(
    p: &mut CompiledCluster<'_>,
    packing: Packing,
    movable: &[usize],
    (classes, market): (&Classes, &BinTypes),
    nodes: &[Node],
) -> Packing {
    let Some(new) = claims(p, classes, market, nodes) else {
        return packing;
    };
    let mut ranking = Ranking::default();
    let mut improved = Packing {
        claims: Vec::new(),
        ..packing.clone()
    };
    let moved: Vec<bool> = {
        let mut moved = vec![false; packing.claims.len()];
        movable.iter().for_each(|&c| moved[c] = true);
        moved
    };
    for pool in 0..p.pools.len() {
        let old: Vec<OpenClaim> = packing
            .claims
            .iter()
            .enumerate()
            .filter(|(at, c)| c.pool == pool && moved[*at])
            .map(|c| c.1.clone())
            .collect();
        let mine: Vec<OpenClaim> = new.iter().filter(|c| c.pool == pool).cloned().collect();
        let kept = packing
            .claims
            .iter()
            .enumerate()
            .filter(|(at, c)| c.pool == pool && !moved[*at])
            .map(|c| c.1);
        let kept: Vec<OpenClaim> = kept.cloned().collect();
        let mine = enforce_limits(p, pool, mine, &kept, &mut ranking);
        let cheaper = |a: &[OpenClaim], b: &[OpenClaim], ranking: &mut Ranking| {
            cost(p, a, ranking) < cost(p, b, ranking)
        };
        let chosen = match mine {
            Some(mine) if cheaper(&mine, &old, &mut ranking) => mine,
            _ => old,
        };
        improved.claims.extend(kept);
        improved.claims.extend(chosen);
    }
    improved
}

/// The objective of the cheapest of some packings, commitments left aside; infinite if there is
/// none.
pub fn lowest_cost(p: &mut CompiledCluster<'_>, packed: &[Packing]) -> f64 {
    let mut ranking = Ranking::default();
    packed
        .iter()
        .map(|packing| cost(p, &packing.claims, &mut ranking))
        .fold(f64::INFINITY, f64::min)
}

/// The objective of some claims, commitments left aside.
fn cost(p: &CompiledCluster<'_>, claims: &[OpenClaim], ranking: &mut Ranking) -> f64 {
    let node_cost = p.snapshot.world.settings.node_cost;
    let of = |claim: &OpenClaim| {
        let ranked = ranking.of(p, claim.state);
        let first = ranked.iter().find(|(t, _)| claim.types.has(t.0 as usize));
        let scores = &p.states.scores[claim.pool];
        let outside = |o: crate::model::OfferingId| scores.cost[o.0 as usize];
        first.map_or(f64::INFINITY, |(_, o)| outside(*o).min(1e12)) + node_cost
    };
    claims.iter().map(of).sum()
}

/// Claims from nodes; nothing if one of them turns out impossible.
fn claims(
    p: &mut CompiledCluster<'_>,
    classes: &Classes,
    market: &BinTypes,
    nodes: &[Node],
) -> Option<Vec<OpenClaim>> {
    let mut stocks: Vec<Vec<Stock>> = classes
        .host_classes
        .iter()
        .map(|s| s.stocks.iter().rev().cloned().collect())
        .collect();
    let mut all = Vec::with_capacity(nodes.len());
    for node in nodes {
        let offer = &market.offers[node.offer];
        let template = &p.pools[offer.pool];
        let mut claim = OpenClaim::empty(offer.pool, template.initial, p.dims.0.len());
        let mut members: FxHashMap<
            (usize, usize, crate::schedule::node_specs::RequirementsId),
            Vec<(u32, u32)>,
        > = FxHashMap::default();
        let mut order = Vec::new();
        for &(sub, count) in &node.picks {
            let class = &classes.classes[classes.host_classes[sub as usize].class as usize];
            let home = *classes.compatibilities[class.compatibility].specs.first()?;
            claim.state = p.states.intersect(claim.state, home)?;
            claim
                .total
                .iter_mut()
                .zip(&class.amount)
                .for_each(|(t, &a)| *t += a * i64::from(count));
            for taken in take_pods(&mut stocks[sub as usize], count) {
                let key = (taken.pod_group, taken.relaxation, taken.requirements);
                members.entry(key).or_insert_with(|| {
                    order.push(key);
                    Vec::new()
                });
                members.get_mut(&key)?.push(taken.pods);
            }
        }
        for key in order {
            for pods in members.remove(&key).into_iter().flatten() {
                claim.members.push(Assignment {
                    pod_group: key.0,
                    relaxation: key.1,
                    requirements: key.2,
                    pods,
                });
            }
        }
        claim.types = p.states.get(claim.state).types.clone();
        p.pools[claim.pool].fit.keep(&mut claim.types, &claim.total);
        if claim.types.is_empty() {
            return None;
        }
        all.push(claim);
    }
    Some(all)
}

/// Takes pods or colocated groups from the stocks of a host class.
fn take_pods(stocks: &mut Vec<Stock>, mut count: u32) -> Vec<Assignment> {
    let mut taken = Vec::new();
    while count > 0 {
        let Some(top) = stocks.last_mut() else { break };
        let all = top.count();
        let n = count.min(all);
        match top {
            Stock::Colocated(members, _) => taken.append(members),
            Stock::Identical(member) => {
                taken.push(Assignment {
                    pods: (member.pods.0, member.pods.0 + n),
                    ..member.clone()
                });
                member.pods.0 += n;
            }
        }
        count -= n;
        if n == all {
            stocks.pop();
        }
    }
    taken
}

/// Claims of one NodePool within its limits and `minValues`; nothing if that is impossible.
/// Alternatives that could pass the limits are dropped, the cheapest type is kept.
fn enforce_limits(
    p: &CompiledCluster<'_>,
    pool: usize,
    mut claims: Vec<OpenClaim>,
    kept: &[OpenClaim],
    ranking: &mut Ranking,
) -> Option<Vec<OpenClaim>> {
    let template = &p.pools[pool];
    let catalogue = &p.snapshot.world.catalogue;
    if !template.limits.is_empty() || template.nodes_left.is_some() {
        let (mut limits, nodes) = crate::schedule::first_fit::limits_left(p, pool);
        if nodes.is_some_and(|n| (claims.len() + kept.len()) as i64 > n) {
            return None;
        }
        let most = |claim: &OpenClaim, resource| {
            claim
                .types
                .iter()
                .map(|t| catalogue.types()[t].capacity.get(resource))
                .max()
                .unwrap_or(0)
        };
        for claim in kept {
            limits
                .iter_mut()
                .for_each(|(resource, left)| *left -= most(claim, *resource));
        }
        let total: Vec<i64> = limits
            .iter()
            .map(|&(resource, _)| claims.iter().map(|c| most(c, resource)).sum())
            .collect();
        if limits
            .iter()
            .zip(&total)
            .any(|((_, left), total)| total > left)
        {
            for claim in &mut claims {
                let ranked = ranking.of(p, claim.state);
                let first = ranked
                    .iter()
                    .find(|(t, _)| claim.types.has(t.0 as usize))?
                    .0;
                let bound = &catalogue.instance_type(first).capacity;
                let smaller = |t: &usize| {
                    limits
                        .iter()
                        .all(|&(r, _)| catalogue.types()[*t].capacity.get(r) <= bound.get(r))
                };
                let drop: Vec<usize> = claim.types.iter().filter(|t| !smaller(t)).collect();
                drop.into_iter().for_each(|t| claim.types.remove(t));
            }
            let total = |resource| claims.iter().map(|c| most(c, resource)).sum::<i64>();
            if limits
                .iter()
                .any(|&(resource, left)| total(resource) > left)
            {
                return None;
            }
        }
    }
    let short = claims
        .iter()
        .any(|c| p.too_few_values(c.state, &c.types).is_some());
    (!short).then_some(claims)
}

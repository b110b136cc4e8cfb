//! Nodes of the improver as claims again.

use rustc_hash::FxHashMap;

use super::classes::{Classes, Pile};
use super::market::Market;
use super::pack::Node;
use crate::schedule::floor::{Claim, Floor, Member, Problem};
use crate::schedule::ranking::Ranking;

/// The floor with its movable claims replaced, where that costs less; NodePool by NodePool where limits or `minValues`
/// would be broken.
pub fn replace(
    p: &mut Problem<'_>,
    floor: Floor,
    movable: &[usize],
    (classes, market): (&Classes, &Market),
    nodes: &[Node],
) -> Floor {
    let Some(new) = claims(p, classes, market, nodes) else { return floor };
    let mut ranking = Ranking::default();
    let mut improved = Floor { claims: Vec::new(), ..floor.clone() };
    let moved: Vec<bool> = {
        let mut moved = vec![false; floor.claims.len()];
        movable.iter().for_each(|&c| moved[c] = true);
        moved
    };
    for pool in 0..p.pools.len() {
        let old: Vec<Claim> = floor
            .claims
            .iter()
            .enumerate()
            .filter(|(at, c)| c.pool == pool && moved[*at])
            .map(|c| c.1.clone())
            .collect();
        let mine: Vec<Claim> = new.iter().filter(|c| c.pool == pool).cloned().collect();
        let kept = floor.claims.iter().enumerate().filter(|(at, c)| c.pool == pool && !moved[*at]).map(|c| c.1);
        let kept: Vec<Claim> = kept.cloned().collect();
        let mine = keep_rules(p, pool, mine, &kept, &mut ranking);
        let cheaper = |a: &[Claim], b: &[Claim], ranking: &mut Ranking| cost(p, a, ranking) < cost(p, b, ranking);
        let chosen = match mine {
            Some(mine) if cheaper(&mine, &old, &mut ranking) => mine,
            _ => old,
        };
        improved.claims.extend(kept);
        improved.claims.extend(chosen);
    }
    improved
}

/// The objective of the cheapest of some packings, commitments left aside; infinite if there is none.
pub fn least(p: &mut Problem<'_>, packed: &[Floor]) -> f64 {
    let mut ranking = Ranking::default();
    packed.iter().map(|floor| cost(p, &floor.claims, &mut ranking)).fold(f64::INFINITY, f64::min)
}

/// The objective of some claims, commitments left aside.
fn cost(p: &Problem<'_>, claims: &[Claim], ranking: &mut Ranking) -> f64 {
    let node_cost = p.snapshot.world.settings.node_cost;
    let of = |claim: &Claim| {
        let ranked = ranking.of(p, claim.state);
        let first = ranked.iter().find(|(t, _)| claim.types.has(t.0 as usize));
        let scores = &p.states.scores[claim.pool];
        let outside = |o: crate::model::OfferingId| scores.cost[o.0 as usize];
        first.map_or(f64::INFINITY, |(_, o)| outside(*o).min(1e12)) + node_cost
    };
    claims.iter().map(of).sum()
}

/// Claims from nodes; nothing if one of them turns out impossible.
fn claims(p: &mut Problem<'_>, classes: &Classes, market: &Market, nodes: &[Node]) -> Option<Vec<Claim>> {
    let mut piles: Vec<Vec<Pile>> = classes.subs.iter().map(|s| s.piles.iter().rev().cloned().collect()).collect();
    let mut all = Vec::with_capacity(nodes.len());
    for node in nodes {
        let offer = &market.offers[node.offer];
        let template = &p.pools[offer.pool];
        let mut claim = Claim::empty(offer.pool, template.initial, p.dims.0.len());
        let mut members: FxHashMap<(usize, usize, crate::schedule::states::NeedId), Vec<(u32, u32)>> =
            FxHashMap::default();
        let mut order = Vec::new();
        for &(sub, count) in &node.picks {
            let class = &classes.classes[classes.subs[sub as usize].class as usize];
            let home = *classes.homes[class.home].states.first()?;
            claim.state = p.states.join(claim.state, home)?;
            claim.total.iter_mut().zip(&class.amount).for_each(|(t, &a)| *t += a * i64::from(count));
            for taken in take(&mut piles[sub as usize], count) {
                let key = (taken.item, taken.variant, taken.need);
                members.entry(key).or_insert_with(|| {
                    order.push(key);
                    Vec::new()
                });
                members.get_mut(&key)?.push(taken.pods);
            }
        }
        for key in order {
            for pods in members.remove(&key).into_iter().flatten() {
                claim.members.push(Member { item: key.0, variant: key.1, need: key.2, pods });
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

/// Takes so many pods or bundles off the piles of a sub.
fn take(piles: &mut Vec<Pile>, mut count: u32) -> Vec<Member> {
    let mut taken = Vec::new();
    while count > 0 {
        let Some(top) = piles.last_mut() else { break };
        let all = top.count();
        let n = count.min(all);
        match top {
            Pile::Bundle(members, _) => taken.append(members),
            Pile::Like(member) => {
                taken.push(Member { pods: (member.pods.0, member.pods.0 + n), ..member.clone() });
                member.pods.0 += n;
            }
        }
        count -= n;
        if n == all {
            piles.pop();
        }
    }
    taken
}

/// Claims of one NodePool within its limits and `minValues`; nothing where that cannot be had. Alternatives that could
/// pass the limits are dropped, the cheapest type is kept.
fn keep_rules(
    p: &Problem<'_>,
    pool: usize,
    mut claims: Vec<Claim>,
    kept: &[Claim],
    ranking: &mut Ranking,
) -> Option<Vec<Claim>> {
    let template = &p.pools[pool];
    let catalogue = &p.snapshot.world.catalogue;
    if !template.limits.is_empty() || template.nodes_left.is_some() {
        let (mut limits, nodes) = crate::schedule::floor::limits_left(p, pool);
        if nodes.is_some_and(|n| (claims.len() + kept.len()) as i64 > n) {
            return None;
        }
        let most = |claim: &Claim, resource| {
            claim.types.iter().map(|t| catalogue.types()[t].capacity.get(resource)).max().unwrap_or(0)
        };
        for claim in kept {
            limits.iter_mut().for_each(|(resource, left)| *left -= most(claim, *resource));
        }
        let total: Vec<i64> =
            limits.iter().map(|&(resource, _)| claims.iter().map(|c| most(c, resource)).sum()).collect();
        if limits.iter().zip(&total).any(|((_, left), total)| total > left) {
            for claim in &mut claims {
                let ranked = ranking.of(p, claim.state);
                let first = ranked.iter().find(|(t, _)| claim.types.has(t.0 as usize))?.0;
                let bound = &catalogue.instance_type(first).capacity;
                let smaller =
                    |t: &usize| limits.iter().all(|&(r, _)| catalogue.types()[*t].capacity.get(r) <= bound.get(r));
                let drop: Vec<usize> = claim.types.iter().filter(|t| !smaller(t)).collect();
                drop.into_iter().for_each(|t| claim.types.remove(t));
            }
            let total = |resource| claims.iter().map(|c| most(c, resource)).sum::<i64>();
            if limits.iter().any(|&(resource, left)| total(resource) > left) {
                return None;
            }
        }
    }
    let short = claims.iter().any(|c| p.too_few_values(c.state, &c.types).is_some());
    (!short).then_some(claims)
}

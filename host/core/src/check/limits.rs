//! Checks limits and `minValues` of NodePools, and reservations.

use rustc_hash::FxHashMap;

use super::{Invariant, Violations};
use crate::model::{MinValuesPolicy, Op, Symbol};
use crate::plan::{Plan, PlannedClaim, PodIx};
use crate::snapshot::Snapshot;

/// Checks what NodePools and reservations bound.
pub fn check(snapshot: &Snapshot, plan: &Plan, found: &mut Violations<'_>) {
    let world = &*snapshot.world;
    let catalogue = &world.catalogue;
    for &at in &snapshot.pools {
        let pool = &world.pools[at.0 as usize];
        let of_pool = plan.claims.iter().enumerate().filter(|(_, c)| c.pool == at);
        let mine: Vec<(usize, &PlannedClaim)> = of_pool.collect();
        if mine.is_empty() {
            continue;
        }
        let nodes = || snapshot.nodes.iter().filter(|n| n.pool == Some(pool.name));
        for &(resource, limit) in &pool.limits {
            let have: i64 = nodes().map(|n| n.capacity.get(resource)).sum();
            let most = |&(_, c): &(usize, &PlannedClaim)| {
                c.types
                    .iter()
                    .map(|&t| catalogue.instance_type(t).capacity.get(resource))
                    .max()
                    .unwrap_or(0)
            };
            let sum = have + mine.iter().map(most).sum::<i64>();
            if sum > limit {
                let name = resource.name(&world.names).to_owned();
                let detail = format!("its nodes could have {sum} of {name}, its limit is {limit}");
                let mut over = sum - limit;
                let last = mine.iter().rev().take_while(|claim| {
                    let goes = over > 0;
                    over -= most(claim);
                    goes
                });
                let last = of_claims(last.copied());
                let at = Some(format!("NodePool {}", world.names.text(pool.name)));
                found.add_of(Invariant::Limits, at, None, last, detail);
            }
        }
        if let Some(limit) = pool.node_limit {
            let sum = (nodes().count() + mine.len()) as i64;
            if sum > limit {
                let detail = format!("it would have {sum} nodes, its limit is {limit}");
                let over = usize::try_from(sum - limit).unwrap_or(mine.len());
                let last = of_claims(mine.iter().rev().take(over).copied());
                let at = Some(format!("NodePool {}", world.names.text(pool.name)));
                found.add_of(Invariant::Limits, at, None, last, detail);
            }
        }
        if world.settings.min_values == MinValuesPolicy::Strict {
            for &claim in &mine {
                min_values(snapshot, claim, found);
            }
        }
    }
    reservations(snapshot, plan, found);
}

/// The pods of some claims, and the claims.
fn of_claims<'c>(
    claims: impl Iterator<Item = (usize, &'c PlannedClaim)>,
) -> (Vec<PodIx>, Vec<usize>) {
    let (mut pods, mut all) = (Vec::new(), Vec::new());
    for (at, claim) in claims {
        pods.extend(&claim.pods);
        all.push(at);
    }
    (pods, all)
}

fn min_values(
    snapshot: &Snapshot,
    (at, claim): (usize, &PlannedClaim),
    found: &mut Violations<'_>,
) {
    let world = &*snapshot.world;
    let pool = &world.pools[claim.pool.0 as usize];
    for r in &pool.requirements {
        let Some(min) = r.min_values else { continue };
        let mut values: Vec<Symbol> = Vec::new();
        for &t in &claim.types {
            let offerings = world
                .catalogue
                .offerings_of(t)
                .iter()
                .filter(|o| o.available);
            let of_type = world.catalogue.instance_type(t).requirements.iter();
            for of in of_type
                .chain(offerings.flat_map(|o| o.requirements.iter()))
                .filter(|q| q.key == r.key)
            {
                if let Op::In(v) = &of.op {
                    values.extend(v.iter().copied());
                }
            }
        }
        values.sort_unstable();
        values.dedup();
        if let Some((_, narrowed)) = claim.requirements.iter().find(|(key, _)| *key == r.key) {
            values.retain(|v| narrowed.contains(v));
        }
        if values.len() < usize::from(min) {
            let key = world.names.text(r.key);
            let detail = format!("{} values of {key}, minValues is {min}", values.len());
            let name = Some(format!("NodePool {}", world.names.text(pool.name)));
            let whole = of_claims(std::iter::once((at, claim)));
            found.add_of(Invariant::MinValues, name, None, whole, detail);
        }
    }
}

fn reservations(snapshot: &Snapshot, plan: &Plan, found: &mut Violations<'_>) {
    let catalogue = &snapshot.world.catalogue;
    let mut used: FxHashMap<Symbol, (Vec<(usize, &PlannedClaim)>, u32)> = FxHashMap::default();
    for (at, claim) in plan.claims.iter().enumerate() {
        if let Some((id, capacity)) = catalogue.offering(claim.offering).reservation {
            let of_id = used.entry(id).or_insert((Vec::new(), capacity));
            of_id.0.push((at, claim));
        }
    }
    for (id, (claims, capacity)) in used {
        if claims.len() > capacity as usize {
            let detail = format!("{} nodes draw on it, {capacity} are left", claims.len());
            let over = of_claims(claims.into_iter().skip(capacity as usize));
            let at = Some(found.text(id).to_owned());
            found.add_of(Invariant::Reservations, at, None, over, detail);
        }
    }
}

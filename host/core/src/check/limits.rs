//! Checks limits and `minValues` of NodePools, and reservations.

use rustc_hash::FxHashMap;

use super::{Invariant, Violations};
use crate::model::{MinValuesPolicy, Op, Symbol};
use crate::plan::{Plan, PlannedClaim};
use crate::snapshot::Snapshot;

/// Checks what NodePools and reservations bound.
pub fn check(snapshot: &Snapshot, plan: &Plan, found: &mut Violations<'_>) {
    let world = &*snapshot.world;
    let catalogue = &world.catalogue;
    for &at in &snapshot.pools {
        let pool = &world.pools[at.0 as usize];
        let mine: Vec<&PlannedClaim> = plan.claims.iter().filter(|c| c.pool == at).collect();
        if mine.is_empty() {
            continue;
        }
        let nodes = || snapshot.nodes.iter().filter(|n| n.pool == Some(pool.name));
        for &(resource, limit) in &pool.limits {
            let have: i64 = nodes().map(|n| n.capacity.get(resource)).sum();
            let most = |c: &&PlannedClaim| {
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
                found.add(
                    Invariant::Limits,
                    Some(format!("NodePool {}", world.names.text(pool.name))),
                    None,
                    detail,
                );
            }
        }
        if let Some(limit) = pool.node_limit {
            let sum = (nodes().count() + mine.len()) as i64;
            if sum > limit {
                let detail = format!("it would have {sum} nodes, its limit is {limit}");
                found.add(
                    Invariant::Limits,
                    Some(format!("NodePool {}", world.names.text(pool.name))),
                    None,
                    detail,
                );
            }
        }
        if world.settings.min_values == MinValuesPolicy::Strict {
            for claim in &mine {
                min_values(snapshot, claim, found);
            }
        }
    }
    reservations(snapshot, plan, found);
}

fn min_values(snapshot: &Snapshot, claim: &PlannedClaim, found: &mut Violations<'_>) {
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
            found.add(
                Invariant::MinValues,
                Some(format!("NodePool {}", world.names.text(pool.name))),
                None,
                detail,
            );
        }
    }
}

fn reservations(snapshot: &Snapshot, plan: &Plan, found: &mut Violations<'_>) {
    let catalogue = &snapshot.world.catalogue;
    let mut used: FxHashMap<Symbol, (u32, u32)> = FxHashMap::default();
    for claim in &plan.claims {
        if let Some((id, capacity)) = catalogue.offering(claim.offering).reservation {
            used.entry(id).or_insert((0, capacity)).0 += 1;
        }
    }
    for (id, (count, capacity)) in used {
        if count > capacity {
            let detail = format!("{count} nodes draw on it, {capacity} are left");
            found.add(
                Invariant::Reservations,
                Some(found.text(id).to_owned()),
                None,
                detail,
            );
        }
    }
}

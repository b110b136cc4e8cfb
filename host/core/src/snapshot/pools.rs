//! Which NodePools may be bought from, and in which order.

use rustc_hash::{FxHashMap, FxHashSet};

use super::nodes::StateNode;
use super::useless_purchases;
use crate::ids::PoolIx;
use crate::model::{ClusterObjects, NodeClass, NodePool, Symbol};
use crate::reasons::{ForeignTaintBackoff, Ineligible};

/// NodePools that may be bought from, by weight and name, the highest first, and the others by
/// name. Then those of the first from which one node may be bought.
pub fn partition_pools(
    world: &ClusterObjects,
    nodes: &[StateNode],
    spoiled: &FxHashMap<Symbol, ForeignTaintBackoff>,
) -> (Vec<PoolIx>, Vec<(PoolIx, Ineligible)>, Vec<PoolIx>) {
    let mut late: FxHashMap<Symbol, FxHashSet<Symbol>> = FxHashMap::default();
    for node in nodes.iter().filter(|node| node.late) {
        let of_pool = node.pool.map(|pool| late.entry(pool).or_default());
        of_pool.map(|names| names.insert(node.name));
    }
    let mut usable = Vec::new();
    let mut unusable = Vec::new();
    let mut trial = Vec::new();
    for (at, pool) in world.pools.iter().enumerate() {
        let spoiled = || {
            spoiled
                .get(&pool.name)
                .cloned()
                .map(Ineligible::ForeignTaints)
        };
        let mut unjoined = || {
            let (backoff, may_try) =
                useless_purchases::unjoined(world, late.get(&pool.name), pool)?;
            if may_try {
                trial.push(PoolIx(at as u32));
                return None;
            }
            Some(Ineligible::NeverJoined(backoff))
        };
        let full = || useless_purchases::full(world, pool).map(Ineligible::FullMemory);
        let why = why_unusable(world, pool).or_else(spoiled).or_else(full);
        match why.or_else(&mut unjoined) {
            None => usable.push(PoolIx(at as u32)),
            Some(reason) => unusable.push((PoolIx(at as u32), reason)),
        }
    }
    let text = |at: &PoolIx| world.names.text(world.pools[at.0 as usize].name);
    let weight = |at: &PoolIx| world.pools[at.0 as usize].weight;
    usable.sort_by(|a, b| weight(b).cmp(&weight(a)).then_with(|| text(b).cmp(text(a))));
    unusable.sort_by(|a, b| text(&a.0).cmp(text(&b.0)));
    (usable, unusable, trial)
}

/// A dump of a cluster often leaves classes out, so a missing class counts only if the dump has
/// other classes of its kind. What is wrong with the class comes before the condition Ready of the
/// NodePool, which follows from it and may be older.
fn why_unusable(world: &ClusterObjects, pool: &NodePool) -> Option<Ineligible> {
    let same_kind = |c: &&NodeClass| c.id.kind == pool.class.kind && c.id.group == pool.class.group;
    let class = world
        .classes
        .iter()
        .filter(same_kind)
        .find(|c| c.id.name == pool.class.name);
    if !world.manages(pool.class) {
        return Some(Ineligible::ForeignClass(pool.class));
    }
    if pool.deleting {
        return Some(Ineligible::Deleting);
    }
    if pool.replicas.is_some() {
        return Some(Ineligible::Static);
    }
    match class {
        None if world.classes.iter().any(|c| same_kind(&c)) => {
            Some(Ineligible::ClassMissing(pool.class))
        }
        Some(c) if c.deleting => Some(Ineligible::ClassDeleting(c.id)),
        Some(c) if c.ready == Some(false) => Some(Ineligible::ClassNotReady(c.id)),
        _ if pool.ready == Some(false) => Some(Ineligible::NotReady),
        _ => None,
    }
}

//! Which NodePools have so many unhealthy nodes that none of them is repaired.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{ClusterObjects, Symbol};

/// One node in so many may be unhealthy, rounded up.
const UNHEALTHY_DIVISOR: usize = 5;

/// Whether so many of these nodes are unhealthy that the cause is probably elsewhere.
pub fn are_too_many(unhealthy: usize, nodes: usize) -> bool {
    unhealthy > nodes.div_ceil(UNHEALTHY_DIVISOR)
}

/// NodePools of which too many nodes are unhealthy, tolerated or not: how many, and of how many.
pub(super) fn broken_pools(world: &ClusterObjects) -> FxHashMap<Symbol, (u32, u32)> {
    let mut counts: FxHashMap<Symbol, (u32, u32)> = FxHashMap::default();
    let Some(key) = world.names.get("karpenter.sh/nodepool") else {
        return counts;
    };
    if world.unhealthy.is_empty() {
        return counts;
    }
    let unhealthy: FxHashSet<Symbol> = world.unhealthy.iter().map(|of| of.node).collect();
    for node in &world.nodes {
        if let Some(pool) = node.labels.get(key) {
            let (sick, all) = counts.entry(pool).or_default();
            *sick += u32::from(unhealthy.contains(&node.name));
            *all += 1;
        }
    }
    counts.retain(|_, (sick, all)| are_too_many(*sick as usize, *all as usize));
    counts
}

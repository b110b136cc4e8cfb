//! Which NodePools have so many unhealthy nodes that none of them is repaired.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{ClusterObjects, Symbol};

/// One node of a NodePool in so many may be unhealthy, rounded up.
const UNHEALTHY_DIVISOR: u32 = 5;

/// NodePools with more unhealthy nodes than that, tolerated or not: how many, and of how many nodes.
pub fn broken_pools(world: &ClusterObjects) -> FxHashMap<Symbol, (u32, u32)> {
    let unhealthy: FxHashSet<Symbol> = world.unhealthy.iter().map(|of| of.node).collect();
    let mut counts: FxHashMap<Symbol, (u32, u32)> = FxHashMap::default();
    let key = world.names.get("karpenter.sh/nodepool");
    for node in world.nodes.iter().filter(|_| !unhealthy.is_empty()) {
        let Some(pool) = key.and_then(|key| node.labels.get(key)) else {
            continue;
        };
        let (sick, all) = counts.entry(pool).or_default();
        *sick += u32::from(unhealthy.contains(&node.name));
        *all += 1;
    }
    counts.retain(|_, (sick, all)| *sick > all.div_ceil(UNHEALTHY_DIVISOR));
    counts
}

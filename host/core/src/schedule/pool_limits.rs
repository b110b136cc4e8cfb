//! What the limits of a NodePool leave to what is planned.

use crate::ids::PoolIx;
use crate::model::{NodePool, ResourceId};
use crate::snapshot::Snapshot;

/// What a NodePool's limits leave after the nodes that it has.
pub(super) fn limits(
    snapshot: &Snapshot,
    pool: &NodePool,
) -> (Vec<(ResourceId, i64)>, Option<i64>) {
    let mut limits = pool.limits.clone();
    let mut nodes = pool.node_limit;
    for node in snapshot.nodes.iter().filter(|n| n.pool == Some(pool.name)) {
        limits
            .iter_mut()
            .for_each(|(resource, left)| *left -= node.capacity.get(*resource));
        nodes = nodes.map(|n| n - 1);
    }
    let is_trial = |at: &PoolIx| snapshot.world.pools[at.0 as usize].name == pool.name;
    if snapshot.trial.iter().any(is_trial) {
        nodes = Some(nodes.map_or(1, |left| left.min(1)));
    }
    (limits, nodes)
}

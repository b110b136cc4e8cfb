//! Nodes that are not initialised yet: those that pods wait for, and those that are late.

use rustc_hash::FxHashMap;

use crate::ids::NodeIx;
use crate::model::{NodeClaim, Symbol};
use crate::snapshot::Snapshot;

/// So long after its NodeClaim was created, seconds, a node is waited for: longer than machines take to
/// start. Karpenter waits for ever; one node that never gets ready would keep all others from being
/// replaced.
const WAITED_FOR: i64 = 3600;

/// Nodes of NodePools that are not initialised and may still be.
pub(super) fn nodes(snapshot: &Snapshot) -> Vec<NodeIx> {
    let world = &*snapshot.world;
    let is_missing = |at: &usize| {
        let node = &snapshot.nodes[*at];
        !node.initialized && node.pool.is_some()
    };
    let missing: Vec<usize> = (0..snapshot.nodes.len()).filter(is_missing).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let mut claims: FxHashMap<Symbol, &NodeClaim> = FxHashMap::default();
    for claim in &world.claims {
        claims.insert(claim.name, claim);
        claim.node_name.map(|name| claims.insert(name, claim));
    }
    let rebooting = world.names.get(super::super::verdicts::REBOOTING);
    let is_awaited = |at: &usize| {
        let claim = claims.get(&snapshot.nodes[*at].name);
        claim.is_none_or(|claim| {
            let reboots = rebooting.is_some_and(|of| claim.conditions.contains(&of));
            !reboots && (claim.created == 0 || world.now - claim.created < WAITED_FOR)
        })
    };
    let awaited = missing.into_iter().filter(is_awaited);
    awaited.map(|at| NodeIx(at as u32)).collect()
}

//! What is left of limits of NodePools beside all nodes, and what proposals take of it.

use rustc_hash::FxHashMap;

use super::{Proposal, pool_of};
use crate::disrupt::compiled::Compiled;
use crate::disrupt::verdicts::COMMAND;
use crate::ids::PoolIx;
use crate::model::{NodeClaim, ResourceId, Symbol};

/// Label of NodeClaims and Nodes with the name of their NodePool.
pub(in crate::disrupt) const NODEPOOL: &str = "karpenter.sh/nodepool";

/// What the limits of one NodePool leave: of each resource, and of nodes.
type Left = (PoolIx, Vec<(ResourceId, i64)>, Option<i64>);

/// What the limits of NodePools leave, proposal after proposal.
pub struct Limits(Vec<Left>);

impl Limits {
    /// What is left beside all nodes. Those of commands that are under way count until they are
    /// gone.
    pub fn new(c: &Compiled<'_>) -> Self {
        let snapshot = c.problem.snapshot;
        let world = &*snapshot.world;
        let keys = world.names.get(COMMAND).zip(world.names.get(NODEPOOL));
        let going = |pool: Symbol| {
            let of = move |claim: &&NodeClaim| {
                keys.is_some_and(|(command, nodepool)| {
                    claim.annotations.get(command).is_some()
                        && claim.labels.get(nodepool) == Some(pool)
                })
            };
            world.claims.iter().filter(of)
        };
        let left = |pool: &PoolIx| {
            let record = &snapshot.world.pools[pool.0 as usize];
            let nodes = || {
                snapshot
                    .nodes
                    .iter()
                    .filter(|node| node.pool == Some(record.name))
            };
            let left = |&(resource, limit): &(ResourceId, i64)| {
                let used: i64 = nodes().map(|node| node.capacity.get(resource)).sum();
                let goes: i64 = going(record.name)
                    .map(|claim| claim.capacity.get(resource))
                    .sum();
                (resource, limit - used - goes)
            };
            let count = record
                .node_limit
                .map(|limit| limit - (nodes().count() + going(record.name).count()) as i64);
            (*pool, record.limits.iter().map(left).collect(), count)
        };
        let limited = |pool: &&PoolIx| {
            let record = &snapshot.world.pools[pool.0 as usize];
            !record.limits.is_empty() || record.node_limit.is_some()
        };
        Limits(snapshot.pools.iter().filter(limited).map(left).collect())
    }

    /// A proposal whose replacements fit into what is left; with `in_place`, into what its nodes
    /// leave as well, though they go later. Types that are larger than what is counted on are left
    /// out where there are limits.
    pub(super) fn admit(
        &mut self,
        c: &Compiled<'_>,
        mut proposal: Proposal,
        in_place: bool,
    ) -> Option<Proposal> {
        let snapshot = c.problem.snapshot;
        let catalogue = &snapshot.world.catalogue;
        let mut after = self.0.clone();
        for (pool, left, count) in &mut after {
            let name = Some(snapshot.world.pools[pool.0 as usize].name);
            for node in proposal
                .nodes
                .iter()
                .map(|node| &snapshot.nodes[node.0 as usize])
            {
                if node.pool == name && in_place {
                    left.iter_mut()
                        .for_each(|(resource, left)| *left += node.capacity.get(*resource));
                    *count = count.map(|count| count + 1);
                }
            }
            for replacement in proposal
                .replacements
                .iter_mut()
                .map(|of| &mut of.claim)
                .filter(|of| of.pool == *pool)
            {
                let first = catalogue.offering(replacement.offering).instance_type;
                let bound = &catalogue.instance_type(first).capacity;
                replacement.types.retain(|&t| {
                    let capacity = &catalogue.instance_type(t).capacity;
                    left.iter()
                        .all(|(resource, _)| capacity.get(*resource) <= bound.get(*resource))
                });
                left.iter_mut()
                    .for_each(|(resource, left)| *left -= bound.get(*resource));
                *count = count.map(|count| count - 1);
            }
            let buys = proposal
                .replacements
                .iter()
                .any(|of| of.claim.pool == *pool);
            let short =
                left.iter().any(|(_, left)| *left < 0) || count.is_some_and(|count| count < 0);
            if buys && short {
                return None;
            }
        }
        self.0 = after;
        Some(proposal)
    }
}

/// Whether so many nodes of each NodePool may go.
pub(super) fn fits(c: &Compiled<'_>, nodes: &[usize], left: &FxHashMap<Symbol, u32>) -> bool {
    let mut wanted: FxHashMap<Symbol, u32> = FxHashMap::default();
    nodes
        .iter()
        .filter_map(|&at| pool_of(c, at))
        .for_each(|pool| *wanted.entry(pool).or_default() += 1);
    wanted
        .into_iter()
        .all(|(pool, nodes)| left.get(&pool).is_none_or(|&left| nodes <= left))
}

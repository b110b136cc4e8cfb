//! NodePools whose nodes did not join.

use rustc_hash::FxHashSet;

use super::{
    FREE_PURCHASES, MAX_BACKOFF_SECONDS, PLANNED, backoff, given_of, refused_pods, still_waiting,
};
use crate::model::conditions::DRIFTED;
use crate::model::purchases::Unjoined;
use crate::model::{ClusterObjects, NodeClaim, NodePool, Symbol};
use crate::reasons::UnjoinedBackoff;
use crate::snapshot::nodes::INITIALIZATION_LIMIT;
use crate::snapshot::useless_purchases::groups::Groups;

/// Why nothing is bought from a NodePool whose nodes never join, and whether it may try one node: it
/// has had its pause. `late` are the names of its nodes that are late.
pub fn unjoined(
    world: &ClusterObjects,
    late: Option<&FxHashSet<Symbol>>,
    pool: &NodePool,
) -> Option<(UnjoinedBackoff, bool)> {
    let known = pool.purchases.unjoined.as_ref();
    // The common case at once.
    if known.is_none() && late.is_none() {
        return None;
    }
    let given = given_of(world, pool);
    let known = known.filter(|known| known.given == given);
    let is_late = |claim: &NodeClaim| {
        let node = late.zip(claim.node_name);
        node.is_some_and(|(late, node)| late.contains(&node))
    };
    let stuck = stuck(world, pool, is_late);
    let count = u32::try_from(stuck.len()).unwrap_or(u32::MAX);
    let nodes = known.map_or(0, |known| known.nodes).saturating_add(count);
    if nodes <= FREE_PURCHASES || known.is_none() && are_of_one_group(world, &stuck) {
        return None;
    }
    let times = known.map_or(0, |known| known.times);
    let newest = stuck.iter().map(|claim| claim.created).max();
    let waits =
        newest.map(|at| at + INITIALIZATION_LIMIT + backoff(times.max(nodes - FREE_PURCHASES)));
    let until = waits.max(known.map(|known| known.until)).unwrap_or(0);
    // One that goes has not joined either: it is counted soon, unless its end is held up.
    let goes =
        |claim: &NodeClaim| claim.deleting && world.now < claim.created + MAX_BACKOFF_SECONDS;
    let is_tried = own_claims(world, pool).any(|claim| {
        claim.initialized.is_none() && (goes(claim) || !claim.deleting && !is_late(claim))
    });
    let backoff = UnjoinedBackoff {
        nodes,
        not_ready: count,
        class: pool.class,
        until,
    };
    Some((backoff, world.now >= until && !is_tried))
}

fn own_claims<'w>(
    world: &'w ClusterObjects,
    pool: &NodePool,
) -> impl Iterator<Item = &'w NodeClaim> {
    let key = world.names.get("karpenter.sh/nodepool");
    let name = pool.name;
    let is_own = move |claim: &&NodeClaim| key.and_then(|key| claim.labels.get(key)) == Some(name);
    world.claims.iter().filter(is_own)
}

/// Claims of a NodePool whose nodes have joined long ago and are not ready for pods, all made after the
/// newest that is. One of an earlier template says nothing of this one.
fn stuck<'w>(
    world: &'w ClusterObjects,
    pool: &NodePool,
    is_late: impl Fn(&NodeClaim) -> bool,
) -> Vec<&'w NodeClaim> {
    let ready = own_claims(world, pool).filter(|claim| claim.initialized.is_some());
    let newest = ready.map(|claim| claim.created).max();
    let drifted = world.names.get(DRIFTED);
    let counts = |claim: &&NodeClaim| {
        let is_current = drifted.is_none_or(|known| !claim.conditions.contains(&known));
        let is_newer = newest.is_none_or(|newest| claim.created > newest);
        is_current && is_newer && !claim.deleting && is_late(claim)
    };
    own_claims(world, pool).filter(counts).collect()
}

/// Whether all these NodeClaims were bought for pods of one group that waits: what keeps its nodes from
/// getting ready need not concern others, and [`UselessPurchases`](super::UselessPurchases) bounds what is bought for it.
fn are_of_one_group(world: &ClusterObjects, claims: &[&NodeClaim]) -> bool {
    let Some(planned) = world.names.get(PLANNED) else {
        return false;
    };
    let waiting = refused_pods(world);
    let mut groups = Groups::new(world);
    let mut of_claims = claims.iter().map(|claim| {
        let pods = still_waiting(world, claim, planned, &waiting);
        pods.map(|pod| groups.of(&world.pods[pod.0 as usize]))
            .collect::<FxHashSet<u64>>()
    });
    let first = of_claims.next().unwrap_or_default();
    first.len() == 1 && of_claims.all(|of_pods| of_pods == first)
}

/// What a NodePool remembers of nodes that never joined, if it is a reason to buy less. `given` is
/// [`given_of`] it.
pub fn paused(known: Option<&Unjoined>, given: u64) -> Option<&Unjoined> {
    known.filter(|known| known.nodes > FREE_PURCHASES && known.given == given)
}

/// What a NodePool is to remember after so many more of its nodes have not joined. `given` is
/// [`given_of`] it; `now` in seconds since 1970.
pub fn unjoined_again(known: Option<&Unjoined>, more: u32, given: u64, now: i64) -> Unjoined {
    let known = known.filter(|known| known.given == given);
    let nodes = known.map_or(0, |known| known.nodes).saturating_add(more);
    let before = known.map_or(0, |known| known.times);
    let times = before.saturating_add(u32::from(nodes > FREE_PURCHASES));
    let until = if nodes > FREE_PURCHASES {
        now + backoff(times)
    } else {
        0
    };
    Unjoined {
        nodes,
        times,
        until,
        given,
    }
}

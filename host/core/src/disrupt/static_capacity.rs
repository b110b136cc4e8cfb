//! Static NodePools: how many nodes to add or remove, and which.
//!
//! A static NodePool keeps `spec.replicas` nodes whatever pods ask for. A claim that a command of
//! disruption takes has a replacement that counts, or will have one. So it counts for the node limit
//! and against a purchase, but is no node that scale-down may choose.

use rustc_hash::FxHashMap;

use super::methods::{Act, FirstWhy};
use super::verdicts::{COMMAND, REBOOTING, Stays};
use super::{costs, verdicts};
use crate::model::conditions::{DISRUPTION_REASON, INITIALIZED};
use crate::model::{ClusterObjects, NodeClaim, Symbol};

/// NodeClaims of a static NodePool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that no command disrupts and that are not being deleted.
    pub active: u32,
    /// Those that a command of disruption takes and that are not deleted yet.
    pub disrupted: u32,
    /// Those that are being deleted.
    pub deleting: u32,
}

impl Counts {
    /// All of them: what the node limit bounds.
    pub fn all(self) -> u32 {
        self.active + self.disrupted + self.deleting
    }
}

/// What brings a static NodePool to its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// It has them, or will have them.
    Stands,
    /// So many claims are created. Without a node limit there would be `missing` more.
    Up {
        /// Number of NodeClaims to create, at least one.
        create: u32,
        /// What the node limit keeps back.
        missing: u32,
    },
    /// The node limit keeps back all that is missing.
    AtLimit {
        /// Number of NodeClaims that are missing.
        missing: u32,
    },
    /// So many claims are deleted.
    Down(u32),
}

/// Compares a static NodePool with what it has. Negative numbers count as 0.
pub fn scale(replicas: i64, node_limit: Option<i64>, counts: Counts) -> Scale {
    let number = |n: i64| u32::try_from(n.max(0)).unwrap_or(u32::MAX);
    let wanted = number(replicas);
    if counts.active > wanted {
        return Scale::Down(counts.active - wanted);
    }
    if counts.active + counts.disrupted >= wanted {
        return Scale::Stands;
    }
    let missing = wanted - counts.active;
    let create = missing.min(room(node_limit, counts));
    match create {
        0 => Scale::AtLimit { missing },
        create => Scale::Up {
            create,
            missing: missing - create,
        },
    }
}

/// How many more claims the node limit allows.
pub fn room(node_limit: Option<i64>, counts: Counts) -> u32 {
    node_limit.map_or(u32::MAX, |limit| {
        let limit = u32::try_from(limit.max(0)).unwrap_or(u32::MAX);
        limit.saturating_sub(counts.all())
    })
}

/// How many nodes of a static NodePool may be replaced now: what the node limit leaves.
///
/// # Errors
/// Why none may, whatever the limit is: scaling comes first, replacements of before are still to
/// take the place of others, or the NodePool is being deleted.
pub fn room_to_replace(world: &ClusterObjects, pool: Symbol) -> Result<u32, Stays> {
    let record = world.pools.iter().find(|known| known.name == pool);
    let record = record
        .filter(|pool| !pool.deleting)
        .ok_or(Stays::StaticScales)?;
    let counts = counts(world, pool);
    let replicas = record.replicas.unwrap_or(0);
    let stands = scale(replicas, record.node_limit, counts) == Scale::Stands;
    if !stands || i64::from(counts.all()) > replicas {
        return Err(Stays::StaticScales);
    }
    Ok(room(record.node_limit, counts))
}

/// Claims of a NodePool by what becomes of them. Those of a command count as disrupted, though the
/// caller may have marked them as going.
fn counts(world: &ClusterObjects, pool: Symbol) -> Counts {
    let key = |text: &str| world.names.get(text);
    let (owner, command) = (key("karpenter.sh/nodepool"), key(COMMAND));
    let reason = key(DISRUPTION_REASON);
    let mut counts = Counts::default();
    let is_own = |claim: &&NodeClaim| owner.is_some_and(|key| claim.labels.get(key) == Some(pool));
    for claim in world.claims.iter().filter(is_own) {
        let in_command = command.is_some_and(|key| claim.annotations.get(key).is_some());
        let tainted = reason.is_some_and(|reason| claim.conditions.contains(&reason));
        if in_command || (tainted && !claim.deleting) {
            counts.disrupted += 1;
        } else if claim.deleting {
            counts.deleting += 1;
        } else {
            counts.active += 1;
        }
    }
    counts
}

/// How one node of a static NodePool is replaced now. At the node limit it goes first, if `first`
/// allows that.
///
/// # Errors
/// Why it is not.
pub fn replaces(world: &ClusterObjects, pool: Symbol, first: bool) -> Result<Act, Stays> {
    if room_to_replace(world, pool)? > 0 {
        return Ok(Act::ReplaceStatic);
    }
    let record = world.pools.iter().find(|known| known.name == pool);
    match record.filter(|record| first && record.ready != Some(false)) {
        Some(_) => Ok(Act::TerminateFirst(FirstWhy::StaticAtLimit)),
        None => Err(Stays::StaticAtLimit),
    }
}

/// No other node of a NodePool is on its way, so that one of its nodes may go before it is replaced: what
/// went before it has to hold pods first.
///
/// # Errors
/// One is: launched or not, it is not initialised.
pub fn nothing_comes(world: &ClusterObjects, pool: Symbol, node: Symbol) -> Result<(), Stays> {
    let key = |text: &str| world.names.get(text);
    let (owner, initialized) = (key("karpenter.sh/nodepool"), key(INITIALIZED));
    let rebooting = key(REBOOTING);
    let comes = |claim: &NodeClaim| {
        let has = |of: Option<Symbol>| of.is_some_and(|of| claim.conditions.contains(&of));
        let is_own = owner.is_some_and(|key| claim.labels.get(key) == Some(pool));
        let is_other = claim.node_name != Some(node);
        is_own && is_other && !claim.deleting && !has(initialized) && !has(rebooting)
    };
    match world.claims.iter().any(comes) {
        true => Err(Stays::OthersNotReady),
        false => Ok(()),
    }
}

/// What scale-down looks at, of one claim.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    /// Annotation do-not-disrupt of the node, its claim, or a pod that is active.
    kept: bool,
    /// A pod would have to move.
    used: bool,
    /// Eviction costs of all active pods.
    cost: f64,
}

/// Names of the claims of a NodePool that are not being deleted, in the order in which scale-down
/// takes them: those without an instance, then empty nodes, then those that cost least to disrupt.
/// What do-not-disrupt protects comes last. `now` in seconds since 1970. The objects may be in any
/// order.
pub fn removal_order(world: &ClusterObjects, pool: Symbol, now: i64) -> Vec<Symbol> {
    let owner = world.names.get("karpenter.sh/nodepool");
    let is_own = |claim: &&NodeClaim| {
        !claim.deleting && owner.is_some_and(|key| claim.labels.get(key) == Some(pool))
    };
    let claims: Vec<&NodeClaim> = world.claims.iter().filter(is_own).collect();
    let facts = facts(world, &claims, now);
    let lifetime = world
        .pools
        .iter()
        .find(|known| known.name == pool)
        .and_then(|pool| pool.expire_after);
    let mut order: Vec<_> = claims
        .iter()
        .zip(facts)
        .map(|(claim, facts)| {
            let cost = facts.cost * left_to_live(claim, lifetime, now);
            let launched = claim.provider_id.is_some();
            let name = world.names.text(claim.name);
            (facts.kept, launched, facts.used, cost, name, claim.name)
        })
        .collect();
    order.sort_by(|a, b| {
        (a.0, a.1, a.2)
            .cmp(&(b.0, b.1, b.2))
            .then(a.3.total_cmp(&b.3))
            .then(a.4.cmp(b.4))
    });
    order.into_iter().map(|claim| claim.5).collect()
}

fn facts(world: &ClusterObjects, claims: &[&NodeClaim], now: i64) -> Vec<Facts> {
    let forbids = |annotations| verdicts::forbids(world, annotations);
    let mut facts: Vec<Facts> = claims
        .iter()
        .map(|claim| Facts {
            kept: forbids(&claim.annotations),
            ..Facts::default()
        })
        .collect();
    let by_id: FxHashMap<Symbol, usize> = claims
        .iter()
        .enumerate()
        .filter_map(|(at, claim)| Some((claim.provider_id?, at)))
        .collect();
    let mut by_node: FxHashMap<Symbol, usize> = FxHashMap::default();
    for node in world.nodes.iter() {
        let Some(&at) = node.provider_id.and_then(|id| by_id.get(&id)) else {
            continue;
        };
        by_node.insert(node.name, at);
        facts[at].kept |= forbids(&node.annotations);
    }
    let daemon = world.names.get("DaemonSet");
    for pod in world.pods.iter().filter(|pod| !pod.terminal) {
        let Some(&at) = pod.node.and_then(|node| by_node.get(&node)) else {
            continue;
        };
        let facts = &mut facts[at];
        facts.kept |= pod.do_not_disrupt.holds(pod.started, now);
        facts.used |= costs::has_to_move(pod, daemon);
        facts.cost += costs::eviction_cost(world, pod);
    }
    facts
}

/// The share of its life that a claim has left, from 0 to 1; 1 if it never expires.
fn left_to_live(claim: &NodeClaim, lifetime: Option<i64>, now: i64) -> f64 {
    match lifetime {
        Some(lifetime) if lifetime > 0 => {
            let age = now.saturating_sub(claim.created) as f64;
            (1.0 - age / lifetime as f64).clamp(0.0, 1.0)
        }
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(active: u32, disrupted: u32, deleting: u32) -> Counts {
        Counts {
            active,
            disrupted,
            deleting,
        }
    }

    #[test]
    fn a_static_pool_grows_to_its_replicas_within_its_limit() {
        let up = |create, missing| Scale::Up { create, missing };
        assert_eq!(scale(10, None, counts(0, 0, 0)), up(10, 0));
        assert_eq!(scale(10, Some(5), counts(0, 0, 0)), up(5, 5));
        assert_eq!(
            scale(10, Some(5), counts(5, 0, 0)),
            Scale::AtLimit { missing: 5 }
        );
        // Nodes that go have not given their room back yet.
        assert_eq!(scale(5, Some(6), counts(2, 0, 3)), up(1, 2));
        assert_eq!(scale(5, Some(4), counts(9, 0, 0)), Scale::Down(4));
        assert_eq!(scale(-3, Some(-1), counts(0, 0, 0)), Scale::Stands);
    }

    #[test]
    fn a_node_that_is_being_replaced_is_neither_bought_again_nor_taken() {
        // Before its replacement is created, and after.
        assert_eq!(scale(4, None, counts(3, 1, 0)), Scale::Stands);
        assert_eq!(scale(4, None, counts(4, 1, 0)), Scale::Stands);
        assert_eq!(scale(4, None, counts(4, 0, 1)), Scale::Stands);
        assert_eq!(scale(3, None, counts(4, 1, 0)), Scale::Down(1));
        assert_eq!(room(Some(6), counts(4, 1, 0)), 1);
    }
}

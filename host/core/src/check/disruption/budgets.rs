//! Whether proposals keep within budgets and replicas of NodePools.

use rustc_hash::FxHashMap;

use super::Disruption;
use super::may_go::{in_command, is_true};
use crate::check::{Invariant, Violations};
use crate::cron::Schedule;
use crate::ids::NodeIx;
use crate::model::conditions::INSTANCE_TERMINATING;
use crate::model::{ClusterObjects, Labels, NodeClaim, NodePool, NodeRecord};
use crate::snapshot::Snapshot;

/// No NodePool loses more nodes than its budgets allow for the reason.
pub(super) fn budgets(snapshot: &Snapshot, disruptions: &[Disruption], found: &mut Violations<'_>) {
    let world = &*snapshot.world;
    for pool in &world.pools {
        let mut going: FxHashMap<&str, u64> = FxHashMap::default();
        for disruption in disruptions {
            // Repair of a node that is not initialised neither needs nor uses a budget.
            let mine = |node: &&NodeIx| {
                let node = &snapshot.nodes[node.0 as usize];
                let counts = node.initialized || disruption.reason != "Unhealthy";
                node.pool == Some(pool.name) && counts
            };
            *going.entry(disruption.reason).or_default() +=
                disruption.nodes.iter().filter(mine).count() as u64;
        }
        let all: u64 = going.values().sum();
        for (reason, _) in going.into_iter().filter(|(_, nodes)| *nodes > 0) {
            let Some(most) = most_for(world, pool, reason) else {
                continue;
            };
            if all > most {
                let at = Some(format!("NodePool {}", world.names.text(pool.name)));
                let detail = format!("{all} nodes go, {reason} among them, for which {most} may");
                found.add(Invariant::Disruption, at, None, detail);
            }
        }
    }
}

/// How many nodes of a NodePool may go for a reason; nothing if no budget says.
fn most_for(world: &ClusterObjects, pool: &NodePool, reason: &str) -> Option<u64> {
    let label = |key: &str| world.names.get(key);
    let (nodepool, initialized) = (
        label("karpenter.sh/nodepool")?,
        label("karpenter.sh/initialized")?,
    );
    let reboots = |node: &NodeRecord| {
        let mut claims = world.claims.iter();
        claims.any(|claim| claim.node_name == Some(node.name) && is_true(world, claim, "Rebooting"))
    };
    let mine = world.nodes.iter().filter(|node| {
        let ready = node
            .labels
            .get(initialized)
            .is_some_and(|value| world.names.text(value) == "true");
        node.labels.get(nodepool) == Some(pool.name) && (ready || reboots(node))
    });
    let (mut nodes, mut disturbed) = (0u64, late(world, pool, reason));
    for node in mine {
        let ends = |claim: &NodeClaim| is_true(world, claim, INSTANCE_TERMINATING);
        let mut own = world.claims.iter();
        if own.any(|claim| claim.node_name == Some(node.name) && ends(claim)) {
            continue;
        }
        nodes += 1;
        let going = node.deleting
            || world.claims.iter().any(|claim| {
                claim.node_name == Some(node.name)
                    && (claim.deleting
                        || in_command(world, claim)
                        || is_true(world, claim, "Rebooting"))
            });
        let not_ready = !node.ready && reason != "Unhealthy";
        disturbed += u64::from(going || not_ready);
    }
    let mut least: Option<u64> = None;
    for budget in &pool.budgets {
        let concerns = budget
            .reasons
            .as_ref()
            .is_none_or(|all| all.iter().any(|&r| world.names.text(r) == reason));
        let open = match (&budget.schedule, budget.duration) {
            (Some(text), duration) => match Schedule::parse(text) {
                // Of what cannot be read it is not known what it allows, for any reason.
                Err(_) => return Some(0),
                Ok(schedule) => {
                    let begun = schedule.next(world.now - duration.unwrap_or(0));
                    begun.is_none_or(|begun| begun <= world.now)
                }
            },
            (None, _) => true,
        };
        if concerns && open {
            let most = match budget.nodes.strip_suffix('%').map(str::parse::<u64>) {
                Some(Ok(share)) if share <= 100 => (nodes * share).div_ceil(100),
                Some(_) => 0,
                None => budget.nodes.parse().unwrap_or(0),
            };
            least = Some(least.map_or(most, |known| known.min(most)));
        }
    }
    least.map(|most| most.saturating_sub(disturbed))
}

/// Nodes of a NodePool that have not become ready in ten minutes, but for those that were bought for
/// nodes that are still there. Repair is not bound by them.
fn late(world: &ClusterObjects, pool: &NodePool, reason: &str) -> u64 {
    let text = |labels: &Labels, key: &str| {
        let value = world.names.get(key).and_then(|key| labels.get(key));
        value.map(|value| world.names.text(value))
    };
    let name = world.names.text(pool.name);
    let is_late = |node: &&NodeRecord| {
        let claim = world
            .claims
            .iter()
            .find(|of| of.node_name == Some(node.name));
        let Some(claim) = claim else { return false };
        let bought_for = text(&claim.annotations, "longshore.dev/replaces");
        let mut all = world.claims.iter();
        let replaces = bought_for.is_some_and(|id| {
            all.any(|of| text(&of.annotations, "longshore.dev/disruption") == Some(id))
        });
        text(&node.labels, "karpenter.sh/nodepool") == Some(name)
            && text(&node.labels, "karpenter.sh/initialized") != Some("true")
            && !is_true(world, claim, "Rebooting")
            && !(node.deleting || claim.deleting || in_command(world, claim))
            && (claim.created == 0 || world.now - claim.created >= 600)
            && !replaces
    };
    match reason {
        "Unhealthy" => 0,
        _ => world.nodes.iter().filter(is_late).count() as u64,
    }
}

/// A static NodePool has its replicas before nodes are replaced, and stays within its node limit while
/// they are.
pub(super) fn replicas(
    snapshot: &Snapshot,
    disruptions: &[Disruption],
    found: &mut Violations<'_>,
) {
    let world = &*snapshot.world;
    let Some(nodepool) = world.names.get("karpenter.sh/nodepool") else {
        return;
    };
    let of_static = || disruptions.iter().filter(|d| d.of_static);
    for pool in &world.pools {
        let mine = |node: &&NodeIx| snapshot.nodes[node.0 as usize].pool == Some(pool.name);
        let replaced = of_static().flat_map(|d| &d.nodes).filter(mine).count() as i64;
        let Some(wanted) = pool.replicas.filter(|_| replaced > 0) else {
            continue;
        };
        let own = |claim: &&NodeClaim| claim.labels.get(nodepool) == Some(pool.name);
        let claims = world.claims.iter().filter(own).count() as i64;
        let at = || Some(format!("NodePool {}", world.names.text(pool.name)));
        if pool.deleting || claims != wanted {
            let detail =
                format!("{claims} NodeClaims for {wanted} replicas, and nodes are replaced");
            found.add(Invariant::Disruption, at(), None, detail);
        }
        if pool
            .node_limit
            .is_some_and(|limit| claims + replaced > limit)
        {
            let detail =
                format!("{claims} NodeClaims and {replaced} replacements beyond its limit");
            found.add(Invariant::Limits, at(), None, detail);
        }
    }
}

//! How many nodes of a NodePool may be disrupted now, and for which reason.

use rustc_hash::{FxHashMap, FxHashSet};

use super::verdicts::Reason;
use crate::cron::Schedule;
use crate::model::{Budget, ClusterObjects, NodeClaim, NodePool, Symbol};

/// What a budget of a NodePool allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Nodes that may be disrupted beside those that are.
    pub nodes: u32,
    /// The budget that decides: position in `spec.disruption.budgets`. Nothing if none is active.
    pub budget: Option<usize>,
}

/// What the budgets of all NodePools allow, by NodePool and reason.
#[derive(Clone, Debug, Default)]
pub struct Budgets(FxHashMap<(Symbol, Reason), Allowed>);

impl Budgets {
    /// Looks at all NodePools at the moment of the world.
    pub fn new(world: &ClusterObjects) -> Self {
        let counts = count(world);
        let mut all = FxHashMap::default();
        for pool in &world.pools {
            let counts = counts.get(&pool.name).copied().unwrap_or_default();
            for reason in Reason::ALL {
                // Unhealthy nodes are what repair is there for: they use none of its budget.
                let disrupted = match reason {
                    Reason::Unhealthy => counts.going,
                    _ => counts.going + counts.not_ready,
                };
                let nodes = counts.nodes;
                all.insert(
                    (pool.name, reason),
                    allowed(world, pool, reason, nodes, disrupted),
                );
            }
        }
        Budgets(all)
    }

    /// What is allowed for a NodePool.
    pub fn of(&self, pool: Symbol, reason: Reason) -> Allowed {
        self.0.get(&(pool, reason)).copied().unwrap_or(Allowed {
            nodes: 0,
            budget: None,
        })
    }
}

/// Initialised nodes of a NodePool.
#[derive(Clone, Copy, Default)]
struct Counts {
    /// All of them.
    nodes: u32,
    /// Those on their way out, or being started anew.
    going: u32,
    /// Others that are not ready.
    not_ready: u32,
}

/// Initialised nodes of each NodePool. Those whose machines are being started anew count, although
/// they lack the label meanwhile.
fn count(world: &ClusterObjects) -> FxHashMap<Symbol, Counts> {
    let get = |text: &str| world.names.get(text);
    let keys = get("karpenter.sh/nodepool")
        .zip(get("karpenter.sh/initialized"))
        .zip(get("true"));
    let mut counts: FxHashMap<Symbol, Counts> = FxHashMap::default();
    let Some(((pool, initialized), truth)) = keys else {
        return counts;
    };
    let command = get(super::verdicts::COMMAND);
    let disrupted = |claim: &&NodeClaim| {
        claim.deleting || command.is_some_and(|key| claim.annotations.get(key).is_some())
    };
    let condition = get(super::verdicts::REBOOTING);
    let reboots = |claim: &&NodeClaim| condition.is_some_and(|of| claim.conditions.contains(&of));
    let nodes_of = |is: &dyn Fn(&&NodeClaim) -> bool| -> FxHashSet<Symbol> {
        let claims = world.claims.iter().filter(is);
        claims.filter_map(|claim| claim.node_name).collect()
    };
    let (rebooting, going) = (nodes_of(&reboots), nodes_of(&disrupted));
    for node in &world.nodes {
        let Some(of) = node.labels.get(pool) else {
            continue;
        };
        let reboots = rebooting.contains(&node.name);
        if node.labels.get(initialized) != Some(truth) && !reboots {
            continue;
        }
        let entry = counts.entry(of).or_default();
        entry.nodes += 1;
        if node.deleting || reboots || going.contains(&node.name) {
            entry.going += 1;
        } else if !node.ready {
            entry.not_ready += 1;
        }
    }
    counts
}

fn allowed(
    world: &ClusterObjects,
    pool: &NodePool,
    reason: Reason,
    nodes: u32,
    disrupted: u32,
) -> Allowed {
    let mut least: Option<(u32, usize)> = None;
    for (at, budget) in pool.budgets.iter().enumerate() {
        if !concerns(world, budget, reason) || !is_active(budget, world.now) {
            continue;
        }
        let limit = limit(&budget.nodes, nodes);
        if least.is_none_or(|(known, _)| limit < known) {
            least = Some((limit, at));
        }
    }
    match least {
        None => Allowed {
            nodes: u32::MAX,
            budget: None,
        },
        Some((limit, at)) => Allowed {
            nodes: limit.saturating_sub(disrupted),
            budget: Some(at),
        },
    }
}

fn concerns(world: &ClusterObjects, budget: &Budget, reason: Reason) -> bool {
    let named = |of: &Symbol| world.names.text(*of) == reason.name();
    budget
        .reasons
        .as_ref()
        .is_none_or(|reasons| reasons.iter().any(named))
}

/// Whether a budget counts now. A schedule that cannot be read counts always: what an operator meant
/// as a limit must not be lost by a slip of the pen.
pub fn is_active(budget: &Budget, now: i64) -> bool {
    match (&budget.schedule, budget.duration) {
        (None, _) => true,
        (Some(text), duration) => match Schedule::parse(text) {
            Ok(schedule) => schedule.is_active(now, duration.unwrap_or(0)),
            Err(_) => true,
        },
    }
}

/// A number of nodes, or a share of them rounded up. What is neither allows none.
fn limit(text: &str, nodes: u32) -> u32 {
    match text.trim().strip_suffix('%') {
        Some(share) => match share.parse::<u32>() {
            Ok(share) if share <= 100 => (u64::from(nodes) * u64::from(share)).div_ceil(100) as u32,
            _ => 0,
        },
        None => text.trim().parse().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_rounded_up_and_nonsense_allows_none() {
        assert_eq!(
            [
                limit("10%", 15),
                limit("0%", 15),
                limit("100%", 7),
                limit("3", 15)
            ],
            [2, 0, 7, 3]
        );
        assert_eq!(
            [
                limit("110%", 15),
                limit("many", 15),
                limit("-1", 15),
                limit("", 15)
            ],
            [0, 0, 0, 0]
        );
    }

    #[test]
    fn a_budget_with_a_schedule_counts_within_its_window_and_one_that_cannot_be_read_always() {
        let budget = |schedule: &str| Budget {
            nodes: "0".into(),
            reasons: None,
            schedule: Some(schedule.into()),
            duration: Some(3600),
        };
        let noon = 12 * 3600;
        assert!(is_active(&budget("30 11 * * *"), noon));
        assert!(!is_active(&budget("0 11 * * *"), noon));
        assert!(is_active(&budget("nonsense"), noon));
    }
}

//! How many nodes of a NodePool may be disrupted now, and for which reason.

use rustc_hash::FxHashMap;

use super::verdicts::{COMMAND, REBOOTING, REPLACES, Reason, commands};
use crate::cron::{CronError, Schedule};
use crate::model::conditions::INSTANCE_TERMINATING;
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
                    _ => counts.going + counts.not_ready + counts.late,
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

/// Nodes of a NodePool. All but the last are initialised.
#[derive(Clone, Copy, Default)]
struct Counts {
    /// All that are initialised, but for those whose instance is already ending: they disturb no
    /// pod any more.
    nodes: u32,
    /// Those on their way out, or being started anew.
    going: u32,
    /// Others that are not ready.
    not_ready: u32,
    /// Those that should have been initialised by now, without replacements of nodes that are still
    /// there: those nodes are counted already.
    late: u32,
}

/// A node is late so long after its NodeClaim was created, seconds: as long as a command waits for it.
pub const LATE_NODE_SECONDS: i64 = 600;

/// Nodes of each NodePool. Those whose machines are being started anew count as initialised, although
/// they lack the label meanwhile.
fn count(world: &ClusterObjects) -> FxHashMap<Symbol, Counts> {
    let get = |text: &str| world.names.get(text);
    let mut counts: FxHashMap<Symbol, Counts> = FxHashMap::default();
    let Some(pool) = get("karpenter.sh/nodepool") else {
        return counts;
    };
    let initialized = get("karpenter.sh/initialized").zip(get("true"));
    let (command, replaces) = (get(COMMAND), get(REPLACES));
    let annotated = |claim: &NodeClaim, key: Option<Symbol>| claim.annotations.get(key?);
    let commands = commands(world);
    let has = |claim: &NodeClaim, condition: Option<Symbol>| {
        condition.is_some_and(|of| claim.conditions.contains(&of))
    };
    let (rebooting, ending) = (get(REBOOTING), get(INSTANCE_TERMINATING));
    let claims: FxHashMap<Symbol, &NodeClaim> = (world.claims.iter())
        .filter_map(|claim| Some((claim.node_name?, claim)))
        .collect();
    for node in &world.nodes {
        let Some(of) = node.labels.get(pool) else {
            continue;
        };
        let claim = claims.get(&node.name).copied();
        let is = |test: &dyn Fn(&NodeClaim) -> bool| claim.is_some_and(test);
        let reboots = is(&|claim| has(claim, rebooting));
        let going =
            node.deleting || is(&|claim| claim.deleting || annotated(claim, command).is_some());
        let entry = counts.entry(of).or_default();
        let label = initialized.filter(|(key, truth)| node.labels.get(*key) == Some(*truth));
        if label.is_none() && !reboots {
            let replaces =
                is(&|claim| annotated(claim, replaces).is_some_and(|id| commands.contains(&id)));
            let is_late =
                is(&|claim| claim.created == 0 || world.now - claim.created >= LATE_NODE_SECONDS);
            entry.late += u32::from(is_late && !going && !replaces);
            continue;
        }
        if is(&|claim| has(claim, ending)) {
            continue;
        }
        entry.nodes += 1;
        if reboots || going {
            entry.going += 1;
        } else if !node.ready {
            entry.not_ready += 1;
        }
    }
    counts
}

/// How many more nodes of a NodePool the tightest budget for a reason lets go, and which budget that is.
fn allowed(
    world: &ClusterObjects,
    pool: &NodePool,
    reason: Reason,
    nodes: u32,
    disrupted: u32,
) -> Allowed {
    let mut least: Option<(u32, usize)> = None;
    for (at, budget) in pool.budgets.iter().enumerate() {
        let limit = match is_active(budget, world.now) {
            // What an operator meant as a limit must not be lost by a slip of the pen.
            Err(_) => 0,
            Ok(true) if concerns(world, budget, reason) => limit(&budget.nodes, nodes),
            Ok(_) => continue,
        };
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

/// Whether a budget counts now.
///
/// # Errors
/// Its schedule cannot be read: then no node of its NodePool goes for any reason, whatever the budget
/// names.
pub fn is_active(budget: &Budget, now: i64) -> Result<bool, CronError> {
    match (&budget.schedule, budget.duration) {
        (None, _) => Ok(true),
        (Some(text), duration) => {
            Schedule::parse(text).map(|of| of.is_active(now, duration.unwrap_or(0)))
        }
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
    fn a_budget_with_a_schedule_counts_within_its_window_and_always_if_it_never_opens() {
        let budget = |schedule: &str| Budget {
            nodes: "0".into(),
            reasons: None,
            schedule: Some(schedule.into()),
            duration: Some(3600),
        };
        let noon = 12 * 3600;
        assert_eq!(is_active(&budget("30 11 * * *"), noon), Ok(true));
        assert_eq!(is_active(&budget("0 11 * * *"), noon), Ok(false));
        assert_eq!(is_active(&budget("0 0 31 2 *"), noon), Ok(true));
        assert!(is_active(&budget("nonsense"), noon).is_err());
    }
}

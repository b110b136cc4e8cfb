//! Which repair policies of a cloud are about a node, and what they come to together: pure.
//!
//! Rules and figures: Karpenter 1.15, `pkg/controllers/node/health/policy.go`.

use std::time::Duration;

use longshore_api::crd::{Condition, ConditionStatus, NodeClaim};
use longshore_cloud::{RepairAction, RepairPolicy};
use longshore_core::model::{DueRepair, RepairAction as Done};
use regex::Regex;

use super::reboot::phase;
use crate::observe::node::NodeView;

/// The highest priority that a policy may have.
const MAX_PRIORITY: u8 = 100;
/// What one rank of priority is worth: a node may wait so long, in seconds, until it comes before
/// one of the next rank.
const RANK_SECONDS: f64 = 30.0 * 60.0;

/// Why a cloud's policies cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The pattern for the reason is none.
    #[error("the repair policy for {condition}={status} has no regular expression: {why}")]
    Pattern {
        condition: &'static str,
        status: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Its status is none of a condition.
    #[error("the repair policy for {condition}={status} names no status: True, False or Unknown")]
    Status {
        condition: &'static str,
        /// What it has for a status.
        status: &'static str,
    },
    /// Its priority is out of range.
    #[error("the repair policy for {condition}={status} has priority {priority}, and 100 is most")]
    Priority {
        condition: &'static str,
        status: &'static str,
        priority: u8,
    },
    /// There is none without a reason, or several.
    #[error("{0} repair policies have no reason, and exactly one is the fallback for all others")]
    Fallbacks(usize),
    /// The fallback does not replace.
    #[error("the fallback among repair policies, {condition}={status}, has to replace the node")]
    FallbackReboots {
        condition: &'static str,
        status: &'static str,
    },
}

/// A cloud's policies, ready for use.
#[derive(Clone, Debug)]
pub struct RepairPolicies {
    all: Vec<Compiled>,
    /// Position in `all` of the policy without a reason, which decides where no other does.
    fallback: usize,
}

#[derive(Clone, Debug)]
struct Compiled {
    policy: RepairPolicy,
    status: ConditionStatus,
    /// Matches the reason of the condition. `None` for the fallback.
    reason: Option<Regex>,
    /// Position of its priority among those of all policies, from 0 on.
    rank: f64,
}

/// What is wrong with a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Unhealthy {
    /// The condition that says so: the one whose policy decides, or is due first.
    pub condition: String,
    pub status: ConditionStatus,
    pub reason: String,
    /// When it has lasted for as long as is tolerated, seconds since 1970.
    pub since: i64,
    /// What is due; nothing while all is tolerated.
    pub due: Option<Due>,
}

/// What is due for a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Due {
    pub action: RepairAction,
    /// The shortest time, seconds, that its pods get; nothing where no policy bounds it.
    pub grace: Option<i64>,
    /// Higher ones first: rank of the priority, and age in half hours.
    pub score: f64,
}

/// A policy that is about a node.
#[derive(Clone, Copy)]
struct Match<'a> {
    compiled: &'a Compiled,
    found: &'a Condition,
    /// When it is due, seconds since 1970.
    due: i64,
}

impl RepairPolicies {
    /// Takes a cloud's policies in.
    ///
    /// # Errors
    /// They do not make a set: see [`RepairPolicy`].
    pub fn new(policies: &[RepairPolicy]) -> Result<Self, PolicyError> {
        let mut priorities: Vec<u8> = policies.iter().map(|policy| policy.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let rank = |of: u8| priorities.iter().take_while(|known| **known < of).count() as f64;
        let all = policies
            .iter()
            .map(|policy| compile(policy, rank(policy.priority)))
            .collect::<Result<Vec<_>, _>>()?;
        let mut fallbacks = (0..all.len()).filter(|&at| all[at].reason.is_none());
        let (first, others) = (fallbacks.next(), fallbacks.count());
        let fallback = first.filter(|_| others == 0).ok_or(PolicyError::Fallbacks(
            others + usize::from(first.is_some()),
        ))?;
        let policy = &all[fallback].policy;
        if policy.action != RepairAction::Replace {
            return Err(PolicyError::FallbackReboots {
                condition: policy.condition,
                status: policy.status,
            });
        }
        Ok(RepairPolicies { all, fallback })
    }

    /// What is wrong with a node at a time, seconds since 1970. `rebooted` is when its last reboot
    /// ended: what was wrong before has the whole toleration again.
    pub fn of(&self, node: &NodeView, rebooted: Option<i64>, now: i64) -> Option<Unhealthy> {
        let begins = node.created.as_ref().map_or(0, |at| at.0.as_second());
        let begins = begins.max(rebooted.unwrap_or(0));
        self.merge(&self.matches(node, begins), now)
    }

    /// The same for the way of Karpenter 1.14: of the policies that replace, the one that is due
    /// first. Neither the node's age nor a reboot counts.
    pub fn at_once(&self, node: &NodeView) -> Option<Unhealthy> {
        let mut matches = self.matches(node, 0);
        matches.retain(|of| of.compiled.policy.action == RepairAction::Replace);
        matches
            .iter()
            .min_by_key(|of| of.due)
            .map(|first| first.names(None))
    }

    /// Policies that are about a node which has been as it is since `begins` at the latest.
    fn matches<'a>(&'a self, node: &'a NodeView, begins: i64) -> Vec<Match<'a>> {
        let mut found = Vec::new();
        for condition in &node.conditions {
            let is_named = |one: &&Compiled| {
                one.policy.condition == condition.type_ && one.status == condition.status
            };
            let mut named = self.all.iter().filter(is_named).peekable();
            if named.peek().is_none() {
                continue;
            }
            let meant = |one: &&Compiled| {
                let reason = one.reason.as_ref();
                reason.is_some_and(|reason| reason.is_match(&condition.reason))
            };
            let mut policies: Vec<&Compiled> = named.filter(meant).collect();
            if policies.is_empty() {
                policies.push(&self.all[self.fallback]);
            }
            let since = condition.last_transition_time.0.as_second().max(begins);
            found.extend(policies.into_iter().map(|compiled| Match {
                compiled,
                found: condition,
                due: since.saturating_add(seconds(compiled.policy.toleration)),
            }));
        }
        found
    }

    /// What several policies come to.
    fn merge(&self, matches: &[Match<'_>], now: i64) -> Option<Unhealthy> {
        let due: Vec<&Match<'_>> = matches.iter().filter(|of| of.due <= now).collect();
        if due.is_empty() {
            let first = matches.iter().min_by_key(|of| of.order());
            return first.map(|first| first.names(None));
        }
        let replaces = |of: &&&Match<'_>| of.compiled.policy.action == RepairAction::Replace;
        let action = match due.iter().any(|of| replaces(&of)) {
            true => RepairAction::Replace,
            false => RepairAction::Reboot,
        };
        let source = due
            .iter()
            .filter(|of| of.compiled.policy.action == action)
            .min_by_key(|of| (std::cmp::Reverse(of.compiled.policy.priority), of.order()))?;
        let grace = due.iter().filter_map(|of| of.compiled.policy.grace).min();
        let score = |of: &&Match<'_>| of.compiled.rank + (now - of.due) as f64 / RANK_SECONDS;
        Some(source.names(Some(Due {
            action,
            grace: grace.map(seconds),
            score: due.iter().map(score).fold(0.0, f64::max),
        })))
    }
}

impl Match<'_> {
    /// What is due first comes first.
    fn order(&self) -> (i64, &str) {
        (self.due, &self.found.type_)
    }

    fn names(&self, due: Option<Due>) -> Unhealthy {
        Unhealthy {
            condition: self.found.type_.clone(),
            status: self.found.status,
            reason: self.found.reason.clone(),
            since: self.due,
            due,
        }
    }
}

impl Unhealthy {
    /// What is done about the node now, if it has registered: one that was rebooted often enough, as
    /// its claim says, is replaced.
    pub fn repair(
        &self,
        node: &NodeView,
        claim: Option<&NodeClaim>,
        now: i64,
    ) -> Option<DueRepair> {
        let due = self.due.filter(|_| node.is_registered())?;
        let tried = claim.is_some_and(|claim| phase::is_tried(claim, now));
        Some(DueRepair {
            action: match due.action {
                RepairAction::Reboot if !tried => Done::Reboot,
                _ => Done::Replace,
            },
            score: due.score,
            grace: due.grace,
        })
    }

    /// The condition as `Type=Status`.
    pub fn text(&self) -> String {
        format!("{}={}", self.condition, self.status.text())
    }

    /// How much longer it is tolerated; nothing once it is not.
    pub fn tolerated(&self, now: i64) -> Option<Duration> {
        let left = u64::try_from(self.since.saturating_sub(now)).ok();
        left.filter(|left| *left > 0).map(Duration::from_secs)
    }
}

fn compile(policy: &RepairPolicy, rank: f64) -> Result<Compiled, PolicyError> {
    let RepairPolicy {
        condition, status, ..
    } = *policy;
    let known = [
        ConditionStatus::True,
        ConditionStatus::False,
        ConditionStatus::Unknown,
    ];
    let named = known.into_iter().find(|known| known.text() == status);
    if policy.priority > MAX_PRIORITY {
        let priority = policy.priority;
        return Err(PolicyError::Priority {
            condition,
            status,
            priority,
        });
    }
    let pattern = Some(policy.reason).filter(|pattern| !pattern.is_empty());
    let reason = pattern
        .map(Regex::new)
        .transpose()
        .map_err(|why| PolicyError::Pattern {
            condition,
            status,
            why: why.to_string(),
        })?;
    Ok(Compiled {
        policy: *policy,
        status: named.ok_or(PolicyError::Status { condition, status })?,
        reason,
        rank,
    })
}

fn seconds(of: Duration) -> i64 {
    i64::try_from(of.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;

//! Why a canary is taken back, in words and as it is remembered.

use serde::{Deserialize, Serialize};

use super::rollout::Launches;

/// What a new version did wrong in a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// It gave no answer that could be used: a trap, fuel, time, memory, a broken answer.
    NoAnswer(String),
    /// It gave two answers to one question about a NodePool.
    TwoAnswers(String),
    /// A cost was further below the list price than `max-discount` allows.
    Discount(String),
    /// A plan that obeyed it broke a rule.
    PlanRefused(String),
}

/// Why a canary was taken back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// A wrong answer or plan of its own: one is enough.
    Fault(Fault),
    /// Launches in its NodePools failed much more often than those of the old version.
    LaunchesFail(Launches),
    /// Plans with it leave more pods over than those without.
    PodsLeftOver {
        /// Pods left over with the old version.
        old: u64,
        /// Pods left over with the new version.
        new: u64,
    },
    /// Plans with it cost more than `max-cost-increase` allows, in USD per hour.
    Dearer {
        /// Cost of plans with the old version.
        old: f64,
        /// Cost of plans with the new version.
        new: f64,
    },
    /// The first node that booted with its text was not ready in time, or was lost.
    FirstNode {
        /// Name of the node's NodeClaim.
        claim: String,
        /// Whether it is gone, rather than late.
        gone: bool,
    },
    /// `longshore policy abort`.
    Aborted,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::NoAnswer(error) => write!(f, "it gave no answer: {error}"),
            Fault::TwoAnswers(pool) => {
                write!(
                    f,
                    "it gave two answers to one question about NodePool {pool}"
                )
            }
            Fault::Discount(what) => f.write_str(what),
            Fault::PlanRefused(rule) => write!(f, "a plan with it broke a rule: {rule}"),
        }
    }
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Why::Fault(fault) => fault.fmt(f),
            Why::LaunchesFail(Launches { old, new }) => write!(
                f,
                "{} of {} launches in its NodePools failed, and {} of {} with the old version",
                new.failed, new.all, old.failed, old.all
            ),
            Why::PodsLeftOver { old, new } => write!(
                f,
                "plans with it left {new} pods over, and {old} with the old version"
            ),
            Why::Dearer { old, new } => write!(
                f,
                "plans with it cost {new:.4} USD/h, and {old:.4} with the old version"
            ),
            Why::FirstNode { claim, gone: true } => write!(
                f,
                "NodeClaim {claim}, the first with its user data, ended before it was ready"
            ),
            Why::FirstNode { claim, gone: false } => write!(
                f,
                "NodeClaim {claim}, the first with its user data, was not ready within 15 min"
            ),
            Why::Aborted => f.write_str("an operator aborted it"),
        }
    }
}

impl Why {
    /// As a label of metrics has it.
    pub fn label(&self) -> &'static str {
        match self {
            Why::Fault(Fault::NoAnswer(_)) => "no-answer",
            Why::Fault(Fault::TwoAnswers(_)) => "two-answers",
            Why::Fault(Fault::Discount(_)) => "discount",
            Why::Fault(Fault::PlanRefused(_)) => "plan-refused",
            Why::LaunchesFail(_) => "launches",
            Why::PodsLeftOver { .. } => "pods-left-over",
            Why::Dearer { .. } => "cost",
            Why::FirstNode { .. } => "first-node",
            Why::Aborted => "aborted",
        }
    }
}

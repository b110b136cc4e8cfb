//! What a consolidation policy changes in a round: nodes that it weighs, proposals that it judges.

use std::sync::Arc;

use super::consolidation::{Consolidation, Decision, Facts, Weight};
use super::methods::{Round, Verdict};
use super::proposals::Proposal;
use super::verdicts::{Candidate, Stays};
use crate::ids::NodeIx;

/// A policy, what it gets, and what it has said of nodes.
pub struct Judge<'s> {
    policy: &'s dyn Consolidation,
    facts: Facts<'s>,
    /// By row of [`Facts::nodes`].
    weights: Vec<Weight>,
}

impl<'s> Judge<'s> {
    /// Has the policy weigh the nodes. Those that it never lets go are refused to every method.
    pub fn new(
        policy: &'s dyn Consolidation,
        facts: Facts<'s>,
        candidates: &mut [Candidate],
    ) -> Self {
        let weights = policy.weigh(&facts);
        for (of, weight) in facts.nodes.iter().zip(&weights) {
            if !weight.usd.is_infinite() {
                continue;
            }
            let candidate = &mut candidates[of.node.0 as usize];
            for refusal in &mut candidate.refusals {
                refusal.get_or_insert_with(|| never(weight));
            }
        }
        Judge {
            policy,
            facts,
            weights,
        }
    }

    fn weight(&self, node: usize) -> Option<&Weight> {
        let row = self.facts.row(NodeIx(node as u32))?;
        self.weights.get(row as usize)
    }

    /// What a node has to save beside the cost of its moves, USD per hour.
    pub fn usd(&self, node: usize) -> f64 {
        let finite = self.weight(node).filter(|weight| weight.usd.is_finite());
        finite.map_or(0.0, |weight| weight.usd)
    }

    /// Why a node stays that `missing` USD per hour keep, if it would go without its weight.
    pub fn keeps(&self, node: usize, missing: f64) -> Option<Stays> {
        let weight = self.weight(node)?;
        (missing >= 0.0 && missing < weight.usd).then(|| Stays::Policy {
            by: weight.by.clone().unwrap_or_default(),
            why: format!("it has to save {:.4} USD per hour more", weight.usd).into(),
            until: None,
        })
    }

    /// What the policy says of each proposal; what it does not speak of it lets go.
    pub fn decide(&self, proposals: &mut [Proposal]) {
        if proposals.is_empty() {
            return;
        }
        let decisions = self.policy.decide(&self.facts, proposals);
        for (proposal, decision) in proposals.iter_mut().zip(decisions) {
            proposal.decision = Some(decision);
        }
    }
}

fn never(weight: &Weight) -> Stays {
    Stays::Policy {
        by: weight.by.clone().unwrap_or_default(),
        why: "never".into(),
        until: None,
    }
}

impl Decision {
    /// [`Verdict::Refused`] or [`Verdict::Deferred`] where it keeps a proposal from being carried
    /// out at `now`, seconds since 1970; nothing where it lets the proposal go.
    pub fn keeps(&self, now: i64) -> Option<Verdict> {
        if self.priority < 0.0 {
            Some(Verdict::Refused)
        } else if self.not_before > now as f64 {
            Some(Verdict::Deferred)
        } else {
            None
        }
    }
}

/// The same of what was decided about a proposal; nothing without a policy.
pub fn kept(proposal: &Proposal, now: i64) -> Option<Verdict> {
    proposal.decision.as_ref()?.keeps(now)
}

/// The priority of a proposal: 0 without a policy.
pub fn priority(proposal: &Proposal) -> f64 {
    let decision = proposal.decision.as_ref();
    // Without the sign of a negative zero, which sorts below zero.
    decision.map_or(0.0, |decision| decision.priority + 0.0)
}

impl Round {
    /// Notes that nodes of a proposal stay because a policy keeps them.
    pub(super) fn keep(&mut self, proposal: &Proposal, verdict: &Verdict) {
        let Some(decision) = &proposal.decision else {
            return;
        };
        let until = (*verdict == Verdict::Deferred).then_some(decision.not_before as i64);
        let stays = Stays::Policy {
            by: decision.by.clone().unwrap_or_default(),
            why: Arc::clone(&decision.reason),
            until,
        };
        let nodes = proposal.nodes.iter();
        self.stays.extend(nodes.map(|&node| (node, stays.clone())));
    }
}

//! What consolidation policies answered to a question, one by one, and what that comes to: for the
//! journal, which keeps it, and for a replay, which asks again.

use std::sync::Arc;

use longshore_core::disrupt::consolidation::{Decision, Facts, Weight};
use longshore_core::disrupt::proposals::Proposal;

use crate::cluster_columns::{ClusterColumns, ProposalColumns};
use crate::loaded::LoadedPolicy;
use crate::report::Fallback;
use crate::score_request::{JudgeRequest, ScoreRequest};
use crate::sum::Sum;

/// A question about consolidation as policies see it. It can be kept, and put to other policies.
#[derive(Clone)]
pub struct ConsolidationRequest(pub(crate) JudgeRequest);

/// What one policy said of all nodes or proposals of a question, or what counts in its place.
#[derive(Clone, Debug)]
pub struct JudgeAnswer {
    /// Its place among the assignments.
    pub place: usize,
    /// What the operator calls it, else what it calls itself.
    pub name: Arc<str>,
    /// The version that answered; none if neither it nor its last good version did.
    pub by: Option<LoadedPolicy>,
    /// What counts where no version answered.
    pub instead: Option<Fallback>,
    /// It gave no answer itself.
    pub failed: bool,
    /// NodePools of the question whose nodes it speaks for.
    pub node_pools: Vec<Arc<str>>,
    /// What counts; none where the rules of NodePools alone do.
    pub said: Option<Said>,
}

/// What was said, of every row of the question.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// What nodes weigh: USD per hour.
    Weights(Arc<[f64]>),
    /// A decision about each proposal, in the order of the question.
    Decisions(Arc<[Decision]>),
}

/// A question about consolidation that was asked, and all answers to it.
#[derive(Clone, Debug)]
pub struct JudgeRecord {
    /// How many proposals it was about; none for weights of nodes.
    pub proposals: Option<usize>,
    /// The answers, by place.
    pub answers: Vec<JudgeAnswer>,
}

impl Said {
    /// A checksum over every part of the answer, to compare it with a recorded one.
    pub fn sum(&self) -> u64 {
        let mut sum = Sum::default();
        match self {
            Said::Weights(weights) => weights.iter().for_each(|usd| sum.take(usd.to_bits())),
            Said::Decisions(decisions) => {
                for decision in decisions.iter() {
                    sum.take(decision.priority.to_bits());
                    sum.take(decision.not_before.to_bits());
                    sum.text(&decision.reason);
                }
            }
        }
        sum.0
    }
}

impl ConsolidationRequest {
    /// A question for joining answers that are there already. No policy is asked.
    pub fn unasked(facts: &Facts<'_>, proposals: &[Proposal]) -> Self {
        ConsolidationRequest(JudgeRequest {
            base: ScoreRequest::nothing(),
            cluster: Arc::new(ClusterColumns::new(facts)),
            proposals: Arc::new(ProposalColumns::new(facts, proposals)),
        })
    }

    /// How many proposals it is about; none for weights.
    pub fn proposals(&self) -> usize {
        self.0.proposals.count()
    }

    /// Seconds since 1970.
    pub fn now(&self) -> i64 {
        self.0.base.now as i64
    }

    /// The NodePool that owns a node.
    fn node_pool(&self, row: u32) -> Option<&Arc<str>> {
        let cluster = &self.0.cluster;
        let pool = *cluster.node_pools.get(row as usize)?;
        cluster.node_pool_names.get(pool as usize)
    }

    /// Rows of the nodes of a proposal that a policy speaks for.
    pub(crate) fn nodes_of(
        &self,
        proposal: usize,
        answer: &JudgeAnswer,
    ) -> impl Iterator<Item = u32> {
        let rows = self.0.proposals.removed_of(proposal).iter().copied();
        rows.filter(|&row| self.speaks_for(answer, row))
    }

    fn speaks_for(&self, answer: &JudgeAnswer, row: u32) -> bool {
        let pool = self.node_pool(row);
        pool.is_some_and(|pool| answer.node_pools.contains(pool))
    }

    /// What disturbing each node costs by these answers.
    pub fn joined_weights(&self, answers: &[JudgeAnswer]) -> Vec<Weight> {
        let mut weights = vec![Weight::default(); self.0.cluster.count()];
        for answer in answers {
            let Some(Said::Weights(said)) = &answer.said else {
                continue;
            };
            for (row, (weight, &usd)) in (0..).zip(weights.iter_mut().zip(said.iter())) {
                if usd > 0.0 && self.speaks_for(answer, row) {
                    let by = Some(answer.name.clone());
                    *weight = Weight { usd, by };
                }
            }
        }
        weights
    }

    /// What becomes of each proposal by these answers: of several about one the most reluctant counts.
    pub fn joined_decisions(&self, answers: &[JudgeAnswer]) -> Vec<Decision> {
        let mut all: Vec<Option<Decision>> = vec![None; self.proposals()];
        for answer in answers {
            let Some(Said::Decisions(said)) = &answer.said else {
                continue;
            };
            for (proposal, (known, decision)) in all.iter_mut().zip(said.iter()).enumerate() {
                if self.nodes_of(proposal, answer).next().is_none() {
                    continue;
                }
                let decision = Decision {
                    by: Some(answer.name.clone()),
                    ..decision.clone()
                };
                *known = Some(match known.take() {
                    Some(other) => most_reluctant(other, decision),
                    None => decision,
                });
            }
        }
        all.into_iter().map(Option::unwrap_or_default).collect()
    }
}

/// What two policies say of one proposal: both have to let it go.
fn most_reluctant(a: Decision, b: Decision) -> Decision {
    let reluctance = |of: &Decision| (of.priority < 0.0, of.not_before);
    let (priority, not_before) = (a.priority.min(b.priority), a.not_before.max(b.not_before));
    let second = reluctance(&b) > reluctance(&a);
    Decision {
        priority,
        not_before,
        ..if second { b } else { a }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(priority: f64, not_before: f64, reason: &str) -> Decision {
        Decision {
            priority,
            not_before,
            reason: reason.into(),
            by: None,
        }
    }

    #[test]
    fn of_two_policies_the_more_reluctant_one_gives_the_reason() {
        let both = most_reluctant(decision(3.0, 0.0, "yes"), decision(1.0, 9.0, "later"));
        assert_eq!(both, decision(1.0, 9.0, "later"));
        let both = most_reluctant(decision(-1.0, 0.0, "no"), decision(1.0, 9.0, "later"));
        assert_eq!(both, decision(-1.0, 9.0, "no"));
    }

    #[test]
    fn sums_differ_by_every_part_of_what_was_said() {
        let of = |said: Decision| Said::Decisions([said].into()).sum();
        let all = [
            of(decision(1.0, 0.0, "a")),
            of(decision(2.0, 0.0, "a")),
            of(decision(1.0, 1.0, "a")),
            of(decision(1.0, 0.0, "b")),
            Said::Weights([1.0].into()).sum(),
            Said::Weights([1.0, 0.0].into()).sum(),
        ];
        let distinct: std::collections::BTreeSet<u64> = all.into();
        assert_eq!(distinct.len(), all.len());
    }
}

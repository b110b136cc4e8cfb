//! Looks for disruption that consolidation policies judged: each is asked again what it was asked
//! then, and what counted in the place of one that failed counts again.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_core::disrupt::consolidation::{Consolidation, Decision, Facts, Weight};
use longshore_core::disrupt::proposals::Proposal;
use longshore_policy::{ConsolidationRequest, JudgeAnswer, Said, WasmPolicies};

use super::RecordedAnswers;
use crate::replay::fold::BlobStore;
use longshore_journal::judged::{Judgement, Question, read};
use longshore_journal::round::Round;

/// What consolidation policies were asked in a look.
pub(super) struct Judged<'a> {
    questions: &'a [Question],
    /// How many of them were asked again.
    asked: Cell<usize>,
    /// What counted where no version answered, by digest.
    instead: BTreeMap<&'a str, Result<Said, String>>,
}

impl<'a> Judged<'a> {
    /// What was asked in a round; nothing where there were no such policies.
    pub fn new(round: &'a Round, blobs: &BlobStore) -> Option<Self> {
        let look = round.look.as_ref().filter(|look| look.judged)?;
        let answers = look.questions.iter().flat_map(|of| &of.answers);
        let digests = answers.filter_map(|answer| answer.instead.as_deref());
        let missing = || "an answer of a policy that failed is missing".to_owned();
        let said = |digest| (blobs.get(digest).ok_or_else(missing)).and_then(read);
        Some(Judged {
            questions: &look.questions,
            asked: Cell::new(0),
            instead: digests.map(|digest| (digest, said(digest))).collect(),
        })
    }

    /// The next recorded question, in the order in which they were asked.
    fn next(&self) -> Option<&'a Question> {
        let at = self.asked.get();
        self.asked.set(at + 1);
        self.questions.get(at)
    }
}

impl RecordedAnswers<'_> {
    /// What was answered at this point: to a question about this many proposals, or about nodes.
    fn judgements(&self, proposals: Option<usize>) -> &[Judgement] {
        let next = self.judged.as_ref().and_then(Judged::next);
        match next.filter(|question| question.proposals == proposals) {
            Some(question) => &question.answers,
            None => {
                let what = proposals.map_or("nodes".to_owned(), |of| format!("{of} proposals"));
                self.note(format!(
                    "consolidation policies were not asked about {what} at this point"
                ));
                &[]
            }
        }
    }

    /// What each of them says now, or what counted in its place; `ask` puts the question to one.
    fn said_again(
        &self,
        judgements: &[Judgement],
        ask: &dyn Fn(&WasmPolicies) -> Vec<JudgeAnswer>,
    ) -> Vec<JudgeAnswer> {
        let of = |(place, judgement): (usize, &Judgement)| {
            let pools = judgement.node_pools.iter();
            JudgeAnswer {
                place,
                name: judgement.policy.as_str().into(),
                by: None,
                instead: None,
                failed: false,
                node_pools: pools.map(|pool| Arc::from(pool.as_str())).collect(),
                said: self.said(judgement, ask),
            }
        };
        judgements.iter().enumerate().map(of).collect()
    }

    fn said(
        &self,
        judgement: &Judgement,
        ask: &dyn Fn(&WasmPolicies) -> Vec<JudgeAnswer>,
    ) -> Option<Said> {
        if let Some(digest) = &judgement.instead {
            let said = self.judged.as_ref()?.instead.get(digest.as_str())?;
            return match said {
                Ok(said) => Some(said.clone()),
                Err(why) => {
                    self.note(why.clone());
                    None
                }
            };
        }
        // One that is not in the journal was noted when it was looked for.
        let policies = (*self.versions.get(judgement.version?)?)?;
        let answer = ask(policies).pop();
        let given = answer.filter(|answer| answer.by.is_some());
        let said = given.and_then(|answer| answer.said);
        if said.as_ref().map(Said::sum) != Some(judgement.sum) {
            self.note(format!(
                "policy {} does not decide about nodes as it did",
                judgement.policy
            ));
        }
        said
    }
}

impl Consolidation for RecordedAnswers<'_> {
    fn weigh(&self, facts: &Facts<'_>) -> Vec<Weight> {
        (self.versions.iter().flatten()).for_each(|policies| policies.begin_look());
        let answers = self.said_again(self.judgements(None), &|policies| {
            policies.ask_weights(&policies.consolidation_request(facts, &[]))
        });
        ConsolidationRequest::unasked(facts, &[]).joined_weights(&answers)
    }

    fn decide(&self, facts: &Facts<'_>, proposals: &[Proposal]) -> Vec<Decision> {
        let judgements = self.judgements(Some(proposals.len()));
        let answers = self.said_again(judgements, &|policies| {
            policies.ask_decisions(&policies.consolidation_request(facts, proposals))
        });
        ConsolidationRequest::unasked(facts, proposals).joined_decisions(&answers)
    }
}

//! What a consolidation policy answers, and whether it keeps the contract.

use std::sync::Arc;

use longshore_core::disrupt::consolidation::Decision;
use wasmtime::component::{ComponentType, Lift};

use super::Instance;
use super::answer::{CallError, number};
use crate::guest_text::cut;
use crate::score_request::JudgeRequest;

/// The longest reason of a decision, in bytes.
const MAX_REASON_BYTES: usize = 200;
/// The most that a node may weigh, in USD per hour.
const MAX_WEIGHT: f64 = 1e6;
/// Priorities are within this, either way.
const MAX_PRIORITY: f64 = 1e9;
/// How far ahead a decision may put off, in seconds.
const MAX_DELAY_SECONDS: f64 = 86_400.0;

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct RawDecision {
    priority: f64,
    #[component(name = "not-before")]
    not_before: f64,
    reason: String,
}

impl Instance {
    /// What the next questions about consolidation are about.
    pub fn set_judge_request(&mut self, request: &JudgeRequest) {
        self.set_request(&request.base);
        let state = self.store.data_mut();
        state.cluster = request.cluster.clone();
        state.proposals = request.proposals.clone();
    }

    /// Rows that a request is as large as.
    fn judge_rows(&self) -> usize {
        let state = self.store.data();
        state.request.columns.count() + state.cluster.count() + state.proposals.count()
    }

    /// USD per hour for each node; infinite for never.
    pub fn weigh(&mut self) -> Result<Vec<f64>, CallError> {
        let asked = "weigh";
        let weigh = self.weigh.ok_or_else(|| absent(asked))?;
        self.has_signals(asked)?;
        let weights = self.ask(asked, weigh, self.judge_rows())?;
        let nodes = self.store.data().cluster.count();
        checked_weights(weights, nodes).map_err(|problem| CallError::Answer { asked, problem })
    }

    /// A decision for each proposal, by the policy of this name.
    pub fn decide(&mut self, by: &Arc<str>) -> Result<Vec<Decision>, CallError> {
        let asked = "decide";
        let decide = self.decide.ok_or_else(|| absent(asked))?;
        self.has_signals(asked)?;
        let decisions = self.ask(asked, decide, self.judge_rows())?;
        let state = self.store.data();
        checked_decisions(decisions, state.proposals.count(), state.request.now, by)
            .map_err(|problem| CallError::Answer { asked, problem })
    }
}

fn absent(asked: &'static str) -> CallError {
    CallError::Answer {
        asked,
        problem: "the policy does not export `consolidation`".to_owned(),
    }
}

fn checked_weights(mut weights: Vec<f64>, nodes: usize) -> Result<Vec<f64>, String> {
    if weights.len() != nodes {
        return Err(format!("{} weights for {nodes} nodes", weights.len()));
    }
    for (at, weight) in weights.iter_mut().enumerate() {
        if !(0.0..=MAX_WEIGHT).contains(weight) && *weight != f64::INFINITY {
            return Err(format!(
                "the weight of node {at} is {}; expected 0 to {MAX_WEIGHT}, or infinity",
                number(*weight)
            ));
        }
        *weight += 0.0;
    }
    Ok(weights)
}

fn checked_decisions(
    decisions: Vec<RawDecision>,
    proposals: usize,
    now: f64,
    by: &Arc<str>,
) -> Result<Vec<Decision>, String> {
    if decisions.len() != proposals {
        return Err(format!(
            "{} decisions for {proposals} proposals",
            decisions.len()
        ));
    }
    let checked = |(at, raw): (usize, RawDecision)| {
        if !(-MAX_PRIORITY..=MAX_PRIORITY).contains(&raw.priority) {
            return Err(format!(
                "the priority of proposal {at} is {}; expected -{MAX_PRIORITY} to {MAX_PRIORITY}",
                number(raw.priority)
            ));
        }
        let ahead = raw.not_before - now;
        if !raw.not_before.is_finite() || raw.not_before < 0.0 || ahead > MAX_DELAY_SECONDS {
            return Err(format!(
                "proposal {at} is put off until {}, and it is {now}; expected 0, or seconds since \
                 1970 at most a day ahead",
                raw.not_before
            ));
        }
        Ok(Decision {
            priority: raw.priority + 0.0,
            not_before: raw.not_before + 0.0,
            reason: cut(raw.reason, MAX_REASON_BYTES).into(),
            by: Some(by.clone()),
        })
    };
    decisions.into_iter().enumerate().map(checked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_break_the_contract_are_named() {
        let problem = |weights: &[f64]| checked_weights(weights.to_vec(), 2).unwrap_err();
        assert_eq!(problem(&[1.0]), "1 weights for 2 nodes");
        for (bad, said) in [
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
            (-1.0, "-1"),
            (2e6, "2000000"),
        ] {
            let expected =
                format!("the weight of node 1 is {said}; expected 0 to 1000000, or infinity");
            assert_eq!(problem(&[0.0, bad]), expected);
        }
        let fine = checked_weights(vec![-0.0, f64::INFINITY], 2).unwrap();
        assert!(fine[0].is_sign_positive() && fine[1].is_infinite());
    }

    #[test]
    fn decisions_that_break_the_contract_are_named() {
        let now = 1000.0;
        let one = |priority: f64, not_before: f64| {
            let reason = "x\ny\u{1b}".to_owned();
            let raw = RawDecision {
                priority,
                not_before,
                reason,
            };
            checked_decisions(vec![raw], 1, now, &"p".into())
        };
        let problem = |priority, not_before| one(priority, not_before).unwrap_err();
        assert_eq!(
            problem(f64::NAN, 0.0),
            "the priority of proposal 0 is NaN; expected -1000000000 to 1000000000"
        );
        assert!(problem(f64::NEG_INFINITY, 0.0).contains("-inf"));
        assert!(problem(1e308, 0.0).contains("expected -1000000000 to"));
        for wrong in [f64::NAN, f64::INFINITY, -1.0, now + MAX_DELAY_SECONDS + 1.0] {
            assert!(problem(0.0, wrong).starts_with("proposal 0 is put off until "));
        }
        let fine = &one(-1.0, now + MAX_DELAY_SECONDS).unwrap()[0];
        assert_eq!((&*fine.reason, fine.priority), ("x y", -1.0));
        assert_eq!(
            checked_decisions(Vec::new(), 1, now, &"p".into()).unwrap_err(),
            "0 decisions for 1 proposals"
        );
    }
}

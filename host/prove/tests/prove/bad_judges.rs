//! Consolidation policies that are bad in one way each.

use std::cell::Cell;
use std::sync::Mutex;

use longshore_core::disrupt::consolidation::{
    Consolidation, Decision, DisruptionPolicies, Facts, Weight,
};
use longshore_core::disrupt::proposals::Proposal;
use longshore_core::disrupt::verdicts::Method;
use longshore_core::model::{Catalogue, Symbol, Symbols};
use longshore_core::policy::{ByPrice, Policies, Scores};
use longshore_prove::{Judge, JudgeProperty, ProveOptions, prove_judge};

/// What a policy says of one proposal: what is counted, the time, and how often it was asked.
type Decide = fn(&Facts<'_>, &Proposal, u64) -> Decision;

/// A policy made of a function.
struct Double {
    decide: Decide,
    usd: f64,
    asked: Cell<u64>,
}

/// It in a round, with what the host would find wrong.
struct Asked<'a> {
    of: &'a Double,
    wrong: Mutex<Vec<String>>,
}

impl Judge for Double {
    fn fresh(&mut self) {
        self.asked.set(0);
    }

    fn ask(&self, _: i64, with: &mut dyn FnMut(&dyn DisruptionPolicies)) -> Vec<String> {
        let asked = Asked {
            of: self,
            wrong: Mutex::default(),
        };
        with(&asked);
        asked.wrong.into_inner().unwrap()
    }
}

impl Policies for Asked<'_> {
    fn score(&self, catalogue: &Catalogue, names: &Symbols, pool: Symbol) -> Scores {
        ByPrice.score(catalogue, names, pool)
    }
}

impl DisruptionPolicies for Asked<'_> {
    fn consolidation(&self) -> Option<&dyn Consolidation> {
        Some(self)
    }
}

impl Consolidation for Asked<'_> {
    fn weigh(&self, facts: &Facts<'_>) -> Vec<Weight> {
        let usd = self.of.usd;
        if usd.is_nan() || usd < 0.0 {
            self.wrong
                .lock()
                .unwrap()
                .push(format!("weigh: the weight of node 0 is {usd}"));
            return vec![Weight::default(); facts.nodes.len()];
        }
        vec![Weight { usd, by: None }; facts.nodes.len()]
    }

    fn decide(&self, facts: &Facts<'_>, proposals: &[Proposal]) -> Vec<Decision> {
        self.of.asked.set(self.of.asked.get() + 1);
        let decisions = proposals
            .iter()
            .map(|of| (self.of.decide)(facts, of, self.of.asked.get()));
        let decisions: Vec<Decision> = decisions.collect();
        let bad = |of: &Decision| !(-1e9..=1e9).contains(&of.priority);
        if let Some(at) = decisions.iter().position(bad) {
            let said = format!(
                "decide: the priority of proposal {at} is {}",
                decisions[at].priority
            );
            self.wrong.lock().unwrap().push(said);
            return vec![Decision::default(); proposals.len()];
        }
        decisions
    }
}

fn yes(priority: f64) -> Decision {
    Decision {
        priority,
        reason: "it may".into(),
        ..Decision::default()
    }
}

fn no(reason: &str) -> Decision {
    Decision {
        priority: -1.0,
        reason: reason.into(),
        ..Decision::default()
    }
}

fn found(decide: Decide, usd: f64) -> Option<JudgeProperty> {
    let judge = || Double {
        decide,
        usd,
        asked: Cell::new(0),
    };
    let options = ProveOptions {
        // 300 clusters, and 9 300 proposals for them.
        cases: 300 * 32,
        ..ProveOptions::default()
    };
    let found = prove_judge(judge, &options).counterexample?;
    assert!(
        found.size <= 3 && found.text.contains("NodePool"),
        "{found:?}"
    );
    assert!(
        !found.why.is_empty() && found.why != "it is so only now and then",
        "{found:?}"
    );
    Some(found.property)
}

#[test]
fn good_ones_are_not_blamed() {
    assert_eq!(found(|_, _, _| yes(0.0), 0.0), None);
    assert_eq!(found(|_, _, _| no("I like none"), 0.05), None);
    let hours = |facts: &Facts<'_>, _: &Proposal, _| {
        let now = facts.snapshot.world.now;
        let opens = now.div_euclid(86_400) * 86_400 + 18 * 3600;
        Decision {
            not_before: if now % 86_400 < 18 * 3600 {
                opens as f64
            } else {
                0.0
            },
            reason: "in the evening".into(),
            ..Decision::default()
        }
    };
    assert_eq!(found(hours, 0.0), None);
}

#[test]
fn it_divides_by_the_pods_that_move() {
    let per_pod =
        |_: &Facts<'_>, of: &Proposal, _| yes(of.savings.abs() * 0.0 / of.moves.len() as f64);
    assert_eq!(found(per_pod, 0.0), Some(JudgeProperty::Answers));
}

#[test]
fn its_weight_is_no_number() {
    assert_eq!(
        found(|_, _, _| yes(0.0), f64::NAN),
        Some(JudgeProperty::Answers)
    );
}

#[test]
fn it_changes_its_mind() {
    let fickle = |_: &Facts<'_>, _: &Proposal, asked: u64| match asked % 2 {
        0 => yes(0.0),
        _ => no("not today"),
    };
    assert_eq!(found(fickle, 0.0), Some(JudgeProperty::Alike));
}

#[test]
fn it_says_no_without_a_word() {
    let silent = |_: &Facts<'_>, of: &Proposal, _| match of.nodes.len() {
        1 => yes(0.0),
        _ => no(" "),
    };
    assert_eq!(found(silent, 0.0), Some(JudgeProperty::SaysWhy));
}

#[test]
fn it_says_no_to_drift_without_a_word() {
    // No node of a generated cluster drifts: only drawn proposals do.
    let silent = |_: &Facts<'_>, of: &Proposal, _| match of.method {
        Method::Drift => no(""),
        _ => yes(0.0),
    };
    assert_eq!(found(silent, 0.0), Some(JudgeProperty::SaysWhy));
}

#[test]
fn it_remembers_how_often_it_was_asked() {
    // No round asks so often.
    let tired = |_: &Facts<'_>, _: &Proposal, asked: u64| match asked {
        7.. => no("enough for a round"),
        _ => yes(0.0),
    };
    assert_eq!(found(tired, 0.0), Some(JudgeProperty::Alike));
}

#[test]
fn it_puts_off_for_ever() {
    let later = |facts: &Facts<'_>, _: &Proposal, _| Decision {
        not_before: facts.snapshot.world.now as f64 + 86_400.0,
        reason: "tomorrow".into(),
        ..Decision::default()
    };
    assert_eq!(found(later, 0.0), Some(JudgeProperty::Settles));
}

#[test]
fn it_puts_off_young_nodes_by_a_clock_that_never_runs_out() {
    let young = |facts: &Facts<'_>, of: &Proposal, _| {
        let rows = of.nodes.iter().filter_map(|&node| facts.row(node));
        let cost = rows
            .map(|row| facts.nodes[row as usize].cost.unwrap_or(0.0))
            .sum::<f64>();
        match cost > 0.5 {
            true => Decision {
                not_before: facts.snapshot.world.now as f64 + 3600.0,
                reason: "large nodes wait".into(),
                ..Decision::default()
            },
            false => yes(0.0),
        }
    };
    assert_eq!(found(young, 0.0), Some(JudgeProperty::Settles));
}

//! From a snapshot to a plan.

mod finish;

pub use finish::Ranking;

use crate::check::{Violation, check};
use crate::improve;
use crate::plan::{Effort, Plan};
use crate::policy::Policies;
use crate::schedule::floor::{self, Problem};
use crate::snapshot::Snapshot;

/// How to plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How much work goes into a cheaper plan.
    pub effort: Effort,
    /// Where chance is asked for, it starts here.
    pub seed: u64,
}

/// A plan that breaks a rule all the same: a defect of the planner, caught before anybody acts on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected {
    /// The plan.
    pub plan: Plan,
    /// What is wrong with it.
    pub violations: Vec<Violation>,
}

/// Plans for every pending pod of a snapshot: pure, deterministic, and never dearer than first-fit-decreasing. Every
/// plan is checked; should the improved one break a rule, the floor's takes its place.
///
/// # Errors
/// Even the floor's plan breaks a rule.
pub fn plan(snapshot: &Snapshot, policies: &dyn Policies, options: Options) -> Result<Plan, Box<Rejected>> {
    let mut problem = Problem::new(snapshot, policies);
    let floor = floor::pack(&mut problem);
    let (packed, lower_bound) = improve::improve(&mut problem, floor.clone(), options.effort, options.seed);
    let best = Plan { lower_bound, ..finish::finish(&mut problem, packed) };
    if check(snapshot, &best).is_ok() {
        return Ok(best);
    }
    let plan = Plan { lower_bound, ..finish::finish(&mut problem, floor) };
    match check(snapshot, &plan) {
        Ok(()) => Ok(plan),
        Err(violations) => Err(Box::new(Rejected { plan, violations })),
    }
}

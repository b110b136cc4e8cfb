//! From a snapshot to a plan.

mod finish;

pub use finish::Ranking;

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

/// Plans for every pending pod of a snapshot: pure, deterministic, and never worse than first-fit-decreasing.
pub fn plan(snapshot: &Snapshot, policies: &dyn Policies, options: Options) -> Plan {
    let mut problem = Problem::new(snapshot, policies);
    let floor = floor::pack(&mut problem);
    let (packed, lower_bound) = improve::improve(&mut problem, floor, options.effort, options.seed);
    Plan { lower_bound, ..finish::finish(&mut problem, packed) }
}

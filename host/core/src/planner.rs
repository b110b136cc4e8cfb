//! From a snapshot to a plan.

mod finish;
mod sturdy;
mod turns;

pub use turns::in_order;

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use crate::check::{Violation, check};
use crate::improve;
use crate::kube_scheduler::Simulator;
use crate::model::{Catalogue, Names, Sym};
use crate::plan::{Effort, Plan};
use crate::policy::{Policies, Scores};
use crate::schedule::barren;
use crate::schedule::domains::{self, Counted};
use crate::schedule::floor::{self, Floor, Problem};
use crate::schedule::items::Item;
use crate::snapshot::Snapshot;
use crate::stop::Stop;

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

/// Up to this share more is looked at, if fewer pods are left over for it.
const DEARER: f64 = 0.10;
/// How often pods that others left no place get the first choice.
pub(crate) const SECOND_CHANCES: usize = 3;
/// How many of them get it alone, where no more than [`FEW`] pods wait: each costs a whole packing.
const CHANCES_ALONE: usize = 4;
const FEW: usize = 200;

/// Plans as [`plan_until`] does, without a signal that stops it.
///
/// # Errors
/// Even the first-fit plan breaks a rule.
pub fn plan(snapshot: &Snapshot, policies: &dyn Policies, options: Options) -> Result<Plan, Box<Rejected>> {
    plan_until(snapshot, policies, options, Stop::never())
}

/// Plans for every pending pod of a snapshot: pure, deterministic, and never dearer than first-fit-decreasing. Every
/// plan is checked; should the improved one break a rule, the floor's takes its place and says so in
/// [`replaced`](Plan::replaced). If `stop` is raised before a cheaper plan is done, the plan is exactly that of effort
/// `none`, and says so in [`cut_short`](Plan::cut_short). It is made anew for that, since nothing of an unfinished search
/// may show in it; the signal does not end that part.
///
/// # Errors
/// Even the floor's plan breaks a rule.
pub fn plan_until(
    snapshot: &Snapshot,
    policies: &dyn Policies,
    options: Options,
    stop: Stop<'_>,
) -> Result<Plan, Box<Rejected>> {
    // A round is made for whoever waits, and most of those are on their way to a node already: nobody is asked for
    // scores, and nothing compiled, to plan for nobody.
    if snapshot.pending.is_empty() {
        return Ok(Plan::default());
    }
    let policies = &Once::new(policies);
    let stop = if options.effort == Effort::None { Stop::never() } else { stop };
    if let Some(outcome) = search(snapshot, policies, options, stop) {
        return outcome;
    }
    let first_fit = Options { effort: Effort::None, ..options };
    let outcome = search(snapshot, policies, first_fit, Stop::never()).unwrap_or_else(|| Ok(Plan::default()));
    let cut_short = true;
    match outcome {
        Ok(plan) => Ok(Plan { cut_short, ..plan }),
        Err(rejected) => Err(Box::new(Rejected { plan: Plan { cut_short, ..rejected.plan }, ..*rejected })),
    }
}

/// The plan for an effort; nothing if the signal was raised before it was done.
fn search(
    snapshot: &Snapshot,
    policies: &dyn Policies,
    options: Options,
    stop: Stop<'_>,
) -> Option<Result<Plan, Box<Rejected>>> {
    let mut counted = Counted::default();
    let mut attempts = 0;
    loop {
        match attempt(snapshot, policies, options, &counted, stop)? {
            Attempt::Planned(plan) => return Some(Ok(plan)),
            Attempt::Rejected(rejected) => return Some(Err(rejected)),
            Attempt::Overlooked(domains) => counted.add(domains, attempts >= SECOND_CHANCES),
        }
        attempts += 1;
    }
}

/// What comes of planning with one idea of which domains count.
enum Attempt {
    /// A plan that keeps every rule.
    Planned(Plan),
    /// Even the floor's plan breaks a rule.
    Rejected(Box<Rejected>),
    /// The plan would buy nodes in domains that spread constraints were planned without.
    Overlooked(Counted),
}

fn attempt(
    snapshot: &Snapshot,
    policies: &dyn Policies,
    options: Options,
    counted: &Counted,
    stop: Stop<'_>,
) -> Option<Attempt> {
    let going = || (!stop.is_raised()).then_some(());
    let (mut problem, floor) = floor(snapshot, policies, options.effort, counted, stop);
    going()?;
    let barren = barren::find(&mut problem);
    let played = may_be_tried(snapshot, floor.claims.len(), options.effort);
    let (packed, lower_bound) = improve::improve(&mut problem, floor.clone(), options.effort, options.seed, played);
    going()?;
    let candidates: Vec<Plan> =
        packed.into_iter().map(|packed| Plan { lower_bound, ..finish::finish(&mut problem, packed) }).collect();
    going()?;
    let mut replaced = Vec::new();
    let candidates = realisable(&mut problem, candidates, &floor, options.effort);
    for candidate in candidates {
        going()?;
        let overlooked = domains::bought_by_others(&problem, &candidate, counted);
        if !overlooked.is_empty() {
            return Some(Attempt::Overlooked(overlooked));
        }
        match check(snapshot, &candidate) {
            Ok(()) => return Some(Attempt::Planned(Plan { replaced, barren, ..candidate })),
            Err(violations) => replaced.extend(violations),
        }
    }
    let plan = Plan { lower_bound, replaced, barren, ..finish::finish(&mut problem, floor) };
    let overlooked = domains::bought_by_others(&problem, &plan, counted);
    if !overlooked.is_empty() {
        return Some(Attempt::Overlooked(overlooked));
    }
    Some(match check(snapshot, &plan) {
        Ok(()) => Attempt::Planned(plan),
        Err(violations) => Attempt::Rejected(Box::new(Rejected { plan, violations })),
    })
}

/// Policies that are asked about each NodePool once, however often a plan is begun anew.
pub(crate) struct Once<'p> {
    policies: &'p dyn Policies,
    known: RefCell<FxHashMap<Sym, Scores>>,
}

impl<'p> Once<'p> {
    pub(crate) fn new(policies: &'p dyn Policies) -> Self {
        Once { policies, known: RefCell::default() }
    }
}

impl Policies for Once<'_> {
    fn score(&self, catalogue: &Catalogue, names: &Names, pool: Sym) -> Scores {
        let mut known = self.known.borrow_mut();
        known.entry(pool).or_insert_with(|| self.policies.score(catalogue, names, pool)).clone()
    }
}

/// Whether playing plans with so many claims through takes no longer than the effort allows. Without claims there is
/// nothing to choose, and a model of a large cluster is not made for nothing.
fn may_be_tried(snapshot: &Snapshot, claims: usize, effort: Effort) -> bool {
    let most = match effort {
        Effort::None | Effort::Quick => 0,
        Effort::Normal => 200_000,
        Effort::Thorough => 1_000_000,
    };
    claims > 0 && snapshot.pending.len() * (claims + snapshot.nodes.len()) <= most
}

/// Plans in the order in which they are wanted, kube-scheduler being who realises them. Where playing them through would
/// take longer than the effort allows, the cost alone decides.
fn realisable(p: &mut Problem<'_>, mut plans: Vec<Plan>, floor: &Floor, effort: Effort) -> Vec<Plan> {
    plans.sort_by(by_cost);
    let worth = plans.first().map_or(0.0, |cheapest| cheapest.effective * (1.0 + DEARER));
    plans.retain(|plan| plan.effective <= worth);
    let claims = plans.iter().map(|plan| plan.claims.len()).max().unwrap_or(0);
    if !may_be_tried(p.snapshot, claims, effort) {
        return plans;
    }
    let simulator = Simulator::new(p.snapshot).until(p.stop);
    if simulator.is_stopped() {
        return plans;
    }
    let mut plans = prefer(&simulator, plans);
    let sturdier = plans.first().and_then(|plan| sturdy::sturdier(p, &simulator, plan));
    // Never dearer than the floor.
    if let Some(plan) = sturdier.filter(|plan| plan.effective <= finish::finish(p, floor.clone()).effective) {
        plans.insert(0, plan);
    }
    plans
}

fn by_cost(a: &Plan, b: &Plan) -> std::cmp::Ordering {
    a.effective.total_cmp(&b.effective)
}

/// Plans in the order in which they are wanted. The first is the one that costs least in the end, with what is to be
/// bought for pods that kube-scheduler leaves over although it is told of the plan; of several the one that leaves fewest
/// over if it is not told. The others follow by cost.
pub fn prefer(simulator: &Simulator<'_>, mut plans: Vec<Plan>) -> Vec<Plan> {
    plans.sort_by(by_cost);
    if plans.len() < 2 {
        return plans;
    }
    let mut best: Option<(f64, usize, usize)> = None;
    for (at, plan) in plans.iter().enumerate() {
        let least = best.map_or(f64::INFINITY, |(cost, ..)| cost);
        if plan.effective > least || simulator.is_stopped() {
            break;
        }
        let mut left = 0;
        let mut cost = plan.effective;
        for course in sturdy::courses(simulator, plan) {
            left += course.left.len();
            cost = sturdy::in_the_end(plan, left);
            if cost > least {
                break;
            }
        }
        if cost > least {
            continue;
        }
        let alone = (0..2).map(|seed| simulator.survive(plan, seed).left.len()).sum::<usize>();
        if best.is_none_or(|best| (cost, alone) < (best.0, best.1)) {
            best = Some((cost, alone, at));
        }
    }
    if let Some((.., at)) = best {
        plans[..=at].rotate_right(1);
    }
    plans
}

/// First-fit-decreasing. Pods that it leaves over although a rule on others or a limit may be all that keeps them out
/// choose first in another try, which counts if it places more pods; not so with no effort at all.
pub(crate) fn floor<'a>(
    snapshot: &'a Snapshot,
    policies: &dyn Policies,
    effort: Effort,
    counted: &Counted,
    stop: Stop<'a>,
) -> (Problem<'a>, Floor) {
    let compile = || {
        let mut problem = Problem::new(snapshot, policies, counted);
        problem.stop = stop;
        problem
    };
    let mut tries = Tries::begin(&compile);
    let mut first = Vec::new();
    let chances = if effort == Effort::None { 0 } else { SECOND_CHANCES };
    for _ in 0..chances {
        let before = first.len();
        for item in tries.left_by_others() {
            if !first.contains(&item) {
                first.push(item);
            }
        }
        if first.len() == before || stop.is_raised() {
            break;
        }
        tries.again(&first);
    }
    // Together they can be in each other's way: the smallest of them, which take the least from others, one by one.
    if chances > 0 && snapshot.pending.len() <= FEW {
        let mut alone = tries.left_by_others();
        let items = &tries.problem.items;
        alone.sort_by(|&a, &b| items[a].request.cmp(&items[b].request).then(a.cmp(&b)));
        for item in alone.into_iter().take(CHANCES_ALONE) {
            if stop.is_raised() {
                break;
            }
            tries.again(&[item]);
        }
    }
    tries.end()
}

/// Packings of one problem in different orders, the best of which is kept.
struct Tries<'t, 'a> {
    compile: &'t dyn Fn() -> Problem<'a>,
    problem: Problem<'a>,
    best: Floor,
    /// Items that chose first in the best one,
    first: Vec<usize>,
    /// which is the one that the problem has the counts of.
    current: bool,
}

impl<'t, 'a> Tries<'t, 'a> {
    fn begin(compile: &'t dyn Fn() -> Problem<'a>) -> Self {
        let mut problem = compile();
        let best = floor::pack(&mut problem, &[]);
        Tries { compile, problem, best, first: Vec::new(), current: true }
    }

    /// Packs as if for the first time.
    fn pack(&mut self, first: &[usize]) -> Floor {
        if !self.problem.reset() {
            self.problem = (self.compile)();
        }
        floor::pack(&mut self.problem, first)
    }

    /// Packs once more; it counts if it places more pods.
    fn again(&mut self, first: &[usize]) {
        let other = self.pack(first);
        self.current = count(&other) > count(&self.best);
        if self.current {
            (self.best, self.first) = (other, first.to_vec());
        }
    }

    /// Items with pods left over that have to do with other pods.
    fn left_by_others(&self) -> Vec<usize> {
        left_by_others(&self.problem, &self.best)
    }

    /// The best one, and the problem with its counts.
    fn end(mut self) -> (Problem<'a>, Floor) {
        if !self.current {
            let first = std::mem::take(&mut self.first);
            self.best = self.pack(&first);
        }
        (self.problem, self.best)
    }
}

fn count(floor: &Floor) -> u64 {
    floor.placed.iter().map(|&n| u64::from(n)).sum()
}

/// Items with pods left over that have to do with other pods.
fn left_by_others(problem: &Problem<'_>, floor: &Floor) -> Vec<usize> {
    let limited = problem.pools.iter().any(|p| !p.limits.is_empty() || p.nodes_left.is_some() || p.reserved);
    let tied = |item: &Item| {
        limited
            || !item.selected_inverse.is_empty()
            || item.variants.iter().any(|level| level.uses.iter().any(|u| !u.soft))
    };
    let items = problem.items.iter().enumerate().zip(&floor.placed);
    items
        .filter(|((_, item), placed)| (**placed as usize) < item.pods.len() && tied(item))
        .map(|((at, _), _)| at)
        .collect()
}

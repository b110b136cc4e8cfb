//! From a snapshot to a plan: compile (`schedule`), first fit (`schedule/first_fit.rs`), optimize
//! (`optimize`), finish, check. What breaks the check is left out, and the rest is planned again.

mod finish;
mod left_out;
mod queue_order;
mod robust;

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use crate::check::{Invariant, Violation, check};
use crate::kube_scheduler::{SimulationResult, Simulator};
use crate::model::{Catalogue, NodePool, PodShape, Records, Symbol, Symbols};
use crate::optimize;
use crate::plan::{Effort, Plan};
use crate::policy::{Policies, Scores};
use crate::schedule::bought_domains::bought_by_others;
use crate::schedule::domains::Counted;
use crate::schedule::first_fit::{self, CompiledCluster, Packing};
use crate::schedule::incompatible_pools;
use crate::schedule::pod_groups::PodGroup;
use crate::snapshot::Snapshot;
use crate::stop::Stop;

/// Effort and seed of a plan: with the snapshot and scores, all that it depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// How much work goes into a cheaper plan.
    pub effort: Effort,
    /// Seed of pseudo-random numbers: the same seed gives the same plan.
    pub seed: u64,
}

/// A plan that breaks a rule: a defect of the planner, found before the plan is carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected {
    /// The plan as the planner made it.
    pub plan: Plan,
    /// What is wrong with it.
    pub violations: Vec<Violation>,
}

/// Plans up to this share more expensive are considered if they leave fewer pods unplaced.
const MAX_COST_INCREASE: f64 = 0.10;
/// How often pods that others left no place get the first choice.
pub(crate) const MAX_RETRIES: usize = 3;
/// How many of them get it alone, where no more than [`FEW_PENDING_PODS`] pods wait: each costs a
/// whole packing.
const MAX_CHANCES_ALONE: usize = 4;
/// Pending pods up to which some get the first choice alone.
const FEW_PENDING_PODS: usize = 200;
/// Rules about other pods that a pod may have before it counts for more than one pod in
/// [`simulation_affordable`]: zone and hostname spread, and an affinity or two.
const USUAL_RULES: usize = 4;

/// Plans as [`plan_until`] does, without a signal that stops it.
///
/// # Errors
/// Even the first-fit plan breaks a rule.
pub fn plan(
    snapshot: &Snapshot,
    policies: &dyn Policies,
    options: PlanOptions,
) -> Result<Plan, Box<Rejected>> {
    plan_until(snapshot, policies, options, Stop::never())
}

/// Plans for every pending pod of a snapshot. Should even first fit's plan break a rule, the pods
/// that break it are left out ([`left_out`](Plan::left_out)), and so are pods that kube-scheduler
/// would not bind to any node of the plan; the rest is planned again, a few times at most.
///
/// # Errors
/// A plan breaks a rule, whatever pods are left out.
pub fn plan_until(
    snapshot: &Snapshot,
    policies: &dyn Policies,
    options: PlanOptions,
    stop: Stop<'_>,
) -> Result<Plan, Box<Rejected>> {
    let policies = &Once::new(policies);
    let plan = &mut |of: &Snapshot| plan_all(of, policies, options, stop);
    leaving_out(snapshot, options.effort, plan)
}

/// Plans with `plan`, and again without the pods that break it, as [`plan_until`] does.
///
/// # Errors
/// A plan breaks a rule, whatever pods are left out.
///
/// # Panics
/// `plan` panics even where no pod can be planned for.
pub fn leaving_out(
    snapshot: &Snapshot,
    effort: Effort,
    plan: &mut dyn FnMut(&Snapshot) -> Result<Plan, Box<Rejected>>,
) -> Result<Plan, Box<Rejected>> {
    let mut fewer: Option<Snapshot> = None;
    let mut broken: Vec<Violation> = Vec::new();
    let mut tries = left_out::Tries::default();
    loop {
        let of = fewer.as_ref().unwrap_or(snapshot);
        let Some(planned) = left_out::unless_it_panics(|| plan(of)) else {
            let mut panics = |of: &Snapshot| left_out::unless_it_panics(|| plan(of)).is_none();
            let pods = left_out::panicking(of, &mut panics);
            assert!(!pods.is_empty(), "the planner panics whatever it plans for");
            fewer = Some(left_out::without(of, &pods));
            continue;
        };
        let without = match planned {
            Ok(plan) => {
                let pods = tries.unrealised(of, &plan, effort);
                if pods.is_empty() {
                    let left_out = broken;
                    return Ok(Plan { left_out, ..plan });
                }
                pods
            }
            // Sums tell what a plan costs and decide nothing.
            Err(rejected) if rejected.violations.iter().all(is_of_totals) => {
                broken.extend(rejected.violations);
                return Ok(Plan {
                    left_out: broken,
                    ..rejected.plan
                });
            }
            Err(rejected) => {
                let pods = tries.broken(of, &rejected);
                if pods.is_empty() {
                    return Err(rejected);
                }
                broken.extend(rejected.violations);
                pods
            }
        };
        fewer = Some(left_out::without(of, &without));
    }
}

fn is_of_totals(violation: &Violation) -> bool {
    violation.invariant == Invariant::Totals
}

/// Plans for every pending pod of a snapshot: pure, deterministic, and never dearer than
/// first-fit-decreasing. Every plan is checked; should the improved one break a rule, first fit's
/// takes its place and says so in [`rejected_candidates`](Plan::rejected_candidates). If `stop` is
/// raised before a cheaper plan is done, the plan is exactly that of a lesser effort, and names it
/// in [`cut_short`](Plan::cut_short): `quick` for `thorough`, where that was done in time, else
/// `none`. Effort `thorough` makes the plan of `quick` first, which takes a hundredth of its time.
/// The plan of `none` is made anew, since nothing of an unfinished search may show in it; the signal
/// does not end that part.
///
/// # Errors
/// Even first fit's plan breaks a rule.
fn plan_all(
    snapshot: &Snapshot,
    policies: &dyn Policies,
    options: PlanOptions,
    stop: Stop<'_>,
) -> Result<Plan, Box<Rejected>> {
    // Most rounds have no pod to plan for, because the waiting pods are nominated already. Such
    // rounds ask no policy for scores and compile nothing.
    if snapshot.pending.is_empty() {
        return Ok(Plan::default());
    }
    let stop = if options.effort == Effort::None {
        Stop::never()
    } else {
        stop
    };
    let with = |effort| PlanOptions { effort, ..options };
    let quick = match options.effort {
        Effort::Thorough => search(snapshot, policies, with(Effort::Quick), stop),
        _ => None,
    };
    if let Some(outcome) = search(snapshot, policies, options, stop) {
        return outcome;
    }
    if let Some(Ok(plan)) = quick {
        let cut_short = Some(Effort::Quick);
        return Ok(Plan { cut_short, ..plan });
    }
    let outcome = search(snapshot, policies, with(Effort::None), Stop::never())
        .unwrap_or_else(|| Ok(Plan::default()));
    let cut_short = Some(Effort::None);
    match outcome {
        Ok(plan) => Ok(Plan { cut_short, ..plan }),
        Err(rejected) => Err(Box::new(Rejected {
            plan: Plan {
                cut_short,
                ..rejected.plan
            },
            ..*rejected
        })),
    }
}

/// The plan for an effort; nothing if the signal was raised before it was done.
fn search(
    snapshot: &Snapshot,
    policies: &dyn Policies,
    options: PlanOptions,
    stop: Stop<'_>,
) -> Option<Result<Plan, Box<Rejected>>> {
    let mut counted = Counted::default();
    let mut attempts = 0;
    loop {
        match attempt(snapshot, policies, options, &counted, stop)? {
            Attempt::Planned(plan) => return Some(Ok(plan)),
            Attempt::Rejected(rejected) => return Some(Err(rejected)),
            Attempt::Overlooked(domains) => counted.add(domains, attempts >= MAX_RETRIES),
        }
        attempts += 1;
    }
}

/// The result of planning with one set of counted domains.
enum Attempt {
    /// A plan that keeps every rule.
    Planned(Plan),
    /// Even first fit's plan breaks a rule.
    Rejected(Box<Rejected>),
    /// The plan would buy nodes in domains that spread constraints were planned without.
    Overlooked(Counted),
}

fn attempt(
    snapshot: &Snapshot,
    policies: &dyn Policies,
    options: PlanOptions,
    counted: &Counted,
    stop: Stop<'_>,
) -> Option<Attempt> {
    let going = || (!stop.is_raised()).then_some(());
    let (mut compiled, packing) =
        initial_solution(snapshot, policies, options.effort, counted, stop);
    going()?;
    let incompatible = incompatible_pools::find(&mut compiled);
    let simulated = simulation_affordable(snapshot, packing.claims.len(), options.effort);
    let (packed, lower_bound) = optimize::optimize(
        &mut compiled,
        packing.clone(),
        options.effort,
        options.seed,
        simulated,
    );
    going()?;
    let candidates: Vec<Plan> = packed
        .into_iter()
        .map(|packed| Plan {
            lower_bound,
            ..finish::finish(&mut compiled, packed)
        })
        .collect();
    going()?;
    let mut replaced = Vec::new();
    let candidates = rank_candidates(&mut compiled, candidates, &packing, options.effort);
    for candidate in candidates {
        going()?;
        let overlooked = bought_by_others(&compiled, &candidate, counted);
        if !overlooked.is_empty() {
            return Some(Attempt::Overlooked(overlooked));
        }
        match check(snapshot, &candidate) {
            Ok(()) => {
                return Some(Attempt::Planned(Plan {
                    rejected_candidates: replaced,
                    incompatible_pools: incompatible,
                    ..candidate
                }));
            }
            Err(violations) => replaced.extend(violations),
        }
    }
    let plan = Plan {
        lower_bound,
        rejected_candidates: replaced,
        incompatible_pools: incompatible,
        ..finish::finish(&mut compiled, packing)
    };
    let overlooked = bought_by_others(&compiled, &plan, counted);
    if !overlooked.is_empty() {
        return Some(Attempt::Overlooked(overlooked));
    }
    Some(match check(snapshot, &plan) {
        Ok(()) => Attempt::Planned(plan),
        Err(violations) => Attempt::Rejected(Box::new(Rejected { plan, violations })),
    })
}

/// Policies that are called once per NodePool, however often planning starts again.
pub(crate) struct Once<'p> {
    policies: &'p dyn Policies,
    known: RefCell<FxHashMap<Symbol, Scores>>,
}

impl<'p> Once<'p> {
    pub(crate) fn new(policies: &'p dyn Policies) -> Self {
        Once {
            policies,
            known: RefCell::default(),
        }
    }
}

impl Policies for Once<'_> {
    fn node_pools(&self, pools: &Records<NodePool>, names: &Symbols) {
        self.policies.node_pools(pools, names);
    }

    fn score(&self, catalogue: &Catalogue, names: &Symbols, pool: Symbol) -> Scores {
        let mut known = self.known.borrow_mut();
        known
            .entry(pool)
            .or_insert_with(|| self.policies.score(catalogue, names, pool))
            .clone()
    }
}

/// Whether simulating plans with this number of claims takes no longer than the effort allows.
/// Without claims there is nothing to choose, and a model of a large cluster is not made for
/// nothing. A pod counts once, and once more for each rule about other pods beyond [`USUAL_RULES`]:
/// kube-scheduler's filters read each of them for each node.
fn simulation_affordable(snapshot: &Snapshot, claims: usize, effort: Effort) -> bool {
    let most = match effort {
        Effort::None | Effort::Quick => 0,
        Effort::Normal => 200_000,
        Effort::Thorough => 1_000_000,
    };
    let pods: usize = snapshot
        .pending
        .iter()
        .map(|pending| 1 + rules_about_pods(&pending.shape).saturating_sub(USUAL_RULES))
        .sum();
    claims > 0 && pods.saturating_mul(claims + snapshot.nodes.len()) <= most
}

/// How many constraints and terms of a pod concern other pods.
fn rules_about_pods(shape: &PodShape) -> usize {
    shape.spread.len()
        + shape.affinity.len()
        + shape.anti_affinity.len()
        + shape.preferred_affinity.len()
        + shape.preferred_anti_affinity.len()
}

/// Plans in order of preference, given that kube-scheduler realises them. If simulating them would
/// take longer than the effort allows, cost alone decides.
fn rank_candidates(
    p: &mut CompiledCluster<'_>,
    mut plans: Vec<Plan>,
    packing: &Packing,
    effort: Effort,
) -> Vec<Plan> {
    plans.sort_by(by_cost);
    let worth = plans.first().map_or(0.0, |cheapest| {
        cheapest.effective_cost * (1.0 + MAX_COST_INCREASE)
    });
    plans.retain(|plan| plan.effective_cost <= worth);
    let claims = plans
        .iter()
        .map(|plan| plan.claims.len())
        .max()
        .unwrap_or(0);
    if !simulation_affordable(p.snapshot, claims, effort) {
        return plans;
    }
    let simulator = Simulator::new(p.snapshot).until(p.stop);
    if simulator.is_stopped() {
        return plans;
    }
    let (mut plans, simulated) = rank_by_simulation(&simulator, plans);
    let sturdier = plans
        .first()
        .and_then(|plan| robust::add_slack(p, &simulator, plan, simulated));
    // Never dearer than first fit.
    if let Some(plan) = sturdier
        .filter(|plan| plan.effective_cost <= finish::finish(p, packing.clone()).effective_cost)
    {
        plans.insert(0, plan);
    }
    plans
}

fn by_cost(a: &Plan, b: &Plan) -> std::cmp::Ordering {
    a.effective_cost.total_cmp(&b.effective_cost)
}

/// The best plan so far.
struct Best {
    expected_cost: f64,
    /// Pods that stay unplaced without nominations.
    left_alone: usize,
    at: usize,
    simulated: Vec<SimulationResult>,
}

/// Plans in order of preference. The first has the lowest expected cost, including purchases for
/// pods that stay unplaced despite nominations. Ties go to the plan with the fewest unplaced pods
/// without nominations. The others follow by cost. With it, what became of the first plan in
/// [`robust::scenarios`]; empty if there was no choice.
pub fn rank_by_simulation(
    simulator: &Simulator<'_>,
    mut plans: Vec<Plan>,
) -> (Vec<Plan>, Vec<SimulationResult>) {
    plans.sort_by(by_cost);
    if plans.len() < 2 {
        return (plans, Vec::new());
    }
    let mut best: Option<Best> = None;
    for (at, plan) in plans.iter().enumerate() {
        let is_beaten = best.as_ref().is_some_and(|best| {
            plan.effective_cost > best.expected_cost
                || (best.left_alone == 0 && plan.effective_cost == best.expected_cost)
        });
        if is_beaten || simulator.is_stopped() {
            break;
        }
        let least = best.as_ref().map_or(f64::INFINITY, |b| b.expected_cost);
        let mut left = 0;
        let mut cost = plan.effective_cost;
        let mut simulated = Vec::with_capacity(robust::SCENARIOS);
        for course in robust::scenarios(simulator, plan) {
            left += course.unplaced.len();
            simulated.push(course);
            cost = robust::expected_cost(plan, left);
            if cost > least {
                break;
            }
        }
        if cost > least {
            continue;
        }
        let left_alone = (0..2)
            .map(|seed| simulator.simulate(plan, seed).unplaced.len())
            .sum::<usize>();
        if best
            .as_ref()
            .is_none_or(|b| (cost, left_alone) < (b.expected_cost, b.left_alone))
        {
            best = Some(Best {
                expected_cost: cost,
                left_alone,
                at,
                simulated,
            });
        }
    }
    let Some(Best { at, simulated, .. }) = best else {
        return (plans, Vec::new());
    };
    plans[..=at].rotate_right(1);
    (plans, simulated)
}

/// First-fit-decreasing. Pods that it leaves over although a rule on others or a limit may be all
/// that keeps them out choose first in another try, which counts if it places more pods; not so
/// with no effort at all.
pub(crate) fn initial_solution<'a>(
    snapshot: &'a Snapshot,
    policies: &dyn Policies,
    effort: Effort,
    counted: &Counted,
    stop: Stop<'a>,
) -> (CompiledCluster<'a>, Packing) {
    let compile = || {
        let mut compiled = CompiledCluster::new(snapshot, policies, counted);
        compiled.stop = stop;
        compiled
    };
    let mut tries = Tries::begin(&compile);
    let mut first = Vec::new();
    let chances = if effort == Effort::None {
        0
    } else {
        MAX_RETRIES
    };
    for _ in 0..chances {
        let before = first.len();
        for index in tries.blocked_by_others() {
            if !first.contains(&index) {
                first.push(index);
            }
        }
        if first.len() == before || stop.is_raised() {
            break;
        }
        tries.again(&first);
    }
    // Together they can be in each other's way: the smallest of them, which take the least from
    // others, one by one.
    if chances > 0 && snapshot.pending.len() <= FEW_PENDING_PODS {
        let mut alone = tries.blocked_by_others();
        let items = &tries.compiled.items;
        alone.sort_by(|&a, &b| items[a].request.cmp(&items[b].request).then(a.cmp(&b)));
        for index in alone.into_iter().take(MAX_CHANCES_ALONE) {
            if stop.is_raised() {
                break;
            }
            tries.again(&[index]);
        }
    }
    tries.end()
}

/// Packings of one compiled cluster in different orders, the best of which is kept.
struct Tries<'t, 'a> {
    compile: &'t dyn Fn() -> CompiledCluster<'a>,
    compiled: CompiledCluster<'a>,
    best: Packing,
    /// Pod groups that chose first in the best plan.
    first: Vec<usize>,
    /// Whether the compiled cluster has the counts of the best plan.
    current: bool,
}

impl<'t, 'a> Tries<'t, 'a> {
    fn begin(compile: &'t dyn Fn() -> CompiledCluster<'a>) -> Self {
        let mut compiled = compile();
        let best = first_fit::pack(&mut compiled, &[]);
        Tries {
            compile,
            compiled,
            best,
            first: Vec::new(),
            current: true,
        }
    }

    /// Packs as if for the first time.
    fn pack(&mut self, first: &[usize]) -> Packing {
        if !self.compiled.reset() {
            self.compiled = (self.compile)();
        }
        first_fit::pack(&mut self.compiled, first)
    }

    /// Packs once more; it counts if it places more pods.
    fn again(&mut self, first: &[usize]) {
        let other = self.pack(first);
        self.current = count(&other) > count(&self.best);
        if self.current {
            (self.best, self.first) = (other, first.to_vec());
        }
    }

    /// Pod groups with unplaced pods and rules on other pods.
    fn blocked_by_others(&self) -> Vec<usize> {
        blocked_by_others(&self.compiled, &self.best)
    }

    /// The best one, and the compiled cluster with its counts.
    fn end(mut self) -> (CompiledCluster<'a>, Packing) {
        if !self.current {
            let first = std::mem::take(&mut self.first);
            self.best = self.pack(&first);
        }
        (self.compiled, self.best)
    }
}

fn count(packing: &Packing) -> u64 {
    packing.placed.iter().map(|&n| u64::from(n)).sum()
}

/// Pod groups with unplaced pods and rules on other pods.
fn blocked_by_others(compiled: &CompiledCluster<'_>, packing: &Packing) -> Vec<usize> {
    let limited = compiled
        .pools
        .iter()
        .any(|p| !p.limits.is_empty() || p.nodes_left.is_some() || p.reserved);
    let tied = |pod_group: &PodGroup| {
        limited
            || !pod_group.repelled_by.is_empty()
            || pod_group
                .relaxations
                .iter()
                .any(|relaxation| relaxation.uses.iter().any(|u| !u.soft))
    };
    let items = compiled.items.iter().enumerate().zip(&packing.placed);
    items
        .filter(|((_, pod_group), placed)| {
            (**placed as usize) < pod_group.pods.len() && tied(pod_group)
        })
        .map(|((at, _), _)| at)
        .filter(|&at| packing.decided_by_others(&compiled.items, at).is_none())
        .collect()
}

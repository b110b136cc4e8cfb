//! Slack for deviations of kube-scheduler from the plan.
//!
//! A plan that fills nodes to the last millicore is realised only if every pod is bound to its
//! planned node. Pods are nominated, but kube-scheduler chooses the domain of spread pods itself,
//! and then 1 or 2 % of the pods find their room taken. Buying a node for them later costs more,
//! and delays them longer, than buying the next larger type at once. So the plan is simulated.
//! While pods are unplaced, one of the nodes that would take them becomes a size larger: the one
//! for which that costs least. This ends when all pods are placed, or when slack costs more than it
//! saves.
//!
//! Only the first of several identical unplaced pods gets slack at a time. A spread service that is
//! one pod short in one domain has an unplaced pod for every other domain too, and one slot helps
//! all of them.

use rustc_hash::FxHashSet;

use crate::kube_scheduler::{NodeReadiness, SimulatedNode, SimulationResult, Simulator};
use crate::model::{OfferingId, Resources, TypeId};
use crate::plan::{Plan, PlannedClaim, PodIx};
use crate::schedule::first_fit::CompiledCluster;

use super::finish::{admits, settle};

/// Number of scenarios that must place all pods.
pub(super) const SCENARIOS: usize = 4;
/// Attempts to find enough slack. Services that spread over six zones, with four pods per node,
/// needed thirty.
const SLACK_ATTEMPTS: usize = 32;
/// A plan that places all pods may cost this share more, even if it saves less.
const MAX_COST_INCREASE_SHARE: f64 = 0.03;
/// Cost of an unplaced pod, in nodes of the plan's average cost. A later purchase costs 0.06 to 0.3
/// of a node (measured); the rest accounts for the delay.
const UNPLACED_PENALTY: f64 = 0.5;

/// Cost of a plan including purchases for `left` unplaced pods, summed over all scenarios.
pub(super) fn expected_cost(plan: &Plan, left: usize) -> f64 {
    let each = plan.effective_cost / plan.claims.len().max(1) as f64;
    plan.effective_cost + UNPLACED_PENALTY * each * left as f64 / SCENARIOS as f64
}

/// The plan with enough slack that kube-scheduler, with nominations, places all pods, if that costs
/// no more than later purchases, or hardly more. Otherwise the slack with the lowest expected cost.
/// `None` if the plan places all pods as it is, or if slack costs more than it saves. `simulated`
/// is what became of the plan in all scenarios, or empty where they have not been run.
pub fn add_slack(
    p: &CompiledCluster<'_>,
    simulator: &Simulator<'_>,
    plan: &Plan,
    mut simulated: Vec<SimulationResult>,
) -> Option<Plan> {
    let mut spare = vec![Resources::default(); plan.claims.len()];
    let mut grown = plan.clone();
    let mut best: Option<Plan> = None;
    let (mut least, mut most) = (
        f64::INFINITY,
        plan.effective_cost * (1.0 + MAX_COST_INCREASE_SHARE),
    );
    for attempt in 0..SLACK_ATTEMPTS {
        if p.stop.is_raised() {
            return None;
        }
        let courses = match std::mem::take(&mut simulated) {
            known if known.len() == SCENARIOS => known,
            _ => scenarios(simulator, &grown).collect(),
        };
        let left = courses.iter().map(|course| course.unplaced.len()).sum();
        if left == 0 {
            return (attempt > 0).then_some(grown);
        }
        let cost = expected_cost(&grown, left);
        if attempt == 0 {
            (least, most) = (cost, most.max(cost));
        } else if cost < least {
            least = cost;
            best = Some(grown.clone());
        }
        let worst = courses.iter().max_by_key(|course| course.unplaced.len())?;
        let mut helped = FxHashSet::default();
        for (pod, seats) in worst.unplaced.iter().zip(&worst.feasible_if_larger) {
            let shape = p.snapshot.world.pods[pod.0 as usize].shape;
            if !helped.contains(&shape) && upsize(p, &mut grown, &mut spare, *pod, seats) {
                helped.insert(shape);
            }
        }
        settle(p, &mut grown);
        if helped.is_empty() || grown.effective_cost > most {
            break;
        }
    }
    best
}

/// What becomes of it when all nodes come up together, as those of one round do.
pub(super) fn scenarios<'s>(
    simulator: &'s Simulator<'_>,
    plan: &'s Plan,
) -> impl Iterator<Item = SimulationResult> + 's {
    let together = (0..).filter(|seed| NodeReadiness::of(*seed) == NodeReadiness::Together);
    together
        .take(SCENARIOS)
        .map(|seed| simulator.simulate_nominated(plan, seed))
}

/// Makes room for one more pod on one of the nodes that would take it: where that costs least. Says
/// whether there was one.
fn upsize(
    p: &CompiledCluster<'_>,
    plan: &mut Plan,
    spare: &mut [Resources],
    pod: PodIx,
    welcome: &[SimulatedNode],
) -> bool {
    let world = &p.snapshot.world;
    let requests = &world.shapes.get(world.pods[pod.0 as usize].shape).requests;
    let mut best: Option<(f64, usize, Vec<TypeId>, OfferingId)> = None;
    for seat in welcome {
        let &SimulatedNode::New(at) = seat else {
            continue;
        };
        let at = at as usize;
        let claim = &plan.claims[at];
        let mut wanted = spare[at].clone();
        wanted.add(requests);
        let Some((cost, types, offering)) = next_larger(p, claim, &wanted) else {
            continue;
        };
        if best.as_ref().is_none_or(|b| cost < b.0) {
            best = Some((cost, at, types, offering));
        }
    }
    let Some((cost, at, types, offering)) = best else {
        return false;
    };
    let claim = &mut plan.claims[at];
    let template = p.pools.iter().find(|t| t.pool == claim.pool);
    if let (Some(template), Some(first)) = (template, claim.types.first()) {
        claim.requests.sub(template.fit.overhead(*first));
        claim.requests.add(template.fit.overhead(types[0]));
    }
    spare[at].add(requests);
    claim.effective_cost += cost;
    claim.price = world.catalogue.offering(offering).price;
    (claim.types, claim.offering) = (types, offering);
    true
}

/// What a claim costs more that has room for so much besides its pods, with the types that are left
/// and the offering that is counted on.
fn next_larger(
    p: &CompiledCluster<'_>,
    claim: &PlannedClaim,
    spare: &Resources,
) -> Option<(f64, Vec<TypeId>, OfferingId)> {
    let catalogue = &p.snapshot.world.catalogue;
    let at = p
        .pools
        .iter()
        .position(|template| template.pool == claim.pool)?;
    let template = &p.pools[at];
    let scores = &p.states.scores[at];
    // What is scarce besides money stays as it was planned.
    let bound = !template.limits.is_empty()
        || template.nodes_left.is_some()
        || !template.min_values.is_empty();
    if bound || !scores.pools.is_empty() || template.reserved {
        return None;
    }
    let mut wanted = claim.requests.clone();
    wanted.sub(template.fit.overhead(*claim.types.first()?));
    wanted.add(spare);
    let fits = |t: &TypeId| {
        let mut all = wanted.clone();
        all.add(template.fit.overhead(*t));
        all.fits(&catalogue.instance_type(*t).allocatable)
    };
    let types: Vec<TypeId> = claim.types.iter().copied().filter(fits).collect();
    let cost = |o: OfferingId| scores.cost[o.0 as usize];
    let first = *types.first()?;
    let row = &catalogue.instance_type(first).offerings;
    let admitted = row
        .clone()
        .map(OfferingId)
        .filter(|&o| admits(p, claim, o) && cost(o).is_finite());
    let offering = admitted.min_by(|a, b| {
        let price = |o: OfferingId| catalogue.offering(o).price;
        cost(*a)
            .total_cmp(&cost(*b))
            .then(price(*a).total_cmp(&price(*b)))
    })?;
    Some((cost(offering) - claim.effective_cost, types, offering))
}

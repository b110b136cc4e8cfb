//! Room for what kube-scheduler does differently.
//!
//! A plan that is packed to the last millicore is realised only if every pod goes where it was
//! meant to. kube-scheduler is told so, but pods that must spread it places as it likes, and then
//! one or two of a hundred find their place taken. To buy a node for them afterwards costs more,
//! and makes them wait longer, than to have bought the next larger type in time. So a plan is
//! played through; where pods are left over, one of the nodes that would take them if they had room
//! becomes a little larger, the one for which that costs least; and so on until nobody is left
//! over, or it costs more than it saves.
//!
//! Of like pods that are left over only the first gets room at a time. A service that must spread
//! and is one pod short in one domain has a pod left over for every other domain too, and all of
//! them are helped by the one.

use rustc_hash::FxHashSet;

use crate::kube_scheduler::{NodeReadiness, SimulatedNode, SimulationResult, Simulator};
use crate::model::{OfferingId, Resources, TypeId};
use crate::plan::{Plan, PlannedClaim, PodIx};
use crate::schedule::first_fit::CompiledCluster;

use super::finish::{admits, settle};

/// Courses of events that leave nobody over are enough.
pub(super) const SCENARIOS: usize = 4;
/// Attempts to find enough room. Services that must spread over six zones, on nodes of four pods,
/// were seen to need thirty.
const ATTEMPTS: usize = 32;
/// A plan that leaves nobody over may cost this share more, even if that is more than what it
/// saves.
const WORTH: f64 = 0.03;
/// What a pod that kube-scheduler leaves over costs, in nodes of the plan's average cost. To buy
/// for it afterwards was seen to cost 0.06 to 0.3 of one; the rest is for its waiting.
const UNPLACED_PENALTY: f64 = 0.5;

/// What a plan costs with what is to be bought for pods that are left over: so many in all
/// [courses].
pub(super) fn expected_cost(plan: &Plan, left: usize) -> f64 {
    let each = plan.effective_cost / plan.claims.len().max(1) as f64;
    plan.effective_cost + UNPLACED_PENALTY * each * left as f64 / SCENARIOS as f64
}

/// The plan with so much more room that kube-scheduler, told of it, leaves nobody over, if that
/// costs no more than to buy for them afterwards, or hardly more; else with as much as makes it
/// cheapest in the end. `None` if it leaves nobody over as it is, or if room costs more than it
/// saves.
pub fn add_slack(p: &CompiledCluster<'_>, simulator: &Simulator<'_>, plan: &Plan) -> Option<Plan> {
    let mut spare = vec![Resources::default(); plan.claims.len()];
    let mut grown = plan.clone();
    let mut best: Option<Plan> = None;
    let (mut least, mut most) = (f64::INFINITY, plan.effective_cost * (1.0 + WORTH));
    for attempt in 0..ATTEMPTS {
        if p.stop.is_raised() {
            return None;
        }
        let courses: Vec<SimulationResult> = scenarios(simulator, &grown).collect();
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

//! Room for what kube-scheduler does differently.
//!
//! A plan that is packed to the last millicore is realised only if every pod goes where it was meant to. kube-scheduler
//! is told so, but pods that must spread it places as it likes, and then one or two of a hundred find their place taken.
//! To buy a node for them afterwards costs more, and makes them wait longer, than to have bought the next larger type in
//! time. So a plan is played through; where pods are left over, one of the nodes that would take them if they had room
//! becomes a little larger, the one for which that costs least; and so on until nobody is left over, or it costs too much.

use crate::kube_scheduler::{Arrival, Seat, Simulator, Survival};
use crate::model::{OfferingId, Resources, TypeId};
use crate::plan::{Plan, PlannedClaim, PodIx};
use crate::schedule::floor::Problem;

use super::finish::{admits, settle};

/// Courses of events that leave nobody over are enough.
pub(super) const COURSES: usize = 4;
/// Attempts to find enough room.
const ATTEMPTS: usize = 8;
/// A plan may cost this share more for it.
const WORTH: f64 = 0.03;

/// The plan with so much more room that kube-scheduler, told of it, leaves nobody over; `None` if it does so anyway, or
/// if that cannot be had at a price that is worth it.
pub fn sturdier(p: &Problem<'_>, simulator: &Simulator<'_>, plan: &Plan) -> Option<Plan> {
    let most = plan.effective * (1.0 + WORTH);
    let mut spare = vec![Resources::default(); plan.claims.len()];
    let mut grown: Option<Plan> = None;
    for _ in 0..ATTEMPTS {
        let courses: Vec<Survival> = courses(simulator, grown.as_ref().unwrap_or(plan)).collect();
        let worst = courses.iter().max_by_key(|course| course.left.len())?;
        if worst.is_whole() {
            return grown;
        }
        let current = grown.get_or_insert_with(|| plan.clone());
        let missing = worst.left.iter().zip(&worst.welcome);
        let helped = missing.filter(|(pod, seats)| grow(p, current, &mut spare, **pod, seats)).count();
        settle(p, current);
        // Half a remedy costs money and spares nobody the second purchase.
        if helped == 0 || current.effective > most {
            return None;
        }
    }
    None
}

/// What becomes of it when all nodes come up together, as those of one round do.
pub(super) fn courses<'s>(simulator: &'s Simulator<'_>, plan: &'s Plan) -> impl Iterator<Item = Survival> + 's {
    let together = (0..).filter(|seed| Arrival::of(*seed) == Arrival::Together);
    together.take(COURSES).map(|seed| simulator.survive_told(plan, seed))
}

/// Makes room for one more pod on one of the nodes that would take it: where that costs least. Says whether there was one.
fn grow(p: &Problem<'_>, plan: &mut Plan, spare: &mut [Resources], pod: PodIx, welcome: &[Seat]) -> bool {
    let world = &p.snapshot.world;
    let requests = &world.shapes.get(world.pods[pod.0 as usize].shape).requests;
    let mut best: Option<(f64, usize, Vec<TypeId>, OfferingId)> = None;
    for seat in welcome {
        let &Seat::New(at) = seat else { continue };
        let at = at as usize;
        let claim = &plan.claims[at];
        let mut wanted = spare[at].clone();
        wanted.add(requests);
        let Some((cost, types, offering)) = larger(p, claim, &wanted) else { continue };
        if best.as_ref().is_none_or(|b| cost < b.0) {
            best = Some((cost, at, types, offering));
        }
    }
    let Some((cost, at, types, offering)) = best else { return false };
    let claim = &mut plan.claims[at];
    let template = p.pools.iter().find(|t| t.pool == claim.pool);
    if let (Some(template), Some(first)) = (template, claim.types.first()) {
        claim.requests.sub(template.fit.overhead(*first));
        claim.requests.add(template.fit.overhead(types[0]));
    }
    spare[at].add(requests);
    claim.effective += cost;
    claim.price = world.catalogue.offering(offering).price;
    (claim.types, claim.offering) = (types, offering);
    true
}

/// What a claim costs more that has room for so much besides its pods, with the types that are left and the offering
/// that is counted on.
fn larger(p: &Problem<'_>, claim: &PlannedClaim, spare: &Resources) -> Option<(f64, Vec<TypeId>, OfferingId)> {
    let catalogue = &p.snapshot.world.catalogue;
    let at = p.pools.iter().position(|template| template.pool == claim.pool)?;
    let template = &p.pools[at];
    let scores = &p.states.scores[at];
    // What is scarce besides money stays as it was planned.
    let bound = !template.limits.is_empty() || template.nodes_left.is_some() || !template.min_values.is_empty();
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
    let admitted = row.clone().map(OfferingId).filter(|&o| admits(p, claim, o) && cost(o).is_finite());
    let offering = admitted.min_by(|a, b| {
        let price = |o: OfferingId| catalogue.offering(o).price;
        cost(*a).total_cmp(&cost(*b)).then(price(*a).total_cmp(&price(*b)))
    })?;
    Some((cost(offering) - claim.effective, types, offering))
}

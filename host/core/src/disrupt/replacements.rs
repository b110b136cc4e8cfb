//! What is bought in place of removed nodes: instance types, requirements and price of each NodeClaim.

use super::compiled::Compiled;
use crate::ids::PodIx;
use crate::model::{MinValuesPolicy, OfferingId, Resources, Symbol, TypeId};
use crate::plan::PlannedClaim;
use crate::schedule::bit_set::BitSet;
use crate::schedule::excluded::{Choice, leave_out};
use crate::schedule::first_fit::CompiledCluster;
use crate::schedule::fit::ResourceVector;
use crate::schedule::node_specs::NodeSpecId;
use crate::schedule::ranking::Ranking;
use crate::schedule::settled::{MOST_TYPES, settled};

/// A node to buy in place of others.
#[derive(Clone, Debug, PartialEq)]
pub struct Replacement {
    /// What is bought: the cheapest offering that it admits is counted on, and its types hold its
    /// pods and are cheap enough.
    pub claim: PlannedClaim,
    /// The most that any offering which it admits costs, USD per hour.
    pub worst_price: f64,
}

/// Why a replacement cannot be had as planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplacementError {
    /// What its pods ask for contradicts itself.
    #[error("its pods ask for labels that contradict each other")]
    Contradiction,
    /// No type is large and cheap enough.
    #[error("no instance type is large and cheap enough")]
    NoType,
    /// The NodePool's `minValues` are not met by the types that are cheap enough.
    #[error("too few values of a label are cheap enough for minValues")]
    MinValues(Symbol),
}

/// The replacement that an offer with these pods is. No offering that it admits costs `most` USD per
/// hour or more.
pub fn replacement(
    c: &mut Compiled<'_>,
    offer: usize,
    classes: &[(u32, u32)],
    pods: Vec<PodIx>,
    most: f64,
) -> Result<Replacement, ReplacementError> {
    let (pool, chosen) = (c.offers[offer].pool, c.offers[offer].offering);
    let mut spec = c.problem.pools[pool].initial;
    let mut total: ResourceVector = c.problem.dims.0.iter().map(|_| 0).collect();
    for &(class, count) in classes {
        let class = &c.classes[class as usize];
        total
            .iter_mut()
            .zip(&class.amount)
            .for_each(|(t, &a)| *t += a * i64::from(count));
        let specs = c.places[class.place].specs.clone();
        let of_pool = specs
            .iter()
            .copied()
            .find(|&s| c.problem.states.get(s).pool == pool);
        let joined = of_pool.and_then(|of_pool| c.problem.states.intersect(spec, of_pool));
        spec = joined.ok_or(ReplacementError::Contradiction)?;
    }
    let cannot = unusable_types(c, pool, classes, &pods);
    let p = &mut c.problem;
    let world = p.snapshot.world.clone();
    let (capacity, zone) = (
        world.names.get("karpenter.sh/capacity-type"),
        world.names.get("topology.kubernetes.io/zone"),
    );
    let of = world.catalogue.offering(chosen);
    // What is launched must not be of a dearer kind than what was counted on.
    if let Some((key, value)) = capacity.zip(of.capacity_type) {
        spec = p
            .states
            .pin(spec, key, value)
            .ok_or(ReplacementError::Contradiction)?;
    }
    let mut types = fitting(p, pool, spec, &total, most);
    types.and_not(&cannot);
    if !types.has(of.instance_type.0 as usize)
        && let Some((key, value)) = zone.zip(of.zone)
    {
        spec = p
            .states
            .pin(spec, key, value)
            .ok_or(ReplacementError::Contradiction)?;
        types = fitting(p, pool, spec, &total, most);
        types.and_not(&cannot);
    }
    if let Some(key) = p.too_few_values(spec, &types)
        && world.settings.min_values == MinValuesPolicy::Strict
    {
        return Err(ReplacementError::MinValues(key));
    }
    describe(p, pool, spec, &types, pods).ok_or(ReplacementError::NoType)
}

/// Types that cannot attach the volumes, or whose daemons bind a port of the pods.
fn unusable_types(c: &Compiled<'_>, pool: usize, classes: &[(u32, u32)], pods: &[PodIx]) -> BitSet {
    let p = &c.problem;
    let catalogue = &p.snapshot.world.catalogue;
    let mut cannot = BitSet::none(catalogue.types().len());
    let dims = p.dims.0.len();
    for (at, &driver) in c.drivers.iter().enumerate() {
        let of = |&(class, pods): &(u32, u32)| {
            c.classes[class as usize].amount[dims + at] * i64::from(pods)
        };
        let volumes: i64 = classes.iter().map(of).sum();
        for (t, kind) in catalogue.types().iter().enumerate() {
            let limit = kind.volume_limits.iter().find(|(of, _)| *of == driver);
            if limit.is_some_and(|&(_, limit)| i64::from(limit) < volumes) {
                cannot.insert(t);
            }
        }
    }
    for pod in pods {
        let ports = c
            .members
            .get(pod)
            .map(|of| p.items[of.group].ports.as_slice())
            .unwrap_or_default();
        if !ports.is_empty() {
            p.pools[pool]
                .fit
                .port_conflicts(ports)
                .iter()
                .for_each(|t| cannot.insert(t.0 as usize));
        }
    }
    cannot
}

/// Types that are large enough and never cost `most` or more.
fn fitting(
    p: &CompiledCluster<'_>,
    pool: usize,
    spec: NodeSpecId,
    total: &[i64],
    most: f64,
) -> BitSet {
    let mut types = p.states.get(spec).types.clone();
    p.pools[pool].fit.keep(&mut types, total);
    let dear: Vec<usize> = types
        .iter()
        .filter(|&t| worst(p, pool, spec, t).is_none_or(|w| w >= most))
        .collect();
    dear.into_iter().for_each(|t| types.remove(t));
    types
}

/// What a type costs at most, as an offering of this spec.
fn worst(p: &CompiledCluster<'_>, pool: usize, spec: NodeSpecId, t: usize) -> Option<f64> {
    let cells = p
        .states
        .get(spec)
        .cells
        .iter()
        .filter(|&cell| p.states.available(pool, cell).has(t));
    let price = |cell: usize| {
        let row = OfferingId(p.states.cells[cell].offerings[t]);
        p.snapshot.world.catalogue.offering(row).price
    };
    cells.map(price).max_by(f64::total_cmp)
}

fn describe(
    p: &CompiledCluster<'_>,
    pool: usize,
    spec: NodeSpecId,
    types: &BitSet,
    pods: Vec<PodIx>,
) -> Option<Replacement> {
    let world = &*p.snapshot.world;
    let ranked = Ranking::default().of(p, spec);
    let mut fitting = ranked.iter().filter(|(t, _)| types.has(t.0 as usize));
    let &(_, offering) = fitting.clone().next()?;
    let mut types: Vec<TypeId> = fitting.by_ref().take(MOST_TYPES).map(|r| r.0).collect();
    let worst_price = types
        .iter()
        .filter_map(|t| worst(p, pool, spec, t.0 as usize))
        .fold(0.0, f64::max);
    let (mut requirements, open) = settled(p, spec, &types);
    let choice = Choice {
        types: &mut types,
        requirements: &mut requirements,
        planned: offering,
    };
    leave_out(p, spec, choice);
    let mut requests = Resources::default();
    for pod in &pods {
        requests.add(&world.shapes.get(world.pods[pod.0 as usize].shape).requests);
    }
    let price = world.catalogue.offering(offering).price;
    let mut claim = PlannedClaim {
        pool: p.pools[pool].pool,
        offering,
        types,
        requirements,
        open,
        price,
        effective_cost: price,
        pods,
        requests,
        min_values_relaxed: false,
        discouraged_by: p.states.scores[pool].discouraged_by(offering.0).cloned(),
        dearer_at_same_price: false,
    };
    let costs = &p.states.scores[pool].cost;
    claim.dearer_at_same_price =
        claim.has_dearer_at_same_price(&world.catalogue, costs, costs[offering.0 as usize]);
    Some(Replacement { claim, worst_price })
}

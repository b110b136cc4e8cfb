//! Turns packed claims into planned ones: alternatives by cost, settled labels, the price.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::queue_order;
use crate::model::{OfferingId, Op, Symbol, TypeId};
use crate::plan::{NodeIx, Placement, Plan, PlannedClaim, PodIx, Refusal, Target, Unfit, Unplaced};
use crate::policy::{Draw, Scores};
use crate::schedule::excluded::{Choice, leave_out};
use crate::schedule::first_fit::{Assignment, CompiledCluster, OpenClaim, Packing};
use crate::schedule::node_specs::NodeSpecId;
use crate::schedule::ranking::Ranking;
use crate::schedule::refusal;
use crate::schedule::settled::{MOST_TYPES, settled};

/// The plan of a packing.
pub fn finish(p: &mut CompiledCluster<'_>, packing: Packing) -> Plan {
    let mut ranking = Ranking::default();
    let mut plan = Plan::default();
    let mut dropped: Vec<(PodIx, Vec<Arc<str>>)> = Vec::new();
    for claim in &packing.claims {
        match planned(p, claim, &mut ranking) {
            Some(claim) => plan.claims.push(claim),
            None => {
                let mut policies = Vec::new();
                for at in claim.types.iter() {
                    p.states.add_excluding(claim.state, at, &mut policies);
                }
                let pods = pods_of(p, claim).into_iter();
                dropped.extend(pods.map(|pod| (pod, policies.clone())));
            }
        }
    }
    draw(p, &mut plan);
    on_existing_nodes(p, &packing, &mut plan);
    unplaced(p, &packing, &mut plan, dropped);
    queue_order::interleave_domains(p, &mut plan);
    compare_at_same_price(p, &mut plan);
    sort(p, &mut plan);
    settle(p, &mut plan);
    plan
}

/// Totals that fit the claims.
pub(super) fn settle(p: &CompiledCluster<'_>, plan: &mut Plan) {
    // The sum of nothing is -0.0.
    plan.cost = plan
        .claims
        .iter()
        .map(|c| c.price)
        .fold(0.0, |sum, price| sum + price);
    let nodes = plan.claims.len() as f64 * p.snapshot.world.settings.node_cost;
    plan.effective_cost = plan.claims.iter().map(|c| c.effective_cost).sum::<f64>() + nodes;
}

/// Sets [`PlannedClaim::dearer_at_same_price`] once the offerings are final.
fn compare_at_same_price(p: &CompiledCluster<'_>, plan: &mut Plan) {
    let catalogue = &p.snapshot.world.catalogue;
    for claim in &mut plan.claims {
        let Some(template) = p.pools.iter().position(|t| t.pool == claim.pool) else {
            continue;
        };
        let costs = &p.states.scores[template].cost;
        claim.dearer_at_same_price =
            claim.has_dearer_at_same_price(catalogue, costs, claim.effective_cost);
    }
}

fn pods_of(p: &CompiledCluster<'_>, claim: &OpenClaim) -> Vec<PodIx> {
    let of = |m: &Assignment| &p.items[m.pod_group].pods[m.pods.0 as usize..m.pods.1 as usize];
    claim.members.iter().flat_map(of).copied().collect()
}

/// The NodeClaim of an open claim: its instance types and offering, cheapest first, and what of its
/// requirements is settled. Nothing if a limit or a policy leaves no type.
fn planned(
    p: &mut CompiledCluster<'_>,
    claim: &OpenClaim,
    ranking: &mut Ranking,
) -> Option<PlannedClaim> {
    let spec = pin_reservations(p, claim);
    let ranked = ranking.of(p, spec);
    let fitting: Vec<(TypeId, OfferingId)> = ranked
        .iter()
        .filter(|(t, _)| claim.types.has(t.0 as usize))
        .copied()
        .collect();
    let &(_, offering) = fitting.first()?;
    let mut types: Vec<TypeId> = fitting.iter().take(MOST_TYPES).map(|f| f.0).collect();
    let (mut requirements, mut open) = settled(p, spec, &types);
    let choice = Choice {
        types: &mut types,
        requirements: &mut requirements,
        planned: offering,
    };
    leave_out(p, spec, choice);
    // That a label is absent because nothing gives it is no requirement.
    let pool = p.states.get(p.pools[claim.pool].initial);
    let asks = |key: Symbol| {
        let mut needs = claim
            .members
            .iter()
            .map(|m| p.states.need_sets(m.requirements));
        pool.sets.get(key).is_some() || needs.any(|need| need.get(key).is_some())
    };
    open.retain(|r| r.op != Op::DoesNotExist || asks(r.key));
    let mut requests = p.pools[claim.pool].fit.overhead(types[0]).clone();
    for m in &claim.members {
        (m.pods.0..m.pods.1).for_each(|_| requests.add(&p.items[m.pod_group].shape.requests));
    }
    let s = p.states.get(spec);
    Some(PlannedClaim {
        pool: p.pools[claim.pool].pool,
        offering,
        types,
        requirements,
        open,
        price: p.snapshot.world.catalogue.offering(offering).price,
        effective_cost: p.states.scores[s.pool].cost[offering.0 as usize],
        pods: pods_of(p, claim),
        requests,
        min_values_relaxed: claim.min_values_relaxed,
        discouraged_by: p.states.scores[s.pool].discouraged_by(offering.0).cloned(),
        dearer_at_same_price: false,
    })
}

/// A claim that holds reservations is launched from them and from nothing else.
fn pin_reservations(p: &mut CompiledCluster<'_>, claim: &OpenClaim) -> NodeSpecId {
    let names = &p.snapshot.world.names;
    let pin = names
        .get("karpenter.sh/capacity-type")
        .zip(names.get("reserved"));
    match pin {
        Some((key, value)) if !claim.reserved.is_empty() => {
            p.states.pin(claim.state, key, value).unwrap_or(claim.state)
        }
        _ => claim.state,
    }
}

/// Gives commitments to the claims that save most by them, for as long as they last.
fn draw(p: &CompiledCluster<'_>, plan: &mut Plan) {
    let mut left: FxHashMap<(u32, &str), f64> = FxHashMap::default();
    for pool in p.states.scores.iter().flat_map(|s| &s.pools) {
        left.entry((pool.owner, &pool.name))
            .and_modify(|l| *l = l.min(pool.remaining))
            .or_insert(pool.remaining);
    }
    if left.is_empty() {
        return;
    }
    let by_offering: Vec<_> = p.states.scores.iter().map(draws_by_offering).collect();
    let mut savings: Vec<Saving<'_>> = Vec::new();
    for (at, claim) in plan.claims.iter().enumerate() {
        let Some(template) = p.pools.iter().position(|t| t.pool == claim.pool) else {
            continue;
        };
        let scores = &p.states.scores[template];
        for (offering, draws) in &by_offering[template] {
            // Most offerings save nothing, which is quicker to see than that a claim admits them.
            let saves = |draw: &Draw| draw.cost < claim.effective_cost;
            if draws.iter().any(|(_, draw)| saves(draw)) && admits(p, claim, *offering) {
                let numbered = draws.iter().enumerate();
                let numbered = numbered.filter(|(_, (_, draw))| saves(draw));
                savings.extend(numbered.map(|(order, &(whose, draw))| Saving {
                    usd: claim.effective_cost - draw.cost,
                    claim: at,
                    whose,
                    before: &draws[..order],
                    outside: scores.cost[offering.0 as usize],
                    draw,
                }));
            }
        }
    }
    savings.sort_by(|a, b| {
        let same = || (a.claim, a.draw.offering).cmp(&(b.claim, b.draw.offering));
        b.usd.total_cmp(&a.usd).then_with(same)
    });
    let mut drawn = vec![false; plan.claims.len()];
    loop {
        let (mut waits, mut draws) = (false, false);
        for saving in &savings {
            let enough = left.get(&saving.whose) >= Some(&saving.draw.amount);
            if drawn[saving.claim] || !enough {
                continue;
            }
            let claim = &mut plan.claims[saving.claim];
            if saving.waits(&left) {
                waits = true;
                continue;
            }
            left.entry(saving.whose)
                .and_modify(|rest| *rest -= saving.draw.amount);
            (drawn[saving.claim], draws) = (true, true);
            let offering = p.snapshot.world.catalogue.offering(saving.draw.offering);
            claim.types.retain(|&t| t != offering.instance_type);
            claim.types.insert(0, offering.instance_type);
            (claim.offering, claim.price, claim.effective_cost) =
                (saving.draw.offering, offering.price, saving.draw.cost);
        }
        // What came before is used up by now, perhaps.
        if !waits || !draws {
            break;
        }
    }
}

/// A commitment: whose it is, and its name.
type Owned<'a> = (u32, &'a str);

/// For each offering the commitments that it may draw on, in the order of the answer.
fn draws_by_offering(scores: &Scores) -> BTreeMap<OfferingId, Vec<(Owned<'_>, Draw)>> {
    let mut all: BTreeMap<OfferingId, Vec<(Owned<'_>, Draw)>> = BTreeMap::new();
    for pool in &scores.pools {
        for draw in &pool.draws {
            let of = all.entry(draw.offering).or_default();
            of.push(((pool.owner, pool.name.as_str()), *draw));
        }
    }
    all
}

/// What a claim would save as an offering that draws on a commitment.
struct Saving<'a> {
    /// The saving in USD per hour.
    usd: f64,
    /// Position of the claim in the plan.
    claim: usize,
    whose: Owned<'a>,
    /// The commitments of the offering that come before it in the answer.
    before: &'a [(Owned<'a>, Draw)],
    /// What the offering costs without a commitment, USD per hour.
    outside: f64,
    draw: Draw,
}

impl Saving<'_> {
    /// Whether a commitment that comes before it has enough for the same offering, for less than it
    /// costs outside.
    fn waits(&self, left: &FxHashMap<Owned<'_>, f64>) -> bool {
        self.before
            .iter()
            .any(|(whose, draw)| draw.cost < self.outside && left.get(whose) >= Some(&draw.amount))
    }
}

/// Whether a claim may be launched as an offering.
pub(super) fn admits(p: &CompiledCluster<'_>, claim: &PlannedClaim, offering: OfferingId) -> bool {
    let o = p.snapshot.world.catalogue.offering(offering);
    let allowed = |key: Symbol, value: Symbol| {
        claim
            .requirements
            .iter()
            .find(|(k, _)| *k == key)
            .is_none_or(|(_, values)| values.contains(&value))
    };
    o.available
        && claim.types.contains(&o.instance_type)
        && o.requirements.iter().all(|r| match &r.op {
            Op::In(values) => values.iter().any(|&v| allowed(r.key, v)),
            _ => true,
        })
}

/// Everything in an order that does not depend on the order of the input: pods by name, claims by
/// NodePool, offering and pods, nodes as the snapshot has them.
fn sort(p: &CompiledCluster<'_>, plan: &mut Plan) {
    let world = &p.snapshot.world;
    let name = |pod: &PodIx| {
        let pod = &world.pods[pod.0 as usize];
        (
            world.names.text(world.shapes.get(pod.shape).namespace),
            &*pod.name,
        )
    };
    let pods = plan
        .claims
        .iter_mut()
        .map(|c| &mut c.pods)
        .chain(plan.on_existing_nodes.iter_mut().map(|e| &mut e.pods));
    pods.for_each(|pods| pods.sort_by(|a, b| name(a).cmp(&name(b))));
    plan.unplaced
        .sort_by(|a, b| name(&a.pod).cmp(&name(&b.pod)));
    plan.on_existing_nodes.sort_by_key(|e| e.node);
    plan.claims.sort_by(|a, b| {
        let pool = |c: &PlannedClaim| world.names.text(world.pools[c.pool.0 as usize].name);
        pool(a)
            .cmp(pool(b))
            .then(a.offering.cmp(&b.offering))
            .then_with(|| a.pods.iter().map(name).cmp(b.pods.iter().map(name)))
    });
}

fn on_existing_nodes(p: &CompiledCluster<'_>, packing: &Packing, plan: &mut Plan) {
    for (&node, members) in &packing.existing {
        let pods = members
            .iter()
            .flat_map(|m| &p.items[m.pod_group].pods[m.pods.0 as usize..m.pods.1 as usize]);
        plan.on_existing_nodes.push(Placement {
            node: NodeIx(node as u32),
            pods: pods.copied().collect(),
        });
    }
}

fn unplaced(
    p: &mut CompiledCluster<'_>,
    packing: &Packing,
    plan: &mut Plan,
    dropped: Vec<(PodIx, Vec<Arc<str>>)>,
) {
    let alone = |unfit: Unfit| {
        vec![Refusal {
            target: Target::Pod,
            unfit,
        }]
    };
    for pod in &p.snapshot.pending {
        if let Some(unfit) = &pod.unfit {
            plan.unplaced.push(Unplaced {
                pod: pod.pod,
                refusals: alone(unfit.clone()),
            });
        }
    }
    for (pod, policies) in dropped {
        plan.unplaced.push(Unplaced {
            pod,
            refusals: alone(Unfit::Excluded { policies }),
        });
    }
    for index in 0..p.items.len() {
        let from = packing.placed[index] as usize;
        if from == p.items[index].pods.len() {
            continue;
        }
        let refusals = refusal::by_pools(p, packing, index);
        for &pod in &p.items[index].pods[from..] {
            plan.unplaced.push(Unplaced {
                pod,
                refusals: refusals.clone(),
            });
        }
    }
}

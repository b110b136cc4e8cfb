//! Bin types for a set of classes: offerings by the classes that they admit, without dominated
//! ones.

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::classes::Classes;
use crate::model::{OfferingId, TypeId};
use crate::schedule::bit_set::BitSet;
use crate::schedule::first_fit::CompiledCluster;
use crate::schedule::fit::ResourceVector;

/// Something to buy.
#[derive(Clone, Debug)]
pub struct BinType {
    /// Position of the NodePool.
    pub pool: usize,
    /// Index into the catalogue's types.
    pub instance_type: TypeId,
    /// Index into the catalogue's offerings.
    pub offering: OfferingId,
    /// Effective cost and the cost of a node, USD per hour.
    pub cost: f64,
    /// The commitment that it draws on, position in [`BinTypes::commitments`], and how much it
    /// takes.
    pub draw: Option<(usize, f64)>,
    /// The commitments that come before it, and what they would give up: as long as one of them has
    /// enough, the offering draws on that.
    pub before: Arc<[(usize, f64)]>,
    /// What it leaves to pods.
    pub room: ResourceVector,
    /// Which homes it is one for: position in [`BinTypes::admits`].
    pub admits: usize,
}

/// Everything worth buying.
#[derive(Clone, Debug, Default)]
pub struct BinTypes {
    /// Worth buying, each with the places that it is one for.
    pub offers: Vec<BinType>,
    /// Sets of homes.
    pub admits: Vec<BitSet>,
    /// What is left of each commitment.
    pub commitments: Vec<f64>,
}

/// How commitments count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Commitments {
    /// For as long as they last.
    Limited,
    /// As if they never ran out: for a lower bound.
    Unlimited,
}

impl BinTypes {
    /// Offers for these classes: available, not excluded, of use to at least one home, and not
    /// beaten by one that admits as much, has as much room and costs no more.
    pub fn new(p: &CompiledCluster<'_>, classes: &Classes, commitments: Commitments) -> Self {
        let mut market = BinTypes::default();
        let mut groups: IndexMap<(usize, BitSet), Vec<BinType>, FxBuildHasher> =
            IndexMap::default();
        let node_cost = p.snapshot.world.settings.node_cost;
        let inside = committed_costs(p, &mut market.commitments);
        for (pool, inside) in inside.iter().enumerate() {
            let specs: Vec<(usize, _)> = classes
                .compatibilities
                .iter()
                .enumerate()
                .flat_map(|(at, home)| home.specs.iter().map(move |&s| (at, s)))
                .filter(|&(_, s)| p.states.get(s).pool == pool)
                .collect();
            for (cell, of_cell) in p.states.cells.iter().enumerate() {
                let here: Vec<_> = specs
                    .iter()
                    .filter(|(_, s)| p.states.get(*s).cells.has(cell))
                    .collect();
                if here.is_empty() {
                    continue;
                }
                let types: Vec<&BitSet> =
                    here.iter().map(|(_, s)| &p.states.get(*s).types).collect();
                // Types that the same of these specs admit share a group: most do.
                let mut by_admitted: FxHashMap<BitSet, usize> = FxHashMap::default();
                let mut admitted = BitSet::none(here.len());
                let usable = p.states.available(pool, cell).iter();
                for t in usable.filter(|&t| p.pools[pool].fit.holds_daemons(t)) {
                    admitted.clear();
                    let admitting = types.iter().enumerate().filter(|(_, types)| types.has(t));
                    admitting.for_each(|(at, _)| admitted.insert(at));
                    if admitted.is_empty() {
                        continue;
                    }
                    let group = match by_admitted.get(&admitted) {
                        Some(&group) => group,
                        None => {
                            let mut mask = BitSet::none(classes.compatibilities.len());
                            admitted.iter().for_each(|at| mask.insert(here[at].0));
                            let entry = groups.entry((pool, mask));
                            let group = entry.index();
                            entry.or_default();
                            by_admitted.insert(admitted.clone(), group);
                            group
                        }
                    };
                    let Some(room) = p.pools[pool].fit.net(t) else {
                        continue;
                    };
                    let row = of_cell.offerings[t];
                    let outside = p.states.scores[pool].cost[row as usize];
                    let inside = inside.get(&row).map_or(&[][..], Vec::as_slice);
                    let drawn = inside.iter().filter(|d| d.cost < outside);
                    let offers = &mut groups[group];
                    let offer = |cost: f64, draw, before| BinType {
                        pool,
                        instance_type: TypeId(t as u32),
                        offering: OfferingId(row),
                        cost: cost + node_cost,
                        draw,
                        before,
                        room: room.clone(),
                        admits: 0,
                    };
                    let least = drawn.clone().map(|d| d.cost).reduce(f64::min);
                    match (least, commitments) {
                        (Some(cost), Commitments::Unlimited) => {
                            offers.push(offer(cost, None, Arc::default()));
                        }
                        (Some(_), Commitments::Limited) => {
                            let all: Vec<_> = drawn.map(|d| (d.cost, d.takes)).collect();
                            for (at, &(cost, takes)) in all.iter().enumerate() {
                                let before = all[..at].iter().map(|of| of.1).collect();
                                offers.push(offer(cost, Some(takes), before));
                            }
                        }
                        (None, _) => {}
                    }
                    if outside.is_finite()
                        && !(least.is_some() && commitments == Commitments::Unlimited)
                    {
                        offers.push(offer(outside, None, Arc::default()));
                    }
                }
            }
        }
        for ((_, admits), offers) in groups {
            let at = market.admits.len();
            market.admits.push(admits);
            market.offers.extend(
                non_dominated(offers)
                    .into_iter()
                    .map(|o| BinType { admits: at, ..o }),
            );
        }
        market.prune_dominated();
        market
    }

    /// Drops offers beaten by one that admits more.
    fn prune_dominated(&mut self) {
        let wider = |a: usize, b: usize| {
            let (a, b) = (self.admits[a].words(), self.admits[b].words());
            a.iter().zip(b).all(|(x, y)| x & !y == 0)
        };
        let count = self.admits.len();
        // A group is of one NodePool, and offers are compared within it.
        let mut by_pool: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        let mut pool_of = vec![usize::MAX; count];
        for offer in &self.offers {
            if pool_of[offer.admits] == usize::MAX {
                pool_of[offer.admits] = offer.pool;
                by_pool.entry(offer.pool).or_default().push(offer.admits);
            }
        }
        let above: Vec<Vec<usize>> = (0..count)
            .map(|a| {
                let others = by_pool.get(&pool_of[a]).into_iter().flatten().copied();
                others.filter(|&b| a != b && wider(a, b)).collect()
            })
            .collect();
        let mut by_group: Vec<Vec<usize>> = vec![Vec::new(); count];
        self.offers
            .iter()
            .enumerate()
            .for_each(|(at, o)| by_group[o.admits].push(at));
        let is_beaten = |o: &BinType| {
            let better = above[o.admits].iter().flat_map(|&g| &by_group[g]);
            better.into_iter().any(|&b| {
                let b = &self.offers[b];
                b.pool == o.pool && dominates(b, o) && (b.cost < o.cost || b.room != o.room)
            })
        };
        let keep: Vec<bool> = self.offers.iter().map(|o| !is_beaten(o)).collect();
        let mut at = 0;
        self.offers.retain(|_| {
            at += 1;
            keep[at - 1]
        });
    }
}

/// How an offering draws on a commitment.
struct CommittedCost {
    /// Which, and how much it takes.
    takes: (usize, f64),
    cost: f64,
}

/// Draws by NodePool and row, in the order of the answers. A commitment of several NodePools is
/// identified by its name, which is its owner's alone.
fn committed_costs(
    p: &CompiledCluster<'_>,
    commitments: &mut Vec<f64>,
) -> Vec<FxHashMap<u32, Vec<CommittedCost>>> {
    let mut names: Vec<(u32, &str)> = Vec::new();
    let mut all = Vec::new();
    for scores in &p.states.scores {
        let mut of_pool: FxHashMap<u32, Vec<CommittedCost>> = FxHashMap::default();
        for pool in &scores.pools {
            let whose = (pool.owner, pool.name.as_str());
            let known = names.iter().position(|name| *name == whose);
            let commitment = known.unwrap_or_else(|| {
                names.push(whose);
                commitments.push(pool.remaining);
                names.len() - 1
            });
            for d in pool.draws.iter().filter(|d| d.amount <= pool.remaining) {
                let (takes, cost) = ((commitment, d.amount), d.cost);
                let draws = of_pool.entry(d.offering.0).or_default();
                draws.push(CommittedCost { takes, cost });
            }
        }
        all.push(of_pool);
    }
    all
}

fn dominates(a: &BinType, b: &BinType) -> bool {
    a.draw.is_none() && a.cost <= b.cost && a.room.iter().zip(&b.room).all(|(x, y)| x >= y)
}

/// Offers that none of the others beats, cheapest first.
fn non_dominated(offers: Vec<BinType>) -> Vec<BinType> {
    let mut cheapest_first: Vec<&BinType> = offers.iter().collect();
    cheapest_first.sort_unstable_by(|a, b| {
        a.cost
            .total_cmp(&b.cost)
            .then_with(|| b.room.cmp(&a.room))
            .then(a.offering.cmp(&b.offering))
            .then_with(|| a.draw.is_some().cmp(&b.draw.is_some()))
    });
    let mut kept: Vec<&BinType> = Vec::new();
    for offer in cheapest_first {
        if !kept.iter().any(|k| dominates(k, offer)) {
            kept.push(offer);
        }
    }
    kept.into_iter().cloned().collect()
}

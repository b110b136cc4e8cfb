//! What can be bought for a set of classes: offerings by what they admit, those that another one beats left out.

use rustc_hash::FxHashMap;

use super::classes::Classes;
use crate::model::{OfferingId, TypeId};
use crate::schedule::bits::Bits;
use crate::schedule::fit::Amounts;
use crate::schedule::floor::Problem;

/// Something to buy.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Position of the NodePool.
    pub pool: usize,
    /// The instance type.
    pub instance_type: TypeId,
    /// The offering.
    pub offering: OfferingId,
    /// Effective cost and the cost of a node, USD per hour.
    pub cost: f64,
    /// The commitment that it draws on, position in [`Market::commitments`], and how much it takes.
    pub draw: Option<(usize, f64)>,
    /// What it leaves to pods.
    pub room: Amounts,
    /// Which homes it is one for: position in [`Market::admits`].
    pub admits: usize,
}

/// Everything worth buying.
#[derive(Clone, Debug, Default)]
pub struct Market {
    /// Offers.
    pub offers: Vec<Offer>,
    /// Sets of homes.
    pub admits: Vec<Bits>,
    /// What is left of each commitment.
    pub commitments: Vec<f64>,
}

/// How commitments count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Commitments {
    /// For as long as they last.
    Limited,
    /// As if they never ran out: for a lower bound.
    Endless,
}

impl Market {
    /// Offers for these classes: available, not excluded, of use to at least one home, and not beaten by one that
    /// admits as much, has as much room and costs no more.
    pub fn new(p: &Problem<'_>, classes: &Classes, commitments: Commitments) -> Self {
        let mut market = Market::default();
        let mut groups: FxHashMap<(usize, Bits), Vec<Offer>> = FxHashMap::default();
        let mut order: Vec<(usize, Bits)> = Vec::new();
        let node_cost = p.snapshot.world.settings.node_cost;
        let inside = inside_costs(p, &mut market.commitments);
        for (pool, inside) in inside.iter().enumerate() {
            let states: Vec<(usize, _)> = classes
                .homes
                .iter()
                .enumerate()
                .flat_map(|(at, home)| home.states.iter().map(move |&s| (at, s)))
                .filter(|&(_, s)| p.states.get(s).pool == pool)
                .collect();
            for (cell, of_cell) in p.states.cells.iter().enumerate() {
                let here: Vec<_> = states.iter().filter(|(_, s)| p.states.get(*s).cells.has(cell)).collect();
                if here.is_empty() {
                    continue;
                }
                let mut by_types: FxHashMap<Vec<bool>, Bits> = FxHashMap::default();
                for t in p.states.available(pool, cell).iter() {
                    let admits: Vec<bool> = here.iter().map(|(_, s)| p.states.get(*s).types.has(t)).collect();
                    if !admits.contains(&true) {
                        continue;
                    }
                    let mask = by_types.entry(admits).or_insert_with_key(|admits| {
                        let mut mask = Bits::none(classes.homes.len());
                        here.iter().zip(admits).filter(|(_, a)| **a).for_each(|((at, _), _)| mask.insert(*at));
                        mask
                    });
                    let row = of_cell.rows[t];
                    let outside = p.states.scores[pool].cost[row as usize];
                    let drawn = inside.get(&row).filter(|d| d.cost < outside);
                    let key = (pool, mask.clone());
                    let offers = groups.entry(key.clone()).or_insert_with(|| {
                        order.push(key);
                        Vec::new()
                    });
                    let offer = |cost: f64, draw| Offer {
                        pool,
                        instance_type: TypeId(t as u32),
                        offering: OfferingId(row),
                        cost: cost + node_cost,
                        draw,
                        room: p.pools[pool].fit.net[t].clone(),
                        admits: 0,
                    };
                    match (drawn, commitments) {
                        (Some(d), Commitments::Endless) => offers.push(offer(d.cost, None)),
                        (Some(d), Commitments::Limited) => offers.push(offer(d.cost, Some((d.commitment, d.amount)))),
                        (None, _) => {}
                    }
                    if outside.is_finite() && !(drawn.is_some() && commitments == Commitments::Endless) {
                        offers.push(offer(outside, None));
                    }
                }
            }
        }
        for key in order {
            let offers = groups.remove(&key).unwrap_or_default();
            let at = market.admits.len();
            market.admits.push(key.1);
            market.offers.extend(unbeaten(offers).into_iter().map(|o| Offer { admits: at, ..o }));
        }
        market.drop_beaten_across();
        market
    }

    /// Drops offers beaten by one that admits more.
    fn drop_beaten_across(&mut self) {
        let wider = |a: usize, b: usize| {
            let (a, b) = (self.admits[a].words(), self.admits[b].words());
            a.iter().zip(b).all(|(x, y)| x & !y == 0)
        };
        let count = self.admits.len();
        let above: Vec<Vec<usize>> =
            (0..count).map(|a| (0..count).filter(|&b| a != b && wider(a, b)).collect()).collect();
        let mut by_group: Vec<Vec<usize>> = vec![Vec::new(); count];
        self.offers.iter().enumerate().for_each(|(at, o)| by_group[o.admits].push(at));
        let is_beaten = |o: &Offer| {
            let better = above[o.admits].iter().flat_map(|&g| &by_group[g]);
            better.into_iter().any(|&b| {
                let b = &self.offers[b];
                b.pool == o.pool && beats(b, o) && (b.cost < o.cost || b.room != o.room)
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
struct Inside {
    commitment: usize,
    amount: f64,
    cost: f64,
}

/// Draws by NodePool and row. A commitment that several NodePools see is one by its name.
fn inside_costs(p: &Problem<'_>, commitments: &mut Vec<f64>) -> Vec<FxHashMap<u32, Inside>> {
    let mut names: Vec<&str> = Vec::new();
    let mut all = Vec::new();
    for scores in &p.states.scores {
        let mut of_pool: FxHashMap<u32, Inside> = FxHashMap::default();
        for pool in &scores.pools {
            let commitment = names.iter().position(|n| *n == pool.name).unwrap_or_else(|| {
                names.push(&pool.name);
                commitments.push(pool.remaining);
                names.len() - 1
            });
            for d in pool.draws.iter().filter(|d| d.amount <= pool.remaining) {
                of_pool.insert(d.offering.0, Inside { commitment, amount: d.amount, cost: d.cost });
            }
        }
        all.push(of_pool);
    }
    all
}

fn beats(a: &Offer, b: &Offer) -> bool {
    a.draw.is_none() && a.cost <= b.cost && a.room.iter().zip(&b.room).all(|(x, y)| x >= y)
}

/// Offers that none of the others beats, cheapest first.
fn unbeaten(mut offers: Vec<Offer>) -> Vec<Offer> {
    offers
        .sort_by(|a, b| a.cost.total_cmp(&b.cost).then_with(|| b.room.cmp(&a.room)).then(a.offering.cmp(&b.offering)));
    let mut kept: Vec<Offer> = Vec::new();
    for offer in offers {
        if !kept.iter().any(|k| beats(k, &offer)) {
            kept.push(offer);
        }
    }
    kept
}

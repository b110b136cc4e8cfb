//! Prices of pods: a linear program over ways to fill a node, solved by column generation.
//!
//! It minimises the cost of fractional nodes, each with one way to fill it, so that every class is
//! covered. Its dual prices are the marginal cost of one pod of each class. The program starts from
//! nodes filled with one class only. Each round fills every bin type greedily by the current prices
//! and adds fillings that are worth more than they cost.
//!
//! # The lower bound
//!
//! Let `π ≥ 0` be any prices of classes, `n_k` the number of pods, and for an offer `o` of cost
//! `c_o` let `U_o` be at least `Σ π_k x_k` for every contents `x` that fit `o`. Any plan buys some
//! offers, and the contents of each fit it. So with `s = min(1, min_o c_o / U_o)` its cost is `Σ
//! c_o ≥ s Σ U_o ≥ s Σ_o Σ_k π_k x_k ≥ s Σ_k π_k n_k`. The classes here require no more than every
//! plan must give (no preferences, no topology but exclusion from a host), so this holds for every
//! plan.
//!
//! `U_o` comes from [`knapsack`](super::knapsack).

use super::bin_types::{BinType, BinTypes};
use super::classes::Classes;
use super::fill::{Chosen, Filler};
use super::knapsack::max_count;
use crate::stop::Stop;

/// Prices of classes and what follows from them.
#[derive(Clone, Debug, Default)]
pub struct Duals {
    /// USD per hour of one pod, by class: the prices that gave the bound.
    pub values: Vec<f64>,
    /// The same as the last restricted program had it; the truth lies between.
    pub last: Vec<f64>,
    /// USD per hour of one unit of each resource, at the price of most pods.
    pub scarcity: Vec<f64>,
    /// Lower bound of the objective, USD per hour.
    pub bound: f64,
}

/// A way to fill an offer: pods by class.
struct Column {
    cost: f64,
    pods: Vec<(u32, f64)>,
}

/// Solves with at most `rounds` rounds of column generation, fewer if it is stopped.
pub fn solve(classes: &Classes, market: &BinTypes, rounds: usize, stop: Stop<'_>) -> Duals {
    if classes.classes.is_empty() || market.offers.is_empty() {
        let none = vec![0.0; classes.classes.len()];
        return Duals {
            values: none.clone(),
            last: none,
            ..Duals::default()
        };
    }
    let left: Vec<u32> = classes.host_classes.iter().map(|s| s.count).collect();
    let mut master = RestrictedMaster::new(classes, market);
    let (first, scarcity) = resource_prices(classes, market);
    let mut filler = Filler::new(classes, market, &first, &scarcity, 2);
    let mut picks: Vec<Chosen> = Vec::new();
    let mut best = Duals {
        values: master.prices.clone(),
        ..Duals::default()
    };
    let mut center = first;
    let mut trust = 0.0;
    for _ in 0..rounds {
        if stop.is_raised() {
            break;
        }
        // Prices of the restricted program jump about; prices between them and the best so far find
        // better columns.
        let prices: Vec<f64> = center
            .iter()
            .zip(&master.prices)
            .map(|(c, m)| (c + trust * (m - c)).max(0.0))
            .collect();
        filler.revalue(&prices, 2);
        let (bound, scale) = bound(classes, market, &mut filler, &prices, 6);
        if bound > best.bound {
            center = prices.iter().map(|p| p * scale).collect();
            best = Duals {
                values: center.clone(),
                bound,
                ..Duals::default()
            };
            trust = f64::min(0.5, trust * 1.5);
        } else {
            trust *= 0.7;
        }
        trust = f64::max(trust, 0.1);
        if best.bound > master.value() * (1.0 - 5e-3) {
            break;
        }
        let mut found: Vec<(f64, Column)> = Vec::new();
        for (at, offer) in market.offers.iter().enumerate() {
            filler.fill(at, &left, &prices, &mut picks);
            let column = column(classes, offer.cost, &picks);
            let gain = master.gain(&column) / offer.cost.max(1e-9);
            if gain > 1e-6 {
                found.push((gain, column));
            }
        }
        if found.is_empty() {
            if trust == 1.0 {
                break;
            }
            trust = 1.0;
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.truncate(classes.classes.len() + 16);
        master.columns.extend(found.into_iter().map(|f| f.1));
        master.optimise();
    }
    best.last = master.prices;
    best.scarcity = scarcity;
    best
}

fn column(classes: &Classes, cost: f64, picks: &[Chosen]) -> Column {
    let mut pods: Vec<(u32, f64)> = Vec::with_capacity(picks.len());
    for &(sub, count) in picks {
        let class = classes.host_classes[sub as usize].class;
        match pods.last_mut() {
            Some((c, n)) if *c == class => *n += f64::from(count),
            _ => pods.push((class, f64::from(count))),
        }
    }
    Column { cost, pods }
}

/// First prices: what the resources of a pod cost where nodes can be bought by the slice and each
/// resource of a slice given to whichever set of demands on labels pays most. Solved to the end:
/// every offer's best split is a column. Returns prices of classes, and of a unit of each resource
/// for the class with the most cores.
fn resource_prices(classes: &Classes, market: &BinTypes) -> (Vec<f64>, Vec<f64>) {
    let dims = market.offers[0].room.len();
    let homes = classes.compatibilities.len();
    let mut demand = vec![0.0; homes * dims];
    for class in &classes.classes {
        let of_home = &mut demand[class.compatibility * dims..(class.compatibility + 1) * dims];
        of_home
            .iter_mut()
            .zip(&class.amount)
            .for_each(|(d, &a)| *d += a as f64 * f64::from(class.count));
    }
    let asked: Vec<usize> = (0..demand.len()).filter(|&at| demand[at] > 0.0).collect();
    let mut row_of = vec![usize::MAX; demand.len()];
    asked
        .iter()
        .enumerate()
        .for_each(|(row, &at)| row_of[at] = row);
    // Demands are scaled to one each, so that bytes and cores weigh alike in the arithmetic.
    let supply = |offer: &BinType, at: usize| offer.room[at % dims].max(0) as f64 / demand[at];
    let start = asked.iter().map(|&at| {
        let fitting = market
            .offers
            .iter()
            .filter(|o| market.admits[o.admits].has(at / dims) && supply(o, at) > 0.0);
        let best =
            fitting.min_by(|a, b| (a.cost / supply(a, at)).total_cmp(&(b.cost / supply(b, at))));
        best.map_or((1e9, 1.0), |o| (o.cost, supply(o, at)))
    });
    let mut master =
        RestrictedMaster::from_singles(start.map(|(cost, supply)| (cost, supply, 1.0)));
    for _ in 0..60 {
        let mut found: Vec<Column> = Vec::new();
        for offer in &market.offers {
            let dearest = |d: usize| {
                let of_homes = (0..homes)
                    .filter(|&h| market.admits[offer.admits].has(h))
                    .map(|h| h * dims + d);
                let rows = of_homes.filter(|&at| row_of[at] != usize::MAX);
                let worth = |at: usize| master.prices[row_of[at]] * supply(offer, at);
                rows.max_by(|&a, &b| worth(a).total_cmp(&worth(b)).then(b.cmp(&a)))
            };
            let pods = (0..dims)
                .filter_map(dearest)
                .map(|at| (row_of[at] as u32, supply(offer, at)))
                .collect();
            let column = Column {
                cost: offer.cost,
                pods,
            };
            if master.gain(&column) > 1e-6 * offer.cost {
                found.push(column);
            }
        }
        if found.is_empty() {
            break;
        }
        master.columns.extend(found);
        master.optimise();
    }
    let mut prices = vec![0.0; demand.len()];
    asked
        .iter()
        .zip(&master.prices)
        .for_each(|(&at, p)| prices[at] = p.max(0.0) / demand[at]);
    let price = |c: &super::classes::SizeClass| -> f64 {
        c.amount
            .iter()
            .zip(&prices[c.compatibility * dims..])
            .map(|(&a, p)| a as f64 * p)
            .sum()
    };
    let cores = |home: usize| demand[home * dims];
    let main = (0..homes)
        .max_by(|&a, &b| cores(a).total_cmp(&cores(b)).then(b.cmp(&a)))
        .unwrap_or(0);
    (
        classes.classes.iter().map(price).collect(),
        prices[main * dims..(main + 1) * dims].to_vec(),
    )
}

/// The program restricted to the columns found so far: revised simplex with an explicit inverse.
struct RestrictedMaster {
    /// Columns that may enter.
    columns: Vec<Column>,
    /// Prices of classes.
    prices: Vec<f64>,
    /// Rows of the inverse of the basis.
    inverse: Vec<Vec<f64>>,
    /// Cost and amount of each basic column.
    cost: Vec<f64>,
    amount: Vec<f64>,
}

impl RestrictedMaster {
    /// Starts from nodes filled with one class each, at the cheapest.
    fn new(classes: &Classes, market: &BinTypes) -> Self {
        RestrictedMaster::from_singles(classes.classes.iter().map(|class| {
            let solo = classes.host_classes
                [class.host_classes.0 as usize..class.host_classes.1 as usize]
                .iter()
                .map(|s| {
                    s.rules
                        .iter()
                        .map(|r| u32::from(r.cap))
                        .min()
                        .unwrap_or(u32::MAX)
                        .min(s.count)
                })
                .fold(0u32, u32::saturating_add);
            let mut best = (f64::INFINITY, 1.0, 0.0);
            for offer in market
                .offers
                .iter()
                .filter(|o| market.admits[o.admits].has(class.compatibility))
            {
                let fit = max_count(&offer.room, &class.amount).min(f64::from(solo));
                if fit >= 1.0 && offer.cost / fit < best.0 {
                    best = (offer.cost / fit, fit, offer.cost);
                }
            }
            (best.2, best.1, f64::from(class.count))
        }))
    }

    /// A basis of columns that cover one row each: cost, how much of the row one covers, how much
    /// is asked for.
    fn from_singles(singles: impl Iterator<Item = (f64, f64, f64)>) -> Self {
        let singles: Vec<_> = singles.collect();
        let mut inverse = vec![vec![0.0; singles.len()]; singles.len()];
        singles
            .iter()
            .enumerate()
            .for_each(|(row, s)| inverse[row][row] = 1.0 / s.1);
        let cost = singles.iter().map(|s| s.0).collect();
        let amount = singles.iter().map(|s| s.2 / s.1).collect();
        let mut master = RestrictedMaster {
            columns: Vec::new(),
            prices: Vec::new(),
            inverse,
            cost,
            amount,
        };
        master.reprice();
        master
    }

    fn reprice(&mut self) {
        let rows = self.cost.len();
        let mut prices = vec![0.0; rows];
        for (row, &cost) in self.inverse.iter().zip(&self.cost) {
            if cost != 0.0 {
                prices
                    .iter_mut()
                    .zip(row)
                    .for_each(|(p, &v)| *p += cost * v);
            }
        }
        self.prices = prices;
    }

    /// What a column is worth beyond its cost.
    fn gain(&self, column: &Column) -> f64 {
        column
            .pods
            .iter()
            .map(|&(k, n)| self.prices[k as usize] * n)
            .sum::<f64>()
            - column.cost
    }

    /// The cost of the best mix of the columns so far.
    fn value(&self) -> f64 {
        self.cost.iter().zip(&self.amount).map(|(c, a)| c * a).sum()
    }

    /// Pivots until no column is worth more than it costs. A class may be covered more than once
    /// (slack).
    fn optimise(&mut self) {
        for _ in 0..20 * self.cost.len() + 100 {
            let best = self
                .columns
                .iter()
                .enumerate()
                .map(|(at, c)| (self.gain(c) / c.cost.max(1e-9), at));
            let best = best.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
            let slack = self
                .prices
                .iter()
                .enumerate()
                .min_by(|a, b| a.1.total_cmp(b.1));
            let entering: (f64, Vec<(u32, f64)>) = match (best, slack) {
                (_, Some((k, &price))) if price < -1e-9 => (0.0, vec![(k as u32, -1.0)]),
                (Some((gain, at)), _) if gain > 1e-7 => {
                    (self.columns[at].cost, self.columns[at].pods.clone())
                }
                _ => return,
            };
            if !self.pivot(entering.0, &entering.1) {
                return;
            }
        }
    }

    fn pivot(&mut self, cost: f64, pods: &[(u32, f64)]) -> bool {
        let direction: Vec<f64> = self
            .inverse
            .iter()
            .map(|row| pods.iter().map(|&(k, n)| row[k as usize] * n).sum())
            .collect();
        let leaving = direction
            .iter()
            .enumerate()
            .filter(|(_, d)| **d > 1e-9)
            .map(|(row, d)| (self.amount[row] / d, row))
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let Some((step, out)) = leaving else {
            return false;
        };
        let pivot = direction[out];
        let mut row = std::mem::take(&mut self.inverse[out]);
        row.iter_mut().for_each(|v| *v /= pivot);
        for (at, d) in direction.iter().enumerate() {
            if at != out && d.abs() > 1e-12 {
                self.inverse[at]
                    .iter_mut()
                    .zip(&row)
                    .for_each(|(v, &r)| *v -= d * r);
            }
            self.amount[at] = (self.amount[at] - step * d).max(0.0);
        }
        let gain: f64 = pods
            .iter()
            .map(|&(k, n)| self.prices[k as usize] * n)
            .sum::<f64>()
            - cost;
        self.prices
            .iter_mut()
            .zip(&row)
            .for_each(|(p, &r)| *p -= gain * r);
        self.inverse[out] = row;
        self.amount[out] = step;
        self.cost[out] = cost;
        true
    }
}

/// The lower bound of prices, and the factor by which they must shrink for it; the head of the
/// module has the proof. Spends `rounds` rounds on the offers that determine it.
fn bound(
    classes: &Classes,
    market: &BinTypes,
    filler: &mut Filler<'_>,
    prices: &[f64],
    rounds: usize,
) -> (f64, f64) {
    let total: f64 = prices
        .iter()
        .zip(&classes.classes)
        .map(|(p, c)| p * f64::from(c.count))
        .sum();
    let mut scale = 1.0f64;
    for (at, offer) in market.offers.iter().enumerate() {
        let most_valuable = filler.upper_bound(at, prices, offer.cost / scale, rounds);
        if most_valuable > 0.0 {
            scale = scale.min(offer.cost / most_valuable);
        }
    }
    (scale * total, scale)
}

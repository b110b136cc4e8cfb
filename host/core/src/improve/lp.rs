//! What a pod is worth: a linear program over ways to fill a node, solved by column generation.
//!
//! Minimise the cost of nodes bought in fractions, each with one way to fill it, so that every class is covered. Its
//! dual prices say what one pod of each class is worth at the margin. The program starts from nodes filled with one
//! class only; each round fills every offer greedily by the current prices and adds what is worth more than it costs.
//!
//! # The lower bound
//!
//! Let `π ≥ 0` be any prices of classes, `n_k` the number of pods, and for an offer `o` of cost `c_o` let `U_o` be at
//! least `Σ π_k x_k` for every contents `x` that fit `o`. Any plan buys some offers, and what is in each fits it, so
//! with `s = min(1, min_o c_o / U_o)` its cost is `Σ c_o ≥ s Σ U_o ≥ s Σ_o Σ_k π_k x_k ≥ s Σ_k π_k n_k`. The classes here
//! ask for no more than every plan must give (no preferences, no topology but exclusion from a host), so this holds for
//! every plan.
//!
//! `U_o` comes from Lagrange's relaxation of the knapsack: for any `μ ≥ 0`, `Σ π_k x_k ≤ Σ_r μ_r C_r + Σ_k u_k max(0,
//! π_k − Σ_r μ_r a_kr)` where `u_k` is the most pods of `k` that fit at all, since `Σ_k a_kr x_k ≤ C_r`. Of classes that
//! exclude each other from a host only the largest term counts. Better `μ` make the bound better, never wrong.

use super::classes::Classes;
use super::fill::{Filler, Pick};
use super::market::Market;

/// Prices of classes and what follows from them.
#[derive(Clone, Debug, Default)]
pub struct Duals {
    /// USD per hour of one pod, by class.
    pub values: Vec<f64>,
    /// Lower bound of the objective, USD per hour.
    pub bound: f64,
}

/// A way to fill an offer: pods by class.
struct Column {
    cost: f64,
    pods: Vec<(u32, f64)>,
}

/// Solves with so many rounds of column generation.
pub fn solve(classes: &Classes, market: &Market, rounds: usize) -> Duals {
    if classes.classes.is_empty() || market.offers.is_empty() {
        return Duals { values: vec![0.0; classes.classes.len()], bound: 0.0 };
    }
    let left: Vec<u32> = classes.subs.iter().map(|s| s.count).collect();
    let mut master = Master::new(classes, market);
    let mut filler = Filler::new(classes, market, &master.prices);
    let mut picks: Vec<Pick> = Vec::new();
    let mut best = Duals { values: master.prices.clone(), bound: 0.0 };
    for _ in 0..rounds {
        let prices = master.prices.clone();
        filler.revalue(&prices);
        let mut found: Vec<(f64, Column)> = Vec::new();
        for (at, offer) in market.offers.iter().enumerate() {
            let value = filler.fill(at, &left, &prices, &mut picks);
            if value > offer.cost * (1.0 + 1e-6) {
                found.push((value / offer.cost, column(classes, offer.cost, &picks)));
            }
        }
        if found.is_empty() {
            break;
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.truncate(2 * classes.classes.len() + 16);
        master.columns.extend(found.into_iter().map(|f| f.1));
        master.optimise();
    }
    best.values.clone_from(&master.prices);
    best.bound = bound(classes, market, &best.values);
    best
}

fn column(classes: &Classes, cost: f64, picks: &[Pick]) -> Column {
    let mut pods: Vec<(u32, f64)> = Vec::with_capacity(picks.len());
    for &(sub, count) in picks {
        let class = classes.subs[sub as usize].class;
        match pods.last_mut() {
            Some((c, n)) if *c == class => *n += f64::from(count),
            _ => pods.push((class, f64::from(count))),
        }
    }
    Column { cost, pods }
}

/// The program restricted to the columns found so far: revised simplex with an explicit inverse.
struct Master {
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

impl Master {
    /// Starts from nodes filled with one class each, at the cheapest.
    fn new(classes: &Classes, market: &Market) -> Self {
        let rows = classes.classes.len();
        let mut inverse = vec![vec![0.0; rows]; rows];
        let (mut cost, mut amount) = (vec![0.0; rows], vec![0.0; rows]);
        for (k, class) in classes.classes.iter().enumerate() {
            let solo = classes.subs[class.subs.0 as usize..class.subs.1 as usize]
                .iter()
                .map(|s| s.rules.iter().map(|r| u32::from(r.cap)).min().unwrap_or(u32::MAX).min(s.count))
                .fold(0u32, u32::saturating_add);
            let mut best = (f64::INFINITY, 1.0, 0.0);
            for offer in &market.offers {
                if !market.admits[offer.admits].has(class.home) {
                    continue;
                }
                let fit = most(&offer.room, &class.amount).min(f64::from(solo));
                if fit >= 1.0 && offer.cost / fit < best.0 {
                    best = (offer.cost / fit, fit, offer.cost);
                }
            }
            inverse[k][k] = 1.0 / best.1;
            cost[k] = best.2;
            amount[k] = f64::from(class.count) / best.1;
        }
        let mut master = Master { columns: Vec::new(), prices: Vec::new(), inverse, cost, amount };
        master.reprice();
        master
    }

    fn reprice(&mut self) {
        let rows = self.cost.len();
        let mut prices = vec![0.0; rows];
        for (row, &cost) in self.inverse.iter().zip(&self.cost) {
            if cost != 0.0 {
                prices.iter_mut().zip(row).for_each(|(p, &v)| *p += cost * v);
            }
        }
        self.prices = prices;
    }

    /// Pivots until no column is worth more than it costs. A class may be covered more than once (slack).
    fn optimise(&mut self) {
        for _ in 0..20 * self.cost.len() + 100 {
            let worth = |c: &Column| c.pods.iter().map(|&(k, n)| self.prices[k as usize] * n).sum::<f64>() - c.cost;
            let best = self.columns.iter().enumerate().map(|(at, c)| (worth(c) / c.cost.max(1e-9), at));
            let best = best.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
            let slack = self.prices.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
            let entering: (f64, Vec<(u32, f64)>) = match (best, slack) {
                (_, Some((k, &price))) if price < -1e-9 => (0.0, vec![(k as u32, -1.0)]),
                (Some((gain, at)), _) if gain > 1e-7 => (self.columns[at].cost, self.columns[at].pods.clone()),
                _ => return,
            };
            if !self.pivot(entering.0, &entering.1) {
                return;
            }
        }
    }

    fn pivot(&mut self, cost: f64, pods: &[(u32, f64)]) -> bool {
        let direction: Vec<f64> =
            self.inverse.iter().map(|row| pods.iter().map(|&(k, n)| row[k as usize] * n).sum()).collect();
        let leaving = direction
            .iter()
            .enumerate()
            .filter(|(_, d)| **d > 1e-9)
            .map(|(row, d)| (self.amount[row] / d, row))
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let Some((step, out)) = leaving else { return false };
        let pivot = direction[out];
        let mut row = std::mem::take(&mut self.inverse[out]);
        row.iter_mut().for_each(|v| *v /= pivot);
        for (at, d) in direction.iter().enumerate() {
            if at != out && d.abs() > 1e-12 {
                self.inverse[at].iter_mut().zip(&row).for_each(|(v, &r)| *v -= d * r);
            }
            self.amount[at] = (self.amount[at] - step * d).max(0.0);
        }
        let gain: f64 = pods.iter().map(|&(k, n)| self.prices[k as usize] * n).sum::<f64>() - cost;
        self.prices.iter_mut().zip(&row).for_each(|(p, &r)| *p -= gain * r);
        self.inverse[out] = row;
        self.amount[out] = step;
        self.cost[out] = cost;
        true
    }
}

/// How many pods of `amount` fit into `room` at most, whole ones.
fn most(room: &[i64], amount: &[i64]) -> f64 {
    let fits = |(&have, &want): (&i64, &i64)| (want > 0).then(|| (have.max(0) / want) as f64);
    room.iter().zip(amount).filter_map(fits).fold(f64::INFINITY, f64::min)
}

/// The bound that prices give; see the module's comment for why it is one.
fn bound(classes: &Classes, market: &Market, prices: &[f64]) -> f64 {
    let prices: Vec<f64> = prices.iter().map(|p| p.max(0.0)).collect();
    let total: f64 = prices.iter().zip(&classes.classes).map(|(p, c)| p * f64::from(c.count)).sum();
    let mut start: Vec<f64> = Vec::new();
    let mut scale = 1.0f64;
    for at in 0..market.offers.len() {
        let offer = &market.offers[at];
        let most_valuable = contents_at_most(classes, market, at, &prices, offer.cost / scale, &mut start);
        if most_valuable > 0.0 {
            scale = scale.min(offer.cost / most_valuable);
        }
    }
    scale * total
}

/// Something that no contents of an offer are worth more than. Looks for a better `μ` only while the outcome is above
/// `good_enough`; `start` carries `μ` (per share of the room) from one offer to the next.
fn contents_at_most(
    classes: &Classes,
    market: &Market,
    offer: usize,
    prices: &[f64],
    good_enough: f64,
    start: &mut Vec<f64>,
) -> f64 {
    let offer = &market.offers[offer];
    let dims = offer.room.len();
    let admits = &market.admits[offer.admits];
    // Amounts as shares of the room; the group of classes that exclude their like.
    let mut items: Vec<(f64, f64, Option<u32>, Vec<f64>)> = Vec::new();
    for (class, &price) in classes.classes.iter().zip(prices) {
        let cap = most(&offer.room, &class.amount).min(f64::from(class.count));
        if price <= 0.0 || cap < 1.0 || !admits.has(class.home) {
            continue;
        }
        let subs = &classes.subs[class.subs.0 as usize..class.subs.1 as usize];
        let solo = match subs {
            [only] if only.rules.len() == 1 && only.rules[0].cap == 1 && only.rules[0].counts => {
                Some(only.rules[0].group)
            }
            _ => None,
        };
        let share = |(&want, &have): (&i64, &i64)| if want > 0 { want as f64 / have as f64 } else { 0.0 };
        items.push((price, cap, solo, class.amount.iter().zip(&offer.room).map(share).collect()));
    }
    let mut groups: Vec<(u32, f64)> = Vec::new();
    let mut worth = |mu: &[f64]| -> f64 {
        let mut sum: f64 = mu.iter().sum();
        groups.clear();
        for (price, cap, solo, shares) in &items {
            let rest = price - mu.iter().zip(shares).map(|(m, s)| m * s).sum::<f64>();
            if rest <= 0.0 {
                continue;
            }
            match solo {
                Some(group) => match groups.iter_mut().find(|g| g.0 == *group) {
                    Some(g) => g.1 = g.1.max(rest),
                    None => groups.push((*group, rest)),
                },
                None => sum += cap * rest,
            }
        }
        sum + groups.iter().map(|g| g.1).sum::<f64>()
    };
    if start.len() != dims {
        *start = vec![offer.cost / dims as f64; dims];
    }
    let scale = offer.cost / start.iter().sum::<f64>().max(1e-12);
    let mut mu: Vec<f64> = start.iter().map(|m| m * scale).collect();
    let mut best = worth(&mu);
    // Coordinate descent: each coordinate's best by shrinking steps.
    let mut step = offer.cost * 0.25;
    for _ in 0..24 {
        if best <= good_enough {
            break;
        }
        let mut improved = false;
        for d in 0..dims {
            for sign in [1.0, -1.0] {
                let old = mu[d];
                mu[d] = (old + sign * step).max(0.0);
                let now = worth(&mu);
                if now < best - 1e-12 {
                    best = now;
                    improved = true;
                    break;
                }
                mu[d] = old;
            }
        }
        if !improved {
            step *= 0.5;
        }
    }
    *start = mu;
    best
}

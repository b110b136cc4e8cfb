//! An upper bound of the value of one bin's contents, and how scarce each resource is in it.
//!
//! Lagrange's relaxation of the knapsack: for any `μ ≥ 0`, contents `x` that fit a room `C` are
//! worth `Σ π_k x_k ≤ Σ_r μ_r C_r + Σ_k u_k max(0, π_k − Σ_r μ_r a_kr)`, where `u_k` is the largest
//! number of pods of class `k` that fit alone, because `Σ_k a_kr x_k ≤ C_r`. For classes that
//! exclude each other from a host only the largest term counts. A better `μ` improves the bound and
//! never makes it wrong. A greedy filling that weighs sizes by a good `μ` is close to the optimum.

use smallvec::SmallVec;

use super::bin_types::{BinType, BinTypes};
use super::classes::Classes;

/// Multipliers by resource, for amounts as shares of the room.
pub type Multipliers = SmallVec<[f64; 6]>;

/// The classes that one offer admits: first those that exclude no other class, then the others.
///
/// Numbers of the first kind stand in columns whose length is a multiple of `LANES`, filled up
/// with classes that add nothing, so that a bound is a few straight passes over memory.
#[derive(Clone, Debug, Default)]
pub struct Knapsack {
    /// Indices into [`Classes::classes`].
    pub classes: Vec<u32>,
    /// The most pods of each that fit; 0 where it fills up.
    cap: Vec<f64>,
    /// The group whose classes exclude each other from a host, of the classes of the second kind.
    solo: Vec<u32>,
    /// Length of a column: classes of both kinds, those that fill up included.
    rows: usize,
    /// Amounts as shares of the room: a column for each resource.
    shares: Vec<f64>,
    dims: usize,
}

/// Numbers summed side by side.
const LANES: usize = 4;

impl Knapsack {
    /// What an offer admits.
    pub fn new(classes: &Classes, market: &BinTypes, offer: &BinType) -> Self {
        let admits = &market.admits[offer.admits];
        let mut plain: Vec<(u32, f64)> = Vec::new();
        let mut solo: Vec<(u32, f64, u32)> = Vec::new();
        for (at, class) in classes.classes.iter().enumerate() {
            if !admits.has(class.compatibility) {
                continue;
            }
            let cap = max_count(&offer.room, &class.amount).min(f64::from(class.count));
            if cap < 1.0 {
                continue;
            }
            match &classes.host_classes
                [class.host_classes.0 as usize..class.host_classes.1 as usize]
            {
                [only]
                    if only.rules.len() == 1 && only.rules[0].cap == 1 && only.rules[0].counts =>
                {
                    solo.push((at as u32, cap, only.rules[0].group));
                }
                _ => plain.push((at as u32, cap)),
            }
        }
        let padded = plain.len().next_multiple_of(LANES);
        let mut knapsack = Knapsack {
            dims: offer.room.len(),
            rows: padded + solo.len(),
            ..Knapsack::default()
        };
        knapsack
            .classes
            .extend(plain.iter().map(|p| p.0).chain(solo.iter().map(|s| s.0)));
        knapsack.cap.extend(plain.iter().map(|p| p.1));
        knapsack.cap.resize(padded, 0.0);
        knapsack.cap.extend(solo.iter().map(|s| s.1));
        knapsack.solo.extend(solo.iter().map(|s| s.2));
        knapsack.shares.resize(knapsack.rows * knapsack.dims, 0.0);
        for (at, &class) in knapsack.classes.iter().enumerate() {
            let amounts = &classes.classes[class as usize].amount;
            let row = sack_row(at, plain.len(), padded);
            for (dim, (&want, &have)) in amounts.iter().zip(&offer.room).enumerate() {
                knapsack.shares[dim * knapsack.rows + row] = if want > 0 {
                    want as f64 / have as f64
                } else {
                    0.0
                };
            }
        }
        knapsack
    }

    fn plain(&self) -> usize {
        self.classes.len() - self.solo.len()
    }

    /// The prices of the classes, as a column.
    fn gather(&self, prices: &[f64], column: &mut Vec<f64>) {
        let (plain, solo) = self.classes.split_at(self.plain());
        column.clear();
        column.extend(plain.iter().map(|&c| prices[c as usize]));
        column.resize(self.rows - solo.len(), 0.0);
        column.extend(solo.iter().map(|&c| prices[c as usize]));
    }

    /// Calls `each` with every class and what a pod of it takes of the room, weighed by `mu`.
    pub fn weights(&self, mu: &[f64], mut each: impl FnMut(u32, f64)) {
        let (plain, padded) = (self.plain(), self.rows - self.solo.len());
        for (at, &class) in self.classes.iter().enumerate() {
            let row = sack_row(at, plain, padded);
            each(
                class,
                mu.iter()
                    .enumerate()
                    .map(|(dim, m)| m * self.shares[dim * self.rows + row])
                    .sum(),
            );
        }
    }

    /// What no contents are worth more than, at these prices in the order of [`Knapsack::gather`].
    fn upper_bound(&self, prices: &[f64], mu: &[f64]) -> f64 {
        match self.dims {
            2 => self.at_most_of::<2>(prices, mu),
            3 => self.at_most_of::<3>(prices, mu),
            4 => self.at_most_of::<4>(prices, mu),
            _ => self.at_most_of_any(prices, mu),
        }
    }

    fn at_most_of<const D: usize>(&self, prices: &[f64], mu: &[f64]) -> f64 {
        let columns: [&[f64]; D] =
            std::array::from_fn(|dim| &self.shares[dim * self.rows..(dim + 1) * self.rows]);
        let weights: [f64; D] = std::array::from_fn(|dim| mu[dim]);
        let padded = self.rows - self.solo.len();
        let mut sums = [0.0; LANES];
        for from in (0..padded).step_by(LANES) {
            let price: &[f64; LANES] = lanes(prices, from);
            let cap: &[f64; LANES] = lanes(&self.cap, from);
            let mut rest = *price;
            for (column, weight) in columns.iter().zip(weights) {
                let share: &[f64; LANES] = lanes(column, from);
                (0..LANES).for_each(|lane| rest[lane] -= weight * share[lane]);
            }
            (0..LANES).for_each(|lane| {
                sums[lane] += cap[lane] * if rest[lane] > 0.0 { rest[lane] } else { 0.0 }
            });
        }
        let rest = |row: usize| {
            prices[row]
                - (0..D)
                    .map(|dim| weights[dim] * columns[dim][row])
                    .sum::<f64>()
        };
        mu.iter().sum::<f64>() + sums.iter().sum::<f64>() + self.excluding(rest)
    }

    fn at_most_of_any(&self, prices: &[f64], mu: &[f64]) -> f64 {
        let rest = |row: usize| {
            prices[row]
                - mu.iter()
                    .enumerate()
                    .map(|(dim, m)| m * self.shares[dim * self.rows + row])
                    .sum::<f64>()
        };
        let plain = (0..self.rows - self.solo.len())
            .map(|row| self.cap[row] * rest(row).max(0.0))
            .sum::<f64>();
        mu.iter().sum::<f64>() + plain + self.excluding(rest)
    }

    /// What classes that exclude each other add: the best of each group.
    fn excluding(&self, rest: impl Fn(usize) -> f64) -> f64 {
        let mut groups: SmallVec<[(u32, f64); 4]> = SmallVec::new();
        let first = self.rows - self.solo.len();
        for (at, &group) in self.solo.iter().enumerate() {
            let rest = rest(first + at);
            if rest <= 0.0 {
                continue;
            }
            match groups.iter_mut().find(|g| g.0 == group) {
                Some(g) => g.1 = g.1.max(rest),
                None => groups.push((group, rest)),
            }
        }
        groups.iter().map(|g| g.1).sum()
    }

    /// Looks for a better `mu`, at most so many times around, until the bound is `good_enough`;
    /// returns the bound. Goes along single coordinates and along exchanges between two (the
    /// function has ridges there), by shrinking steps. `column` is room to work in.
    pub fn refine(
        &self,
        prices: &[f64],
        mu: &mut Multipliers,
        good_enough: f64,
        rounds: usize,
        column: &mut Vec<f64>,
    ) -> f64 {
        self.gather(prices, column);
        let prices = column.as_slice();
        let mut best = self.upper_bound(prices, mu);
        let mut step = 0.25 * mu.iter().sum::<f64>().max(1e-9);
        for _ in 0..rounds {
            if best <= good_enough {
                break;
            }
            let mut improved = false;
            for up in 0..=self.dims {
                for down in 0..=self.dims {
                    if up == down || mu.get(down) == Some(&0.0) {
                        continue;
                    }
                    let old = mu.clone();
                    if let Some(m) = mu.get_mut(up) {
                        *m += step;
                    }
                    if let Some(m) = mu.get_mut(down) {
                        *m = (*m - step).max(0.0);
                    }
                    let now = self.upper_bound(prices, mu);
                    if now < best * (1.0 - 1e-9) {
                        best = now;
                        improved = true;
                    } else {
                        *mu = old;
                    }
                }
            }
            if !improved {
                step *= 0.4;
            }
        }
        best
    }
}

/// The row of a class, by its place among the classes.
fn sack_row(at: usize, plain: usize, padded: usize) -> usize {
    if at < plain { at } else { at - plain + padded }
}

/// The numbers from here on that are summed side by side. The columns are padded to that length.
fn lanes(column: &[f64], from: usize) -> &[f64; LANES] {
    column[from..].first_chunk().unwrap_or(&[0.0; LANES])
}

/// How many pods of `amount` fit into `room` at most, whole ones.
pub fn max_count(room: &[i64], amount: &[i64]) -> f64 {
    let fits = |(&have, &want): (&i64, &i64)| (want > 0).then(|| (have.max(0) / want) as f64);
    room.iter()
        .zip(amount)
        .filter_map(fits)
        .fold(f64::INFINITY, f64::min)
}

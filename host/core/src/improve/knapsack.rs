//! What the contents of one offer can be worth at most, and which resource is how scarce in it.
//!
//! Lagrange's relaxation of the knapsack: for any `μ ≥ 0`, contents `x` that fit a room `C` are worth `Σ π_k x_k ≤ Σ_r μ_r
//! C_r + Σ_k u_k max(0, π_k − Σ_r μ_r a_kr)`, where `u_k` is the most pods of class `k` that fit at all, since `Σ_k a_kr
//! x_k ≤ C_r`. Of classes that exclude each other from a host only the largest term counts. Better `μ` make the bound
//! better, never wrong; and a greedy filling that weighs sizes by a good `μ` is close to the best one.

use smallvec::SmallVec;

use super::classes::Classes;
use super::market::{Market, Offer};

/// Multipliers by resource, for amounts as shares of the room.
pub type Mu = SmallVec<[f64; 6]>;

/// The classes that one offer admits.
#[derive(Clone, Debug, Default)]
pub struct Sack {
    /// Classes.
    pub classes: Vec<u32>,
    /// The most pods of each that fit.
    cap: Vec<f64>,
    /// The group whose classes exclude each other from a host.
    solo: Vec<Option<u32>>,
    /// Amounts as shares of the room, resource after resource for each class.
    shares: Vec<f64>,
    dims: usize,
}

impl Sack {
    /// What an offer admits.
    pub fn new(classes: &Classes, market: &Market, offer: &Offer) -> Self {
        let mut sack = Sack { dims: offer.room.len(), ..Sack::default() };
        let admits = &market.admits[offer.admits];
        for (at, class) in classes.classes.iter().enumerate() {
            let cap = most(&offer.room, &class.amount).min(f64::from(class.count));
            if cap < 1.0 || !admits.has(class.home) {
                continue;
            }
            let solo = match &classes.subs[class.subs.0 as usize..class.subs.1 as usize] {
                [only] if only.rules.len() == 1 && only.rules[0].cap == 1 && only.rules[0].counts => {
                    Some(only.rules[0].group)
                }
                _ => None,
            };
            let share = |(&want, &have): (&i64, &i64)| if want > 0 { want as f64 / have as f64 } else { 0.0 };
            sack.classes.push(at as u32);
            sack.cap.push(cap);
            sack.solo.push(solo);
            sack.shares.extend(class.amount.iter().zip(&offer.room).map(share));
        }
        sack
    }

    /// What a pod takes of the room, weighed by `mu`.
    pub fn weight(&self, at: usize, mu: &[f64]) -> f64 {
        self.shares[at * self.dims..(at + 1) * self.dims].iter().zip(mu).map(|(s, m)| s * m).sum()
    }

    /// What no contents are worth more than, at these prices of classes.
    pub fn at_most(&self, prices: &[f64], mu: &[f64]) -> f64 {
        let mut sum: f64 = mu.iter().sum();
        let mut groups: SmallVec<[(u32, f64); 4]> = SmallVec::new();
        for (at, &class) in self.classes.iter().enumerate() {
            let rest = prices[class as usize] - self.weight(at, mu);
            if rest <= 0.0 {
                continue;
            }
            match self.solo[at] {
                Some(group) => match groups.iter_mut().find(|g| g.0 == group) {
                    Some(g) => g.1 = g.1.max(rest),
                    None => groups.push((group, rest)),
                },
                None => sum += self.cap[at] * rest,
            }
        }
        sum + groups.iter().map(|g| g.1).sum::<f64>()
    }

    /// Looks for a better `mu`, at most so many times around, until the bound is `good_enough`; returns the bound. Goes
    /// along single coordinates and along exchanges between two (the function has ridges there), by shrinking steps.
    pub fn refine(&self, prices: &[f64], mu: &mut Mu, good_enough: f64, rounds: usize) -> f64 {
        let mut best = self.at_most(prices, mu);
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
                    let now = self.at_most(prices, mu);
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

/// How many pods of `amount` fit into `room` at most, whole ones.
pub fn most(room: &[i64], amount: &[i64]) -> f64 {
    let fits = |(&have, &want): (&i64, &i64)| (want > 0).then(|| (have.max(0) / want) as f64);
    room.iter().zip(amount).filter_map(fits).fold(f64::INFINITY, f64::min)
}

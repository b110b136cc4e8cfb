//! Fills one node with the most valuable pods that fit, greedily by value per share of the node.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::bin_types::BinTypes;
use super::classes::{Classes, HostRule};
use super::knapsack::{Knapsack, Multipliers};

/// Pods of a sub on a node: sub and how many.
pub type Chosen = (u32, u32);

/// Fills nodes. Keeps the orders in which classes are tried.
#[derive(Clone)]
pub struct Filler<'a> {
    classes: &'a Classes,
    market: &'a BinTypes,
    knapsacks: Arc<[Knapsack]>,
    /// How scarce each resource is, by offer.
    mu: Vec<Multipliers>,
    /// Classes by offer, most valuable for their size first.
    orders: Vec<Vec<u32>>,
    /// Position of each class in the order of each offer, `u32::MAX` where it is not admitted.
    rank: Vec<Vec<u32>>,
    hosts: Hosts,
    /// Buffer that is reused for each node.
    column: Vec<f64>,
    keys: Vec<u64>,
}

/// What counts on the node being filled, by topology group: how many, and how many at most.
#[derive(Clone, Default)]
struct Hosts {
    all: SmallVec<[(u32, u16, u16); 8]>,
    /// Places in `all`, once they are more than [`FEW_GROUPS`].
    index: FxHashMap<u32, u32>,
}

/// Groups up to which looking through all is faster than looking one up.
const FEW_GROUPS: usize = 16;

impl Hosts {
    fn clear(&mut self) {
        self.all.clear();
        self.index.clear();
    }

    fn find(&self, group: u32) -> Option<usize> {
        match self.all.len() > FEW_GROUPS {
            true => self.index.get(&group).map(|&at| at as usize),
            false => self.all.iter().position(|(g, ..)| *g == group),
        }
    }

    fn push(&mut self, group: u32, count: u16, cap: u16) {
        self.all.push((group, count, cap));
        if self.all.len() == FEW_GROUPS + 1 {
            self.index.extend(
                self.all
                    .iter()
                    .zip(0..)
                    .map(|(&(group, ..), at)| (group, at)),
            );
        } else if self.all.len() > FEW_GROUPS {
            self.index.insert(group, self.all.len() as u32 - 1);
        }
    }

    /// How many more pods with these rules may come, at most `wanted`.
    fn room(&self, rules: &[HostRule], wanted: u32) -> u32 {
        rules.iter().fold(wanted, |most, rule| {
            let known = self.find(rule.group).map(|at| self.all[at]);
            let (count, cap) = known.map_or((0, u16::MAX), |(_, count, cap)| (count, cap));
            let cap = cap.min(rule.cap);
            match rule.counts {
                true => most.min(u32::from(cap.saturating_sub(count))),
                false if count > cap => 0,
                false => most,
            }
        })
    }

    fn add(&mut self, rules: &[HostRule], pods: u32) {
        for rule in rules {
            let more = if rule.counts { pods as u16 } else { 0 };
            match self.find(rule.group).map(|at| &mut self.all[at]) {
                Some((_, count, cap)) => (*count, *cap) = (*count + more, (*cap).min(rule.cap)),
                None => self.push(rule.group, more, rule.cap),
            }
        }
    }
}

/// How many pods of `amount` fit into `room`.
fn times(room: &[i64], amount: &[i64]) -> u32 {
    let mut most = u32::MAX;
    for (&have, &want) in room.iter().zip(amount) {
        if want > 0 {
            if have < want {
                return 0;
            }
            most = most.min((have as u64 / want as u64) as u32);
        }
    }
    most
}

impl<'a> Filler<'a> {
    /// Orders for these values of classes; `scarcity` is a first guess of what a unit of each
    /// resource is worth.
    pub fn new(
        classes: &'a Classes,
        market: &'a BinTypes,
        values: &[f64],
        scarcity: &[f64],
        rounds: usize,
    ) -> Self {
        let knapsacks: Arc<[Knapsack]> = market
            .offers
            .iter()
            .map(|o| Knapsack::new(classes, market, o))
            .collect();
        let guess = |o: &super::bin_types::BinType| {
            let worth: Multipliers = o
                .room
                .iter()
                .zip(scarcity)
                .map(|(&r, s)| r.max(0) as f64 * s)
                .collect();
            let sum: f64 = worth.iter().sum();
            let even = Multipliers::from_elem(o.cost / o.room.len() as f64, o.room.len());
            if sum > 0.0 {
                worth.iter().map(|w| w * o.cost / sum).collect()
            } else {
                even
            }
        };
        let mut filler = Filler {
            classes,
            market,
            knapsacks,
            mu: market.offers.iter().map(guess).collect(),
            orders: vec![Vec::new(); market.offers.len()],
            rank: Vec::new(),
            hosts: Hosts::default(),
            column: Vec::new(),
            keys: Vec::new(),
        };
        filler.revalue(values, rounds);
        filler
    }

    /// Orders for other values, after `rounds` rounds of improving the weights of resources.
    pub fn revalue(&mut self, values: &[f64], rounds: usize) {
        // Ratio and class in one number: the ratio's bits upside down above, since ratios are not
        // negative, the class below. Such numbers are sorted without a look at anything else.
        let low = self
            .classes
            .classes
            .len()
            .next_power_of_two()
            .max(2)
            .trailing_zeros();
        let mask = (1u64 << low) - 1;
        let knapsacks = self.knapsacks.clone();
        for (at, knapsack) in knapsacks.iter().enumerate() {
            knapsack.refine(values, &mut self.mu[at], 0.0, rounds, &mut self.column);
            self.keys.clear();
            knapsack.weights(&self.mu[at], |class, weight| {
                let ratio = (values[class as usize] / weight.max(1e-12)).max(0.0);
                self.keys
                    .push((!ratio.to_bits() & !mask) | u64::from(class));
            });
            self.keys.sort_unstable();
            self.orders[at].clear();
            self.orders[at].extend(self.keys.iter().map(|key| (key & mask) as u32));
        }
        self.rank.clear();
    }

    /// Something that no contents of an offer are worth more than.
    pub fn upper_bound(
        &mut self,
        offer: usize,
        values: &[f64],
        good_enough: f64,
        rounds: usize,
    ) -> f64 {
        self.knapsacks[offer].refine(
            values,
            &mut self.mu[offer],
            good_enough,
            rounds,
            &mut self.column,
        )
    }

    /// Makes [`Filler::fill_few`] possible for these offers.
    pub fn rank(&mut self, offers: &[usize]) {
        self.rank.resize(self.orders.len(), Vec::new());
        for &offer in offers {
            if !self.rank[offer].is_empty() {
                continue;
            }
            let mut rank = vec![u32::MAX; self.classes.classes.len()];
            self.orders[offer]
                .iter()
                .enumerate()
                .for_each(|(r, &c)| rank[c as usize] = r as u32);
            self.rank[offer] = rank;
        }
    }

    /// Fills an offer from the rest of each host class; returns the value of the chosen pods.
    pub fn fill(
        &mut self,
        offer: usize,
        left: &[u32],
        values: &[f64],
        picks: &mut Vec<Chosen>,
    ) -> f64 {
        let order = std::mem::take(&mut self.orders[offer]);
        let value = self.fill_in(offer, order.iter().copied(), left, values, picks);
        self.orders[offer] = order;
        value
    }

    /// The same for a few classes only, given in any order.
    pub fn fill_few(
        &mut self,
        offer: usize,
        few: &mut [u32],
        left: &[u32],
        values: &[f64],
        picks: &mut Vec<Chosen>,
    ) -> f64 {
        let rank = std::mem::take(&mut self.rank[offer]);
        few.sort_unstable_by_key(|&c| rank[c as usize]);
        let order = few
            .iter()
            .copied()
            .take_while(|&c| rank[c as usize] != u32::MAX);
        let value = self.fill_in(offer, order, left, values, picks);
        self.rank[offer] = rank;
        value
    }

    fn fill_in(
        &mut self,
        offer: usize,
        order: impl Iterator<Item = u32>,
        left: &[u32],
        values: &[f64],
        picks: &mut Vec<Chosen>,
    ) -> f64 {
        picks.clear();
        self.hosts.clear();
        let mut room = self.market.offers[offer].room.clone();
        let mut value = 0.0;
        for c in order {
            let class = &self.classes.classes[c as usize];
            let mut most = times(&room, &class.amount);
            if most == 0 {
                continue;
            }
            for s in class.host_classes.0..class.host_classes.1 {
                let have = left[s as usize];
                if have == 0 {
                    continue;
                }
                let rules = &self.classes.host_classes[s as usize].rules;
                let mut take = most.min(have);
                if !rules.is_empty() {
                    take = self.hosts.room(rules, take);
                    if take == 0 {
                        continue;
                    }
                    self.hosts.add(rules, take);
                }
                room.iter_mut()
                    .zip(&class.amount)
                    .for_each(|(r, &a)| *r -= a * i64::from(take));
                value += values[c as usize] * f64::from(take);
                picks.push((s, take));
                most -= take;
                if most == 0 {
                    break;
                }
            }
        }
        value
    }
}

//! Filling one node: the most valuable contents that fit, greedily by value for the share of the node that they take.

use smallvec::SmallVec;

use super::classes::{Classes, HostRule};
use super::market::Market;
use crate::schedule::fit::Amounts;

/// Pods of a sub on a node: sub and how many.
pub type Pick = (u32, u32);

/// Fills nodes. Keeps the orders in which classes are tried.
pub struct Filler<'a> {
    classes: &'a Classes,
    market: &'a Market,
    /// Classes by aspect and set of homes, most valuable for their size first.
    orders: Vec<Vec<Vec<u32>>>,
    /// Position of each class in the order of each aspect.
    rank: Vec<Vec<u32>>,
    hosts: Hosts,
}

/// What counts on the node being filled, by topology group: how many, and how many at most.
#[derive(Default)]
struct Hosts(SmallVec<[(u32, u16, u16); 8]>);

impl Hosts {
    /// How many more pods with these rules may come, at most `wanted`.
    fn room(&self, rules: &[HostRule], wanted: u32) -> u32 {
        rules.iter().fold(wanted, |most, rule| {
            let (count, cap) =
                self.0.iter().find(|(g, ..)| *g == rule.group).map_or((0, u16::MAX), |&(_, count, cap)| (count, cap));
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
            match self.0.iter_mut().find(|(g, ..)| *g == rule.group) {
                Some((_, count, cap)) => (*count, *cap) = (*count + more, (*cap).min(rule.cap)),
                None => self.0.push((rule.group, more, rule.cap)),
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
    /// Orders for these values of classes.
    pub fn new(classes: &'a Classes, market: &'a Market, values: &[f64]) -> Self {
        let mut filler = Filler { classes, market, orders: Vec::new(), rank: Vec::new(), hosts: Hosts::default() };
        filler.revalue(values);
        filler
    }

    /// Orders for other values.
    pub fn revalue(&mut self, values: &[f64]) {
        self.orders.clear();
        self.rank.clear();
        for typical in &self.market.aspects {
            let share = |amount: &Amounts| -> f64 {
                let of = |(&want, &have): (&i64, &i64)| if have > 0 { want as f64 / have as f64 } else { 0.0 };
                amount.iter().zip(typical).map(of).sum()
            };
            let density: Vec<f64> =
                self.classes.classes.iter().zip(values).map(|(c, v)| v / share(&c.amount).max(1e-12)).collect();
            let mut order: Vec<u32> = (0..self.classes.classes.len() as u32).collect();
            order.sort_by(|&a, &b| density[b as usize].total_cmp(&density[a as usize]).then(a.cmp(&b)));
            let mut rank = vec![0; order.len()];
            order.iter().enumerate().for_each(|(r, &c)| rank[c as usize] = r as u32);
            let admitted = |admits: &crate::schedule::bits::Bits| {
                order.iter().copied().filter(|&c| admits.has(self.classes.classes[c as usize].home)).collect()
            };
            self.orders.push(self.market.admits.iter().map(admitted).collect());
            self.rank.push(rank);
        }
    }

    /// Fills an offer from what is left of each sub; returns the value of what was picked.
    pub fn fill(&mut self, offer: usize, left: &[u32], values: &[f64], picks: &mut Vec<Pick>) -> f64 {
        let o = &self.market.offers[offer];
        let order = std::mem::take(&mut self.orders[o.aspect][o.admits]);
        let value = self.fill_in(offer, order.iter().copied(), left, values, picks);
        self.orders[o.aspect][o.admits] = order;
        value
    }

    /// The same for a few classes only, given in any order.
    pub fn fill_few(
        &mut self,
        offer: usize,
        few: &mut [u32],
        left: &[u32],
        values: &[f64],
        picks: &mut Vec<Pick>,
    ) -> f64 {
        let o = &self.market.offers[offer];
        let rank = &self.rank[o.aspect];
        few.sort_unstable_by_key(|&c| rank[c as usize]);
        let admits = &self.market.admits[o.admits];
        let order = few.iter().copied().filter(|&c| admits.has(self.classes.classes[c as usize].home));
        self.fill_in(offer, order, left, values, picks)
    }

    fn fill_in(
        &mut self,
        offer: usize,
        order: impl Iterator<Item = u32>,
        left: &[u32],
        values: &[f64],
        picks: &mut Vec<Pick>,
    ) -> f64 {
        picks.clear();
        self.hosts.0.clear();
        let mut room = self.market.offers[offer].room.clone();
        let mut value = 0.0;
        for c in order {
            let class = &self.classes.classes[c as usize];
            let mut most = times(&room, &class.amount);
            if most == 0 {
                continue;
            }
            for s in class.subs.0..class.subs.1 {
                let have = left[s as usize];
                if have == 0 {
                    continue;
                }
                let rules = &self.classes.subs[s as usize].rules;
                let mut take = most.min(have);
                if !rules.is_empty() {
                    take = self.hosts.room(rules, take);
                    if take == 0 {
                        continue;
                    }
                    self.hosts.add(rules, take);
                }
                room.iter_mut().zip(&class.amount).for_each(|(r, &a)| *r -= a * i64::from(take));
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

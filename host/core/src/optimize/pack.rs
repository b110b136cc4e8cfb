//! Buys nodes one by one, then repacks a few at a time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::Budget;
use super::bin_types::BinTypes;
use super::classes::Classes;
use super::fill::{Chosen, Filler};
use crate::rng::SplitMix64;
use crate::stop::Stop;

/// A node: its offer and its pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Index into `BinTypes::offers`.
    pub offer: usize,
    /// Pods that are placed on it.
    pub picks: Vec<Chosen>,
}

/// Pseudo-random numbers from a seed.
pub struct Rng(SplitMix64);

impl Rng {
    /// Starts at a seed.
    pub fn new(seed: u64) -> Self {
        Rng(SplitMix64(seed ^ 0x9e37_79b9_7f4a_7c15))
    }

    /// The next number, from all of 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }

    /// A number in 0..1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Packs all classes by given values, repeatedly with values corrected by realised prices, and
/// repacks the cheapest packing; once per set of values. `scarcity` says what a unit of each
/// resource is worth, roughly. A set by which something cannot be bought at all gives nothing.
pub fn pack(
    classes: &Classes,
    market: &BinTypes,
    values: &[Vec<f64>],
    scarcity: &[f64],
    budget: Budget<'_>,
    seed: u64,
) -> Vec<Vec<Node>> {
    let Some((first, others)) = values.split_first() else {
        return Vec::new();
    };
    let filler = Filler::new(classes, market, first, scarcity, 2);
    let way = |mut filler: Filler<'_>, start: &[f64], seed: u64| {
        let packing = iterate_prices(&mut filler, classes, market, start, budget)?;
        let Packing {
            values,
            mut nodes,
            commitments,
            ..
        } = packing;
        filler.revalue(&values, 1);
        NeighbourhoodSearch::new(classes, market, filler, values, commitments, seed)
            .run(&mut nodes, budget);
        Some(nodes)
    };
    // Each set of values is independent, so threads change the time and nothing else.
    std::thread::scope(|scope| {
        let others: Vec<_> = others
            .iter()
            .zip(1..)
            .map(|(start, at)| {
                let filler = filler.clone();
                scope.spawn(move || way(filler, start, seed.wrapping_add(at)))
            })
            .collect();
        let own = way(filler, first, seed);
        let joined = |other: std::thread::ScopedJoinHandle<'_, _>| match other.join() {
            Ok(found) => found,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        std::iter::once(own)
            .chain(others.into_iter().map(joined))
            .flatten()
            .collect()
    })
}

/// Nodes for everything, and what they came from.
struct Packing {
    cost: f64,
    values: Vec<f64>,
    nodes: Vec<Node>,
    commitments: Vec<f64>,
}

/// Packs as often as the budget allows, each time with values corrected by realised prices. Returns
/// the cheapest.
fn iterate_prices(
    filler: &mut Filler<'_>,
    classes: &Classes,
    market: &BinTypes,
    start: &[f64],
    budget: Budget<'_>,
) -> Option<Packing> {
    let mut best: Option<Packing> = None;
    let mut values = start.to_vec();
    for _ in 0..budget.packings {
        filler.revalue(&values, 1);
        let mut left: Vec<u32> = classes.host_classes.iter().map(|s| s.count).collect();
        let mut commitments = market.commitments.clone();
        let Some(nodes) = buy(
            filler,
            market,
            &values,
            &mut left,
            &mut commitments,
            budget.stop,
        ) else {
            break;
        };
        let cost: f64 = nodes.iter().map(|n| market.offers[n.offer].cost).sum();
        let paid = realised_prices(classes, market, &nodes, &values);
        if best.as_ref().is_none_or(|b| cost < b.cost) {
            best = Some(Packing {
                cost,
                values: values.clone(),
                nodes,
                commitments,
            });
        }
        values
            .iter_mut()
            .zip(&paid)
            .for_each(|(v, p)| *v = 0.6 * *v + 0.4 * p);
    }
    best
}

/// Realised price of one pod of each class: the cost of each node, split by the value of its pods.
fn realised_prices(
    classes: &Classes,
    market: &BinTypes,
    nodes: &[Node],
    values: &[f64],
) -> Vec<f64> {
    let mut sums = vec![0.0; values.len()];
    for node in nodes {
        let class = |s: u32| classes.host_classes[s as usize].class as usize;
        let value: f64 = node
            .picks
            .iter()
            .map(|&(s, n)| values[class(s)] * f64::from(n))
            .sum();
        let rate = market.offers[node.offer].cost / value.max(1e-12);
        node.picks
            .iter()
            .for_each(|&(s, n)| sums[class(s)] += rate * values[class(s)] * f64::from(n));
    }
    sums.iter()
        .zip(&classes.classes)
        .map(|(s, c)| s / f64::from(c.count.max(1)))
        .collect()
}

/// An offer in the queue, with the last value per cost of its contents.
struct Entry {
    ratio: f64,
    offer: usize,
    stamp: u32,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ratio
            .total_cmp(&other.ratio)
            .then(other.offer.cmp(&self.offer))
    }
}

fn affordable(market: &BinTypes, offer: usize, commitments: &[f64]) -> bool {
    market.offers[offer]
        .draw
        .is_none_or(|(at, amount)| commitments[at] >= amount)
        && !waits(market, offer, commitments)
}

/// Whether a commitment that comes before that of an offer has enough.
fn waits(market: &BinTypes, offer: usize, commitments: &[f64]) -> bool {
    let mut before = market.offers[offer].before.iter();
    before.any(|&(at, amount)| commitments[at] >= amount)
}

/// Buys the offer with the most value per dollar, as often as the remaining pods fill it the same
/// way, until no pod is left. Returns nothing if it is stopped. What an offer can hold only
/// shrinks, so an old ratio is a bound and most offers need no second look.
fn buy(
    filler: &mut Filler<'_>,
    market: &BinTypes,
    values: &[f64],
    left: &mut [u32],
    commitments: &mut [f64],
    stop: Stop<'_>,
) -> Option<Vec<Node>> {
    let mut nodes = Vec::new();
    let mut picks = Vec::new();
    let mut rest: u64 = left.iter().map(|&n| u64::from(n)).sum();
    let mut queue: BinaryHeap<Entry> = BinaryHeap::with_capacity(market.offers.len());
    for offer in 0..market.offers.len() {
        if stop.is_raised() {
            return None;
        }
        let ratio =
            filler.fill(offer, left, values, &mut picks) / market.offers[offer].cost.max(1e-9);
        queue.push(Entry {
            ratio,
            offer,
            stamp: 0,
        });
    }
    let mut stamp = 0;
    // Of commitments that count once those before them are used up.
    let mut waiting: Vec<Entry> = Vec::new();
    while rest > 0 {
        if stop.is_raised() {
            return None;
        }
        let top = queue.pop()?;
        if waits(market, top.offer, commitments) {
            waiting.push(top);
            continue;
        }
        let value = filler.fill(top.offer, left, values, &mut picks);
        if picks.is_empty() || !affordable(market, top.offer, commitments) {
            continue;
        }
        let ratio = value / market.offers[top.offer].cost.max(1e-9);
        if top.stamp != stamp && queue.peek().is_some_and(|next| next.ratio > ratio) {
            queue.push(Entry {
                ratio,
                offer: top.offer,
                stamp,
            });
            continue;
        }
        let mut times = picks
            .iter()
            .map(|&(sub, n)| left[sub as usize] / n)
            .min()
            .unwrap_or(1)
            .max(1);
        if let Some((at, amount)) = market.offers[top.offer].draw {
            times = times.min((commitments[at] / amount) as u32).max(1);
            commitments[at] -= amount * f64::from(times);
            queue.extend(waiting.drain(..));
        }
        for &(sub, n) in &picks {
            left[sub as usize] -= n * times;
            rest -= u64::from(n * times);
        }
        nodes.extend((0..times).map(|_| Node {
            offer: top.offer,
            picks: picks.clone(),
        }));
        stamp += 1;
        queue.push(Entry {
            ratio,
            offer: top.offer,
            stamp: stamp - 1,
        });
    }
    Some(nodes)
}

/// Destroys a few nodes and repairs: packs their pods again with slightly different values, and
/// keeps the cheaper result.
struct NeighbourhoodSearch<'a> {
    classes: &'a Classes,
    market: &'a BinTypes,
    filler: Filler<'a>,
    values: Vec<f64>,
    commitments: Vec<f64>,
    rng: Rng,
    left: Vec<u32>,
    picks: Vec<Chosen>,
}

impl<'a> NeighbourhoodSearch<'a> {
    fn new(
        classes: &'a Classes,
        market: &'a BinTypes,
        filler: Filler<'a>,
        values: Vec<f64>,
        commitments: Vec<f64>,
        seed: u64,
    ) -> Self {
        let left = vec![0; classes.host_classes.len()];
        NeighbourhoodSearch {
            classes,
            market,
            filler,
            values,
            commitments,
            rng: Rng::new(seed),
            left,
            picks: Vec::new(),
        }
    }

    fn run(&mut self, nodes: &mut Vec<Node>, budget: Budget<'_>) {
        if nodes.len() < 2 {
            return;
        }
        let mut shortlist = self.shortlist(nodes);
        for at in 0..budget.repacks {
            if at % 512 == 511 {
                shortlist = self.shortlist(nodes);
            }
            let apart = self.choose(nodes);
            let offers = self.offers_for(nodes, &apart, &shortlist);
            self.destroy_and_repair(nodes, apart, &offers);
            if nodes.len() < 2 || budget.stop.is_raised() {
                return;
            }
        }
    }

    /// Offers that are worth trying, by set of homes: those that would hold most of everything, per
    /// dollar, and those in use.
    fn shortlist(&mut self, nodes: &[Node]) -> Vec<Vec<usize>> {
        let all: Vec<u32> = self.classes.host_classes.iter().map(|s| s.count).collect();
        let mut ratios: Vec<Vec<(f64, usize)>> = vec![Vec::new(); self.market.admits.len()];
        for (at, offer) in self.market.offers.iter().enumerate() {
            let value = self.filler.fill(at, &all, &self.values, &mut self.picks);
            ratios[offer.admits].push((value / offer.cost.max(1e-9), at));
        }
        let mut used = vec![false; self.market.offers.len()];
        nodes.iter().for_each(|n| used[n.offer] = true);
        let mut lists = Vec::with_capacity(ratios.len());
        for mut of_group in ratios {
            of_group.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            let best = of_group.first().map_or(0.0, |r| r.0);
            let worthy =
                |(at, r): &(usize, (f64, usize))| (*at < 16 && r.0 > 0.6 * best) || used[r.1];
            let list: Vec<usize> = of_group
                .into_iter()
                .enumerate()
                .filter(worthy)
                .map(|(_, r)| r.1)
                .collect();
            self.filler.rank(&list);
            lists.push(list);
        }
        lists
    }

    /// Offers for a few nodes: of their own sets of homes and of two more.
    fn offers_for(
        &mut self,
        nodes: &[Node],
        apart: &[usize],
        shortlist: &[Vec<usize>],
    ) -> Vec<usize> {
        let mut groups: Vec<usize> = apart
            .iter()
            .map(|&n| self.market.offers[nodes[n].offer].admits)
            .collect();
        groups.extend((0..2).map(|_| self.rng.below(shortlist.len())));
        groups.sort_unstable();
        groups.dedup();
        groups
            .iter()
            .flat_map(|&g| shortlist[g].iter().copied())
            .collect()
    }

    fn value_per_cost(&self, node: &Node) -> f64 {
        let value = |&(sub, n): &Chosen| {
            self.values[self.classes.host_classes[sub as usize].class as usize] * f64::from(n)
        };
        node.picks.iter().map(value).sum::<f64>() / self.market.offers[node.offer].cost.max(1e-9)
    }

    /// Two to five nodes, poor ones more often.
    fn choose(&mut self, nodes: &[Node]) -> Vec<usize> {
        let count = (2 + self.rng.below(4)).min(nodes.len());
        let mut chosen: Vec<usize> = Vec::with_capacity(count);
        while chosen.len() < count {
            let mut best = self.rng.below(nodes.len());
            if self.rng.below(3) > 0 {
                for _ in 0..3 {
                    let other = self.rng.below(nodes.len());
                    if self.value_per_cost(&nodes[other]) < self.value_per_cost(&nodes[best]) {
                        best = other;
                    }
                }
            }
            if !chosen.contains(&best) {
                chosen.push(best);
            } else if chosen.len() + 1 >= nodes.len() {
                break;
            }
        }
        chosen
    }

    fn destroy_and_repair(
        &mut self,
        nodes: &mut Vec<Node>,
        mut destroyed: Vec<usize>,
        shortlist: &[usize],
    ) {
        destroyed.sort_unstable_by(|a, b| b.cmp(a));
        let old: f64 = destroyed
            .iter()
            .map(|&n| self.market.offers[nodes[n].offer].cost)
            .sum();
        let mut touched: Vec<u32> = Vec::new();
        let commitments = self.commitments.clone();
        for &n in &destroyed {
            if let Some((at, amount)) = self.market.offers[nodes[n].offer].draw {
                self.commitments[at] += amount;
            }
            for &(sub, count) in &nodes[n].picks {
                self.left[sub as usize] += count;
                touched.push(sub);
            }
        }
        let new = self.repair(&touched, old, shortlist);
        touched.iter().for_each(|&s| self.left[s as usize] = 0);
        match new {
            Some(new) => {
                for n in destroyed {
                    nodes.swap_remove(n);
                }
                nodes.extend(new);
            }
            None => self.commitments = commitments,
        }
    }

    /// Packs what `left` holds for less than `limit`, or not at all.
    fn repair(&mut self, touched: &[u32], limit: f64, shortlist: &[usize]) -> Option<Vec<Node>> {
        let mut few: Vec<u32> = touched
            .iter()
            .map(|&s| self.classes.host_classes[s as usize].class)
            .collect();
        few.sort_unstable();
        few.dedup();
        let noise = 0.3 * self.rng.unit();
        let mut values = std::mem::take(&mut self.values);
        let saved: Vec<f64> = few.iter().map(|&c| values[c as usize]).collect();
        for &c in &few {
            values[c as usize] *= 1.0 + noise * (self.rng.unit() - 0.5);
        }
        let new = self.repair_randomized(&mut few.clone(), &values, limit, shortlist);
        for (&c, v) in few.iter().zip(saved) {
            values[c as usize] = v;
        }
        self.values = values;
        new
    }

    fn repair_randomized(
        &mut self,
        few: &mut Vec<u32>,
        values: &[f64],
        limit: f64,
        shortlist: &[usize],
    ) -> Option<Vec<Node>> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut cost = 0.0;
        loop {
            let classes = self.classes;
            few.retain(|&c| {
                let class = &classes.classes[c as usize];
                (class.host_classes.0..class.host_classes.1).any(|s| self.left[s as usize] > 0)
            });
            if few.is_empty() {
                return Some(nodes);
            }
            let rest: u32 = few.iter().map(|&c| self.pods_left(c)).sum();
            let mut best: Option<(f64, usize, Vec<Chosen>)> = None;
            let mut last: Option<(f64, usize, Vec<Chosen>)> = None;
            for &offer in shortlist {
                let price = self.market.offers[offer].cost;
                if cost + price >= limit - 1e-9
                    || !affordable(self.market, offer, &self.commitments)
                {
                    continue;
                }
                let mut picks = std::mem::take(&mut self.picks);
                let value = self
                    .filler
                    .fill_few(offer, few, &self.left, values, &mut picks);
                let ratio = value / price.max(1e-9);
                if picks.iter().map(|p| p.1).sum::<u32>() == rest
                    && last.as_ref().is_none_or(|l| price < l.0)
                {
                    last = Some((price, offer, picks.clone()));
                }
                if !picks.is_empty() && best.as_ref().is_none_or(|b| ratio > b.0) {
                    best = Some((ratio, offer, picks.clone()));
                }
                self.picks = picks;
            }
            let (offer, picks) = match (last, best) {
                // One node for all the rest is taken where it is no worse value than the best
                // start.
                (Some((price, offer, picks)), Some((ratio, ..)))
                    if self.value_of(&picks, values) / price >= 0.9 * ratio =>
                {
                    (offer, picks)
                }
                (_, Some((_, offer, picks))) => (offer, picks),
                _ => return None,
            };
            cost += self.market.offers[offer].cost;
            if let Some((at, amount)) = self.market.offers[offer].draw {
                self.commitments[at] -= amount;
            }
            for &(sub, n) in &picks {
                self.left[sub as usize] -= n;
            }
            nodes.push(Node { offer, picks });
        }
    }

    fn pods_left(&self, class: u32) -> u32 {
        let class = &self.classes.classes[class as usize];
        self.left[class.host_classes.0 as usize..class.host_classes.1 as usize]
            .iter()
            .sum()
    }

    fn value_of(&self, picks: &[Chosen], values: &[f64]) -> f64 {
        picks
            .iter()
            .map(|&(s, n)| {
                values[self.classes.host_classes[s as usize].class as usize] * f64::from(n)
            })
            .sum()
    }
}

//! Fills a room with the most valuable of the pods that are left to place.

use super::compiled::Compiled;
use super::state::{Pods, most, rule_allows};

/// How much each of cores and memory weighs in the order of sizes, in turn.
const WEIGHTS: [f64; 3] = [0.5, 0.8, 0.2];

/// Pods that are left to place, by class.
#[derive(Clone, Debug)]
pub struct Demand {
    /// How many, by class.
    pub left: Vec<u32>,
    /// Sizes that some are left of.
    pub sizes: Vec<u32>,
}

impl Demand {
    /// A demand without pods.
    pub fn none(c: &Compiled<'_>) -> Self {
        Demand {
            left: vec![0; c.classes.len()],
            sizes: Vec::new(),
        }
    }

    /// More pods of a class are to be placed.
    pub fn add(&mut self, c: &Compiled<'_>, (class, pods): Pods) {
        self.left[class as usize] += pods;
        let size = c.classes[class as usize].size as u32;
        if pods > 0 && !self.sizes.contains(&size) {
            self.sizes.push(size);
        }
    }

    /// Subtracts placed pods of a class.
    pub fn take(&mut self, (class, pods): Pods) {
        self.left[class as usize] -= pods;
    }

    /// Forgets sizes that none are left of.
    pub fn tidy(&mut self, c: &Compiled<'_>) {
        let left = &self.left;
        self.sizes.retain(|&size| {
            c.by_size[size as usize]
                .iter()
                .any(|&class| left[class as usize] > 0)
        });
    }

    /// Whether everything is placed.
    pub fn is_empty(&self, c: &Compiled<'_>) -> bool {
        let none = |size: &u32| {
            c.by_size[*size as usize]
                .iter()
                .all(|&class| self.left[class as usize] == 0)
        };
        self.sizes.iter().all(none)
    }
}

/// What may be placed in a room, apart from its size.
pub trait Admits {
    /// Whether pods of a class may be there at all.
    fn admits(&self, class: u32) -> bool;
    /// How many pods of a topology group are there.
    fn there(&self, group: u32) -> u32;
}

/// Room to work in, so that nothing is allocated for each filling.
#[derive(Default)]
pub struct Filler {
    order: Vec<(f64, u32)>,
    counts: Vec<(u32, u32)>,
    picks: Vec<Pods>,
    best: Vec<Pods>,
}

impl Filler {
    /// The most valuable contents found for a room, and their value. `already` is in the room and
    /// counts for rules about it.
    pub fn fill(
        &mut self,
        c: &Compiled<'_>,
        demand: &Demand,
        free: &[i64],
        place: &dyn Admits,
    ) -> (f64, &[Pods]) {
        let mut best = 0.0;
        self.best.clear();
        for weight in WEIGHTS {
            let value = self.fill_by(c, demand, free, place, weight);
            if value > best {
                best = value;
                std::mem::swap(&mut self.best, &mut self.picks);
            }
        }
        (best, &self.best)
    }

    /// The value of contents found with one order of sizes.
    pub fn fill_once(
        &mut self,
        c: &Compiled<'_>,
        demand: &Demand,
        free: &[i64],
        place: &dyn Admits,
    ) -> f64 {
        self.fill_by(c, demand, free, place, WEIGHTS[0])
    }

    fn fill_by(
        &mut self,
        c: &Compiled<'_>,
        demand: &Demand,
        free: &[i64],
        place: &dyn Admits,
        weight: f64,
    ) -> f64 {
        let (cpu, memory) = (free[0].max(1) as f64, free[1].max(1) as f64);
        self.order.clear();
        for &size in &demand.sizes {
            let Some(&class) = c.by_size[size as usize].first() else {
                continue;
            };
            let amount = &c.classes[class as usize].amount;
            if most(free, amount, 1) == 0 {
                continue;
            }
            let share =
                weight * amount[0] as f64 / cpu + (1.0 - weight) * amount[1] as f64 / memory;
            self.order
                .push((c.values[size as usize] / share.max(1e-12), size));
        }
        self.order
            .sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        self.counts.clear();
        self.picks.clear();
        let mut room: crate::schedule::fit::ResourceVector = free.iter().copied().collect();
        let mut value = 0.0;
        for &(_, size) in &self.order {
            for &class in &c.by_size[size as usize] {
                let left = demand.left[class as usize];
                if left == 0 {
                    continue;
                }
                let of = &c.classes[class as usize];
                let mut pods = most(&room, &of.amount, left);
                if pods == 0 {
                    break;
                }
                if !place.admits(class) {
                    // All classes of a size have the same place.
                    break;
                }
                for rule in &of.rules {
                    let placed = self.counts.iter().find(|(group, _)| *group == rule.group);
                    let there = place.there(rule.group) + placed.map_or(0, |(_, pods)| *pods);
                    pods = pods.min(rule_allows(*rule, there));
                }
                if pods == 0 {
                    continue;
                }
                for rule in of.rules.iter().filter(|rule| rule.adds > 0) {
                    let pods = pods * u32::from(rule.adds);
                    match self
                        .counts
                        .iter_mut()
                        .find(|(group, _)| *group == rule.group)
                    {
                        Some((_, known)) => *known += pods,
                        None => self.counts.push((rule.group, pods)),
                    }
                }
                room.iter_mut()
                    .zip(&of.amount)
                    .for_each(|(room, &a)| *room -= a * i64::from(pods));
                value += f64::from(pods) * c.values[size as usize];
                self.picks.push((class, pods));
            }
        }
        value
    }
}

//! Small clusters exactly: every subset of the nodes that may go, with the best packing of its
//! pods.
//!
//! Nodes that stay take every set of pods that no other set contains. What they leave over, in
//! every way that is not worse than another, is bought for in every way. Effort is counted in
//! steps. A cluster that takes more steps than are allowed is left to the heuristics.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::compiled::Compiled;
use super::costs::MIN_GAIN;
use super::fill::Admits;
use super::pack::{OnHost, OnOffer};
use super::state::{HostState, SearchState, most, rule_allows};

/// Steps for one cluster: a fraction of a second.
const MAX_STEPS: usize = 300_000;

/// How many units of each class, by position in [`Exact::classes`].
type Counts = SmallVec<[u16; 8]>;

/// What is taken by which host.
type Taken = Vec<(usize, Counts)>;

/// The search needs more steps than it may take.
struct TooLarge;

/// The best state there is; nothing if that takes too many steps.
pub fn search<'c, 'a>(c: &'c Compiled<'a>, removable: &[usize]) -> Option<SearchState<'c, 'a>> {
    Exact::new(c, removable).best(removable).ok()
}

/// What is known of the cheapest purchase for some pods.
#[derive(Clone, Copy)]
enum PurchaseCost {
    /// Its cost, USD per hour, and its first node by position in [`Exact::bought`].
    Cost(f64, usize),
    /// It costs at least so much.
    AtLeast(f64),
}

struct Exact<'c, 'a> {
    c: &'c Compiled<'a>,
    /// Classes of pods that may move.
    classes: Vec<u32>,
    /// Contents of nodes that are worth buying, cheapest first: the offer, and what it holds.
    bought: Vec<(usize, Counts)>,
    /// What is known of purchases for some pods.
    known: FxHashMap<Counts, PurchaseCost>,
    /// What one unit of each class costs at least, USD per hour: no set of [`Exact::bought`] is
    /// cheaper than the sum over what it holds. So no purchase for any pods is.
    least: Vec<f64>,
    steps: usize,
}

impl<'c, 'a> Exact<'c, 'a> {
    fn new(c: &'c Compiled<'a>, removable: &[usize]) -> Self {
        let own = removable.iter().flat_map(|&node| &c.nodes[node].own);
        let mut classes: Vec<u32> = own.map(|own| own.class).collect();
        // The largest first: they have the least choice.
        let size = |&class: &u32| c.worth_of_one(class);
        classes.sort_by(|a, b| size(b).total_cmp(&size(a)).then(a.cmp(b)));
        classes.dedup();
        Exact {
            c,
            classes,
            bought: Vec::new(),
            known: FxHashMap::default(),
            least: Vec::new(),
            steps: MAX_STEPS,
        }
    }

    fn best(mut self, removable: &[usize]) -> Result<SearchState<'c, 'a>, TooLarge> {
        let all = self.demand(removable);
        self.offers(&all)?;
        self.least = self.least_costs();
        let goes = |subset: usize| {
            let of = move |&(bit, _): &(usize, &usize)| subset & (1 << bit) != 0;
            removable
                .iter()
                .enumerate()
                .filter(of)
                .map(|(_, &node)| node)
        };
        let node = |at: usize| &self.c.nodes[at];
        let gain = |subset| {
            goes(subset)
                .map(|at| node(at).cost - node(at).move_cost)
                .sum()
        };
        let mut subsets: Vec<(f64, usize)> = (1..1 << removable.len())
            .map(|subset| (gain(subset), subset))
            .collect();
        subsets.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut best: (f64, Vec<usize>, Taken, Counts) = Default::default();
        for (most, subset) in subsets {
            // Nothing is less than what is not bought at all.
            if most < best.0 + MIN_GAIN {
                break;
            }
            let removed: Vec<usize> = goes(subset).collect();
            for (left, taken) in self.left_over(&removed)? {
                // What costs more is worth less than the best.
                let limit = most - best.0 - MIN_GAIN;
                let gain = most - self.cost(&left, limit)?;
                if gain > best.0 + MIN_GAIN {
                    best = (gain, removed.clone(), taken, left);
                }
            }
        }
        let (_, removed, taken, left) = best;
        Ok(self.carried_out(&removed, taken, left))
    }

    /// The pods of some nodes.
    fn demand(&self, nodes: &[usize]) -> Counts {
        let units = |class: &u32| {
            let own = nodes.iter().flat_map(|&node| &self.c.nodes[node].own);
            let of = own.filter(|own| own.class == *class);
            of.map(|own| own.units.min(u32::from(u16::MAX)) as u16)
                .sum()
        };
        self.classes.iter().map(units).collect()
    }

    fn step(&mut self, steps: usize) -> Result<(), TooLarge> {
        self.steps = self.steps.checked_sub(steps).ok_or(TooLarge)?;
        Ok(())
    }

    /// Finds what is worth buying for at most so many pods.
    fn offers(&mut self, all: &Counts) -> Result<(), TooLarge> {
        let c = self.c;
        for at in 0..c.offers.len() {
            let place = OnOffer(c, at);
            for counts in self.maximal(&c.offers[at].room, &place, all)? {
                // Offers are in the order of their cost.
                self.step(1 + self.bought.len() / 8)?;
                if !self.bought.iter().any(|(_, known)| within(&counts, known)) {
                    self.bought.push((at, counts));
                }
            }
        }
        Ok(())
    }

    /// Sets of at most so many pods that a room takes and that are within no other.
    fn maximal(
        &mut self,
        room: &[i64],
        place: &dyn Admits,
        most: &Counts,
    ) -> Result<Vec<Counts>, TooLarge> {
        let mut found: Vec<Counts> = Vec::new();
        let mut counts: Counts = most.iter().map(|_| 0).collect();
        self.extend((room, place, most), 0, &mut counts, &mut found)?;
        Ok(found)
    }

    /// Sets that begin with what is chosen of the classes before one, the largest first.
    fn extend(
        &mut self,
        within_what: (&[i64], &dyn Admits, &Counts),
        at: usize,
        counts: &mut Counts,
        found: &mut Vec<Counts>,
    ) -> Result<(), TooLarge> {
        self.step(1)?;
        let (room, place, wanted) = within_what;
        if at == counts.len() {
            self.step(found.len() / 8)?;
            let any = counts.iter().any(|&units| units > 0);
            if any && !found.iter().any(|known| within(counts, known)) {
                found.push(counts.clone());
            }
            return Ok(());
        }
        let class = self.classes[at];
        let of = &self.c.classes[class as usize];
        let mut units = match wanted[at] {
            0 => 0,
            _ if !place.admits(class) => 0,
            wanted => most(room, &of.amount, u32::from(wanted)),
        };
        for rule in &of.rules {
            let before = (0..at).map(|before| {
                let of = &self.c.classes[self.classes[before] as usize];
                let rules = of.rules.iter().filter(|known| known.group == rule.group);
                rules.map(|known| u32::from(known.adds)).sum::<u32>() * u32::from(counts[before])
            });
            let there = place.there(rule.group) + before.sum::<u32>();
            units = units.min(rule_allows(*rule, there));
        }
        for units in (0..=units).rev() {
            counts[at] = units as u16;
            let taken = of.amount.iter().map(|&amount| amount * i64::from(units));
            let left: SmallVec<[i64; 8]> = room.iter().zip(taken).map(|(r, t)| r - t).collect();
            self.extend((&left, place, wanted), at + 1, counts, found)?;
        }
        counts[at] = 0;
        Ok(())
    }

    /// What nodes that stay do not take of the pods of nodes that go, in every way that is not
    /// worse than another, and what each of them takes.
    fn left_over(&mut self, removed: &[usize]) -> Result<Vec<(Counts, Taken)>, TooLarge> {
        let c = self.c;
        let (demand, now) = (self.demand(removed), SearchState::new(c));
        let mut all: Vec<(Counts, Taken)> = vec![(demand.clone(), Vec::new())];
        let stays = |node: &usize| c.nodes[*node].destination && !removed.contains(node);
        for node in (0..c.nodes.len()).filter(stays) {
            let sets = self.maximal(&c.nodes[node].free, &OnHost(&now, node), &demand)?;
            if sets.is_empty() {
                continue;
            }
            let mut next: Vec<(Counts, Taken)> = Vec::new();
            for (left, taken) in &all {
                for set in &sets {
                    self.step(1 + next.len() / 8)?;
                    let rest = less(left, set);
                    if next.iter().any(|(known, _)| within(known, &rest)) {
                        continue;
                    }
                    next.retain(|(known, _)| !within(&rest, known));
                    let mut taken = taken.clone();
                    let held: Counts = left.iter().zip(&rest).map(|(l, r)| l - r).collect();
                    taken.push((node, held));
                    next.push((rest, taken));
                }
            }
            all = next;
            if let Some(whole) = all
                .iter()
                .find(|(left, _)| left.iter().all(|&units| units == 0))
            {
                return Ok(vec![whole.clone()]);
            }
        }
        Ok(all)
    }

    /// Prices of the linear program, made so small that no purchase is cheaper than what it holds.
    fn least_costs(&self) -> Vec<f64> {
        let worth = |class: &u32| self.c.worth_of_one(*class);
        let worth: Vec<f64> = self.classes.iter().map(worth).collect();
        let share = |(offer, set): &(usize, Counts)| {
            let held = total(&worth, set);
            (held > 0.0).then(|| self.c.offers[*offer].cost / held)
        };
        let share = self
            .bought
            .iter()
            .filter_map(share)
            .fold(f64::MAX, f64::min);
        // A little less, for what is lost by rounding; nothing where nothing is bought.
        let share = if share < f64::MAX {
            share * (1.0 - 1e-9)
        } else {
            0.0
        };
        worth.into_iter().map(|worth| worth * share).collect()
    }

    /// No purchase for some pods is cheaper, USD per hour.
    fn at_least(&self, left: &Counts) -> f64 {
        total(&self.least, left)
    }

    /// What the cheapest nodes for some pods cost, USD per hour; infinite if that is not below a
    /// limit.
    fn cost(&mut self, left: &Counts, limit: f64) -> Result<f64, TooLarge> {
        let Some(first) = left.iter().position(|&units| units > 0) else {
            return Ok(0.0);
        };
        match self.known.get(left) {
            Some(&PurchaseCost::Cost(cost, _)) => return Ok(cost),
            Some(&PurchaseCost::AtLeast(least)) if least >= limit => return Ok(f64::INFINITY),
            _ if self.at_least(left) >= limit => return Ok(f64::INFINITY),
            _ => {}
        }
        self.step(self.bought.len())?;
        let mut best = (limit, usize::MAX);
        for at in 0..self.bought.len() {
            let (offer, set) = (self.bought[at].0, &self.bought[at].1);
            let cost = self.c.offers[offer].cost;
            // They are in the order of their cost.
            if cost >= best.0 {
                break;
            }
            // Whatever is bought, some node holds the first of them.
            if set[first] == 0 {
                continue;
            }
            let rest = less(left, set);
            let cost = cost + self.cost(&rest, best.0 - cost)?;
            if cost < best.0 {
                best = (cost, at);
            }
        }
        let (cost, at) = best;
        if at == usize::MAX {
            self.known
                .insert(left.clone(), PurchaseCost::AtLeast(limit));
            return Ok(f64::INFINITY);
        }
        self.known
            .insert(left.clone(), PurchaseCost::Cost(cost, at));
        Ok(cost)
    }

    fn carried_out(
        &self,
        removed: &[usize],
        taken: Taken,
        mut left: Counts,
    ) -> SearchState<'c, 'a> {
        let mut state = SearchState::new(self.c);
        for &node in removed {
            state.set(node, HostState::Removed);
        }
        let put = |state: &mut SearchState<'c, 'a>, host: usize, counts: &Counts| {
            let units = self
                .classes
                .iter()
                .zip(counts)
                .filter(|(_, units)| **units > 0);
            units.for_each(|(&class, &units)| state.place(host, class, u32::from(units)));
        };
        for (host, counts) in taken {
            put(&mut state, host, &counts);
        }
        while let Some(&PurchaseCost::Cost(_, at)) = self.known.get(&left) {
            let (offer, set) = &self.bought[at];
            let rest = less(&left, set);
            let held: Counts = left.iter().zip(&rest).map(|(l, r)| l - r).collect();
            let host = state.buy(*offer);
            put(&mut state, host, &held);
            left = rest;
        }
        state.compact();
        state
    }
}

fn total(each: &[f64], counts: &Counts) -> f64 {
    let all = each.iter().zip(counts);
    all.map(|(each, &units)| each * f64::from(units)).sum()
}

fn within(small: &Counts, large: &Counts) -> bool {
    small.iter().zip(large).all(|(small, large)| small <= large)
}

fn less(left: &Counts, taken: &Counts) -> Counts {
    let pairs = left.iter().zip(taken);
    pairs
        .map(|(left, taken)| left.saturating_sub(*taken))
        .collect()
}

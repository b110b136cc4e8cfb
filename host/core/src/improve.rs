//! From the floor to a cheaper plan, within a budget of steps.
//!
//! The floor has decided which pods can be placed, in which NodePool, with which preferences and in which topology
//! domain. What is left is packing: pods of the same size and the same demands on labels form a [`classes::Class`];
//! what can be bought forms a [`market::Market`]. Prices of classes come from a linear program over ways to fill a
//! node ([`lp`]); nodes are then bought one by one, each time the one whose contents are worth most per dollar
//! ([`pack`]), and small groups of nodes are repacked for as long as the budget lasts. Claims with rules that this
//! does not model (reservations, host ports, volumes, affinity to a host) stay as the floor made them.
//!
//! The outcome replaces the floor's only where it costs less and keeps limits and `minValues`.

pub mod build;
pub mod classes;
pub mod fill;
pub mod knapsack;
pub mod lp;
pub mod market;
pub mod pack;
pub mod room;

use market::{Commitments, Market};

use crate::plan::Effort;
use crate::schedule::floor::{Floor, Problem};

/// What an effort may spend.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Rounds of column generation.
    pub rounds: usize,
    /// Packings from nothing, for each of two sets of values.
    pub packings: usize,
    /// Repackings tried.
    pub repacks: usize,
}

impl Budget {
    /// Steps for so many pods. Figures were chosen so that a thousand pods take about 10, 50 and 1 000 ms.
    pub fn of(effort: Effort, pods: usize) -> Option<Self> {
        let thousands = pods.div_ceil(1000).max(1);
        match effort {
            Effort::None => None,
            Effort::Quick => Some(Budget { rounds: 2, packings: 2, repacks: 20 * thousands }),
            Effort::Normal => Some(Budget { rounds: 6, packings: 4, repacks: 250 + 100 * thousands }),
            Effort::Thorough => Some(Budget { rounds: 40, packings: 50, repacks: 12_000 * thousands }),
        }
    }
}

/// Which groups are kept apart: all of them, all but the largest, all but the two largest …; so many sets are tried.
const SETS: usize = 5;

/// Cheaper packings of what the floor placed on new nodes, at least one, and a lower bound on any packing of it (USD per
/// hour of objective). Where they are `played` through afterwards, they have room for more pods of services that crowd
/// their domains, if that is not too dear, and there are dearer ones among them with pods that must spread on nodes of
/// their own: of those that are to come to one node kube-scheduler can be told of one at a time only.
pub fn improve(p: &mut Problem<'_>, floor: Floor, effort: Effort, seed: u64, played: bool) -> (Vec<Floor>, f64) {
    let pods = classes::pods_on_claims(&floor);
    let relaxed = classes::relaxed(p, &floor);
    let market = Market::new(p, &relaxed, Commitments::Endless);
    let budget = Budget::of(effort, pods);
    let duals = lp::solve(&relaxed, &market, budget.map_or(1, |b| b.rounds));
    let bound = duals.bound;
    let Some(budget) = budget else { return (vec![floor], bound) };
    let between: Vec<f64> = duals.values.iter().zip(&duals.last).map(|(a, b)| 0.5 * (a + b)).collect();
    let crowded = if played && pods >= room::FEW { room::crowded(p, &floor) } else { Vec::new() };
    let pack = |p: &mut Problem<'_>, apart: &[usize], more: u32, budget: Budget| {
        let movable = classes::movable(p, &floor, apart, &crowded, more);
        if movable.classes.is_empty() {
            return Vec::new();
        }
        let market = Market::new(p, &movable, Commitments::Limited);
        let values = [&duals.values, &between].map(|v| movable.values(&relaxed, v));
        let found = pack::pack(&movable, &market, &values, &duals.scarcity, budget, seed);
        found.iter().map(|nodes| build::replace(p, floor.clone(), &movable, &market, nodes)).collect()
    };
    let mut packed: Vec<Floor> = pack(p, &[], 0, budget);
    if packed.is_empty() {
        return (vec![floor], bound);
    }
    if played {
        let mut more = crowded.iter().map(|service| service.rooms).max().unwrap_or(0);
        let most = if more > 0 { build::least(p, &packed) * (1.0 + room::WORTH) } else { 0.0 };
        while more > 0 {
            let roomy = pack(p, &[], more, budget);
            if build::least(p, &roomy) <= most {
                packed = roomy;
                break;
            }
            more -= 1;
        }
        // One of several tries, of which one is taken.
        let budget = Budget::of(effort.min(Effort::Normal), pods).unwrap_or(budget);
        let groups = classes::spreading(p, &packed);
        for left_out in 0..SETS.min(groups.len()) {
            let (out, apart) = groups.split_at(left_out);
            // Another one left out that does no harm changes nothing.
            if apart.iter().all(|(_, doubled)| !doubled) {
                break;
            }
            if out.last().is_none_or(|(_, doubled)| *doubled) {
                let apart: Vec<usize> = apart.iter().map(|(group, _)| *group).collect();
                packed.extend(pack(p, &apart, more, budget));
            }
        }
    }
    (packed, bound)
}

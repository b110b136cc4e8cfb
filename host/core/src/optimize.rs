//! From first fit to a cheaper plan, within a budget of steps.
//!
//! First fit has decided which pods can be placed, in which NodePool, with which preferences and in
//! which topology domain. The optimizer only packs. Pods of one size with equal requirements form a
//! size class ([`classes`]); offerings form bin types ([`bin_types::BinTypes`]). A linear program
//! over ways to fill a node ([`lp`]) gives a price per class. Nodes are then bought one by one,
//! each time the one with the most value per dollar ([`pack`]). Small groups of nodes are repacked
//! while the budget lasts. Claims with rules that this does not model (reservations, host ports,
//! volumes, affinity to a host) stay as first fit made them.
//!
//! The result replaces first fit's only if it costs less and keeps limits and `minValues`.

pub mod bin_types;
pub mod classes;
pub mod colocate;
pub mod fill;
pub mod knapsack;
pub mod lp;
pub mod pack;
pub mod to_claims;

use bin_types::{BinTypes, Commitments};
use classes::{Classes, UnpackedPods};
use pack::Node;

use crate::plan::Effort;
use crate::schedule::first_fit::{CompiledCluster, Packing};
use crate::stop::Stop;

/// Rules about a host that a class has on average before a budget shrinks.
const USUAL_RULES: usize = 8;

/// What an effort may spend.
#[derive(Clone, Copy, Debug)]
pub struct Budget<'s> {
    /// Most rounds of column generation.
    pub rounds: usize,
    /// Packings from nothing, for each of two sets of values.
    pub packings: usize,
    /// Most repackings of a few nodes that are tried.
    pub repacks: usize,
    /// What ends all of it.
    pub stop: Stop<'s>,
}

impl Budget<'_> {
    /// Steps for so many pods. Figures were chosen so that a thousand pods take about 10, 50 and 1
    /// 000 ms.
    pub fn of(effort: Effort, pods: usize) -> Option<Self> {
        let stop = Stop::never();
        let thousands = pods.div_ceil(1000).max(1);
        match effort {
            Effort::None => None,
            Effort::Quick => Some(Budget {
                rounds: 2,
                packings: 2,
                repacks: 20 * thousands,
                stop,
            }),
            Effort::Normal => Some(Budget {
                rounds: 6,
                packings: 4,
                repacks: 250 + 100 * thousands,
                stop,
            }),
            Effort::Thorough => Some(Budget {
                rounds: 40,
                packings: 50,
                repacks: 12_000 * thousands,
                stop,
            }),
        }
    }

    /// The same for host classes that have more rules than usual: filling a node reads the rules of
    /// each, so there are as many fewer packings, and one at least.
    fn for_rules(self, classes: &Classes) -> Self {
        let rules = classes.host_classes.iter().map(|of| of.rules.len());
        let times = 1 + rules.sum::<usize>() / (USUAL_RULES * classes.host_classes.len().max(1));
        Budget {
            packings: self.packings.div_ceil(times),
            repacks: self.repacks.div_ceil(times),
            ..self
        }
    }

    /// This effort, ended by a signal.
    pub fn until(self, stop: Stop<'_>) -> Budget<'_> {
        Budget {
            rounds: self.rounds,
            packings: self.packings,
            repacks: self.repacks,
            stop,
        }
    }
}

/// Cheaper packings of what first fit placed on new nodes, at least one, and a lower bound on any
/// packing of it (USD per hour of objective). If the candidates are `simulated` afterwards, spread
/// pods that cannot all be nominated at once are colocated, unless that costs too much.
pub fn optimize(
    p: &mut CompiledCluster<'_>,
    packing: Packing,
    effort: Effort,
    seed: u64,
    simulated: bool,
) -> (Vec<Packing>, f64) {
    let pods = classes::pods_on_claims(&packing);
    let relaxed = classes::relaxed(p, &packing);
    let market = BinTypes::new(p, &relaxed, Commitments::Unlimited);
    let budget = Budget::of(effort, pods);
    let duals = lp::solve(&relaxed, &market, budget.map_or(1, |b| b.rounds), p.stop);
    let bound = duals.bound;
    let Some(budget) = budget else {
        return (vec![packing], bound);
    };
    let between: Vec<f64> = duals
        .values
        .iter()
        .zip(&duals.last)
        .map(|(a, b)| 0.5 * (a + b))
        .collect();
    let (stocks, movable) = classes::movable(p, &packing);
    let pack = |p: &mut CompiledCluster<'_>, stocks: Vec<UnpackedPods>| -> Vec<Packing> {
        let classes = classes::gather(p, stocks);
        let market = BinTypes::new(p, &classes, Commitments::Limited);
        let values = [&duals.values, &between].map(|v| classes.prices(&relaxed, v));
        let found = pack::pack(
            &classes,
            &market,
            &values,
            &duals.scarcity,
            budget.for_rules(&classes).until(p.stop),
            seed,
        );
        let replaced = |nodes: &Vec<Node>| {
            to_claims::replace_movable(p, packing.clone(), &movable, (&classes, &market), nodes)
        };
        found.iter().map(replaced).collect()
    };
    let loosely = if stocks.is_empty() {
        Vec::new()
    } else {
        pack(p, stocks.clone())
    };
    if loosely.is_empty() || p.stop.is_raised() {
        return (vec![packing], bound);
    }
    if simulated && pods >= colocate::MIN_COLOCATED_PODS {
        // What costs as much as first fit is first fit: nothing dearer replaces it.
        let most = (to_claims::lowest_cost(p, &loosely) * (1.0 + colocate::MAX_COST_SHARE))
            .min(to_claims::lowest_cost(p, std::slice::from_ref(&packing)));
        for way in colocate::STRATEGIES {
            let Some(tied) = colocate::colocate(p, &stocks, way) else {
                break;
            };
            let bundled = pack(p, tied);
            if to_claims::lowest_cost(p, &bundled) < most {
                return (bundled, bound);
            }
        }
    }
    (loosely, bound)
}

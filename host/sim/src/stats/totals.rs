//! Sums over a whole run.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Sample;
use super::pods::Pods;
use crate::harness::Harness;

/// Sums over a whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// How long it was.
    pub time: Duration,
    /// USD paid, and hours of instances.
    pub all: Money,
    /// By capacity type.
    pub by_capacity: BTreeMap<String, Money>,
    /// By NodePool.
    pub by_pool: BTreeMap<String, Money>,
    /// How long pods waited for a node.
    pub waits: Waits,
    /// Most instances at once, of all samples.
    pub most_nodes: usize,
    /// Instances launched.
    pub launched: u64,
    /// Launches that were answered with an error.
    pub launches_failed: u64,
    /// Of these, for want of capacity.
    pub short: u64,
    /// Spot instances that were given notice.
    pub interruptions: u64,
    /// Instances that were taken back or broke.
    pub taken_back: u64,
    /// Pods that had to leave a node that was drained.
    pub evicted: u64,
    /// Pods that were lost with their machine.
    pub lost: u64,
    /// How often the daemon had to begin again.
    pub restarts: u32,
    /// Requests of the daemon to the API server.
    pub requests: u64,
    /// Rules that were broken, by the safety checks.
    pub violations: Vec<String>,
}

/// What something cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Money {
    pub usd: f64,
    /// Hours of instances.
    pub node_hours: f64,
}

/// How long pods waited for a node, seconds. Those that still wait count with what they have waited
/// so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waits {
    /// How many pods.
    pub pods: usize,
    /// Of these, without a node at the end.
    pub still: usize,
    /// Half waited no longer.
    pub p50: f64,
    /// Nine in ten.
    pub p90: f64,
    /// Ninety-nine in a hundred.
    pub p99: f64,
    /// The longest.
    pub max: f64,
    /// On average.
    pub mean: f64,
}

impl Totals {
    /// Of a run that is over.
    pub(super) fn new(harness: &Harness, pods: &Pods, samples: &[Sample]) -> Self {
        let world = &harness.world;
        let now = world.clock.elapsed();
        let mut totals = Totals {
            time: now,
            ..Totals::default()
        };
        for entry in &world.cloud.ledger().entries {
            let hours = entry
                .end
                .unwrap_or(now)
                .saturating_sub(entry.start)
                .as_secs_f64()
                / 3600.0;
            let places = [
                &mut totals.all,
                totals
                    .by_capacity
                    .entry(entry.capacity_type.clone())
                    .or_default(),
                totals.by_pool.entry(entry.node_pool.clone()).or_default(),
            ];
            for money in places {
                money.usd += entry.paid;
                money.node_hours += hours;
            }
        }
        let cloud = world.cloud.stats();
        totals.waits = Waits::new(pods, now);
        totals.most_nodes = samples.iter().map(Sample::all_nodes).max().unwrap_or(0);
        (totals.launched, totals.launches_failed, totals.short) =
            (cloud.launched, cloud.failed, cloud.short);
        (totals.interruptions, totals.taken_back) = (cloud.interruptions, cloud.taken_back);
        (totals.evicted, totals.lost) = (pods.evicted, pods.lost);
        totals.restarts = harness.restarts();
        totals.requests = world.server.requests().total;
        totals.violations = harness.violations();
        totals
    }
}

impl Waits {
    fn new(pods: &Pods, now: Duration) -> Self {
        let mut all: Vec<f32> = pods.waits.clone();
        all.extend(pods.waiting(now));
        all.sort_by(f32::total_cmp);
        let still = all.len() - pods.waits.len();
        // The smallest wait that so many had at most.
        let at = |share: f64| {
            let rank = (share * all.len() as f64).ceil() as usize;
            all.get(rank.max(1) - 1)
                .map_or(0.0, |wait| f64::from(*wait))
        };
        let mean = all.iter().map(|wait| f64::from(*wait)).sum::<f64>() / all.len().max(1) as f64;
        Waits {
            pods: all.len(),
            still,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: at(1.0),
            mean,
        }
    }
}

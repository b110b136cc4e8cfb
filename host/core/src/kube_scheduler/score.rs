//! The scores of kube-scheduler's default profile, with its weights: which feasible node is best.
//!
//! Every score is a whole number from 0 to 100, so that rounding gives the same results as in
//! kube-scheduler. ImageLocality is absent: a new node holds no images.

use super::cluster::Cluster;
use super::existing_nodes::{Load, NOWHERE};
use super::rng::Rng;
use super::shapes::{PreferredSpread, QueueClass, Shape};

const TAINTS_WEIGHT: i64 = 3;
const NODE_AFFINITY_WEIGHT: i64 = 2;
const SPREAD_WEIGHT: i64 = 2;
const POD_AFFINITY_WEIGHT: i64 = 2;

/// The node of the highest score; among equals, chance.
pub fn best(
    cluster: &Cluster,
    shape: &Shape,
    class: &QueueClass,
    nodes: &[u32],
    chance: &mut Rng,
) -> Option<u32> {
    if nodes.len() <= 1 {
        return nodes.first().copied();
    }
    let totals = totals(cluster, shape, class, nodes);
    let mut best: Option<(i64, u32)> = None;
    let mut equals = 0;
    for (&node, &total) in nodes.iter().zip(&totals) {
        match best {
            Some((most, _)) if total < most => {}
            Some((most, _)) if total == most => {
                equals += 1;
                if chance.below(equals) == 0 {
                    best = Some((total, node));
                }
            }
            _ => (best, equals) = (Some((total, node)), 1),
        }
    }
    best.map(|(_, node)| node)
}

/// The weighted sum of all scores, by node.
pub fn totals(cluster: &Cluster, shape: &Shape, class: &QueueClass, nodes: &[u32]) -> Vec<i64> {
    let mut totals: Vec<i64> = nodes
        .iter()
        .map(|&n| resources(&cluster.load[n as usize], shape))
        .collect();
    let mut add = |weight: i64, scores: Vec<i64>| {
        totals
            .iter_mut()
            .zip(scores)
            .for_each(|(total, score)| *total += weight * score);
    };
    let verdicts = || nodes.iter().map(|&n| cluster.verdict(n, class.profile));
    if verdicts().any(|v| v.prefer_no_schedule_taints != 0) {
        add(
            TAINTS_WEIGHT,
            fewest(
                verdicts()
                    .map(|v| i64::from(v.prefer_no_schedule_taints))
                    .collect(),
            ),
        );
    }
    if verdicts().any(|v| v.preferred != 0) {
        add(
            NODE_AFFINITY_WEIGHT,
            most(verdicts().map(|v| i64::from(v.preferred)).collect()),
        );
    }
    if !shape.preferred_spread.is_empty() {
        add(SPREAD_WEIGHT, spread(cluster, shape, nodes));
    }
    if !shape.affinity_weights.is_empty() {
        add(POD_AFFINITY_WEIGHT, pod_affinity(cluster, shape, nodes));
    }
    totals
}

/// NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation, each of weight 1, over
/// CPU and memory.
pub fn resources(load: &Load, shape: &Shape) -> i64 {
    let best_effort = shape.requested == [0, 0];
    least_allocated(load, shape)
        + if best_effort {
            0
        } else {
            balanced(load, shape)
        }
}

/// The mean over CPU and memory of what would stay free, in hundredths.
fn least_allocated(load: &Load, shape: &Shape) -> i64 {
    let (mut sum, mut resources) = (0, 0);
    for r in [0, 1] {
        let room = load.allocatable[r];
        if room <= 0 {
            continue;
        }
        let used = load.nonzero_requested[r].saturating_add(shape.nonzero_requested[r]);
        resources += 1;
        if used <= room {
            sum += (room - used).saturating_mul(100) / room;
        }
    }
    if resources == 0 { 0 } else { sum / resources }
}

/// The change in balance of CPU and memory: 75 for none, 100 for the greatest gain and 50 for the
/// greatest loss (kubernetes/kubernetes#135573, since 1.36). Older versions score the resulting
/// balance, which prefers nodes that the pod fits to empty ones.
fn balanced(load: &Load, shape: &Shape) -> i64 {
    let with = [0, 1].map(|r| load.requested[r].saturating_add(shape.requested[r]));
    50 + (50 + evenness(load.allocatable, with) - evenness(load.allocatable, load.requested)) / 2
}

/// How even CPU and memory are used: 100 less the standard deviation of the two shares, in
/// hundredths.
fn evenness(room: [i64; 2], asked: [i64; 2]) -> i64 {
    let share = |r: usize| (room[r] > 0).then(|| (asked[r] as f64 / room[r] as f64).min(1.0));
    let deviation = match (share(0), share(1)) {
        (Some(cpu), Some(memory)) => (cpu - memory).abs() / 2.0,
        _ => 0.0,
    };
    ((1.0 - deviation) * 100.0) as i64
}

/// 100 for the largest, in proportion for the others.
fn most(mut scores: Vec<i64>) -> Vec<i64> {
    let most = scores.iter().copied().max().unwrap_or(0);
    scores
        .iter_mut()
        .for_each(|s| *s = if most == 0 { 0 } else { *s * 100 / most });
    scores
}

/// 0 for the largest, in proportion up to 100 for none.
fn fewest(scores: Vec<i64>) -> Vec<i64> {
    let most = scores.iter().copied().max().unwrap_or(0);
    scores
        .into_iter()
        .map(|s| if most == 0 { 100 } else { 100 - s * 100 / most })
        .collect()
}

/// PodTopologySpread: pods already in the node's domains, each constraint weighed by the logarithm
/// of its domains, so that many small domains count as much as a few large ones. Fewest pods score
/// 100.
fn spread(cluster: &Cluster, shape: &Shape, nodes: &[u32]) -> Vec<i64> {
    let lacks = |node: u32, soft: &PreferredSpread| cluster.count(soft.counter, node).is_none();
    let ignored: Vec<bool> = nodes
        .iter()
        .map(|&n| shape.soft_needs_all && shape.preferred_spread.iter().any(|s| lacks(n, s)))
        .collect();
    let counted = || {
        nodes
            .iter()
            .zip(&ignored)
            .filter(|(_, ignored)| !**ignored)
            .map(|(&n, _)| n)
    };
    let mut raw = vec![0.0; nodes.len()];
    for soft in &shape.preferred_spread {
        let weight = (domains(cluster, soft, counted()) as f64 + 2.0).ln();
        let (domain, counts) = cluster.counter(soft.counter);
        for ((&node, ignored), raw) in nodes.iter().zip(&ignored).zip(&mut raw) {
            let domain = domain[node as usize];
            if domain != NOWHERE && !ignored {
                *raw += f64::from(counts[domain as usize]) * weight + f64::from(soft.max_skew - 1);
            }
        }
    }
    let raw: Vec<i64> = raw.into_iter().map(|r| r.round() as i64).collect();
    let scored = || {
        raw.iter()
            .zip(&ignored)
            .filter(|(_, ignored)| !**ignored)
            .map(|(&r, _)| r)
    };
    let (least, most) = (scored().min().unwrap_or(0), scored().max().unwrap_or(0));
    let of = |(&raw, &ignored): (&i64, &bool)| match (ignored, most) {
        (true, _) => 0,
        (false, 0) => 100,
        (false, most) => 100 * (most + least - raw) / most,
    };
    raw.iter().zip(&ignored).map(of).collect()
}

/// How many domains the nodes lie in.
fn domains(cluster: &Cluster, soft: &PreferredSpread, nodes: impl Iterator<Item = u32>) -> usize {
    if cluster.by_hostname(soft.counter) {
        return nodes.count();
    }
    let (domain, counts) = cluster.counter(soft.counter);
    let mut seen = vec![false; counts.len()];
    let mut number = 0;
    for node in nodes {
        let domain = domain[node as usize];
        if domain != NOWHERE && !std::mem::replace(&mut seen[domain as usize], true) {
            number += 1;
        }
    }
    number
}

/// InterPodAffinity: preferred terms of the pod and of running pods, and required terms of running
/// pods.
fn pod_affinity(cluster: &Cluster, shape: &Shape, nodes: &[u32]) -> Vec<i64> {
    let sum = |&node: &u32| {
        let weigh = |&(counter, weight): &(u32, i64)| {
            weight.saturating_mul(i64::from(cluster.count(counter, node).unwrap_or(0)))
        };
        shape
            .affinity_weights
            .iter()
            .map(weigh)
            .fold(0, i64::saturating_add)
    };
    let raw: Vec<i64> = nodes.iter().map(sum).collect();
    let (least, most) = (
        raw.iter().copied().min().unwrap_or(0),
        raw.iter().copied().max().unwrap_or(0),
    );
    let range = most.saturating_sub(least) as f64;
    raw.into_iter()
        .map(|r| {
            if range > 0.0 {
                (100.0 * (r - least) as f64 / range) as i64
            } else {
                0
            }
        })
        .collect()
}

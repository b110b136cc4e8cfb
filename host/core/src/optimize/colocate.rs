//! Places all pods of a spread group in a domain on one node, if they cannot all be nominated at
//! once.
//!
//! kube-scheduler counts nominated pods as running. So only one pod of a spread group can be
//! nominated per node at a time, and the room of the others is not reserved meanwhile. Pods of
//! other such services take that room, in whatever order kube-scheduler tries them. What they leave
//! instead is as large, but on other nodes, of another shape, or in pieces. The number of pods of
//! each service per domain does not depend on that order, except for one pod more or less. So all
//! pods that a domain gets share one node, with room for one more of each service. Then their order
//! does not matter, and they need no nomination (`kube_scheduler/nominations.rs`).
//!
//! The nodes of several domains register a moment after each other, so a pod may be bound to
//! another node than the planned one. Small pods leave as much room as they take. A large pod takes
//! the room of several pods, which then fit nowhere else in their domain. So pods larger than those
//! of the services stay off these nodes, unless that costs too much.
//!
//! Measured on the benchmark's 20 mixes of services with 500 pods each: one purchase was enough in
//! 19, 19 and 20 mixes (three runs). With large pods on these nodes it was enough in 17 to 20 mixes
//! (five runs), for 2.6 % less. On the cheapest number of nodes, with room for one to four more
//! pods of each service per domain, it was enough in 14 to 18 mixes; without such room in 7.

use std::collections::BTreeMap;

use super::classes::{HostRule, Stock, UnpackedPods};
use crate::model::Symbol;
use crate::schedule::first_fit::{Assignment, CompiledCluster};
use crate::schedule::fit::ResourceVector;
use crate::schedule::node_specs::NodeSpecId;
use crate::schedule::pod_groups::PodGroup;

/// With fewer pods kube-scheduler finishes before it can deviate much from the plan, and nothing is
/// colocated.
pub const MIN_COLOCATED_PODS: usize = 128;

/// How pods are colocated.
#[derive(Clone, Copy, Debug)]
pub struct Strategy {
    /// Number of nodes for a domain's colocated pods.
    parts: u32,
    /// Other pods that are larger than the average colocated pod are kept off these nodes.
    without_large: bool,
}

/// Tried one after the other.
pub const STRATEGIES: [Strategy; 5] = [
    Strategy {
        parts: 1,
        without_large: true,
    },
    Strategy {
        parts: 1,
        without_large: false,
    },
    Strategy {
        parts: 2,
        without_large: false,
    },
    Strategy {
        parts: 4,
        without_large: false,
    },
    Strategy {
        parts: 8,
        without_large: false,
    },
];

/// Represents colocated pods in rules about the host, beside topology groups.
pub const COLOCATED: u32 = u32::MAX;
/// Colocating may cost this share more.
pub const MAX_COST_SHARE: f64 = 0.25;
/// With this many pods of a service in a domain, some cannot be nominated yet.
const CROWDED_PODS: u32 = 2;

/// A service in a domain.
struct DomainShare {
    /// Index into [`CompiledCluster::items`].
    pod_group: usize,
    /// How many pods the domain gets.
    pods: u32,
    /// How many more pods it may get instead of another domain.
    slack: u32,
}

/// The stocks, with the pods of each spread service colocated per domain. `None` if no spread
/// service has several pods in a domain. Pods with rules about their host are not colocated.
pub(super) fn colocate(
    p: &CompiledCluster<'_>,
    stocks: &[UnpackedPods],
    way: Strategy,
) -> Option<Vec<UnpackedPods>> {
    let services = spread_workloads(p, stocks);
    if services
        .values()
        .all(|service| service.largest_share < CROWDED_PODS)
    {
        return None;
    }
    let average = average(p, &services);
    let mut tied: BTreeMap<NodeSpecId, Vec<&UnpackedPods>> = BTreeMap::new();
    let mut all = Vec::with_capacity(stocks.len());
    for stock in stocks {
        if let Some((_, spec, _)) = spreading(p, stock) {
            tied.entry(spec).or_default().push(stock);
            continue;
        }
        let (home, mut rules, stock) = stock.clone();
        if way.without_large
            && stock
                .members()
                .iter()
                .any(|member| size(&p.items[member.pod_group]) > average)
        {
            rules.push(HostRule {
                group: COLOCATED,
                counts: false,
                cap: 0,
            });
        }
        all.push((home, rules, stock));
    }
    for (spec, stocks) in &tied {
        let of_spec = |(&pod_group, service): (&usize, &SpreadWorkload)| {
            let pods = *service.pods.get(spec)?;
            Some(DomainShare {
                pod_group,
                pods,
                slack: (service.largest_share - pods).min(service.max_skew),
            })
        };
        let shares: Vec<DomainShare> = services.iter().filter_map(of_spec).collect();
        let (home, mut rules, _) = (*stocks.first()?).clone();
        rules.push(HostRule {
            group: COLOCATED,
            counts: true,
            cap: u16::MAX,
        });
        let members = stocks.iter().flat_map(|(.., stock)| stock.members());
        let bundles = split(p, members, &shares, way.parts)
            .into_iter()
            .filter(|(members, _)| !members.is_empty());
        all.extend(bundles.map(|(members, amount)| {
            (
                home.clone(),
                rules.clone(),
                Stock::Colocated(members, amount),
            )
        }));
    }
    Some(all)
}

/// The size of their pods on average.
fn average(p: &CompiledCluster<'_>, services: &BTreeMap<usize, SpreadWorkload>) -> i128 {
    let pods = |service: &SpreadWorkload| {
        service
            .pods
            .values()
            .map(|&pods| i128::from(pods))
            .sum::<i128>()
    };
    let all: i128 = services.values().map(pods).sum();
    services
        .iter()
        .map(|(&pod_group, service)| size(&p.items[pod_group]) * pods(service))
        .sum::<i128>()
        / all.max(1)
}

/// A service that must spread.
struct SpreadWorkload {
    pods: BTreeMap<NodeSpecId, u32>,
    /// In the domain that gets most.
    largest_share: u32,
    /// How much domains may differ.
    max_skew: u32,
}

/// By pod group.
fn spread_workloads(
    p: &CompiledCluster<'_>,
    stocks: &[UnpackedPods],
) -> BTreeMap<usize, SpreadWorkload> {
    let mut services: BTreeMap<usize, SpreadWorkload> = BTreeMap::new();
    for stock in stocks {
        let Some((pod_group, spec, max_skew)) = spreading(p, stock) else {
            continue;
        };
        let service = services.entry(pod_group).or_insert(SpreadWorkload {
            pods: BTreeMap::new(),
            largest_share: 0,
            max_skew,
        });
        let pods = service.pods.entry(spec).or_default();
        *pods += stock.2.count();
        service.largest_share = service.largest_share.max(*pods);
    }
    services
}

/// The pod group of pods that must spread over domains wider than a host, the spec that their
/// domain is part of, and how much domains may differ.
fn spreading(
    p: &CompiledCluster<'_>,
    (home, rules, stock): &UnpackedPods,
) -> Option<(usize, NodeSpecId, u32)> {
    let Stock::Identical(member) = stock else {
        return None;
    };
    let &[spec] = home.specs.as_slice() else {
        return None;
    };
    let uses = &p.items[member.pod_group].relaxations[member.relaxation].uses;
    let max_skew = uses.iter().find_map(|u| p.topology.hard_skew(u))?;
    let key: Symbol = p.topology.spreads_over(uses)?;
    p.states.get(spec).sets.get(key)?.single()?;
    rules
        .is_empty()
        .then_some((member.pod_group, spec, u32::try_from(max_skew).unwrap_or(1)))
}

/// The pods of a domain in equal parts, and the needs of each part: its pods, and room for pods
/// that go here instead of elsewhere. With several parts, each also has room for one more of the
/// largest pod, because free room on two nodes may be too small on each.
fn split<'m>(
    p: &CompiledCluster<'_>,
    members: impl Iterator<Item = &'m Assignment>,
    shares: &[DomainShare],
    parts: u32,
) -> Vec<(Vec<Assignment>, ResourceVector)> {
    let nothing = ResourceVector::from_elem(0, p.dims.0.len());
    let mut bundles: Vec<(Vec<Assignment>, ResourceVector)> =
        (0..parts).map(|_| (Vec::new(), nothing.clone())).collect();
    let add = |amount: &mut ResourceVector, pod_group: usize, pods: u32| {
        let request = &p.items[pod_group].request;
        amount
            .iter_mut()
            .zip(request)
            .for_each(|(sum, r)| *sum = sum.saturating_add(r.saturating_mul(pods.into())));
    };
    let mut dealt: BTreeMap<usize, u32> = BTreeMap::new();
    for member in members {
        let Some(share) = shares
            .iter()
            .find(|share| share.pod_group == member.pod_group)
        else {
            continue;
        };
        let dealt = dealt.entry(share.pod_group).or_default();
        let (mut from, to) = member.pods;
        while from < to {
            // The part that the next pod belongs to, and how many of this service it takes in all.
            let part = (u64::from(*dealt) * u64::from(parts) / u64::from(share.pods)) as u32;
            let until = ((part + 1) * share.pods).div_ceil(parts);
            let pods = (until - *dealt).min(to - from);
            let Some((members, amount)) = bundles.get_mut(part as usize) else {
                break;
            };
            members.push(Assignment {
                pods: (from, from + pods),
                ..member.clone()
            });
            add(amount, member.pod_group, pods);
            from += pods;
            *dealt += pods;
        }
    }
    let largest = shares
        .iter()
        .map(|share| share.pod_group)
        .max_by_key(|&pod_group| (size(&p.items[pod_group]), pod_group));
    for (at, share) in shares.iter().enumerate() {
        add(
            &mut bundles[at % parts as usize].1,
            share.pod_group,
            share.slack,
        );
    }
    if let Some(largest) = largest.filter(|_| parts > 1) {
        bundles
            .iter_mut()
            .for_each(|(_, amount)| add(amount, largest, 1));
    }
    bundles
}

/// In bytes; a core counts as 4 GiB, which is about what it costs.
fn size(pod_group: &PodGroup) -> i128 {
    i128::from(pod_group.request[0]) * (4 << 30) / 1000 + i128::from(pod_group.request[1])
}

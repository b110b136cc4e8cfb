//! Pods that kube-scheduler cannot be told of all at once, one node for all of them in a domain.
//!
//! Of pods of a service that must spread over domains and come to one node kube-scheduler is told
//! of one at a time only, since it counts those that it was told of as if they ran. The places of
//! the others are kept for nobody meanwhile, and pods of other such services come into them, in the
//! order in which kube-scheduler happens to try them; what those leave instead is as large, but on
//! other nodes, of another shape, or in pieces. How many pods of each service a domain gets does
//! not depend on that order, save for the one more or less that is left when they are counted out.
//! So all of them that a domain gets are placed as one, on one node, with room for that one more of
//! each service: then it does not matter who comes first, and kube-scheduler need not be told
//! (`kube_scheduler/nominations.rs`).
//!
//! Nor should it matter that the nodes of several domains open a moment after each other: a pod
//! that was told of one that is still closed goes to another. Small pods find as much room for each
//! other; a large one takes that of several pods, which fit nowhere else in their domain. So pods
//! that are larger than those of the services are kept off their nodes, where that is not too dear.
//!
//! Of the benchmark's 20 mixes of services, 500 pods each, one purchase was enough in 19, 19 and 20
//! like this (three runs); in 17 to 20 with large pods beside bundles (five runs), for 2.6 per cent
//! less; in 14 to 18 with the same pods on as many nodes as are cheapest and room for one to four
//! more of each service in each domain; without room in 7.

use std::collections::BTreeMap;

use super::classes::{HostRule, Stock, UnpackedPods};
use crate::model::Symbol;
use crate::schedule::first_fit::{Assignment, CompiledCluster};
use crate::schedule::fit::ResourceVector;
use crate::schedule::node_specs::NodeSpecId;
use crate::schedule::pod_groups::PodGroup;

/// With fewer pods to place kube-scheduler is through before much can go otherwise than planned,
/// and nothing is bundled.
pub const FEW: usize = 128;

/// How bundles are made.
#[derive(Clone, Copy, Debug)]
pub struct Strategy {
    /// A domain's bundle comes to so many nodes,
    parts: u32,
    /// without pods that are larger than its own are on average.
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

/// Stands for bundles in rules about the host, beside topology groups.
pub const COLOCATED: u32 = u32::MAX;
/// Bundling may cost this share more.
pub const WORTH: f64 = 0.25;
/// A service with so many pods in a domain has some that kube-scheduler cannot be told of yet.
const CROWDED: u32 = 2;

/// A service in a domain.
struct DomainShare {
    /// The item.
    item: usize,
    /// How many pods the domain gets.
    pods: u32,
    /// How many more it may get instead of another domain.
    slack: u32,
}

/// Piles with those of services that must spread tied up in each domain; `None` if none of these
/// services has several pods in a domain. Of pods with rules about their host none is tied up.
pub(super) fn colocate(
    p: &CompiledCluster<'_>,
    stocks: &[UnpackedPods],
    way: Strategy,
) -> Option<Vec<UnpackedPods>> {
    let services = spread_workloads(p, stocks);
    if services
        .values()
        .all(|service| service.largest_share < CROWDED)
    {
        return None;
    }
    let average = average(p, &services);
    let mut tied: BTreeMap<NodeSpecId, Vec<&UnpackedPods>> = BTreeMap::new();
    let mut all = Vec::with_capacity(stocks.len());
    for stock in stocks {
        if let Some((_, state, _)) = spreading(p, stock) {
            tied.entry(state).or_default().push(stock);
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
    for (state, stocks) in &tied {
        let of_state = |(&item, service): (&usize, &SpreadWorkload)| {
            let pods = *service.pods.get(state)?;
            Some(DomainShare {
                item,
                pods,
                slack: (service.largest_share - pods).min(service.max_skew),
            })
        };
        let shares: Vec<DomainShare> = services.iter().filter_map(of_state).collect();
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
        .map(|(&item, service)| size(&p.items[item]) * pods(service))
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

/// By item.
fn spread_workloads(
    p: &CompiledCluster<'_>,
    stocks: &[UnpackedPods],
) -> BTreeMap<usize, SpreadWorkload> {
    let mut services: BTreeMap<usize, SpreadWorkload> = BTreeMap::new();
    for stock in stocks {
        let Some((item, state, max_skew)) = spreading(p, stock) else {
            continue;
        };
        let service = services.entry(item).or_insert(SpreadWorkload {
            pods: BTreeMap::new(),
            largest_share: 0,
            max_skew,
        });
        let pods = service.pods.entry(state).or_default();
        *pods += stock.2.count();
        service.largest_share = service.largest_share.max(*pods);
    }
    services
}

/// The item of pods that must spread over domains wider than a host, the state that their domain is
/// part of, and how much domains may differ.
fn spreading(
    p: &CompiledCluster<'_>,
    (home, rules, stock): &UnpackedPods,
) -> Option<(usize, NodeSpecId, u32)> {
    let Stock::Identical(member) = stock else {
        return None;
    };
    let &[state] = home.states.as_slice() else {
        return None;
    };
    let uses = &p.items[member.pod_group].relaxations[member.relaxation].uses;
    let max_skew = uses.iter().find_map(|u| p.topology.hard_skew(u))?;
    let key: Symbol = p.topology.spreads_over(uses)?;
    p.states.get(state).sets.get(key)?.single()?;
    rules.is_empty().then_some((
        member.pod_group,
        state,
        u32::try_from(max_skew).unwrap_or(1),
    ))
}

/// Pods of a domain in so many parts with as many of each service, and what each part needs: its
/// pods, and room for pods that come here instead of elsewhere. Of several parts each has room for
/// one more of the largest as well, for what is free on two nodes may not be in one piece.
fn split<'m>(
    p: &CompiledCluster<'_>,
    members: impl Iterator<Item = &'m Assignment>,
    shares: &[DomainShare],
    parts: u32,
) -> Vec<(Vec<Assignment>, ResourceVector)> {
    let nothing = ResourceVector::from_elem(0, p.dims.0.len());
    let mut bundles: Vec<(Vec<Assignment>, ResourceVector)> =
        (0..parts).map(|_| (Vec::new(), nothing.clone())).collect();
    let add = |amount: &mut ResourceVector, item: usize, pods: u32| {
        let request = &p.items[item].request;
        amount
            .iter_mut()
            .zip(request)
            .for_each(|(sum, r)| *sum = sum.saturating_add(r.saturating_mul(pods.into())));
    };
    let mut dealt: BTreeMap<usize, u32> = BTreeMap::new();
    for member in members {
        let Some(share) = shares.iter().find(|share| share.item == member.pod_group) else {
            continue;
        };
        let dealt = dealt.entry(share.item).or_default();
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
        .map(|share| share.item)
        .max_by_key(|&item| (size(&p.items[item]), item));
    for (at, share) in shares.iter().enumerate() {
        add(&mut bundles[at % parts as usize].1, share.item, share.slack);
    }
    if let Some(largest) = largest.filter(|_| parts > 1) {
        bundles
            .iter_mut()
            .for_each(|(_, amount)| add(amount, largest, 1));
    }
    bundles
}

/// In bytes; a core counts as 4 GiB, which is about what it costs.
fn size(item: &PodGroup) -> i128 {
    i128::from(item.request[0]) * (4 << 30) / 1000 + i128::from(item.request[1])
}

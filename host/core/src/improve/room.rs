//! Room for what kube-scheduler does otherwise.
//!
//! Of pods of a service that must spread and come to one node kube-scheduler is told of one at a time only; the places
//! of the others are kept for nobody until then, and pods of other services that wait for their turn come into them. What
//! those leave instead is as large, but elsewhere or in pieces. To have room for one pod more of the service in each
//! domain from the start saves the second purchase: of the benchmark's mixes of services, 500 pods each, one purchase is
//! enough in 17 or 18 of 20, where it was in 7; what the nodes cost in the end is 2 % more. Room for half as many more
//! again, up to 30 % dearer, was tried: other mixes are the ones that need a second purchase, as many of them.

use std::collections::BTreeMap;

use super::classes::{Loose, Pile};
use crate::model::Sym;
use crate::schedule::floor::{Floor, Member, Problem};
use crate::schedule::items::Item;
use crate::schedule::states::StateId;

/// With fewer pods to place kube-scheduler is through before much can go otherwise than planned, and there is no room.
pub const FEW: usize = 128;
/// Services with fewer pods in each domain are told of as good as all of them at once.
const CROWDED: u32 = 3;
/// For so many pods in a domain there is room for one more.
const A_ROOM_FOR: u32 = 2;
/// For so many more there is room in each domain, at most.
const MOST: u32 = 4;
/// Room may cost this share more; where it would cost more, there is less of it.
pub const WORTH: f64 = 0.20;

/// Services of which several pods wait for their turn in a domain. The one with the smallest pods is not among them, for
/// wherever a pod of another has gone there is room for one of it.
pub fn crowded(p: &Problem<'_>, floor: &Floor) -> Vec<Service> {
    let mut pods: BTreeMap<usize, BTreeMap<Sym, u32>> = BTreeMap::new();
    for claim in &floor.claims {
        for member in &claim.members {
            let uses = &p.items[member.item].variants[member.variant].uses;
            let Some(key) = p.topology.spreads_over(uses) else { continue };
            let Some(domain) = p.states.get(claim.state).sets.get(key).and_then(|set| set.single()) else { continue };
            *pods.entry(member.item).or_default().entry(domain).or_default() += member.pods.1 - member.pods.0;
        }
    }
    let most = pods.into_iter().filter_map(|(item, domains)| Some((item, domains.into_values().max()?)));
    let mut services: Vec<Service> = most
        .filter(|(_, pods)| *pods >= CROWDED)
        .map(|(item, pods)| Service { item, rooms: MOST.min(pods.div_ceil(A_ROOM_FOR)) })
        .collect();
    services.sort_by_key(|service| (size(&p.items[service.item]), service.item));
    if services.len() > 1 {
        services.remove(0);
    }
    services
}

/// Pods that must spread, and for how many more of them there is to be room in each domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// The item.
    pub item: usize,
    /// For how many more, by the domain that has most of them.
    pub rooms: u32,
}

/// In bytes; a core counts as 4 GiB, which is about what it costs.
fn size(item: &Item) -> i128 {
    i128::from(item.request[0]) * (4 << 30) / 1000 + i128::from(item.request[1])
}

/// Gives twice their room to as many pods of each service, in each of its domains, as there is to be room for more, `most`
/// of them.
pub(super) fn add(piles: &mut Vec<Loose>, services: &[Service], most: u32) {
    for service in services {
        let mut domains: BTreeMap<StateId, Vec<usize>> = BTreeMap::new();
        for (place, (home, ..)) in piles.iter().enumerate().filter(|(_, p)| p.2.member.item == service.item) {
            if let Some(&state) = home.states.first() {
                domains.entry(state).or_default().push(place);
            }
        }
        for places in domains.into_values() {
            let mut left = most.min(service.rooms);
            for place in places {
                left -= widen(piles, place, left);
            }
        }
    }
}

/// Gives twice their room to so many pods of a pile, if there are so many; says to how many.
fn widen(piles: &mut Vec<Loose>, place: usize, pods: u32) -> u32 {
    let (home, rules, Pile { member, rooms }) = piles[place].clone();
    let (from, to) = member.pods;
    let middle = to.min(from + pods);
    if middle == from {
        return 0;
    }
    piles[place].2 = Pile { member: Member { pods: (from, middle), ..member.clone() }, rooms: 2 * rooms };
    if middle < to {
        piles.push((home, rules, Pile { member: Member { pods: (middle, to), ..member }, rooms }));
    }
    middle - from
}

//! Removes a set of nodes and finds a place for their pods: on nodes that stay, on new ones, or on some
//! of the removed nodes after all.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::compiled::Compiled;
use super::fill::{Admits, Demand, Filler};
use super::state::{HostState, Pods, SearchState};

/// One node for everything that is left is taken if it is so much as good as the best one.
const ALL_IN_ONE: f64 = 0.9;

/// A host as the filler asks about it.
pub struct OnHost<'s, 'c, 'a>(pub &'s SearchState<'c, 'a>, pub usize);

impl Admits for OnHost<'_, '_, '_> {
    fn admits(&self, class: u32) -> bool {
        self.0.admits(self.1, class)
    }

    fn there(&self, group: u32) -> u32 {
        self.0.there(self.1, group)
    }
}

/// An offer as the filler asks about it.
pub struct OnOffer<'c, 'a>(pub &'c Compiled<'a>, pub usize);

impl Admits for OnOffer<'_, '_> {
    fn admits(&self, class: u32) -> bool {
        self.0.offer_admits(self.1, class)
    }

    fn there(&self, _: u32) -> u32 {
        0
    }
}

/// A removed node as if it stayed.
struct OnRemoved<'c, 'a>(&'c Compiled<'a>, usize);

impl Admits for OnRemoved<'_, '_> {
    fn admits(&self, class: u32) -> bool {
        self.0.nodes[self.1].destination
            && self.0.places[self.0.classes[class as usize].place]
                .nodes
                .has(self.1)
    }

    fn there(&self, group: u32) -> u32 {
        u32::from(self.0.on_host(group, self.1))
    }
}

/// Something that pods may be put on, the more valuable per dollar the greater.
#[derive(Clone, Copy, PartialEq)]
struct Choice {
    ratio: f64,
    what: What,
    /// Pods left when the ratio was found.
    seen: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Offer(usize),
    Node(usize),
}

impl Eq for Choice {}

impl PartialOrd for Choice {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Choice {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ratio
            .total_cmp(&other.ratio)
            .then(other.what.cmp(&self.what))
    }
}

/// Removes nodes and places their pods. Returns what found no place; the state is of no use then.
pub fn pack(state: &mut SearchState<'_, '_>, filler: &mut Filler, removed: &[usize]) -> Vec<Pods> {
    pack_with(state, filler, removed, removed)
}

/// Removes a node and finds other places for its pods, whatever they cost. Returns what found none;
/// the state is of no use then.
pub fn pack_elsewhere(
    state: &mut SearchState<'_, '_>,
    filler: &mut Filler,
    node: usize,
) -> Vec<Pods> {
    pack_with(state, filler, &[node], &[])
}

/// The same of nodes, some of which may come back.
fn pack_with(
    state: &mut SearchState<'_, '_>,
    filler: &mut Filler,
    removed: &[usize],
    may_return: &[usize],
) -> Vec<Pods> {
    let c = state.c;
    let mut demand = Demand::none(c);
    for &node in removed {
        state.set(node, HostState::Removed);
        for own in &c.nodes[node].own {
            demand.add(c, (own.class, own.units));
        }
    }
    fill_kept(state, filler, &mut demand);
    buy(state, filler, &mut demand, may_return);
    let bought: Vec<usize> = state.bought().map(|(host, _)| host).collect();
    bought.into_iter().for_each(|host| state.shrink(host));
    (0..)
        .zip(demand.left)
        .filter(|(_, pods)| *pods > 0)
        .collect()
}

/// Fills the nodes that stay, roomiest first.
fn fill_kept(state: &mut SearchState<'_, '_>, filler: &mut Filler, demand: &mut Demand) {
    let c = state.c;
    let kept = |at: &usize| state.hosts[*at].state == HostState::Kept && c.nodes[*at].destination;
    let mut order: Vec<(f64, usize)> = (0..c.nodes.len())
        .filter(kept)
        .map(|at| (c.worth_of_room(&state.hosts[at].free), at))
        .collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    for (_, host) in order {
        let free = state.hosts[host].free.clone();
        let picks = filler
            .fill(c, demand, &free, &OnHost(state, host))
            .1
            .to_vec();
        put(state, demand, host, &picks);
        demand.tidy(c);
        if demand.sizes.is_empty() {
            return;
        }
    }
}

fn put(state: &mut SearchState<'_, '_>, demand: &mut Demand, host: usize, picks: &[Pods]) {
    for &(class, pods) in picks {
        state.place(host, class, pods);
        demand.take((class, pods));
    }
}

/// Buys for what is left, most value per dollar first; removed nodes compete with their own pods.
fn buy(
    state: &mut SearchState<'_, '_>,
    filler: &mut Filler,
    demand: &mut Demand,
    removed: &[usize],
) {
    let c = state.c;
    demand.tidy(c);
    let mut rest = Rest::of(c, demand);
    let mut heap: BinaryHeap<Choice> = BinaryHeap::new();
    let offers = c.shortlist.iter().copied().map(What::Offer);
    for what in offers.chain(removed.iter().map(|&node| What::Node(node))) {
        let ratio = match what {
            What::Offer(offer) => reach(c, demand, offer) / c.offers[offer].cost.max(1e-9),
            What::Node(_) => f64::INFINITY,
        };
        heap.push(Choice {
            ratio,
            what,
            seen: u64::MAX,
        });
    }
    while !demand.sizes.is_empty() {
        let Some(top) = heap.pop() else { return };
        if top.seen != rest.pods {
            let ratio = look(state, filler, demand, top.what);
            if ratio > 0.0 {
                heap.push(Choice {
                    ratio,
                    seen: rest.pods,
                    ..top
                });
            }
            continue;
        }
        if rest.is_small(c)
            && let Some(offer) = all_in_one(c, filler, demand, &rest, top.ratio * ALL_IN_ONE)
        {
            let free = c.offers[offer].room.clone();
            let picks = filler.fill(c, demand, &free, &OnOffer(c, offer)).1.to_vec();
            let host = state.buy(offer);
            put(state, demand, host, &picks);
        } else {
            take(state, filler, demand, top.what);
            if matches!(top.what, What::Offer(_)) {
                heap.push(top);
            }
        }
        demand.tidy(c);
        rest = Rest::of(c, demand);
    }
}

/// Value per dollar of the best contents.
fn look(state: &SearchState<'_, '_>, filler: &mut Filler, demand: &mut Demand, what: What) -> f64 {
    let c = state.c;
    match what {
        What::Offer(offer) => {
            let value = filler
                .fill(c, demand, &c.offers[offer].room, &OnOffer(c, offer))
                .0;
            value / c.offers[offer].cost.max(1e-9)
        }
        What::Node(node) => {
            let own = &c.nodes[node].own;
            if own
                .iter()
                .any(|own| demand.left[own.class as usize] < own.units)
            {
                return 0.0;
            }
            own.iter()
                .for_each(|own| demand.take((own.class, own.units)));
            let free = &c.nodes[node].free;
            let guests = filler.fill(c, demand, free, &OnRemoved(c, node)).0;
            own.iter()
                .for_each(|own| demand.left[own.class as usize] += own.units);
            let value = c.own_value(node) + c.nodes[node].move_cost + guests;
            value / c.nodes[node].cost.max(1e-9)
        }
    }
}

fn take(state: &mut SearchState<'_, '_>, filler: &mut Filler, demand: &mut Demand, what: What) {
    let c = state.c;
    match what {
        What::Offer(offer) => {
            let picks = filler
                .fill(c, demand, &c.offers[offer].room, &OnOffer(c, offer))
                .1
                .to_vec();
            let host = state.buy(offer);
            put(state, demand, host, &picks);
        }
        What::Node(node) => {
            c.nodes[node]
                .own
                .iter()
                .for_each(|own| demand.take((own.class, own.units)));
            state.set(node, HostState::Kept);
            let free = state.hosts[node].free.clone();
            let picks = filler
                .fill(c, demand, &free, &OnHost(state, node))
                .1
                .to_vec();
            put(state, demand, node, &picks);
        }
    }
}

/// What is left to place, in sum.
pub struct Rest {
    pods: u64,
    /// What all of it is worth, USD per hour.
    pub value: f64,
    cpu: i64,
    memory: i64,
}

impl Rest {
    /// Sums up the pods of a demand that are left.
    pub fn of(c: &Compiled<'_>, demand: &Demand) -> Self {
        let mut rest = Rest {
            pods: 0,
            value: 0.0,
            cpu: 0,
            memory: 0,
        };
        for &size in &demand.sizes {
            for &class in &c.by_size[size as usize] {
                let (pods, of) = (demand.left[class as usize], &c.classes[class as usize]);
                rest.pods += u64::from(pods);
                rest.value += f64::from(pods) * c.values[size as usize];
                rest.cpu += i64::from(pods) * of.amount[0];
                rest.memory += i64::from(pods) * of.amount[1];
            }
        }
        rest
    }

    /// Whether some node may hold all of it.
    fn is_small(&self, c: &Compiled<'_>) -> bool {
        c.offers
            .iter()
            .any(|offer| self.cpu <= offer.room[0] && self.memory <= offer.room[1])
    }
}

/// What everything that is left and that an offer admits is worth.
pub fn reach(c: &Compiled<'_>, demand: &Demand, offer: usize) -> f64 {
    let mut value = 0.0;
    for &size in &demand.sizes {
        let classes = &c.by_size[size as usize];
        if classes
            .first()
            .is_some_and(|&class| c.offer_admits(offer, class))
        {
            let pods: u32 = classes
                .iter()
                .map(|&class| demand.left[class as usize])
                .sum();
            value += f64::from(pods) * c.values[size as usize];
        }
    }
    value
}

/// The cheapest offer that holds all that is left, if it is worth so much per dollar.
pub fn all_in_one(
    c: &Compiled<'_>,
    filler: &mut Filler,
    demand: &Demand,
    rest: &Rest,
    ratio: f64,
) -> Option<usize> {
    for (at, offer) in c.offers.iter().enumerate() {
        if rest.value < ratio * offer.cost {
            return None;
        }
        if rest.cpu > offer.room[0] || rest.memory > offer.room[1] {
            continue;
        }
        if reach(c, demand, at) < rest.value * (1.0 - 1e-9) {
            continue;
        }
        let picks = filler.fill(c, demand, &offer.room, &OnOffer(c, at)).1;
        if picks.iter().map(|&(_, pods)| u64::from(pods)).sum::<u64>() == rest.pods {
            return Some(at);
        }
    }
    None
}

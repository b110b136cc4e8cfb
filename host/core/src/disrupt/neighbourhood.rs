//! Improves a state by small changes: a few hosts are dropped, their pods go into room that is free or
//! onto something cheaper, and what does not pay is undone.

use super::costs::MIN_GAIN;
use super::fill::{Demand, Filler};
use super::pack::{self, OnOffer, Rest};
use super::state::{HostState, Pods, SearchState};

/// The most hosts that one try drops.
const MAX_HOSTS: u64 = 6;
/// How much better one node for all that is left counts: nothing remains to be bought then.
const ALL_IN_ONE_BONUS: f64 = 1.1;
/// How many hosts are looked at for room.
const MAX_SEARCHED_HOSTS: usize = 250;
/// Tries after which hosts are ranked anew.
const RANKED_FOR: usize = 64;

/// Numbers from a seed.
pub struct Rng(u64);

impl Rng {
    /// A generator that gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `most`, which is not 0.
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most.max(1)
    }
}

/// Tries so many changes, and keeps those that pay.
pub fn improve(state: &mut SearchState<'_, '_>, filler: &mut Filler, tries: usize, rng: &mut Rng) {
    let mut order: Vec<usize> = Vec::new();
    for number in 0..tries {
        if number % RANKED_FOR == 0 {
            state.compact();
            order = ranked(state);
        }
        if order.is_empty() {
            return;
        }
        let dropped = pick(state, &order, rng);
        attempt(state, filler, &dropped, rng);
    }
    state.compact();
}

/// Each node that may go alone, least worth what it costs first: what changes little needs.
pub fn sweep(
    state: &mut SearchState<'_, '_>,
    filler: &mut Filler,
    most_worth: f64,
    rng: &mut Rng,
) -> bool {
    let mut improved = false;
    for host in ranked(state) {
        if worth(state, host) > most_worth {
            break;
        }
        if matches!(
            state.hosts[host].state,
            HostState::Removed | HostState::Dropped
        ) {
            continue;
        }
        improved |= attempt(state, filler, &[host], rng);
    }
    state.compact();
    improved
}

/// Hosts that may be dropped, least worth what they cost first.
fn ranked(state: &SearchState<'_, '_>) -> Vec<usize> {
    let droppable = |at: &usize| match state.hosts[*at].state {
        HostState::Kept => state.c.nodes[*at].removable,
        HostState::Bought(_) => true,
        HostState::Removed | HostState::Dropped => false,
    };
    let mut order: Vec<(f64, usize)> = (0..state.hosts.len())
        .filter(droppable)
        .map(|at| (worth(state, at), at))
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    order.into_iter().map(|(_, at)| at).collect()
}

/// What a host holds, for what it costs.
fn worth(state: &SearchState<'_, '_>, host: usize) -> f64 {
    let c = state.c;
    let guests: f64 = state.hosts[host]
        .guests
        .iter()
        .map(|&(class, pods)| f64::from(pods) * c.value(class))
        .sum();
    match state.hosts[host].state {
        HostState::Bought(offer) => guests / c.offers[offer as usize].cost.max(1e-9),
        _ => guests / c.nodes[host].cost.max(1e-9) + c.worth_per_cost(host),
    }
}

/// A few hosts, mostly of those that are least worth what they cost.
fn pick(state: &SearchState<'_, '_>, order: &[usize], rng: &mut Rng) -> Vec<usize> {
    let hosts = 1 + rng.below(MAX_HOSTS);
    let mut picked = Vec::new();
    for _ in 0..hosts {
        // The square of a number below 1 is mostly small.
        let share = rng.below(1 << 20) as f64 / f64::from(1 << 20);
        let at = order[((share * share * order.len() as f64) as usize).min(order.len() - 1)];
        let there = !matches!(
            state.hosts[at].state,
            HostState::Removed | HostState::Dropped
        );
        if there && !picked.contains(&at) {
            picked.push(at);
        }
    }
    picked
}

/// Drops hosts and places their pods anew; whether that pays. If not, nothing has changed.
fn attempt(
    state: &mut SearchState<'_, '_>,
    filler: &mut Filler,
    dropped: &[usize],
    rng: &mut Rng,
) -> bool {
    let c = state.c;
    let (mark, before) = (state.mark(), state.cost);
    let mut pods: Vec<Pods> = Vec::new();
    for &host in dropped {
        for (class, count) in state.hosts[host].guests.clone() {
            state.take(host, class, count);
            add(&mut pods, (class, count));
        }
        if host < c.nodes.len() {
            c.nodes[host]
                .own
                .iter()
                .for_each(|own| add(&mut pods, (own.class, own.units)));
            state.set(host, HostState::Removed);
        } else {
            state.set(host, HostState::Dropped);
        }
    }
    let paid = place(state, filler, pods, before, rng) && state.cost < before - MIN_GAIN;
    if !paid {
        state.undo(mark);
    }
    paid
}

fn add(pods: &mut Vec<Pods>, (class, count): Pods) {
    match pods.iter_mut().find(|(known, _)| *known == class) {
        Some((_, known)) => *known += count,
        None => pods.push((class, count)),
    }
}

/// Places pods into free room, then on new nodes, as long as it costs less than `most`.
fn place(
    state: &mut SearchState<'_, '_>,
    filler: &mut Filler,
    mut pods: Vec<Pods>,
    most: f64,
    rng: &mut Rng,
) -> bool {
    let c = state.c;
    // The largest first: they have the least choice.
    let size = |&(class, _): &Pods| c.worth_of_one(class);
    pods.sort_by(|a, b| size(b).total_cmp(&size(a)).then(a.0.cmp(&b.0)));
    let start = rng.below(state.hosts.len() as u64) as usize;
    for (class, left) in &mut pods {
        while *left > 0 {
            let Some(host) = tightest(state, *class, start) else {
                break;
            };
            let fits = state.fits(host, *class, *left);
            state.place(host, *class, fits);
            *left -= fits;
        }
    }
    let mut demand = Demand::none(c);
    pods.into_iter()
        .filter(|(_, left)| *left > 0)
        .for_each(|pods| demand.add(c, pods));
    while !demand.sizes.is_empty() {
        let rest = Rest::of(c, &demand);
        // No offer costs less than what its contents are worth.
        if state.cost + rest.value >= most {
            return false;
        }
        let mut best = pack::all_in_one(c, filler, &demand, &rest, 0.0)
            .filter(|&offer| state.cost + c.offers[offer].cost < most)
            .map(|offer| {
                let ratio = rest.value / c.offers[offer].cost.max(1e-9);
                (ALL_IN_ONE_BONUS * ratio, offer)
            });
        for &at in &c.shortlist {
            let cost = c.offers[at].cost;
            if state.cost + cost >= most {
                break;
            }
            let ratio_of = |value: f64| value / cost.max(1e-9);
            let beats = |value: f64| best.is_none_or(|(known, _)| ratio_of(value) > known);
            if !beats(pack::reach(c, &demand, at)) {
                continue;
            }
            let value = filler.fill_once(c, &demand, &c.offers[at].room, &OnOffer(c, at));
            if value > 0.0 && beats(value) {
                best = Some((ratio_of(value), at));
            }
        }
        let Some((_, offer)) = best else { return false };
        let picks = filler
            .fill(c, &demand, &c.offers[offer].room, &OnOffer(c, offer))
            .1
            .to_vec();
        let host = state.buy(offer);
        for (class, count) in picks {
            state.place(host, class, count);
            demand.take((class, count));
        }
        state.shrink(host);
        demand.tidy(c);
    }
    true
}

/// The host with the least room left among those that take a pod.
fn tightest(state: &SearchState<'_, '_>, class: u32, start: usize) -> Option<usize> {
    let hosts = state.hosts.len();
    let mut best: Option<(f64, usize)> = None;
    for step in 0..hosts.min(MAX_SEARCHED_HOSTS) {
        let at = (start + step) % hosts;
        let free = &state.hosts[at].free;
        if state.fits(at, class, 1) == 0 {
            continue;
        }
        let room = state.c.room_in_dollars(free);
        if best.is_none_or(|(known, _)| room < known) {
            best = Some((room, at));
        }
    }
    best.map(|(_, at)| at)
}

//! A state of the search: which nodes are gone, what is bought, and which pods are guests where.
//!
//! Every change is logged and can be undone, so that a try costs what it changes.

use smallvec::SmallVec;

use super::compiled::{Compiled, Rule};
use crate::schedule::fit::ResourceVector;

/// Whether a host stays, goes, or is bought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostState {
    /// An existing node that stays.
    Kept,
    /// An existing node that goes.
    Removed,
    /// A node to buy: position in [`Compiled::offers`].
    Bought(u32),
    /// A node that is not bought after all.
    Dropped,
}

/// Pods of a class: the class and how many.
pub type Pods = (u32, u32);

/// A host: an existing node, or one to buy.
#[derive(Clone, Debug)]
pub struct Host {
    /// Whether it stays, goes, or is bought.
    pub state: HostState,
    /// What it has left.
    pub free: ResourceVector,
    /// Pods that moved to it.
    pub guests: SmallVec<[Pods; 4]>,
    /// Guests by capped topology group.
    counts: SmallVec<[(u32, u16); 2]>,
}

#[derive(Clone, Debug)]
enum Change {
    Placed { host: u32, class: u32, pods: u32 },
    Taken { host: u32, class: u32, pods: u32 },
    Was { host: u32, state: HostState },
    Opened,
}

/// Which nodes are gone, what is bought, and which pods are guests where.
#[derive(Clone)]
pub struct SearchState<'c, 'a> {
    /// The cluster.
    pub c: &'c Compiled<'a>,
    /// Existing nodes, then bought ones.
    pub hosts: Vec<Host>,
    /// The objective less that of the cluster as it is, USD per hour.
    pub cost: f64,
    log: Vec<Change>,
}

impl<'c, 'a> SearchState<'c, 'a> {
    /// The cluster as it is.
    pub fn new(c: &'c Compiled<'a>) -> Self {
        let host = |node: &super::compiled::Node| Host {
            state: HostState::Kept,
            free: node.free.clone(),
            guests: SmallVec::new(),
            counts: SmallVec::new(),
        };
        SearchState {
            c,
            hosts: c.nodes.iter().map(host).collect(),
            cost: 0.0,
            log: Vec::new(),
        }
    }

    /// A point to undo to.
    pub fn mark(&self) -> usize {
        self.log.len()
    }

    /// Undoes everything since a mark.
    pub fn undo(&mut self, mark: usize) {
        while self.log.len() > mark {
            match self.log.pop() {
                Some(Change::Placed { host, class, pods }) => {
                    self.put_back(host as usize, class, pods)
                }
                Some(Change::Taken { host, class, pods }) => self.add(host as usize, class, pods),
                Some(Change::Was { host, state }) => {
                    self.cost += self.cost_as(host as usize, state)
                        - self.cost_as(host as usize, self.hosts[host as usize].state);
                    self.hosts[host as usize].state = state;
                }
                Some(Change::Opened) => _ = self.hosts.pop(),
                None => {}
            }
        }
    }

    /// Forgets how to undo what was done.
    pub fn commit(&mut self) {
        self.log.clear();
    }

    /// Cost of a host in a state, relative to an existing node that stays.
    fn cost_as(&self, host: usize, state: HostState) -> f64 {
        match state {
            HostState::Kept | HostState::Dropped => 0.0,
            HostState::Removed => self.c.nodes[host].move_cost - self.c.nodes[host].cost,
            HostState::Bought(offer) => self.c.offers[offer as usize].cost,
        }
    }

    /// Changes what a host is.
    pub fn set(&mut self, host: usize, state: HostState) {
        let was = self.hosts[host].state;
        self.cost += self.cost_as(host, state) - self.cost_as(host, was);
        self.hosts[host].state = state;
        self.log.push(Change::Was {
            host: host as u32,
            state: was,
        });
    }

    /// Buys a node; returns its number.
    pub fn buy(&mut self, offer: usize) -> usize {
        let free = self.c.offers[offer].room.clone();
        let (guests, counts) = (SmallVec::new(), SmallVec::new());
        self.hosts.push(Host {
            state: HostState::Dropped,
            free,
            guests,
            counts,
        });
        self.log.push(Change::Opened);
        self.set(self.hosts.len() - 1, HostState::Bought(offer as u32));
        self.hosts.len() - 1
    }

    /// Makes a bought node one of another offer.
    pub fn exchange(&mut self, host: usize, offer: usize) {
        let HostState::Bought(was) = self.hosts[host].state else {
            return;
        };
        // As a host of its own, so that undoing stays simple.
        let guests = self.hosts[host].guests.clone();
        for &(class, pods) in &guests {
            self.take(host, class, pods);
        }
        self.set(host, HostState::Dropped);
        let new = self.buy(offer);
        for &(class, pods) in &guests {
            self.place(new, class, pods);
        }
        debug_assert_ne!(was as usize, offer, "another offer");
    }

    /// Whether a host may ever take pods of a class, room and other pods aside.
    pub fn admits(&self, host: usize, class: u32) -> bool {
        match self.hosts[host].state {
            HostState::Kept => {
                self.c.nodes[host].destination
                    && self.c.places[self.c.classes[class as usize].place]
                        .nodes
                        .has(host)
            }
            HostState::Bought(offer) => self.c.offer_admits(offer as usize, class),
            HostState::Removed | HostState::Dropped => false,
        }
    }

    /// How many pods of a class a host has room for, at most `want`.
    pub fn fits(&self, host: usize, class: u32, want: u32) -> u32 {
        if want == 0 || !self.admits(host, class) {
            return 0;
        }
        let by_room = most(
            &self.hosts[host].free,
            &self.c.classes[class as usize].amount,
            want,
        );
        if by_room == 0 {
            0
        } else {
            by_room.min(self.by_rules(host, class))
        }
    }

    /// How many pods of a topology group are on a host.
    pub fn there(&self, host: usize, group: u32) -> u32 {
        let own = if host < self.c.nodes.len() {
            self.c.on_host(group, host)
        } else {
            0
        };
        let gained = self.hosts[host]
            .counts
            .iter()
            .find(|(known, _)| *known == group);
        u32::from(own) + gained.map_or(0, |(_, pods)| u32::from(*pods))
    }

    /// How many more pods of a class the rules about hosts allow.
    pub fn by_rules(&self, host: usize, class: u32) -> u32 {
        let rules = self.c.classes[class as usize].rules.iter();
        let allowed = rules.map(|rule| rule_allows(*rule, self.there(host, rule.group)));
        allowed.min().unwrap_or(u32::MAX)
    }

    /// Places pods on a host.
    pub fn place(&mut self, host: usize, class: u32, pods: u32) {
        self.add(host, class, pods);
        self.log.push(Change::Placed {
            host: host as u32,
            class,
            pods,
        });
    }

    /// Takes guests off a host.
    pub fn take(&mut self, host: usize, class: u32, pods: u32) {
        self.put_back(host, class, pods);
        self.log.push(Change::Taken {
            host: host as u32,
            class,
            pods,
        });
    }

    fn add(&mut self, host: usize, class: u32, pods: u32) {
        let of = &self.c.classes[class as usize];
        let host = &mut self.hosts[host];
        host.free
            .iter_mut()
            .zip(&of.amount)
            .for_each(|(free, &a)| *free -= a * i64::from(pods));
        match host.guests.iter_mut().find(|(known, _)| *known == class) {
            Some((_, known)) => *known += pods,
            None => host.guests.push((class, pods)),
        }
        for rule in of.rules.iter().filter(|rule| rule.adds > 0) {
            let pods = counted(pods, rule);
            match host
                .counts
                .iter_mut()
                .find(|(group, _)| *group == rule.group)
            {
                Some((_, known)) => *known = known.saturating_add(pods),
                None => host.counts.push((rule.group, pods)),
            }
        }
    }

    fn put_back(&mut self, host: usize, class: u32, pods: u32) {
        let of = &self.c.classes[class as usize];
        let host = &mut self.hosts[host];
        host.free
            .iter_mut()
            .zip(&of.amount)
            .for_each(|(free, &a)| *free += a * i64::from(pods));
        if let Some(at) = host.guests.iter().position(|(known, _)| *known == class) {
            host.guests[at].1 -= pods;
            if host.guests[at].1 == 0 {
                host.guests.remove(at);
            }
        }
        for rule in of.rules.iter().filter(|rule| rule.adds > 0) {
            let pods = counted(pods, rule);
            if let Some(at) = host
                .counts
                .iter()
                .position(|(group, _)| *group == rule.group)
            {
                host.counts[at].1 -= pods;
                if host.counts[at].1 == 0 {
                    host.counts.remove(at);
                }
            }
        }
    }

    /// Nodes to buy.
    pub fn bought(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.hosts
            .iter()
            .enumerate()
            .skip(self.c.nodes.len())
            .filter_map(|(at, host)| match host.state {
                HostState::Bought(offer) => Some((at, offer as usize)),
                _ => None,
            })
    }

    /// Nodes that go.
    pub fn removed(&self) -> impl Iterator<Item = usize> + '_ {
        let existing = self.hosts.iter().enumerate().take(self.c.nodes.len());
        existing
            .filter(|(_, host)| host.state == HostState::Removed)
            .map(|(at, _)| at)
    }

    /// Drops hosts that are not bought after all.
    pub fn compact(&mut self) {
        let existing = self.c.nodes.len();
        let mut at = 0;
        self.hosts.retain(|host| {
            at += 1;
            at <= existing || host.state != HostState::Dropped
        });
        self.log.clear();
    }

    /// Makes each bought node the cheapest one that holds its guests.
    pub fn shrink(&mut self, host: usize) {
        let HostState::Bought(now) = self.hosts[host].state else {
            return;
        };
        let mut used = self.c.offers[now as usize].room.clone();
        used.iter_mut()
            .zip(&self.hosts[host].free)
            .for_each(|(used, free)| *used -= free);
        let guests = &self.hosts[host].guests;
        if guests.is_empty() {
            self.set(host, HostState::Dropped);
            return;
        }
        let cheaper = (0..now as usize).find(|&offer| {
            let room = &self.c.offers[offer].room;
            self.c.offers[offer].cost < self.c.offers[now as usize].cost
                && used
                    .iter()
                    .zip(room)
                    .all(|(&used, &room)| used <= room || used == 0)
                && guests
                    .iter()
                    .all(|&(class, _)| self.c.offer_admits(offer, class))
        });
        if let Some(offer) = cheaper {
            self.exchange(host, offer);
        }
    }
}

/// How many pods of so many units count for a rule.
fn counted(units: u32, rule: &Rule) -> u16 {
    let pods = units.saturating_mul(u32::from(rule.adds));
    pods.min(u32::from(u16::MAX)) as u16
}

/// How many more units a rule about a host allows where so many pods count.
pub fn rule_allows(rule: Rule, there: u32) -> u32 {
    match (rule.cap, rule.adds) {
        (u16::MAX, _) => u32::MAX,
        (cap, 0) if there <= u32::from(cap) => u32::MAX,
        (_, 0) => 0,
        (cap, adds) => u32::from(cap).saturating_sub(there) / u32::from(adds),
    }
}

/// How many pods of so much fit a room, at most `want`.
pub fn most(free: &[i64], amount: &[i64], want: u32) -> u32 {
    let mut most = i64::from(want);
    for (&have, &need) in free.iter().zip(amount) {
        if need > 0 {
            if have < need {
                return 0;
            }
            most = most.min(have / need);
        }
    }
    most as u32
}

//! The course of one run: nodes arrive, pods are tried in queue order, those that fail wait for the next change.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::{FxHashMap, FxHashSet};

use super::chance::Chance;
use super::cluster::Cluster;
use super::filter::Filters;
use super::score;
use super::shapes::Queued;
use super::{Arrival, Seat, Simulator, Survival, VirtualNode};
use crate::plan::{NodeIx, PodIx};

/// Up to this many nodes kube-scheduler looks at all; above, at a share of them.
const LOOKS_AT_ALL: usize = 100;

/// One run.
pub struct Run<'s> {
    sim: &'s Simulator<'s>,
    cluster: Cluster<'s>,
    chance: Chance,
    /// Pods that wait, in queue order.
    backlog: Vec<Queued>,
    /// By class: what the last attempt that failed had seen.
    failed: Vec<Option<Seen>>,
    /// By shape: how often something happened that may give it a place where it had none.
    woken: Vec<u32>,
    /// Where the next search for nodes starts, if not all are looked at.
    next_start: usize,
    feasible: Vec<u32>,
    seats: Vec<(Queued, u32)>,
    /// The node that is meant for a pod.
    told: FxHashMap<PodIx, u32>,
    /// Pods that have been told their node, which is there: its room is kept for them.
    kept: FxHashSet<PodIx>,
    /// Pods that must spread, by node that is there and shape: the first is told, the others wait for their turn.
    turns: BTreeMap<(u32, u32), VecDeque<Queued>>,
}

/// What an attempt looked at: room on a node only shrinks, so that a class that failed need not look there again unless
/// it is woken.
#[derive(Clone, Copy)]
struct Seen {
    nodes: u32,
    woken: u32,
}

impl<'s> Run<'s> {
    /// A run before its first node; `told` names the node of pods that have one nominated.
    pub fn new(sim: &'s Simulator<'s>, nodes: &'s [VirtualNode<'s>], told: FxHashMap<PodIx, u32>, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let mut backlog = sim.compiled.queue.clone();
        let mut from = 0;
        let order_of_classes = comes_by_class(seed).then(|| {
            let mut order: Vec<u32> = (0..sim.compiled.classes.len() as u32).collect();
            chance.shuffle(&mut order);
            order
        });
        for &to in &sim.compiled.ties {
            match &order_of_classes {
                Some(order) => backlog[from..to].sort_by_key(|queued| order[queued.class as usize]),
                None => chance.shuffle(&mut backlog[from..to]),
            }
            from = to;
        }
        in_turn(&mut backlog, &sim.compiled.queue);
        Run {
            sim,
            cluster: Cluster::new(sim, nodes),
            chance,
            failed: vec![None; sim.compiled.classes.len()],
            woken: vec![0; sim.compiled.shapes.len()],
            next_start: 0,
            feasible: Vec::new(),
            seats: Vec::with_capacity(backlog.len()),
            backlog,
            told,
            kept: FxHashSet::default(),
            turns: BTreeMap::new(),
        }
    }

    /// Nodes that are ready first, then the others as `arrival` says.
    pub fn finish(mut self, arrival: Arrival) -> Survival {
        let nodes = &self.sim.snapshot.nodes;
        let existing = self.cluster.existing();
        let is_ready = |&n: &u32| nodes.get(n as usize).is_some_and(|n| n.initialized);
        let all = existing + self.nodes_to_come();
        let (ready, mut coming): (Vec<u32>, Vec<u32>) = (0..all as u32).partition(is_ready);
        self.chance.shuffle(&mut coming);
        self.arrive(&ready);
        match arrival {
            Arrival::Together => self.arrive(&coming),
            Arrival::OneByOne => coming.chunks(1).for_each(|node| self.arrive(node)),
        }
        self.survival()
    }

    fn nodes_to_come(&self) -> usize {
        self.cluster.load.len() - self.cluster.existing()
    }

    fn arrive(&mut self, nodes: &[u32]) {
        if self.backlog.is_empty() || nodes.is_empty() {
            return;
        }
        let woken = &mut self.woken;
        for &node in nodes {
            self.cluster.arrive(node, &mut |shape| woken[shape as usize] += 1);
        }
        self.tell(nodes);
        // A new domain can only make a constraint stricter, but for those that want more domains.
        for &shape in &self.sim.wants_domains {
            self.woken[shape as usize] += 1;
        }
        while self.pass() {}
    }

    /// Tells pods that these nodes are meant for them: all that need not spread, and of the others one of a shape a node.
    fn tell(&mut self, nodes: &[u32]) {
        if self.told.is_empty() {
            return;
        }
        for at in 0..self.backlog.len() {
            let queued = self.backlog[at];
            let Some(&node) = self.told.get(&queued.pod).filter(|node| nodes.contains(node)) else { continue };
            let class = &self.sim.compiled.classes[queued.class as usize];
            if self.sim.compiled.shapes[class.shape as usize].hard.is_empty() {
                self.keep(queued, node);
            } else {
                self.turns.entry((node, class.shape)).or_default().push_back(queued);
            }
        }
        self.advance();
    }

    /// Whose turn it is to be told; whether it is anybody's.
    fn advance(&mut self) -> bool {
        let next = self.turns.iter().filter_map(|(&(node, _), turn)| Some((*turn.front()?, node)));
        let next: Vec<(Queued, u32)> = next.filter(|(queued, _)| !self.kept.contains(&queued.pod)).collect();
        next.iter().for_each(|&(queued, node)| self.keep(queued, node));
        !next.is_empty()
    }

    fn keep(&mut self, queued: Queued, node: u32) {
        let shape = self.sim.compiled.classes[queued.class as usize].shape;
        self.cluster.keep(node, &self.sim.compiled.shapes[shape as usize]);
        self.kept.insert(queued.pod);
    }

    /// Tries every waiting pod once; whether one found a place that may have made another, or others were told theirs.
    fn pass(&mut self) -> bool {
        let waiting = std::mem::take(&mut self.backlog);
        let mut woke = false;
        let mut left = Vec::with_capacity(waiting.len());
        for queued in waiting {
            if self.sim.is_stopped() {
                left.push(queued);
                continue;
            }
            match self.attempt(queued) {
                Some(node) => woke |= self.bind(queued, node),
                None => left.push(queued),
            }
        }
        self.backlog = left;
        // The daemon hears of it when kube-scheduler has been through the queue.
        let told = self.advance();
        (woke || told) && !self.backlog.is_empty() && !self.sim.is_stopped()
    }

    /// A node for a pod: the one that it was told first.
    fn attempt(&mut self, queued: Queued) -> Option<u32> {
        let Some(&node) = self.told.get(&queued.pod).filter(|_| self.kept.contains(&queued.pod)) else {
            return self.search(queued);
        };
        let class = &self.sim.compiled.classes[queued.class as usize];
        let shape = &self.sim.compiled.shapes[class.shape as usize];
        self.cluster.give_back(node, shape);
        if Filters::new(&self.cluster, shape, class).pass(node) {
            return Some(node);
        }
        let found = self.search(queued);
        match found {
            // What was kept for it is free for others, who may have looked there before.
            Some(_) => self.failed.fill(None),
            None => self.cluster.keep(node, shape),
        }
        found
    }

    fn search(&mut self, queued: Queued) -> Option<u32> {
        let class = &self.sim.compiled.classes[queued.class as usize];
        let ready = self.cluster.ready.len() as u32;
        let woken = self.woken[class.shape as usize];
        let skip = match self.failed[queued.class as usize] {
            Some(seen) if seen.woken == woken => seen.nodes,
            _ => 0,
        };
        if skip == ready {
            return None;
        }
        let shape = &self.sim.compiled.shapes[class.shape as usize];
        let filters = Filters::new(&self.cluster, shape, class);
        self.feasible.clear();
        let nodes = &self.cluster.ready[skip as usize..];
        let enough = enough(ready as usize);
        let start = if enough < nodes.len() { self.next_start % nodes.len() } else { 0 };
        let mut looked_at = 0;
        for &node in nodes[start..].iter().chain(&nodes[..start]) {
            looked_at += 1;
            if filters.pass(node) {
                self.feasible.push(node);
                if self.feasible.len() == enough {
                    break;
                }
            }
        }
        self.next_start = start + looked_at;
        if self.feasible.is_empty() {
            self.failed[queued.class as usize] = Some(Seen { nodes: ready, woken });
            return None;
        }
        score::best(&self.cluster, shape, class, &self.feasible, &mut self.chance)
    }

    fn bind(&mut self, queued: Queued, node: u32) -> bool {
        let class = &self.sim.compiled.classes[queued.class as usize];
        let shape = &self.sim.compiled.shapes[class.shape as usize];
        self.cluster.place(node, shape, &class.volumes);
        shape.wakes.iter().for_each(|&s| self.woken[s as usize] += 1);
        self.seats.push((queued, node));
        if let Some(&meant) = self.told.get(&queued.pod)
            && let Some(turn) = self.turns.get_mut(&(meant, class.shape))
        {
            turn.retain(|other| other.pod != queued.pod);
        }
        !shape.wakes.is_empty()
    }

    fn survival(self) -> Survival {
        let existing = self.cluster.existing() as u32;
        let seat = |node: u32| match node.checked_sub(existing) {
            Some(new) => Seat::New(new),
            None => Seat::Existing(NodeIx(node)),
        };
        let welcome = |queued: &Queued| {
            let class = &self.sim.compiled.classes[queued.class as usize];
            let filters = Filters::new(&self.cluster, &self.sim.compiled.shapes[class.shape as usize], class);
            self.cluster.ready.iter().filter(|node| filters.pass_but_for_room(**node)).map(|node| seat(*node)).collect()
        };
        // What is of no use need not be complete.
        let waiting = if self.sim.is_stopped() { &[] } else { self.backlog.as_slice() };
        Survival {
            welcome: waiting.iter().map(welcome).collect(),
            left: waiting.iter().map(|q| q.pod).collect(),
            seats: self.seats.iter().map(|&(queued, node)| (queued.pod, seat(node))).collect(),
        }
    }
}

/// Whether pods that came at the same time are tried class by class, as those of a Deployment are made and come back from
/// waiting, or in any order. Every other pair of seeds has the one, so that either goes with each arrival.
pub fn comes_by_class(seed: u64) -> bool {
    seed % 4 >= 2
}

/// Puts the pods of each class into the order that they have in `queue`, where they are: like pods are made one after the
/// other, and a plan's are exchanged so that they come in its order (`planner/turns.rs`).
fn in_turn(backlog: &mut [Queued], queue: &[Queued]) {
    let mut of_class: BTreeMap<u32, VecDeque<Queued>> = BTreeMap::new();
    queue.iter().for_each(|queued| of_class.entry(queued.class).or_default().push_back(*queued));
    for place in backlog {
        if let Some(next) = of_class.get_mut(&place.class).and_then(VecDeque::pop_front) {
            *place = next;
        }
    }
}

/// How many nodes that pass are enough to choose from, among so many: all up to a hundred, then a share that falls from
/// a half by one per cent for every 125 nodes, to a twentieth, and never less than a hundred.
fn enough(nodes: usize) -> usize {
    let percent = 50_usize.saturating_sub(nodes / 125).max(5);
    nodes.min((nodes * percent / 100).max(LOOKS_AT_ALL))
}

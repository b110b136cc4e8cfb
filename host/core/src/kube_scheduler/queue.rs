//! One run: nodes register, pods are tried in queue order, and failed pods wait for the next
//! change.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::{FxHashMap, FxHashSet};

use super::cluster::Cluster;
use super::filter::Filters;
use super::rng::Rng;
use super::scenario::{NodeReadiness, SimulatedNode, SimulationResult, VirtualNode};
use super::score;
use super::shapes::Queued;
use super::simulator::Simulator;
use crate::plan::{NodeIx, PodIx};

/// Up to this many nodes kube-scheduler looks at all; above, at a share of them.
const MIN_FEASIBLE_TO_FIND: usize = 100;
/// Pods that are tried between two looks at the signal that ends the run.
const PODS_PER_LOOK_AT_STOP: usize = 16;

/// One simulation of kube-scheduler, from the first pod to the last.
pub struct Run<'s> {
    sim: &'s Simulator<'s>,
    cluster: Cluster<'s>,
    rng: Rng,
    /// Pods that wait, in queue order.
    backlog: Vec<Queued>,
    /// By class: what the last attempt that failed had seen.
    failed: Vec<Option<FailedAt>>,
    /// By shape: how often something happened that may give it a place where it had none.
    requeue_count: Vec<u32>,
    /// Where the next search for nodes starts, if not all are filtered.
    next_start: usize,
    feasible: Vec<u32>,
    placements: Vec<(Queued, u32)>,
    /// The node that is meant for a pod.
    nominated: FxHashMap<PodIx, u32>,
    /// Pods nominated to a node that has registered; its room is reserved for them.
    reserved: FxHashSet<PodIx>,
    /// Spread pods by registered node and shape: the first is nominated, the others wait.
    spread_queue: BTreeMap<(u32, u32), VecDeque<Queued>>,
}

/// The nodes that a failed attempt filtered. Room on a node only shrinks, so the class does not try
/// them again until it is requeued.
#[derive(Clone, Copy)]
struct FailedAt {
    nodes: u32,
    requeue_count: u32,
}

impl<'s> Run<'s> {
    /// A run before its first node; `nominated` has the node of each nominated pod.
    pub fn new(
        sim: &'s Simulator<'s>,
        nodes: &'s [VirtualNode<'s>],
        nominated: FxHashMap<PodIx, u32>,
        seed: u64,
    ) -> Self {
        let mut chance = Rng::new(seed);
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
        restore_class_order(&mut backlog, &sim.compiled.queue);
        Run {
            sim,
            cluster: Cluster::new(sim, nodes),
            rng: chance,
            failed: vec![None; sim.compiled.classes.len()],
            requeue_count: vec![0; sim.compiled.shapes.len()],
            next_start: 0,
            feasible: Vec::new(),
            placements: Vec::with_capacity(backlog.len()),
            backlog,
            nominated,
            reserved: FxHashSet::default(),
            spread_queue: BTreeMap::new(),
        }
    }

    /// Nodes that are ready first, then the others as `arrival` says.
    pub fn finish(mut self, arrival: NodeReadiness) -> SimulationResult {
        let nodes = &self.sim.snapshot.nodes;
        let existing = self.cluster.existing();
        let is_ready = |&n: &u32| nodes.get(n as usize).is_some_and(|n| n.initialized);
        let all = existing + self.nodes_to_come();
        let (ready, mut coming): (Vec<u32>, Vec<u32>) = (0..all as u32).partition(is_ready);
        self.rng.shuffle(&mut coming);
        self.nodes_ready(&ready);
        match arrival {
            NodeReadiness::Together => self.nodes_ready(&coming),
            NodeReadiness::OneByOne => coming.chunks(1).for_each(|node| self.nodes_ready(node)),
        }
        self.result()
    }

    fn nodes_to_come(&self) -> usize {
        self.cluster.load.len() - self.cluster.existing()
    }

    fn nodes_ready(&mut self, nodes: &[u32]) {
        if self.backlog.is_empty() || nodes.is_empty() {
            return;
        }
        let woken = &mut self.requeue_count;
        for &node in nodes {
            self.cluster
                .node_ready(node, &mut |shape| woken[shape as usize] += 1);
        }
        self.tell(nodes);
        let was_without_pods = |node| self.sim.existing_nodes.not_ready.contains_key(node);
        if nodes.iter().any(was_without_pods) {
            self.requeue_count.iter_mut().for_each(|count| *count += 1);
        }
        // A new domain can only make a constraint stricter, but for those that want more domains.
        for &shape in &self.sim.wants_domains {
            self.requeue_count[shape as usize] += 1;
        }
        while self.schedule_pass() {}
    }

    /// Tells pods that these nodes are meant for them: all that need not spread, and of the others
    /// one of a shape a node.
    fn tell(&mut self, nodes: &[u32]) {
        if self.nominated.is_empty() {
            return;
        }
        for at in 0..self.backlog.len() {
            let queued = self.backlog[at];
            let Some(&node) = self
                .nominated
                .get(&queued.pod)
                .filter(|node| nodes.contains(node))
            else {
                continue;
            };
            let class = &self.sim.compiled.classes[queued.class as usize];
            if self.sim.compiled.shapes[class.shape as usize]
                .required_spread
                .is_empty()
            {
                self.reserve(queued, node);
            } else {
                self.spread_queue
                    .entry((node, class.shape))
                    .or_default()
                    .push_back(queued);
            }
        }
        self.advance();
    }

    /// Nominates the next spread pods. Returns whether there was one.
    fn advance(&mut self) -> bool {
        let next = self
            .spread_queue
            .iter()
            .filter_map(|(&(node, _), turn)| Some((*turn.front()?, node)));
        let next: Vec<(Queued, u32)> = next
            .filter(|(queued, _)| !self.reserved.contains(&queued.pod))
            .collect();
        next.iter()
            .for_each(|&(queued, node)| self.reserve(queued, node));
        !next.is_empty()
    }

    fn reserve(&mut self, queued: Queued, node: u32) {
        let shape = self.sim.compiled.classes[queued.class as usize].shape;
        self.cluster
            .reserve(node, &self.sim.compiled.shapes[shape as usize]);
        self.reserved.insert(queued.pod);
    }

    /// Tries every waiting pod once. Returns whether a binding may have made room for others, or
    /// others were nominated.
    fn schedule_pass(&mut self) -> bool {
        let waiting = std::mem::take(&mut self.backlog);
        let mut woke = false;
        let mut left = Vec::with_capacity(waiting.len());
        let mut is_stopped = false;
        for (at, queued) in waiting.into_iter().enumerate() {
            // Asking reads the clock, which costs as much as placing a pod among few nodes.
            if at % PODS_PER_LOOK_AT_STOP == 0 {
                is_stopped = self.sim.is_stopped();
            }
            if is_stopped {
                left.push(queued);
                continue;
            }
            match self.schedule_one(queued) {
                Some(node) => woke |= self.bind(queued, node),
                None => left.push(queued),
            }
        }
        self.backlog = left;
        // The daemon sees the bindings when kube-scheduler has been through the queue.
        let nominated = self.advance();
        (woke || nominated) && !self.backlog.is_empty() && !self.sim.is_stopped()
    }

    /// A node for a pod: its nominated node first.
    fn schedule_one(&mut self, queued: Queued) -> Option<u32> {
        let Some(&node) = self
            .nominated
            .get(&queued.pod)
            .filter(|_| self.reserved.contains(&queued.pod))
        else {
            return self.search(queued);
        };
        let class = &self.sim.compiled.classes[queued.class as usize];
        let shape = &self.sim.compiled.shapes[class.shape as usize];
        self.cluster.release(node, shape);
        if Filters::new(&self.cluster, shape, class).passes(node) {
            return Some(node);
        }
        let found = self.search(queued);
        match found {
            // Its reserved room is free for other pods, which may have failed there before.
            Some(_) => self.failed.fill(None),
            None => self.cluster.reserve(node, shape),
        }
        found
    }

    fn search(&mut self, queued: Queued) -> Option<u32> {
        let class = &self.sim.compiled.classes[queued.class as usize];
        let ready = self.cluster.ready.len() as u32;
        let woken = self.requeue_count[class.shape as usize];
        let skip = match self.failed[queued.class as usize] {
            Some(seen) if seen.requeue_count == woken => seen.nodes,
            _ => 0,
        };
        if skip == ready {
            return None;
        }
        let shape = &self.sim.compiled.shapes[class.shape as usize];
        let filters = Filters::new(&self.cluster, shape, class);
        self.feasible.clear();
        let nodes = &self.cluster.ready[skip as usize..];
        let enough = feasible_to_find(ready as usize);
        let start = if enough < nodes.len() {
            self.next_start % nodes.len()
        } else {
            0
        };
        let mut looked_at = 0;
        for &node in nodes[start..].iter().chain(&nodes[..start]) {
            looked_at += 1;
            if filters.passes(node) {
                self.feasible.push(node);
                if self.feasible.len() == enough {
                    break;
                }
            }
        }
        self.next_start = start + looked_at;
        if self.feasible.is_empty() {
            self.failed[queued.class as usize] = Some(FailedAt {
                nodes: ready,
                requeue_count: woken,
            });
            return None;
        }
        score::best(&self.cluster, shape, class, &self.feasible, &mut self.rng)
    }

    fn bind(&mut self, queued: Queued, node: u32) -> bool {
        let class = &self.sim.compiled.classes[queued.class as usize];
        let shape = &self.sim.compiled.shapes[class.shape as usize];
        self.cluster.place(node, shape, &class.volumes);
        self.cluster.claim(node, class);
        shape
            .requeues
            .iter()
            .for_each(|&s| self.requeue_count[s as usize] += 1);
        self.placements.push((queued, node));
        if let Some(&meant) = self.nominated.get(&queued.pod)
            && let Some(turn) = self.spread_queue.get_mut(&(meant, class.shape))
        {
            turn.retain(|other| other.pod != queued.pod);
        }
        !shape.requeues.is_empty()
    }

    fn result(self) -> SimulationResult {
        let existing = self.cluster.existing() as u32;
        let seat = |node: u32| match node.checked_sub(existing) {
            Some(new) => SimulatedNode::New(new),
            None => SimulatedNode::Existing(NodeIx(node)),
        };
        let welcome = |queued: &Queued| {
            let class = &self.sim.compiled.classes[queued.class as usize];
            let filters = Filters::new(
                &self.cluster,
                &self.sim.compiled.shapes[class.shape as usize],
                class,
            );
            self.cluster
                .ready
                .iter()
                .filter(|node| filters.passes_except_resources(**node))
                .map(|node| seat(*node))
                .collect()
        };
        // What is of no use need not be complete.
        let waiting = if self.sim.is_stopped() {
            &[]
        } else {
            self.backlog.as_slice()
        };
        let suited = |queued: &Queued| {
            let profile = self.sim.compiled.classes[queued.class as usize].profile;
            let ready = &self.cluster.ready;
            ready
                .iter()
                .any(|&node| self.cluster.verdict(node, profile).fits)
        };
        SimulationResult {
            suited: waiting.iter().map(suited).collect(),
            feasible_if_larger: waiting.iter().map(welcome).collect(),
            unplaced: waiting.iter().map(|q| q.pod).collect(),
            placements: self
                .placements
                .iter()
                .map(|&(queued, node)| (queued.pod, seat(node)))
                .collect(),
        }
    }
}

/// Whether pods that came at the same time are tried class by class, as those of a Deployment are
/// made and come back from waiting, or in any order. Every other pair of seeds has the same order,
/// so that both orders occur with each arrival.
pub fn comes_by_class(seed: u64) -> bool {
    seed % 4 >= 2
}

/// Puts the pods of each class into the order that they have in `queue`, where they are: like pods
/// are made one after the other, and a plan's are exchanged so that they come in its order
/// (`planner/queue_order.rs`).
fn restore_class_order(backlog: &mut [Queued], queue: &[Queued]) {
    let mut of_class: BTreeMap<u32, VecDeque<Queued>> = BTreeMap::new();
    queue
        .iter()
        .for_each(|queued| of_class.entry(queued.class).or_default().push_back(*queued));
    for place in backlog {
        if let Some(next) = of_class.get_mut(&place.class).and_then(VecDeque::pop_front) {
            *place = next;
        }
    }
}

/// Number of feasible nodes to find among all nodes: all of them up to 100 nodes, then a share that
/// falls from 50 % by 1 % per 125 nodes to 5 %, and at least 100.
fn feasible_to_find(nodes: usize) -> usize {
    let percent = 50_usize.saturating_sub(nodes / 125).max(5);
    nodes.min((nodes * percent / 100).max(MIN_FEASIBLE_TO_FIND))
}

//! Whether a plan survives kube-scheduler: nobody tells it where the planner meant a pod to go.
//!
//! [`survive`] brings the hosts of a plan up one after another, or all at once, in an order that the seed decides, and
//! binds pods as kube-scheduler with its default profile does: filters, then scores, then the best host. A plan whose
//! pods all find a place for every seed is roomy; one that leaves pods over for some is fragile.
//!
//! [`hosts`] says what the hosts will be, [`topology`] counts pods by domain; the queue, the filters' order and the
//! scores are here. What is absent on purpose: preemption, image locality, sampling of hosts (below a hundred
//! kube-scheduler looks at all of them), and a choice of types other than the one that the planner counts on.
//! Pods that run already stay where they are.

mod hosts;
#[cfg(test)]
mod tests;
mod topology;

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::improve::pack::Rng;
use crate::matching::tolerates;
use crate::model::{Names, PodShape, ShapeId, TaintEffect};
use crate::plan::{Plan, PodIx};
use crate::snapshot::{PendingPod, Snapshot};
use hosts::Host;
use topology::Topology;

/// What became of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survival {
    /// Pods that the plan places and kube-scheduler finds no host for, in the order of its queue.
    pub left_over: Vec<PodIx>,
}

/// Lets kube-scheduler loose on the hosts of a plan. An odd seed brings all new hosts at once, an even one brings them
/// one after another; it also decides their order, the order of pods that are alike to the queue, and ties of scores.
pub fn survive(snapshot: &Snapshot, plan: &Plan, seed: u64) -> Survival {
    let mut rng = Rng::new(seed);
    let queue = queue(snapshot, plan, &mut rng);
    let hosts = hosts::hosts(snapshot, plan);
    let (kinds, kind_of) = kinds(snapshot, &queue, &hosts);
    let topology = Topology::new(snapshot, &kinds, &hosts);
    let mut coming: Vec<usize> = (snapshot.nodes.len()..hosts.len()).collect();
    shuffle(&mut coming, &mut rng);
    let mut scheduler = Scheduler {
        snapshot,
        hosts,
        kinds,
        kind_of,
        topology,
        rng,
        waiting: queue,
        present: Vec::new(),
        bound: 0,
        feasible: Vec::new(),
        best: Vec::new(),
    };
    let standing: Vec<usize> = (0..snapshot.nodes.len()).collect();
    scheduler.arrive(&standing);
    let together = if seed % 2 == 1 { coming.len().max(1) } else { 1 };
    coming.chunks(together).for_each(|some| scheduler.arrive(some));
    Survival { left_over: scheduler.waiting.iter().map(|&at| snapshot.pending[at].pod).collect() }
}

/// Pods that the plan places, as indexes into `snapshot.pending`: highest priority first, then oldest, then by chance.
fn queue(snapshot: &Snapshot, plan: &Plan, rng: &mut Rng) -> Vec<usize> {
    let refused: FxHashSet<PodIx> = plan.unplaced.iter().map(|u| u.pod).collect();
    let placed = |p: &PendingPod| p.unfit.is_none() && !refused.contains(&p.pod);
    let mut queue: Vec<usize> =
        snapshot.pending.iter().enumerate().filter(|(_, p)| placed(p)).map(|(at, _)| at).collect();
    shuffle(&mut queue, rng);
    queue.sort_by_key(|&at| {
        let pod = &snapshot.pending[at];
        (Reverse(pod.shape.priority), snapshot.world.pods[pod.pod.0 as usize].created)
    });
    queue
}

fn shuffle<T>(all: &mut [T], rng: &mut Rng) {
    for at in (1..all.len()).rev() {
        all.swap(at, rng.below(at + 1));
    }
}

/// Pods of one shape, with all about it that does not change.
struct Kind {
    shape: Arc<PodShape>,
    /// What the world calls it.
    ids: Vec<ShapeId>,
    /// Whether taints and labels of each host let it in.
    open: Vec<bool>,
    /// Weights of preferred node affinity that hold on each host; empty if it prefers nothing.
    liked: Vec<f64>,
    /// Taints on each host that would rather not have it; empty if there are none.
    shunned: Vec<f64>,
    /// When the last pod of it found no host.
    stuck: Option<Moment>,
}

/// What must have changed before a pod that found no host is worth another look: hosts that have come and, for pods
/// that others can make room for, pods bound.
type Moment = (usize, usize);

/// The kinds of the queue, and the kind of each pending pod (0 for those not in the queue).
fn kinds(snapshot: &Snapshot, queue: &[usize], hosts: &[Host]) -> (Vec<Kind>, Vec<usize>) {
    let mut kinds: Vec<Kind> = Vec::new();
    let mut by_shape: FxHashMap<*const PodShape, usize> = FxHashMap::default();
    let mut kind_of = vec![0; snapshot.pending.len()];
    for &at in queue {
        let pod = &snapshot.pending[at];
        let kind = *by_shape.entry(Arc::as_ptr(&pod.shape)).or_insert_with(|| {
            kinds.push(Kind::new(&pod.shape, hosts, &snapshot.world.names));
            kinds.len() - 1
        });
        kind_of[at] = kind;
        let id = snapshot.world.pods[pod.pod.0 as usize].shape;
        if !kinds[kind].ids.contains(&id) {
            kinds[kind].ids.push(id);
        }
    }
    (kinds, kind_of)
}

impl Kind {
    fn new(shape: &Arc<PodShape>, hosts: &[Host], names: &Names) -> Self {
        let open = hosts.iter().map(|h| h.lets_in(shape) && h.admits(shape, names)).collect();
        let weight = |host: &Host| {
            let terms = shape.preferred.iter().filter(|(_, term)| host.satisfies_term(term, names));
            terms.map(|(weight, _)| f64::from(*weight)).sum()
        };
        let shuns = |host: &Host| {
            let soft = host.taints.iter().filter(|t| t.effect == TaintEffect::PreferNoSchedule);
            soft.filter(|t| !tolerates(&shape.tolerations, t)).count() as f64
        };
        let liked: Vec<f64> = if shape.preferred.is_empty() { Vec::new() } else { hosts.iter().map(weight).collect() };
        let mut shunned: Vec<f64> = hosts.iter().map(shuns).collect();
        if shunned.iter().all(|&n| n == 0.0) {
            shunned.clear();
        }
        Kind { shape: shape.clone(), ids: Vec::new(), open, liked, shunned, stuck: None }
    }
}

struct Scheduler<'a> {
    snapshot: &'a Snapshot,
    hosts: Vec<Host>,
    kinds: Vec<Kind>,
    /// The kind of each pending pod.
    kind_of: Vec<usize>,
    topology: Topology,
    rng: Rng,
    /// Pods without a host, in queue order.
    waiting: Vec<usize>,
    /// Hosts that are there.
    present: Vec<usize>,
    /// Pods bound so far.
    bound: usize,
    /// Room to work in.
    feasible: Vec<usize>,
    best: Vec<f64>,
}

impl Scheduler<'_> {
    /// Hosts come, and every waiting pod is tried; pods that others can make room for are tried until nothing moves.
    fn arrive(&mut self, some: &[usize]) {
        let fresh = self.present.len();
        self.present.extend(some);
        some.iter().for_each(|&host| self.topology.arrive(host));
        let mut again = false;
        loop {
            let before = self.bound;
            let mut waiting = std::mem::take(&mut self.waiting);
            waiting.retain(|&pod| !self.attempt(pod, fresh, again));
            self.waiting = waiting;
            again = true;
            if self.bound == before {
                return;
            }
        }
    }

    /// Tries one pod; true if it is bound. What is on the old hosts only grows, so a pod without rules that others can
    /// satisfy need not look at them again.
    fn attempt(&mut self, at: usize, fresh: usize, again: bool) -> bool {
        let kind = self.kind_of[at];
        let may_open = self.topology.may_open(kind);
        if again && !may_open {
            return false;
        }
        let pod = &self.snapshot.pending[at];
        let alike = pod.volume_alternatives.is_empty() && pod.volumes.is_empty();
        let now = (self.present.len(), if may_open { self.bound } else { 0 });
        if alike && self.kinds[kind].stuck == Some(now) {
            return false;
        }
        self.filter(pod, kind, if may_open { 0 } else { fresh });
        let Some(host) = self.choose(pod, kind) else {
            if alike {
                self.kinds[kind].stuck = Some(now);
            }
            return false;
        };
        self.hosts[host].take(pod);
        self.topology.bind(kind, host);
        self.bound += 1;
        true
    }

    fn filter(&mut self, pod: &PendingPod, kind: usize, from: usize) {
        let names = &self.snapshot.world.names;
        let limits = self.topology.limits(kind);
        let open = &self.kinds[kind].open;
        let fits = |&host: &usize| {
            open[host] && self.hosts[host].has_room(pod, names) && self.topology.allows(kind, host, &limits)
        };
        self.feasible.clear();
        self.feasible.extend(self.present[from..].iter().copied().filter(fits));
    }

    /// The feasible host with the highest score; among equals, chance decides.
    fn choose(&mut self, pod: &PendingPod, kind: usize) -> Option<usize> {
        if self.feasible.len() < 2 {
            return self.feasible.first().copied();
        }
        self.score(pod, kind);
        let best = self.best.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let equals = self.best.iter().filter(|&&s| s == best).count();
        let lot = self.rng.below(equals);
        let mut winners = self.feasible.iter().zip(&self.best).filter(|(_, s)| **s == best);
        winners.nth(lot).map(|(&host, _)| host)
    }

    /// Scores of the feasible hosts, with the weights of the default profile.
    fn score(&mut self, pod: &PendingPod, kind: usize) {
        let Scheduler { hosts, kinds, topology, feasible, best, .. } = self;
        let kind_data = &kinds[kind];
        best.clear();
        best.extend(feasible.iter().map(|&h| hosts[h].spare(&pod.shape.requests)));
        if !kind_data.shunned.is_empty() {
            let shunned: Vec<f64> = feasible.iter().map(|&h| kind_data.shunned[h]).collect();
            let most = highest(&shunned);
            weigh(best, 3.0, shunned.iter().map(|s| if most > 0.0 { 1.0 - s / most } else { 1.0 }));
        }
        if !kind_data.liked.is_empty() {
            let liked: Vec<f64> = feasible.iter().map(|&h| kind_data.liked[h]).collect();
            let most = highest(&liked);
            weigh(best, 2.0, liked.iter().map(|l| if most > 0.0 { l / most } else { 0.0 }));
        }
        if topology.spreads(kind) {
            let crowd: Vec<Option<f64>> = feasible.iter().map(|&h| topology.crowd(kind, h)).collect();
            let known = || crowd.iter().flatten().copied();
            let (low, high) = (known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
            let share = |c: &Option<f64>| match c {
                None => 0.0,
                Some(_) if high == 0.0 => 1.0,
                Some(c) => (high + low - c) / high,
            };
            weigh(best, 2.0, crowd.iter().map(share));
        }
        if topology.prefers(kind) {
            let liking: Vec<f64> = feasible.iter().map(|&h| topology.liking(kind, h)).collect();
            let (low, high) = (liking.iter().copied().fold(f64::INFINITY, f64::min), highest(&liking));
            weigh(best, 2.0, liking.iter().map(|l| if high > low { (l - low) / (high - low) } else { 0.0 }));
        }
    }
}

fn highest(all: &[f64]) -> f64 {
    all.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Adds shares (0 to 1), as whole points of 100, times their weight.
fn weigh(best: &mut [f64], weight: f64, shares: impl Iterator<Item = f64>) {
    for (score, share) in best.iter_mut().zip(shares) {
        *score += weight * (100.0 * share).floor();
    }
}

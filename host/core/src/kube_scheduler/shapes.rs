//! Pods as numbers: what each shape requests, counts, filters and scores, with all selectors
//! resolved.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::model::{HostPort, PodShape, ResourceId, Resources, Symbol};
use crate::plan::PodIx;
use crate::snapshot::SharedClaim;

/// What kube-scheduler takes a pod for that asks for no CPU or no memory, when it scores (never
/// when it filters): a tenth of a core and 200 MiB. It does so by container; requests are known
/// here by pod.
const STAND_IN: [i64; 2] = [100, 200 << 20];

/// A pod in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// Index into the observed pods.
    pub pod: PodIx,
    /// Index into `Compiled::classes`.
    pub class: u32,
}

/// Identical pods: one shape and the same volumes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueueClass {
    /// Index into `Compiled::shapes`.
    pub shape: u32,
    /// What it asks of labels and taints.
    pub profile: u32,
    /// CSI volumes that it mounts.
    pub volumes: Vec<(Symbol, u32)>,
    /// Claims that it shares with others.
    pub shared: Vec<SharedClaim>,
    /// Claims that are bound when it is, those that ask for least first.
    pub unbound: Vec<UnboundClaim>,
}

/// A claim that is bound when its pod is: to the smallest volume that fits and is free.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnboundClaim {
    /// The claim.
    pub claim: u32,
    /// Volumes that fit, the smallest first, each with the number of the nodes that reach it.
    pub volumes: Vec<(u32, u32)>,
    /// The number of the nodes for which one can be made, if that is possible at all.
    pub made: Option<u32>,
}

/// A shape of pods with its rules resolved to counters.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Where it comes from.
    pub source: Arc<PodShape>,
    /// Amounts above zero by index of the resource.
    pub needs: SmallVec<[(u32, i64); 4]>,
    /// CPU and memory asked for.
    pub requested: [i64; 2],
    /// CPU and memory that LeastAllocated counts.
    pub nonzero_requested: [i64; 2],
    /// Host ports that its containers bind.
    pub ports: Vec<HostPort>,
    /// Spread constraints that must hold.
    pub required_spread: Vec<RequiredSpread>,
    /// Spread constraints that count for the score.
    pub preferred_spread: Vec<PreferredSpread>,
    /// Nodes without all labels of `soft` get no score from it (not so for the built-in default
    /// constraints).
    pub soft_needs_all: bool,
    /// Required pod affinity: one counter per term, each of pods that match all terms.
    pub affinity: Vec<u32>,
    /// It matches all its own affinity terms, so that the first one may go anywhere.
    pub may_be_first: bool,
    /// Counters that must be zero: pods that its anti-affinity selects, and pods whose
    /// anti-affinity selects it.
    pub anti_affinity: Vec<u32>,
    /// Counters that its score sums, with weights: preferred pod affinity, its own and that of
    /// others.
    pub affinity_weights: Vec<(u32, i64)>,
    /// What one more of it adds, by counter.
    pub adds: Vec<(u32, i32)>,
    /// Shapes that may find a place they did not find before because one of this was placed.
    pub requeues: Vec<u32>,
}

/// A `DoNotSchedule` constraint.
#[derive(Clone, Debug)]
pub struct RequiredSpread {
    /// Pods that it counts.
    pub counter: u32,
    /// `maxSkew`, less one if the pod counts itself.
    pub room: i64,
    /// `minDomains`.
    pub min_domains: Option<i32>,
}

/// A `ScheduleAnyway` constraint.
#[derive(Clone, Debug)]
pub struct PreferredSpread {
    /// Pods that it counts.
    pub counter: u32,
    /// `maxSkew`.
    pub max_skew: i32,
}

impl Shape {
    /// The same without rules about other pods.
    pub fn without_rules(&self) -> Self {
        Shape {
            required_spread: Vec::new(),
            preferred_spread: Vec::new(),
            affinity: Vec::new(),
            anti_affinity: Vec::new(),
            affinity_weights: Vec::new(),
            adds: Vec::new(),
            requeues: Vec::new(),
            source: self.source.clone(),
            needs: self.needs.clone(),
            ports: self.ports.clone(),
            ..*self
        }
    }

    /// A shape whose rules are still to be resolved.
    pub fn new(source: Arc<PodShape>, resources: &[ResourceId]) -> Self {
        let amounts = resources
            .iter()
            .enumerate()
            .map(|(at, &r)| (at as u32, source.requests.get(r)));
        let needs = amounts.filter(|&(_, amount)| amount > 0).collect();
        let asked = [
            source.requests.get(ResourceId::Cpu),
            source.requests.get(ResourceId::Memory),
        ];
        Shape {
            needs,
            requested: asked,
            nonzero_requested: nonzero_requested(&source.requests),
            ports: source.ports.clone(),
            required_spread: Vec::new(),
            preferred_spread: Vec::new(),
            soft_needs_all: !source.spread.is_empty(),
            affinity: Vec::new(),
            may_be_first: false,
            anti_affinity: Vec::new(),
            affinity_weights: Vec::new(),
            adds: Vec::new(),
            requeues: Vec::new(),
            source,
        }
    }
}

/// CPU and memory with the stand-ins for zero.
pub fn nonzero_requested(requests: &Resources) -> [i64; 2] {
    let or = |resource, stand_in| match requests.get(resource) {
        0 => stand_in,
        amount => amount,
    };
    [
        or(ResourceId::Cpu, STAND_IN[0]),
        or(ResourceId::Memory, STAND_IN[1]),
    ]
}

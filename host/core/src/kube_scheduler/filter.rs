//! The filters of kube-scheduler's default profile: which nodes a pod may be bound to now.

use smallvec::SmallVec;

use super::cluster::Cluster;
use super::existing_nodes::NOWHERE;
use super::shapes::{QueueClass, Shape};

/// The filters of one attempt: what does not depend on the node is worked out beforehand.
pub struct Filters<'c> {
    cluster: &'c Cluster<'c>,
    shape: &'c Shape,
    class: &'c QueueClass,
    /// Each spread constraint's counts with the largest that still admits the pod.
    spread: SmallVec<[(Counts<'c>, i64); 2]>,
    affinity: SmallVec<[Counts<'c>; 2]>,
    anti_affinity: SmallVec<[Counts<'c>; 2]>,
    /// No pod that its affinity selects exists, and the pod may be the first.
    may_be_first: bool,
}

/// A counter's number with its domains by node and its counts by domain: they are asked for each
/// node.
#[derive(Clone, Copy)]
struct Counts<'c> {
    counter: u32,
    domains: &'c [u32],
    counts: &'c [i32],
}

impl<'c> Counts<'c> {
    fn of(cluster: &'c Cluster<'c>, counter: u32) -> Self {
        let (domains, counts) = cluster.counter(counter);
        Counts {
            counter,
            domains,
            counts,
        }
    }

    /// The count of a node's domain; nothing if the node has none.
    fn on(&self, node: u32) -> Option<i32> {
        let domain = self.domains[node as usize];
        (domain != NOWHERE).then(|| self.counts[domain as usize])
    }
}

impl<'c> Filters<'c> {
    /// Prepares an attempt to place a pod of a class.
    pub fn new(cluster: &'c Cluster<'c>, shape: &'c Shape, class: &'c QueueClass) -> Self {
        let counts = |&counter: &u32| Counts::of(cluster, counter);
        let spread = shape.required_spread.iter().map(|hard| {
            let (domains, least) = cluster.least(hard.counter);
            // Too few domains: the missing ones count as empty. No domain at all: nothing to be
            // even with.
            let too_few = hard.min_domains.is_some_and(|min| domains < min);
            let least = if too_few {
                0
            } else {
                least.map_or(i64::from(i32::MAX), i64::from)
            };
            (counts(&hard.counter), hard.room + least)
        });
        Filters {
            cluster,
            shape,
            class,
            spread: spread.collect(),
            affinity: shape.affinity.iter().map(counts).collect(),
            anti_affinity: shape.anti_affinity.iter().map(counts).collect(),
            may_be_first: shape.may_be_first
                && shape.affinity.iter().all(|&c| cluster.total(c) == 0),
        }
    }

    /// Whether the node passes: taints, node affinity and zones of volumes; resources; host ports;
    /// volume limits; spread; pod affinity and anti-affinity.
    pub fn passes(&self, node: u32) -> bool {
        self.cluster.fits(node, self.shape) && self.passes_except_resources(node)
    }

    /// The same, resources left out.
    pub fn passes_except_resources(&self, node: u32) -> bool {
        self.cluster.verdict(node, self.class.profile).fits
            && (self.shape.ports.is_empty() || self.cluster.ports_free(node, &self.shape.ports))
            && (self.class.volumes.is_empty() || self.cluster.attaches(node, self.class))
            && self.cluster.reaches(node, self.class)
            && self.spread(node)
            && self.pod_affinity(node)
            && self.pod_anti_affinity(node)
            && (self.class.unbound.is_empty() || self.cluster.bindings(node, self.class).is_some())
    }

    fn spread(&self, node: u32) -> bool {
        self.spread.iter().all(|(counts, most)| {
            self.with_nominated(counts, node)
                .is_some_and(|count| i64::from(count) <= *most)
        })
    }

    fn pod_affinity(&self, node: u32) -> bool {
        self.affinity.iter().all(|counts| {
            counts
                .on(node)
                .is_some_and(|count| count > 0 || self.may_be_first)
        })
    }

    fn pod_anti_affinity(&self, node: u32) -> bool {
        self.anti_affinity
            .iter()
            .all(|counts| self.with_nominated(counts, node).unwrap_or(0) <= 0)
    }

    /// What a counter counts on a node's domain, pods that are nominated to that node included.
    fn with_nominated(&self, counts: &Counts<'_>, node: u32) -> Option<i32> {
        let nominated = self.cluster.reserved(counts.counter, node);
        Some(counts.on(node)? + nominated.max(0))
    }
}

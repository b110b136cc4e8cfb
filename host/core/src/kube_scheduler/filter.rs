//! The filters of kube-scheduler's default profile: which nodes a pod may be bound to now.

use smallvec::SmallVec;

use super::cluster::Cluster;
use super::shapes::{QueueClass, Shape};

/// The filters of one attempt: what does not depend on the node is worked out beforehand.
pub struct Filters<'c> {
    cluster: &'c Cluster<'c>,
    shape: &'c Shape,
    class: &'c QueueClass,
    /// Counter of each spread constraint with the largest count that still admits the pod.
    spread: SmallVec<[(u32, i64); 4]>,
    /// No pod that its affinity selects exists, and the pod may be the first.
    may_be_first: bool,
}

impl<'c> Filters<'c> {
    /// Prepares an attempt to place a pod of a class.
    pub fn new(cluster: &'c Cluster<'c>, shape: &'c Shape, class: &'c QueueClass) -> Self {
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
            (hard.counter, hard.room + least)
        });
        Filters {
            cluster,
            shape,
            class,
            spread: spread.collect(),
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
            && self.spread(node)
            && self.pod_affinity(node)
            && self.pod_anti_affinity(node)
    }

    fn spread(&self, node: u32) -> bool {
        self.spread.iter().all(|&(counter, most)| {
            self.with_nominated(counter, node)
                .is_some_and(|count| i64::from(count) <= most)
        })
    }

    fn pod_affinity(&self, node: u32) -> bool {
        self.shape.affinity.iter().all(|&counter| {
            self.cluster
                .count(counter, node)
                .is_some_and(|count| count > 0 || self.may_be_first)
        })
    }

    fn pod_anti_affinity(&self, node: u32) -> bool {
        self.shape
            .anti_affinity
            .iter()
            .all(|&counter| self.with_nominated(counter, node).unwrap_or(0) <= 0)
    }

    /// What a counter counts on a node's domain, pods that are nominated to that node included.
    fn with_nominated(&self, counter: u32, node: u32) -> Option<i32> {
        let count = self.cluster.count(counter, node)?;
        Some(count + self.cluster.reserved(counter, node).max(0))
    }
}

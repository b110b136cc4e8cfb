//! Nominated pods that their spread constraints no longer admit, because other pods of their group
//! went elsewhere than planned.
//!
//! kube-scheduler chooses the domains of spread pods within their constraints. If a pod takes room
//! in another domain than the planned one, the planned domain ends up one pod short and the other
//! one pod ahead once all nominated pods arrive. kube-scheduler does not bind such a pod, however
//! much room there is. So the pod that is one too many is planned again at once.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::nodes::StateNode;
use super::running::Running;
use crate::ids::PodIx;
use crate::matching::{admits, untolerated};
use crate::model::pod::NodeInclusion;
use crate::model::{ClusterObjects, PodShape, ShapeId, Spread, Symbol};

/// The pods of `expected` (pods and positions of their nodes) that are one too many in a domain.
/// Pods are tested in this order, each without those found before it. Other waiting pods are
/// assumed to go to the domain with the fewest pods. `running` includes the expected pods. Nodes
/// that kube-scheduler cannot use yet and default constraints are ignored.
pub fn skew_violations(
    world: &ClusterObjects,
    nodes: &[StateNode],
    running: &Running,
    expected: &[(PodIx, usize)],
) -> FxHashSet<PodIx> {
    let mut found = FxHashSet::default();
    let shape_of = |pod: PodIx| world.pods[pod.0 as usize].shape;
    let spreads = |pod: PodIx| {
        world
            .shapes
            .get(shape_of(pod))
            .spread
            .iter()
            .any(|rule| rule.required)
    };
    let open: Vec<_> = expected
        .iter()
        .filter(|(pod, at)| nodes[*at].initialized && spreads(*pod))
        .collect();
    if open.is_empty() {
        return found;
    }
    let waiting = waiting(world, nodes, expected);
    let mut tallies: FxHashMap<ShapeId, Vec<DomainCounts>> = FxHashMap::default();
    for &&(pod, at) in &open {
        let shape = world.shapes.get(shape_of(pod));
        // One that does not count the pod itself never finds it one too many.
        let required = shape
            .spread
            .iter()
            .filter(|rule| rule.required && rule.selector.matches(&shape.labels));
        let tallies = tallies.entry(shape_of(pod)).or_insert_with(|| {
            required
                .map(|rule| DomainCounts::new(world, nodes, running, &waiting, shape, rule))
                .collect()
        });
        if tallies.iter().any(|tally| tally.is_exceeded(&nodes[at])) {
            tallies
                .iter_mut()
                .for_each(|tally| tally.move_to_least(&nodes[at]));
            found.insert(pod);
        }
    }
    found
}

/// Number of pods of each shape that will still arrive: waiting pods without a planned node, and
/// pods of terminating nodes, which will be created again.
fn waiting(
    world: &ClusterObjects,
    nodes: &[StateNode],
    expected: &[(PodIx, usize)],
) -> FxHashMap<ShapeId, u32> {
    let known: FxHashSet<PodIx> = expected.iter().map(|(pod, _)| *pod).collect();
    let stay: FxHashSet<Symbol> = nodes.iter().map(|node| node.name).collect();
    let mut waiting = FxHashMap::default();
    for (at, pod) in world.pods.iter().enumerate() {
        let stays = pod.node.is_some_and(|node| stay.contains(&node));
        if !stays && !pod.terminal && !pod.deleting && !known.contains(&PodIx(at as u32)) {
            *waiting.entry(pod.shape).or_default() += 1;
        }
    }
    waiting
}

/// Pods that a constraint counts, by domain; those of the shape that it is of are among them.
struct DomainCounts {
    key: Symbol,
    max_skew: i32,
    /// With fewer domains than `minDomains` the minimum is 0.
    too_few: bool,
    by_domain: BTreeMap<Symbol, i32>,
}

impl DomainCounts {
    fn new(
        world: &ClusterObjects,
        nodes: &[StateNode],
        running: &Running,
        waiting: &FxHashMap<ShapeId, u32>,
        shape: &PodShape,
        rule: &Spread,
    ) -> Self {
        let counts = |node: &StateNode| {
            (rule.node_affinity == NodeInclusion::Ignore
                || admits(&node.labels, shape, &world.names))
                && (rule.node_taints == NodeInclusion::Ignore
                    || untolerated(&shape.tolerations, node.written_taints(), false).is_none())
        };
        // A node that has not registered is no domain for kube-scheduler, unless a pod of the group
        // is nominated to it.
        let mut by_domain: BTreeMap<Symbol, i32> = BTreeMap::new();
        for node in nodes.iter().filter(|node| node.initialized && counts(node)) {
            node.labels
                .get(rule.key)
                .map(|domain| by_domain.entry(domain).or_default());
        }
        let selected = |id: ShapeId| {
            let other = world.shapes.get(id);
            other.namespace == shape.namespace && rule.selector.matches(&other.labels)
        };
        for id in running
            .candidates(&rule.selector)
            .into_iter()
            .filter(|id| selected(*id))
        {
            for &(node, count) in running.on(id) {
                let node = &nodes[node.0 as usize];
                if let Some(domain) = node.labels.get(rule.key).filter(|_| counts(node)) {
                    *by_domain.entry(domain).or_default() += count as i32;
                }
            }
        }
        let mut tally = DomainCounts {
            key: rule.key,
            max_skew: rule.max_skew,
            too_few: rule
                .min_domains
                .is_some_and(|least| (by_domain.len() as i32) < least),
            by_domain,
        };
        let to_come = waiting
            .iter()
            .filter(|(id, _)| selected(**id))
            .map(|(_, count)| count)
            .sum::<u32>();
        (0..to_come).for_each(|_| tally.add_to_least());
        tally
    }

    /// Somebody comes where fewest are.
    fn add_to_least(&mut self) {
        if let Some(least) = self.by_domain.values_mut().min().filter(|_| !self.too_few) {
            *least += 1;
        }
    }

    fn is_exceeded(&self, node: &StateNode) -> bool {
        let Some(here) = node
            .labels
            .get(self.key)
            .and_then(|domain| self.by_domain.get(&domain))
        else {
            return false;
        };
        let least = if self.too_few {
            0
        } else {
            self.by_domain.values().copied().min().unwrap_or(0)
        };
        here - least > self.max_skew
    }

    /// Somebody leaves a node for the domain with the fewest, which is where he will be planned.
    fn move_to_least(&mut self, node: &StateNode) {
        if let Some(here) = node
            .labels
            .get(self.key)
            .and_then(|domain| self.by_domain.get_mut(&domain))
        {
            *here -= 1;
        }
        self.add_to_least();
    }
}

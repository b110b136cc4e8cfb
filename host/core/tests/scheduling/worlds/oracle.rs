//! kube-scheduler's filters as its documentation describes them, on the records of a snapshot and
//! written for themselves: whether a pod may be bound to a node beside the pods that are there.

use std::collections::BTreeMap;

use longshore_core::model::pod::NodeInclusion;
use longshore_core::model::{
    ClusterObjects, HostPort, Labels, Op, PodShape, PodTerm, Requirement, Resources, Symbol, Taint,
    TaintEffect, Toleration,
};
use longshore_core::snapshot::PendingPod;

/// A node with what is on it.
#[derive(Clone)]
pub struct Node {
    pub labels: Labels,
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    pub free: Resources,
    pub ports: Vec<HostPort>,
    /// Shapes of its pods, and whether each is terminating.
    pub pods: Vec<(PodShape, bool)>,
}

pub struct Cluster<'w> {
    pub world: &'w ClusterObjects,
    pub nodes: Vec<Node>,
    /// The node of the first pod that was bound with a claim, by position of the claim.
    pub claimed: BTreeMap<usize, usize>,
}

fn tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|t| {
        t.key.is_none_or(|key| key == taint.key)
            && (t.exists || (t.key.is_some() && t.value == taint.value))
            && t.effect.is_none_or(|effect| effect == taint.effect)
    })
}

impl Cluster<'_> {
    fn holds(&self, labels: &Labels, r: &Requirement) -> bool {
        let value = labels.get(r.key);
        let number = value.and_then(|v| self.world.names.text(v).parse::<i64>().ok());
        match &r.op {
            Op::In(values) => value.is_some_and(|v| values.contains(&v)),
            Op::NotIn(values) => !value.is_some_and(|v| values.contains(&v)),
            Op::Exists => value.is_some(),
            Op::DoesNotExist => value.is_none(),
            Op::Gte(least) => number.is_some_and(|n| n >= *least),
            Op::Lte(most) => number.is_some_and(|n| n <= *most),
        }
    }

    fn affine(&self, shape: &PodShape, labels: &Labels) -> bool {
        let all = |term: &[Requirement]| term.iter().all(|r| self.holds(labels, r));
        all(&shape.node_selector)
            && (shape.required.is_empty() || shape.required.iter().any(|t| all(t)))
    }

    fn selects(&self, term: &PodTerm, own: Symbol, other: &PodShape) -> bool {
        let of_namespace = self.world.namespaces.iter();
        let labels = of_namespace.filter(|(name, _)| *name == other.namespace);
        let empty = Labels::default();
        let labels = labels.map(|(_, labels)| labels).next().unwrap_or(&empty);
        let by_default = term.namespaces.is_empty() && term.namespace_selector.is_none();
        let here = (by_default && other.namespace == own)
            || term.namespaces.contains(&other.namespace)
            || term
                .namespace_selector
                .as_ref()
                .is_some_and(|s| s.matches(labels));
        here && term.selector.matches(&other.labels)
    }

    /// The claims of a pod of which another pod decides, and whether one pod at a time may have each.
    fn undecided(&self, pod: &PendingPod) -> Vec<(usize, bool)> {
        let record = &self.world.pods[pod.pod.0 as usize];
        let all = self.world.volume_claims.iter().enumerate();
        let of_pod = all.filter(|(_, claim)| {
            claim.namespace == pod.shape.namespace && record.claims.contains(&claim.name)
        });
        let waits = |class: Symbol| {
            let mut classes = self.world.storage_classes.iter();
            classes.any(|of| of.name == class && of.wait_for_consumer)
        };
        let open = of_pod.filter(|(_, claim)| {
            let is_free = claim.volume.is_none() && claim.selected_node.is_none();
            claim.modes.one_pod() || (is_free && claim.class.is_some_and(waits))
        });
        open.map(|(at, claim)| (at, claim.modes.one_pod()))
            .collect()
    }

    /// Why a pod may not be bound to a node now; nothing if it may.
    pub fn refuses(&self, pod: &PendingPod, at: usize) -> Option<&'static str> {
        let (node, shape) = (&self.nodes[at], &*pod.shape);
        let kept_out = |taint: &&Taint| {
            taint.effect != TaintEffect::PreferNoSchedule && !tolerated(&shape.tolerations, taint)
        };
        let everything = |t: &Toleration| t.exists && t.key.is_none();
        if node.taints.iter().any(|taint| kept_out(&taint)) {
            return Some("taint");
        }
        if node.cordoned && !shape.tolerations.iter().any(everything) {
            return Some("cordoned");
        }
        let volumes = &pod.volume_alternatives;
        let there = |a: &Vec<Requirement>| a.iter().all(|r| self.holds(&node.labels, r));
        if !self.affine(shape, &node.labels) || !(volumes.is_empty() || volumes.iter().any(there)) {
            return Some("labels");
        }
        if shape
            .requests
            .iter()
            .any(|(r, amount)| amount > node.free.get(r))
        {
            return Some("resources");
        }
        if shape
            .ports
            .iter()
            .any(|p| node.ports.iter().any(|t| t.conflicts(p)))
        {
            return Some("ports");
        }
        let elsewhere = |(claim, one_pod): &(usize, bool)| {
            let first = self.claimed.get(claim);
            first.is_some_and(|first| *one_pod || *first != at)
        };
        if self.undecided(pod).iter().any(elsewhere) {
            return Some("claim");
        }
        if !self.spread(shape, node) {
            return Some("spread");
        }
        if !self.affinity(shape, node) {
            return Some("affinity");
        }
        (!self.anti_affinity(shape, node)).then_some("anti-affinity")
    }

    fn spread(&self, shape: &PodShape, node: &Node) -> bool {
        let rules = || shape.spread.iter().filter(|s| s.required);
        rules().all(|rule| {
            let Some(domain) = node.labels.get(rule.key) else {
                return false;
            };
            let counts = |n: &&Node| {
                let has_all = rules().all(|other| n.labels.get(other.key).is_some());
                let affine =
                    rule.node_affinity == NodeInclusion::Ignore || self.affine(shape, &n.labels);
                let tolerates = |taint: &Taint| {
                    taint.effect == TaintEffect::PreferNoSchedule
                        || tolerated(&shape.tolerations, taint)
                };
                let untainted =
                    rule.node_taints == NodeInclusion::Ignore || n.taints.iter().all(tolerates);
                has_all && affine && untainted
            };
            let mut by_domain: BTreeMap<Symbol, i64> = BTreeMap::new();
            for n in self.nodes.iter().filter(counts) {
                let Some(value) = n.labels.get(rule.key) else {
                    continue;
                };
                let selected = |(other, terminating): &&(PodShape, bool)| {
                    !terminating
                        && other.namespace == shape.namespace
                        && rule.selector.matches(&other.labels)
                };
                *by_domain.entry(value).or_default() +=
                    n.pods.iter().filter(selected).count() as i64;
            }
            let few = (by_domain.len() as i64) < i64::from(rule.min_domains.unwrap_or(0));
            let least = by_domain.values().copied().min().unwrap_or(0);
            let least = if few { 0 } else { least };
            let own = i64::from(rule.selector.matches(&shape.labels));
            let here = by_domain.get(&domain).copied().unwrap_or(0);
            here + own - least <= i64::from(rule.max_skew)
        })
    }

    fn affinity(&self, shape: &PodShape, node: &Node) -> bool {
        if shape.affinity.is_empty() {
            return true;
        }
        let all = |other: &PodShape| {
            shape
                .affinity
                .iter()
                .all(|term| self.selects(term, shape.namespace, other))
        };
        let mut pairs: Vec<(Symbol, Symbol)> = Vec::new();
        for n in &self.nodes {
            if n.pods.iter().any(|(other, _)| all(other)) {
                let keys = shape.affinity.iter().map(|term| term.key);
                pairs.extend(keys.filter_map(|key| Some((key, n.labels.get(key)?))));
            }
        }
        let labelled = shape
            .affinity
            .iter()
            .all(|term| node.labels.get(term.key).is_some());
        let beside = shape.affinity.iter().all(|term| {
            let here = node.labels.get(term.key).map(|value| (term.key, value));
            here.is_some_and(|pair| pairs.contains(&pair))
        });
        labelled && (beside || (pairs.is_empty() && all(shape)))
    }

    fn anti_affinity(&self, shape: &PodShape, node: &Node) -> bool {
        let together = |key: Symbol, n: &Node| {
            node.labels
                .get(key)
                .is_some_and(|value| n.labels.get(key) == Some(value))
        };
        self.nodes.iter().all(|n| {
            n.pods.iter().all(|(other, _)| {
                let mine = shape.anti_affinity.iter().any(|term| {
                    together(term.key, n) && self.selects(term, shape.namespace, other)
                });
                let theirs = other.anti_affinity.iter().any(|term| {
                    together(term.key, n) && self.selects(term, other.namespace, shape)
                });
                !mine && !theirs
            })
        })
    }

    pub fn bind(&mut self, pod: &PendingPod, at: usize) {
        for (claim, _) in self.undecided(pod) {
            self.claimed.entry(claim).or_insert(at);
        }
        let node = &mut self.nodes[at];
        node.free.sub(&pod.shape.requests);
        node.ports.extend(&pod.shape.ports);
        node.pods.push(((*pod.shape).clone(), false));
    }
}

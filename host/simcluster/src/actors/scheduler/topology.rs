//! The domains that topology rules of a pod and of others leave open for it, and the score of each.
//!
//! Counted anew for every pod, by shape: some tens of shapes on some hundred hosts.

use std::collections::{BTreeMap, BTreeSet};

use longshore_core::matching;
use longshore_core::model::{LabelSelector, NodeInclusion, PodShape, PodTerm, Spread, Symbol};

use super::cluster::{Cluster, Host, ShapeNo};

/// Pods by the value of a topology key.
type Counts = BTreeMap<Symbol, i64>;

/// A hard spread constraint, counted.
struct RequiredSpread {
    key: Symbol,
    counts: Counts,
    /// The most that a domain may have before the pod.
    limit: i64,
}

/// A soft spread constraint, counted.
struct PreferredSpread {
    key: Symbol,
    counts: Counts,
    weight: f64,
    skew: f64,
}

/// The rules for one pod.
#[derive(Default)]
pub struct Rules {
    required_spread: Vec<RequiredSpread>,
    preferred_spread: Vec<PreferredSpread>,
    affinity: Vec<(Symbol, Counts)>,
    /// No pod matches its affinity but itself: it may start anywhere where the keys are.
    first: bool,
    anti_affinity: Vec<(Symbol, BTreeSet<Symbol>)>,
    preferences: Vec<(Symbol, Counts)>,
}

/// Why a host is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// Topology spread.
    Spread,
    /// Pod affinity.
    Affinity,
    /// Anti-affinity, its own or another pod's.
    AntiAffinity,
}

impl Rules {
    /// Counts for a pod of a shape.
    pub fn new(cluster: &Cluster, pod: &PodShape) -> Self {
        let mut rules = Rules::default();
        rules.spread(cluster, pod);
        rules.affinity(cluster, pod);
        rules.anti_affinity(cluster, pod);
        rules.preferences(cluster, pod);
        rules
    }

    fn spread(&mut self, cluster: &Cluster, pod: &PodShape) {
        let hard: Vec<&Spread> = pod.spread.iter().filter(|s| s.required).collect();
        for s in &pod.spread {
            let selected = shapes(cluster, |shape| {
                shape.namespace == pod.namespace && s.selector.matches(&shape.labels)
            });
            let counts = |host: &Host| {
                hard.iter()
                    .all(|h| !s.required || host.labels.get(h.key).is_some())
                    && (s.node_affinity == NodeInclusion::Ignore
                        || matching::admits(&host.labels, pod, &cluster.names))
                    && (s.node_taints == NodeInclusion::Ignore
                        || matching::untolerated(&pod.tolerations, &host.taints, false).is_none())
            };
            let mut by_domain = Counts::new();
            for host in cluster.hosts.values().filter(|h| h.exists && counts(h)) {
                let Some(domain) = host.labels.get(s.key) else {
                    continue;
                };
                let here: u32 = host
                    .staying
                    .iter()
                    .filter(|(n, _)| selected[**n])
                    .map(|(_, c)| c)
                    .sum();
                *by_domain.entry(domain).or_default() += i64::from(here);
            }
            let own = i64::from(s.selector.matches(&pod.labels));
            if s.required {
                let few = (by_domain.len() as i64) < i64::from(s.min_domains.unwrap_or(1));
                let least = if few {
                    0
                } else {
                    by_domain.values().copied().min().unwrap_or(0)
                };
                let limit = least + i64::from(s.max_skew) - own;
                self.required_spread.push(RequiredSpread {
                    key: s.key,
                    counts: by_domain,
                    limit,
                });
            } else {
                // Kubernetes weighs a key by the logarithm of its number of domains.
                let weight = (by_domain.len() as f64 + 2.0).ln();
                self.preferred_spread.push(PreferredSpread {
                    key: s.key,
                    counts: by_domain,
                    weight,
                    skew: f64::from(s.max_skew - 1),
                });
            }
        }
    }

    fn affinity(&mut self, cluster: &Cluster, pod: &PodShape) {
        if pod.affinity.is_empty() {
            return;
        }
        // A pod counts only if it matches every term.
        let all = |shape: &PodShape| {
            pod.affinity
                .iter()
                .all(|t| selects(t, pod.namespace, shape, cluster))
        };
        let selected = shapes(cluster, all);
        for term in &pod.affinity {
            self.affinity
                .push((term.key, count(cluster, term.key, &selected)));
        }
        self.first = all(pod)
            && self
                .affinity
                .iter()
                .all(|(_, counts)| counts.values().all(|n| *n == 0));
    }

    fn anti_affinity(&mut self, cluster: &Cluster, pod: &PodShape) {
        for term in &pod.anti_affinity {
            let selected = shapes(cluster, |shape| {
                selects(term, pod.namespace, shape, cluster)
            });
            self.anti_affinity
                .push((term.key, occupied(count(cluster, term.key, &selected))));
        }
        for (number, other) in cluster
            .shapes()
            .filter(|(_, s)| !s.anti_affinity.is_empty())
        {
            for term in other
                .anti_affinity
                .iter()
                .filter(|t| selects(t, other.namespace, pod, cluster))
            {
                let selected = one(cluster, number);
                self.anti_affinity
                    .push((term.key, occupied(count(cluster, term.key, &selected))));
            }
        }
    }

    fn preferences(&mut self, cluster: &Cluster, pod: &PodShape) {
        for (weight, term) in preferred(pod) {
            let selected = shapes(cluster, |shape| {
                selects(term, pod.namespace, shape, cluster)
            });
            self.like(weight, term.key, count(cluster, term.key, &selected));
        }
        // What others would like of a pod such as this; their required affinity weighs 1.
        for (number, other) in cluster.shapes() {
            let hard = other.affinity.iter().map(|t| (1, t));
            for (weight, term) in preferred(other).chain(hard) {
                if selects(term, other.namespace, pod, cluster) {
                    self.like(
                        weight,
                        term.key,
                        count(cluster, term.key, &one(cluster, number)),
                    );
                }
            }
        }
    }

    fn like(&mut self, weight: i32, key: Symbol, mut counts: Counts) {
        counts.retain(|_, n| *n != 0);
        counts.values_mut().for_each(|n| *n *= i64::from(weight));
        if !counts.is_empty() {
            self.preferences.push((key, counts));
        }
    }

    /// Whether a host is open to the pod.
    pub fn refuse(&self, host: &Host) -> Option<Rejection> {
        let at = |key: Symbol, counts: &Counts| {
            host.labels
                .get(key)
                .map(|d| counts.get(&d).copied().unwrap_or(0))
        };
        if self
            .required_spread
            .iter()
            .any(|e| at(e.key, &e.counts).is_none_or(|n| n > e.limit))
        {
            return Some(Rejection::Spread);
        }
        let near = |(key, counts): &(Symbol, Counts)| {
            at(*key, counts).is_some_and(|n| n > 0 || self.first)
        };
        if !self.affinity.iter().all(near) {
            return Some(Rejection::Affinity);
        }
        let meets = |(key, domains): &(Symbol, BTreeSet<Symbol>)| {
            host.labels.get(*key).is_some_and(|d| domains.contains(&d))
        };
        self.anti_affinity
            .iter()
            .any(meets)
            .then_some(Rejection::AntiAffinity)
    }

    /// Whether soft spread says anything.
    pub fn spreads(&self) -> bool {
        !self.preferred_spread.is_empty()
    }

    /// How crowded a host's domains are by soft spread, less is better; nothing where a key is
    /// missing.
    pub fn load(&self, host: &Host) -> Option<f64> {
        self.preferred_spread.iter().try_fold(0.0, |sum, r| {
            let here = r.counts.get(&host.labels.get(r.key)?).copied().unwrap_or(0);
            Some(sum + here as f64 * r.weight + r.skew)
        })
    }

    /// Whether pod affinity prefers anything.
    pub fn prefers(&self) -> bool {
        !self.preferences.is_empty()
    }

    /// How much pod affinity prefers a host.
    pub fn liking(&self, host: &Host) -> f64 {
        let at = |(key, counts): &(Symbol, Counts)| {
            host.labels.get(*key).and_then(|d| counts.get(&d)).copied()
        };
        self.preferences.iter().filter_map(at).sum::<i64>() as f64
    }
}

fn preferred(pod: &PodShape) -> impl Iterator<Item = (i32, &PodTerm)> {
    let near = pod
        .preferred_affinity
        .iter()
        .map(|(weight, term)| (*weight, term));
    near.chain(
        pod.preferred_anti_affinity
            .iter()
            .map(|(weight, term)| (-*weight, term)),
    )
}

fn shapes(cluster: &Cluster, test: impl Fn(&PodShape) -> bool) -> Vec<bool> {
    let mut selected = vec![false; cluster.shape_count()];
    cluster
        .shapes()
        .for_each(|(n, shape)| selected[n] = test(shape));
    selected
}

fn one(cluster: &Cluster, number: ShapeNo) -> Vec<bool> {
    let mut selected = vec![false; cluster.shape_count()];
    selected[number] = true;
    selected
}

fn count(cluster: &Cluster, key: Symbol, selected: &[bool]) -> Counts {
    let mut counts = Counts::new();
    for host in cluster.hosts.values().filter(|h| h.exists) {
        let Some(domain) = host.labels.get(key) else {
            continue;
        };
        let here: u32 = host
            .all()
            .filter(|(n, _)| selected[*n])
            .map(|(_, c)| c)
            .sum();
        if here > 0 {
            *counts.entry(domain).or_default() += i64::from(here);
        }
    }
    counts
}

fn occupied(counts: Counts) -> BTreeSet<Symbol> {
    counts
        .into_iter()
        .filter(|(_, n)| *n > 0)
        .map(|(domain, _)| domain)
        .collect()
}

/// Whether a term of a pod in namespace `own` selects pods of a shape.
fn selects(term: &PodTerm, own: Symbol, shape: &PodShape, cluster: &Cluster) -> bool {
    let listed = term.namespaces.contains(&shape.namespace);
    let here = match &term.namespace_selector {
        Some(LabelSelector(Some(rules))) if rules.is_empty() => true,
        Some(chosen) => {
            listed
                || cluster
                    .namespaces
                    .get(&shape.namespace)
                    .is_some_and(|l| chosen.matches(l))
        }
        None if term.namespaces.is_empty() => shape.namespace == own,
        None => listed,
    };
    here && term.selector.matches(&shape.labels)
}

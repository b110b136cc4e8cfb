//! Counts the constraints of a pod before it is read, and reduces pods above a limit.
//!
//! A pod above a limit keeps its requests, its owner, its shortest labels up to the limit, and its
//! required anti-affinity. The anti-affinity matters for other pods once the pod runs: if
//! kube-scheduler honours a term and the planner does not, the planner buys a node for a pod that
//! kube-scheduler does not bind there. So it is kept as one term per topology key, which selects
//! every pod in the namespaces of its terms. That is stricter than the original, and as cheap as
//! one term of any other pod.

use std::collections::{BTreeMap, BTreeSet};

use longshore_core::model::{Excess, LabelSelector, Part, PodTerm, Symbol, Symbols};

use crate::manifests::pod::wire::{WirePod, WirePodTerm, WirePort, WireSpec, WireTerm};
use crate::manifests::wire::{Map, Text};

/// Topology keys of which the anti-affinity of a pod beyond a limit is kept: more than any
/// cluster's nodes have, in alphabetical order, the hostname and the zone before all others.
const MAX_KEYS: usize = 64;

/// The first limit that a pod passes.
pub(crate) fn of_pod(pod: &WirePod<'_>) -> Option<Excess> {
    of_spec(pod.spec.as_ref()?, &pod.metadata.labels)
}

/// The same of a template.
pub(crate) fn of_spec(spec: &WireSpec<'_>, labels: &Map<'_, Option<Text<'_>>>) -> Option<Excess> {
    let counts = Counts::of(spec);
    let labels = bytes_of_map(labels);
    Excess::of(|part| match part {
        Part::PodTerms => counts.terms,
        Part::PreferredPodTerms => counts.preferred,
        Part::SpreadConstraints => spec.topology_spread_constraints.len() as u64,
        Part::Namespaces => counts.namespaces.len() as u64,
        Part::SelectorValues => counts.selectors,
        Part::Tolerations => spec.tolerations.len() as u64,
        Part::NodeTerms => counts.node_terms,
        Part::NodeValues => counts.node_values,
        Part::PortsAndVolumes => counts.ports + spec.volumes.len() as u64,
        Part::LabelBytes => labels,
        Part::RuleBytes => counts.bytes,
    })
}

#[derive(Default)]
struct Counts<'w> {
    terms: u64,
    preferred: u64,
    namespaces: BTreeSet<&'w str>,
    selectors: u64,
    node_terms: u64,
    node_values: u64,
    ports: u64,
    bytes: u64,
}

impl<'w> Counts<'w> {
    fn of(spec: &'w WireSpec<'_>) -> Self {
        let mut counts = Counts {
            node_values: spec.node_selector.len() as u64,
            ..Counts::default()
        };
        counts.bytes += bytes_of_map(&spec.node_selector);
        for (required, term) in pod_terms(spec) {
            *(if required {
                &mut counts.terms
            } else {
                &mut counts.preferred
            }) += 1;
            counts.pod_term(term);
        }
        if let Some(node) = spec
            .affinity
            .as_ref()
            .and_then(|affinity| affinity.node_affinity.as_ref())
        {
            let required = node
                .required
                .iter()
                .flat_map(|required| required.node_selector_terms.iter());
            required
                .chain(node.preferred.iter().map(|term| &term.preference))
                .for_each(|t| counts.node_term(t));
        }
        for spread in spec.topology_spread_constraints.iter() {
            counts.bytes += spread.topology_key.len() as u64 + bytes(&spread.match_label_keys);
            counts.selectors += spread.match_label_keys.len() as u64;
            counts.selector(spread.label_selector.as_ref());
        }
        for toleration in spec.tolerations.iter() {
            let texts = [&toleration.key, &toleration.value];
            counts.bytes += texts
                .into_iter()
                .flatten()
                .map(|text| text.len() as u64)
                .sum::<u64>();
        }
        let containers = spec.containers.iter().chain(spec.init_containers.iter());
        let of_host =
            |port: &&WirePort<'_>| port.host_port.is_some() || spec.host_network == Some(true);
        counts.ports = containers
            .flat_map(|container| container.ports.iter())
            .filter(of_host)
            .count() as u64;
        counts
    }

    fn pod_term(&mut self, term: &'w WirePodTerm<'_>) {
        self.namespaces
            .extend(term.namespaces.iter().map(|name| &**name));
        self.bytes += term.topology_key.len() as u64 + bytes(&term.namespaces);
        for keys in [&term.match_label_keys, &term.mismatch_label_keys] {
            self.selectors += keys.len() as u64;
            self.bytes += bytes(keys);
        }
        self.selector(term.label_selector.as_ref());
        self.selector(term.namespace_selector.as_ref());
    }

    fn selector(&mut self, selector: Option<&crate::manifests::selector::WireSelector<'_>>) {
        let (values, bytes) = selector.map_or((0, 0), |selector| selector.size());
        self.selectors += values;
        self.bytes += bytes;
    }

    fn node_term(&mut self, term: &WireTerm<'_>) {
        self.node_terms += 1;
        for rule in term.match_expressions.iter() {
            self.node_values += 1 + rule.values.len() as u64;
            self.bytes += rule.key.len() as u64 + bytes(&rule.values);
        }
    }
}

/// Terms of pod affinity and anti-affinity, and whether they are required.
fn pod_terms<'w, 'a>(spec: &'w WireSpec<'a>) -> impl Iterator<Item = (bool, &'w WirePodTerm<'a>)> {
    let affinity = spec.affinity.as_ref();
    let both = affinity
        .into_iter()
        .flat_map(|all| all.pod_affinity.iter().chain(&all.pod_anti_affinity));
    both.flat_map(|all| {
        let preferred = all
            .preferred
            .iter()
            .map(|term| (false, &term.pod_affinity_term));
        all.required
            .iter()
            .map(|term| (true, term))
            .chain(preferred)
    })
}

fn bytes(texts: &[Text<'_>]) -> u64 {
    texts.iter().map(|text| text.len() as u64).sum()
}

fn bytes_of_map(map: &Map<'_, Option<Text<'_>>>) -> u64 {
    map.iter()
        .map(|(key, value)| (key.len() + value.as_deref().map_or(0, str::len)) as u64)
        .sum()
}

/// Labels up to the limit, the shortest first: those that people select by are short.
pub(crate) fn fewer_labels<'m, 'a>(map: &'m Map<'a, Option<Text<'a>>>) -> Vec<(&'m str, &'m str)> {
    let mut all: Vec<(&str, &str)> = map
        .iter()
        .map(|(key, value)| (&**key, value.as_deref().unwrap_or("")))
        .collect();
    all.sort_by_key(|&(key, value)| (key.len() + value.len(), key, value));
    let mut left = Part::LabelBytes.most() as usize;
    let fits = |&&(key, value): &&(&str, &str)| {
        let rest = left.checked_sub(key.len() + value.len());
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    all.iter().take_while(fits).copied().collect()
}

/// The required anti-affinity of a pod beyond a limit, which is in namespace `own`: one term per
/// topology key, for every pod of the namespaces that its terms name, or of all where they select
/// namespaces or name too many.
pub(crate) fn wider(spec: &WireSpec<'_>, own: Symbol, names: &mut Symbols) -> Vec<PodTerm> {
    let anti = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let mut by_key: BTreeMap<(bool, &str), Reach<'_>> = BTreeMap::new();
    for term in anti
        .into_iter()
        .flat_map(|anti| anti.required.iter())
        .filter(|term| term.label_selector.is_some())
    {
        let key = crate::labels::of_topology(&term.topology_key);
        let common = [crate::labels::HOSTNAME, "topology.kubernetes.io/zone"].contains(&key);
        let reach = by_key.entry((!common, key)).or_default();
        reach.all |=
            term.namespace_selector.is_some() || reach.named.len() as u64 > Part::Namespaces.most();
        reach.own |= term.namespaces.is_empty();
        if !reach.all {
            reach
                .named
                .extend(term.namespaces.iter().map(|name| &**name));
        }
    }
    let everything = || LabelSelector(Some(Vec::new()));
    let term = |((_, key), reach): ((bool, &str), Reach<'_>)| {
        let named = reach
            .named
            .into_iter()
            .filter(|_| !reach.all)
            .map(|name| names.intern(name));
        let named: Vec<Symbol> = named.collect();
        PodTerm {
            key: names.intern(key),
            selector: everything(),
            namespaces: named
                .into_iter()
                .chain((reach.own && !reach.all).then_some(own))
                .collect(),
            namespace_selector: reach.all.then(everything),
        }
    };
    by_key.into_iter().take(MAX_KEYS).map(term).collect()
}

/// Namespaces that terms reach.
#[derive(Default)]
struct Reach<'w> {
    all: bool,
    own: bool,
    named: BTreeSet<&'w str>,
}

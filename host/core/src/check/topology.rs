//! Checks topology rules over the whole plan.
//!
//! A spread constraint holds at the moment a pod is bound. Pods that its selector selects but that
//! do not have the constraint may be bound at any time: after the constrained pods in the same
//! domain, and before them in other domains. A host breaks the rule if the skew is too large even
//! in that order.

mod spread;

use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::hosts::{Host, HostKind, Hosts};
use super::{Invariant, Violations};
use crate::matching::untolerated;
use crate::model::{
    ClusterObjects, LabelSelector, Labels, NodeInclusion, PodShape, PodTerm, Requirement,
    Resources, SelectorOp, Spread, Symbol, Taint,
};
use crate::snapshot::Snapshot;

/// Checks spread, affinity and anti-affinity.
pub fn check(hosts: &Hosts<'_>, found: &mut Violations<'_>) {
    let view = View::new(hosts);
    for rule in view.spreads() {
        view.check_spread(&rule, found);
    }
    for rule in view.affinities() {
        view.check_affinity(&rule, found);
    }
    for (term, owners) in view.terms(|s| &s.anti_affinity) {
        view.check_anti_affinity(&term, &owners, found);
    }
    view.check_running_anti_affinity(found);
}

/// Pods on hosts, those of one shape together.
struct View<'a> {
    hosts: &'a Hosts<'a>,
    world: &'a ClusterObjects,
    hostname: Option<Symbol>,
    shapes: Vec<&'a PodShape>,
    /// Hosts and counts by shape.
    on: Vec<Vec<(usize, u32)>>,
    /// Shapes by a label that they carry.
    by_label: FxHashMap<(Symbol, Symbol), Vec<usize>>,
    /// Values of a label that a NodePool could buy, by NodePool and label, then by buyer.
    offered: RefCell<FxHashMap<(u32, Symbol), FxHashMap<Demands<'a>, FxHashSet<Symbol>>>>,
    /// The domain of each host by topology key, where there is just one.
    settled: RefCell<FxHashMap<Symbol, Vec<Option<u32>>>>,
    /// Namespaces that have pods, with their labels.
    inhabited: Vec<(Symbol, &'a Labels)>,
    /// Lists of namespaces that terms name or select.
    lists: RefCell<FxHashSet<Arc<[Symbol]>>>,
}

/// Whether pods on their way out count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Terminating {
    /// They do, for affinity and anti-affinity.
    Counts,
    /// They do not, for topology spread.
    LeftOut,
}

/// Node selector, required node affinity, requests, and all keys that pods must be spread over.
type Demands<'a> = (
    &'a [Requirement],
    &'a [Vec<Requirement>],
    &'a Resources,
    Vec<Symbol>,
);

/// A spread constraint and the shapes that own it.
struct SpreadRule<'a> {
    spread: &'a Spread,
    shape: &'a PodShape,
    /// Labels that a node has to have to count: all topology keys that the shape must be spread
    /// over, but the hostname.
    keys: Vec<Symbol>,
    owners: Vec<usize>,
}

/// The required affinity terms of pods and the shapes that own them. A pod counts for any of the
/// terms only if it matches all of them.
struct Affinity<'a> {
    terms: Vec<Term<'a>>,
    owners: Vec<usize>,
}

impl Affinity<'_> {
    fn selects(&self, shape: &PodShape) -> bool {
        self.terms.iter().all(|term| term.selects(shape))
    }
}

/// A term of affinity or anti-affinity, its namespaces resolved.
struct Term<'a> {
    key: Symbol,
    selector: &'a LabelSelector,
    namespaces: Option<Arc<[Symbol]>>,
}

impl Term<'_> {
    fn selects(&self, shape: &PodShape) -> bool {
        let here = self
            .namespaces
            .as_ref()
            .is_none_or(|all| all.binary_search(&shape.namespace).is_ok());
        here && self.selector.matches(&shape.labels)
    }
}

impl<'a> View<'a> {
    fn new(hosts: &'a Hosts<'a>) -> Self {
        let world = &*hosts.snapshot.world;
        let mut index: FxHashMap<*const PodShape, usize> = FxHashMap::default();
        let mut shapes: Vec<&PodShape> = Vec::new();
        let mut on: Vec<Vec<(usize, u32)>> = Vec::new();
        for (at, host) in hosts.hosts.iter().enumerate() {
            let mut here: FxHashMap<usize, u32> = FxHashMap::default();
            for pod in &host.pods {
                let shape = *index
                    .entry(std::sync::Arc::as_ptr(&pod.shape))
                    .or_insert_with(|| {
                        shapes.push(&pod.shape);
                        shapes.len() - 1
                    });
                *here.entry(shape).or_default() += 1;
            }
            on.resize_with(shapes.len(), Vec::new);
            here.into_iter()
                .for_each(|(shape, n)| on[shape].push((at, n)));
        }
        let mut by_label: FxHashMap<(Symbol, Symbol), Vec<usize>> = FxHashMap::default();
        for (at, shape) in shapes.iter().enumerate() {
            shape
                .labels
                .iter()
                .for_each(|label| by_label.entry(label).or_default().push(at));
        }
        let hostname = world.names.get("kubernetes.io/hostname");
        let there: FxHashSet<Symbol> = world.shapes.iter().map(|shape| shape.namespace).collect();
        let namespaces = world
            .namespaces
            .iter()
            .filter(|(name, _)| there.contains(name));
        View {
            hosts,
            world,
            hostname,
            shapes,
            on,
            by_label,
            offered: RefCell::default(),
            settled: RefCell::default(),
            inhabited: namespaces.map(|(name, labels)| (*name, labels)).collect(),
            lists: RefCell::default(),
        }
    }

    fn snapshot(&self) -> &'a Snapshot {
        self.hosts.snapshot
    }

    fn host(&self, at: usize) -> &Host<'a> {
        &self.hosts.hosts[at]
    }

    /// Whether a host has a hostname, as every new one will.
    fn has_name(&self, at: usize) -> bool {
        match &self.host(at).kind {
            HostKind::Node(node) => self.hostname.is_none_or(|k| node.labels.get(k).is_some()),
            HostKind::Claim(..) => true,
        }
    }

    /// The domains that a host is or may be in: `None` if it has no such label. A host's own name
    /// is its number.
    fn domains(&self, at: usize, key: Symbol) -> Option<Vec<u32>> {
        if Some(key) == self.hostname {
            return self.has_name(at).then(|| vec![at as u32]);
        }
        match &self.host(at).kind {
            HostKind::Node(node) => node.labels.get(key).map(|v| vec![v.0]),
            HostKind::Claim(_, possible) => possible
                .values(key)
                .map(|v| v.into_iter().map(|s| s.0).collect()),
        }
    }

    /// The domain that a host is in for certain.
    fn domain(&self, at: usize, key: Symbol) -> Option<u32> {
        if Some(key) == self.hostname {
            return self.has_name(at).then_some(at as u32);
        }
        let mut settled = self.settled.borrow_mut();
        let of_hosts = settled.entry(key).or_insert_with(|| {
            let single = |at: usize| match &self.host(at).kind {
                HostKind::Node(node) => node.labels.get(key).map(|v| v.0),
                HostKind::Claim(_, possible) => possible.single(key).map(|v| v.0),
            };
            (0..self.hosts.hosts.len()).map(single).collect()
        });
        of_hosts[at]
    }

    /// New shapes that are selected, compared with the selector only where its first rule that
    /// names values may hold.
    fn selected(
        &self,
        selector: &LabelSelector,
        selects: impl Fn(&PodShape) -> bool,
    ) -> Vec<usize> {
        let named = selector.0.iter().flatten().find_map(|rule| match &rule.op {
            SelectorOp::In(values) => Some((rule.key, values)),
            _ => None,
        });
        let mut found: Vec<usize> = match named {
            Some((key, values)) => values
                .iter()
                .flat_map(|&value| self.by_label.get(&(key, value)))
                .flatten()
                .copied()
                .collect(),
            None => (0..self.shapes.len()).collect(),
        };
        found.retain(|&shape| selects(self.shapes[shape]));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Where pods of some shapes are placed, host by host: host, shape, count.
    fn placed(&self, shapes: impl IntoIterator<Item = usize>) -> Vec<(usize, usize, u32)> {
        let of = |shape: usize| self.on[shape].iter().map(move |&(at, n)| (at, shape, n));
        let mut all: Vec<(usize, usize, u32)> = shapes.into_iter().flat_map(of).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Hosts and counts of running pods that are selected, with terminating ones where these count.
    fn running(
        &self,
        selector: &LabelSelector,
        terminating: Terminating,
        selects: impl Fn(&PodShape) -> bool,
    ) -> Vec<(usize, u32)> {
        let running = &self.snapshot().running;
        let of = running
            .candidates(selector)
            .into_iter()
            .filter(|&s| selects(self.world.shapes.get(s)));
        let on = |shape| match terminating {
            Terminating::Counts => running.with_terminating(shape),
            Terminating::LeftOut => running.on(shape),
        };
        of.flat_map(|s| on(s).iter().map(|&(node, n)| (node.0 as usize, n)))
            .collect()
    }

    /// Namespaces that a term names or selects, sorted, each list kept once; `None` for all. Only
    /// of those with pods it matters whether they are selected.
    fn namespaces(&self, term: &PodTerm, own: Symbol) -> Option<Arc<[Symbol]>> {
        let mut all = term.namespaces.clone();
        match &term.namespace_selector {
            None if all.is_empty() => all.push(own),
            None => {}
            Some(selector) if selector.0.as_ref().is_some_and(Vec::is_empty) => return None,
            Some(selector) => {
                let selected = self
                    .inhabited
                    .iter()
                    .filter(|(_, labels)| selector.matches(labels));
                all.extend(selected.map(|(name, _)| *name));
            }
        }
        all.sort_unstable();
        all.dedup();
        let mut lists = self.lists.borrow_mut();
        let known = lists.get(all.as_slice()).cloned();
        Some(known.unwrap_or_else(|| {
            let list: Arc<[Symbol]> = all.into();
            lists.insert(list.clone());
            list
        }))
    }

    /// Distinct terms with the shapes that own them.
    fn terms(&self, of: impl Fn(&'a PodShape) -> &'a Vec<PodTerm>) -> Vec<(Term<'a>, Vec<usize>)> {
        let mut all: Vec<(Term<'a>, Vec<usize>)> = Vec::new();
        let mut index: FxHashMap<(Symbol, &LabelSelector, Option<Arc<[Symbol]>>), usize> =
            FxHashMap::default();
        for (at, &shape) in self.shapes.iter().enumerate() {
            for term in of(shape) {
                let namespaces = self.namespaces(term, shape.namespace);
                let at_index = *index
                    .entry((term.key, &term.selector, namespaces.clone()))
                    .or_insert_with(|| {
                        all.push((
                            Term {
                                key: term.key,
                                selector: &term.selector,
                                namespaces,
                            },
                            Vec::new(),
                        ));
                        all.len() - 1
                    });
                all[at_index].1.push(at);
            }
        }
        all
    }

    /// Distinct lists of required affinity terms with the shapes that own them.
    fn affinities(&self) -> Vec<Affinity<'a>> {
        let mut all: Vec<Affinity<'a>> = Vec::new();
        type Same<'k> = Vec<(Symbol, &'k LabelSelector, Option<Arc<[Symbol]>>)>;
        let mut index: FxHashMap<Same<'a>, usize> = FxHashMap::default();
        for (at, &shape) in self.shapes.iter().enumerate() {
            if shape.affinity.is_empty() {
                continue;
            }
            let resolved = |term: &'a PodTerm| {
                let namespaces = self.namespaces(term, shape.namespace);
                (term.key, &term.selector, namespaces)
            };
            let same: Same<'a> = shape.affinity.iter().map(resolved).collect();
            let rule = *index.entry(same).or_insert_with_key(|same| {
                let terms = same.iter().map(|(key, selector, namespaces)| Term {
                    key: *key,
                    selector,
                    namespaces: namespaces.clone(),
                });
                all.push(Affinity {
                    terms: terms.collect(),
                    owners: Vec::new(),
                });
                all.len() - 1
            });
            all[rule].owners.push(at);
        }
        all
    }

    /// Every pod that owns the terms is in a domain of each of them with a pod that matches all of
    /// them. The first of a kind may go anywhere: while no such pod has a domain of any of the
    /// terms, and if it matches them itself.
    fn check_affinity(&self, rule: &Affinity<'a>, found: &mut Violations<'_>) {
        let selector = rule.terms[0].selector;
        let mut anchored: Vec<FxHashSet<u32>> = vec![FxHashSet::default(); rule.terms.len()];
        let anchor = |anchored: &mut [FxHashSet<u32>], at: usize| {
            for (term, domains) in rule.terms.iter().zip(anchored) {
                domains.extend(self.domain(at, term.key));
            }
        };
        for (at, _) in self.running(selector, Terminating::Counts, |s| rule.selects(s)) {
            anchor(&mut anchored, at);
        }
        let nobody = anchored.iter().all(FxHashSet::is_empty);
        let owners: FxHashSet<usize> = rule.owners.iter().copied().collect();
        let mut founders: Vec<usize> = Vec::new();
        for (at, shape, _) in self.placed(self.selected(selector, |s| rule.selects(s))) {
            match owners.contains(&shape) {
                true => founders.push(at),
                false => anchor(&mut anchored, at),
            }
        }
        // Hosts of owners in domains that nobody but owners is in, and the first such domain.
        let mut alone: Vec<(usize, usize)> = Vec::new();
        let mut domains: Vec<(usize, Option<u32>)> = Vec::new();
        for (at, shape, _) in self.placed(rule.owners.iter().copied()) {
            for (number, (term, anchored)) in rule.terms.iter().zip(&anchored).enumerate() {
                let domain = self.domain(at, term.key);
                if domain.is_none_or(|domain| !anchored.contains(&domain)) {
                    alone.push((at, shape));
                    domains.push((number, domain));
                }
            }
        }
        domains.sort_unstable();
        domains.dedup();
        let founds = |&at: &usize| {
            let here = |&(number, domain): &(usize, Option<u32>)| {
                domain.is_some() && self.domain(at, rule.terms[number].key) == domain
            };
            domains.iter().all(here)
        };
        if domains.is_empty() || (nobody && founders.iter().any(founds)) {
            return;
        }
        alone.dedup();
        let keys: Vec<&str> = rule
            .terms
            .iter()
            .map(|t| self.world.names.text(t.key))
            .collect();
        for (at, shape) in alone {
            let detail = format!(
                "no pod that it must be with is in its {}",
                keys.join(" or its ")
            );
            self.add(Invariant::Affinity, (at, shape), detail, found);
        }
    }

    /// A rule that the pods of a shape on a host break.
    fn add(
        &self,
        rule: Invariant,
        (at, shape): (usize, usize),
        detail: String,
        found: &mut Violations<'_>,
    ) {
        let host = self.host(at);
        let mine = host
            .pods
            .iter()
            .filter(|p| std::ptr::eq(&*p.shape, self.shapes[shape]));
        let pods = mine.map(|pending| pending.pod).collect();
        let name = Some(host.name.clone());
        found.add_of(rule, name, None, (pods, Vec::new()), detail);
    }

    fn check_anti_affinity(&self, term: &Term<'a>, owners: &[usize], found: &mut Violations<'_>) {
        // Pods that the term selects, by domain: how many, and which host if just one.
        let mut selected: FxHashMap<u32, u32> = FxHashMap::default();
        for (at, n) in self.running(term.selector, Terminating::Counts, |s| term.selects(s)) {
            for domain in self.domains(at, term.key).unwrap_or_default() {
                *selected.entry(domain).or_default() += n;
            }
        }
        for (at, _, n) in self.placed(self.selected(term.selector, |s| term.selects(s))) {
            for domain in self.domains(at, term.key).unwrap_or_default() {
                *selected.entry(domain).or_default() += n;
            }
        }
        for (at, shape, _) in self.placed(owners.iter().copied()) {
            let own = u32::from(term.selects(self.shapes[shape]));
            let domains = self.domains(at, term.key).unwrap_or_default();
            if domains
                .iter()
                .any(|d| selected.get(d).copied().unwrap_or(0) > own)
            {
                let detail = format!(
                    "a pod that it must not be with may be in its {}",
                    found.text(term.key)
                );
                self.add(Invariant::AntiAffinity, (at, shape), detail, found);
            }
        }
    }

    /// Terms of pods that run already keep new pods away.
    fn check_running_anti_affinity(&self, found: &mut Violations<'_>) {
        for &id in &self.snapshot().running.anti_affine {
            let owner = self.world.shapes.get(id);
            for term in &owner.anti_affinity {
                let namespaces = self.namespaces(term, owner.namespace);
                let resolved = Term {
                    key: term.key,
                    selector: &term.selector,
                    namespaces,
                };
                let selected = self.selected(resolved.selector, |s| resolved.selects(s));
                if selected.is_empty() {
                    continue;
                }
                let taken: FxHashSet<u32> = (self.snapshot().running.with_terminating(id).iter())
                    .filter_map(|(node, _)| self.domain(node.0 as usize, term.key))
                    .collect();
                for (at, shape, _) in self.placed(selected) {
                    if self
                        .domains(at, term.key)
                        .unwrap_or_default()
                        .iter()
                        .any(|d| taken.contains(d))
                    {
                        let detail = format!(
                            "a running pod keeps it away from its {}",
                            found.text(term.key)
                        );
                        self.add(Invariant::AntiAffinity, (at, shape), detail, found);
                    }
                }
            }
        }
    }
}

fn has_right_taints(rule: &SpreadRule<'_>, taints: &[Taint]) -> bool {
    rule.spread.node_taints == NodeInclusion::Ignore
        || untolerated(&rule.shape.tolerations, taints, false).is_none()
}

fn demands<'a>(shape: &'a PodShape, keys: &[Symbol]) -> Demands<'a> {
    (
        &shape.node_selector,
        &shape.required,
        &shape.requests,
        keys.to_vec(),
    )
}

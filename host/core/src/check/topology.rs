//! Checks topology rules over the whole plan.
//!
//! A spread constraint holds at the moment a pod is bound. Pods that its selector selects but that
//! do not have the constraint may be bound at any time: after the constrained pods in the same
//! domain, and before them in other domains. A host breaks the rule if the skew is too large even
//! in that order.

use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::hosts::{Host, HostKind, Hosts};
use super::{Invariant, Violations, purchases};
use crate::matching::{admits, untolerated};
use crate::model::{
    ClusterObjects, LabelSelector, Labels, NodeInclusion, PodShape, PodTerm, Requirement,
    Resources, SelectorOp, Spread, Symbol,
};
use crate::snapshot::Snapshot;

/// Checks spread, affinity and anti-affinity.
pub fn check(hosts: &Hosts<'_>, found: &mut Violations<'_>) {
    let view = View::new(hosts);
    for rule in view.spreads() {
        view.check_spread(&rule, found);
    }
    for (term, owners) in view.terms(|s| &s.affinity) {
        view.check_affinity(&term, &owners, found);
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
    /// Shapes of new pods.
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

    /// The domains that a host is or may be in: `None` if it has no such label. A host's own name
    /// is its number.
    fn domains(&self, at: usize, key: Symbol) -> Option<Vec<u32>> {
        if Some(key) == self.hostname {
            return Some(vec![at as u32]);
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
            return Some(at as u32);
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

    /// Hosts and counts of running pods that are selected.
    fn running(
        &self,
        selector: &LabelSelector,
        selects: impl Fn(&PodShape) -> bool,
    ) -> Vec<(usize, u32)> {
        let running = &self.snapshot().running;
        let of = running
            .candidates(selector)
            .into_iter()
            .filter(|&s| selects(self.world.shapes.get(s)));
        of.flat_map(|s| running.on(s).iter().map(|&(node, n)| (node.0 as usize, n)))
            .collect()
    }

    fn spreads(&self) -> Vec<SpreadRule<'a>> {
        let mut rules: Vec<SpreadRule<'a>> = Vec::new();
        type Same<'k> = (
            Symbol,
            &'k Spread,
            Demands<'k>,
            &'k [crate::model::Toleration],
        );
        let mut index: FxHashMap<Same<'a>, usize> = FxHashMap::default();
        for (at, &shape) in self.shapes.iter().enumerate() {
            for spread in shape.spread.iter().filter(|s| s.required) {
                let keys = self.spread_keys(shape);
                let key = (
                    shape.namespace,
                    spread,
                    demands(shape, &keys),
                    shape.tolerations.as_slice(),
                );
                let rule = *index.entry(key).or_insert_with(|| {
                    rules.push(SpreadRule {
                        spread,
                        shape,
                        keys,
                        owners: Vec::new(),
                    });
                    rules.len() - 1
                });
                rules[rule].owners.push(at);
            }
        }
        rules
    }

    fn check_spread(&self, rule: &SpreadRule<'a>, found: &mut Violations<'_>) {
        let key = rule.spread.key;
        let selects = |s: &PodShape| {
            s.namespace == rule.shape.namespace && rule.spread.selector.matches(&s.labels)
        };
        let mut running: FxHashMap<u32, i64> = FxHashMap::default();
        for (at, n) in self.running(&rule.spread.selector, selects) {
            if let Some(domain) = self.domain(at, key).filter(|_| self.counts(rule, at)) {
                *running.entry(domain).or_default() += i64::from(n);
            }
        }
        let owners: FxHashSet<usize> = rule.owners.iter().copied().collect();
        let (mut by_owners, mut by_all) = (running.clone(), running);
        let mut used: Vec<(u32, usize)> = Vec::new();
        let selected = self.selected(&rule.spread.selector, selects);
        for (at, shape, n) in self.placed(selected.into_iter().chain(rule.owners.iter().copied())) {
            let domain = self.domain(at, key);
            match domain {
                Some(domain) if owners.contains(&shape) => used.push((domain, at)),
                None if owners.contains(&shape) => {
                    let detail = format!(
                        "a pod with a spread constraint, but {} is not settled",
                        found.text(key)
                    );
                    found.add(
                        Invariant::Spread,
                        Some(self.host(at).name.clone()),
                        None,
                        detail,
                    );
                }
                _ => {}
            }
            let counts = at >= self.snapshot().nodes.len() || self.counts(rule, at);
            if let Some(domain) = domain.filter(|_| counts && selects(self.shapes[shape])) {
                *by_all.entry(domain).or_default() += i64::from(n);
                if owners.contains(&shape) {
                    *by_owners.entry(domain).or_default() += i64::from(n);
                }
            }
        }
        let host = Some(key) == self.hostname;
        let eligible = if host {
            FxHashSet::default()
        } else {
            self.eligible_domains(rule)
        };
        let least = if host {
            0
        } else {
            self.least(rule, &eligible, &by_all)
        };
        for (domain, at) in used {
            let least_skew = by_owners.get(&domain).copied().unwrap_or(0) - least;
            if least_skew > i64::from(rule.spread.max_skew) {
                let name = found.text(key).to_owned();
                let detail = format!(
                    "skew {least_skew} over {name}, maxSkew {}",
                    rule.spread.max_skew
                );
                found.add(
                    Invariant::Spread,
                    Some(self.host(at).name.clone()),
                    None,
                    detail,
                );
            }
        }
    }

    /// The fewest pods in any domain that counts.
    fn least(
        &self,
        rule: &SpreadRule<'a>,
        eligible: &FxHashSet<u32>,
        count: &FxHashMap<u32, i64>,
    ) -> i64 {
        if (eligible.len() as i64) < i64::from(rule.spread.min_domains.unwrap_or(0)) {
            return 0;
        }
        eligible
            .iter()
            .map(|d| count.get(d).copied().unwrap_or(0))
            .min()
            .unwrap_or(0)
    }

    /// Domains that count: of nodes that pass the constraint's filter, existing or planned, and
    /// those where a NodePool could buy a node for such a pod.
    fn eligible_domains(&self, rule: &SpreadRule<'a>) -> FxHashSet<u32> {
        let key = rule.spread.key;
        let mut eligible: FxHashSet<u32> = FxHashSet::default();
        for &at in &self.snapshot().pools {
            let pool = &self.world.pools[at.0 as usize];
            if untolerated(&rule.shape.tolerations, &pool.taints, false).is_none() {
                let mut known = self.offered.borrow_mut();
                let offered = known
                    .entry((at.0, key))
                    .or_default()
                    .entry(demands(rule.shape, &rule.keys))
                    .or_insert_with(|| {
                        purchases::domains(self.snapshot(), pool, (rule.shape, &rule.keys), key)
                    });
                eligible.extend(offered.iter().map(|s| s.0));
            }
        }
        for at in 0..self.hosts.hosts.len() {
            if let Some(domain) = self
                .domain(at, key)
                .filter(|domain| !eligible.contains(domain))
                && self.counts(rule, at)
            {
                eligible.insert(domain);
            }
        }
        eligible
    }

    /// Whether a node counts for a constraint. A planned node counts only if every node that may be
    /// launched for it does.
    fn counts(&self, rule: &SpreadRule<'a>, at: usize) -> bool {
        let (has_keys, admitted, taints) = match &self.host(at).kind {
            HostKind::Node(node) => {
                let has_keys = rule.keys.iter().all(|&key| node.labels.get(key).is_some());
                (
                    has_keys,
                    admits(&node.labels, rule.shape, &self.world.names),
                    &node.taints,
                )
            }
            HostKind::Claim(claim, possible) => {
                let has_keys = rule.keys.iter().all(|&key| possible.has(key, self.world));
                let taints = &self.world.pools[claim.pool.0 as usize].taints;
                (
                    has_keys,
                    possible.unsatisfied(rule.shape, self.world).is_none(),
                    taints,
                )
            }
        };
        let affinity = rule.spread.node_affinity == NodeInclusion::Ignore || admitted;
        let taints = rule.spread.node_taints == NodeInclusion::Ignore
            || untolerated(&rule.shape.tolerations, taints, false).is_none();
        has_keys && affinity && taints
    }

    fn spread_keys(&self, shape: &PodShape) -> Vec<Symbol> {
        let required = shape
            .spread
            .iter()
            .filter(|s| s.required && Some(s.key) != self.hostname);
        let mut keys: Vec<Symbol> = required.map(|s| s.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
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

    fn check_affinity(&self, term: &Term<'a>, owners: &[usize], found: &mut Violations<'_>) {
        let mut anchored: FxHashSet<u32> = FxHashSet::default();
        let running = self.running(term.selector, |s| term.selects(s));
        anchored.extend(
            running
                .iter()
                .filter_map(|&(at, _)| self.domain(at, term.key)),
        );
        let owners: FxHashSet<usize> = owners.iter().copied().collect();
        let owns = |shape: usize| owners.contains(&shape);
        let mut by_owners: FxHashSet<u32> = FxHashSet::default();
        let selected = self.selected(term.selector, |s| term.selects(s));
        for (at, shape, _) in self.placed(selected) {
            if let Some(domain) = self.domain(at, term.key) {
                if owns(shape) {
                    by_owners.insert(domain)
                } else {
                    anchored.insert(domain)
                };
            }
        }
        let mut founded: FxHashSet<u32> = FxHashSet::default();
        for (at, _, _) in self.placed(owners.iter().copied()) {
            let fine = match self.domain(at, term.key) {
                None => false,
                Some(domain) if anchored.contains(&domain) => true,
                Some(domain) => {
                    founded.insert(domain);
                    by_owners.contains(&domain) && running.is_empty() && founded.len() == 1
                }
            };
            if !fine {
                let detail = format!(
                    "no pod that it must be with is in its {}",
                    found.text(term.key)
                );
                found.add(
                    Invariant::Affinity,
                    Some(self.host(at).name.clone()),
                    None,
                    detail,
                );
            }
        }
    }

    fn check_anti_affinity(&self, term: &Term<'a>, owners: &[usize], found: &mut Violations<'_>) {
        // Pods that the term selects, by domain: how many, and which host if just one.
        let mut selected: FxHashMap<u32, u32> = FxHashMap::default();
        for (at, n) in self.running(term.selector, |s| term.selects(s)) {
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
                found.add(
                    Invariant::AntiAffinity,
                    Some(self.host(at).name.clone()),
                    None,
                    detail,
                );
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
                let taken: FxHashSet<u32> = (self.snapshot().running.on(id).iter())
                    .filter_map(|(node, _)| self.domain(node.0 as usize, term.key))
                    .collect();
                for (at, _, _) in self.placed(selected) {
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
                        found.add(
                            Invariant::AntiAffinity,
                            Some(self.host(at).name.clone()),
                            None,
                            detail,
                        );
                    }
                }
            }
        }
    }
}

fn demands<'a>(shape: &'a PodShape, keys: &[Symbol]) -> Demands<'a> {
    (
        &shape.node_selector,
        &shape.required,
        &shape.requests,
        keys.to_vec(),
    )
}

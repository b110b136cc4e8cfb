//! Topology rules as groups with counts: how many pods that a selector selects are in each domain.
//!
//! A domain of the hostname key is a *host*: an existing node or a claim of this plan. Domains of other keys are
//! interned per key. Counts are kept as pods are placed and never recounted. A pod on a claim whose domain is still
//! open counts nowhere, except for anti-affinity, where it blocks every domain that the claim may still land in.

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::domains::{Buyer, Counted, Purchases, alternatives};
use super::items::GroupUse;
use super::sets::{Set, Sets};
use super::states::{StateId, States};
use crate::matching::untolerated;
use crate::model::{
    LabelSelector, Labels, NodeInclusion, PodShape, PodTerm, Requirement, Spread, Sym, Toleration, World,
};
use crate::plan::TopologyRule;
use crate::snapshot::Snapshot;

/// What a group is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rule {
    /// Topology spread.
    Spread {
        /// `maxSkew`.
        max_skew: i32,
        /// `minDomains`, 0 if absent.
        min_domains: i32,
    },
    /// Pod affinity.
    Affinity,
    /// Pod anti-affinity: counts pods that are selected.
    Anti,
    /// The same seen from the other side: counts pods that own the term.
    Inverse,
}

impl Rule {
    /// What a refusal calls it.
    pub fn name(self) -> TopologyRule {
        match self {
            Rule::Spread { .. } => TopologyRule::Spread,
            Rule::Affinity => TopologyRule::Affinity,
            Rule::Anti => TopologyRule::AntiAffinity,
            Rule::Inverse => TopologyRule::InverseAntiAffinity,
        }
    }
}

/// Everything that tells one group from another.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Spec {
    /// What it is for.
    pub rule: Rule,
    /// Topology key.
    pub key: Sym,
    /// Namespaces whose pods count; `None` for all.
    pub namespaces: Option<Vec<Sym>>,
    /// Which pods count (for [`Rule::Inverse`]: which pods the term keeps away).
    pub selector: LabelSelector,
    /// Nodes count only if these labels are right (`nodeAffinityPolicy: Honor`).
    pub node_affinity: Option<(Vec<Requirement>, Vec<Vec<Requirement>>)>,
    /// Nodes count only if these tolerate their taints (`nodeTaintsPolicy: Honor`).
    pub tolerations: Option<Vec<Toleration>>,
    /// For whom nodes would be bought in domains that have none ([`Rule::Spread`]).
    pub buyer: Option<Buyer>,
}

impl Spec {
    /// The group of a topology spread constraint of a pod.
    pub fn spread(spread: &Spread, shape: &PodShape) -> Self {
        let restricted = !shape.node_selector.is_empty() || !shape.required.is_empty();
        let affinity = spread.node_affinity == NodeInclusion::Honor && restricted;
        Spec {
            rule: Rule::Spread { max_skew: spread.max_skew, min_domains: spread.min_domains.unwrap_or(0) },
            key: spread.key,
            namespaces: Some(vec![shape.namespace]),
            selector: spread.selector.clone(),
            node_affinity: affinity.then(|| (shape.node_selector.clone(), shape.required.clone())),
            tolerations: (spread.node_taints == NodeInclusion::Honor).then(|| shape.tolerations.clone()),
            buyer: Some(Buyer::of(shape)),
        }
    }

    /// The group of a term of pod affinity or anti-affinity of a pod.
    pub fn term(rule: Rule, term: &PodTerm, namespace: Sym, world: &World) -> Self {
        Spec {
            rule,
            key: term.key,
            namespaces: namespaces(term, namespace, world),
            selector: term.selector.clone(),
            node_affinity: None,
            tolerations: None,
            buyer: None,
        }
    }

    /// Whether a pod counts (for [`Rule::Inverse`]: is kept away).
    pub fn selects(&self, namespace: Sym, labels: &Labels) -> bool {
        self.namespaces.as_ref().is_none_or(|n| n.contains(&namespace)) && self.selector.matches(labels)
    }
}

fn namespaces(term: &PodTerm, own: Sym, world: &World) -> Option<Vec<Sym>> {
    let Some(selector) = &term.namespace_selector else {
        return Some(if term.namespaces.is_empty() { vec![own] } else { term.namespaces.clone() });
    };
    if selector.0.as_ref().is_some_and(Vec::is_empty) {
        return None;
    }
    let selected = world.namespaces.iter().filter(|(_, labels)| selector.matches(labels)).map(|(name, _)| *name);
    let mut all: Vec<Sym> = term.namespaces.iter().copied().chain(selected).collect();
    all.sort_unstable();
    all.dedup();
    Some(all)
}

/// Domains of one topology key other than the hostname.
#[derive(Clone, Debug)]
pub struct Domains {
    /// The key.
    pub key: Sym,
    /// Its values.
    pub values: Vec<Sym>,
    /// Position of each value when sorted by how cheap its offerings are.
    pub rank: Vec<u32>,
    /// The domain of each existing node, `u32::MAX` for none.
    pub of_node: Vec<u32>,
}

/// A group with its counts.
#[derive(Clone, Debug)]
pub struct Group {
    /// What it is.
    pub spec: Spec,
    /// Position in [`Topology::keys`]; `None` for the hostname.
    pub key: Option<usize>,
    /// Pods by domain.
    pub count: Vec<u32>,
    /// Which domains count for a spread constraint ([`super::domains`]).
    pub universe: Vec<bool>,
    /// Pods by host.
    pub hosts: Vec<u16>,
    /// Pods counted in all.
    pub total: u64,
    /// `spec.node_affinity` as sets.
    filter: Vec<Sets>,
    /// Existing nodes that do not count, though they have a domain.
    passed_over: FxHashSet<u32>,
}

/// All groups that pods to be planned have to do with.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Topology keys other than the hostname.
    pub keys: Vec<Domains>,
    /// Groups.
    pub groups: Vec<Group>,
    index: IndexMap<Spec, usize, FxBuildHasher>,
    hostname: Option<Sym>,
    nodes: usize,
    purchases: Purchases,
    counted: Counted,
}

/// Where a pod was placed, as far as topology cares.
#[derive(Clone, Copy)]
pub enum At {
    /// On an existing node.
    Node(usize),
    /// On a claim: host number and state.
    Claim(usize, StateId),
}

impl Topology {
    /// By how much domains wider than a host may differ, where a pod must be spread over them and counts itself.
    pub fn hard_skew(&self, u: &GroupUse) -> Option<i32> {
        let group = &self.groups[u.group];
        match group.spec.rule {
            Rule::Spread { max_skew, .. } if !u.soft && u.own && group.key.is_some() => Some(max_skew),
            _ => None,
        }
    }

    /// The label over whose domains, wider than a host, pods with these rules must spread; the first if there are several.
    pub fn spreads_over(&self, uses: &[GroupUse]) -> Option<Sym> {
        uses.iter().find(|u| self.hard_skew(u).is_some()).map(|u| self.groups[u.group].spec.key)
    }

    /// No group yet. The domains in `counted` count for their groups whatever could be bought there.
    pub fn new(snapshot: &Snapshot, counted: &Counted) -> Self {
        Topology {
            keys: Vec::new(),
            groups: Vec::new(),
            index: IndexMap::default(),
            hostname: snapshot.world.names.get("kubernetes.io/hostname"),
            nodes: snapshot.nodes.len(),
            purchases: Purchases::new(snapshot),
            counted: counted.clone(),
        }
    }

    /// The group of a specification, made and counted if it is new.
    pub fn group(&mut self, spec: Spec, snapshot: &Snapshot, states: &mut States<'_>, pools: &[StateId]) -> usize {
        if let Some(&at) = self.index.get(&spec) {
            return at;
        }
        let key = (Some(spec.key) != self.hostname).then(|| self.key(spec.key, snapshot, states, pools));
        let domains = key.map_or(0, |k| self.keys[k].values.len());
        let filter = filter_sets(&spec, states);
        let mut group = Group {
            key,
            count: vec![0; domains],
            universe: vec![false; domains],
            hosts: vec![0; if key.is_none() { self.nodes } else { 0 }],
            total: 0,
            filter,
            passed_over: FxHashSet::default(),
            spec,
        };
        if group.spec.node_affinity.is_some() || group.spec.tolerations.is_some() {
            let nodes = 0..self.nodes as u32;
            group.passed_over = nodes.filter(|&at| !counts_node(&group, snapshot, at as usize)).collect();
        }
        if group.spec.rule != Rule::Inverse {
            self.count_running(&mut group, snapshot);
        }
        if let (Rule::Spread { .. }, Some(k)) = (group.spec.rule, key) {
            self.fill_universe(&mut group, k, snapshot, states, pools);
        }
        self.index.insert(group.spec.clone(), self.groups.len());
        self.groups.push(group);
        self.groups.len() - 1
    }

    fn key(&mut self, key: Sym, snapshot: &Snapshot, states: &mut States<'_>, pools: &[StateId]) -> usize {
        if let Some(at) = self.keys.iter().position(|k| k.key == key) {
            return at;
        }
        let mut values = states.values_of(key);
        for &pool in pools {
            if let Some(set) = states.get(pool).sets.get(key).filter(|s| !s.complement) {
                values.extend(&set.values);
            }
        }
        values.extend(snapshot.nodes.iter().filter_map(|n| n.labels.get(key)));
        values.sort_by_key(|&v| states.names.text(v));
        values.dedup();
        let index: FxHashMap<Sym, u32> = values.iter().enumerate().map(|(at, &v)| (v, at as u32)).collect();
        let of_node = snapshot
            .nodes
            .iter()
            .map(|n| n.labels.get(key).and_then(|v| index.get(&v)).copied().unwrap_or(u32::MAX))
            .collect();
        let price: Vec<f64> = values.iter().map(|&v| cheapest_in(states, pools, key, v)).collect();
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&a, &b| price[a].total_cmp(&price[b]).then(a.cmp(&b)));
        let mut rank = vec![0; values.len()];
        order.iter().enumerate().for_each(|(r, &at)| rank[at] = r as u32);
        self.keys.push(Domains { key, values, rank, of_node });
        self.keys.len() - 1
    }

    fn count_running(&self, group: &mut Group, snapshot: &Snapshot) {
        for shape in snapshot.running.candidates(&group.spec.selector) {
            let pods = snapshot.world.shapes.get(shape);
            if group.spec.selects(pods.namespace, &pods.labels) {
                self.count_shape(group, shape, snapshot);
            }
        }
    }

    fn count_shape(&self, group: &mut Group, shape: crate::model::ShapeId, snapshot: &Snapshot) {
        for &(node, count) in snapshot.running.on(shape) {
            let at = node.0 as usize;
            if !counts_node(group, snapshot, at) {
                continue;
            }
            match group.key {
                None => group.hosts[at] = group.hosts[at].saturating_add(count as u16),
                Some(k) => match self.keys[k].of_node[at] {
                    u32::MAX => continue,
                    domain => group.count[domain as usize] += count,
                },
            }
            group.total += u64::from(count);
        }
    }

    /// Counts running pods of a shape as owners of an anti-affinity term.
    pub fn count_owners(&mut self, group: usize, shape: crate::model::ShapeId, snapshot: &Snapshot) {
        let mut taken = self.groups[group].clone();
        self.count_shape(&mut taken, shape, snapshot);
        self.groups[group] = taken;
    }

    fn fill_universe(
        &mut self,
        group: &mut Group,
        k: usize,
        snapshot: &Snapshot,
        states: &mut States<'_>,
        pools: &[StateId],
    ) {
        let domains = &self.keys[k];
        if let Some(buyer) = &group.spec.buyer {
            group.universe = self.purchases.of(buyer, (domains.key, &domains.values), snapshot, states, pools);
        }
        if let Some(anybody) = self.counted.buyer(&group.spec) {
            let more = self.purchases.of(&anybody, (domains.key, &domains.values), snapshot, states, pools);
            group.universe.iter_mut().zip(more).for_each(|(counts, more)| *counts |= more);
        }
        for (domain, &value) in domains.values.iter().enumerate().filter(|_| !self.counted.is_empty()) {
            group.universe[domain] |= self.counted.has(&group.spec, value);
        }
        for node in 0..snapshot.nodes.len() {
            let domain = domains.of_node[node];
            if domain != u32::MAX && counts_node(group, snapshot, node) {
                group.universe[domain as usize] = true;
            }
        }
    }

    /// Makes room for another host.
    pub fn add_host(&mut self) {
        self.groups.iter_mut().filter(|g| g.key.is_none()).for_each(|g| g.hosts.push(0));
    }

    /// Counts a placed pod in one group that selects it (or, for [`Rule::Inverse`], that it owns).
    pub fn record(&mut self, group: usize, at: At, states: &States<'_>, taints: &[crate::model::Taint]) {
        let keys = &self.keys;
        let group = &mut self.groups[group];
        let Some(k) = group.key else {
            let host = match at {
                At::Node(node) => node,
                At::Claim(host, _) => host,
            };
            group.hosts[host] = group.hosts[host].saturating_add(1);
            group.total += 1;
            return;
        };
        match at {
            At::Node(node) => {
                if group.passed_over.contains(&(node as u32)) {
                    return;
                }
                if let Some(count) = group.count.get_mut(keys[k].of_node[node] as usize) {
                    *count += 1;
                    group.total += 1;
                }
            }
            At::Claim(_, state) => {
                let tolerated = |t: &Vec<Toleration>| untolerated(t, taints, false).is_none();
                let sets = &states.get(state).sets;
                let counts = group.spec.tolerations.as_ref().is_none_or(tolerated)
                    && (group.filter.is_empty()
                        || group
                            .filter
                            .iter()
                            .any(|f| sets.conflict(f, |key| states.may_be_undefined(key), &states.numbers).is_none()));
                let set = sets.get(keys[k].key);
                let single = set.and_then(Set::single);
                let blocks = matches!(group.spec.rule, Rule::Anti | Rule::Inverse);
                if !counts || (single.is_none() && !blocks) {
                    return;
                }
                for (domain, &value) in keys[k].values.iter().enumerate() {
                    if set.is_none_or(|s| s.admits(value, &states.numbers)) {
                        group.count[domain] += 1;
                    }
                }
                group.total += 1;
            }
        }
    }
}

impl Group {
    /// Domains in which one more pod is allowed, among those that `strict` (what the pod requires of the key) admits.
    /// `own` says whether the pod itself counts; `owner`, whether the rule is its own: where it balances for others, a
    /// domain that does not count for them is no worse than one with room.
    pub fn allowed(
        &self,
        domains: &Domains,
        (own, owner): (bool, bool),
        strict: Option<&Set>,
        states: &States<'_>,
    ) -> Vec<bool> {
        let admitted = |d: usize| strict.is_none_or(|s| s.admits(domains.values[d], &states.numbers));
        let every = 0..domains.values.len();
        match self.spec.rule {
            Rule::Spread { max_skew, min_domains } => {
                let eligible = || every.clone().filter(|&d| self.universe[d]);
                let least = eligible().map(|d| self.count[d]).min().unwrap_or(0);
                let least = if (eligible().count() as i64) < i64::from(min_domains) { 0 } else { least };
                let fine =
                    |d: usize| i64::from(self.count[d]) + i64::from(own) - i64::from(least) <= i64::from(max_skew);
                let counts = |d: usize| self.universe[d];
                every.map(|d| admitted(d) && if counts(d) { fine(d) } else { !owner }).collect()
            }
            Rule::Affinity if self.total == 0 && own => every.map(admitted).collect(),
            Rule::Affinity => every.map(|d| admitted(d) && self.count[d] > 0).collect(),
            Rule::Anti | Rule::Inverse => every.map(|d| admitted(d) && self.count[d] == 0).collect(),
        }
    }

    /// Whether one more pod is allowed on a host. A host that has no number yet is a new one.
    pub fn allows_host(&self, host: usize, own: bool) -> bool {
        let count = self.hosts.get(host).copied().unwrap_or(0);
        match self.spec.rule {
            Rule::Spread { max_skew, .. } => i32::from(count) + i32::from(own) <= max_skew,
            Rule::Affinity => count > 0 || (self.total == 0 && own),
            Rule::Anti | Rule::Inverse => count == 0,
        }
    }
}

fn filter_sets(spec: &Spec, states: &States<'_>) -> Vec<Sets> {
    let Some((selector, terms)) = &spec.node_affinity else { return Vec::new() };
    alternatives(selector, terms, states)
}

fn counts_node(group: &Group, snapshot: &Snapshot, at: usize) -> bool {
    let node = &snapshot.nodes[at];
    let names = &snapshot.world.names;
    let tolerated = |t: &Vec<Toleration>| untolerated(t, &node.taints, false).is_none();
    let labels_fit = |(selector, terms): &(Vec<Requirement>, Vec<Vec<Requirement>>)| {
        let all = |rs: &[Requirement]| rs.iter().all(|r| crate::matching::satisfies(&node.labels, r, names));
        all(selector) && (terms.is_empty() || terms.iter().any(|t| !t.is_empty() && all(t)))
    };
    group.spec.tolerations.as_ref().is_none_or(tolerated) && group.spec.node_affinity.as_ref().is_none_or(labels_fit)
}

/// The least effective cost of a unit of capacity in a domain: USD per hour for a core with 4 GiB.
fn cheapest_in(states: &mut States<'_>, pools: &[StateId], key: Sym, value: Sym) -> f64 {
    let mut best = f64::INFINITY;
    for &pool in pools {
        let Some(state) = states.pin(pool, key, value) else { continue };
        let at = states.get(state).pool;
        for t in states.get(state).types.iter() {
            let id = crate::model::TypeId(t as u32);
            let Some(offering) = states.cheapest(state, id) else { continue };
            let cost = states.scores[at].cost[offering.0 as usize];
            let room = &states.catalogue.instance_type(id).allocatable;
            let cores = room.get(crate::model::ResourceId::Cpu) as f64 / 1e3;
            let blocks = room.get(crate::model::ResourceId::Memory) as f64 / (4.0 * f64::from(1 << 30));
            best = best.min(cost / (0.5 * cores + 0.5 * blocks).max(1e-9));
        }
    }
    best
}

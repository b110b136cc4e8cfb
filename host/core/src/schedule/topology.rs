//! Topology rules as groups with counts: how many selected pods are in each domain.
//!
//! A domain of the hostname key is a *host*: an existing node or a claim of this plan. Domains of
//! other keys are interned per key. Counts are updated as pods are placed and never recounted. A
//! pod on a claim whose domain is not settled yet counts in no domain. Anti-affinity is the
//! exception: there the pod blocks every domain that the claim may still get.
//!
//! Spread over hosts compares what kube-scheduler compares when the pod is tried. On a node that is
//! initialized, the minimum is that of such nodes, for one that comes meanwhile takes a pod first; it is
//! 0 if one does not get ready or is on its way out. On a node that is yet to come it is 0, because
//! the new node is one of those compared then.

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::domains::{Buyer, Counted, Purchases, alternatives, exists};
use super::members::Members;
use super::node_specs::{NodeSpecId, NodeSpecs};
use super::pod_groups::{GroupUse, Uses};
use super::sets::{Set, Sets};
use super::undo::{Log, Undo};
use crate::ids::NodeIx;
use crate::matching::untolerated;
use crate::model::{
    Catalogue, ClusterObjects, LabelSelector, Labels, NodeInclusion, PodShape, PodTerm,
    Requirement, ResourceId, ShapeId, Spread, Symbol, Taint, Toleration, TypeId,
};
use crate::reasons::TopologyRule;
use crate::snapshot::Snapshot;

/// What a group is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConstraintKind {
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
    AntiAffinity,
    /// The inverse: counts pods that own the term.
    InverseAntiAffinity,
}

impl ConstraintKind {
    /// What a refusal calls it.
    pub fn name(self) -> TopologyRule {
        match self {
            ConstraintKind::Spread { .. } => TopologyRule::Spread,
            ConstraintKind::Affinity => TopologyRule::Affinity,
            ConstraintKind::AntiAffinity => TopologyRule::AntiAffinity,
            ConstraintKind::InverseAntiAffinity => TopologyRule::InverseAntiAffinity,
        }
    }

    /// Whether it holds on a node without the topology label.
    pub fn allows_absence(self) -> bool {
        match self {
            ConstraintKind::Spread { .. } | ConstraintKind::Affinity => false,
            ConstraintKind::AntiAffinity | ConstraintKind::InverseAntiAffinity => true,
        }
    }
}

/// What a rule has to know of the pod that asks it.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// The pod itself counts.
    pub own: bool,
    /// The rule is the pod's own, not one that it balances for others.
    pub owner: bool,
    /// It may be the first of those that it must be with ([`Topology::may_be_first`]).
    pub first: bool,
}

impl Asking {
    /// A pod that others' rules keep away.
    pub const INVERSE: Self = Asking {
        own: false,
        owner: true,
        first: false,
    };
}

/// The identity of a group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GroupKey {
    /// Spread, affinity or anti-affinity.
    pub rule: ConstraintKind,
    /// Topology key.
    pub key: Symbol,
    /// Namespaces whose pods count; `None` for all.
    pub namespaces: Option<Arc<[Symbol]>>,
    /// Which pods count (for [`ConstraintKind::InverseAntiAffinity`]: which pods the term keeps
    /// away).
    pub selector: LabelSelector,
    /// The other required affinity terms of the pod, namespaces and selector each: only pods that
    /// match every one of them count ([`ConstraintKind::Affinity`]).
    pub beside: Vec<(Option<Arc<[Symbol]>>, LabelSelector)>,
    /// Nodes count only if they have these labels too, sorted: the other topology keys that the pod
    /// must be spread over (kube-scheduler passes over a node that lacks any), the hostname left
    /// out.
    pub keys: Vec<Symbol>,
    /// Nodes count only if they have a hostname, over which the pod must be spread too.
    pub named: bool,
    /// Nodes count only if these labels are right (`nodeAffinityPolicy: Honor`).
    pub node_affinity: Option<(Vec<Requirement>, Vec<Vec<Requirement>>)>,
    /// Nodes count only if these tolerate their taints (`nodeTaintsPolicy: Honor`).
    pub tolerations: Option<Vec<Toleration>>,
    /// The buyer of nodes in domains that have none ([`ConstraintKind::Spread`]).
    pub buyer: Option<Buyer>,
}

impl GroupKey {
    /// The group of a spread constraint of a pod.
    pub fn spread(spread: &Spread, shape: &PodShape, hostname: Option<Symbol>) -> Self {
        let affinity = spread.node_affinity == NodeInclusion::Honor;
        let keys = other_keys(spread, shape, hostname);
        GroupKey {
            rule: ConstraintKind::Spread {
                max_skew: spread.max_skew,
                min_domains: spread.min_domains.unwrap_or(0),
            },
            key: spread.key,
            namespaces: Some(Arc::new([shape.namespace])),
            selector: spread.selector.clone(),
            beside: Vec::new(),
            node_affinity: affinity.then(|| (shape.node_selector.clone(), shape.required.clone())),
            tolerations: (spread.node_taints == NodeInclusion::Honor)
                .then(|| shape.tolerations.clone()),
            buyer: Some(Buyer::of(shape, &keys)),
            named: spread.required
                && Some(spread.key) != hostname
                && shape
                    .spread
                    .iter()
                    .any(|s| s.required && Some(s.key) == hostname),
            keys,
        }
    }

    /// What the labels of a node have to be for it to count: a selector and alternative terms.
    /// Nothing if all count.
    pub fn asked(&self) -> Option<Asked> {
        if self.node_affinity.is_none() && self.keys.is_empty() {
            return None;
        }
        let (mut selector, terms) = self.node_affinity.clone().unwrap_or_default();
        selector.extend(self.keys.iter().map(|&key| exists(key)));
        Some((selector, terms))
    }

    /// Whether a pod counts (for [`ConstraintKind::InverseAntiAffinity`]: is kept away).
    pub fn selects(&self, namespace: Symbol, labels: &Labels) -> bool {
        let matches = |namespaces: &Option<Arc<[Symbol]>>, selector: &LabelSelector| {
            let here = namespaces
                .as_ref()
                .is_none_or(|all| all.binary_search(&namespace).is_ok());
            here && selector.matches(labels)
        };
        matches(&self.namespaces, &self.selector)
            && self
                .beside
                .iter()
                .all(|(names, other)| matches(names, other))
    }
}

/// A node selector, and terms of node affinity of which one must hold.
type Asked = (Vec<Requirement>, Vec<Vec<Requirement>>);

/// Positions of namespaces that have pods.
fn inhabited(world: &ClusterObjects) -> Vec<usize> {
    let there: FxHashSet<Symbol> = world.shapes.iter().map(|shape| shape.namespace).collect();
    let all = world.namespaces.iter().enumerate();
    all.filter(|(_, (name, _))| there.contains(name))
        .map(|(at, _)| at)
        .collect()
}

/// The other keys, wider than a host, that a pod must be spread over.
fn other_keys(spread: &Spread, shape: &PodShape, hostname: Option<Symbol>) -> Vec<Symbol> {
    if !spread.required {
        return Vec::new();
    }
    let others = shape
        .spread
        .iter()
        .filter(|s| s.required && s.key != spread.key && Some(s.key) != hostname);
    let mut keys: Vec<Symbol> = others.map(|s| s.key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Domains of one topology key other than the hostname.
#[derive(Clone, Debug)]
pub struct Domains {
    /// The label whose values are domains.
    pub key: Symbol,
    /// The label's values; a domain's number is its index here.
    pub values: Vec<Symbol>,
    /// Position of each value when sorted by how cheap its offerings are.
    pub rank: Vec<u32>,
    /// What a new node in each domain may be, cheapest first. Only for labels of types: such a
    /// domain says how large a node is.
    pub machines: Vec<Vec<ToBuy>>,
    /// The domain of each existing node, `u32::MAX` for none.
    pub of_node: Vec<u32>,
    /// Some existing node has no such label, or a NodePool buys nodes without it.
    pub lacking: bool,
}

/// A group with its counts.
#[derive(Clone, Debug)]
pub struct Group {
    /// What it counts, and for which rule.
    pub spec: GroupKey,
    /// Position in [`Topology::keys`]; `None` for the hostname.
    pub key: Option<usize>,
    /// Pods by domain.
    pub count: Vec<u32>,
    /// Which domains count for a spread constraint ([`super::domains`]): those where such a pod's
    /// node could be bought, and those of `nodes_in`.
    pub eligible_domains: Vec<bool>,
    /// Existing nodes that pass the filter of a spread constraint, by domain, and whether the
    /// domain counts without them.
    nodes_in: Vec<(u32, bool)>,
    /// Pods by host.
    hosts: HostCounts,
    /// Pods counted in all.
    pub total: u64,
    /// Pod groups that must be with the pods of this one and cannot be in a domain, by domain;
    /// empty if all of them can be anywhere ([`super::leaders`]).
    unsuited: Vec<u32>,
    /// The domains in which each of them can be, each list once.
    followers: Vec<Vec<bool>>,
    /// `spec.node_affinity` as sets.
    filter: Vec<Sets>,
    /// Existing nodes that do not count, though they have a domain.
    passed_over: FxHashSet<u32>,
}

/// Different lists of domains in which followers of a group can be beyond which no more are told
/// apart.
const MAX_FOLLOWERS: usize = 32;

/// Pods of a group by host. A host beyond the end has none.
#[derive(Clone, Debug)]
enum HostCounts {
    /// Their number, for rules that need it, and the nodes that are compared.
    Pods(Vec<u16>, ComparedNodes),
    /// Whether there are any, for rules that need no number.
    Any(Members),
}

/// The nodes among which a spread constraint over hosts looks for the fewest pods: those that are
/// initialized and pass its filter.
#[derive(Clone, Debug, Default)]
struct ComparedNodes {
    nodes: Members,
    /// How many they are.
    number: usize,
    /// How many of them have so many pods.
    with: Vec<u32>,
    /// The fewest pods on any of them.
    least: u16,
    /// How many others have no pods: those on their way out, each compared until it is gone, and
    /// those that do not get ready.
    without_pods: usize,
}

impl ComparedNodes {
    /// All of them before pods are counted, and how many others have none.
    fn new(nodes: Members, without_pods: usize) -> Self {
        let number = nodes.len();
        ComparedNodes {
            nodes,
            number,
            with: vec![number as u32],
            least: 0,
            without_pods,
        }
    }

    /// The minimum for a pod that is placed on a host.
    fn least_for(&self, host: usize, min_domains: i32) -> u16 {
        let is_enough = self.number as i64 >= i64::from(min_domains);
        match self.without_pods == 0 && is_enough && self.nodes.has(host) {
            true => self.least,
            false => 0,
        }
    }

    /// The number of pods on a host has changed.
    fn change(&mut self, host: usize, from: u16, to: u16) {
        if from != to && self.nodes.has(host) {
            self.count_out(from);
            self.count_in(to);
        }
    }

    fn remove(&mut self, host: usize, pods: u16) {
        self.nodes.remove(host);
        self.without_pods += 1;
        self.number -= 1;
        self.count_out(pods);
    }

    fn put_back(&mut self, host: usize, pods: u16) {
        self.nodes.insert(host);
        self.without_pods -= 1;
        self.number += 1;
        self.count_in(pods);
    }

    fn count_out(&mut self, pods: u16) {
        self.with[usize::from(pods)] -= 1;
        self.settle();
    }

    fn count_in(&mut self, pods: u16) {
        let pods = usize::from(pods);
        if self.with.len() <= pods {
            self.with.resize(pods + 1, 0);
        }
        self.with[pods] += 1;
        self.settle();
    }

    fn settle(&mut self) {
        let least = self.with.iter().position(|&nodes| nodes > 0);
        self.least = least.unwrap_or(0) as u16;
    }
}

impl HostCounts {
    fn of(rule: ConstraintKind) -> Self {
        match rule {
            ConstraintKind::Spread { .. } => HostCounts::Pods(Vec::new(), ComparedNodes::default()),
            ConstraintKind::Affinity
            | ConstraintKind::AntiAffinity
            | ConstraintKind::InverseAntiAffinity => HostCounts::Any(Members::default()),
        }
    }

    /// Counts more pods on a host; whether they are the first there (of rules that do not ask for
    /// how many).
    fn add(&mut self, host: usize, pods: u16) -> bool {
        match self {
            HostCounts::Any(hosts) => hosts.insert(host),
            HostCounts::Pods(counts, compared) => {
                if counts.len() <= host {
                    counts.resize(host + 1, 0);
                }
                let before = counts[host];
                counts[host] = before.saturating_add(pods);
                compared.change(host, before, counts[host]);
                false
            }
        }
    }

    /// Takes back what [`add`](HostCounts::add) did.
    fn take(&mut self, host: usize, pods: u16, first: bool) {
        match self {
            HostCounts::Any(hosts) if first => hosts.remove(host),
            HostCounts::Any(_) => {}
            HostCounts::Pods(counts, compared) => {
                let before = counts[host];
                counts[host] = before.saturating_sub(pods);
                compared.change(host, before, counts[host]);
            }
        }
    }

    /// The minimum for a pod that is placed on a host.
    fn least(&self, host: usize, min_domains: i32) -> u16 {
        match self {
            HostCounts::Pods(_, compared) => compared.least_for(host, min_domains),
            HostCounts::Any(_) => 0,
        }
    }

    /// A node is gone. Returns whether it was compared.
    fn remove_node(&mut self, node: usize) -> bool {
        let pods = self.on(node);
        match self {
            HostCounts::Pods(_, compared) if compared.nodes.has(node) => {
                compared.remove(node, pods);
                true
            }
            _ => false,
        }
    }

    /// Takes back what [`remove_node`](HostCounts::remove_node) did.
    fn put_back_node(&mut self, node: usize) {
        let pods = self.on(node);
        if let HostCounts::Pods(_, compared) = self {
            compared.put_back(node, pods);
        }
    }

    /// How many pods are on a host, at most one where that is all that matters.
    fn on(&self, host: usize) -> u16 {
        match self {
            HostCounts::Pods(counts, _) => counts.get(host).copied().unwrap_or(0),
            HostCounts::Any(hosts) => u16::from(hosts.has(host)),
        }
    }
}

/// All groups that pods to be planned have to do with.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Topology keys other than the hostname.
    pub keys: Vec<Domains>,
    /// Every group; its number is its index here.
    pub groups: Vec<Group>,
    index: IndexMap<GroupKey, usize, FxBuildHasher>,
    /// The label that names a host.
    pub hostname: Option<Symbol>,
    /// Existing nodes without that label: no host of any rule.
    nameless: Members,
    /// The other ones that are there for kube-scheduler.
    named: Members,
    nodes: usize,
    purchases: Purchases,
    counted: Counted,
    /// Positions of namespaces that have pods.
    inhabited: Vec<usize>,
    /// Lists of namespaces that terms name or select.
    lists: FxHashSet<Arc<[Symbol]>>,
    /// Anti-affinity terms seen from the other side ([`ConstraintKind::InverseAntiAffinity`]) that
    /// have a pod in a domain, by key and domain.
    repelled_in: Vec<Vec<Members>>,
    /// The same by host. A host has few of them, a pod may be selected by many: they are looked up
    /// one by one.
    repelled_on: Vec<Vec<u32>>,
    /// Groups that count running pods of a shape, by shape.
    counting: FxHashMap<ShapeId, Vec<u32>>,
    /// Groups of [`ConstraintKind::InverseAntiAffinity`] that running pods of a shape own, by
    /// shape.
    owned_by: FxHashMap<ShapeId, Vec<u32>>,
    /// What has changed since everything was counted, the latest last.
    log: Log,
}

/// Where a pod was placed, as far as topology cares.
#[derive(Clone, Copy)]
pub enum PlacedAt {
    /// On an existing node.
    Node(usize),
    /// On a claim: host number and state.
    Claim(usize, NodeSpecId),
}

impl Topology {
    /// By how much domains wider than a host may differ, where a pod must be spread over them and
    /// counts itself.
    pub fn hard_skew(&self, u: &GroupUse) -> Option<i32> {
        let group = &self.groups[u.group];
        match group.spec.rule {
            ConstraintKind::Spread { max_skew, .. } if !u.soft && u.own && group.key.is_some() => {
                Some(max_skew)
            }
            _ => None,
        }
    }

    /// The label over whose domains, wider than a host, pods with these rules must spread; the
    /// first if there are several.
    pub fn spreads_over(&self, uses: &Uses) -> Option<Symbol> {
        uses.iter()
            .find(|u| self.hard_skew(u).is_some())
            .map(|u| self.groups[u.group].spec.key)
    }

    /// No group yet. The domains in `counted` always count for their groups.
    pub fn new(snapshot: &Snapshot, counted: &Counted) -> Self {
        let hostname = snapshot.world.names.get("kubernetes.io/hostname");
        let mut nameless = Members::default();
        let unnamed =
            |at: &usize| hostname.is_some_and(|key| snapshot.nodes[*at].labels.get(key).is_none());
        (0..snapshot.nodes.len())
            .filter(unnamed)
            .for_each(|at| _ = nameless.insert(at));
        let mut named = Members::default();
        (0..snapshot.nodes.len())
            .filter(|&at| snapshot.nodes[at].initialized && !nameless.has(at))
            .for_each(|at| _ = named.insert(at));
        Topology {
            keys: Vec::new(),
            groups: Vec::new(),
            index: IndexMap::default(),
            hostname,
            nameless,
            named,
            nodes: snapshot.nodes.len(),
            purchases: Purchases::new(snapshot),
            counted: counted.clone(),
            inhabited: inhabited(&snapshot.world),
            lists: FxHashSet::default(),
            repelled_in: Vec::new(),
            repelled_on: Vec::new(),
            counting: FxHashMap::default(),
            owned_by: FxHashMap::default(),
            log: Log::default(),
        }
    }

    /// The key of the group of a term of pod affinity or anti-affinity of a pod in a namespace.
    pub fn term(
        &mut self,
        rule: ConstraintKind,
        term: &PodTerm,
        namespace: Symbol,
        snapshot: &Snapshot,
    ) -> GroupKey {
        GroupKey {
            rule,
            key: term.key,
            namespaces: self.namespaces(term, namespace, &snapshot.world),
            selector: term.selector.clone(),
            beside: Vec::new(),
            keys: Vec::new(),
            named: false,
            node_affinity: None,
            tolerations: None,
            buyer: None,
        }
    }

    /// The keys of the groups of the required affinity terms of a pod, in order. Each counts pods
    /// that match all of them.
    pub fn affinity_terms(&mut self, shape: &PodShape, snapshot: &Snapshot) -> Vec<GroupKey> {
        let terms = shape.affinity.iter();
        let mut keys: Vec<GroupKey> = terms
            .map(|term| self.term(ConstraintKind::Affinity, term, shape.namespace, snapshot))
            .collect();
        let mut all: Vec<(Option<Arc<[Symbol]>>, LabelSelector)> = Vec::new();
        for key in &keys {
            let one = (key.namespaces.clone(), key.selector.clone());
            if !all.contains(&one) {
                all.push(one);
            }
        }
        for key in keys.iter_mut().filter(|_| all.len() > 1) {
            let others = all
                .iter()
                .filter(|(names, selector)| (names, selector) != (&key.namespaces, &key.selector));
            key.beside = others.cloned().collect();
        }
        keys
    }

    /// Whether a pod may be the first of those that a rule of its own selects: nobody that it
    /// selects has a domain of any of its required affinity terms.
    pub fn may_be_first(&self, uses: &Uses, rule: &GroupUse) -> bool {
        let empty = |group: usize| self.groups[group].total == 0;
        let others = || uses.iter().filter(|other| other.together);
        rule.own && empty(rule.group) && (!rule.together || others().all(|o| empty(o.group)))
    }

    /// What a rule has to know of a pod group.
    pub fn asking(&self, uses: &Uses, rule: &GroupUse) -> Asking {
        let affinity = self.groups[rule.group].spec.rule == ConstraintKind::Affinity;
        Asking {
            own: rule.own,
            owner: rule.owner,
            first: affinity && self.may_be_first(uses, rule),
        }
    }

    /// Whether a rule of a pod group about hosts allows one more of its pods there. A host without
    /// a number yet is a new one.
    pub fn allows_host(&self, uses: &Uses, rule: &GroupUse, host: usize) -> bool {
        let group = &self.groups[rule.group];
        if self.nameless.has(host) {
            return group.spec.rule.allows_absence();
        }
        let first = group.spec.rule == ConstraintKind::Affinity && self.may_be_first(uses, rule);
        group.allows_host(host, rule.own, first)
    }

    /// Namespaces that a term names or selects, sorted; `None` for all. Those without pods are left
    /// out of what is selected, and the same list is kept once: a term may select thousands.
    fn namespaces(
        &mut self,
        term: &PodTerm,
        own: Symbol,
        world: &ClusterObjects,
    ) -> Option<Arc<[Symbol]>> {
        let mut all = term.namespaces.clone();
        match &term.namespace_selector {
            None if all.is_empty() => all.push(own),
            None => {}
            Some(selector) if selector.0.as_ref().is_some_and(Vec::is_empty) => return None,
            Some(selector) => {
                let there = self.inhabited.iter().map(|&at| &world.namespaces[at]);
                all.extend(
                    there
                        .filter(|(_, labels)| selector.matches(labels))
                        .map(|(name, _)| *name),
                );
            }
        }
        all.sort_unstable();
        all.dedup();
        if let Some(known) = self.lists.get(all.as_slice()) {
            return Some(known.clone());
        }
        let list: Arc<[Symbol]> = all.into();
        self.lists.insert(list.clone());
        Some(list)
    }

    /// Whether a pod of one of these groups of others' anti-affinity is in a domain.
    pub fn repels_in(&self, key: usize, domain: usize, groups: &Members) -> bool {
        self.repelled_in[key][domain].meets(groups)
    }

    /// Whether a pod of one of these groups of others' anti-affinity is on a host.
    pub fn repels_on(&self, host: usize, groups: &Members) -> bool {
        self.repelled_on
            .get(host)
            .is_some_and(|there| there.iter().any(|&group| groups.has(group as usize)))
    }

    /// The group of a specification, made and counted if it is new.
    pub fn group(
        &mut self,
        spec: GroupKey,
        snapshot: &Snapshot,
        states: &mut NodeSpecs<'_>,
        pools: &[NodeSpecId],
    ) -> usize {
        if let Some(&at) = self.index.get(&spec) {
            return at;
        }
        let key =
            (Some(spec.key) != self.hostname).then(|| self.key(spec.key, snapshot, states, pools));
        let domains = key.map_or(0, |k| self.keys[k].values.len());
        let filter = filter_sets(&spec, states);
        let mut group = Group {
            key,
            count: vec![0; domains],
            eligible_domains: vec![false; domains],
            nodes_in: Vec::new(),
            hosts: HostCounts::of(spec.rule),
            total: 0,
            unsuited: Vec::new(),
            followers: Vec::new(),
            filter,
            passed_over: FxHashSet::default(),
            spec,
        };
        let spec = &group.spec;
        let named = spec.named && !self.nameless.is_empty();
        let filtered = spec.node_affinity.is_some() || spec.tolerations.is_some();
        if filtered || named || !spec.keys.is_empty() {
            let counts = |at: u32| {
                let at = at as usize;
                let node = &snapshot.nodes[at];
                !(named && self.nameless.has(at))
                    && counts_node(&group, snapshot, &node.labels, node.written_taints())
            };
            let nodes = 0..self.nodes as u32;
            group.passed_over = nodes.filter(|&at| !counts(at)).collect();
        }
        if key.is_none() && matches!(group.hosts, HostCounts::Pods(..)) {
            let compared = self.compared_nodes(&group, snapshot);
            group.hosts = HostCounts::Pods(Vec::new(), compared);
        }
        if group.spec.rule != ConstraintKind::InverseAntiAffinity {
            self.count_running(&mut group, snapshot);
        }
        if let (ConstraintKind::Spread { .. }, Some(k)) = (group.spec.rule, key) {
            self.fill_eligible(&mut group, k, snapshot, states, pools);
        }
        self.index.insert(group.spec.clone(), self.groups.len());
        self.groups.push(group);
        self.groups.len() - 1
    }

    /// The nodes that a spread constraint over hosts compares.
    fn compared_nodes(&self, group: &Group, snapshot: &Snapshot) -> ComparedNodes {
        let world = &snapshot.world;
        let counts = |at: &&u32| {
            let node = &world.nodes[**at as usize];
            let named = self
                .hostname
                .is_none_or(|key| node.labels.get(key).is_some());
            named && counts_node(group, snapshot, &node.labels, &node.taints)
        };
        let without_pods = snapshot.hosts_without_pods.iter().filter(counts).count();
        let mut nodes = self.named.clone();
        let passed_over = group.passed_over.iter();
        passed_over.for_each(|&at| nodes.remove(at as usize));
        ComparedNodes::new(nodes, without_pods)
    }

    fn key(
        &mut self,
        key: Symbol,
        snapshot: &Snapshot,
        states: &mut NodeSpecs<'_>,
        pools: &[NodeSpecId],
    ) -> usize {
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
        let index: FxHashMap<Symbol, u32> = values
            .iter()
            .enumerate()
            .map(|(at, &v)| (v, at as u32))
            .collect();
        let of_node = snapshot
            .nodes
            .iter()
            .map(|n| {
                n.labels
                    .get(key)
                    .and_then(|v| index.get(&v))
                    .copied()
                    .unwrap_or(u32::MAX)
            })
            .collect::<Vec<u32>>();
        let lacking =
            of_node.contains(&u32::MAX) || pools.iter().any(|&pool| states.lacks(pool, key));
        let to_buy = values.iter().map(|&v| to_buy_in(states, pools, key, v));
        let mut to_buy: Vec<Vec<ToBuy>> = to_buy.collect();
        let price: Vec<f64> = to_buy
            .iter()
            .map(|all| cheapest_unit(states.catalogue, all))
            .collect();
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&a, &b| price[a].total_cmp(&price[b]).then(a.cmp(&b)));
        let mut rank = vec![0; values.len()];
        order
            .iter()
            .enumerate()
            .for_each(|(r, &at)| rank[at] = r as u32);
        if states.catalogue.index().is_of_types(key) {
            for all in &mut to_buy {
                all.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
            }
        } else {
            to_buy.clear();
        }
        self.repelled_in
            .push(vec![Members::default(); values.len()]);
        self.keys.push(Domains {
            key,
            values,
            rank,
            machines: to_buy,
            of_node,
            lacking,
        });
        self.keys.len() - 1
    }

    fn count_running(&mut self, group: &mut Group, snapshot: &Snapshot) {
        for shape in snapshot.running.candidates(&group.spec.selector) {
            let pods = snapshot.world.shapes.get(shape);
            if group.spec.selects(pods.namespace, &pods.labels) {
                self.counting
                    .entry(shape)
                    .or_default()
                    .push(self.groups.len() as u32);
                for &(node, count) in self.counted(group.spec.rule, shape, snapshot) {
                    let at = node.0 as usize;
                    if !self.is_nowhere(group, at) && !group.passed_over.contains(&(at as u32)) {
                        group.count_on_node(&self.keys, at, count);
                    }
                }
            }
        }
    }

    /// Where the pods of a shape run that a rule counts: a spread constraint leaves terminating
    /// pods out.
    fn counted<'s>(
        &self,
        rule: ConstraintKind,
        shape: ShapeId,
        snapshot: &'s Snapshot,
    ) -> &'s [(NodeIx, u32)] {
        match rule {
            ConstraintKind::Spread { .. } => snapshot.running.on(shape),
            ConstraintKind::Affinity
            | ConstraintKind::AntiAffinity
            | ConstraintKind::InverseAntiAffinity => snapshot.running.with_terminating(shape),
        }
    }

    /// Whether an existing node is no host of a rule about hosts.
    fn is_nowhere(&self, group: &Group, node: usize) -> bool {
        group.key.is_none() && self.nameless.has(node)
    }

    /// Counts running pods of a shape as owners of an anti-affinity term.
    pub fn count_owners(&mut self, group: usize, shape: ShapeId, snapshot: &Snapshot) {
        self.owned_by.entry(shape).or_default().push(group as u32);
        for &(node, count) in snapshot.running.with_terminating(shape) {
            if self.is_nowhere(&self.groups[group], node.0 as usize) {
                continue;
            }
            self.groups[group].count_on_node(&self.keys, node.0 as usize, count);
            let key = self.groups[group].key;
            match key.map(|key| (key, self.keys[key].of_node[node.0 as usize])) {
                None => _ = self.repel_on(group, node.0 as usize),
                Some((key, domain)) if domain != u32::MAX => self.repel_in(group, key, domain),
                Some(_) => {}
            }
        }
    }

    /// Whether it was not the last one known there.
    fn repel_on(&mut self, group: usize, host: usize) -> bool {
        if self.repelled_on.len() <= host {
            self.repelled_on.resize_with(host + 1, Vec::new);
        }
        let there = &mut self.repelled_on[host];
        // Groups come in runs, so only the last one is compared; a duplicate is harmless.
        let new = there.last() != Some(&(group as u32));
        if new {
            there.push(group as u32);
        }
        new
    }

    fn repel_in(&mut self, group: usize, key: usize, domain: u32) {
        self.repelled_in[key][domain as usize].insert(group);
    }

    fn fill_eligible(
        &mut self,
        group: &mut Group,
        k: usize,
        snapshot: &Snapshot,
        states: &mut NodeSpecs<'_>,
        pools: &[NodeSpecId],
    ) {
        let domains = &self.keys[k];
        if let Some(buyer) = &group.spec.buyer {
            group.eligible_domains = self.purchases.of(
                buyer,
                (domains.key, &domains.values),
                snapshot,
                states,
                pools,
            );
        }
        if let Some(anybody) = self.counted.buyer(&group.spec) {
            let more = self.purchases.of(
                &anybody,
                (domains.key, &domains.values),
                snapshot,
                states,
                pools,
            );
            group
                .eligible_domains
                .iter_mut()
                .zip(more)
                .for_each(|(counts, more)| *counts |= more);
        }
        for (domain, &value) in domains
            .values
            .iter()
            .enumerate()
            .filter(|_| !self.counted.is_empty())
        {
            group.eligible_domains[domain] |= self.counted.has(&group.spec, value);
        }
        group.nodes_in = group
            .eligible_domains
            .iter()
            .map(|&counts| (0, counts))
            .collect();
        for node in 0..snapshot.nodes.len() {
            let domain = domains.of_node[node];
            if domain != u32::MAX && !group.passed_over.contains(&(node as u32)) {
                group.eligible_domains[domain as usize] = true;
                group.nodes_in[domain as usize].0 += 1;
            }
        }
    }

    /// Counts so many placed pods in groups that select them (or, for
    /// [`ConstraintKind::InverseAntiAffinity`], that they own).
    pub fn record(
        &mut self,
        groups: impl Iterator<Item = usize>,
        at: PlacedAt,
        pods: u32,
        states: &NodeSpecs<'_>,
        taints: &[Taint],
    ) {
        let mut landings: Vec<Option<Landing>> = self.keys.iter().map(|_| None).collect();
        for number in groups {
            let group = &mut self.groups[number];
            let inverse = group.spec.rule == ConstraintKind::InverseAntiAffinity;
            let Some(k) = group.key else {
                let host = match at {
                    PlacedAt::Node(node) if self.nameless.has(node) => continue,
                    PlacedAt::Node(node) => node,
                    PlacedAt::Claim(host, _) => host,
                };
                let first = group
                    .hosts
                    .add(host, u16::try_from(pods).unwrap_or(u16::MAX));
                group.total += u64::from(pods);
                self.log.push(Undo::Host {
                    group: number as u32,
                    host: host as u32,
                    pods,
                    first,
                });
                if inverse && first && self.repel_on(number, host) {
                    self.log.push(Undo::RepelledOn { host: host as u32 });
                }
                continue;
            };
            let landing =
                landings[k].get_or_insert_with(|| Landing::new(&self.keys[k], at, states));
            let blocks = matches!(
                group.spec.rule,
                ConstraintKind::AntiAffinity | ConstraintKind::InverseAntiAffinity
            );
            if landing.domains.is_empty()
                || !(landing.settled || blocks)
                || !group.counts(at, states, taints)
            {
                continue;
            }
            for &domain in &landing.domains {
                group.count[domain as usize] += pods;
                self.log.push(Undo::Domain {
                    group: number as u32,
                    domain,
                    pods,
                });
                if inverse && self.repelled_in[k][domain as usize].insert(number) {
                    self.log.push(Undo::RepelledIn {
                        key: k as u32,
                        domain,
                        group: number as u32,
                    });
                }
            }
            group.total += u64::from(pods);
            self.log.push(Undo::Total {
                group: number as u32,
                pods,
            });
        }
    }

    /// Removes a node with its pods, until [`rewind`](Topology::rewind). Its number stays,
    /// and nothing may be placed on it.
    pub fn remove_node(&mut self, node: usize, snapshot: &Snapshot) {
        for number in 0..self.groups.len() {
            let group = &mut self.groups[number];
            let Some(key) = group.key else {
                if group.hosts.remove_node(node) {
                    self.log.push(Undo::NodeIn {
                        group: number as u32,
                        domain: node as u32,
                    });
                }
                continue;
            };
            let domain = self.keys[key].of_node[node];
            if domain == u32::MAX {
                continue;
            }
            if group.nodes_in.is_empty() || group.passed_over.contains(&(node as u32)) {
                continue;
            }
            let (nodes, anyway) = &mut group.nodes_in[domain as usize];
            *nodes -= 1;
            group.eligible_domains[domain as usize] = *anyway || *nodes > 0;
            self.log.push(Undo::NodeIn {
                group: number as u32,
                domain,
            });
        }
        let gone = &snapshot.nodes[node];
        let live = gone.pods.iter().map(|pod| (pod, false));
        for (pod, terminating) in live.chain(gone.terminating.iter().map(|pod| (pod, true))) {
            let shape = snapshot.world.pods[pod.0 as usize].shape;
            for at in 0..self.counting.get(&shape).map_or(0, Vec::len) {
                let group = self.counting[&shape][at] as usize;
                let of = &self.groups[group];
                let left_out = terminating && matches!(of.spec.rule, ConstraintKind::Spread { .. });
                if !left_out && !of.passed_over.contains(&(node as u32)) {
                    self.uncount(group, node);
                }
            }
            for at in 0..self.owned_by.get(&shape).map_or(0, Vec::len) {
                let group = self.owned_by[&shape][at] as usize;
                let Some((key, domain)) = self.uncount(group, node) else {
                    continue;
                };
                if self.groups[group].count[domain as usize] == 0 {
                    self.repelled_in[key][domain as usize].remove(group);
                    self.log.push(Undo::Repels {
                        key: key as u32,
                        domain,
                        group: group as u32,
                    });
                }
            }
        }
    }

    /// One pod of a group on an existing node is gone. Hosts are left as they are: nothing comes to
    /// this one any more. Returns the topology key and the domain in which it counted.
    fn uncount(&mut self, number: usize, node: usize) -> Option<(usize, u32)> {
        if self.is_nowhere(&self.groups[number], node) {
            return None;
        }
        let group = &mut self.groups[number];
        let counted = match group.key {
            None => None,
            Some(key) => {
                let domain =
                    Some(self.keys[key].of_node[node]).filter(|&domain| domain != u32::MAX)?;
                group.count[domain as usize] -= 1;
                Some((key, domain))
            }
        };
        group.total -= 1;
        self.log.push(Undo::Uncounted {
            group: number as u32,
            domain: counted.map_or(u32::MAX, |(_, domain)| domain),
        });
        counted
    }

    /// Everything that changes from now on can be taken back, however much that is.
    pub fn keep_all_changes(&mut self) {
        self.log.keep_all();
    }

    /// Takes back everything that has changed since it was counted. Says whether that is possible.
    #[must_use]
    pub fn rewind(&mut self) -> bool {
        if self.log.is_lost() {
            return false;
        }
        while let Some(change) = self.log.pop() {
            self.take_back(change);
        }
        true
    }

    fn take_back(&mut self, change: Undo) {
        match change {
            Undo::Host {
                group,
                host,
                pods,
                first,
            } => {
                let group = &mut self.groups[group as usize];
                group.hosts.take(
                    host as usize,
                    u16::try_from(pods).unwrap_or(u16::MAX),
                    first,
                );
                group.total -= u64::from(pods);
            }
            Undo::RepelledOn { host } => _ = self.repelled_on[host as usize].pop(),
            Undo::Domain {
                group,
                domain,
                pods,
            } => self.groups[group as usize].count[domain as usize] -= pods,
            Undo::RepelledIn { key, domain, group } => {
                self.repelled_in[key as usize][domain as usize].remove(group as usize);
            }
            Undo::Total { group, pods } => self.groups[group as usize].total -= u64::from(pods),
            Undo::NodeIn { group, domain } => {
                let group = &mut self.groups[group as usize];
                if group.key.is_none() {
                    group.hosts.put_back_node(domain as usize);
                    return;
                }
                group.nodes_in[domain as usize].0 += 1;
                group.eligible_domains[domain as usize] = true;
            }
            Undo::Uncounted { group, domain } => {
                let group = &mut self.groups[group as usize];
                group.total += 1;
                if domain != u32::MAX {
                    group.count[domain as usize] += 1;
                }
            }
            Undo::Repels { key, domain, group } => {
                self.repelled_in[key as usize][domain as usize].insert(group as usize);
            }
        }
    }
}

/// The domains of one topology key in which a pod counts that is placed somewhere.
struct Landing {
    /// The domains; several while it is not settled.
    domains: SmallVec<[u32; 8]>,
    /// It is settled now.
    settled: bool,
}

impl Landing {
    fn new(domains: &Domains, at: PlacedAt, states: &NodeSpecs<'_>) -> Self {
        match at {
            PlacedAt::Node(node) => {
                let domain = Some(domains.of_node[node]).filter(|&domain| domain != u32::MAX);
                Landing {
                    domains: domain.into_iter().collect(),
                    settled: true,
                }
            }
            PlacedAt::Claim(_, state) if states.lacks(state, domains.key) => Landing {
                domains: SmallVec::new(),
                settled: true,
            },
            PlacedAt::Claim(_, state) => {
                let set = states.get(state).sets.get(domains.key);
                let admitted = |&(_, value): &(u32, &Symbol)| {
                    set.is_none_or(|s| s.admits(*value, &states.numbers))
                };
                let all = (0..)
                    .zip(&domains.values)
                    .filter(admitted)
                    .map(|(domain, _)| domain);
                Landing {
                    domains: all.collect(),
                    settled: set.and_then(Set::single).is_some(),
                }
            }
        }
    }
}

impl Group {
    /// Domains in which one more pod is allowed, among those that `strict` (what the pod requires
    /// of the key) admits. Where the pod balances for others, a domain that does not count for them
    /// is no worse than one with room.
    pub fn allowed(
        &self,
        domains: &Domains,
        Asking { own, owner, first }: Asking,
        strict: Option<&Set>,
        states: &NodeSpecs<'_>,
    ) -> Vec<bool> {
        let admitted =
            |d: usize| strict.is_none_or(|s| s.admits(domains.values[d], &states.numbers));
        let every = 0..domains.values.len();
        match self.spec.rule {
            ConstraintKind::Spread {
                max_skew,
                min_domains,
            } => {
                let eligible = || every.clone().filter(|&d| self.eligible_domains[d]);
                let least = eligible().map(|d| self.count[d]).min().unwrap_or(0);
                let least = if (eligible().count() as i64) < i64::from(min_domains) {
                    0
                } else {
                    least
                };
                let fine = |d: usize| {
                    i64::from(self.count[d]) + i64::from(own) - i64::from(least)
                        <= i64::from(max_skew)
                };
                let counts = |d: usize| self.eligible_domains[d];
                every
                    .map(|d| admitted(d) && if counts(d) { fine(d) } else { !owner })
                    .collect()
            }
            ConstraintKind::Affinity if first => every.map(admitted).collect(),
            ConstraintKind::Affinity => every.map(|d| admitted(d) && self.count[d] > 0).collect(),
            ConstraintKind::AntiAffinity | ConstraintKind::InverseAntiAffinity => {
                every.map(|d| admitted(d) && self.count[d] == 0).collect()
            }
        }
    }

    /// How many pod groups that follow its pods cannot be in a domain.
    pub fn unsuited(&self, domain: usize) -> u32 {
        self.unsuited.get(domain).copied().unwrap_or(0)
    }

    /// A pod group must be with pods of this one and can be in these domains.
    pub fn follow(&mut self, suits: &[bool]) {
        self.unsuited.resize(suits.len(), 0);
        let counts = self.unsuited.iter_mut().zip(suits);
        counts.for_each(|(count, suits)| *count += u32::from(!suits));
        let is_known = self.followers.iter().any(|known| known == suits);
        if !is_known && self.followers.len() < MAX_FOLLOWERS {
            self.followers.push(suits.to_vec());
        }
    }

    /// Where the next pod should go if followers cannot be where pods are: to the domains in which
    /// most of these followers can be. `None` if all followers can be where pods are.
    pub fn lead(&self, may_be: impl Fn(usize) -> bool) -> Option<Vec<bool>> {
        if self.followers.is_empty() {
            return None;
        }
        let is_served = |suits: &&Vec<bool>| {
            let mut counts = self.count.iter().zip(suits.iter());
            counts.any(|(pods, suits)| *pods > 0 && *suits)
        };
        let waiting = self.followers.iter().filter(|suits| !is_served(suits));
        let mut served = vec![0_u32; self.count.len()];
        for suits in waiting {
            let domains = served.iter_mut().zip(suits).enumerate();
            domains.for_each(|(at, (served, suits))| *served += u32::from(*suits && may_be(at)));
        }
        let most = served.iter().copied().max().filter(|most| *most > 0)?;
        Some(served.into_iter().map(|of| of == most).collect())
    }

    /// Keeps of the allowed domains those in which all followers can be, if there are any.
    pub fn keep_suited(&self, allowed: &mut [bool]) {
        let suits = |(domain, open): (usize, &bool)| *open && self.unsuited(domain) == 0;
        if allowed.iter().enumerate().any(suits) {
            let all = allowed.iter_mut().enumerate();
            all.for_each(|(domain, open)| *open &= self.unsuited(domain) == 0);
        }
    }

    fn count_on_node(&mut self, keys: &[Domains], node: usize, pods: u32) {
        match self.key {
            None => {
                _ = self
                    .hosts
                    .add(node, u16::try_from(pods).unwrap_or(u16::MAX))
            }
            Some(k) => match self.count.get_mut(keys[k].of_node[node] as usize) {
                Some(count) => *count += pods,
                None => return,
            },
        }
        self.total += u64::from(pods);
    }

    /// Whether pods placed there count: the node passes the constraint's filter, or the claim's
    /// labels and taints do.
    fn counts(&self, at: PlacedAt, states: &NodeSpecs<'_>, taints: &[Taint]) -> bool {
        let state = match at {
            PlacedAt::Node(node) => return !self.passed_over.contains(&(node as u32)),
            PlacedAt::Claim(_, state) => state,
        };
        let sets = &states.get(state).sets;
        let passes = |f: &Sets| {
            sets.conflict(f, |key| states.may_be_undefined(key), &states.numbers)
                .is_none()
        };
        let tolerated = |t: &Vec<Toleration>| untolerated(t, taints, false).is_none();
        self.spec.tolerations.as_ref().is_none_or(tolerated)
            && (self.filter.is_empty() || self.filter.iter().any(passes))
    }

    /// How many pods are on a host; at most one where the rule asks only whether there are any.
    pub fn on_host(&self, host: usize) -> u16 {
        self.hosts.on(host)
    }

    /// Whether one more pod is allowed on a host that has a name. A host that has no number yet is
    /// a new one. `own` says whether the pod itself counts; `first`, whether it may be the first.
    fn allows_host(&self, host: usize, own: bool, first: bool) -> bool {
        let count = self.hosts.on(host);
        match self.spec.rule {
            ConstraintKind::Spread {
                max_skew,
                min_domains,
            } => {
                let least = self.hosts.least(host, min_domains);
                i32::from(count) + i32::from(own) - i32::from(least) <= max_skew
            }
            ConstraintKind::Affinity => count > 0 || first,
            ConstraintKind::AntiAffinity | ConstraintKind::InverseAntiAffinity => count == 0,
        }
    }
}

fn filter_sets(spec: &GroupKey, states: &NodeSpecs<'_>) -> Vec<Sets> {
    spec.asked().map_or_else(Vec::new, |(selector, terms)| {
        alternatives(&selector, &terms, states)
    })
}

/// Whether a node with these labels and taints passes the filter of a group.
fn counts_node(group: &Group, snapshot: &Snapshot, labels: &Labels, taints: &[Taint]) -> bool {
    let names = &snapshot.world.names;
    let tolerated = |t: &Vec<Toleration>| untolerated(t, taints, false).is_none();
    let labels_fit = |(selector, terms): &(Vec<Requirement>, Vec<Vec<Requirement>>)| {
        let all = |rs: &[Requirement]| {
            rs.iter()
                .all(|r| crate::matching::satisfies(labels, r, names))
        };
        all(selector) && (terms.is_empty() || terms.iter().any(|t| !t.is_empty() && all(t)))
    };
    group.spec.keys.iter().all(|&key| labels.get(key).is_some())
        && group.spec.tolerations.as_ref().is_none_or(tolerated)
        && group.spec.node_affinity.as_ref().is_none_or(labels_fit)
}

/// What a new node may be: its effective cost, USD per hour, the position of its NodePool, its type.
pub type ToBuy = (f64, usize, TypeId);

/// What can be bought in a domain.
fn to_buy_in(
    states: &mut NodeSpecs<'_>,
    pools: &[NodeSpecId],
    key: Symbol,
    value: Symbol,
) -> Vec<ToBuy> {
    let mut all = Vec::new();
    for &pool in pools {
        let Some(state) = states.pin(pool, key, value) else {
            continue;
        };
        let at = states.get(state).pool;
        for t in states.get(state).types.iter() {
            let id = TypeId(t as u32);
            if let Some(offering) = states.cheapest(state, id) {
                all.push((states.scores[at].cost[offering.0 as usize], at, id));
            }
        }
    }
    all
}

/// The least effective cost of a unit of capacity: USD per hour for a core with 4 GiB.
fn cheapest_unit(catalogue: &Catalogue, all: &[ToBuy]) -> f64 {
    let of_unit = |&(cost, _, id): &ToBuy| {
        let room = &catalogue.instance_type(id).allocatable;
        let cores = room.get(ResourceId::Cpu) as f64 / 1e3;
        let blocks = room.get(ResourceId::Memory) as f64 / (4.0 * f64::from(1 << 30));
        cost / (0.5 * cores + 0.5 * blocks).max(1e-9)
    };
    all.iter().map(of_unit).fold(f64::INFINITY, f64::min)
}

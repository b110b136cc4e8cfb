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

mod constraint_kind;
mod host_counts;
mod record;
mod terms;

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::domains::{Buyer, Counted, Purchases, alternatives, exists};
use super::members::Members;
use super::node_specs::{NodeSpecId, NodeSpecs};
use super::pod_groups::{GroupUse, Uses};
use super::sets::{Set, Sets};
use super::undo::Log;
use crate::matching::untolerated;
use crate::model::{
    Catalogue, ClusterObjects, LabelSelector, Labels, NodeInclusion, PodShape, Requirement,
    ResourceId, ShapeId, Spread, Symbol, Taint, Toleration, TypeId,
};
use crate::snapshot::Snapshot;

pub use self::constraint_kind::ConstraintKind;
use self::host_counts::{ComparedNodes, HostCounts};

/// What a rule has to know of the pod that asks it.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// The pod matches the group itself, so that placing it changes the count.
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

    /// Whether an existing node is no host of a rule about hosts.
    fn is_nowhere(&self, group: &Group, node: usize) -> bool {
        group.key.is_none() && self.nameless.has(node)
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

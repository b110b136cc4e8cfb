//! Node affinity, node selectors and taints, evaluated once per kind of node and kind of pod.
//!
//! Nodes with equal taints and equal values of every label that a pod refers to are of one
//! [`NodeKind`]. Pods with equal requirements on labels and taints share a [`PodConstraints`]. So
//! thousands of nodes and pods need a small table only.

use indexmap::{IndexMap, IndexSet};
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::scenario::VirtualNode;
use crate::matching::{satisfies, tolerates, untolerated};
use crate::model::{
    ClusterObjects, Labels, Op, PodShape, Requirement, Symbol, Symbols, Taint, TaintEffect,
    Toleration, fields,
};

/// Nodes that look the same to every filter that reads labels and taints.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NodeKind {
    taints: Vec<Taint>,
    /// So many of the last ones no Node has: filters of topology spread do not see them.
    unwritten: usize,
    /// They have a hostname, each its own.
    named: bool,
    /// Labels that some pod refers to; others are left out.
    labels: Labels,
}

/// What a pod asks of labels and taints.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PodConstraints {
    node_selector: Vec<Requirement>,
    required: Vec<Vec<Requirement>>,
    volumes: Vec<Vec<Requirement>>,
    preferred: Vec<(i32, Vec<Requirement>)>,
    tolerations: Vec<Toleration>,
}

/// Which nodes a spread constraint counts.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Filter {
    /// Node selector and required node affinity, where the constraint honours them.
    pub affinity: Option<(Vec<Requirement>, Vec<Vec<Requirement>>)>,
    /// The pod's tolerations, where the constraint honours taints.
    pub tolerations: Option<Vec<Toleration>>,
    /// Labels that must be there.
    pub keys: Vec<Symbol>,
}

/// What a profile makes of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeMatch {
    /// Taints, node affinity and volumes allow it.
    pub fits: bool,
    /// Sum of the weights of preferred node affinity terms that hold.
    pub preferred: i32,
    /// `PreferNoSchedule` taints that are not tolerated.
    pub prefer_no_schedule_taints: i32,
}

/// The kinds of a set of nodes with what every profile and filter makes of each.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    all: IndexSet<NodeKind, FxBuildHasher>,
    /// By kind, then profile.
    verdicts: Vec<NodeMatch>,
    /// By kind, then filter.
    counted: Vec<bool>,
}

/// Every demand on labels and taints, each once.
#[derive(Debug, Default)]
pub struct Rules {
    /// Profiles, by number.
    pub profiles: IndexSet<PodConstraints, FxBuildHasher>,
    /// Filters, by number; the first counts every node.
    pub filters: IndexSet<Filter, FxBuildHasher>,
    /// Alternatives that volumes leave, by number: where one holds, it can be used.
    volumes: IndexSet<Vec<Vec<Requirement>>, FxBuildHasher>,
    /// Labels that profiles and filters read, sorted.
    pub keys: Vec<Symbol>,
    hostname: Option<Symbol>,
}

impl Rules {
    /// No profile yet, and the filter that counts every node.
    pub fn new(names: &Symbols) -> Self {
        let filters = IndexSet::from_iter([Filter::default()]);
        Rules {
            filters,
            hostname: names.get("kubernetes.io/hostname"),
            ..Rules::default()
        }
    }

    /// The number of what a pod asks.
    pub fn profile(&mut self, shape: &PodShape, volumes: &[Vec<Requirement>]) -> u32 {
        let profile = PodConstraints {
            node_selector: shape.node_selector.clone(),
            required: shape.required.clone(),
            volumes: volumes.to_vec(),
            preferred: shape.preferred.clone(),
            tolerations: shape.tolerations.clone(),
        };
        self.profiles.insert_full(profile).0 as u32
    }

    /// The number of the alternatives that a volume leaves.
    pub fn volume(&mut self, terms: &[Vec<Requirement>]) -> u32 {
        self.volumes.insert_full(terms.to_vec()).0 as u32
    }

    /// Whether a volume can be used on nodes of a kind.
    pub fn reaches(&self, kinds: &Kinds, kind: u32, volume: u32, names: &Symbols) -> bool {
        let (terms, kind) = (&self.volumes[volume as usize], &kinds.all[kind as usize]);
        terms.is_empty() || terms.iter().any(|t| all_hold(&kind.labels, t, names))
    }

    /// Collects the labels that are read, once all profiles and filters are known. Every node has a
    /// hostname of its own, so it makes kinds of one node each. It is kept only if a pod refers to
    /// it.
    pub fn settle(&mut self) {
        let mut keys: FxHashSet<Symbol> = FxHashSet::default();
        for p in &self.profiles {
            let preferred = p.preferred.iter().flat_map(|(_, term)| term);
            let required = p.required.iter().chain(&p.volumes).flatten();
            keys.extend(
                p.node_selector
                    .iter()
                    .chain(required)
                    .chain(preferred)
                    .map(|r| r.key),
            );
        }
        keys.extend(self.volumes.iter().flatten().flatten().map(|r| r.key));
        keys.extend(
            self.filters
                .iter()
                .flat_map(|f| &f.keys)
                .filter(|&&k| Some(k) != self.hostname),
        );
        self.keys = keys.into_iter().collect();
        self.keys.sort_unstable();
    }

    /// The number of a kind, judging it if it is new. The last `unwritten` taints are not written
    /// on the Node.
    pub fn kind(
        &self,
        kinds: &mut Kinds,
        names: &Symbols,
        taints: &[Taint],
        (unwritten, named): (usize, bool),
        labels: Vec<(Symbol, Symbol)>,
    ) -> u32 {
        let (at, new) = kinds.all.insert_full(NodeKind {
            taints: taints.to_vec(),
            unwritten,
            named,
            labels: Labels::new(labels),
        });
        if new {
            let kind = &kinds.all[at];
            kinds
                .verdicts
                .extend(self.profiles.iter().map(|p| p.judge(kind, names)));
            kinds.counted.extend(
                self.filters
                    .iter()
                    .map(|f| f.counts(kind, names, self.hostname)),
            );
        }
        at as u32
    }

    /// What a profile makes of a kind.
    pub fn verdict(&self, kinds: &Kinds, kind: u32, profile: u32) -> NodeMatch {
        kinds.verdicts[kind as usize * self.profiles.len() + profile as usize]
    }

    /// Whether a filter counts nodes of a kind.
    pub fn counts(&self, kinds: &Kinds, kind: u32, filter: u32) -> bool {
        kinds.counted[kind as usize * self.filters.len() + filter as usize]
    }
}

/// `matching::satisfies`, but symbols past the table (made-up hostnames) are no integers.
fn holds(labels: &Labels, requirement: &Requirement, names: &Symbols) -> bool {
    let made_up = || {
        labels
            .get(requirement.key)
            .is_some_and(|v| v.0 as usize >= names.len())
    };
    match requirement.op {
        Op::Gte(_) | Op::Lte(_) if made_up() => false,
        _ => satisfies(labels, requirement, names),
    }
}

fn all_hold(labels: &Labels, requirements: &[Requirement], names: &Symbols) -> bool {
    requirements.iter().all(|r| holds(labels, r, names))
}

/// Node selector and one term of required affinity; an empty term selects nothing.
fn admits(
    labels: &Labels,
    selector: &[Requirement],
    required: &[Vec<Requirement>],
    names: &Symbols,
) -> bool {
    all_hold(labels, selector, names)
        && (required.is_empty()
            || required
                .iter()
                .any(|t| !t.is_empty() && all_hold(labels, t, names)))
}

impl PodConstraints {
    fn judge(&self, kind: &NodeKind, names: &Symbols) -> NodeMatch {
        let labels = &kind.labels;
        let fits = untolerated(&self.tolerations, &kind.taints, false).is_none()
            && admits(labels, &self.node_selector, &self.required, names)
            && (self.volumes.is_empty() || self.volumes.iter().any(|v| all_hold(labels, v, names)));
        let held = self
            .preferred
            .iter()
            .filter(|(_, term)| !term.is_empty() && all_hold(labels, term, names));
        let unwelcome = kind.taints.iter().filter(|t| {
            t.effect == TaintEffect::PreferNoSchedule && !tolerates(&self.tolerations, t)
        });
        let preferred = held.fold(0, |sum: i32, (weight, _)| sum.saturating_add(*weight));
        NodeMatch {
            fits,
            preferred,
            prefer_no_schedule_taints: unwelcome.count() as i32,
        }
    }
}

impl Filter {
    fn counts(&self, kind: &NodeKind, names: &Symbols, hostname: Option<Symbol>) -> bool {
        let has = |&key: &Symbol| match Some(key) == hostname {
            true => kind.named,
            false => kind.labels.get(key).is_some(),
        };
        self.keys.iter().all(has)
            && self
                .affinity
                .as_ref()
                .is_none_or(|(s, r)| admits(&kind.labels, s, r, names))
            && self
                .tolerations
                .as_ref()
                .is_none_or(|t| untolerated(t, kind.written_taints(), false).is_none())
    }
}

impl NodeKind {
    fn written_taints(&self) -> &[Taint] {
        &self.taints[..self.taints.len().saturating_sub(self.unwritten)]
    }
}

/// The values of single-valued labels that nodes of a plan will have.
pub struct VirtualLabels<'a> {
    world: &'a ClusterObjects,
    pool_key: Option<Symbol>,
    type_key: Option<Symbol>,
    flags: IndexMap<Symbol, Symbol, FxBuildHasher>,
}

impl<'a> VirtualLabels<'a> {
    /// Labels of nodes bought for a snapshot.
    pub fn of(world: &'a ClusterObjects) -> Self {
        let get = |text: &str| world.names.get(text);
        let flags = ["karpenter.sh/registered", "karpenter.sh/initialized"];
        let flags = flags
            .iter()
            .filter_map(|key| Some((get(key)?, get("true")?)));
        let features = fields::FEATURES.iter().filter_map(|key| get(key));
        VirtualLabels {
            world,
            pool_key: get("karpenter.sh/nodepool"),
            type_key: get("node.kubernetes.io/instance-type"),
            flags: flags.chain(features.map(|key| (key, key))).collect(),
        }
    }

    /// The value of a label other than the hostname: the offering settles it, else the type, the
    /// claim, the NodePool.
    pub fn get(&self, node: &VirtualNode<'_>, key: Symbol) -> Option<Symbol> {
        let offering = self.world.catalogue.offering(node.offering);
        let instance_type = self.world.catalogue.instance_type(offering.instance_type);
        let pool = &self.world.pools[node.pool.0 as usize];
        let pinned = |requirements: &[Requirement]| {
            requirements
                .iter()
                .filter(|r| r.key == key)
                .find_map(|r| match &r.op {
                    Op::In(values) if values.len() == 1 => Some(values[0]),
                    _ => None,
                })
        };
        let claimed = || {
            let found = node
                .requirements
                .iter()
                .find(|(k, values)| *k == key && values.len() == 1);
            found.map(|(_, values)| values[0])
        };
        if Some(key) == self.type_key {
            return Some(instance_type.name);
        }
        if Some(key) == self.pool_key {
            return Some(pool.name);
        }
        pinned(&offering.requirements)
            .or_else(|| pinned(&instance_type.requirements))
            .or_else(claimed)
            .or_else(|| pool.labels.get(key))
            .or_else(|| self.flags.get(&key).copied())
    }
}

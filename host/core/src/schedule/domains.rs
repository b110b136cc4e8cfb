//! The domains that a spread constraint counts: those with a node that passes its filter, and those
//! where a NodePool could buy such a node.
//!
//! kube-scheduler knows existing nodes only. Here a domain without a node counts as well if a
//! NodePool could buy one that meets the pod's own requirements. Otherwise such a domain would hold
//! the minimum at 0 for ever. Unavailable offerings count, because a shortage ends and spreading
//! should not end with it.

use rustc_hash::{FxHashMap, FxHashSet};

use super::bit_set::BitSet;
use super::node_specs::{NodeSpecId, NodeSpecs};
use super::pool_limits::limits;
use super::sets::Sets;
use super::topology::GroupKey;
use crate::matching::untolerated;
use crate::model::{Op, PodShape, Requirement, Resources, Symbol, Toleration};
use crate::snapshot::Snapshot;

/// Requirements of pods on a node bought for them, regardless of the policies of their constraints.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Buyer {
    selector: Vec<Requirement>,
    required: Vec<Vec<Requirement>>,
    tolerations: Vec<Toleration>,
    /// What the largest type must have at least.
    requests: Resources,
}

impl Buyer {
    /// The demands of pods of a shape that must be spread over `keys` too.
    pub fn of(shape: &PodShape, keys: &[Symbol]) -> Self {
        Buyer {
            selector: shape
                .node_selector
                .iter()
                .cloned()
                .chain(keys.iter().map(|&key| exists(key)))
                .collect(),
            required: shape.required.clone(),
            tolerations: shape.tolerations.clone(),
            requests: shape.requests.clone(),
        }
    }
}

/// Domains that count although nothing could be bought there for a group's own pods: the plan buys
/// a node there for others, which passes the group's filter. Found by
/// [`bought_by_others`](super::bought_domains::bought_by_others), and
/// planned with from the start the next time.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    pub(super) domains: FxHashSet<(GroupKey, Symbol)>,
    /// Count every domain where some NodePool could buy a node that passes the filter.
    pub(super) everybody: bool,
}

impl Counted {
    /// Whether nothing counts that would not anyway.
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty() && !self.everybody
    }

    /// Adds the domains of `more`. With `everybody`, adds all domains that could ever count, so
    /// that nothing is left to add.
    pub fn add(&mut self, more: Counted, everybody: bool) {
        self.domains.extend(more.domains);
        self.everybody |= everybody;
    }

    /// Whether a domain counts for a group.
    pub fn has(&self, spec: &GroupKey, domain: Symbol) -> bool {
        self.domains.contains(&(spec.clone(), domain))
    }

    /// Who could buy a node that passes the filter of a group, if all such count.
    pub fn buyer(&self, spec: &GroupKey) -> Option<Buyer> {
        let (selector, required) = spec.asked().unwrap_or_default();
        let all = Toleration {
            key: None,
            exists: true,
            value: Symbol(0),
            effect: None,
        };
        let tolerations = spec.tolerations.clone().unwrap_or_else(|| vec![all]);
        self.everybody.then_some(Buyer {
            selector,
            required,
            tolerations,
            requests: Resources::default(),
        })
    }
}

/// What NodePools could buy, cached by buyer.
#[derive(Clone, Debug)]
pub struct Purchases {
    /// By position of NodePool: types that its limits admit before anything is planned, `None`
    /// without limits.
    within_limits: Vec<Option<BitSet>>,
    known: FxHashMap<(Buyer, Symbol), Vec<bool>>,
}

impl Purchases {
    /// No request yet.
    pub fn new(snapshot: &Snapshot) -> Self {
        let of_pool = |pool: &crate::ids::PoolIx| {
            let record = &snapshot.world.pools[pool.0 as usize];
            let types = snapshot.world.catalogue.types();
            let (limits, nodes_left) = limits(snapshot, record);
            if limits.is_empty() && nodes_left.is_none() {
                return None;
            }
            let mut within = BitSet::all(types.len());
            let none_left = nodes_left.is_some_and(|n| n <= 0);
            for (at, t) in types.iter().enumerate() {
                if none_left
                    || limits
                        .iter()
                        .any(|&(resource, left)| t.capacity.get(resource) > left)
                {
                    within.remove(at);
                }
            }
            Some(within)
        };
        Purchases {
            within_limits: snapshot.pools.iter().map(of_pool).collect(),
            known: FxHashMap::default(),
        }
    }

    /// For each value of a label, whether some NodePool could buy a node of that value for such
    /// pods.
    pub fn of(
        &mut self,
        buyer: &Buyer,
        (key, values): (Symbol, &[Symbol]),
        snapshot: &Snapshot,
        states: &mut NodeSpecs<'_>,
        pools: &[NodeSpecId],
    ) -> Vec<bool> {
        if let Some(known) = self.known.get(&(buyer.clone(), key)) {
            return known.clone();
        }
        let mut found = vec![false; values.len()];
        let terms = alternatives(&buyer.selector, &buyer.required, states);
        for (at, &pool) in pools.iter().enumerate() {
            let taints = &snapshot.world.pools[snapshot.pools[at].0 as usize].taints;
            if untolerated(&buyer.tolerations, taints, false).is_some() {
                continue;
            }
            let mut within = large_enough(&buyer.requests, snapshot);
            if let Some(limited) = &self.within_limits[at] {
                within.and(limited);
            }
            for (found, &value) in found.iter_mut().zip(values) {
                *found = *found
                    || terms
                        .iter()
                        .any(|term| states.could_be_had(pool, term, (key, value), &within));
            }
        }
        self.known.insert((buyer.clone(), key), found.clone());
        found
    }
}

/// Instance types with enough resources, ignoring daemons.
fn large_enough(requests: &Resources, snapshot: &Snapshot) -> BitSet {
    let types = snapshot.world.catalogue.types();
    let mut large = BitSet::all(types.len());
    for (at, t) in types.iter().enumerate() {
        if requests
            .iter()
            .any(|(resource, wants)| wants > t.allocatable.get(resource))
        {
            large.remove(at);
        }
    }
    large
}

/// That a node has a label.
pub fn exists(key: Symbol) -> Requirement {
    Requirement {
        key,
        op: Op::Exists,
        min_values: None,
    }
}

/// A node selector with each of the terms of required node affinity.
pub fn alternatives(
    selector: &[Requirement],
    terms: &[Vec<Requirement>],
    states: &NodeSpecs<'_>,
) -> Vec<Sets> {
    let base = Sets::new(selector, &states.numbers);
    if terms.is_empty() {
        return vec![base];
    }
    let with = |term: &Vec<Requirement>| {
        let mut sets = base.clone();
        sets.add_all(&Sets::new(term, &states.numbers), &states.numbers);
        sets
    };
    terms.iter().map(with).collect()
}

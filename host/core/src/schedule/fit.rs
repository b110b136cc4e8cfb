//! Which instance types are large enough, after their daemons are subtracted.

use std::sync::Arc;

use smallvec::SmallVec;

use super::bit_set::BitSet;
use super::node_specs::{NodeSpec, NodeSpecs};
use super::sets::{Set, Sets};
use crate::matching::untolerated;
use crate::model::{
    ClusterObjects, HostPort, NodePool, Op, PodShape, ResourceId, Resources, Symbol, TypeId,
};
use crate::snapshot::{PendingPod, Snapshot};

/// Amounts in the order of [`ResourceDims`].
pub type ResourceVector = SmallVec<[i64; 6]>;

/// The resources that the pods to be planned request.
#[derive(Clone, Debug)]
pub struct ResourceDims(pub Vec<ResourceId>);

impl ResourceDims {
    /// CPU, memory and pods, and what else these pods and daemons ask for.
    pub fn of(snapshot: &Snapshot, pods: &[PendingPod]) -> Self {
        let mut all = vec![ResourceId::Cpu, ResourceId::Memory, ResourceId::Pods];
        let mut add = |requests: &Resources| {
            for (resource, _) in requests.iter() {
                if !all.contains(&resource) {
                    all.push(resource);
                }
            }
        };
        let mut last: Option<&Arc<PodShape>> = None;
        for pod in pods {
            if !last.is_some_and(|l| Arc::ptr_eq(l, &pod.shape)) {
                add(&pod.shape.requests);
                last = Some(&pod.shape);
            }
        }
        snapshot.daemons.iter().for_each(|d| add(&d.requests));
        let names = &snapshot.world.names;
        all[3..].sort_by_key(|r| r.name(names));
        ResourceDims(all)
    }

    /// Amounts by dimension; 0 where a resource is not named.
    pub fn amounts(&self, resources: &Resources) -> ResourceVector {
        self.0.iter().map(|&r| resources.get(r)).collect()
    }
}

/// Instance types of one NodePool by what they leave to pods.
///
/// Of a catalogue with rows for many NodeClasses a NodePool meets few: only those are kept.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The types whose labels agree with the NodePool, ascending.
    types: Vec<u32>,
    /// How many types the catalogue has.
    all: usize,
    /// Length of a [`ResourceVector`].
    width: usize,
    /// What each of them leaves to pods after the daemons that would run on it.
    net: Vec<ResourceVector>,
    /// Which daemon group each of them belongs to.
    group: Vec<u32>,
    /// What the daemons of each group ask for together.
    group_overhead: Vec<Resources>,
    /// Of types that the NodePool never meets.
    nothing: Resources,
    /// Host ports of each daemon group.
    group_ports: Vec<Vec<HostPort>>,
    /// Types that hold all their daemons. On the others some daemon never starts, whatever else
    /// runs there.
    holds_daemons: BitSet,
    /// None where the NodePool meets few of the types: those are looked at one by one.
    dims: Vec<Dim>,
}

/// A NodePool that meets less than one of so many types has no bit sets by amount.
const SMALL_SHARE: usize = 4;

/// One resource: its distinct net amounts, ascending, and the types that leave at least each.
#[derive(Clone, Debug)]
struct Dim {
    values: Vec<i64>,
    at_least: Vec<BitSet>,
}

impl Fit {
    /// Takes the daemons of a NodePool off every type of `agreeing`.
    pub fn new(
        snapshot: &Snapshot,
        states: &NodeSpecs<'_>,
        initial: &NodeSpec,
        pool: &NodePool,
        dims: &ResourceDims,
        agreeing: &BitSet,
    ) -> Self {
        let world = &*snapshot.world;
        let tolerating: Vec<&Arc<PodShape>> = snapshot
            .daemons
            .iter()
            .filter(|d| untolerated(&d.tolerations, &pool.taints, false).is_none())
            .collect();
        let may_run = |daemon: &PodShape, sets: &Sets| {
            let undefined_ok = |key| states.may_be_undefined(key);
            let fine = |asked: Sets| {
                sets.conflict(&asked, undefined_ok, &states.numbers)
                    .is_none()
            };
            let base = Sets::new(&daemon.node_selector, &states.numbers);
            fine(base.clone())
                && (daemon.required.is_empty()
                    || daemon.required.iter().any(|term| {
                        let mut asked = base.clone();
                        term.iter()
                            .for_each(|r| asked.add(r.key, &Set::from_op(&r.op), &states.numbers));
                        !term.is_empty() && fine(asked)
                    }))
        };
        // Daemons without a label requirement run on every type; the others are evaluated type by
        // type.
        let picky: Vec<bool> = tolerating
            .iter()
            .map(|d| !d.node_selector.is_empty() || !d.required.is_empty())
            .collect();
        let mut groups: Vec<(Vec<bool>, Resources, Vec<HostPort>)> = Vec::new();
        let all = world.catalogue.types().len();
        let types: Vec<u32> = agreeing.iter().map(|t| t as u32).collect();
        let mut group = Vec::with_capacity(types.len());
        let mut net = Vec::with_capacity(types.len());
        for &id in &types {
            let t = &world.catalogue.types()[id as usize];
            let runs: Vec<bool> = match picky.contains(&true) {
                false => vec![true; tolerating.len()],
                true => {
                    let mut sets = initial.sets.clone();
                    t.requirements
                        .iter()
                        .for_each(|r| sets.add(r.key, &Set::from_op(&r.op), &states.numbers));
                    for (key, values) in offered(world, TypeId(id)) {
                        sets.add(key, &Set::of(values), &states.numbers);
                    }
                    tolerating
                        .iter()
                        .zip(&picky)
                        .map(|(d, &p)| !p || may_run(d, &sets))
                        .collect()
                }
            };
            let at = groups.iter().position(|g| g.0 == runs).unwrap_or_else(|| {
                let mut overhead = Resources::default();
                let mut ports = Vec::new();
                for (daemon, _) in tolerating.iter().zip(&runs).filter(|(_, runs)| **runs) {
                    overhead.add(&daemon.requests);
                    ports.extend(&daemon.ports);
                }
                groups.push((runs, overhead, ports));
                groups.len() - 1
            });
            group.push(at as u32);
            let mut left = t.allocatable.clone();
            left.sub(&groups[at].1);
            net.push(dims.amounts(&left));
        }
        let mut holds_daemons = BitSet::none(all);
        for (&t, left) in types.iter().zip(&net) {
            if left.iter().all(|&amount| amount >= 0) {
                holds_daemons.insert(t as usize);
            }
        }
        let width = dims.0.len();
        let few = types.len() * SMALL_SHARE < all;
        let dims = (0..dims.0.len()).filter(|_| !few);
        let dims = dims.map(|d| Dim::new(&types, &net, d, all)).collect();
        let (group_overhead, group_ports) = groups.into_iter().map(|g| (g.1, g.2)).unzip();
        Fit {
            types,
            all,
            net,
            group,
            group_overhead,
            nothing: Resources::default(),
            width,
            group_ports,
            holds_daemons,
            dims,
        }
    }

    fn place(&self, t: usize) -> Option<usize> {
        match self.types.len() == self.all {
            true => (t < self.all).then_some(t),
            false => self.types.binary_search(&(t as u32)).ok(),
        }
    }

    /// What a type leaves to pods after the daemons that would run on it; nothing of a type that the
    /// NodePool never meets.
    pub fn net(&self, t: usize) -> Option<&ResourceVector> {
        self.place(t).map(|at| &self.net[at])
    }

    /// Whether a type leaves at least `total`.
    fn leaves(&self, t: usize, total: &[i64]) -> bool {
        let enough = |(&amount, &left): (&i64, &i64)| amount <= 0 || left >= amount;
        self.net(t)
            .is_some_and(|net| total.iter().zip(net).all(enough))
    }

    /// Whether a type holds all daemons that would run on it.
    pub fn holds_daemons(&self, t: usize) -> bool {
        self.holds_daemons.has(t)
    }

    /// What the daemons that would run on a type ask for together.
    pub fn overhead(&self, t: TypeId) -> &Resources {
        match self.place(t.0 as usize) {
            Some(at) => &self.group_overhead[self.group[at] as usize],
            None => &self.nothing,
        }
    }

    /// Keeps of `types` those that hold their daemons and leave at least `total`.
    pub fn keep(&self, types: &mut BitSet, total: &[i64]) {
        types.and(&self.holds_daemons);
        if self.dims.is_empty() {
            let small: SmallVec<[usize; 16]> =
                types.iter().filter(|&t| !self.leaves(t, total)).collect();
            small.into_iter().for_each(|t| types.remove(t));
        }
        for (dim, &amount) in self.dims.iter().zip(total) {
            if amount <= 0 {
                continue;
            }
            let at = dim.values.partition_point(|&v| v < amount);
            match dim.at_least.get(at) {
                Some(enough) => types.and(enough),
                None => *types = BitSet::none(types.words().len() * 64),
            }
        }
    }

    /// Whether any of `a` and `b` holds its daemons and leaves at least `total`.
    pub fn any(&self, a: &BitSet, b: &BitSet, total: &[i64]) -> bool {
        if self.dims.is_empty() {
            let mut both = a.clone();
            both.and(b);
            both.and(&self.holds_daemons);
            return both.iter().any(|t| self.leaves(t, total));
        }
        let mut enough: SmallVec<[&[u64]; 6]> = SmallVec::new();
        enough.push(self.holds_daemons.words());
        for (dim, &amount) in self.dims.iter().zip(total) {
            if amount <= 0 {
                continue;
            }
            match dim
                .at_least
                .get(dim.values.partition_point(|&v| v < amount))
            {
                Some(bits) => enough.push(bits.words()),
                None => return false,
            }
        }
        a.words()
            .iter()
            .zip(b.words())
            .enumerate()
            .any(|(at, (&x, &y))| enough.iter().fold(x & y, |all, words| all & words[at]) != 0)
    }

    /// The most of each resource that any of `types` leaves.
    pub fn most(&self, types: &BitSet) -> ResourceVector {
        if self.dims.is_empty() {
            let mut most: Option<ResourceVector> = None;
            for net in types.iter().filter_map(|t| self.net(t)) {
                let most = most.get_or_insert_with(|| net.clone());
                most.iter_mut()
                    .zip(net)
                    .for_each(|(m, &n)| *m = (*m).max(n));
            }
            return most.unwrap_or_else(|| SmallVec::from_elem(0, self.width));
        }
        let shared = |bits: &BitSet| {
            bits.words()
                .iter()
                .zip(types.words())
                .any(|(a, b)| a & b != 0)
        };
        let of = |dim: &Dim| {
            let at = dim.at_least.iter().rposition(shared);
            at.map_or(0, |at| dim.values[at])
        };
        self.dims.iter().map(of).collect()
    }

    /// Types whose daemons bind a host port that one of `ports` needs.
    pub fn port_conflicts(&self, ports: &[HostPort]) -> Vec<TypeId> {
        let clash = |g: &u32| {
            self.group_ports[*g as usize]
                .iter()
                .any(|mine| ports.iter().any(|p| p.conflicts(mine)))
        };
        self.types
            .iter()
            .zip(&self.group)
            .filter(|(_, g)| clash(g))
            .map(|(&t, _)| TypeId(t))
            .collect()
    }
}

/// What the offerings of a type have of each label: a daemon that asks for one of these values may
/// run on it.
fn offered(world: &ClusterObjects, t: TypeId) -> Vec<(Symbol, Vec<Symbol>)> {
    let mut all: Vec<(Symbol, Vec<Symbol>)> = Vec::new();
    for r in world
        .catalogue
        .offerings_of(t)
        .iter()
        .flat_map(|o| o.requirements.iter())
    {
        let Op::In(values) = &r.op else { continue };
        match all.iter_mut().find(|(key, _)| *key == r.key) {
            Some((_, known)) => known.extend(values.iter()),
            None => all.push((r.key, values.to_vec())),
        }
    }
    all
}

impl Dim {
    fn new(types: &[u32], net: &[ResourceVector], d: usize, all: usize) -> Self {
        let mut order: Vec<usize> = (0..net.len()).collect();
        order.sort_by_key(|&at| net[at][d]);
        let mut values: Vec<i64> = order.iter().map(|&at| net[at][d]).collect();
        values.dedup();
        let mut at_least: Vec<BitSet> = Vec::with_capacity(values.len());
        let mut enough = BitSet::none(all);
        let mut rest = order.as_slice();
        for &value in values.iter().rev() {
            while let [head @ .., last] = rest {
                if net[*last][d] < value {
                    break;
                }
                enough.insert(types[*last] as usize);
                rest = head;
            }
            at_least.push(enough.clone());
        }
        at_least.reverse();
        Dim { values, at_least }
    }
}

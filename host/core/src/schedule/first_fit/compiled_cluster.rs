//! A snapshot compiled for planning: groups of pods, NodePools' templates, counts and limits.

use rustc_hash::FxHashMap;

use super::FeasibleHosts;
use crate::ids::PoolIx;
use crate::model::{Catalogue, NodePool, Op, ResourceId, Symbol};
use crate::policy::Policies;
use crate::schedule::bit_set::BitSet;
use crate::schedule::domains::Counted;
use crate::schedule::fit::{Fit, ResourceDims};
use crate::schedule::node_specs::{NodeSpecId, NodeSpecs, pool_sets};
use crate::schedule::pod_groups::PodGroup;
use crate::schedule::pool_limits::limits;
use crate::schedule::room::Room;
use crate::schedule::topology::Topology;
use crate::schedule::{leaders, pod_groups};
use crate::snapshot::{PendingPod, Snapshot};
use crate::stop::Stop;

/// A NodePool, compiled for opening claims.
pub struct Template {
    /// The NodePool.
    pub pool: PoolIx,
    /// What every claim of it starts as.
    pub initial: NodeSpecId,
    /// Its types by the room that they leave to pods.
    pub fit: Fit,
    /// `minValues` by label.
    pub min_values: Vec<(Symbol, u16)>,
    /// What its limits leave, by resource.
    pub limits: Vec<(ResourceId, i64)>,
    /// What its limit of nodes leaves.
    pub nodes_left: Option<i64>,
    /// Both before anything is placed.
    pub(super) limits_before: (Vec<(ResourceId, i64)>, Option<i64>),
    /// Some of its offerings draw on reservations.
    pub reserved: bool,
}

/// Everything that packing needs, compiled from a snapshot.
pub struct CompiledCluster<'a> {
    /// What it was compiled from.
    pub snapshot: &'a Snapshot,
    /// Requirements, narrowed.
    pub states: NodeSpecs<'a>,
    /// The resources that the pods to be planned request.
    pub dims: ResourceDims,
    /// NodePools, in order of preference.
    pub pools: Vec<Template>,
    /// Topology groups with their counts.
    pub topology: Topology,
    /// What is to be placed, in queue order.
    pub items: Vec<PodGroup>,
    /// Number of pods of each pod group to place.
    pub wanted: Vec<u32>,
    /// Groups that pods which are not theirs are kept balanced for as well, where that costs
    /// nothing.
    pub balanced: Vec<bool>,
    /// What existing nodes have left.
    pub room: Room,
    /// Room to look for hosts in, so that none is allocated for each pod.
    pub(super) scan: FeasibleHosts,
    /// Units of each reservation that are left to plan with.
    pub(super) reservations: FxHashMap<Symbol, i64>,
    /// Ends the search for a better plan; unfinished results are dropped.
    pub stop: Stop<'a>,
}

impl<'a> CompiledCluster<'a> {
    /// Compiles a snapshot to plan for its pending pods: scores the catalogue, interns
    /// requirements, groups pods. `counted` are domains that always count for spread constraints.
    pub fn new(snapshot: &'a Snapshot, policies: &dyn Policies, counted: &Counted) -> Self {
        CompiledCluster::of(snapshot, &snapshot.pending, policies, counted)
    }

    /// The same for any pods, in queue order.
    pub fn of(
        snapshot: &'a Snapshot,
        pods: &[PendingPod],
        policies: &dyn Policies,
        counted: &Counted,
    ) -> Self {
        let world = &*snapshot.world;
        policies.node_pools(&world.pools, &world.names);
        let score = |p: &PoolIx| {
            policies.score(
                &world.catalogue,
                &world.names,
                world.pools[p.0 as usize].name,
            )
        };
        let mut states = NodeSpecs::new(world, snapshot.pools.iter().map(score).collect());
        let dims = ResourceDims::of(snapshot, pods);
        let mut pools = Vec::new();
        for (at, &pool) in snapshot.pools.iter().enumerate() {
            let sets = pool_sets(world, pool, &states.numbers);
            let agreeing = states.types_that_agree(&sets);
            states.find_available(at, &agreeing);
            let initial = states.state(at, sets);
            let record = &world.pools[pool.0 as usize];
            let of_pool = states.get(initial);
            let fit = Fit::new(snapshot, &states, of_pool, record, &dims, &agreeing);
            let (limits, nodes_left) = limits(snapshot, record);
            let min_values = record
                .requirements
                .iter()
                .filter_map(|r| Some((r.key, r.min_values?)))
                .collect();
            let reserved = world.settings.reserved_capacity
                && states
                    .get(initial)
                    .cells
                    .iter()
                    .any(|c| states.cells[c].reservation.is_some());
            let limits_before = (limits.clone(), nodes_left);
            pools.push(Template {
                pool,
                initial,
                fit,
                min_values,
                limits,
                nodes_left,
                limits_before,
                reserved,
            });
        }
        let initial: Vec<NodeSpecId> = pools.iter().map(|p| p.initial).collect();
        let mut topology = Topology::new(snapshot, counted);
        let items =
            pod_groups::collect(snapshot, pods, &mut states, &mut topology, &dims, &initial);
        leaders::find_unsuited(snapshot, &items, &mut states, &mut topology, &initial);
        let room = Room::new(
            snapshot
                .nodes
                .iter()
                .map(|n| dims.amounts(&n.free))
                .collect(),
        );
        let reservations = reservations(&world.catalogue);
        let wanted = items.iter().map(|item| item.pods.len() as u32).collect();
        let balanced = vec![true; topology.groups.len()];
        let stop = Stop::never();
        let scan = FeasibleHosts::default();
        CompiledCluster {
            snapshot,
            states,
            dims,
            pools,
            topology,
            items,
            wanted,
            balanced,
            room,
            scan,
            reservations,
            stop,
        }
    }

    /// A node no longer counts against the limits of its NodePool, until
    /// [`reset`](CompiledCluster::reset).
    pub fn give_back_limits(&mut self, node: usize) {
        let node = &self.snapshot.nodes[node];
        let of_node = |template: &&mut Template| {
            node.pool.is_some_and(|pool| {
                self.snapshot.world.pools[template.pool.0 as usize].name == pool
            })
        };
        if let Some(template) = self.pools.iter_mut().find(of_node) {
            template
                .limits
                .iter_mut()
                .for_each(|(resource, left)| *left += node.capacity.get(*resource));
            template.nodes_left = template.nodes_left.map(|nodes| nodes + 1);
        }
    }

    /// Takes back what a packing has counted and used up, so that another one can begin. Returns
    /// whether that is possible. If not, the cluster has to be compiled again.
    #[must_use]
    pub fn reset(&mut self) -> bool {
        if !self.topology.rewind() {
            return false;
        }
        self.room.rewind();
        for template in &mut self.pools {
            template.limits.clone_from(&template.limits_before.0);
            template.nodes_left = template.limits_before.1;
        }
        true
    }

    /// The NodePool behind a template.
    pub fn record(&self, pool: usize) -> &'a NodePool {
        &self.snapshot.world.pools[self.pools[pool].pool.0 as usize]
    }

    /// How many distinct values of a label the types offer, of those that the state allows.
    pub fn distinct(&self, state: NodeSpecId, types: &BitSet, key: Symbol) -> usize {
        let s = self.states.get(state);
        let mut values: Vec<Symbol> = Vec::new();
        if self.states.is_cell_key(key) {
            for cell in s.cells.iter() {
                let here = self
                    .states
                    .available(s.pool, cell)
                    .iter()
                    .any(|t| types.has(t));
                let value = self.states.cells[cell]
                    .values
                    .iter()
                    .find(|(k, _)| *k == key);
                values.extend(value.filter(|_| here).map(|v| v.1));
            }
        } else {
            for t in types.iter() {
                let of = &self.snapshot.world.catalogue.types()[t];
                for r in of.requirements.iter().filter(|r| r.key == key) {
                    if let Op::In(v) = &r.op {
                        values.extend(v.iter().copied());
                    }
                }
            }
        }
        values.sort_unstable();
        values.dedup();
        let admitted = |v: &&Symbol| {
            s.sets
                .get(key)
                .is_none_or(|set| set.admits(**v, &self.states.numbers))
        };
        values.iter().filter(admitted).count()
    }

    /// The first `minValues` of a NodePool that these types do not offer.
    pub fn too_few_values(&self, state: NodeSpecId, types: &BitSet) -> Option<Symbol> {
        let pool = &self.pools[self.states.get(state).pool];
        let short =
            |(key, min): &&(Symbol, u16)| self.distinct(state, types, *key) < usize::from(*min);
        pool.min_values.iter().find(short).map(|m| m.0)
    }
}

/// Units of each reservation: the least that an offering which draws on it says.
pub(super) fn reservations(catalogue: &Catalogue) -> FxHashMap<Symbol, i64> {
    let mut reservations: FxHashMap<Symbol, i64> = FxHashMap::default();
    for (id, count) in catalogue
        .offerings()
        .iter()
        .filter_map(|offering| offering.reservation)
    {
        let left = reservations.entry(id).or_insert(i64::MAX);
        *left = (*left).min(i64::from(count));
    }
    reservations
}

/// What a NodePool's limits left before this plan.
pub fn limits_left(p: &CompiledCluster<'_>, pool: usize) -> (Vec<(ResourceId, i64)>, Option<i64>) {
    limits(p.snapshot, p.record(pool))
}

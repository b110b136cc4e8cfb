//! First-fit-decreasing with every rule.
//!
//! Pod groups are tried in queue order: on existing nodes, then on claims of this plan, then on a
//! new claim of each NodePool in order of preference. If all refuse, the pod gives up one
//! preference and starts again. Unplaced pods are tried again after the others while anything
//! changes, because affinity may have been waiting for its partner.
//!
//! Price decides only ties between topology domains. The optimizer minimises cost.

use std::cell::Cell;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::bit_set::BitSet;
use super::domains::Counted;
use super::fit::{Fit, ResourceDims, ResourceVector};
use super::leaders;
use super::node_specs::{NodeSpecId, NodeSpecs, RequirementsId, pool_sets};
use super::pod_groups::{self, GroupUse, PodGroup};
use super::pool_limits::limits;
use super::room::Room;
use super::sets::{Set, Sets};
use super::topology::{Asking, ConstraintKind, Domains, PlacedAt, ToBuy, Topology};
use crate::ids::{PodIx, PoolIx};
use crate::matching::{satisfies, untolerated};
use crate::model::{
    Catalogue, HostPort, MinValuesPolicy, NodePool, Op, Requirement, ResourceId, Symbol, TypeId,
};
use crate::policy::Policies;
use crate::snapshot::{Given, PendingPod, SharedClaim, Snapshot, give};
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
    limits_before: (Vec<(ResourceId, i64)>, Option<i64>),
    /// Some of its offerings draw on reservations.
    pub reserved: bool,
}

/// Everything that packing needs, compiled from a snapshot.
pub struct CompiledCluster<'a> {
    /// What it was compiled from.
    pub snapshot: &'a Snapshot,
    /// Requirements, narrowed.
    pub states: NodeSpecs<'a>,
    /// Resources that matter.
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
    scan: FeasibleHosts,
    /// Units of each reservation that are left to plan with.
    reservations: FxHashMap<Symbol, i64>,
    /// Ends the search for a better plan; unfinished results are dropped.
    pub stop: Stop<'a>,
}

/// Pods of one pod group on one host.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// Index into [`CompiledCluster::items`].
    pub pod_group: usize,
    /// How many preferences it gave up.
    pub relaxation: usize,
    /// Which of its needs (volume alternatives) holds.
    pub requirements: RequirementsId,
    /// Which of its pods, `start..end` in [`PodGroup::pods`].
    pub pods: (u32, u32),
}

/// A node to be bought, narrowed only as far as its pods require.
#[derive(Clone, Debug)]
pub struct OpenClaim {
    /// Position of its NodePool in [`CompiledCluster::pools`].
    pub pool: usize,
    /// Types, zones and labels that it may still have.
    pub state: NodeSpecId,
    /// What its pods need together.
    pub total: ResourceVector,
    /// Types that it may be.
    pub types: BitSet,
    /// The most that any of its types has left.
    room: ResourceVector,
    /// Its pods.
    pub members: Vec<Assignment>,
    /// Types that were within the NodePool's limits when it was opened.
    pub within_limits: Option<BitSet>,
    ports: Vec<HostPort>,
    volumes: Vec<(Symbol, u32)>,
    /// Reservations that it holds one unit of.
    pub reserved: Vec<Symbol>,
    /// `minValues` were lowered.
    pub min_values_relaxed: bool,
    /// What it takes of its NodePool's limits, in their order: the most that any of its types had
    /// when it was counted.
    charged: Vec<i64>,
    /// Its types were cut down to make room within the limits.
    trimmed: bool,
}

impl OpenClaim {
    /// A claim without pods.
    pub fn empty(pool: usize, state: NodeSpecId, dims: usize) -> Self {
        OpenClaim {
            pool,
            state,
            total: SmallVec::from_elem(0, dims),
            types: BitSet::none(0),
            room: ResourceVector::new(),
            members: Vec::new(),
            within_limits: None,
            ports: Vec::new(),
            volumes: Vec::new(),
            reserved: Vec::new(),
            min_values_relaxed: false,
            charged: Vec::new(),
            trimmed: false,
        }
    }
}

/// The outcome of packing.
#[derive(Clone, Debug, Default)]
pub struct Packing {
    /// Nodes to be bought.
    pub claims: Vec<OpenClaim>,
    /// Pods on existing nodes, by node.
    pub existing: FxHashMap<usize, Vec<Assignment>>,
    /// Pod groups with the number of their pods that were placed; the others stay without a node.
    pub placed: Vec<u32>,
    /// Pod groups that wait for reserved capacity.
    pub awaits_reservation: Vec<bool>,
    /// By shared claim the pod group whose pod decides where its volume is, and the host of that.
    pub deciders: FxHashMap<u32, (usize, usize)>,
    /// Volumes that were there and that claims of placed pods are bound to, by position.
    pub taken_volumes: FxHashMap<u32, u32>,
}

/// What shared claims leave of the hosts.
enum Reach {
    Any,
    /// The one where a volume is to be.
    Host(usize),
    /// None: a volume that one pod at a time may use, or two that are to be on different hosts.
    None,
}

impl Packing {
    fn reach(&self, item: &PodGroup) -> Reach {
        let mut reach = Reach::Any;
        for of in item.shared.iter().flat_map(|shared| &shared.claims) {
            let decided = self.deciders.get(&of.claim).map(|&(_, host)| host);
            let Some(host) = decided.or(of.first.map(|(_, node)| node as usize)) else {
                continue;
            };
            reach = match reach {
                _ if of.one_pod => return Reach::None,
                Reach::Host(other) if other != host => return Reach::None,
                _ => Reach::Host(host),
            };
        }
        reach
    }

    /// A claim of a pod group without a place for which every volume is taken, and no other is made.
    pub fn without_volume(&self, item: &PodGroup) -> Option<u32> {
        let mut own: SmallVec<[u32; 4]> = SmallVec::new();
        for of in &item.to_bind {
            let owner = |volume: &u32| self.taken_volumes.get(volume).copied();
            let free = |volume: &&u32| {
                owner(volume).is_none_or(|claim| claim == of.claim) && !own.contains(volume)
            };
            match of.volumes.iter().find(free) {
                Some(&volume) => own.push(volume),
                None if of.made.is_some() => {}
                None => return Some(of.claim),
            }
        }
        None
    }

    /// A claim of a pod group without a place of which another pod decides, and that pod.
    pub fn decided_by_others(
        &self,
        items: &[PodGroup],
        item: usize,
    ) -> Option<(SharedClaim, PodIx)> {
        let mut claims = items[item].shared.iter().flat_map(|of| &of.claims);
        claims.find_map(|&of| {
            let decider = self.deciders.get(&of.claim);
            let other = decider.filter(|(other, _)| *other != item);
            let waiting = other.and_then(|&(other, _)| items[other].pods.first().copied());
            Some((of, waiting.or(of.first.map(|(pod, _)| pod))?))
        })
    }
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
fn reservations(catalogue: &Catalogue) -> FxHashMap<Symbol, i64> {
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

/// Which domains of one topology key a pod may go to now.
pub struct DomainRule {
    /// Position in [`Topology::keys`].
    pub key: usize,
    /// By domain.
    pub allowed: Vec<bool>,
    /// Allowed domains, the emptiest first, then the cheapest.
    pub order: Vec<u32>,
    /// The pod must land in one known domain.
    pub pinned: bool,
    /// A node without the label will do, as for anti-affinity.
    pub absent: bool,
}

impl DomainRule {
    /// Whether it allows no domain, and no node is without one.
    fn allows_nothing(&self, domains: &Domains) -> bool {
        let elsewhere = self.absent && domains.lacking;
        !elsewhere && !self.allowed.contains(&true)
    }
}

/// Packs everything, the pod groups of `first` before the others.
pub fn pack(compiled: &mut CompiledCluster<'_>, first: &[usize]) -> Packing {
    let items = compiled.items.len();
    let others = (0..items).filter(|item| !first.contains(item));
    let waiting: Vec<usize> = first.iter().copied().chain(others).collect();
    let out = Packing {
        placed: vec![0; items],
        awaits_reservation: vec![false; items],
        ..Packing::default()
    };
    pack_on(compiled, waiting, out)
}

/// Packs the wanted pods of some pod groups, each once, in this order. `out` is empty, with room
/// for all pod groups.
pub fn pack_on(
    compiled: &mut CompiledCluster<'_>,
    mut waiting: Vec<usize>,
    out: Packing,
) -> Packing {
    let mut sharing = in_turn(compiled, &mut waiting);
    let mut packer = Packer::new(compiled, out);
    loop {
        let before = packer.placements;
        waiting.retain(|&item| {
            for other in sharing_with(packer.p, item, &mut sharing) {
                packer.run_on_ready_nodes(other);
            }
            !packer.run(item)
        });
        if waiting.is_empty() || before == packer.placements || packer.p.stop.is_raised() {
            return packer.out;
        }
    }
}

/// Puts the pods that share claims in kube-scheduler's order, at the places that they have among
/// the others. Returns them.
fn in_turn(compiled: &CompiledCluster<'_>, waiting: &mut [usize]) -> Vec<usize> {
    let turn = |item: usize| Some(compiled.items[item].shared.as_ref()?.turn);
    let sharing = |&at: &usize| turn(waiting[at]).is_some();
    let places: Vec<usize> = (0..waiting.len()).filter(sharing).collect();
    let mut items: Vec<usize> = places.iter().map(|&at| waiting[at]).collect();
    items.sort_by_key(|&item| turn(item));
    for (at, &item) in places.into_iter().zip(&items) {
        waiting[at] = item;
    }
    items
}

/// Takes those that share a claim with a pod group, itself included, out of `sharing`.
fn sharing_with(
    compiled: &CompiledCluster<'_>,
    item: usize,
    sharing: &mut Vec<usize>,
) -> Vec<usize> {
    let claims = |item: usize| {
        let shared = compiled.items[item].shared.as_ref();
        shared
            .into_iter()
            .flat_map(|shared| shared.claims.iter().map(|of| of.claim))
    };
    let own: Vec<u32> = claims(item).collect();
    if own.is_empty() {
        return Vec::new();
    }
    let shares = |other: &mut usize| claims(*other).any(|claim| own.contains(&claim));
    sharing.extract_if(.., shares).collect()
}

struct Packer<'p, 'a> {
    p: &'p mut CompiledCluster<'a>,
    out: Packing,
    ports: FxHashMap<usize, Vec<HostPort>>,
    volumes: FxHashMap<usize, Vec<(Symbol, u32)>>,
    /// Units left of each reservation.
    reservations: FxHashMap<Symbol, i64>,
    /// Looks at rules over hosts since the last pod was placed.
    looks: Cell<usize>,
    /// Pods placed so far.
    placements: u64,
}

/// Looks at rules over hosts that a pod's preferences may cost: a pod with twenty rules and forty
/// preferences on five thousand nodes. Beyond it the pod gives up all of them at once, so that no
/// pod holds up the others.
const MOST_LOOKS: usize = 4_000_000;

/// Hosts that may still take pods of one pod group at one level: what refuses for good is dropped.
#[derive(Default)]
pub(super) struct FeasibleHosts {
    nodes: Vec<u32>,
    /// Nodes below this number have been tried.
    next: usize,
    claims: Vec<u32>,
    /// Claims below this number have been tried.
    seen: usize,
}

impl FeasibleHosts {
    fn clear(&mut self) {
        self.nodes.clear();
        self.claims.clear();
        (self.next, self.seen) = (0, 0);
    }
}

/// A pod found its place.
enum Placement {
    Node(usize, RequirementsId),
    Claim(usize, NodeSpecId, RequirementsId),
}

impl<'p, 'a> Packer<'p, 'a> {
    fn new(p: &'p mut CompiledCluster<'a>, out: Packing) -> Self {
        let reservations = p.reservations.clone();
        Packer {
            p,
            out,
            ports: FxHashMap::default(),
            volumes: FxHashMap::default(),
            reservations,
            looks: Cell::new(0),
            placements: 0,
        }
    }

    /// Places pods of a pod group until all are placed (true) or one cannot be placed (false).
    fn run(&mut self, item: usize) -> bool {
        let pods = self.p.wanted[item];
        let levels = self.p.items[item].relaxations.len();
        self.looks.set(0);
        for relaxation in 0..levels {
            if relaxation + 1 < levels && self.looks.get() > MOST_LOOKS {
                continue;
            }
            let mut scan = std::mem::take(&mut self.p.scan);
            scan.clear();
            while self.out.placed[item] < pods {
                if self.p.stop.is_raised() {
                    return false;
                }
                if !self.place(item, relaxation, &mut scan) {
                    break;
                }
            }
            self.p.scan = scan;
            if self.out.placed[item] == pods {
                return true;
            }
            if self.out.awaits_reservation[item] {
                return false;
            }
        }
        false
    }

    /// Places a pod that shares claims on a node that kube-scheduler can bind it to at once. Of such
    /// pods the first with such a node decides where the volume is, whoever is first in the queue.
    fn run_on_ready_nodes(&mut self, item: usize) {
        for relaxation in 0..self.p.items[item].relaxations.len() {
            if self.out.placed[item] >= self.p.wanted[item] {
                return;
            }
            let Some(rules) = self.domain_rules(item, relaxation) else {
                continue;
            };
            let spot = match self.out.reach(&self.p.items[item]) {
                Reach::Any => {
                    self.on_nodes(item, relaxation, &mut FeasibleHosts::default(), &rules)
                }
                Reach::Host(host) => self.on_host(item, relaxation, host, &rules),
                Reach::None => None,
            };
            if let Some(spot @ Placement::Node(node, _)) = spot
                && self.p.snapshot.nodes[node].initialized
            {
                self.place_at(item, relaxation, spot, 1);
            }
        }
    }

    /// Whether a node's taints and labels are right.
    fn suits(&self, item: usize, relaxation: usize, node: usize) -> bool {
        let it = &self.p.items[item];
        let variant = &it.relaxations[relaxation];
        let node = &self.p.snapshot.nodes[node];
        untolerated(
            &it.shape.tolerations,
            &node.taints,
            variant.avoids_prefer_no_schedule,
        )
        .is_none()
            && variant
                .needs
                .iter()
                .any(|&n| self.admits(self.p.states.need_sets(n), node))
    }

    fn admits(&self, asked: &Sets, node: &crate::snapshot::StateNode) -> bool {
        asked
            .0
            .iter()
            .all(|(key, set)| match node.labels.get(*key) {
                Some(value) => set.admits(value, &self.p.states.numbers),
                None => set.allows_absence(),
            })
    }

    /// Places the next pod (or, where no rule but size matters, as many as fit) at one level.
    fn place(&mut self, item: usize, relaxation: usize, scan: &mut FeasibleHosts) -> bool {
        let Some(rules) = self.domain_rules(item, relaxation) else {
            return false;
        };
        let spot = match self.out.reach(&self.p.items[item]) {
            Reach::Any => self
                .on_nodes(item, relaxation, scan, &rules)
                .or_else(|| self.on_claims(item, relaxation, scan, &rules))
                .or_else(|| self.on_new_claim(item, relaxation, &rules)),
            Reach::Host(host) => self.on_host(item, relaxation, host, &rules),
            Reach::None => None,
        };
        let Some(spot) = spot else { return false };
        let most = if self.resources_only(item, relaxation) {
            self.max_batch(item, &spot)
        } else {
            1
        };
        self.place_at(item, relaxation, spot, most);
        self.looks.set(0);
        true
    }

    /// No rule but size, labels and taints decides.
    fn resources_only(&self, item: usize, relaxation: usize) -> bool {
        let it = &self.p.items[item];
        rules(self.p, item, relaxation).next().is_none()
            && it.counted.is_empty()
            && it.owned_anti_affinity.is_empty()
            && it.repelled_by.is_empty()
            && it.ports.is_empty()
            && it.volumes.is_empty()
            && it.shared.is_none()
            && it.to_bind.is_empty()
            && self
                .p
                .pools
                .iter()
                .all(|p| p.min_values.is_empty() && !p.reserved)
    }

    fn max_batch(&self, item: usize, spot: &Placement) -> u32 {
        let it = &self.p.items[item];
        let left = self.p.wanted[item] - self.out.placed[item];
        match *spot {
            Placement::Node(node, _) => {
                let room = it
                    .request
                    .iter()
                    .zip(self.p.room.of(node))
                    .filter(|(want, _)| **want > 0);
                room.map(|(&want, &have)| (have / want) as u32)
                    .min()
                    .unwrap_or(left)
                    .clamp(1, left)
            }
            Placement::Claim(at, state, _) => {
                let claim = &self.out.claims[at];
                let fit = &self.p.pools[claim.pool].fit;
                let types = &self.p.states.get(state).types;
                let fits = |n: u32| {
                    let total: ResourceVector = claim
                        .total
                        .iter()
                        .zip(&it.request)
                        .map(|(&t, &r)| t + r * i64::from(n))
                        .collect();
                    fit.any(&claim.types, types, &total)
                };
                let (mut low, mut high) = (1, left + 1);
                while low + 1 < high {
                    let middle = if high - low > 64 {
                        low + 32.min((high - low) / 2)
                    } else {
                        (low + high) / 2
                    };
                    if fits(middle) {
                        low = middle
                    } else {
                        high = middle
                    }
                }
                low
            }
        }
    }

    /// Which domains are allowed now, for every topology key that has to do with the pod group.
    /// Nothing if one of the keys allows none.
    fn domain_rules(&self, item: usize, relaxation: usize) -> Option<Vec<DomainRule>> {
        open_domains(self.p, item, relaxation).ok()?.ok()
    }

    fn hosts_allow(&self, item: usize, relaxation: usize, host: usize) -> bool {
        let it = &self.p.items[item];
        let topology = &self.p.topology;
        let uses = &it.relaxations[relaxation].uses;
        let uses_ok = |u: &GroupUse| {
            topology.groups[u.group].key.is_some() || topology.allows_host(uses, u, host)
        };
        self.looks.set(self.looks.get() + uses.len());
        let repelled = it.inverse_hosts && topology.repels_on(host, &it.repelled_by);
        !repelled && uses.iter().all(uses_ok)
    }

    /// On one host alone: an existing node, or a claim of this plan.
    fn on_host(
        &mut self,
        item: usize,
        relaxation: usize,
        host: usize,
        rules: &[DomainRule],
    ) -> Option<Placement> {
        let it = &self.p.items[item];
        if let Some(claim) = host.checked_sub(self.p.room.len()) {
            let open = it.useless.is_none() && self.may_ever_fit(item, relaxation, claim);
            let (state, need) = open
                .then(|| self.try_claim(item, relaxation, claim, rules))
                .flatten()?;
            return Some(Placement::Claim(claim, state, need));
        }
        let open = self.p.room.fits(host, &it.request) && self.suits(item, relaxation, host);
        let need = open
            .then(|| self.try_node(item, relaxation, host, rules))
            .flatten()?;
        Some(Placement::Node(host, need))
    }

    fn on_nodes(
        &mut self,
        item: usize,
        relaxation: usize,
        scan: &mut FeasibleHosts,
        rules: &[DomainRule],
    ) -> Option<Placement> {
        let mut kept = 0;
        let mut found = None;
        for at in 0..scan.nodes.len() {
            let node = scan.nodes[at] as usize;
            if !self.p.room.fits(node, &self.p.items[item].request) {
                continue;
            }
            scan.nodes[kept] = scan.nodes[at];
            kept += 1;
            if let Some(need) = self.try_node(item, relaxation, node, rules) {
                found = Some(Placement::Node(node, need));
                scan.nodes.copy_within(at + 1.., kept);
                kept += scan.nodes.len() - at - 1;
                break;
            }
        }
        scan.nodes.truncate(kept);
        while found.is_none() {
            let Some(node) = self.p.room.next(scan.next, &self.p.items[item].request) else {
                scan.next = self.p.room.len();
                break;
            };
            scan.next = node + 1;
            if self.suits(item, relaxation, node) {
                scan.nodes.push(node as u32);
                found = self
                    .try_node(item, relaxation, node, rules)
                    .map(|need| Placement::Node(node, need));
            }
        }
        found
    }

    fn try_node(
        &self,
        item: usize,
        relaxation: usize,
        node: usize,
        rules: &[DomainRule],
    ) -> Option<RequirementsId> {
        let it = &self.p.items[item];
        let domain_ok = |rule: &DomainRule| {
            let domain = self.p.topology.keys[rule.key].of_node[node] as usize;
            rule.allowed.get(domain).copied().unwrap_or(rule.absent)
        };
        if !rules.iter().all(domain_ok) || !self.hosts_allow(item, relaxation, node) {
            return None;
        }
        let state = &self.p.snapshot.nodes[node];
        if !it.ports.is_empty() {
            let taken = state
                .ports
                .iter()
                .chain(self.ports.get(&node).into_iter().flatten());
            if taken
                .into_iter()
                .any(|t| it.ports.iter().any(|p| p.conflicts(t)))
            {
                return None;
            }
        }
        if !it.volumes.is_empty() {
            let mut all = state.volumes.clone();
            all.extend(self.volumes.get(&node).into_iter().flatten());
            if over_limit(&all, &it.volumes, &state.volume_limits).is_some() {
                return None;
            }
        }
        let needs = &it.relaxations[relaxation].needs;
        let mut admitted = needs.iter().copied();
        let need = admitted.find(|&n| self.admits(self.p.states.need_sets(n), state))?;
        self.volumes_on_node(item, node).map(|_| need)
    }

    /// The volumes that the claims of a pod get on an existing node.
    fn volumes_on_node(&self, item: usize, node: usize) -> Option<Given> {
        let claims = &self.p.items[item].to_bind;
        let world = &self.p.snapshot.world;
        let labels = &self.p.snapshot.nodes[node].labels;
        let hold = |all: &[Requirement]| all.iter().all(|r| satisfies(labels, r, &world.names));
        give(world, claims, &self.out.taken_volumes, hold)
    }

    /// The volumes that the claims of a pod get on a new node, and the state of one that has them.
    fn volumes_on_state(&mut self, item: usize, state: NodeSpecId) -> Option<(NodeSpecId, Given)> {
        let mut given = Given::new();
        let mut state = state;
        for at in 0..self.p.items[item].to_bind.len() {
            let (claim, volumes) = {
                let of = &self.p.items[item].to_bind[at];
                (of.claim, of.volumes.len())
            };
            let mut found = None;
            for number in 0..volumes {
                let volume = self.p.items[item].to_bind[at].volumes[number];
                let of = self.out.taken_volumes.get(&volume);
                if of.is_some_and(|&of| of != claim) || given.iter().any(|g| g.0 == volume) {
                    continue;
                }
                let terms = &self.p.snapshot.world.volumes[volume as usize].node_affinity;
                if let Some(there) = self.narrow_to_one(state, terms) {
                    found = Some((volume, there));
                    break;
                }
            }
            if let Some((volume, there)) = found {
                given.push((volume, claim));
                state = there;
                continue;
            }
            let made = self.p.items[item].to_bind[at].made.clone()?;
            state = self.narrow_to_one(state, &made)?;
        }
        Some((state, given))
    }

    /// A state narrowed by the first of some alternatives that it agrees with.
    fn narrow_to_one(
        &mut self,
        state: NodeSpecId,
        terms: &[Vec<Requirement>],
    ) -> Option<NodeSpecId> {
        if terms.is_empty() {
            return Some(state);
        }
        let states = &mut self.p.states;
        terms.iter().find_map(|term| {
            let need = states.requirements(Sets::new(term, &states.numbers));
            states.narrow(state, need)
        })
    }

    fn on_claims(
        &mut self,
        item: usize,
        relaxation: usize,
        scan: &mut FeasibleHosts,
        rules: &[DomainRule],
    ) -> Option<Placement> {
        if self.p.items[item].useless.is_some() {
            return None;
        }
        scan.claims
            .extend((scan.seen..self.out.claims.len()).map(|c| c as u32));
        scan.seen = self.out.claims.len();
        let mut kept = 0;
        let mut found = None;
        for at in 0..scan.claims.len() {
            let c = scan.claims[at] as usize;
            if !self.may_ever_fit(item, relaxation, c) {
                continue;
            }
            scan.claims[kept] = scan.claims[at];
            kept += 1;
            if let Some((state, need)) = self.try_claim(item, relaxation, c, rules) {
                found = Some(Placement::Claim(c, state, need));
                scan.claims.copy_within(at + 1.., kept);
                kept += scan.claims.len() - at - 1;
                break;
            }
        }
        scan.claims.truncate(kept);
        found
    }

    /// Size, taints: what never gets better as a claim fills.
    fn may_ever_fit(&self, item: usize, relaxation: usize, c: usize) -> bool {
        let it = &self.p.items[item];
        let claim = &self.out.claims[c];
        it.request
            .iter()
            .zip(&claim.room)
            .all(|(&want, &have)| want <= have || want == 0)
            && self.tolerates(item, relaxation, claim.pool)
    }

    fn tolerates(&self, item: usize, relaxation: usize, pool: usize) -> bool {
        let it = &self.p.items[item];
        let taints = &self.p.record(pool).taints;
        taints.is_empty()
            || untolerated(
                &it.shape.tolerations,
                taints,
                it.relaxations[relaxation].avoids_prefer_no_schedule,
            )
            .is_none()
    }

    fn try_claim(
        &mut self,
        item: usize,
        relaxation: usize,
        c: usize,
        rules: &[DomainRule],
    ) -> Option<(NodeSpecId, RequirementsId)> {
        if !self.hosts_allow(item, relaxation, self.p.room.len() + c) {
            return None;
        }
        let it = &self.p.items[item];
        let claim = &self.out.claims[c];
        if !it.ports.is_empty()
            && claim
                .ports
                .iter()
                .any(|t| it.ports.iter().any(|p| p.conflicts(t)))
        {
            return None;
        }
        let total: ResourceVector = claim
            .total
            .iter()
            .zip(&it.request)
            .map(|(&t, &r)| t + r)
            .collect();
        let mut types = claim.types.clone();
        if !it.ports.is_empty() {
            self.p.pools[claim.pool]
                .fit
                .port_conflicts(&it.ports)
                .iter()
                .for_each(|t| types.remove(t.0 as usize));
        }
        if !it.volumes.is_empty() {
            drop_small_volumes(self.p, &mut types, &claim.volumes, &it.volumes);
        }
        for at in 0..it.relaxations[relaxation].needs.len() {
            let need = self.p.items[item].relaxations[relaxation].needs[at];
            let from = self.out.claims[c].state;
            let pool = self.out.claims[c].pool;
            // What the NodePool cannot give alone, another pod's exclusions must not seem to give.
            let initial = self.p.pools[pool].initial;
            let Some(state) = self
                .p
                .states
                .narrow(initial, need)
                .and_then(|_| self.p.states.narrow(from, need))
            else {
                continue;
            };
            let Some(state) = narrow_domains(self.p, state, rules, pool, &types, &total) else {
                continue;
            };
            let Some((state, _)) = self.volumes_on_state(item, state) else {
                continue;
            };
            let mut left = types.clone();
            left.and(&self.p.states.get(state).types);
            self.p.pools[pool].fit.keep(&mut left, &total);
            if left.is_empty() || self.p.too_few_values(state, &left).is_some() {
                continue;
            }
            if self.p.pools[pool].reserved
                && self
                    .reserve(state, &left, &self.out.claims[c].reserved.clone())
                    .is_err()
            {
                continue;
            }
            return Some((state, need));
        }
        None
    }

    /// The reservations that a claim can hold a unit of: `Err` if all that would do are used up, or
    /// if it held some and would lose them all.
    fn reserve(
        &self,
        state: NodeSpecId,
        types: &BitSet,
        held: &[Symbol],
    ) -> Result<Vec<Symbol>, ()> {
        let s = self.p.states.get(state);
        let mut wanted: Vec<Symbol> = s
            .cells
            .iter()
            .filter(|&c| {
                self.p
                    .states
                    .available(s.pool, c)
                    .iter()
                    .any(|t| types.has(t))
            })
            .filter_map(|c| self.p.states.cells[c].reservation)
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        let can = |id: &Symbol| {
            held.contains(id) || self.reservations.get(id).is_some_and(|&left| left > 0)
        };
        let holds: Vec<Symbol> = wanted.iter().copied().filter(can).collect();
        let none_left = !wanted.is_empty() && holds.is_empty();
        let lost = !held.is_empty() && holds.is_empty();
        if none_left || lost {
            Err(())
        } else {
            Ok(holds)
        }
    }

    fn on_new_claim(
        &mut self,
        item: usize,
        relaxation: usize,
        rules: &[DomainRule],
    ) -> Option<Placement> {
        if self.p.items[item].useless.is_some() {
            return None;
        }
        for pool in 0..self.p.pools.len() {
            if !self.tolerates(item, relaxation, pool)
                || self.p.pools[pool].nodes_left.is_some_and(|n| n <= 0)
            {
                continue;
            }
            if !self.hosts_allow(item, relaxation, usize::MAX) {
                return None;
            }
            for at in 0..self.p.items[item].relaxations[relaxation].needs.len() {
                let need = self.p.items[item].relaxations[relaxation].needs[at];
                if let Some(state) = self.open(item, pool, need, rules) {
                    return Some(Placement::Claim(self.out.claims.len() - 1, state, need));
                }
                if self.out.awaits_reservation[item] {
                    return None;
                }
            }
        }
        None
    }

    /// Opens a claim of a NodePool that could take one pod of the pod group. Where only the limits
    /// are in the way, the claims of this plan give back what they may not need.
    fn open(
        &mut self,
        item: usize,
        pool: usize,
        need: RequirementsId,
        rules: &[DomainRule],
    ) -> Option<NodeSpecId> {
        let limited = within_limits(self.p, pool);
        let opened = self.open_within(item, pool, need, rules, limited.clone());
        if opened.is_some() || limited.is_none() || self.out.awaits_reservation[item] {
            return opened;
        }
        let before = self.p.pools[pool].limits_before.0.clone();
        let mut all = self.p.states.get(self.p.pools[pool].initial).types.clone();
        self.drop_beyond(&mut all, &before);
        self.suited(item, pool, need, rules, all)?;
        if !self.trim(pool) {
            return None;
        }
        let limited = within_limits(self.p, pool);
        self.open_within(item, pool, need, rules, limited)
    }

    /// Cuts every claim of a NodePool that has limits down to types that need no more of what is
    /// limited than its cheapest one. Whether any limit has more left now.
    fn trim(&mut self, pool: usize) -> bool {
        let mut gained = false;
        for c in 0..self.out.claims.len() {
            let claim = &self.out.claims[c];
            if claim.pool != pool || claim.trimmed || !claim.reserved.is_empty() {
                continue;
            }
            let mut types = claim.types.clone();
            let bound: Option<Vec<(ResourceId, i64)>> = self.cheapest(claim).map(|cheapest| {
                let capacity = &self.p.snapshot.world.catalogue.types()[cheapest].capacity;
                let limits = self.p.pools[pool].limits.iter();
                limits.map(|&(of, _)| (of, capacity.get(of))).collect()
            });
            self.out.claims[c].trimmed = true;
            let Some(bound) = bound else { continue };
            self.drop_beyond(&mut types, &bound);
            let claim = &self.out.claims[c];
            if self.p.too_few_values(claim.state, &types).is_some() {
                continue;
            }
            let charged = charges(self.p, pool, &types);
            let limits = self.p.pools[pool].limits.iter_mut();
            for ((_, left), (now, before)) in limits.zip(charged.iter().zip(&claim.charged)) {
                *left += before - now;
                gained |= now < before;
            }
            let most = self.p.pools[pool].fit.most(&types);
            let claim = &mut self.out.claims[c];
            claim.room = most
                .iter()
                .zip(&claim.total)
                .map(|(&m, &t)| m - t)
                .collect();
            (claim.types, claim.charged) = (types, charged);
        }
        gained
    }

    /// The cheapest type of a claim: by effective cost outside commitments, then price, then name.
    fn cheapest(&self, claim: &OpenClaim) -> Option<usize> {
        let states = &self.p.states;
        let cost = |t: usize| {
            let offering = states.cheapest(claim.state, TypeId(t as u32))?;
            let cost = states.scores[claim.pool].cost[offering.0 as usize];
            Some((cost, states.catalogue.offering(offering).price, t))
        };
        let best = claim.types.iter().filter_map(cost).min_by(|a, b| {
            let price = a.1.total_cmp(&b.1);
            a.0.total_cmp(&b.0).then(price).then(a.2.cmp(&b.2))
        });
        best.map(|(_, _, t)| t)
    }

    /// Drops types that have more of some resource than an amount.
    fn drop_beyond(&self, types: &mut BitSet, most: &[(ResourceId, i64)]) {
        let catalogue = self.p.snapshot.world.catalogue.types();
        let beyond = |t: &usize| {
            let capacity = &catalogue[*t].capacity;
            most.iter().any(|&(of, most)| capacity.get(of) > most)
        };
        let beyond: Vec<usize> = types.iter().filter(beyond).collect();
        beyond.into_iter().for_each(|t| types.remove(t));
    }

    /// The state of a claim of a NodePool for one pod of the pod group, and its types of `types`
    /// before and after size and state have their say; nothing if none is left.
    fn suited(
        &mut self,
        item: usize,
        pool: usize,
        need: RequirementsId,
        rules: &[DomainRule],
        mut types: BitSet,
    ) -> Option<(NodeSpecId, BitSet, BitSet)> {
        let initial = self.p.pools[pool].initial;
        let state = self.p.states.narrow(initial, need)?;
        let it = &self.p.items[item];
        let total = it.request.clone();
        if !it.ports.is_empty() {
            self.p.pools[pool]
                .fit
                .port_conflicts(&it.ports)
                .iter()
                .for_each(|t| types.remove(t.0 as usize));
        }
        if !it.volumes.is_empty() {
            drop_small_volumes(self.p, &mut types, &[], &it.volumes);
        }
        let state = narrow_domains(self.p, state, rules, pool, &types, &total)?;
        let (state, _) = self.volumes_on_state(item, state)?;
        let mut left = types.clone();
        left.and(&self.p.states.get(state).types);
        self.p.pools[pool].fit.keep(&mut left, &total);
        (!left.is_empty()).then_some((state, types, left))
    }

    /// The same for a claim that may be of types within limits only, if there are any.
    fn open_within(
        &mut self,
        item: usize,
        pool: usize,
        need: RequirementsId,
        rules: &[DomainRule],
        limited: Option<BitSet>,
    ) -> Option<NodeSpecId> {
        let initial = self.p.pools[pool].initial;
        let types = limited
            .clone()
            .unwrap_or_else(|| self.p.states.get(initial).types.clone());
        let (state, types, left) = self.suited(item, pool, need, rules, types)?;
        let short = self.p.too_few_values(state, &left).is_some();
        let strict = self.p.snapshot.world.settings.min_values == MinValuesPolicy::Strict;
        if short && strict {
            return None;
        }
        if self.p.pools[pool].reserved && self.reserve(state, &left, &[]).is_err() {
            self.out.awaits_reservation[item] = true;
            return None;
        }
        let charged = take_limits(self.p, pool, &left);
        let total = self.p.items[item].request.clone();
        let empty = OpenClaim::empty(pool, initial, total.len());
        self.out.claims.push(OpenClaim {
            types,
            room: total,
            within_limits: limited,
            charged,
            min_values_relaxed: short,
            ..empty
        });
        Some(state)
    }

    fn place_at(&mut self, item: usize, relaxation: usize, spot: Placement, count: u32) {
        if !self.p.items[item].to_bind.is_empty() {
            let given = match spot {
                Placement::Node(node, _) => self.volumes_on_node(item, node),
                Placement::Claim(_, state, _) => {
                    self.volumes_on_state(item, state).map(|(_, given)| given)
                }
            };
            self.out.taken_volumes.extend(given.into_iter().flatten());
        }
        let start = self.out.placed[item];
        self.out.placed[item] += count;
        self.placements += u64::from(count);
        let it = &self.p.items[item];
        let member = |need| Assignment {
            pod_group: item,
            relaxation,
            requirements: need,
            pods: (start, start + count),
        };
        let (at, pool) = match spot {
            Placement::Node(node, need) => {
                self.p.room.take(node, &it.request, count);
                self.ports.entry(node).or_default().extend(&it.ports);
                self.volumes.entry(node).or_default().extend(&it.volumes);
                self.out
                    .existing
                    .entry(node)
                    .or_default()
                    .push(member(need));
                (PlacedAt::Node(node), None)
            }
            Placement::Claim(c, state, need) => {
                let pool = self.out.claims[c].pool;
                if self.p.pools[pool].reserved {
                    self.rereserve(c, state, item);
                }
                let it = &self.p.items[item];
                let claim = &mut self.out.claims[c];
                claim
                    .total
                    .iter_mut()
                    .zip(&it.request)
                    .for_each(|(t, &r)| *t += r * i64::from(count));
                claim.state = state;
                claim.types.and(&self.p.states.get(state).types);
                if !it.ports.is_empty() {
                    let clash = self.p.pools[pool].fit.port_conflicts(&it.ports);
                    clash.iter().for_each(|t| claim.types.remove(t.0 as usize));
                }
                self.p.pools[pool].fit.keep(&mut claim.types, &claim.total);
                if !it.volumes.is_empty() {
                    drop_small_volumes(self.p, &mut claim.types, &claim.volumes, &it.volumes);
                }
                let most = self.p.pools[pool].fit.most(&claim.types);
                claim.room = most
                    .iter()
                    .zip(&claim.total)
                    .map(|(&m, &t)| m - t)
                    .collect();
                claim.ports.extend(&it.ports);
                for volume in &it.volumes {
                    if !claim.volumes.contains(volume) {
                        claim.volumes.push(*volume);
                    }
                }
                match claim.members.last_mut() {
                    Some(last)
                        if (
                            last.pod_group,
                            last.relaxation,
                            last.requirements,
                            last.pods.1,
                        ) == (item, relaxation, need, start) =>
                    {
                        last.pods.1 += count;
                    }
                    _ => claim.members.push(member(need)),
                }
                (PlacedAt::Claim(self.p.room.len() + c, state), Some(pool))
            }
        };
        let host = match at {
            PlacedAt::Node(host) | PlacedAt::Claim(host, _) => host,
        };
        let shared = self.p.items[item].shared.iter();
        for of in shared.flat_map(|shared| &shared.claims) {
            self.out.deciders.entry(of.claim).or_insert((item, host));
        }
        let taints = pool
            .map(|p| self.p.record(p).taints.as_slice())
            .unwrap_or_default();
        let CompiledCluster {
            items,
            topology,
            states,
            ..
        } = &mut *self.p;
        let groups = items[item]
            .counted
            .iter()
            .chain(items[item].owned_anti_affinity.iter());
        topology.record(groups, at, count, states, taints);
    }

    /// Holds a unit of every reservation that the claim may still use, and lets go of the others.
    fn rereserve(&mut self, c: usize, state: NodeSpecId, item: usize) {
        let claim = &self.out.claims[c];
        let it = &self.p.items[item];
        let mut left = claim.types.clone();
        left.and(&self.p.states.get(state).types);
        let total: ResourceVector = claim
            .total
            .iter()
            .zip(&it.request)
            .map(|(&t, &r)| t + r)
            .collect();
        self.p.pools[claim.pool].fit.keep(&mut left, &total);
        let before = claim.reserved.clone();
        let now = self.reserve(state, &left, &before).unwrap_or_default();
        for id in &before {
            *self.reservations.entry(*id).or_default() += 1;
        }
        for id in &now {
            *self.reservations.entry(*id).or_default() -= 1;
        }
        self.out.claims[c].reserved = now;
    }
}

/// Topology rules of one relaxation of a pod group, without rules that only balance groups that
/// have no pods to plan.
fn rules<'p>(
    p: &'p CompiledCluster<'_>,
    item: usize,
    relaxation: usize,
) -> impl Iterator<Item = &'p GroupUse> {
    p.items[item].relaxations[relaxation]
        .uses
        .iter()
        .filter(|rule| rule.owner || p.balanced[rule.group])
}

/// Which domains are allowed now, for every topology key that has to do with the pod group.
///
/// # Errors
/// The group of the first rule that allows no domain.
pub fn domain_rules(
    p: &CompiledCluster<'_>,
    item: usize,
    relaxation: usize,
) -> Result<Vec<DomainRule>, usize> {
    open_domains(p, item, relaxation)?
        .map_err(|emptied| first_emptied(p, item, relaxation, &emptied))
}

/// The same, `Ok(Err)` where others' anti-affinity leaves no domain: of these topology keys.
fn open_domains(
    p: &CompiledCluster<'_>,
    item: usize,
    relaxation: usize,
) -> Result<Result<Vec<DomainRule>, Emptied>, usize> {
    let it = &p.items[item];
    let variant = &it.relaxations[relaxation];
    let mut rules: Vec<DomainRule> = Vec::new();
    let (mut spread_on, mut leads_on) = (Vec::<(usize, usize)>::new(), Vec::new());
    for rule in self::rules(p, item, relaxation) {
        let at = rule.group;
        let group = &p.topology.groups[at];
        let Some(key) = group.key else { continue };
        let domains = &p.topology.keys[key];
        let asking = p.topology.asking(&variant.uses, rule);
        let strict = variant.strict.get(domains.key);
        let mut allowed = group.allowed(domains, asking, strict, &p.states);
        if !rule.owner && !asking.first && group.spec.rule == ConstraintKind::Affinity {
            let value = |domain: usize| domains.values[domain];
            let admits = |d| strict.is_none_or(|set| set.admits(value(d), &p.states.numbers));
            allowed = group.lead(admits).unwrap_or(allowed);
        }
        if asking.first {
            leads_on.push((key, at));
            // Its own rule must not keep it from the only place that is left.
            if !rule.owner {
                group.keep_suited(&mut allowed);
            }
        }
        let absent = group.spec.rule.allows_absence();
        if matches!(group.spec.rule, ConstraintKind::Spread { .. }) {
            spread_on.push((key, at));
        }
        match rules.iter_mut().find(|r| r.key == key) {
            Some(rule) => {
                rule.allowed
                    .iter_mut()
                    .zip(&allowed)
                    .for_each(|(a, &b)| *a &= b);
                rule.absent &= absent;
                if rule.allows_nothing(domains) {
                    return Err(at);
                }
            }
            None => {
                let rule = DomainRule {
                    key,
                    allowed,
                    order: Vec::new(),
                    pinned: true,
                    absent,
                };
                if rule.allows_nothing(domains) {
                    return Err(at);
                }
                rules.push(rule);
            }
        }
    }
    if let Err(emptied) = keep_away(p, item, relaxation, &mut rules) {
        return Ok(Err(emptied));
    }
    for rule in &mut rules {
        let domains = &p.topology.keys[rule.key];
        rule.order = (0..rule.allowed.len() as u32)
            .filter(|&d| rule.allowed[d as usize])
            .collect();
        let load = |d: u32| -> u32 {
            let on = spread_on.iter().filter(|(key, _)| *key == rule.key);
            on.map(|&(_, g)| p.topology.groups[g].count[d as usize])
                .sum()
        };
        let unsuited = |d: u32| -> u32 {
            let led = leads_on.iter().filter(|(key, _)| *key == rule.key);
            led.map(|&(_, g)| p.topology.groups[g].unsuited(d as usize))
                .sum()
        };
        let mut order: Vec<((u32, u32), f64, u32, u32)> = (rule.order.iter())
            .map(|&d| {
                let cost = cheapest_holding(p, domains, d as usize, &it.request);
                let rank = domains.rank[d as usize];
                ((unsuited(d), load(d)), cost, rank, d)
            })
            .collect();
        order.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
        rule.order = order.into_iter().map(|of| of.3).collect();
    }
    Ok(Ok(rules))
}

/// What the cheapest node of a domain costs that holds so much, where the domain says how large a
/// node is; infinite if none does. Zero for other domains.
fn cheapest_holding(
    p: &CompiledCluster<'_>,
    domains: &Domains,
    domain: usize,
    request: &ResourceVector,
) -> f64 {
    let Some(machines) = domains.machines.get(domain) else {
        return 0.0;
    };
    let holds = |&&(_, pool, t): &&ToBuy| {
        let left = p
            .pools
            .get(pool)
            .and_then(|template| template.fit.net(t.0 as usize));
        left.is_some_and(|left| request.iter().zip(left).all(|(want, have)| want <= have))
    };
    machines.iter().find(holds).map_or(f64::INFINITY, |m| m.0)
}

/// Takes the domains out that others' anti-affinity keeps the pod group away from. All terms are
/// evaluated together by domain: of thousands of terms that select a pod, few have a pod anywhere.
fn keep_away(
    p: &CompiledCluster<'_>,
    item: usize,
    relaxation: usize,
    rules: &mut Vec<DomainRule>,
) -> Result<(), Emptied> {
    let it = &p.items[item];
    let mut emptied: Vec<usize> = Vec::new();
    let before = rules.len();
    let mut left: Vec<DomainRule> = Vec::new();
    for &(key, several) in &it.inverse_keys {
        let domains = &p.topology.keys[key];
        let strict = it.relaxations[relaxation].strict.get(domains.key);
        let open = |domain: usize| {
            strict.is_none_or(|s| s.admits(domains.values[domain], &p.states.numbers))
                && !p.topology.repels_in(key, domain, &it.repelled_by)
        };
        let known = rules[..before].iter().find(|rule| rule.key == key);
        let allowed =
            (0..domains.values.len()).map(|d| known.is_none_or(|rule| rule.allowed[d]) && open(d));
        let rule = DomainRule {
            key,
            allowed: allowed.collect(),
            order: Vec::new(),
            pinned: known.is_some_and(|rule| rule.pinned),
            absent: known.is_none_or(|rule| rule.absent),
        };
        if (known.is_some() || several) && rule.allows_nothing(domains) {
            emptied.push(key);
        }
        left.push(rule);
    }
    if !emptied.is_empty() {
        return Err(Emptied {
            keys: emptied,
            rules: std::mem::take(rules),
        });
    }
    for rule in left {
        match rules.iter_mut().find(|known| known.key == rule.key) {
            Some(known) => known.allowed = rule.allowed,
            None => rules.push(rule),
        }
    }
    Ok(())
}

/// Topology keys without a domain left by others' anti-affinity, and the domains that were allowed
/// before.
struct Emptied {
    keys: Vec<usize>,
    rules: Vec<DomainRule>,
}

/// The group of others' anti-affinity that excludes the last domain of a key, found one after the
/// other.
fn first_emptied(
    p: &CompiledCluster<'_>,
    item: usize,
    relaxation: usize,
    emptied: &Emptied,
) -> usize {
    let it = &p.items[item];
    let mut left: FxHashMap<usize, Vec<bool>> = FxHashMap::default();
    left.extend(
        emptied
            .rules
            .iter()
            .map(|rule| (rule.key, rule.allowed.clone())),
    );
    let mut last = 0;
    for at in it.repelled_by.iter() {
        let group = &p.topology.groups[at];
        let Some(key) = group.key.filter(|key| emptied.keys.contains(key)) else {
            continue;
        };
        last = at;
        let domains = &p.topology.keys[key];
        let strict = it.relaxations[relaxation].strict.get(domains.key);
        match left.get_mut(&key) {
            None => {
                _ = left.insert(
                    key,
                    group.allowed(domains, Asking::INVERSE, strict, &p.states),
                )
            }
            Some(left) => {
                left.iter_mut()
                    .zip(&group.count)
                    .for_each(|(open, &pods)| *open &= pods == 0);
                let admitted = |value| strict.is_none_or(|s| s.admits(value, &p.states.numbers));
                if !left
                    .iter()
                    .zip(&domains.values)
                    .any(|(open, value)| *open && admitted(*value))
                {
                    return at;
                }
            }
        }
    }
    last
}

/// The state after every topology key is narrowed to allowed domains, the best ones first, such
/// that some type is big enough.
pub(super) fn narrow_domains(
    p: &mut CompiledCluster<'_>,
    state: NodeSpecId,
    rules: &[DomainRule],
    pool: usize,
    types: &BitSet,
    total: &[i64],
) -> Option<NodeSpecId> {
    let Some((rule, rest)) = rules.split_first() else {
        return p.pools[pool]
            .fit
            .any(types, &p.states.get(state).types, total)
            .then_some(state);
    };
    let (key, values) = (
        p.topology.keys[rule.key].key,
        &p.topology.keys[rule.key].values,
    );
    if p.states.lacks(state, key) {
        if !rule.absent {
            return None;
        }
        // What others on the node ask for must not give it the label later.
        let none = p.states.requirements(Sets(vec![(key, Set::none())]));
        let state = p.states.narrow(state, none)?;
        return narrow_domains(p, state, rest, pool, types, total);
    }
    let set = p.states.get(state).sets.get(key);
    if !rule.pinned {
        if rule.allowed.iter().all(|&a| a) {
            return narrow_domains(p, state, rest, pool, types, total);
        }
        let open: Vec<Symbol> = rule.order.iter().map(|&d| values[d as usize]).collect();
        let need = p.states.requirements(Sets(vec![(key, Set::of(open))]));
        let state = p.states.narrow(state, need)?;
        return narrow_domains(p, state, rest, pool, types, total);
    }
    if let Some(only) = set.and_then(Set::single) {
        let domain = values.iter().position(|&v| v == only)?;
        return if rule.allowed[domain] {
            narrow_domains(p, state, rest, pool, types, total)
        } else {
            None
        };
    }
    for at in 0..rule.order.len() {
        let value = p.topology.keys[rule.key].values[rule.order[at] as usize];
        if let Some(pinned) = p.states.pin(state, key, value)
            && let Some(found) = narrow_domains(p, pinned, rest, pool, types, total)
        {
            return Some(found);
        }
    }
    None
}

/// Types of a NodePool that its limits still admit; nothing if it has no limits.
pub fn within_limits(p: &CompiledCluster<'_>, pool: usize) -> Option<BitSet> {
    let template = &p.pools[pool];
    if template.limits.is_empty() {
        return None;
    }
    let mut types = p.states.get(template.initial).types.clone();
    for (at, t) in p.snapshot.world.catalogue.types().iter().enumerate() {
        if template
            .limits
            .iter()
            .any(|&(resource, left)| t.capacity.get(resource) > left)
        {
            types.remove(at);
        }
    }
    Some(types)
}

/// Takes the most that any of `types` has off what a NodePool's limits leave, and says what was
/// taken.
fn take_limits(p: &mut CompiledCluster<'_>, pool: usize, types: &BitSet) -> Vec<i64> {
    let charged = charges(p, pool, types);
    let template = &mut p.pools[pool];
    template.nodes_left = template.nodes_left.map(|n| n - 1);
    for ((_, left), most) in template.limits.iter_mut().zip(&charged) {
        *left -= most;
    }
    charged
}

/// The most that any of `types` has of each resource that a NodePool limits.
fn charges(p: &CompiledCluster<'_>, pool: usize, types: &BitSet) -> Vec<i64> {
    let catalogue = p.snapshot.world.catalogue.types();
    let most = |&(of, _): &(ResourceId, i64)| {
        let amounts = types.iter().map(|t| catalogue[t].capacity.get(of));
        amounts.max().unwrap_or(0)
    };
    p.pools[pool].limits.iter().map(most).collect()
}

/// The driver whose limit `have` and `more` together would pass.
pub fn over_limit(
    have: &[(Symbol, u32)],
    more: &[(Symbol, u32)],
    limits: &[(Symbol, u32)],
) -> Option<Symbol> {
    let mut all: Vec<(Symbol, u32)> = have.iter().chain(more).copied().collect();
    all.sort_unstable();
    all.dedup();
    let count = |driver: Symbol| all.iter().filter(|(d, _)| *d == driver).count();
    limits
        .iter()
        .find(|&&(driver, limit)| {
            more.iter().any(|(d, _)| *d == driver) && count(driver) > limit as usize
        })
        .map(|l| l.0)
}

/// Drops types that cannot attach all the volumes.
pub(super) fn drop_small_volumes(
    p: &CompiledCluster<'_>,
    types: &mut BitSet,
    have: &[(Symbol, u32)],
    more: &[(Symbol, u32)],
) {
    for (at, t) in p.snapshot.world.catalogue.types().iter().enumerate() {
        if types.has(at) && over_limit(have, more, &t.volume_limits).is_some() {
            types.remove(at);
        }
    }
}

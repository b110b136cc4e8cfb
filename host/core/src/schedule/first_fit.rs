//! First-fit-decreasing with every rule.
//!
//! Pod groups are tried in queue order: on existing nodes, then on claims of this plan, then on a
//! new claim of each NodePool in order of preference. If all refuse, the pod gives up one
//! preference and starts again. Unplaced pods are tried again after the others while anything
//! changes, because affinity may have been waiting for its partner.
//!
//! Price decides only ties between topology domains. The optimizer minimises cost.

mod compiled_cluster;
mod domain_rules;
mod new_claims;
mod on_claims;
mod on_nodes;

use std::cell::Cell;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::bit_set::BitSet;
use super::fit::ResourceVector;
use super::node_specs::{NodeSpecId, RequirementsId};
use super::pod_groups::{GroupUse, PodGroup};
use super::topology::PlacedAt;
use crate::ids::PodIx;
use crate::model::{HostPort, Symbol};
use crate::snapshot::SharedClaim;

pub use self::compiled_cluster::{CompiledCluster, Template, limits_left};
pub(super) use self::domain_rules::narrow_domains;
pub use self::domain_rules::{DomainRule, domain_rules};
use self::domain_rules::{open_domains, rules};
pub(super) use self::new_claims::drop_small_volumes;
pub use self::new_claims::{over_limit, within_limits};

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
    /// Pods that are placed on it.
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

    /// What its pods and so many more with this request need together.
    fn total_with(&self, request: &[i64], count: u32) -> ResourceVector {
        let both = self.total.iter().zip(request);
        both.map(|(&total, &one)| total + one * i64::from(count))
            .collect()
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
    /// Number of pods placed so far.
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
                let fits = |n: u32| fit.any(&claim.types, types, &claim.total_with(&it.request, n));
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
}

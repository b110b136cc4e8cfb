//! A cluster compiled for the search: nodes with their room, pods by class, and what can be bought.
//!
//! Pods that ask for the same amounts, the same labels, the same domains and the same rules about
//! their host are one [`PodClass`]. A pod with a rule over a domain wider than a host keeps its domain:
//! counts per domain then never change, so no topology constraint can become worse. Pods with rules
//! that are not modelled (affinity to a host) make their node one that this search does not remove.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::fill::{Demand, Filler};
use super::pack::OnOffer;
use crate::ids::{NodeIx, PodIx};
use crate::matching::untolerated;
use crate::model::{HostPort, OfferingId, ResourceId, Symbol, Toleration, TypeId};
use crate::optimize::bin_types::{BinTypes, Commitments};
use crate::optimize::classes::{Classes, Compatibility, HostRule, Stock, UnpackedPods, gather};
use crate::optimize::lp;
use crate::policy::Policies;
use crate::schedule::bit_set::BitSet;
use crate::schedule::domains::Counted;
use crate::schedule::first_fit::{Assignment, CompiledCluster};
use crate::schedule::fit::ResourceVector;
use crate::schedule::node_specs::{NodeSpecId, RequirementsId};
use crate::schedule::topology::ConstraintKind;
use crate::snapshot::{Snapshot, StateNode};
use crate::stop::Stop;

/// Pods that are interchangeable wherever they are placed.
#[derive(Clone, Debug)]
pub struct PodClass {
    /// What one pod asks for: resources, then volumes of each driver.
    pub amount: ResourceVector,
    /// Where it may be: position in [`Compiled::places`].
    pub place: usize,
    /// Rules about the pods beside it on its host.
    pub rules: SmallVec<[HostRule; 2]>,
    /// Size and place: position in [`Compiled::values`].
    pub size: usize,
}

/// Nodes that a class may be on, existing and new ones.
#[derive(Clone, Debug)]
pub struct Place {
    /// Existing nodes.
    pub nodes: BitSet,
    /// What a new node must be: a state of each NodePool that would do.
    pub states: SmallVec<[NodeSpecId; 1]>,
    /// The same as a position among the places of the market, if anything can be bought.
    pub of_market: Option<usize>,
}

/// Pods of one class on one node.
#[derive(Clone, Debug)]
pub struct Own {
    /// The class.
    pub class: u32,
    /// The pods, in queue order, with the [`Item`](crate::schedule::items::Item) and level of each.
    pub pods: Vec<PodIx>,
}

/// An existing node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Effective cost and cost of a node, USD per hour.
    pub cost: f64,
    /// Price of its offering, USD per hour; 0 if the catalogue has it no more.
    pub price: f64,
    /// What its pods and daemons leave.
    pub free: ResourceVector,
    /// Pods that move when it goes.
    pub own: Vec<Own>,
    /// Eviction cost of these pods, 1 for an ordinary pod.
    pub weight: f64,
    /// What moving these pods costs, USD per hour.
    pub move_cost: f64,
    /// The search may remove it.
    pub removable: bool,
    /// The search may place pods on it.
    pub destination: bool,
}

/// Something to buy.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Position of the NodePool in [`CompiledCluster::pools`].
    pub pool: usize,
    /// The offering.
    pub offering: OfferingId,
    /// Effective cost and cost of a node, USD per hour.
    pub cost: f64,
    /// What it leaves to pods.
    pub room: ResourceVector,
    /// Places that it is one for, by position among the places of the market.
    pub admits: BitSet,
}

/// What disruption policy and the caller say about a node.
#[derive(Clone, Debug, Default)]
pub struct NodeTerms {
    /// The rules let it go.
    pub removable: bool,
    /// Eviction cost of its pods, 1 for an ordinary pod.
    pub weight: f64,
    /// What moving these pods costs, USD per hour.
    pub move_cost: f64,
}

/// A cluster ready to search on.
pub struct Compiled<'a> {
    /// The cluster as the planner sees it.
    pub problem: CompiledCluster<'a>,
    /// Existing nodes, as in [`Snapshot::nodes`].
    pub nodes: Vec<Node>,
    /// Classes of pods that may move.
    pub classes: Vec<PodClass>,
    /// Where classes may be.
    pub places: Vec<Place>,
    /// What can be bought, cheapest first.
    pub offers: Vec<Offer>,
    /// Those worth considering for many pods, by position, cheapest first.
    pub shortlist: Vec<usize>,
    /// What one pod is worth at the margin, USD per hour, by size.
    pub values: Vec<f64>,
    /// Classes of each size.
    pub by_size: Vec<Vec<u32>>,
    /// What a unit of each resource is worth, USD per hour.
    pub scarcity: Vec<f64>,
    /// What each pod is of: group and level of preferences.
    pub members: FxHashMap<PodIx, (usize, usize, RequirementsId)>,
    /// CSI drivers whose volumes are counted, after the resources of amounts.
    pub drivers: Vec<Symbol>,
    /// Pods of capped groups on existing nodes.
    on_host: FxHashMap<(u32, u32), u16>,
}

/// Volumes of a driver that a node without a limit can attach.
const UNLIMITED: i64 = 1 << 40;
/// Topology groups are numbered from 0; rules about host ports come after all of them.
const PORT_RULES: u32 = 1 << 30;

impl<'a> Compiled<'a> {
    /// Compiles a cluster. `terms` has an entry for each node; `reserved` is room that others will
    /// take.
    pub fn new(
        snapshot: &'a Snapshot,
        policies: &dyn Policies,
        terms: &[NodeTerms],
        reserved: &[(NodeIx, PodIx)],
        rounds: usize,
    ) -> Self {
        let movable = snapshot.movable();
        let mut problem = CompiledCluster::of(snapshot, &movable, policies, &Counted::default());
        let drivers = drivers(&problem);
        let mut nodes: Vec<Node> = snapshot
            .nodes
            .iter()
            .zip(terms)
            .map(|(node, terms)| compile_node(&problem, node, terms, &drivers))
            .collect();
        for &(node, pod) in reserved {
            let shape = snapshot
                .world
                .shapes
                .get(snapshot.world.pods[pod.0 as usize].shape);
            let amounts = problem.dims.amounts(&shape.requests);
            let free = &mut nodes[node.0 as usize].free;
            free.iter_mut()
                .zip(&amounts)
                .for_each(|(free, &want)| *free -= want);
        }
        let mut classifier = Classifier::new(&problem, drivers);
        let mut group_of: FxHashMap<PodIx, usize> = FxHashMap::default();
        for (at, item) in problem.items.iter().enumerate() {
            group_of.extend(item.pods.iter().map(|&pod| (pod, at)));
        }
        let mut node_of: FxHashMap<PodIx, usize> = FxHashMap::default();
        for (at, node) in snapshot.nodes.iter().enumerate() {
            node_of.extend(node.pods.iter().map(|&pod| (pod, at)));
        }
        for pod in &movable {
            let at = node_of[&pod.pod];
            let found = group_of.get(&pod.pod);
            let class = found.and_then(|&group| classifier.class(&mut problem, group, at));
            let Some((class, level, need)) = class else {
                nodes[at].removable = false;
                continue;
            };
            classifier
                .members
                .insert(pod.pod, (found.copied().unwrap_or(0), level, need));
            let own = &mut nodes[at].own;
            match own.iter_mut().find(|own| own.class == class) {
                Some(own) => own.pods.push(pod.pod),
                None => own.push(Own {
                    class,
                    pods: vec![pod.pod],
                }),
            }
        }
        let mut compiled = classifier.finish(problem, nodes, rounds);
        compiled.shortlist = shortlist(&compiled);
        compiled
    }

    /// How many pods of a topology group were on an existing node before anything moved.
    pub fn on_host(&self, group: u32, node: usize) -> u16 {
        self.on_host
            .get(&(group, node as u32))
            .copied()
            .unwrap_or(0)
    }

    /// What one pod of a class is worth.
    pub fn value(&self, class: u32) -> f64 {
        self.values[self.classes[class as usize].size]
    }

    /// Whether an offer takes pods of a class, if it is large enough.
    pub fn offer_admits(&self, offer: usize, class: u32) -> bool {
        let place = self.places[self.classes[class as usize].place].of_market;
        place.is_some_and(|place| self.offers[offer].admits.has(place))
    }

    /// What a room is worth: the smaller of its cores and its memory.
    pub fn worth_of_room(&self, free: &[i64]) -> f64 {
        let cpu = free[0].max(0) as f64 * self.scarcity.first().copied().unwrap_or(0.0);
        let memory = free[1].max(0) as f64 * self.scarcity.get(1).copied().unwrap_or(0.0);
        2.0 * cpu.min(memory)
    }

    /// What all resources of a room are worth.
    pub fn room_in_dollars(&self, free: &[i64]) -> f64 {
        free.iter()
            .zip(&self.scarcity)
            .map(|(&free, worth)| free as f64 * worth)
            .sum()
    }

    /// What the resources of one pod are worth.
    pub fn worth_of_one(&self, class: u32) -> f64 {
        self.room_in_dollars(&self.classes[class as usize].amount)
    }

    /// What the pods of a node are worth where they are.
    pub fn own_value(&self, node: usize) -> f64 {
        self.nodes[node]
            .own
            .iter()
            .map(|own| own.pods.len() as f64 * self.value(own.class))
            .sum()
    }

    /// What a node is worth for what it costs: below 1 it would not be bought again.
    pub fn worth_per_cost(&self, node: usize) -> f64 {
        let kept = self.own_value(node) + self.nodes[node].move_cost;
        kept / self.nodes[node].cost.max(1e-9)
    }
}

/// Offers kept for each set of places and NodePool.
const SHORTLISTED: usize = 8;

/// The offers whose best contents are worth most for what they cost, a few for each set of places.
fn shortlist(c: &Compiled<'_>) -> Vec<usize> {
    let mut demand = Demand::none(c);
    for own in c
        .nodes
        .iter()
        .filter(|node| node.removable)
        .flat_map(|node| &node.own)
    {
        demand.add(c, (own.class, own.pods.len() as u32));
    }
    let mut filler = Filler::default();
    let mut groups: FxHashMap<(usize, &BitSet), Vec<(f64, usize)>> = FxHashMap::default();
    for (at, offer) in c.offers.iter().enumerate() {
        let value = filler.fill_once(c, &demand, &offer.room, &OnOffer(c, at));
        let group = groups.entry((offer.pool, &offer.admits)).or_default();
        group.push((value / offer.cost.max(1e-9), at));
    }
    let mut kept: Vec<usize> = Vec::new();
    for mut group in groups.into_values() {
        group.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        kept.extend(group.into_iter().take(SHORTLISTED).map(|(_, at)| at));
    }
    kept.sort_unstable();
    kept
}

/// CSI drivers whose volumes pods mount, in order of their names.
fn drivers(problem: &CompiledCluster<'_>) -> Vec<Symbol> {
    let mut drivers: Vec<Symbol> = problem
        .items
        .iter()
        .flat_map(|item| item.volumes.iter().map(|v| v.0))
        .collect();
    drivers.sort_by_key(|&driver| problem.states.names.text(driver));
    drivers.dedup();
    drivers
}

fn compile_node(
    p: &CompiledCluster<'_>,
    node: &StateNode,
    terms: &NodeTerms,
    drivers: &[Symbol],
) -> Node {
    let (cost, price) = costs_of(p, node);
    let mut free = p.dims.amounts(&node.free);
    for &driver in drivers {
        let limit = node.volume_limits.iter().find(|(of, _)| *of == driver);
        let used = node.volumes.iter().filter(|(of, _)| *of == driver).count() as i64;
        free.push(limit.map_or(UNLIMITED, |&(_, limit)| i64::from(limit) - used));
    }
    let node_cost = p.snapshot.world.settings.node_cost;
    Node {
        cost: cost + node_cost,
        price,
        free,
        own: Vec::new(),
        weight: terms.weight,
        move_cost: terms.move_cost,
        removable: terms.removable,
        destination: node.initialized && node.pool.is_some(),
    }
}

/// Effective cost and price of a node, USD per hour.
fn costs_of(p: &CompiledCluster<'_>, node: &StateNode) -> (f64, f64) {
    let Some(offering) = super::costs::offering_of(p.snapshot, node) else {
        return (0.0, 0.0);
    };
    let price = p.snapshot.world.catalogue.offering(offering).price;
    let name = |pool: usize| p.record(pool).name;
    let pool = (0..p.pools.len()).find(|&pool| Some(name(pool)) == node.pool);
    let cost = pool.map(|pool| p.states.scores[pool].cost[offering.0 as usize]);
    (cost.filter(|cost| cost.is_finite()).unwrap_or(price), price)
}

/// What of a pod decides where it may be.
type PlaceKey = (
    Vec<RequirementsId>,
    Vec<Toleration>,
    bool,
    SmallVec<[(usize, u32); 2]>,
);

struct Classifier {
    drivers: Vec<Symbol>,
    places: Vec<Place>,
    place_of: FxHashMap<PlaceKey, usize>,
    /// Nodes with the right labels and taints, whatever their domain.
    admitted: FxHashMap<(Vec<RequirementsId>, Vec<Toleration>, bool), BitSet>,
    classes: Vec<PodClass>,
    class_of: FxHashMap<(usize, ResourceVector, SmallVec<[HostRule; 2]>), u32>,
    /// What was found for pods of a group on a node with the same labels.
    known: FxHashMap<(usize, usize, SmallVec<[(usize, u32); 2]>), Option<u32>>,
    /// The most pods of a group on any node, for preferences over hosts.
    fullest: FxHashMap<usize, u16>,
    ports: Vec<HostPort>,
    members: FxHashMap<PodIx, (usize, usize, RequirementsId)>,
    /// Groups over hosts that some pod caps.
    capped: FxHashSet<u32>,
}

impl Classifier {
    fn new(p: &CompiledCluster<'_>, drivers: Vec<Symbol>) -> Self {
        let mut ports: Vec<HostPort> = Vec::new();
        for port in p.items.iter().flat_map(|item| &item.ports) {
            if !ports
                .iter()
                .any(|known| (known.port, known.protocol) == (port.port, port.protocol))
            {
                ports.push(*port);
            }
        }
        let mut fullest: FxHashMap<usize, u16> = FxHashMap::default();
        for (at, group) in p
            .topology
            .groups
            .iter()
            .enumerate()
            .filter(|(_, group)| group.key.is_none())
        {
            let most = (0..p.snapshot.nodes.len())
                .map(|node| group.on_host(node))
                .max();
            fullest.insert(at, most.unwrap_or(0));
        }
        Classifier {
            drivers,
            places: Vec::new(),
            place_of: FxHashMap::default(),
            admitted: FxHashMap::default(),
            classes: Vec::new(),
            class_of: FxHashMap::default(),
            known: FxHashMap::default(),
            fullest,
            ports,
            members: FxHashMap::default(),
            capped: FxHashSet::default(),
        }
    }

    /// The class of pods of a group on a node, the level of preferences that holds there, and the need.
    /// Nothing if they have rules that are not modelled.
    fn class(
        &mut self,
        p: &mut CompiledCluster<'_>,
        group: usize,
        node: usize,
    ) -> Option<(u32, usize, RequirementsId)> {
        let levels = p.items[group].relaxations.len();
        let first = suits(p, group, 0, &p.snapshot.nodes[node]);
        let level = if first { 0 } else { levels.checked_sub(1)? };
        let pins = self.pins(p, group, node)?;
        let need = *p.items[group].relaxations[level].needs.first()?;
        if let Some(&known) = self.known.get(&(group, level, pins.clone())) {
            return known.map(|class| (class, level, need));
        }
        let class = self.new_class(p, group, level, &pins);
        self.known.insert((group, level, pins), class);
        class.map(|class| (class, level, need))
    }

    fn new_class(
        &mut self,
        p: &mut CompiledCluster<'_>,
        group: usize,
        level: usize,
        pins: &SmallVec<[(usize, u32); 2]>,
    ) -> Option<u32> {
        let rules = self.host_rules(p, group)?;
        let item = &p.items[group];
        let mut amount = item.request.clone();
        for driver in &self.drivers {
            amount.push(item.volumes.iter().filter(|(of, _)| of == driver).count() as i64);
        }
        let needs = item.relaxations[level].needs.clone();
        let minds = item.relaxations[level].avoids_prefer_no_schedule;
        let key = (needs, item.shape.tolerations.clone(), minds, pins.clone());
        let place = match self.place_of.get(&key) {
            Some(&place) => place,
            None => {
                let place = self.new_place(p, &key);
                self.places.push(place);
                self.place_of.insert(key, self.places.len() - 1);
                self.places.len() - 1
            }
        };
        self.capped.extend(
            rules
                .iter()
                .filter(|rule| rule.cap != u16::MAX)
                .map(|rule| rule.group),
        );
        let classes = &mut self.classes;
        let class = *self
            .class_of
            .entry((place, amount.clone(), rules.clone()))
            .or_insert_with(|| {
                classes.push(PodClass {
                    amount,
                    place,
                    rules,
                    size: 0,
                });
                classes.len() as u32 - 1
            });
        Some(class)
    }

    /// Domains that pods of a group keep, by topology key. Nothing if the node has none of a key.
    fn pins(
        &self,
        p: &CompiledCluster<'_>,
        group: usize,
        node: usize,
    ) -> Option<SmallVec<[(usize, u32); 2]>> {
        let item = &p.items[group];
        let uses = item
            .relaxations
            .first()
            .into_iter()
            .flat_map(|variant| variant.uses.iter());
        let owned = uses.filter_map(|rule| p.topology.groups[rule.group].key);
        let mut keys: SmallVec<[usize; 4]> = owned.chain(item.keys.iter().copied()).collect();
        keys.sort_unstable();
        keys.dedup();
        let pin = |key: usize| {
            let domain = p.topology.keys[key].of_node[node];
            (domain != u32::MAX).then_some((key, domain))
        };
        keys.into_iter().map(pin).collect()
    }

    fn host_rules(&self, p: &CompiledCluster<'_>, group: usize) -> Option<SmallVec<[HostRule; 2]>> {
        let item = &p.items[group];
        if item.followed_on_host {
            return None;
        }
        let mut rules: SmallVec<[HostRule; 2]> = SmallVec::new();
        for rule in item
            .relaxations
            .first()
            .into_iter()
            .flat_map(|variant| variant.uses.iter())
        {
            let of = &p.topology.groups[rule.group];
            if of.key.is_some() {
                continue;
            }
            let fullest = self.fullest.get(&rule.group).copied().unwrap_or(0);
            let cap = match of.spec.rule {
                ConstraintKind::Spread { max_skew, .. } => {
                    max_skew.clamp(0, i32::from(u16::MAX) - 1) as u16
                }
                ConstraintKind::AntiAffinity => u16::from(rule.own),
                ConstraintKind::Affinity if rule.soft || !is_hard(p, group, rule.group) => continue,
                ConstraintKind::Affinity => return None,
                ConstraintKind::InverseAntiAffinity => continue,
            };
            let hard = is_hard(p, group, rule.group);
            let cap = if hard { cap } else { cap.max(fullest) };
            rules.push(HostRule {
                group: rule.group as u32,
                counts: rule.own,
                cap,
            });
        }
        for at in item
            .repelled_by
            .iter()
            .filter(|&at| p.topology.groups[at].key.is_none())
        {
            let counts = item.owned_anti_affinity.has(at);
            rules.push(HostRule {
                group: at as u32,
                counts,
                cap: u16::from(counts),
            });
        }
        let known: FxHashSet<u32> = rules.iter().map(|rule| rule.group).collect();
        for at in item.counted.iter().chain(item.owned_anti_affinity.iter()) {
            if p.topology.groups[at].key.is_none() && !known.contains(&(at as u32)) {
                rules.push(HostRule {
                    group: at as u32,
                    counts: true,
                    cap: u16::MAX,
                });
            }
        }
        for port in &item.ports {
            let same =
                |known: &HostPort| (known.port, known.protocol) == (port.port, port.protocol);
            let at = self.ports.iter().position(same)? as u32;
            rules.push(HostRule {
                group: PORT_RULES + at,
                counts: true,
                cap: 1,
            });
        }
        rules.sort_unstable();
        rules.dedup();
        Some(rules)
    }

    fn new_place(&mut self, p: &mut CompiledCluster<'_>, key: &PlaceKey) -> Place {
        let (needs, tolerations, minds, pins) = key;
        let base = (needs.clone(), tolerations.clone(), *minds);
        let admitted = self.admitted.entry(base).or_insert_with(|| {
            let mut bits = BitSet::none(p.snapshot.nodes.len());
            for (at, node) in p.snapshot.nodes.iter().enumerate() {
                if untolerated(tolerations, &node.taints, *minds).is_none()
                    && needs.iter().any(|&need| admits(p, need, node))
                {
                    bits.insert(at);
                }
            }
            bits
        });
        let mut nodes = admitted.clone();
        for &(key, domain) in pins {
            let of_node = &p.topology.keys[key].of_node;
            let elsewhere: Vec<usize> = nodes.iter().filter(|&at| of_node[at] != domain).collect();
            elsewhere.into_iter().for_each(|at| nodes.remove(at));
        }
        let mut states = SmallVec::new();
        for pool in 0..p.pools.len() {
            if untolerated(tolerations, &p.record(pool).taints, *minds).is_some() {
                continue;
            }
            let initial = p.pools[pool].initial;
            for &need in needs {
                let mut state = p.states.narrow(initial, need);
                for &(key, domain) in pins {
                    let (label, value) = (
                        p.topology.keys[key].key,
                        p.topology.keys[key].values[domain as usize],
                    );
                    state = state.and_then(|state| p.states.pin(state, label, value));
                }
                if let Some(state) = state {
                    states.push(state);
                    break;
                }
            }
        }
        Place {
            nodes,
            states,
            of_market: None,
        }
    }

    fn finish<'a>(
        self,
        mut p: CompiledCluster<'a>,
        nodes: Vec<Node>,
        rounds: usize,
    ) -> Compiled<'a> {
        let Classifier {
            drivers,
            mut places,
            mut classes,
            ports,
            members,
            capped,
            ..
        } = self;
        for class in &mut classes {
            class.rules.retain(|rule| capped.contains(&rule.group));
        }
        let mut count = vec![0u32; classes.len()];
        for own in nodes.iter().flat_map(|node| &node.own) {
            count[own.class as usize] += own.pods.len() as u32;
        }
        let (packed, duals, market) = price(&mut p, &places, &classes, &count, &nodes, rounds);
        for place in &mut places {
            let same = |home: &Compatibility| home.states == place.states;
            place.of_market = packed
                .compatibilities
                .iter()
                .position(same)
                .filter(|_| !place.states.is_empty());
        }
        let mut offers: Vec<Offer> = market
            .offers
            .iter()
            .filter(|offer| ever_within_limits(&p, &nodes, offer.pool, offer.instance_type))
            .map(|offer| Offer {
                pool: offer.pool,
                offering: offer.offering,
                cost: offer.cost,
                room: room_of(&p, offer.room.clone(), offer.instance_type, &drivers),
                admits: market.admits[offer.admits].clone(),
            })
            .collect();
        offers.sort_by(|a, b| {
            a.cost
                .total_cmp(&b.cost)
                .then(a.offering.cmp(&b.offering))
                .then(a.pool.cmp(&b.pool))
        });
        let (values, by_size) = sizes(&mut classes, &places, &packed, &duals, p.dims.0.len());
        let on_host = on_hosts(&p, &capped, &ports);
        let scarcity = duals.scarcity;
        Compiled {
            problem: p,
            nodes,
            classes,
            places,
            offers,
            shortlist: Vec::new(),
            values,
            by_size,
            scarcity,
            members,
            drivers,
            on_host,
        }
    }
}

/// Whether the limits of a NodePool admit a type beside its nodes that stay in any case.
fn ever_within_limits(p: &CompiledCluster<'_>, nodes: &[Node], pool: usize, kind: TypeId) -> bool {
    let pool = p.record(pool);
    if pool.limits.is_empty() && pool.node_limit.is_none() {
        return true;
    }
    let capacity = &p.snapshot.world.catalogue.instance_type(kind).capacity;
    let stay = || {
        let all = p.snapshot.nodes.iter().zip(nodes);
        all.filter(|(of, node)| of.pool == Some(pool.name) && !node.removable)
    };
    let room = |&(resource, limit): &(ResourceId, i64)| {
        let used: i64 = stay().map(|(of, _)| of.capacity.get(resource)).sum();
        used + capacity.get(resource) <= limit
    };
    pool.limits.iter().all(room)
        && pool
            .node_limit
            .is_none_or(|limit| (stay().count() as i64) < limit)
}

/// A rule that is left when all preferences are given up.
fn is_hard(p: &CompiledCluster<'_>, group: usize, rule: usize) -> bool {
    let last = p.items[group].relaxations.last();
    last.is_some_and(|last| {
        last.uses
            .iter()
            .any(|kept| kept.group == rule && !kept.soft)
    })
}

fn suits(p: &CompiledCluster<'_>, group: usize, level: usize, node: &StateNode) -> bool {
    let item = &p.items[group];
    let Some(variant) = item.relaxations.get(level) else {
        return false;
    };
    untolerated(
        &item.shape.tolerations,
        &node.taints,
        variant.avoids_prefer_no_schedule,
    )
    .is_none()
        && variant.needs.iter().any(|&need| admits(p, need, node))
}

fn admits(p: &CompiledCluster<'_>, need: RequirementsId, node: &StateNode) -> bool {
    p.states
        .need_sets(need)
        .0
        .iter()
        .all(|(key, set)| match node.labels.get(*key) {
            Some(value) => set.admits(value, &p.states.numbers),
            None => set.allows_absence(),
        })
}

fn room_of(
    p: &CompiledCluster<'_>,
    mut room: ResourceVector,
    kind: TypeId,
    drivers: &[Symbol],
) -> ResourceVector {
    let limits = &p.snapshot.world.catalogue.instance_type(kind).volume_limits;
    for &driver in drivers {
        let limit = limits.iter().find(|(of, _)| *of == driver);
        room.push(limit.map_or(UNLIMITED, |&(_, limit)| i64::from(limit)));
    }
    room
}

/// What a pod of each size is worth, by the linear program over ways to fill a node.
fn price(
    p: &mut CompiledCluster<'_>,
    places: &[Place],
    classes: &[PodClass],
    count: &[u32],
    nodes: &[Node],
    rounds: usize,
) -> (Classes, lp::Duals, BinTypes) {
    let mut one: Vec<Option<PodIx>> = vec![None; classes.len()];
    for own in nodes.iter().flat_map(|node| &node.own) {
        one[own.class as usize] = own.pods.first().copied();
    }
    let mut loose: Vec<UnpackedPods> = Vec::new();
    for (at, class) in classes.iter().enumerate() {
        let states = &places[class.place].states;
        let Some(_) = one[at].filter(|_| !states.is_empty()) else {
            continue;
        };
        let Some(member) = member_like(p, class, count[at]) else {
            continue;
        };
        loose.push((
            Compatibility {
                states: states.clone(),
            },
            class.rules.clone(),
            Stock::Identical(member),
        ));
    }
    let packed = gather(p, loose);
    let market = BinTypes::new(p, &packed, Commitments::Unlimited);
    let duals = lp::solve(&packed, &market, rounds, Stop::never());
    (packed, duals, market)
}

/// Pods of a class as the linear program wants them: any group that asks for the same.
fn member_like(p: &CompiledCluster<'_>, class: &PodClass, count: u32) -> Option<Assignment> {
    let dims = p.dims.0.len();
    let item = p
        .items
        .iter()
        .position(|item| item.request[..] == class.amount[..dims])?;
    let need = *p.items[item].relaxations.first()?.needs.first()?;
    Some(Assignment {
        pod_group: item,
        relaxation: 0,
        requirements: need,
        pods: (0, count),
    })
}

/// What any pod is worth, USD per hour. The relaxation values pods at nothing that the room of nodes
/// that stay takes; a pod of no value would be placed nowhere.
const LEAST_VALUE: f64 = 1e-9;

/// Numbers sizes (amount and place) and says what each is worth.
fn sizes(
    classes: &mut [PodClass],
    places: &[Place],
    packed: &Classes,
    duals: &lp::Duals,
    dims: usize,
) -> (Vec<f64>, Vec<Vec<u32>>) {
    let mut of_market: FxHashMap<(usize, ResourceVector), usize> = FxHashMap::default();
    for (at, class) in packed.classes.iter().enumerate() {
        of_market.insert((class.compatibility, class.amount.clone()), at);
    }
    let mut values = Vec::new();
    let mut by_size: Vec<Vec<u32>> = Vec::new();
    let mut known: FxHashMap<(usize, ResourceVector), usize> = FxHashMap::default();
    for (at, class) in classes.iter_mut().enumerate() {
        let key = (class.place, class.amount.clone());
        class.size = *known.entry(key).or_insert_with(|| {
            let amount: ResourceVector = class.amount[..dims].iter().copied().collect();
            let priced = places[class.place]
                .of_market
                .and_then(|home| of_market.get(&(home, amount.clone())));
            // What nothing can be bought for is worth what its resources are.
            let by_resources = || {
                amount
                    .iter()
                    .zip(&duals.scarcity)
                    .map(|(&a, s)| a as f64 * s)
                    .sum::<f64>()
            };
            let value = priced.map_or_else(by_resources, |&at| duals.values[at]);
            values.push(value.max(LEAST_VALUE));
            by_size.push(Vec::new());
            by_size.len() - 1
        });
        by_size[class.size].push(at as u32);
    }
    (values, by_size)
}

/// Pods of capped groups on each existing node, those that never move included.
fn on_hosts(
    p: &CompiledCluster<'_>,
    capped: &FxHashSet<u32>,
    ports: &[HostPort],
) -> FxHashMap<(u32, u32), u16> {
    let mut found = FxHashMap::default();
    for &group in capped.iter().filter(|&&group| group < PORT_RULES) {
        for node in 0..p.snapshot.nodes.len() {
            let pods = p.topology.groups[group as usize].on_host(node);
            if pods > 0 {
                found.insert((group, node as u32), pods);
            }
        }
    }
    for (at, node) in p.snapshot.nodes.iter().enumerate() {
        for (number, port) in ports.iter().enumerate() {
            let taken = node
                .ports
                .iter()
                .any(|p| (p.port, p.protocol) == (port.port, port.protocol));
            if taken {
                found.insert((PORT_RULES + number as u32, at as u32), 1);
            }
        }
    }
    found
}

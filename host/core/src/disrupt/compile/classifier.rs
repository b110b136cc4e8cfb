//! Sorts pods into classes, and says where each class may be.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::offers::{ever_within_limits, price, room_of, sizes};
use super::together::{Movable, is_hard};
use crate::disrupt::compiled::{Compiled, Member, Node, Offer, Place, PodClass, Rule};
use crate::ids::PodIx;
use crate::matching::untolerated;
use crate::model::{HostPort, Symbol, Toleration};
use crate::optimize::classes::Compatibility;
use crate::schedule::bit_set::BitSet;
use crate::schedule::first_fit::CompiledCluster;
use crate::schedule::fit::ResourceVector;
use crate::schedule::members::Members;
use crate::schedule::node_specs::RequirementsId;
use crate::schedule::pod_groups::{GroupUse, Relaxation};
use crate::schedule::topology::ConstraintKind;
use crate::snapshot::StateNode;

/// Topology groups are numbered from 0; rules about host ports come after all of them.
const PORT_RULES: u32 = 1 << 30;

/// Topology keys and the domain of each that pods keep.
type Pins = SmallVec<[(usize, u32); 2]>;
/// What of a pod decides where it may be.
type PlaceKey = (Vec<RequirementsId>, Vec<Toleration>, bool, Pins);

/// A pod of a unit.
#[derive(Clone, Debug)]
struct Part {
    place: usize,
    amount: ResourceVector,
    rules: SmallVec<[Rule; 2]>,
}

pub(super) struct Classifier {
    drivers: Vec<Symbol>,
    places: Vec<Place>,
    place_of: FxHashMap<PlaceKey, usize>,
    /// Nodes with the right labels and taints, whatever their domain.
    admitted: FxHashMap<(Vec<RequirementsId>, Vec<Toleration>, bool), BitSet>,
    classes: Vec<PodClass>,
    class_of: FxHashMap<(usize, ResourceVector, SmallVec<[Rule; 2]>, u32), u32>,
    /// What was found for a group's pods at a level of preferences, by the domains that they keep.
    parts: Vec<Part>,
    known: FxHashMap<(usize, usize, Pins), Option<usize>>,
    /// Classes by the parts of their units, sorted.
    of_parts: FxHashMap<SmallVec<[usize; 2]>, Option<u32>>,
    /// Places that all of several are, by position, sorted.
    shared: FxHashMap<SmallVec<[usize; 2]>, Option<usize>>,
    ports: Vec<HostPort>,
    members: FxHashMap<PodIx, Member>,
    /// Groups over hosts that some pod caps.
    capped: FxHashSet<u32>,
    /// Groups of rules that hold whatever is preferred.
    hard: Members,
}

impl Classifier {
    pub(super) fn new(p: &CompiledCluster<'_>, drivers: Vec<Symbol>) -> Self {
        let mut ports: Vec<HostPort> = Vec::new();
        for port in p.items.iter().flat_map(|item| &item.ports) {
            if !ports
                .iter()
                .any(|known| (known.port, known.protocol) == (port.port, port.protocol))
            {
                ports.push(*port);
            }
        }
        Classifier {
            drivers,
            places: Vec::new(),
            place_of: FxHashMap::default(),
            admitted: FxHashMap::default(),
            classes: Vec::new(),
            class_of: FxHashMap::default(),
            parts: Vec::new(),
            known: FxHashMap::default(),
            of_parts: FxHashMap::default(),
            shared: FxHashMap::default(),
            ports,
            members: FxHashMap::default(),
            capped: FxHashSet::default(),
            hard: hard_groups(p),
        }
    }

    /// The class of pods that move together. Nothing if one of them has rules that are not
    /// modelled.
    pub(super) fn unit(&mut self, p: &mut CompiledCluster<'_>, unit: &[Movable]) -> Option<u32> {
        let mut parts: SmallVec<[usize; 2]> = SmallVec::new();
        let mut members: SmallVec<[(PodIx, Member); 2]> = SmallVec::new();
        for pod in unit {
            let (part, member) = self.part(p, pod.group?, pod.node)?;
            parts.push(part);
            members.push((pod.pod, member));
        }
        parts.sort_unstable();
        let class = match self.of_parts.get(&parts) {
            Some(&known) => known,
            None => {
                let class = self.new_class(p, &parts);
                self.of_parts.insert(parts, class);
                class
            }
        };
        self.members
            .extend(members.into_iter().filter(|_| class.is_some()));
        class
    }

    fn new_class(&mut self, p: &mut CompiledCluster<'_>, parts: &[usize]) -> Option<u32> {
        let (&first, others) = parts.split_first()?;
        let Part {
            mut amount,
            mut rules,
            ..
        } = self.parts[first].clone();
        for other in others.iter().map(|&part| &self.parts[part]) {
            amount
                .iter_mut()
                .zip(&other.amount)
                .for_each(|(a, more)| *a += more);
            for rule in &other.rules {
                match rules.iter_mut().find(|known| known.group == rule.group) {
                    Some(known) => {
                        known.adds += rule.adds;
                        known.cap = known.cap.min(rule.cap);
                    }
                    None => rules.push(*rule),
                }
            }
        }
        rules.sort_unstable();
        let places = parts.iter().map(|&part| self.parts[part].place).collect();
        let place = self.shared_place(p, places)?;
        let capped = rules.iter().filter(|rule| rule.cap != u16::MAX);
        self.capped.extend(capped.map(|rule| rule.group));
        let pods = parts.len() as u32;
        let classes = &mut self.classes;
        let class = self
            .class_of
            .entry((place, amount.clone(), rules.clone(), pods))
            .or_insert_with(|| {
                classes.push(PodClass {
                    amount,
                    place,
                    rules,
                    pods,
                    size: 0,
                });
                classes.len() as u32 - 1
            });
        Some(*class)
    }

    /// Where all of some pods may be. Nothing if that is nowhere but where they are.
    fn shared_place(
        &mut self,
        p: &mut CompiledCluster<'_>,
        mut places: SmallVec<[usize; 2]>,
    ) -> Option<usize> {
        places.sort_unstable();
        places.dedup();
        let (&first, others) = places.split_first()?;
        if others.is_empty() {
            return Some(first);
        }
        if let Some(&known) = self.shared.get(&places) {
            return known;
        }
        let mut shared = self.places[first].clone();
        for other in others.iter().map(|&at| &self.places[at]) {
            shared.nodes.and(&other.nodes);
            let with = |spec| {
                let pool = p.states.get(spec).pool;
                let same = other
                    .specs
                    .iter()
                    .find(|&&of| p.states.get(of).pool == pool);
                same.copied().and_then(|of| p.states.intersect(spec, of))
            };
            shared.specs = shared.specs.iter().copied().filter_map(with).collect();
        }
        self.places.push(shared);
        let at = Some(self.places.len() - 1);
        self.shared.insert(places, at);
        at
    }

    /// What a pod of a group on a node is. Nothing if it has rules that are not modelled.
    fn part(
        &mut self,
        p: &mut CompiledCluster<'_>,
        group: usize,
        node: usize,
    ) -> Option<(usize, Member)> {
        let last = p.items[group].relaxations.len().checked_sub(1)?;
        let pins = self.pins(p, group, node)?;
        let keeps = suits(p, group, 0, &p.snapshot.nodes[node])
            && self.may_keep_preferences(p, group, &pins);
        let relaxation = if keeps { 0 } else { last };
        let requirements = *p.items[group].relaxations[relaxation].needs.first()?;
        let key = (group, relaxation, pins);
        let part = match self.known.get(&key) {
            Some(&known) => known,
            None => {
                let part = self.new_part(p, group, relaxation, &key.2);
                self.known.insert(key, part);
                part
            }
        };
        part.map(|part| {
            (
                part,
                Member {
                    group,
                    relaxation,
                    requirements,
                },
            )
        })
    }

    fn new_part(
        &mut self,
        p: &mut CompiledCluster<'_>,
        group: usize,
        relaxation: usize,
        pins: &Pins,
    ) -> Option<usize> {
        if !may_stay_in_its_domains(p, group, pins) {
            return None;
        }
        let rules = self.host_rules(p, group)?;
        let pod_group = &p.items[group];
        let mut amount = pod_group.request.clone();
        for driver in &self.drivers {
            amount.push(
                pod_group
                    .volumes
                    .iter()
                    .filter(|(of, _)| of == driver)
                    .count() as i64,
            );
        }
        let place = self.place(p, group, relaxation, pins);
        self.parts.push(Part {
            place,
            amount,
            rules,
        });
        Some(self.parts.len() - 1)
    }

    /// Whether pods of a group can have what they prefer of a node on one that is bought. A preference
    /// that only nodes which are there meet, as for the pod's own host, holds no pod: plans of new
    /// pods give it up, too.
    fn may_keep_preferences(
        &mut self,
        p: &mut CompiledCluster<'_>,
        group: usize,
        pins: &Pins,
    ) -> bool {
        let levels = &p.items[group].relaxations;
        let needs = |level: Option<&Relaxation>| level.map(|level| level.needs.clone());
        if needs(levels.first()) == needs(levels.last()) {
            return true;
        }
        let place = self.place(p, group, 0, pins);
        !self.places[place].specs.is_empty()
    }

    /// Where pods of a group may be at a level of preferences.
    fn place(
        &mut self,
        p: &mut CompiledCluster<'_>,
        group: usize,
        relaxation: usize,
        pins: &Pins,
    ) -> usize {
        let pod_group = &p.items[group];
        let level = &pod_group.relaxations[relaxation];
        let key = (
            level.needs.clone(),
            pod_group.shape.tolerations.clone(),
            level.avoids_prefer_no_schedule,
            pins.clone(),
        );
        if let Some(&place) = self.place_of.get(&key) {
            return place;
        }
        let place = self.new_place(p, &key);
        self.places.push(place);
        self.place_of.insert(key, self.places.len() - 1);
        self.places.len() - 1
    }

    /// Domains that pods of a group keep, by topology key. Nothing if the node has none of a key that
    /// a rule is about. A preference over a key that the node lacks holds no pod.
    fn pins(&self, p: &CompiledCluster<'_>, group: usize, node: usize) -> Option<Pins> {
        let pod_group = &p.items[group];
        let uses = pod_group
            .relaxations
            .first()
            .into_iter()
            .flat_map(|relaxation| relaxation.uses.iter());
        let owned = uses.filter_map(|rule| p.topology.groups[rule.group].key);
        let mut keys: SmallVec<[usize; 4]> = owned.chain(pod_group.keys.iter().copied()).collect();
        keys.sort_unstable();
        keys.dedup();
        let domain = |key: usize| p.topology.keys[key].of_node[node];
        if keys.iter().any(|key| domain(*key) == u32::MAX) {
            // Groups that are about the pod: its own rules, and those of others that must hold.
            let last = pod_group.relaxations.last().into_iter();
            let own = last.flat_map(|level| level.uses.iter().filter(|rule| !rule.soft));
            let counted = pod_group.counted.iter().chain(pod_group.repelled_by.iter());
            let counted = counted.chain(pod_group.owned_anti_affinity.iter());
            let hard = counted.filter(|group| self.hard.has(*group));
            let hard = hard.chain(own.map(|rule| rule.group));
            let hard: FxHashSet<usize> = hard
                .filter_map(|group| p.topology.groups[group].key)
                .collect();
            keys.retain(|key| domain(*key) != u32::MAX || hard.contains(key));
        }
        let pin = |key: usize| (domain(key) != u32::MAX).then_some((key, domain(key)));
        keys.into_iter().map(pin).collect()
    }

    /// Rules about the host of a pod. Affinity to it is kept by units.
    fn host_rules(&self, p: &CompiledCluster<'_>, group: usize) -> Option<SmallVec<[Rule; 2]>> {
        let pod_group = &p.items[group];
        let mut rules: SmallVec<[Rule; 2]> = SmallVec::new();
        for rule in pod_group
            .relaxations
            .first()
            .into_iter()
            .flat_map(|relaxation| relaxation.uses.iter())
        {
            let of = &p.topology.groups[rule.group];
            if of.key.is_some() {
                continue;
            }
            let cap = match of.spec.rule {
                ConstraintKind::Spread { max_skew, .. } => {
                    max_skew.clamp(0, i32::from(u16::MAX) - 1) as u16
                }
                ConstraintKind::AntiAffinity => u16::from(rule.own),
                ConstraintKind::Affinity | ConstraintKind::InverseAntiAffinity => continue,
            };
            let hard = is_hard(p, group, rule.group);
            // A preference holds no pod: plans of new pods relax it, too.
            let cap = if hard { cap } else { u16::MAX };
            rules.push(Rule {
                group: rule.group as u32,
                adds: u16::from(rule.own),
                cap,
            });
        }
        for at in pod_group
            .repelled_by
            .iter()
            .filter(|&at| p.topology.groups[at].key.is_none())
        {
            let counts = pod_group.owned_anti_affinity.has(at);
            rules.push(Rule {
                group: at as u32,
                adds: u16::from(counts),
                cap: u16::from(counts),
            });
        }
        let known: FxHashSet<u32> = rules.iter().map(|rule| rule.group).collect();
        for at in pod_group
            .counted
            .iter()
            .chain(pod_group.owned_anti_affinity.iter())
        {
            if p.topology.groups[at].key.is_none() && !known.contains(&(at as u32)) {
                rules.push(Rule {
                    group: at as u32,
                    adds: 1,
                    cap: u16::MAX,
                });
            }
        }
        for port in &pod_group.ports {
            let same =
                |known: &HostPort| (known.port, known.protocol) == (port.port, port.protocol);
            let at = self.ports.iter().position(same)? as u32;
            rules.push(Rule {
                group: PORT_RULES + at,
                adds: 1,
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
                    && needs
                        .iter()
                        .any(|&requirements| admits(p, requirements, node))
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
        let mut specs = SmallVec::new();
        for pool in 0..p.pools.len() {
            if untolerated(tolerations, &p.record(pool).taints, *minds).is_some() {
                continue;
            }
            let initial = p.pools[pool].initial;
            for &requirements in needs {
                let mut spec = p.states.narrow(initial, requirements);
                for &(key, domain) in pins {
                    let (label, value) = (
                        p.topology.keys[key].key,
                        p.topology.keys[key].values[domain as usize],
                    );
                    spec = spec.and_then(|spec| p.states.pin(spec, label, value));
                }
                if let Some(spec) = spec {
                    specs.push(spec);
                    break;
                }
            }
        }
        Place {
            nodes,
            specs,
            of_market: None,
        }
    }

    pub(super) fn finish<'a>(
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
            count[own.class as usize] += own.units;
        }
        let (packed, duals, market) = price(&mut p, &places, &classes, &count, rounds);
        for place in &mut places {
            let same = |home: &Compatibility| home.specs == place.specs;
            place.of_market = packed
                .compatibilities
                .iter()
                .position(same)
                .filter(|_| !place.specs.is_empty());
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
            unfit: FxHashMap::default(),
            on_host,
        }
    }
}

/// Groups of rules that are left when all preferences are given up.
fn hard_groups(p: &CompiledCluster<'_>) -> Members {
    let mut hard = Members::default();
    let last = p.items.iter().filter_map(|item| item.relaxations.last());
    for rule in last.flat_map(|level| level.uses.iter()) {
        if !rule.soft {
            hard.insert(rule.group);
        }
    }
    for (at, group) in p.topology.groups.iter().enumerate() {
        if group.spec.rule == ConstraintKind::InverseAntiAffinity {
            hard.insert(at);
        }
    }
    hard
}

/// Whether kube-scheduler would let a pod of a group into the domains that it is in, were it made
/// anew. Affinity and anti-affinity are not looked at again while a pod runs: what it was placed by may
/// have gone since.
fn may_stay_in_its_domains(p: &CompiledCluster<'_>, group: usize, pins: &Pins) -> bool {
    let pod_group = &p.items[group];
    let Some(uses) = pod_group
        .relaxations
        .last()
        .map(|relaxation| &relaxation.uses)
    else {
        return true;
    };
    let domain = |key: usize| pins.iter().find(|(of, _)| *of == key).map(|(_, at)| *at);
    // Pods of a group in a domain beside the pod itself.
    let others = |group: usize, own: bool| {
        let of = &p.topology.groups[group];
        let at = domain(of.key?)?;
        let all = of.count.get(at as usize).copied().unwrap_or(0);
        Some((all.saturating_sub(u32::from(own)), of))
    };
    let mine = uses.iter().filter(|rule| rule.owner && !rule.soft);
    let own_rules = mine.clone().all(|rule| {
        let Some((here, of)) = others(rule.group, rule.own) else {
            return true;
        };
        match of.spec.rule {
            ConstraintKind::Affinity if here == 0 => {
                // It may be the first of its kind, if no other is anywhere.
                let none =
                    |rule: &GroupUse| p.topology.groups[rule.group].total <= u64::from(rule.own);
                let all = || mine.clone().filter(|other| other.together);
                rule.own && none(rule) && (!rule.together || all().all(none))
            }
            ConstraintKind::AntiAffinity => here == 0,
            _ => true,
        }
    });
    let repels = |at: usize| {
        let owns = pod_group.owned_anti_affinity.has(at);
        others(at, owns).is_some_and(|(here, _)| here > 0)
    };
    own_rules && !pod_group.repelled_by.iter().any(repels)
}

fn suits(p: &CompiledCluster<'_>, group: usize, relaxation: usize, node: &StateNode) -> bool {
    let pod_group = &p.items[group];
    let Some(relaxation) = pod_group.relaxations.get(relaxation) else {
        return false;
    };
    untolerated(
        &pod_group.shape.tolerations,
        &node.taints,
        relaxation.avoids_prefer_no_schedule,
    )
    .is_none()
        && relaxation
            .needs
            .iter()
            .any(|&requirements| admits(p, requirements, node))
}

fn admits(p: &CompiledCluster<'_>, requirements: RequirementsId, node: &StateNode) -> bool {
    p.states
        .need_sets(requirements)
        .0
        .iter()
        .all(|(key, set)| match node.labels.get(*key) {
            Some(value) => set.admits(value, &p.states.numbers),
            None => set.allows_absence(),
        })
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

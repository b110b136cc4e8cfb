//! A cluster compiled for the search: nodes with their room, pods by class, and what can be bought.
//! [`compile`](super::compile) makes it.
//!
//! Pods that ask for the same amounts, the same labels, the same domains and the same rules about
//! their host are one [`PodClass`]. A pod with a rule over a domain wider than a host keeps its
//! domain: counts per domain then never change, so no topology constraint can become worse.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::verdicts::Stays;
use crate::ids::PodIx;
use crate::model::{OfferingId, Symbol};
use crate::reasons::Unfit;
use crate::schedule::bit_set::BitSet;
use crate::schedule::first_fit::CompiledCluster;
use crate::schedule::fit::ResourceVector;
use crate::schedule::node_specs::{NodeSpecId, RequirementsId};

/// Volumes of a driver that a node without a limit can attach.
pub(super) const UNLIMITED: i64 = 1 << 40;

/// A rule about what else may be on the same host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rule {
    /// The topology group.
    pub group: u32,
    /// How many pods of a unit count in it.
    pub adds: u16,
    /// Where the unit is, at most so many may count (`u16::MAX` for any).
    pub cap: u16,
}

/// Units that are interchangeable wherever they are placed. A unit is a pod, or pods that have to
/// be on one host.
#[derive(Clone, Debug)]
pub struct PodClass {
    /// What one unit asks for: resources, then volumes of each driver.
    pub amount: ResourceVector,
    /// Where it may be: position in [`Compiled::places`].
    pub place: usize,
    /// Rules about the pods beside it on its host.
    pub rules: SmallVec<[Rule; 2]>,
    /// Number of pods that a unit has.
    pub pods: u32,
    /// Size and place: position in [`Compiled::values`].
    pub size: usize,
}

/// Nodes that a class may be on, existing and new ones.
#[derive(Clone, Debug)]
pub struct Place {
    /// Existing nodes.
    pub nodes: BitSet,
    /// What a new node must be: a spec of each NodePool that would do.
    pub specs: SmallVec<[NodeSpecId; 1]>,
    /// The same as a position among the places of the market, if anything can be bought.
    pub of_market: Option<usize>,
}

/// Units of one class on one node.
#[derive(Clone, Debug)]
pub struct Own {
    /// Index into the compiled classes.
    pub class: u32,
    /// Number of units on the node.
    pub units: u32,
    /// Their pods, unit after unit, in queue order.
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
    /// Units that move when it goes.
    pub own: Vec<Own>,
    /// Eviction cost of these pods, 1 for an ordinary pod.
    pub weight: f64,
    /// What moving these pods costs, USD per hour.
    pub move_cost: f64,
    /// The search may remove it.
    pub removable: bool,
    /// A pod of it that the search cannot move under its rules. Then the node is not removable.
    pub unmovable: Option<PodIx>,
    /// The search may place pods on it.
    pub destination: bool,
    /// It is not initialised yet and will be, as far as is known: pods that have room on it wait for
    /// it.
    pub awaited: bool,
}

/// Something to buy.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Position of the NodePool in [`CompiledCluster::pools`].
    pub pool: usize,
    /// Index into the catalogue's offerings.
    pub offering: OfferingId,
    /// Effective cost and cost of a node, USD per hour.
    pub cost: f64,
    /// What it leaves to pods.
    pub room: ResourceVector,
    /// Places that it is one for, by position among the places of the market.
    pub admits: BitSet,
}

/// What a pod that may move is of.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Position in [`CompiledCluster::items`].
    pub group: usize,
    /// The relaxation of preferences that holds where it is.
    pub relaxation: usize,
    /// What it needs of a node at that relaxation.
    pub requirements: RequirementsId,
}

/// A cluster ready to search on.
pub struct Compiled<'a> {
    /// The cluster as the planner sees it.
    pub problem: CompiledCluster<'a>,
    /// Existing nodes, as in [`Snapshot::nodes`](crate::snapshot::Snapshot::nodes).
    pub nodes: Vec<Node>,
    /// Classes of pods that may move.
    pub classes: Vec<PodClass>,
    /// Sets of nodes that classes may be on.
    pub places: Vec<Place>,
    /// What can be bought, cheapest first.
    pub offers: Vec<Offer>,
    /// Those worth considering for many pods, by position, cheapest first.
    pub shortlist: Vec<usize>,
    /// What one unit is worth at the margin, USD per hour, by size.
    pub values: Vec<f64>,
    /// Classes of each size.
    pub by_size: Vec<Vec<u32>>,
    /// What a unit of each resource is worth, USD per hour.
    pub scarcity: Vec<f64>,
    /// What each pod is of.
    pub members: FxHashMap<PodIx, Member>,
    /// CSI drivers whose volumes are counted, after the resources of amounts.
    pub drivers: Vec<Symbol>,
    /// Pods that could not be scheduled anew, and why.
    pub unfit: FxHashMap<PodIx, Unfit>,
    /// Pods of capped groups on existing nodes.
    pub(super) on_host: FxHashMap<(u32, u32), u16>,
}

impl Compiled<'_> {
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

    /// Why a node stays for the sake of a pod that the search cannot move.
    pub fn unmovable(&self, pod: PodIx) -> Stays {
        match self.unfit.get(&pod) {
            Some(why) => Stays::Unschedulable(pod, why.clone()),
            None => Stays::NotModelled(pod),
        }
    }

    /// The first pod of a node among those that found no place, by class.
    pub fn stuck_pod(&self, node: usize, left: &[(u32, u32)]) -> Option<PodIx> {
        let &(class, _) = left.first()?;
        let own = self.nodes[node].own.iter().find(|own| own.class == class)?;
        own.pods.first().copied()
    }

    /// Why a node stays of whose pods these found no place; nothing if all did.
    pub fn no_place(&self, node: usize, left: &[(u32, u32)]) -> Option<Stays> {
        let pod = self.stuck_pod(node, left)?;
        let pods = self.classes[left[0].0 as usize].pods;
        Some(match pods {
            0 | 1 => Stays::NoPlace(pod),
            _ => Stays::NoPlaceTogether(pod, pods - 1),
        })
    }

    /// What the pods of a node are worth where they are.
    pub fn own_value(&self, node: usize) -> f64 {
        self.nodes[node]
            .own
            .iter()
            .map(|own| f64::from(own.units) * self.value(own.class))
            .sum()
    }

    /// What a node is worth for what it costs: below 1 it would not be bought again.
    pub fn worth_per_cost(&self, node: usize) -> f64 {
        let kept = self.own_value(node) + self.nodes[node].move_cost;
        kept / self.nodes[node].cost.max(1e-9)
    }
}

impl Node {
    /// It is not removed, for the sake of a pod.
    pub(super) fn stays_for(&mut self, pod: PodIx) {
        self.removable = false;
        self.unmovable.get_or_insert(pod);
    }

    /// Adds a unit of a class.
    pub(super) fn add(&mut self, class: u32, pods: impl Iterator<Item = PodIx>) {
        match self.own.iter_mut().find(|own| own.class == class) {
            Some(own) => {
                own.units += 1;
                own.pods.extend(pods);
            }
            None => self.own.push(Own {
                class,
                units: 1,
                pods: pods.collect(),
            }),
        }
    }
}

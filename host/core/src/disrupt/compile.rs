//! Compiles a cluster for the search.
//!
//! Pods that have to be on one host (affinity to it) move together: they are one unit of a class of
//! their own. Where they could not be scheduled anew, their node is one that this search does not
//! remove.

mod awaited;
mod classifier;
mod offers;
mod together;

use rustc_hash::FxHashMap;

use self::classifier::Classifier;
use self::together::Movable;
use super::compiled::{Compiled, Node, UNLIMITED};
use crate::ids::{NodeIx, PodIx};
use crate::model::Symbol;
use crate::policy::Policies;
use crate::schedule::domains::Counted;
use crate::schedule::first_fit::CompiledCluster;
use crate::snapshot::{PendingPod, Snapshot, StateNode};

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
        for node in awaited::nodes(snapshot) {
            nodes[node.0 as usize].awaited = true;
        }
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
        for (node, pods) in nodes.iter_mut().zip(by_node(&problem, &movable)) {
            let units = match together::units(&problem, &pods) {
                Ok(units) => units,
                Err(pod) => {
                    node.stays_for(pod);
                    continue;
                }
            };
            for unit in units {
                match classifier.unit(&mut problem, &unit) {
                    Some(class) => node.add(class, unit.iter().map(|pod| pod.pod)),
                    None => node.stays_for(unit[0].pod),
                }
            }
        }
        let mut compiled = classifier.finish(problem, nodes, rounds);
        let unfit = movable
            .into_iter()
            .filter_map(|of| Some((of.pod, of.unfit?)));
        compiled.unfit = unfit.collect();
        compiled.shortlist = offers::shortlist(&compiled);
        compiled
    }
}

/// Pods that may move, by node, in queue order.
fn by_node(p: &CompiledCluster<'_>, pods: &[PendingPod]) -> Vec<Vec<Movable>> {
    let snapshot = p.snapshot;
    let mut group_of: FxHashMap<PodIx, usize> = FxHashMap::default();
    for (at, pod_group) in p.items.iter().enumerate() {
        group_of.extend(pod_group.pods.iter().map(|&pod| (pod, at)));
    }
    let mut node_of: FxHashMap<PodIx, usize> = FxHashMap::default();
    for (at, node) in snapshot.nodes.iter().enumerate() {
        node_of.extend(node.pods.iter().map(|&pod| (pod, at)));
    }
    let mut all: Vec<Vec<Movable>> = vec![Vec::new(); snapshot.nodes.len()];
    for pod in pods.iter().map(|pending| pending.pod) {
        let Some(&node) = node_of.get(&pod) else {
            continue;
        };
        let group = group_of.get(&pod).copied();
        all[node].push(Movable { pod, group, node });
    }
    all
}

/// CSI drivers whose volumes pods mount, in order of their names.
fn drivers(problem: &CompiledCluster<'_>) -> Vec<Symbol> {
    let mut drivers: Vec<Symbol> = problem
        .items
        .iter()
        .flat_map(|pod_group| pod_group.volumes.iter().map(|v| v.0))
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
        unmovable: None,
        destination: node.initialized && node.pool.is_some(),
        awaited: false,
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

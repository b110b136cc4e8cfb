//! What nodes cost, what it costs to evict pods, and what one moved pod must save.

use rustc_hash::FxHashMap;

use crate::matching::satisfies;
pub use crate::model::MoveCost;
use crate::model::{
    ClusterObjects, ConsolidationPolicy, InstanceType, OfferingId, Pod, Symbol, TypeId,
};
use crate::snapshot::{Snapshot, StateNode};

/// A smaller gain than this, USD per hour, is none.
pub const MIN_GAIN: f64 = 1e-7;
/// The share of what a pod costs that it must save, where nothing says otherwise.
const DEFAULT: MoveCost = MoveCost::Share(0.1);
/// What a moved pod must save, for NodePools whose policy is `Balanced`.
const BALANCED: MoveCost = MoveCost::Share(0.5);

/// The offering that a node was bought as, if the catalogue has it. An offering without capacity
/// counts too: its price is what the node costs.
pub fn offering_of(snapshot: &Snapshot, node: &StateNode) -> Option<OfferingId> {
    let world = &*snapshot.world;
    let label = |key: &str| world.names.get(key).and_then(|key| node.labels.get(key));
    let kind = type_of(world, node, label("node.kubernetes.io/instance-type")?)?;
    let zone = label("topology.kubernetes.io/zone");
    let capacity = label("karpenter.sh/capacity-type");
    let rows = world.catalogue.instance_type(kind).offerings.clone();
    let of = |row: &u32| world.catalogue.offering(OfferingId(*row));
    let same = |row: &u32| of(row).zone == zone && of(row).capacity_type == capacity;
    rows.filter(same)
        .min_by(|a, b| of(a).price.total_cmp(&of(b).price))
        .map(OfferingId)
}

/// The row of a node's instance type. Of several, which differ by NodePool or NodeClass, the one
/// that no label of the node contradicts.
fn type_of(world: &ClusterObjects, node: &StateNode, name: Symbol) -> Option<TypeId> {
    let mut rows = world.catalogue.named(name).peekable();
    let (first, _) = *rows.peek()?;
    let is_its_own = |row: &InstanceType| {
        row.requirements.iter().all(|one| {
            node.labels.get(one.key).is_none() || satisfies(&node.labels, one, &world.names)
        })
    };
    let own = rows.find(|(_, row)| is_its_own(row));
    Some(own.map_or(first, |(id, _)| id))
}

/// Price of a node, USD per hour; nothing if its offering is not known.
pub fn price_of(snapshot: &Snapshot, node: &StateNode) -> Option<f64> {
    let offering = offering_of(snapshot, node)?;
    Some(snapshot.world.catalogue.offering(offering).price)
}

/// What it costs to evict a pod: 1 for an ordinary one, more for one of higher priority or deletion
/// cost, from -10 to 10.
pub fn eviction_cost(world: &ClusterObjects, pod: &Pod) -> f64 {
    let priority = f64::from(world.shapes.get(pod.shape).priority);
    let deletion = f64::from(pod.deletion_cost);
    (1.0 + deletion / f64::from(1 << 27) + priority / f64::from(1 << 25)).clamp(-10.0, 10.0)
}

/// What one moved pod of each NodePool must save, USD per hour. What the NodePool says counts before
/// `configured`, and that before the default of its policy.
pub fn move_costs(snapshot: &Snapshot, configured: Option<MoveCost>) -> FxHashMap<Symbol, f64> {
    let world = &*snapshot.world;
    let mut totals: FxHashMap<Symbol, (f64, usize)> = FxHashMap::default();
    let moves = movable_counts(snapshot);
    for (node, pods) in snapshot.nodes.iter().zip(moves) {
        let Some(pool) = node.pool else { continue };
        let total = totals.entry(pool).or_default();
        total.0 += price_of(snapshot, node).unwrap_or(0.0);
        total.1 += pods;
    }
    let cost = |pool: &crate::model::NodePool| {
        let (price, pods) = totals.get(&pool.name).copied().unwrap_or_default();
        let average = price / pods.max(1) as f64;
        let cost = |of: MoveCost| match of {
            MoveCost::Share(share) => share * average,
            MoveCost::Amount(amount) => amount,
        };
        let cost = match pool.move_cost.or(configured) {
            Some(said) => cost(said),
            // What saves exactly the share is approved, as Karpenter's `Balanced` approves it.
            None if pool.consolidation == ConsolidationPolicy::Balanced => {
                (cost(BALANCED) - 2.0 * MIN_GAIN).max(0.0)
            }
            None => cost(DEFAULT),
        };
        (pool.name, cost)
    };
    world.pools.iter().map(cost).collect()
}

/// Whether a pod has to move when its node goes. `daemon` is the symbol of `DaemonSet`.
pub fn has_to_move(pod: &Pod, daemon: Option<Symbol>) -> bool {
    pod.owner.is_none_or(|owner| Some(owner.0) != daemon) && !pod.is_static && !pod.terminal
}

/// How many pods of each node would have to move if it went.
fn movable_counts(snapshot: &Snapshot) -> Vec<usize> {
    let world = &*snapshot.world;
    let daemon = world.names.get("DaemonSet");
    let moves = |pod: &crate::ids::PodIx| has_to_move(&world.pods[pod.0 as usize], daemon);
    snapshot
        .nodes
        .iter()
        .map(|node| node.own_pods(world).filter(moves).count())
        .collect()
}

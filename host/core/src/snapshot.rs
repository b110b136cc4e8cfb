//! The observed objects, ready to plan on: nodes joined with their claims and pods, pods that
//! count, NodePools in order.

mod foreign_taints;
pub mod moves;
mod nodes;
mod pending;
mod pools;
mod running;
mod spread;
pub mod useless_purchases;
mod volumes;

use std::sync::Arc;

use rustc_hash::FxHashSet;

pub use nodes::StateNode;
pub use pending::{PendingPod, SharedClaims};
pub use running::Running;
use useless_purchases::UselessPurchases;
pub use volumes::{ClaimToBind, Given, SharedClaim, give};

use crate::ids::{PodIx, PoolIx};
use crate::model::{ClusterObjects, PodShape};
use crate::reasons::Unfit;
pub use crate::reasons::{ForeignTaintBackoff, Ineligible};

/// A cluster at one moment, with the indexes that planning needs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What was observed.
    pub world: Arc<ClusterObjects>,
    /// Nodes that count as capacity, existing and in flight: initialised ones first, then by name.
    /// Terminating nodes are not included.
    pub nodes: Vec<StateNode>,
    /// Pods to plan, in queue order (most CPU first, then most memory, then oldest, then UID).
    pub pending: Vec<PendingPod>,
    /// NodePools that may be bought from, in order of preference (weight descending, then name
    /// descending).
    pub pools: Vec<PoolIx>,
    /// NodePools that may not be bought from, by name.
    pub ineligible_pools: Vec<(PoolIx, Ineligible)>,
    /// What each DaemonSet adds to a node that it runs on: shapes of daemon pods.
    pub daemons: Vec<Arc<PodShape>>,
    /// Bound pods by shape, for topology.
    pub running: Arc<Running>,
    /// Purchases that did not help.
    pub useless: Arc<UselessPurchases>,
    /// NodePools whose nodes never joined, which try one node again.
    pub trial: Vec<PoolIx>,
    /// Nodes by position in the world that kube-scheduler compares as hosts without pods when it
    /// spreads pods over hosts: those on their way out until they are gone, and those that should be
    /// initialized for long and are not.
    pub hosts_without_pods: Vec<u32>,
}

impl Snapshot {
    /// Joins nodes with their claims and pods, selects the pods to plan, and orders the NodePools.
    pub fn new(mut world: Arc<ClusterObjects>) -> Self {
        let values = world.own_values();
        if !values.is_empty() {
            let names = &mut Arc::make_mut(&mut world).names;
            for value in values {
                names.intern(&value);
            }
        }
        if world.has_beta_rules() {
            Arc::make_mut(&mut world).use_stable_labels();
        }
        let daemons = nodes::daemons(&world);
        let mut volumes = volumes::Volumes::index(&world);
        let join = |not_here: &FxHashSet<PodIx>| {
            let joined = nodes::join(&world, &daemons, &volumes, not_here);
            let running = Running::index(&world, &joined.nodes);
            (joined, running)
        };
        let (mut joined, mut running) = join(&FxHashSet::default());
        let not_here = spread::skew_violations(&world, &joined.nodes, &running, &joined.nominated);
        if !not_here.is_empty() {
            // Others may have the room that these would have taken.
            (joined, running) = join(&not_here);
        }
        let nodes::Joined {
            nodes,
            deleting,
            hosts_without_pods,
            lost_nominations: crowded_out,
            nominated,
            moved,
        } = joined;
        let running = Arc::new(running);
        volumes.give_to(&world, &nominated, &nodes);
        let useless = UselessPurchases::of(&world);
        let pending = pending::collect(
            &world,
            &deleting,
            (&crowded_out, &moved, &nominated),
            &volumes,
            &useless,
        );
        let (pools, unusable_pools, trial) =
            pools::partition_pools(&world, &nodes, &foreign_taints::find(&world, &nodes));
        Snapshot {
            world,
            nodes,
            pending,
            pools,
            ineligible_pools: unusable_pools,
            daemons,
            running,
            useless: Arc::new(useless),
            trial,
            hosts_without_pods,
        }
    }
}

impl Snapshot {
    /// Why a pod gets no volume: all that fit one of its claims go to others.
    pub fn volumes_taken(&self, claim: u32) -> Unfit {
        let name = self.world.volume_claims[claim as usize].name;
        let name = self.world.names.text(name);
        let what = "every PersistentVolume that fits its claim";
        Unfit::Volume(format!("{what} {name} goes to another claim").into())
    }

    /// Why a pod does not get a claim that another one has.
    pub fn why_not(&self, of: SharedClaim, first: PodIx) -> Unfit {
        let world = &*self.world;
        let name = world.volume_claims[of.claim as usize].name;
        let why = match of.one_pod {
            true => volumes::used_by(world, name, first),
            false => volumes::placed_first(world, name, first),
        };
        Unfit::Volume(why.into())
    }

    /// One pod, without nodes and what runs on them: what it would be given if there were nothing
    /// else. Neither a pod of a DaemonSet nor one that has ended is given anything.
    #[must_use]
    pub fn alone(&self, pod: PodIx) -> Snapshot {
        let waits = self.pending.iter().find(|pending| pending.pod == pod);
        let waits = waits.map(|pending| PendingPod {
            shared: None,
            ..pending.clone()
        });
        let runs = || {
            let is_on = |node: &StateNode| node.pods.contains(&pod);
            let runs = self.nodes.iter().any(is_on).then_some(pod);
            let volumes = volumes::Volumes::index(&self.world);
            pending::movable(&self.world, runs, &volumes).pop()
        };
        Snapshot {
            pending: waits.or_else(runs).into_iter().collect(),
            nodes: Vec::new(),
            // Where pods run is the number of a node.
            running: Arc::new(Running::index(&self.world, &[])),
            ..self.clone()
        }
    }

    /// The pods of its nodes that would have to find another place if their node went, in queue
    /// order.
    pub fn movable(&self) -> Vec<PendingPod> {
        let own = |node| StateNode::own_pods(node, &self.world);
        let pods = self.nodes.iter().flat_map(own);
        pending::movable(&self.world, pods, &volumes::Volumes::index(&self.world))
    }
}

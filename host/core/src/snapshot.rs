//! A world made ready to plan on: nodes joined with their claims and pods, pods that count, NodePools in order.

use std::sync::Arc;

use crate::model::{HostPort, Labels, PodShape, Requirement, Resources, ShapeId, Sym, Taint, World};
use crate::plan::{PodIx, PoolIx, Unfit};

/// A cluster at one moment, with the indexes that planning needs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What was observed.
    pub world: Arc<World>,
    /// Nodes that count as capacity, existing and in flight: initialised ones first, then by name. Nodes on their way
    /// out are not here.
    pub nodes: Vec<StateNode>,
    /// Pods to plan, in queue order (most CPU first, then most memory, then oldest, then UID).
    pub pending: Vec<PendingPod>,
    /// NodePools that may be bought from, in order of preference (weight descending, then name descending).
    pub pools: Vec<PoolIx>,
    /// NodePools that may not be bought from, with the reason in words.
    pub unusable_pools: Vec<(PoolIx, Box<str>)>,
    /// What each DaemonSet adds to a node that it runs on: shapes of daemon pods.
    pub daemons: Vec<ShapeId>,
}

/// A pod to plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingPod {
    /// The pod.
    pub pod: PodIx,
    /// Its shape. Differs from the pod's own where default topology spread was added.
    pub shape: Arc<PodShape>,
    /// Requirements of its volumes: one of the alternatives must hold; empty for none.
    pub volume_alternatives: Vec<Vec<Requirement>>,
    /// CSI volumes it mounts, driver and a number for the volume (a shared claim counts once per node).
    pub volumes: Vec<(Sym, u32)>,
    /// Why it cannot be planned at all, if so.
    pub unfit: Option<Unfit>,
}

/// A node that exists, or was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct StateNode {
    /// The node's name; the claim's where there is no node yet.
    pub name: Sym,
    /// The NodePool, if a NodePool owns it.
    pub pool: Option<Sym>,
    /// Its labels: the claim's until it is registered.
    pub labels: Labels,
    /// Taints that count: startup and ephemeral ones are left out while a managed node is not initialised.
    pub taints: Vec<Taint>,
    /// What pods can have in total.
    pub allocatable: Resources,
    /// `allocatable` less bound pods, less daemons still to come. May be negative.
    pub free: Resources,
    /// Capacity, which counts against its NodePool's limits.
    pub capacity: Resources,
    /// It has joined and is ready for pods.
    pub initialized: bool,
    /// Host ports bound on it.
    pub ports: Vec<HostPort>,
    /// Most volumes by CSI driver; not named is unlimited.
    pub volume_limits: Vec<(Sym, u32)>,
    /// CSI volumes attached, driver and volume number as in [`PendingPod::volumes`].
    pub volumes: Vec<(Sym, u32)>,
    /// Pods bound to it that are neither terminal nor terminating, daemons included.
    pub pods: Vec<PodIx>,
}

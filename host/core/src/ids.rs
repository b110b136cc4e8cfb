//! Positions of pods, nodes and NodePools.

/// Index of a pod in [`ClusterObjects::pods`](crate::model::ClusterObjects::pods).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PodIx(pub u32);

/// Index of a node in [`Snapshot::nodes`](crate::snapshot::Snapshot::nodes).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIx(pub u32);

/// Index of a NodePool in [`ClusterObjects::pools`](crate::model::ClusterObjects::pools).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolIx(pub u32);

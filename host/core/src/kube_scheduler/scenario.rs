//! What a run of the model is given beside a snapshot, and what it answers.

use crate::ids::{NodeIx, PodIx, PoolIx};
use crate::model::{OfferingId, Symbol};

/// A node that may be bought. It gets the NodePool's labels and taints, and of the offering, its
/// type and the claim's requirements every label that has a single value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VirtualNode<'a> {
    /// The NodePool.
    pub pool: PoolIx,
    /// What it is bought as.
    pub offering: OfferingId,
    /// Labels with the values that the claim leaves, as in
    /// [`PlannedClaim`](crate::plan::PlannedClaim).
    pub requirements: &'a [(Symbol, Vec<Symbol>)],
}

/// Where a pod went.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SimulatedNode {
    /// A node of the snapshot.
    Existing(NodeIx),
    /// A node to be bought, by its place in the list.
    New(u32),
}

/// How nodes come up that are not ready yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NodeReadiness {
    /// All at the same time.
    Together,
    /// One after the other in any order, every waiting pod tried again at each.
    OneByOne,
}

impl NodeReadiness {
    /// Even seeds bring nodes one by one, odd ones together, so that consecutive seeds cover both.
    pub fn of(seed: u64) -> Self {
        if seed.is_multiple_of(2) {
            NodeReadiness::OneByOne
        } else {
            NodeReadiness::Together
        }
    }
}

/// What is left of a plan after kube-scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulationResult {
    /// Pods without a node, in queue order.
    pub unplaced: Vec<PodIx>,
    /// For each of them the nodes that would take it if they had room.
    pub feasible_if_larger: Vec<Vec<SimulatedNode>>,
    /// For each of them whether labels, taints and volumes of some node suit it, so that what keeps
    /// it out are rules about other pods, ports, or room.
    pub suited: Vec<bool>,
    /// Where the others went, in the order in which they were placed.
    pub placements: Vec<(PodIx, SimulatedNode)>,
}

impl SimulationResult {
    /// Whether every pod found a node.
    pub fn places_all(&self) -> bool {
        self.unplaced.is_empty()
    }
}

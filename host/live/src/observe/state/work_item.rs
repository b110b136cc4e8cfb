//! What an observation asks to have reconciled.

/// An object to reconcile.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WorkItem {
    /// A NodeClaim.
    Claim(String),
    Node(String),
    /// A NodePool.
    Pool(String),
    /// A NodeOverlay.
    Overlay(String),
    /// A command of disruption.
    Command(String),
    /// A pod that waits for a node.
    Pending,
    /// A pod was bound to a node, ended or began to go, there.
    PodEvent(String),
}

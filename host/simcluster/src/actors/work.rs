//! What is due of each actor, on one queue of events.

use crate::object::Key;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Work {
    /// A controller looks at an object of its kind.
    Reconcile(Key),
    /// The garbage collector looks at an object.
    Collect(Key),
    /// A volume comes off a node, by its attachment.
    Detach(Key),
    /// Runs due actions of a kubelet.
    Kubelet(KubeletStep),
    /// kube-scheduler looks at its queue.
    Schedule,
    /// A node is looked after: taints, evictions, pods without a node.
    Node(NodeStep),
}

/// What a kubelet does next.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum KubeletStep {
    /// A node (by UID) gets ready.
    Ready(Key, String),
    /// A pod (by UID) runs.
    Start(Key, String),
    /// A pod (by UID) has done its work.
    Finish(Key, String),
    /// A pod (by UID) has stopped.
    Stop(Key, String),
}

/// What is due next of the care for nodes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NodeStep {
    /// Taints follow the node's conditions.
    Taint(Key),
    /// Nothing has been heard of a node (by UID) for too long.
    Silent(Key, String),
    /// The cloud's controller looks whether a node (by UID) still has a machine.
    Remove(Key, String),
    /// Pods on a node that do not tolerate its taints leave.
    Evict(Key),
    /// A pod (by UID) has tolerated a taint for as long as it wanted to.
    Leave(Key, String),
    /// The pod-GC looks for pods of a node that does not exist.
    Collect(String),
}

//! Changes of what a packing counts, kept so that they can be taken back.
//!
//! A question about a cluster ("where would these pods go if that node were gone") changes a few counts of many. Taking
//! these back costs what they are; counting anew costs what the cluster is.

/// A change of the counts of a [`Topology`](super::topology::Topology). Numbers are those of groups, hosts, topology keys
/// and domains there.
#[derive(Clone, Copy, Debug)]
pub enum Undo {
    /// Pods came to a host; `first`, if there were none of the group before.
    Host {
        /// Of the pods.
        group: usize,
        /// Where they are.
        host: usize,
        /// How many.
        pods: u32,
        /// There were none before.
        first: bool,
    },
    /// A group was noted among those that keep pods away from a host.
    RepelledOn {
        /// The host.
        host: usize,
    },
    /// Pods came to a domain.
    Domain {
        /// Of the pods.
        group: usize,
        /// Where they are.
        domain: u32,
        /// How many.
        pods: u32,
    },
    /// A group was noted among those that keep pods away from a domain.
    RepelledIn {
        /// Of the domain.
        key: usize,
        /// The domain.
        domain: u32,
        /// The group.
        group: usize,
    },
    /// Pods were counted in all.
    Total {
        /// Of the pods.
        group: usize,
        /// How many.
        pods: u32,
    },
    /// A node that counted for a spread constraint is gone.
    NodeIn {
        /// The group of the constraint.
        group: usize,
        /// Where the node was.
        domain: u32,
    },
    /// A running pod is gone.
    Uncounted {
        /// Of the pod.
        group: usize,
        /// Where it was, if that is not a host.
        domain: Option<u32>,
    },
    /// A group keeps pods away from a domain no more.
    Repels {
        /// Of the domain.
        key: usize,
        /// The domain.
        domain: u32,
        /// The group.
        group: usize,
    },
}

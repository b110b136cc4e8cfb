//! A log of a packing's changes, so that they can be undone.
//!
//! A question about a cluster ("where would these pods go if that node were gone") changes a few
//! counts of many. Undoing them takes time in proportion to the changes; counting anew takes time
//! in proportion to the cluster.

/// A change of the counts of a [`Topology`](super::topology::Topology). Numbers are those of
/// groups, hosts, topology keys and domains there.
#[derive(Clone, Copy, Debug)]
pub enum Undo {
    /// Pods were placed on a host; `first` if the group had none there before.
    Host {
        /// Group of the pods.
        group: u32,
        /// The host that has them.
        host: u32,
        /// Number of pods.
        pods: u32,
        /// Whether the group had no pods on the host before.
        first: bool,
    },
    /// A group was noted among those that keep pods away from a host.
    RepelledOn {
        /// Number of the host.
        host: u32,
    },
    /// Pods were placed in a domain.
    Domain {
        /// Group of the pods.
        group: u32,
        /// Number of the domain, of the group's key.
        domain: u32,
        /// Number of pods.
        pods: u32,
    },
    /// A group was noted among those that keep pods away from a domain.
    RepelledIn {
        /// Topology key of the domain.
        key: u32,
        /// Number of the domain, of that key.
        domain: u32,
        /// The group that keeps pods away.
        group: u32,
    },
    /// Pods were added to the total count.
    Total {
        /// Group of the pods.
        group: u32,
        /// Number of pods.
        pods: u32,
    },
    /// A node that counted for a spread constraint is gone.
    NodeIn {
        /// The group of the constraint.
        group: u32,
        /// Where the node was; over hosts, the node.
        domain: u32,
    },
    /// A running pod is gone.
    Uncounted {
        /// Group of the pod.
        group: u32,
        /// Its previous domain; `u32::MAX` for a host.
        domain: u32,
    },
    /// A group keeps pods away from a domain no more.
    Repels {
        /// Topology key of the domain.
        key: u32,
        /// Number of the domain, of that key.
        domain: u32,
        /// The group that kept pods away.
        group: u32,
    },
}

/// Changes as they were made, the latest last. Above this number the log is dropped, and its owner
/// is compiled again.
#[derive(Clone, Debug)]
pub struct Log {
    changes: Vec<Undo>,
    most: usize,
    lost: bool,
}

impl Default for Log {
    /// At most 32 MB of them. Ten thousand constraints that select every pod make as many for a few
    /// hundred pods.
    fn default() -> Self {
        Log {
            changes: Vec::new(),
            most: 2_000_000,
            lost: false,
        }
    }
}

impl Log {
    /// From now on all are kept.
    pub fn keep_all(&mut self) {
        self.most = usize::MAX;
    }

    /// Notes a change, unless the log has become too long.
    pub fn push(&mut self, change: Undo) {
        if self.changes.len() >= self.most {
            (self.changes, self.lost) = (Vec::new(), true);
        }
        if !self.lost {
            self.changes.push(change);
        }
    }

    /// The latest one, taken out.
    pub fn pop(&mut self) -> Option<Undo> {
        self.changes.pop()
    }

    /// Whether some were given up.
    pub fn is_lost(&self) -> bool {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_small_and_too_many_are_given_up() {
        assert_eq!(size_of::<Undo>(), 16);
        let mut log = Log {
            most: 2,
            ..Log::default()
        };
        for host in 0..2 {
            log.push(Undo::RepelledOn { host });
        }
        assert!(!log.is_lost());
        log.push(Undo::RepelledOn { host: 2 });
        assert!(log.is_lost() && log.pop().is_none());
    }
}

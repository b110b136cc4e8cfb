//! Which conditions nodes on EC2 do not recover from, as Karpenter 1.15.1 has it.

/// A condition of Nodes that lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lasting {
    /// Its type.
    pub condition: &'static str,
    /// Its status then.
    pub status: &'static str,
    /// Regular expression that is searched for in its reason; empty for what none of the others is
    /// about.
    pub reason: &'static str,
    /// How many minutes it is tolerated.
    pub tolerated: u64,
    /// How many minutes pods have to leave after that.
    pub grace: u64,
}

const fn lasting(
    condition: &'static str,
    status: &'static str,
    reason: &'static str,
    (tolerated, grace): (u64, u64),
) -> Lasting {
    Lasting {
        condition,
        status,
        reason,
        tolerated,
        grace,
    }
}

/// All of them; every such node is replaced. The numbers are those of NVIDIA's Xid errors.
pub const LASTING: [Lasting; 9] = [
    lasting("Ready", "False", ".*", (30, 10)),
    lasting("Ready", "Unknown", ".*", (30, 10)),
    lasting("StorageReady", "False", ".*", (30, 10)),
    lasting("NetworkingReady", "False", ".*", (30, 10)),
    lasting("KernelReady", "False", ".*", (30, 10)),
    lasting("ContainerRuntimeReady", "False", ".*", (30, 10)),
    lasting(
        "AcceleratedHardwareReady",
        "False",
        "XID(64|74|79|119|120)",
        (10, 5),
    ),
    lasting(
        "AcceleratedHardwareReady",
        "False",
        "XID(46|48|54|62|63|95|109|110|136|140|143|155|156|158)",
        (10, 5),
    ),
    lasting("AcceleratedHardwareReady", "False", "", (30, 10)),
];

//! What nodes on EC2 do not recover from, as Karpenter 1.15.1 has it.

use std::time::Duration;

use longshore_cloud::{RepairAction, RepairPolicy};

const fn policy(
    condition: &'static str,
    status: &'static str,
    reason: &'static str,
    minutes: (u64, u64),
) -> RepairPolicy {
    RepairPolicy {
        condition,
        status,
        reason,
        toleration: Duration::from_secs(minutes.0 * 60),
        grace: Some(Duration::from_secs(minutes.1 * 60)),
        priority: 0,
        action: RepairAction::Replace,
    }
}

/// All of it; every such node is replaced. The numbers are those of NVIDIA's Xid errors.
pub const POLICIES: [RepairPolicy; 9] = [
    policy("Ready", "False", ".*", (30, 10)),
    policy("Ready", "Unknown", ".*", (30, 10)),
    policy("StorageReady", "False", ".*", (30, 10)),
    policy("NetworkingReady", "False", ".*", (30, 10)),
    policy("KernelReady", "False", ".*", (30, 10)),
    policy("ContainerRuntimeReady", "False", ".*", (30, 10)),
    policy(
        "AcceleratedHardwareReady",
        "False",
        "XID(64|74|79|119|120)",
        (10, 5),
    ),
    policy(
        "AcceleratedHardwareReady",
        "False",
        "XID(46|48|54|62|63|95|109|110|136|140|143|155|156|158)",
        (10, 5),
    ),
    policy("AcceleratedHardwareReady", "False", "", (30, 10)),
];

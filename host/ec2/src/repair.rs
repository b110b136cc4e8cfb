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

/// Policies where every such node is replaced. The numbers are those of NVIDIA's Xid errors.
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

/// Errors that a reboot helps against: with the gate RebootForRepair the machine starts anew.
const HELPED_BY_REBOOT: usize = 7;

const REBOOTING: [RepairPolicy; 9] = {
    let mut all = POLICIES;
    all[HELPED_BY_REBOOT].action = RepairAction::Reboot;
    all
};

/// The policies in force. `reboots` is the gate RebootForRepair.
pub fn policies(reboots: bool) -> &'static [RepairPolicy] {
    match reboots {
        true => &REBOOTING,
        false => &POLICIES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_the_gate_one_list_of_errors_is_answered_by_a_reboot() {
        let rebooted: Vec<&str> = policies(true)
            .iter()
            .filter(|policy| policy.action == RepairAction::Reboot)
            .map(|policy| policy.reason)
            .collect();
        let reason = "XID(46|48|54|62|63|95|109|110|136|140|143|155|156|158)";
        assert_eq!(rebooted, [reason]);
        let replaced = policies(false).iter();
        assert!(
            replaced
                .clone()
                .all(|policy| policy.action == RepairAction::Replace)
        );
    }
}

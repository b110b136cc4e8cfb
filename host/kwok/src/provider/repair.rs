//! What nodes without machines do not recover from, and what stands for a reboot.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use longshore_cloud::{RepairAction, RepairPolicy};
use serde_json::json;

/// How long a node may be without a kubelet that reports, or with one that reports failure.
const UNREADY_TOLERATION: Duration = Duration::from_secs(10 * 60);
/// How long a condition may stand that is set by hand.
const BY_HAND: Duration = Duration::from_secs(30);

/// What nodes do not recover from. The last two conditions are set by hand, to have a node replaced
/// or rebooted soon.
pub const POLICIES: [RepairPolicy; 4] = [
    RepairPolicy {
        condition: "Ready",
        status: "False",
        reason: "",
        toleration: UNREADY_TOLERATION,
        grace: Some(Duration::ZERO),
        priority: 0,
        action: RepairAction::Replace,
    },
    RepairPolicy {
        condition: "Ready",
        status: "Unknown",
        reason: ".*",
        toleration: UNREADY_TOLERATION,
        grace: Some(Duration::ZERO),
        priority: 0,
        action: RepairAction::Replace,
    },
    RepairPolicy {
        condition: "KWOKUnhealthy",
        status: "True",
        reason: ".*",
        toleration: BY_HAND,
        grace: Some(Duration::from_secs(45)),
        priority: 0,
        action: RepairAction::Replace,
    },
    RepairPolicy {
        condition: "KWOKRebootRequired",
        status: "True",
        reason: ".*",
        toleration: BY_HAND,
        grace: Some(Duration::from_secs(60)),
        priority: 0,
        action: RepairAction::Reboot,
    },
];

/// Gives a node the boot ID that its kubelet would report after the reboot.
pub(super) async fn reboot(
    nodes: &Api<Node>,
    node: &Node,
    operation: &str,
) -> Result<(), kube::Error> {
    let status = json!({"nodeInfo": {"bootID": format!("kwok-{operation}")}});
    let patch = json!({"metadata": {"uid": node.uid()}, "status": status});
    let params = PatchParams::default();
    nodes
        .patch_status(&node.name_any(), &params, &Patch::Merge(patch))
        .await
        .map(drop)
}

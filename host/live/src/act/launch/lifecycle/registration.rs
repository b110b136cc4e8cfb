//! Registers the Node of a NodeClaim: labels, taints, finalizer, owner.

use std::sync::Arc;

use longshore_api::crd::{ConditionStatus, NodeClaim, NodeClaimStatus, Timestamp, condition};
use longshore_api::labels;
use serde_json::{Value, json};

use super::UNREGISTERED;
use super::initialization::is_initialized;
use crate::act::claim_writes::set;
use crate::act::context::Context;
use crate::act::launch::launch_groups::GROUP;
use crate::decide::claims::FINALIZER;
use crate::observe::node::NodeView;
use crate::observe::node_claim::pool_of;
use crate::observe::planned_pods::PLANNED_PODS;
use crate::process::mutants::mutant;
use crate::process::step_error::StepError;
use longshore_core::model::conditions::REGISTERED;

const NO_TAINT_SYNC: &str = "karpenter.sh/do-not-sync-taints";

/// Longest delay of registration after the Node appeared, so that kube-scheduler sees nominations
/// first.
const MAX_NOMINATION_WAIT_SECONDS: i64 = 30;

/// Whether a node is young enough to wait for kube-scheduler to hear of nominations.
pub fn may_wait(now: Timestamp, node: &NodeView) -> bool {
    node.created.as_ref().is_some_and(|created| {
        now.as_second() < created.0.as_second() + MAX_NOMINATION_WAIT_SECONDS
    })
}

/// A claim has no node of its own yet.
pub(super) fn await_node(ctx: &Context, status: &mut NodeClaimStatus, nodes: &[Arc<NodeView>]) {
    let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
    let (to, reason, message) = if names.is_empty() {
        let message = "its node has not joined yet".to_owned();
        (ConditionStatus::Unknown, "NodeNotFound", message)
    } else {
        let message = format!("several nodes have its provider ID: {}", names.join(", "));
        (ConditionStatus::False, "MultipleNodesFound", message)
    };
    set(ctx.now(), status, REGISTERED, to, reason, &message);
}

/// Whether the node of a claim that is registered says that it is not: it is another Node than the one
/// that was registered, with the taint that a new one joins with. That it was registered a moment ago
/// the watch may not have brought yet.
pub fn joins_again(now: Timestamp, status: &NodeClaimStatus, node: &NodeView) -> bool {
    let since = condition(&status.conditions, REGISTERED).map(|c| c.last_transition_time.0);
    let long = |since: Timestamp| now.as_second() - since.as_second() > MAX_NOMINATION_WAIT_SECONDS;
    node.deletion.is_none()
        && node.taints.iter().any(|t| t.key == UNREGISTERED)
        && since.is_some_and(long)
}

/// Registers a claim's node: labels, taints, finalizer, owner. Says whether the node was initialized
/// in the same write. The claim is not written.
///
/// # Errors
/// What the server says.
pub async fn register(
    ctx: &Context,
    claim: &NodeClaim,
    node: &NodeView,
) -> Result<bool, StepError> {
    if !node.taints.iter().any(|t| t.key == UNREGISTERED) && !node.is_registered() {
        let message = "its node joined without the taint karpenter.sh/unregistered, which keeps \
            pods away until then";
        ctx.events
            .claim(claim, true, "UnregisteredTaintMissing", message)
            .await;
    }
    let mut labels = claim.metadata.labels.clone().unwrap_or_default();
    labels.insert(self::labels::REGISTERED.into(), "true".into());
    let mut own = claim.metadata.annotations.clone().unwrap_or_default();
    own.remove(PLANNED_PODS);
    own.remove(GROUP);
    let uid = claim.metadata.uid.clone().unwrap_or_default();
    let mut owners: Vec<Value> = node
        .owners
        .iter()
        .filter(|o| o["uid"] != json!(uid))
        .cloned()
        .collect();
    owners.push(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": claim.metadata.name, "uid": uid,
        "blockOwnerDeletion": true,
    }));
    let mut taints: Vec<longshore_api::crd::Taint> = node
        .taints
        .iter()
        .filter(|t| t.key != UNREGISTERED && !mutant("drops-taints"))
        .cloned()
        .collect();
    if node.labels.get(NO_TAINT_SYNC).is_none_or(|v| v != "true") {
        for taint in claim.spec.taints.iter().chain(&claim.spec.startup_taints) {
            if !taints
                .iter()
                .any(|t| (&t.key, t.effect) == (&taint.key, taint.effect))
            {
                taints.push(taint.clone());
            }
        }
    }
    let initialized = is_initialized(claim, node, &taints).is_ok();
    if initialized {
        labels.insert(self::labels::INITIALIZED.into(), "true".into());
    }
    let patch = json!({
        "metadata": {
            "resourceVersion": node.resource_version, "labels": labels, "annotations": own,
            "finalizers": node.finalizers_with(FINALIZER), "ownerReferences": owners,
        },
        "spec": {"taints": taints},
    });
    ctx.patch_node(&node.name, &patch).await?;
    Ok(initialized)
}

/// Notes that a claim's node is registered.
pub(super) fn confirm(
    ctx: &Context,
    claim: &NodeClaim,
    status: &mut NodeClaimStatus,
    node: &NodeView,
) {
    status.node_name.clone_from(&node.name);
    set(
        ctx.now(),
        status,
        REGISTERED,
        ConditionStatus::True,
        "Registered",
        "",
    );
    ctx.memory.launch.health.record(pool_of(claim), true);
    ctx.memory.launch.outcomes.note(claim, true);
    ctx.metrics.node_created(claim);
}

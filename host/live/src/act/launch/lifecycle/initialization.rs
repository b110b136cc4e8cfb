//! Whether the node of a NodeClaim is ready for pods and has what was promised.

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_api::crd::{ConditionStatus, NodeClaim, NodeClaimStatus};
use longshore_api::labels;
use longshore_core::disrupt::verdicts::COMMAND;
use longshore_core::model::conditions::CONSISTENT_STATE_FOUND;
use serde_json::json;

use super::UNREGISTERED;
use super::liveness::time_in;
use crate::act::claim_writes::set;
use crate::act::context::Context;
use crate::act::end::proof;
use crate::act::end::termination::DrainingPod;
use crate::observe::node::NodeView;
use crate::observe::node_claim::{NEVER_READY_LIMIT, is_true, pool_of};
use crate::observe::overlays::added_capacity;
use crate::process::step_error::StepError;
use longshore_core::model::conditions::{INITIALIZED, REGISTERED};

pub(super) async fn initialize(
    ctx: &Context,
    claim: &NodeClaim,
    status: &mut NodeClaimStatus,
    nodes: &[Arc<NodeView>],
) -> Result<(), StepError> {
    let [node] = nodes else {
        if !is_true(status, INITIALIZED) {
            set(
                ctx.now(),
                status,
                INITIALIZED,
                ConditionStatus::Unknown,
                "NodeNotFound",
                "there is no node of its own",
            );
        }
        return Ok(());
    };
    if is_true(status, INITIALIZED) {
        consistency(ctx, claim, status, node).await;
        return Ok(());
    }
    if let Err((reason, message)) = is_initialized(claim, node, &node.taints) {
        set(
            ctx.now(),
            status,
            INITIALIZED,
            ConditionStatus::Unknown,
            reason,
            &message,
        );
        return Ok(());
    }
    let patch = json!({"metadata": {"labels": {labels::INITIALIZED: "true"}}});
    ctx.patch_node(&node.name, &patch).await?;
    note_initialized(ctx, claim, status);
    Ok(())
}

/// Notes that a claim's node is ready for pods.
pub(super) fn note_initialized(ctx: &Context, claim: &NodeClaim, status: &mut NodeClaimStatus) {
    set(
        ctx.now(),
        status,
        INITIALIZED,
        ConditionStatus::True,
        "Initialized",
        "",
    );
    ctx.memory.launch.registrations.joined(pool_of(claim));
}

/// Whether the node of a claim has had its time to become ready for pods, and none but daemons run on
/// it. A node that must not be disrupted stays, so that an operator can look at it.
pub(super) async fn never_got_ready(
    ctx: &Context,
    claim: &NodeClaim,
    status: &NodeClaimStatus,
    nodes: &[Arc<NodeView>],
) -> Result<bool, StepError> {
    let [node] = nodes else { return Ok(false) };
    let annotations = claim.metadata.annotations.as_ref();
    let is_kept = |all: &BTreeMap<String, String>| {
        all.get(labels::DO_NOT_DISRUPT)
            .is_some_and(|kept| kept == "true")
    };
    let is_waited_for = is_true(status, INITIALIZED)
        || time_in(ctx.now(), claim, status, REGISTERED) < NEVER_READY_LIMIT;
    let is_of_command = annotations.is_some_and(|all| all.contains_key(COMMAND));
    if is_waited_for
        || is_of_command
        || pool_of(claim).is_empty()
        || is_kept(&node.annotations)
        || annotations.is_some_and(is_kept)
    {
        return Ok(false);
    }
    let (pods, _) = proof::pods_on::<DrainingPod>(&ctx.client, &node.name).await?;
    Ok(!pods.iter().any(DrainingPod::uses))
}

/// Whether a node with these taints can do what its claim promises; if not, the reason and a
/// sentence.
pub(super) fn is_initialized(
    claim: &NodeClaim,
    node: &NodeView,
    taints: &[longshore_api::crd::Taint],
) -> Result<(), (&'static str, String)> {
    if !node.is_ready() {
        return Err(("NodeNotReady", "its node is not Ready".to_owned()));
    }
    let startup = |t: &&longshore_api::crd::Taint| {
        claim
            .spec
            .startup_taints
            .iter()
            .any(|s| (&s.key, s.effect) == (&t.key, t.effect))
    };
    if let Some(taint) = taints.iter().find(startup) {
        return Err((
            "StartupTaintsExist",
            format!("startup taint {} has not been removed", taint.key),
        ));
    }
    if let Some(taint) = taints.iter().find(|t| is_ephemeral(t)) {
        return Err((
            "KnownEphemeralTaintsExist",
            format!("taint {} has not been removed", taint.key),
        ));
    }
    let missing = claim
        .spec
        .resources
        .requests
        .iter()
        .find(|(resource, asked)| {
            !is_zero(&asked.0)
                && node
                    .allocatable
                    .get(*resource)
                    .is_none_or(|amount| is_zero(amount))
        });
    match missing {
        Some((resource, _)) => Err((
            "ResourceNotRegistered",
            format!("the Node does not report {resource} yet"),
        )),
        None => Ok(()),
    }
}

/// A node must have at least nine tenths of what its claim was promised.
pub(super) async fn consistency(
    ctx: &Context,
    claim: &NodeClaim,
    status: &mut NodeClaimStatus,
    node: &NodeView,
) {
    let amount = |text: &str| {
        longshore_api::quantity::Quantity::parse(text)
            .and_then(|q| q.milli())
            .unwrap_or(0)
    };
    // Those that NodeOverlays add are there once their device plugin runs.
    let added = added_capacity(claim);
    let mut of_cloud = status
        .capacity
        .iter()
        .filter(|(of, _)| !added.contains_key(*of));
    let short = of_cloud.find(|(resource, promised)| {
        let has = node.capacity.get(*resource).map_or(0, |text| amount(text));
        amount(&promised.0) / 10 * 9 > has
    });
    let Some((resource, promised)) = short else {
        set(
            ctx.now(),
            status,
            CONSISTENT_STATE_FOUND,
            ConditionStatus::True,
            "ConsistentStateFound",
            "",
        );
        return;
    };
    let has = node
        .capacity
        .get(resource)
        .map_or("nothing", String::as_str);
    let message = format!("expected {} of {resource}, its node has {has}", promised.0);
    let reason = "ConsistencyCheckFailed";
    if set(
        ctx.now(),
        status,
        CONSISTENT_STATE_FOUND,
        ConditionStatus::False,
        reason,
        &message,
    ) {
        ctx.events
            .claim(claim, true, "FailedConsistencyCheck", &message)
            .await;
    }
}

fn is_ephemeral(taint: &longshore_api::crd::Taint) -> bool {
    matches!(
        taint.key.as_str(),
        "node.kubernetes.io/not-ready"
            | "node.kubernetes.io/unreachable"
            | "node.cloudprovider.kubernetes.io/uninitialized"
            | UNREGISTERED
    ) || taint.key.starts_with("readiness.k8s.io/")
}

pub(super) fn is_zero(text: &str) -> bool {
    text.trim_end_matches(|c: char| c.is_ascii_alphabetic())
        .parse::<f64>()
        .is_ok_and(|n| n == 0.0)
}

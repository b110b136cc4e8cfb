//! Reboots of nodes whose cloud says that this helps.
//!
//! The state of a reboot is on the NodeClaim: condition `Rebooting` is True with the reason
//! [`REQUESTED`], then [`ISSUED`], and False in the end. A process that is killed anywhere leaves a
//! reboot that the next one carries on:
//!
//! 1. [`commit`] writes how long pods may take, then the conditions;
//! 2. the node gets the taint [`TAINT`], its pods are evicted, and those left over stay;
//! 3. its boot ID is written down, and the cloud is asked until it accepts;
//! 4. Initialized is Unknown until the Node has another boot ID and is ready.
//!
//! A reboot that fails ends with the node's replacement. Its taint stays then: nothing may come to
//! a node that goes. Rules and figures: Karpenter 1.15, `pkg/controllers/nodeclaim/reboot`. Unlike
//! there, what was tried is remembered on the NodeClaim and not in memory.

pub mod phase;

use std::sync::Arc;
use std::time::Duration;

use longshore_api::crd::{
    ConditionStatus, NodeClaim, NodeClaimStatus, Taint, TaintEffect, Time, Timestamp, condition,
    duration, set_condition,
};
use longshore_api::labels;
use longshore_cloud::{RebootError, RepairAction};
pub use longshore_core::disrupt::verdicts::REBOOTING;
use serde_json::{Value, json};

use super::policies::{RepairPolicies, Unhealthy};
use crate::act::claim_writes::{delete, patch_meta, patch_status, set_ready};
use crate::act::context::Context;
use crate::act::end::proof;
use crate::act::end::termination;
use crate::decide::command::candidate_of;
use crate::observe::node::NodeView;
use crate::observe::node_claim::{TERMINATION_TIME, rfc3339, termination_time};
use crate::process::step_error::{StepError, StepOutcome};
use longshore_core::model::conditions::{DISRUPTION_REASON, INITIALIZED};
use phase::{ATTEMPTED, BOOT_ID, Due, GRACE, REBOOTS, is_rebooting};
pub use phase::{ISSUED, TAINT};

/// Reason of condition Rebooting before the cloud has accepted it.
pub const REQUESTED: &str = "RebootRequested";

/// How often it is looked whether pods have left.
const DRAIN_POLL: Duration = Duration::from_secs(1);
/// How often it is looked whether a machine is back; the watch is usually earlier.
const RECOVERY_POLL: Duration = Duration::from_secs(15);
/// When a step goes on that has written something.
const NEXT_STEP_DELAY: Duration = Duration::from_millis(200);

/// Begins a reboot if the server itself says that it is due. Says whether it was.
///
/// # Errors
/// What the server says.
pub async fn commit(
    ctx: &Context,
    policies: &RepairPolicies,
    claim: &NodeClaim,
    node: &NodeView,
) -> Result<bool, StepError> {
    ctx.may_write()?;
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let live = proof::node(&ctx.client, &node.name).await?;
    let live = live.filter(|live| live.provider_id == node.provider_id);
    let Some((live, claim)) = live.zip(proof::claim(&ctx.client, name).await?) else {
        return Ok(false);
    };
    let taken = claim.metadata.deletion_timestamp.is_some()
        || candidate_of(&claim).is_some()
        || phase::is_under_way(&claim);
    let now = ctx.now().as_second();
    let unhealthy = policies.of(&live, phase::ended(&claim), now);
    let due = unhealthy.as_ref().and_then(|unhealthy| unhealthy.due);
    let due = due.filter(|due| due.action == RepairAction::Reboot && !taken);
    let Some((unhealthy, due)) = unhealthy.zip(due) else {
        return Ok(false);
    };
    let bound = bound(due.grace, &claim);
    let mut reboots: Vec<String> = phase::recent(&claim, now)
        .into_iter()
        .filter_map(|at| longshore_api::crd::Timestamp::from_second(at).ok())
        .map(rfc3339)
        .collect();
    reboots.push(rfc3339(ctx.now()));
    let annotations = json!({
        GRACE: bound.map(|seconds| format!("{seconds}s")),
        BOOT_ID: Value::Null,
        ATTEMPTED: Value::Null,
        REBOOTS: reboots.join(","),
    });
    let version = patch_meta(ctx, &claim, json!({"annotations": annotations})).await?;
    request(ctx, &claim, version.as_deref(), &unhealthy).await?;
    tracing::info!(
        nodeclaim = name,
        node = live.name,
        condition = unhealthy.text(),
        reason = unhealthy.reason,
        "rebooting"
    );
    ctx.metrics.disruption.rebooted();
    let mode = super::mode(bound);
    ctx.metrics.unhealthy(&unhealthy.condition, mode, &claim);
    Ok(true)
}

async fn request(
    ctx: &Context,
    claim: &NodeClaim,
    version: Option<&str>,
    unhealthy: &Unhealthy,
) -> Result<(), StepError> {
    let mut status = claim.status.clone().unwrap_or_default();
    let message = format!("rebooting for {}/{}", unhealthy.condition, unhealthy.reason);
    let (yes, now) = (ConditionStatus::True, || Time(ctx.now()));
    let why = "its node is rebooted: Unhealthy";
    set_condition(
        &mut status.conditions,
        DISRUPTION_REASON,
        yes,
        "Unhealthy",
        why,
        now(),
    );
    set_condition(
        &mut status.conditions,
        REBOOTING,
        yes,
        REQUESTED,
        &message,
        now(),
    );
    patch_status(ctx, claim, version, &status).await.map(drop)
}

/// The shorter of what a policy and a NodeClaim give the pods, seconds; nothing if neither says.
pub fn bound(policy: Option<i64>, claim: &NodeClaim) -> Option<i64> {
    let own = claim.spec.termination_grace_period.as_deref();
    let own = own.and_then(|text| duration::duration(text).ok());
    let own = own.and_then(|own| i64::try_from(own.as_secs()).ok());
    policy.into_iter().chain(own).min()
}

/// Does what is due for a NodeClaim whose node is being rebooted. `nodes` are those with its
/// provider ID.
pub async fn step(ctx: &Context, claim: &NodeClaim, nodes: &[Arc<NodeView>]) -> StepOutcome {
    let node = match nodes {
        [node] => Some(&**node),
        _ => None,
    };
    let now = ctx.now().as_second();
    match (phase::due(claim, node, now), node) {
        (Due::Close, Some(node)) => {
            let mut taints = node.taints.clone();
            taints.push(Taint {
                key: TAINT.into(),
                value: String::new(),
                effect: TaintEffect::NoSchedule,
                time_added: None,
            });
            ctx.write_taints(node, &taints).await?;
            Ok(Some(NEXT_STEP_DELAY))
        }
        (Due::Drain { until, least }, Some(node)) => {
            let left = termination::evict_from(ctx, node).await?;
            if left == 0 && now >= least {
                return note(ctx, claim, node).await;
            }
            let until = until.map_or(DRAIN_POLL, |until| left_of(until - now));
            Ok(Some(DRAIN_POLL.min(until)))
        }
        (Due::Note, Some(node)) => note(ctx, claim, node).await,
        (Due::Ask(operation), Some(node)) => ask(ctx, claim, node, &operation).await,
        (Due::Confirm, Some(_)) => issued(ctx, claim).await,
        (Due::Unready, Some(node)) => {
            let metadata = json!({"labels": {labels::INITIALIZED: Value::Null}});
            ctx.patch_node(&node.name, &json!({"metadata": metadata}))
                .await?;
            Ok(Some(RECOVERY_POLL))
        }
        (Due::Open, Some(node)) => {
            open(ctx, node).await?;
            let message = format!("Node {} has started anew", node.name);
            ctx.events
                .claim(claim, false, "RebootObserved", &message)
                .await;
            Ok(Some(NEXT_STEP_DELAY))
        }
        (Due::Succeed, Some(_)) => succeed(ctx, claim).await,
        (Due::Wait(left), _) => Ok(Some(RECOVERY_POLL.min(left_of(left)))),
        (Due::Fail(result, why), _) => fail(ctx, claim, result, &why).await,
        (Due::Refuse(why), node) => {
            if let Some(node) = node {
                open(ctx, node).await?;
            }
            let text = format!("Reboot failed, and the node stays: {why}");
            ctx.events.claim(claim, true, "RebootFailed", &text).await;
            ended(ctx, claim, "invalid_request");
            end(ctx, claim, "RebootFailed", &why).await
        }
        // These are due for a node that is there.
        (_, None) => Ok(Some(RECOVERY_POLL)),
    }
}

/// Writes down what the machine says of itself, before the cloud is asked.
async fn note(ctx: &Context, claim: &NodeClaim, node: &NodeView) -> StepOutcome {
    ctx.memory.end.drains.end(&node.name);
    let live = proof::node(&ctx.client, &node.name).await?;
    let live = live.filter(|live| live.uid == node.uid);
    let Some(live) = live else {
        return Ok(Some(RECOVERY_POLL));
    };
    let asked = rfc3339(ctx.now());
    let annotations = json!({BOOT_ID: live.boot_id, ATTEMPTED: asked});
    patch_meta(ctx, claim, json!({"annotations": annotations})).await?;
    Ok(Some(NEXT_STEP_DELAY))
}

async fn ask(ctx: &Context, claim: &NodeClaim, node: &NodeView, operation: &str) -> StepOutcome {
    ctx.may_write()?;
    match ctx.provider.reboot(&node.provider_id, operation).await {
        Ok(()) => issued(ctx, claim).await,
        Err(RebootError::Again(error)) => Err(error.into()),
        Err(error) => fail(ctx, claim, "provider_error", &error.to_string()).await,
    }
}

/// The cloud has accepted a reboot. The time of Initialized says since when.
async fn issued(ctx: &Context, claim: &NodeClaim) -> StepOutcome {
    let mut status = claim.status.clone().unwrap_or_default();
    let (conditions, now) = (&mut status.conditions, || Time(ctx.now()));
    let message = condition(conditions, REBOOTING).map(|c| c.message.clone());
    let message = message.unwrap_or_default();
    set_condition(
        conditions,
        REBOOTING,
        ConditionStatus::True,
        ISSUED,
        &message,
        now(),
    );
    conditions.retain(|c| c.type_ != INITIALIZED);
    let unknown = ConditionStatus::Unknown;
    let why = "its machine is being rebooted";
    set_condition(conditions, INITIALIZED, unknown, REBOOTING, why, now());
    set_ready(ctx.now(), &mut status);
    let version = claim.metadata.resource_version.as_deref();
    patch_status(ctx, claim, version, &status).await?;
    Ok(Some(NEXT_STEP_DELAY))
}

async fn succeed(ctx: &Context, claim: &NodeClaim) -> StepOutcome {
    let status = claim.status.clone().unwrap_or_default();
    ended(ctx, claim, "succeeded");
    ctx.metrics
        .reboots
        .recovered(since(ctx.now(), &status, INITIALIZED));
    let name = claim.metadata.name.as_deref();
    tracing::info!(nodeclaim = name, "rebooted");
    end(ctx, claim, "RebootSucceeded", "").await
}

/// A reboot is over and its node stays.
async fn end(ctx: &Context, claim: &NodeClaim, reason: &str, message: &str) -> StepOutcome {
    let none = json!({GRACE: Value::Null, BOOT_ID: Value::Null, ATTEMPTED: Value::Null});
    let version = patch_meta(ctx, claim, json!({"annotations": none})).await?;
    let mut status = claim.status.clone().unwrap_or_default();
    status.conditions.retain(|c| c.type_ != DISRUPTION_REASON);
    let (conditions, now) = (&mut status.conditions, Time(ctx.now()));
    set_condition(
        conditions,
        REBOOTING,
        ConditionStatus::False,
        reason,
        message,
        now,
    );
    patch_status(ctx, claim, version.as_deref(), &status).await?;
    Ok(Some(NEXT_STEP_DELAY))
}

/// A reboot has failed: its node is replaced.
async fn fail(ctx: &Context, claim: &NodeClaim, result: &'static str, why: &str) -> StepOutcome {
    let text = format!("Reboot failed, and the node is replaced: {why}");
    let claim = match phase::grace(claim) {
        Ok(Some(grace)) => end_within(ctx, claim, grace).await?,
        _ => claim.clone(),
    };
    if delete(ctx, &claim, &format!("its reboot failed: {why}")).await? {
        ctx.events.claim(&claim, true, "RebootFailed", &text).await;
        ended(ctx, &claim, result);
        ctx.disrupted("unhealthy", &claim);
    }
    Ok(None)
}

/// Bounds how long the pods of a NodeClaim that is about to be deleted may take, seconds. A bound
/// that it has is only ever made shorter. Returns the NodeClaim in its new version.
///
/// # Errors
/// What the server says.
pub async fn end_within(
    ctx: &Context,
    claim: &NodeClaim,
    seconds: i64,
) -> Result<NodeClaim, StepError> {
    let mut claim = claim.clone();
    let now = ctx.now();
    let span = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let end = now.checked_add(span).unwrap_or(now);
    if termination_time(&claim).is_none_or(|known| known > end) {
        let fields = json!({"annotations": {TERMINATION_TIME: rfc3339(end)}});
        claim.metadata.resource_version = patch_meta(ctx, &claim, fields).await?;
    }
    Ok(claim)
}

fn ended(ctx: &Context, claim: &NodeClaim, result: &str) {
    let status = claim.status.clone().unwrap_or_default();
    let seconds = since(ctx.now(), &status, REBOOTING);
    ctx.metrics.reboots.ended(result, seconds);
}

/// Seconds since a condition changed its status.
fn since(now: Timestamp, status: &NodeClaimStatus, what: &str) -> f64 {
    let at = condition(&status.conditions, what).map(|c| c.last_transition_time.0.as_second());
    at.map_or(0.0, |at| (now.as_second() - at).max(0) as f64)
}

fn left_of(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0).max(1))
}

/// Lets kube-scheduler use a node again.
async fn open(ctx: &Context, node: &NodeView) -> Result<(), StepError> {
    if !phase::is_closed(node) {
        return Ok(());
    }
    let others = node.taints.iter().filter(|taint| !is_rebooting(taint));
    let others: Vec<Taint> = others.cloned().collect();
    ctx.write_taints(node, &others).await
}

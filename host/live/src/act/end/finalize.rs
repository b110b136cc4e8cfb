//! The end of a NodeClaim: its Node goes first, then the instance, then the claim.
//!
//! An instance is terminated only if its Node is gone or never joined. The API server is asked for
//! that, because a Node missing from the state may only mean that a watch lags.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use longshore_api::crd::{
    ConditionStatus, NodeClaim, Time, Timestamp, condition, duration, set_condition,
};
use longshore_cloud::{CloudError, Instance};
use serde_json::json;
use tokio::time::Instant;

use super::proof;
use crate::act::claim_writes::{patch_meta, patch_status};
use crate::act::context::Context;
use crate::act::launch::launch_groups;
use crate::act::launch::launches::MAX_LISTING_DELAY;
use crate::decide::claims::FINALIZER;
use crate::observe::node::NodeView;
use crate::observe::node_claim::{TERMINATION_TIME, has_failed_to_join, is_true, pool_of, rfc3339};
use crate::process::mutants::mutant;
use crate::process::step_error::{StepError, StepOutcome};
use longshore_core::model::conditions::{INSTANCE_TERMINATING, REGISTERED};

/// How long until its Node is checked again; the watch is usually earlier.
const NODE_POLL: Duration = Duration::from_secs(5);
/// How often the cloud is asked whether it lists an instance by now.
const UNLISTED_INSTANCE_POLL: Duration = Duration::from_secs(60);
/// How long a member of a launch group that is being deleted leaves the group's instances to others.
const LAUNCH_GROUP_WAIT: Duration = Duration::from_secs(60);
/// How often the cloud is asked for a terminating instance that has no Node any more: its NodeClaim
/// alone waits for it.
const CLAIM_TERMINATION_POLL: Duration = Duration::from_secs(2);

/// Ends what belongs to a claim that is being deleted. `nodes` are those with its provider ID, as
/// far as the state knows.
pub async fn finalize(ctx: &Context, claim: &NodeClaim, nodes: &[Arc<NodeView>]) -> StepOutcome {
    let mut finalizers = claim.metadata.finalizers.iter().flatten();
    if !finalizers.any(|f| f == FINALIZER) {
        return Ok(None);
    }
    if has_failed_to_join(claim) {
        ctx.memory
            .launch
            .registrations
            .failed(pool_of(claim), uid_of(claim));
    }
    if write_termination_time(ctx, claim).await? {
        return Ok(None);
    }
    let id = match provider_id(ctx, claim).await? {
        Owned::Instance(id) => Some(id),
        Owned::Nothing => None,
        Owned::Unlisted(left) => return Ok(Some(left.min(UNLISTED_INSTANCE_POLL))),
    };
    if let Some(id) = &id
        && end_nodes(ctx, claim, id, nodes).await?
    {
        return Ok(Some(NODE_POLL));
    }
    if let Some(id) = id.filter(|_| !mutant("leaks-instance"))
        && end_instance(ctx, claim, &id).await?
    {
        return Ok(Some(CLAIM_TERMINATION_POLL));
    }
    release(ctx, claim).await?;
    note_end(ctx, claim);
    Ok(None)
}

fn uid_of(claim: &NodeClaim) -> &str {
    claim.metadata.uid.as_deref().unwrap_or_default()
}

/// When the end of a claim was asked for.
fn deleted_at(claim: &NodeClaim, now: Timestamp) -> Timestamp {
    let deleted = claim.metadata.deletion_timestamp.as_ref();
    deleted.map_or(now, |t| t.0)
}

/// Writes when the pods of a claim with a grace period go whatever they say. Says whether that was
/// missing.
async fn write_termination_time(ctx: &Context, claim: &NodeClaim) -> Result<bool, StepError> {
    let grace = claim.spec.termination_grace_period.as_deref();
    let Some(grace) = grace.and_then(|text| duration::duration(text).ok()) else {
        return Ok(false);
    };
    let annotations = claim.metadata.annotations.as_ref();
    if annotations.is_some_and(|own| own.contains_key(TERMINATION_TIME)) {
        return Ok(false);
    }
    let deleted = deleted_at(claim, ctx.now());
    let end = deleted.checked_add(jiff_span(grace)).unwrap_or(deleted);
    let written = json!({"annotations": {TERMINATION_TIME: rfc3339(end)}});
    patch_meta(ctx, claim, written).await?;
    Ok(true)
}

/// Asks for the end of an instance. Says whether it still ends.
async fn end_instance(ctx: &Context, claim: &NodeClaim, id: &str) -> Result<bool, StepError> {
    ctx.may_write()?;
    match ctx.provider.delete(id).await {
        Err(CloudError::NotFound(_)) => Ok(false),
        Err(error) => Err(error.into()),
        Ok(()) => {
            say_ending(ctx, claim).await?;
            Ok(true)
        }
    }
}

/// Takes the finalizer from a claim that owns nothing any more.
async fn release(ctx: &Context, claim: &NodeClaim) -> Result<(), StepError> {
    let finalizers = claim.metadata.finalizers.iter().flatten();
    let rest: Vec<&String> = finalizers.filter(|f| *f != FINALIZER).collect();
    match patch_meta(ctx, claim, json!({"finalizers": rest})).await {
        Ok(_) | Err(StepError::Gone) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Forgets a claim that was released, and says how long that took.
fn note_end(ctx: &Context, claim: &NodeClaim) {
    ctx.memory.launch.groups.done(claim);
    ctx.memory.launch.launches.forget(uid_of(claim));
    if ctx.observes() {
        let message = format!("Finalized {FINALIZER}");
        ctx.events.claim_if_few(claim, false, "Finalized", message);
    }
    tracing::info!(
        nodeclaim = claim.metadata.name,
        nodepool = pool_of(claim),
        "deleted NodeClaim"
    );
    let since = |at: Timestamp| (ctx.now().as_second() - at.as_second()).max(0) as f64;
    let status = claim.status.as_ref();
    let ending = status.and_then(|s| condition(&s.conditions, INSTANCE_TERMINATING));
    ctx.metrics.terminated(
        claim,
        since(deleted_at(claim, ctx.now())),
        ending.map(|c| since(c.last_transition_time.0)),
    );
}

/// What a claim owns in the cloud.
enum Owned {
    /// An instance, by provider ID.
    Instance(String),
    Nothing,
    /// Lists lack it, but it may be there; they have to go on lacking it for so long.
    Unlisted(Duration),
}

/// What a claim owns, asked of the cloud where the claim does not say.
async fn provider_id(ctx: &Context, claim: &NodeClaim) -> Result<Owned, StepError> {
    let id = claim.status.as_ref().map_or("", |s| s.provider_id.as_str());
    if !id.is_empty() {
        return Ok(Owned::Instance(id.to_owned()));
    }
    let uid = uid_of(claim);
    if let Some(id) = ctx
        .memory
        .launch
        .groups
        .given(claim, ctx.leadership.since())
    {
        return Ok(Owned::Instance(id));
    }
    if ctx
        .memory
        .launch
        .is_unlaunched(claim, ctx.leadership.since())
    {
        return Ok(Owned::Nothing);
    }
    // Launched, perhaps, by a process that did not live to write it down.
    let all = ctx.memory.end.shared_list.get(&*ctx.provider).await;
    let all = all.map_err(StepError::other)?;
    let its = |i: &&Arc<Instance>| !uid.is_empty() && i.claim_uid.as_deref() == Some(uid);
    if let Some(instance) = all.iter().find(its) {
        return Ok(Owned::Instance(instance.provider_id.clone()));
    }
    let left = ctx
        .memory
        .launch
        .launches
        .unlisted(uid, ctx.leadership.since(), Instant::now());
    if let (Some(own), Some(left)) = (launch_groups::member(claim), left) {
        let of_group = |one: &&Arc<Instance>| one.group.as_deref() == Some(own.token);
        // Members that live take theirs first.
        let waited = MAX_LISTING_DELAY.saturating_sub(left);
        if waited < LAUNCH_GROUP_WAIT && all.iter().any(|one| of_group(&one)) {
            return Ok(Owned::Unlisted(LAUNCH_GROUP_WAIT.saturating_sub(waited)));
        }
        if let Some(id) = launch_groups::take(ctx, claim, &all).await? {
            return Ok(Owned::Instance(id));
        }
    }
    Ok(left.map_or(Owned::Nothing, Owned::Unlisted))
}

/// Deletes the Nodes of an instance. Says whether there still are any.
async fn end_nodes(
    ctx: &Context,
    claim: &NodeClaim,
    id: &str,
    nodes: &[Arc<NodeView>],
) -> Result<bool, StepError> {
    let on_server = match nodes.is_empty() {
        true => nodes_on_server(ctx, claim, id).await?,
        false => Vec::new(),
    };
    let there: Vec<&NodeView> = nodes.iter().map(|of| &**of).chain(&on_server).collect();
    for node in there.iter().filter(|node| node.deletion.is_none()) {
        // A Node without it is gone at once, and its pods with the instance.
        if !hold(ctx, claim, node).await? {
            proof::delete_node(ctx, node).await?;
        }
    }
    Ok(!there.is_empty())
}

/// Gives the Node of a registered claim the finalizer back that it has lost. Without it the Node would
/// not be drained. Says whether it was missing.
pub async fn hold(ctx: &Context, claim: &NodeClaim, node: &NodeView) -> Result<bool, StepError> {
    let is_registered = (claim.status.as_ref()).is_some_and(|of| is_true(of, REGISTERED));
    if !is_registered || node.deletion.is_some() || node.holds(FINALIZER) {
        return Ok(false);
    }
    tracing::warn!(
        node = node.name,
        "the Node has lost its finalizer, without which it would not be drained; it is given back"
    );
    let finalizers = node.finalizers_with(FINALIZER);
    let metadata = json!({"resourceVersion": node.resource_version, "finalizers": finalizers});
    ctx.patch_node(&node.name, &json!({"metadata": metadata}))
        .await?;
    Ok(true)
}

/// The Nodes of an instance, asked of the server: by name where the claim knows one, otherwise
/// among all of its NodePool.
async fn nodes_on_server(
    ctx: &Context,
    claim: &NodeClaim,
    id: &str,
) -> Result<Vec<NodeView>, StepError> {
    let status = claim.status.clone().unwrap_or_default();
    if !status.node_name.is_empty() {
        let node = proof::node(&ctx.client, &status.node_name).await?;
        return Ok(node
            .into_iter()
            .filter(|node| node.provider_id == id)
            .collect());
    }
    if is_true(&status, INSTANCE_TERMINATING) {
        // There was no Node when the instance began to end, and from such an instance none will
        // come.
        return Ok(Vec::new());
    }
    proof::nodes_with(&ctx.client, pool_of(claim), &BTreeSet::from([id])).await
}

/// Notes on a claim that its instance ends.
async fn say_ending(ctx: &Context, claim: &NodeClaim) -> Result<(), StepError> {
    let mut status = claim.status.clone().unwrap_or_default();
    if is_true(&status, INSTANCE_TERMINATING) {
        return Ok(());
    }
    let to = ConditionStatus::True;
    set_condition(
        &mut status.conditions,
        INSTANCE_TERMINATING,
        to,
        INSTANCE_TERMINATING,
        "",
        Time(ctx.now()),
    );
    patch_status(
        ctx,
        claim,
        claim.metadata.resource_version.as_deref(),
        &status,
    )
    .await
    .map(drop)
}

/// A span of whole seconds.
fn jiff_span(duration: Duration) -> k8s_openapi::jiff::SignedDuration {
    k8s_openapi::jiff::SignedDuration::from_secs(duration.as_secs() as i64)
}

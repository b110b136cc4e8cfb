//! The lifecycle of a NodeClaim: launched, registered, initialized; or given up; or terminated.
//!
//! [`step`] runs whenever the claim or its node changes, and when it asked to. It reads the
//! observed objects, does what is due, and writes the result to the claim. It keeps nothing in
//! memory between runs. Everything it does can be repeated: the launch token is the claim's UID,
//! and patches name the version that they are based on.

#[cfg(test)]
mod tests;

mod initialization;
mod instance;
mod liveness;
mod registration;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use longshore_api::crd::{ConditionStatus, NodeClaim, NodeClaimStatus};
use serde_json::json;

use super::node_capacity;
use crate::act::claim_conditions::{self, Surroundings};
use crate::act::claim_writes::{delete, patch_meta, set, set_ready, write};
use crate::act::context::Context;
use crate::act::end::finalize::{self, finalize};
use crate::act::repair::reboot;
use crate::decide::claims::FINALIZER;
use crate::decide::rollout::Turn;
use crate::observe::node::NodeView;
use crate::observe::node_claim::{is_true, pool_of};
use crate::process::mutants::mutant;
use crate::process::step_error::{StepError, StepOutcome};
use longshore_core::model::conditions::{INITIALIZED, LAUNCHED, REGISTERED};
use longshore_fail_points::fail_point;

use self::initialization::{consistency, initialize, never_got_ready, note_initialized};
use self::instance::{Launched, launch};
use self::liveness::{expires_in, liveness_expired, liveness_in};
use self::registration::{await_node, confirm};
pub use self::registration::{joins_again, may_wait, register};

const UNREGISTERED: &str = "karpenter.sh/unregistered";

/// Why a claim is given up whose node has joined and is not ready for pods.
const INITIALIZATION_TIMEOUT: &str = "initialization_timeout";

/// Does what is due for a claim, but for registering its node ([`register`]). `nodes` are those with
/// its provider ID. `around` is what the claim is compared with. `turn` is what the rollout says
/// about its registration.
pub async fn step(
    ctx: &Context,
    claim: &NodeClaim,
    nodes: &[Arc<NodeView>],
    around: &Surroundings,
    turn: Turn,
) -> StepOutcome {
    fail_point("step");
    if claim.metadata.deletion_timestamp.is_some() {
        return finalize(ctx, claim, nodes).await;
    }
    if let Some(left) = expires_in(ctx.now(), claim)
        && left.is_zero()
    {
        if delete(ctx, claim, "it has expired").await? {
            ctx.disrupted("expired", claim);
        }
        return Ok(None);
    }
    let mut finalizers = claim.metadata.finalizers.iter().flatten();
    if !finalizers.any(|f| f == FINALIZER) && !mutant("no-finalizer") {
        add_finalizer(ctx, claim).await?;
        return Ok(None);
    }
    if reboot::phase::is_under_way(claim) {
        return reboot::step(ctx, claim, nodes).await;
    }
    let mut next = claim.clone();
    let mut status = next.status.clone().unwrap_or_default();
    let mut soon: Option<Duration> = match turn {
        Turn::Wait(left) => left,
        _ => None,
    };
    // Until all is written.
    let mut turn_to_write = None;
    if !is_true(&status, LAUNCHED) {
        match launch(ctx, &mut next, &mut status, &mut turn_to_write).await? {
            Launched::Yes => {}
            Launched::Later(wait) => soon = Some(wait),
            Launched::Written => return Ok(None),
        }
    }
    // Watches that are behind may have kept the node from us.
    if ctx.fresh.load(Ordering::Relaxed)
        && let Some(why) = liveness_expired(ctx.now(), &next, &status)
    {
        return give_up(ctx, &next, why).await;
    }
    let mut ready_at_once = false;
    if is_true(&status, LAUNCHED) && !is_true(&status, REGISTERED) {
        match (nodes, turn) {
            ([node], Turn::Confirm { ready }) => {
                confirm(ctx, claim, &mut status, node);
                ready_at_once = ready;
            }
            ([_], _) => {}
            _ => await_node(ctx, &mut status, nodes),
        }
    }
    if follow_node(ctx, &next, &mut status, nodes, ready_at_once).await? {
        return give_up(ctx, &next, INITIALIZATION_TIMEOUT).await;
    }
    set_ready(ctx.now(), &mut status);
    let changes_in = claim_conditions::update(ctx, &next, &mut status, around).await;
    write(ctx, claim, &next, status).await?;
    let waits = [
        soon,
        liveness_in(ctx.now(), &next),
        expires_in(ctx.now(), &next),
        changes_in,
    ];
    Ok(waits.into_iter().flatten().min())
}

/// Nothing is launched for a claim before it has the finalizer.
async fn add_finalizer(ctx: &Context, claim: &NodeClaim) -> Result<(), StepError> {
    let mut finalizers = claim.metadata.finalizers.clone().unwrap_or_default();
    finalizers.push(FINALIZER.to_owned());
    patch_meta(ctx, claim, json!({"finalizers": finalizers})).await?;
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    ctx.memory.launch.launches.made(uid, ctx.leadership.since());
    Ok(())
}

/// Does what is due for a claim's node. Says whether that has had its time to become ready for pods.
async fn follow_node(
    ctx: &Context,
    claim: &NodeClaim,
    status: &mut NodeClaimStatus,
    nodes: &[Arc<NodeView>],
    ready_at_once: bool,
) -> Result<bool, StepError> {
    if ready_at_once {
        note_initialized(ctx, claim, status);
        if let [node] = nodes {
            consistency(ctx, claim, status, node).await;
        }
    } else if is_true(status, REGISTERED) {
        initialize(ctx, claim, status, nodes).await?;
        if ctx.fresh.load(Ordering::Relaxed) && never_got_ready(ctx, claim, status, nodes).await? {
            return Ok(true);
        }
    } else {
        let (to, reason) = (ConditionStatus::Unknown, "AwaitingReconciliation");
        let message = "waits for registration";
        set(ctx.now(), status, INITIALIZED, to, reason, message);
    }
    if is_true(status, REGISTERED)
        && let [node] = nodes
    {
        if node.is_registered() {
            finalize::hold(ctx, claim, node).await?;
        }
        node_capacity::report(&*ctx.provider, claim, node);
    }
    Ok(false)
}

/// Deletes a claim that has had its time.
async fn give_up(ctx: &Context, claim: &NodeClaim, why: &'static str) -> StepOutcome {
    if delete(ctx, claim, why).await? {
        ctx.memory.launch.health.record(pool_of(claim), false);
        ctx.memory.launch.failed(claim, ctx.leadership.since());
        ctx.disrupted(why, claim);
    }
    Ok(None)
}

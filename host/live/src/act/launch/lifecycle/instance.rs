//! Launches the instance of a NodeClaim, alone or with its group, and says what has become of it.

use std::collections::BTreeMap;
use std::time::Duration;

use longshore_api::crd::{
    ConditionStatus, NodeClaim, NodeClaimStatus, Operator, Quantity, Requirement,
};
use longshore_cloud::{CloudError, Instance, Launch, Shortage};
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use crate::act::claim_writes::{delete, set};
use crate::act::context::Context;
use crate::act::launch::first_boots::{self, Asked};
use crate::act::launch::launch_groups::Came;
use crate::act::launch::launch_request::launch_of;
use crate::act::launch::refusals::Refused;
use crate::act::launch::{launch_groups, refusals};
use crate::decide::claims::{class_label, given_labels};
use crate::observe::node_claim::pool_of;
use crate::observe::overlays::added_capacity;
use crate::observe::planned_pods::planned_pods;
use crate::process::mutants::mutant;
use crate::process::step_error::StepError;
use longshore_core::model::conditions::LAUNCHED;

/// Longest message of a condition, in bytes. What can be done about an error stands at its end.
const MAX_MESSAGE_BYTES: usize = 600;

/// Most pods of a claim without capacity that get an Event about it.
const MAX_CAPACITY_EVENTS: usize = 10;

/// What became of a launch.
pub(super) enum Launched {
    Yes,
    /// It is asked for again after this.
    Later(Duration),
    /// The claim was deleted, or has left its group: another step follows.
    Written,
}

/// Launches an instance for a claim, alone or with its group. Asks for the turn to write what has
/// become of it.
pub(super) async fn launch<'c>(
    ctx: &'c Context,
    claim: &mut NodeClaim,
    status: &mut NodeClaimStatus,
    turn: &mut Option<SemaphorePermit<'c>>,
) -> Result<Launched, StepError> {
    ctx.may_write()?;
    match first_boots::ask(ctx, claim).await? {
        Asked::Launch => {}
        Asked::Later(wait) => return Ok(Launched::Later(wait)),
        Asked::Written => return Ok(Launched::Written),
    }
    let groups = &ctx.memory.launch.groups;
    let mut wanted = launch_of(claim);
    let of_group = launch_groups::member(claim).filter(|_| ctx.provider.most_in_group() > 1);
    if let Some(own) = &of_group {
        // Members ask together, and so they wait together.
        wanted.uid = own.token.to_owned();
    } else {
        *turn = groups.turn().await;
        ctx.may_write()?;
        if ctx.leadership.is_retiring() {
            return Ok(Launched::Written);
        }
    }
    if mutant("random-token") {
        wanted.uid = format!("{}-{}", wanted.uid, ctx.now().as_millisecond());
    }
    let asked = Instant::now();
    if let Some(left) = ctx.memory.launch.backoff.left(&wanted, asked) {
        if turn.is_none() {
            *turn = groups.turn().await;
        }
        return Ok(Launched::Later(left));
    }
    let made = match &of_group {
        None => create(ctx, claim, &wanted).await,
        Some(own) => {
            let came = launch_groups::launch(ctx, claim, own).await;
            *turn = groups.turn().await;
            match came {
                Came::Launched(made) => *made,
                Came::Leaves => {
                    launch_groups::leave(ctx, claim).await?;
                    return Ok(Launched::Written);
                }
                Came::Later => return Err(StepError::NotLeading),
            }
        }
    };
    match made {
        Ok(instance) => {
            ctx.memory.launch.backoff.succeeded(&wanted);
            note_instance(ctx, claim, status, instance);
            Ok(Launched::Yes)
        }
        Err(error @ (CloudError::InsufficientCapacity(_) | CloudError::NodeClassNotReady(_))) => {
            give_back(ctx, claim, &error).await?;
            Ok(Launched::Written)
        }
        Err(error) => {
            note_failure(ctx, claim, status, &error).await;
            let now = Instant::now();
            let wait = ctx
                .memory
                .launch
                .backoff
                .failed(&wanted, &error, asked, now);
            Ok(Launched::Later(wait))
        }
    }
}

/// Asks the cloud for the instance of a claim that is in no group.
async fn create(ctx: &Context, claim: &NodeClaim, wanted: &Launch) -> Result<Instance, CloudError> {
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    let pending = ctx.memory.launch.launches.ask(uid, ctx.leadership.since());
    let made = ctx.provider.create(wanted).await;
    if let Err(error) = &made {
        ctx.memory.launch.launches.failed(uid, pending, error);
    }
    made
}

/// Notes on a claim what was bought for it.
fn note_instance(
    ctx: &Context,
    claim: &mut NodeClaim,
    status: &mut NodeClaimStatus,
    instance: Instance,
) {
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    ctx.memory.launch.launches.forget(uid);
    // Claims of others' making have no value yet where they may have several.
    let mut all = given_labels(&claim.spec.requirements, false);
    all.extend(instance.labels);
    let is_one = |r: &&Requirement| r.operator == Operator::In && r.values.len() == 1;
    for r in claim.spec.requirements.iter().filter(is_one) {
        all.insert(r.key.clone(), r.values[0].clone());
    }
    all.extend(claim.metadata.labels.clone().unwrap_or_default());
    // Its Node is known by it should the NodeClaim be removed by force.
    all.extend([class_label(&claim.spec.node_class_ref)]);
    claim.metadata.labels = Some(all);
    let annotations = claim.metadata.annotations.get_or_insert_default();
    annotations.extend(instance.annotations);
    status.provider_id = instance.provider_id;
    status.image_id = instance.image_id.unwrap_or_default();
    let added = added_capacity(claim);
    let with_added = |mut amounts: BTreeMap<String, String>| {
        amounts.extend(added.clone());
        quantities(amounts)
    };
    status.capacity = with_added(instance.capacity);
    status.allocatable = with_added(instance.allocatable);
    ctx.memory
        .launch
        .refusals
        .done(Refused::Launch, pool_of(claim));
    let is = ConditionStatus::True;
    set(ctx.now(), status, LAUNCHED, is, "Launched", "");
}

/// Nothing can be launched for a claim as things are: it is deleted, and its pods are planned again.
async fn give_back(ctx: &Context, claim: &NodeClaim, error: &CloudError) -> Result<(), StepError> {
    let (reason, event) = match error {
        CloudError::InsufficientCapacity(shortage) => {
            note_shortage(ctx, shortage);
            ("insufficient_capacity", "InsufficientCapacityError")
        }
        _ => ("nodeclass_not_ready", "NodeClassNotReady"),
    };
    let message = error.to_string();
    if !delete(ctx, claim, &message).await? {
        return Ok(());
    }
    ctx.memory.launch.failed(claim, ctx.leadership.since());
    ctx.disrupted(reason, claim);
    ctx.events.claim(claim, true, event, &message).await;
    for planned in planned_pods(claim).take(MAX_CAPACITY_EVENTS) {
        ctx.events.pod(planned.pod, true, event, &message).await;
    }
    Ok(())
}

fn note_shortage(ctx: &Context, shortage: &Shortage) {
    let now = ctx.now().as_second();
    let news = ctx.memory.launch.unavailable.note(&shortage.offerings, now);
    if news > 0 {
        tracing::info!(
            offerings = news,
            seconds = longshore_cloud::UNAVAILABLE_SECONDS,
            "offerings without capacity are skipped for a while"
        );
    }
}

/// Notes on a claim why nothing was launched; it is asked for again.
async fn note_failure(
    ctx: &Context,
    claim: &NodeClaim,
    status: &mut NodeClaimStatus,
    error: &CloudError,
) {
    let message: String = error.to_string().chars().take(MAX_MESSAGE_BYTES).collect();
    // A throttled launch waits, and is asked for again.
    if !matches!(error, CloudError::Throttled(_)) {
        launch_refused(ctx, claim, &message).await;
    }
    let unknown = ConditionStatus::Unknown;
    set(
        ctx.now(),
        status,
        LAUNCHED,
        unknown,
        error.reason(),
        &message,
    );
}

/// A launch was refused for a reason that stays: the claim, its pods and the NodePool say so, and the
/// log, once in a while.
async fn launch_refused(ctx: &Context, claim: &NodeClaim, why: &str) {
    let (what, pool) = (Refused::Launch, pool_of(claim));
    if !ctx.memory.launch.refusals.note(what, pool, why, ctx.now()) {
        return;
    }
    let name = claim.metadata.name.as_deref();
    tracing::warn!(
        nodeclaim = name,
        nodepool = pool,
        why,
        "launch refused; retrying"
    );
    let message = format!("no instance can be launched for NodePool {pool}: {why}");
    let (events, reason) = (&ctx.events, what.reason());
    events.claim(claim, true, reason, &message).await;
    events.pool_named(pool, true, reason, &message).await;
    for planned in planned_pods(claim).take(refusals::MAX_EVENT_PODS) {
        events.pod(planned.pod, true, reason, &message).await;
    }
}

fn quantities(amounts: BTreeMap<String, String>) -> longshore_api::crd::Quantities {
    amounts
        .into_iter()
        .map(|(resource, amount)| (resource, Quantity(amount)))
        .collect()
}

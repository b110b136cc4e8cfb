//! The lifecycle of a NodeClaim: launched, registered, initialized; or given up; or terminated.
//!
//! [`step`] runs whenever the claim or its node changes, and when it asked to. It reads the
//! observed objects, does what is due, and writes the result to the claim. It keeps nothing in
//! memory between runs. Everything it does can be repeated: the launch token is the claim's UID,
//! and patches name the version that they are based on.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use longshore_api::crd::duration;
use longshore_api::crd::{
    ConditionStatus, NodeClaim, NodeClaimStatus, Operator, Quantity, condition,
};
use longshore_api::labels;
use longshore_cloud::CloudError;
use longshore_core::disrupt::verdicts::COMMAND;
use serde_json::{Value, json};
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use super::launch_groups::{self, Came, GROUP};
use super::launch_request::launch_of;
use super::node_capacity;
use super::refusals::{self, Refused};
use crate::live::act::claim_conditions::{self, Surroundings};
use crate::live::act::claim_writes::{delete, patch_meta, set, set_ready, write};
use crate::live::act::context::Context;
use crate::live::act::end::finalize::{self, finalize};
use crate::live::act::end::proof;
use crate::live::act::end::termination::DrainingPod;
use crate::live::act::repair::reboot;
use crate::live::decide::claims::{FINALIZER, class_label, given_labels};
use crate::live::decide::rollout::Turn;
use crate::live::observe::node::NodeView;
use crate::live::observe::node_claim::{NEVER_READY_LIMIT, REGISTRATION_LIMIT, is_true, pool_of};
use crate::live::observe::overlays::added_capacity;
use crate::live::observe::planned_pods::{PLANNED_PODS, planned_pods};
use crate::live::observe::unavailable_offerings::UNAVAILABLE_TTL_SECONDS;
use crate::live::process::fail_points::fail_point;
use crate::live::process::mutants::mutant;
use crate::live::process::step_error::{Outcome, StepError};

const UNREGISTERED: &str = "karpenter.sh/unregistered";
const NO_TAINT_SYNC: &str = "karpenter.sh/do-not-sync-taints";

const LAUNCH_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Why a claim is given up whose node never joined.
const REGISTRATION_TIMEOUT: &str = "registration_timeout";
/// Why a claim is given up whose node has joined and is not ready for pods.
const INITIALIZATION_TIMEOUT: &str = "initialization_timeout";
/// How often it is looked at whether pods still run on such a node.
const LATE_NODE_POLL: Duration = Duration::from_secs(5 * 60);
/// Longest message of a condition, in bytes. What can be done about an error stands at its end.
const MAX_MESSAGE_BYTES: usize = 600;
/// Most pods of a claim without capacity that get an Event about it.
const MAX_CAPACITY_EVENTS: usize = 10;

/// Does what is due for a claim, but for registering its node ([`register`]). `nodes` are those with
/// its provider ID. `around` is what the claim is compared with. `turn` is what the rollout says
/// about its registration.
pub async fn step(
    ctx: &Context,
    claim: &NodeClaim,
    nodes: &[Arc<NodeView>],
    around: &Surroundings,
    turn: Turn,
) -> Outcome {
    fail_point("step");
    if claim.metadata.deletion_timestamp.is_some() {
        return finalize(ctx, claim, nodes).await;
    }
    if let Some(left) = expires_in(ctx, claim)
        && left.is_zero()
    {
        if delete(ctx, claim, "it has expired").await? {
            ctx.disrupted("expired", claim);
        }
        return Ok(None);
    }
    if !claim
        .metadata
        .finalizers
        .as_deref()
        .unwrap_or_default()
        .iter()
        .any(|f| f == FINALIZER)
        && !mutant("no-finalizer")
    {
        let mut finalizers = claim.metadata.finalizers.clone().unwrap_or_default();
        finalizers.push(FINALIZER.to_owned());
        patch_meta(ctx, claim, json!({"finalizers": finalizers})).await?;
        // Nothing is launched for a claim before it has the finalizer.
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        ctx.launches.made(uid, ctx.leadership.since());
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
    let mut ready_at_once = false;
    // Until all is written.
    let mut turn_to_write = None;
    if !is_true(&status, "Launched") {
        match launch(ctx, &mut next, &mut status, &mut turn_to_write).await? {
            Launched::Yes => {}
            Launched::Later(wait) => soon = Some(wait),
            Launched::Written => return Ok(None),
        }
    }
    // Watches that are behind may have kept the node from us.
    if ctx.fresh.load(Ordering::Relaxed)
        && let Some(why) = liveness_expired(ctx, &next, &status)
    {
        return give_up(ctx, &next, why).await;
    }
    if is_true(&status, "Launched") && !is_true(&status, "Registered") {
        match (nodes, turn) {
            ([node], Turn::Confirm { ready }) => {
                confirm(ctx, claim, &mut status, node);
                ready_at_once = ready;
            }
            ([_], _) => {}
            _ => await_node(ctx, &mut status, nodes),
        }
    }
    if ready_at_once {
        note_initialized(ctx, claim, &mut status);
        if let [node] = nodes {
            consistency(ctx, &next, &mut status, node).await;
        }
    } else if is_true(&status, "Registered") {
        initialize(ctx, &next, &mut status, nodes).await?;
        if ctx.fresh.load(Ordering::Relaxed) && never_got_ready(ctx, &next, &status, nodes).await? {
            return give_up(ctx, &next, INITIALIZATION_TIMEOUT).await;
        }
    } else {
        set(
            ctx,
            &mut status,
            "Initialized",
            ConditionStatus::Unknown,
            "AwaitingReconciliation",
            "waits for registration",
        );
    }
    if is_true(&status, "Registered")
        && let [node] = nodes
    {
        if node.is_registered() {
            finalize::hold(ctx, claim, node).await?;
        }
        node_capacity::tell(&*ctx.provider, &next, node);
    }
    set_ready(ctx, &mut status);
    let changes_in = claim_conditions::update(ctx, &next, &mut status, around).await;
    write(ctx, claim, &next, status).await?;
    let waits = [
        soon,
        liveness_in(ctx, &next),
        expires_in(ctx, &next),
        changes_in,
    ];
    Ok(waits.into_iter().flatten().min())
}

/// Longest delay of registration after the Node appeared, so that kube-scheduler sees nominations
/// first.
const MAX_NOMINATION_WAIT_SECONDS: i64 = 30;

/// Whether a node is young enough to wait for kube-scheduler to hear of nominations.
pub fn may_wait(ctx: &Context, node: &NodeView) -> bool {
    node.created.as_ref().is_some_and(|created| {
        ctx.now().as_second() < created.0.as_second() + MAX_NOMINATION_WAIT_SECONDS
    })
}

/// Deletes a claim that has had its time.
async fn give_up(ctx: &Context, claim: &NodeClaim, why: &'static str) -> Outcome {
    if delete(ctx, claim, why).await? {
        ctx.health.record(pool_of(claim), false);
        ctx.disrupted(why, claim);
    }
    Ok(None)
}

/// What became of a launch.
enum Launched {
    Yes,
    /// It is asked for again after this.
    Later(Duration),
    /// The claim was deleted, or has left its group: another step follows.
    Written,
}

/// Launches an instance for a claim, alone or with its group. Asks for the turn to write what has
/// become of it.
async fn launch<'c>(
    ctx: &'c Context,
    claim: &mut NodeClaim,
    status: &mut NodeClaimStatus,
    turn: &mut Option<SemaphorePermit<'c>>,
) -> Result<Launched, StepError> {
    ctx.may_write()?;
    let groups = &ctx.launch_groups;
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
    if let Some(left) = ctx.backoff.left(&wanted, asked) {
        if turn.is_none() {
            *turn = groups.turn().await;
        }
        return Ok(Launched::Later(left));
    }
    let uid = claim.metadata.uid.clone().unwrap_or_default();
    let made = if let Some(own) = &of_group {
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
    } else {
        let pending = ctx.launches.ask(&uid, ctx.leadership.since());
        let made = ctx.provider.create(&wanted).await;
        if let Err(error) = &made {
            ctx.launches.failed(&uid, pending, error);
        }
        made
    };
    match made {
        Ok(instance) => {
            ctx.backoff.succeeded(&wanted);
            ctx.launches.forget(&uid);
            // Claims of others' making have no value yet where they may have several.
            let mut all = given_labels(&claim.spec.requirements, false);
            all.extend(instance.labels);
            for r in claim
                .spec
                .requirements
                .iter()
                .filter(|r| r.operator == Operator::In && r.values.len() == 1)
            {
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
            ctx.refusals.done(Refused::Launch, pool_of(claim));
            set(
                ctx,
                status,
                "Launched",
                ConditionStatus::True,
                "Launched",
                "",
            );
            Ok(Launched::Yes)
        }
        Err(error @ (CloudError::InsufficientCapacity(_) | CloudError::NodeClassNotReady(_))) => {
            let (reason, event) = match &error {
                CloudError::InsufficientCapacity(shortage) => {
                    let news = ctx
                        .unavailable
                        .note(&shortage.offerings, ctx.now().as_second());
                    if news > 0 {
                        tracing::info!(
                            offerings = news,
                            seconds = UNAVAILABLE_TTL_SECONDS,
                            "offerings unavailable; skipped for 180 s"
                        );
                    }
                    ("insufficient_capacity", "InsufficientCapacityError")
                }
                _ => ("nodeclass_not_ready", "NodeClassNotReady"),
            };
            if !delete(ctx, claim, &error.to_string()).await? {
                return Ok(Launched::Written);
            }
            ctx.disrupted(reason, claim);
            ctx.events
                .claim(claim, true, event, &error.to_string())
                .await;
            for planned in planned_pods(claim).take(MAX_CAPACITY_EVENTS) {
                ctx.events
                    .pod(planned.pod, true, event, &error.to_string())
                    .await;
            }
            Ok(Launched::Written)
        }
        Err(error) => {
            let message: String = error.to_string().chars().take(MAX_MESSAGE_BYTES).collect();
            // Who asks too often waits, and is let in.
            if !matches!(error, CloudError::Throttled(_)) {
                launch_refused(ctx, claim, &message).await;
            }
            set(
                ctx,
                status,
                "Launched",
                ConditionStatus::Unknown,
                error.reason(),
                &message,
            );
            Ok(Launched::Later(ctx.backoff.failed(
                &wanted,
                &error,
                asked,
                Instant::now(),
            )))
        }
    }
}

/// A launch was refused for a reason that stays: the claim, its pods and the NodePool say so, and the
/// log, once in a while.
async fn launch_refused(ctx: &Context, claim: &NodeClaim, why: &str) {
    let (what, pool) = (Refused::Launch, pool_of(claim));
    if !ctx.refusals.note(what, pool, why, ctx.now()) {
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

/// A claim has no node of its own yet.
fn await_node(ctx: &Context, status: &mut NodeClaimStatus, nodes: &[Arc<NodeView>]) {
    let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
    let (to, reason, message) = if names.is_empty() {
        let message = "its node has not joined yet".to_owned();
        (ConditionStatus::Unknown, "NodeNotFound", message)
    } else {
        let message = format!("several nodes have its provider ID: {}", names.join(", "));
        (ConditionStatus::False, "MultipleNodesFound", message)
    };
    set(ctx, status, "Registered", to, reason, &message);
}

/// Whether the node of a claim that is registered says that it is not: it is another Node than the one
/// that was registered, with the taint that a new one joins with. That it was registered a moment ago
/// the watch may not have brought yet.
pub fn joins_again(ctx: &Context, status: &NodeClaimStatus, node: &NodeView) -> bool {
    let since = condition(&status.conditions, "Registered").map(|c| c.last_transition_time.0);
    let long = |since: longshore_api::crd::Timestamp| {
        ctx.now().as_second() - since.as_second() > MAX_NOMINATION_WAIT_SECONDS
    };
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
fn confirm(ctx: &Context, claim: &NodeClaim, status: &mut NodeClaimStatus, node: &NodeView) {
    status.node_name.clone_from(&node.name);
    set(
        ctx,
        status,
        "Registered",
        ConditionStatus::True,
        "Registered",
        "",
    );
    ctx.health.record(pool_of(claim), true);
    ctx.metrics.node_created(claim);
}

async fn initialize(
    ctx: &Context,
    claim: &NodeClaim,
    status: &mut NodeClaimStatus,
    nodes: &[Arc<NodeView>],
) -> Result<(), StepError> {
    let [node] = nodes else {
        if !is_true(status, "Initialized") {
            set(
                ctx,
                status,
                "Initialized",
                ConditionStatus::Unknown,
                "NodeNotFound",
                "there is no node of its own",
            );
        }
        return Ok(());
    };
    if is_true(status, "Initialized") {
        consistency(ctx, claim, status, node).await;
        return Ok(());
    }
    if let Err((reason, message)) = is_initialized(claim, node, &node.taints) {
        set(
            ctx,
            status,
            "Initialized",
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
fn note_initialized(ctx: &Context, claim: &NodeClaim, status: &mut NodeClaimStatus) {
    set(
        ctx,
        status,
        "Initialized",
        ConditionStatus::True,
        "Initialized",
        "",
    );
    ctx.registrations.joined(pool_of(claim));
}

/// Whether the node of a claim has had its time to become ready for pods, and none but daemons run on
/// it. A node that must not be disrupted stays, so that an operator can look at it.
async fn never_got_ready(
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
    let is_waited_for = is_true(status, "Initialized")
        || time_in(ctx, claim, status, "Registered") < NEVER_READY_LIMIT;
    let is_of_command = annotations.is_some_and(|all| all.contains_key(COMMAND));
    if is_waited_for
        || is_of_command
        || pool_of(claim).is_empty()
        || is_kept(&node.annotations)
        || annotations.is_some_and(is_kept)
    {
        return Ok(false);
    }
    let (pods, _) = proof::pods_on::<DrainingPod>(ctx, &node.name).await?;
    Ok(!pods.iter().any(DrainingPod::uses))
}

/// Whether a node with these taints can do what its claim promises; if not, the reason and a
/// sentence.
fn is_initialized(
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
async fn consistency(
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
            ctx,
            status,
            "ConsistentStateFound",
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
        ctx,
        status,
        "ConsistentStateFound",
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

fn is_zero(text: &str) -> bool {
    text.trim_end_matches(|c: char| c.is_ascii_alphabetic())
        .parse::<f64>()
        .is_ok_and(|n| n == 0.0)
}

/// Why a claim has had its time, if so.
fn liveness_expired(
    ctx: &Context,
    claim: &NodeClaim,
    status: &NodeClaimStatus,
) -> Option<&'static str> {
    if !is_true(status, "Launched") && time_in(ctx, claim, status, "Launched") >= LAUNCH_LIMIT {
        return Some("launch_timeout");
    }
    if mutant("waits-for-ever") {
        return None;
    }
    if !is_true(status, "Registered")
        && time_in(ctx, claim, status, "Registered") >= REGISTRATION_LIMIT
    {
        return Some(REGISTRATION_TIMEOUT);
    }
    None
}

fn time_in(ctx: &Context, claim: &NodeClaim, status: &NodeClaimStatus, what: &str) -> Duration {
    let since = condition(&status.conditions, what).map(|c| c.last_transition_time.0);
    let since = since
        .or(claim.metadata.creation_timestamp.as_ref().map(|t| t.0))
        .unwrap_or_else(|| ctx.now());
    seconds(ctx.now().as_second() - since.as_second())
}

fn liveness_in(ctx: &Context, claim: &NodeClaim) -> Option<Duration> {
    let status = claim.status.as_ref()?;
    let (what, limit) = if !is_true(status, "Launched") {
        ("Launched", LAUNCH_LIMIT)
    } else if !is_true(status, "Registered") {
        ("Registered", REGISTRATION_LIMIT)
    } else if !is_true(status, "Initialized") {
        let left = NEVER_READY_LIMIT.saturating_sub(time_in(ctx, claim, status, "Registered"));
        return Some(match left {
            Duration::ZERO => LATE_NODE_POLL,
            left => left + Duration::from_secs(1),
        });
    } else {
        return None;
    };
    Some(limit.saturating_sub(time_in(ctx, claim, status, what)) + Duration::from_secs(1))
}

/// How long a claim may still live; nothing if for ever.
fn expires_in(ctx: &Context, claim: &NodeClaim) -> Option<Duration> {
    let after = duration::lifetime(&claim.spec.expire_after).ok()?.after()?;
    let created = claim.metadata.creation_timestamp.as_ref()?.0.as_second();
    Some(seconds(
        created.saturating_add(after.as_secs() as i64) - ctx.now().as_second(),
    ))
}

fn seconds(n: i64) -> Duration {
    Duration::from_secs(n.max(0) as u64)
}

fn quantities(amounts: BTreeMap<String, String>) -> longshore_api::crd::Quantities {
    amounts
        .into_iter()
        .map(|(resource, amount)| (resource, Quantity(amount)))
        .collect()
}

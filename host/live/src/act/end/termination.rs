//! Termination of a node: kube-scheduler is kept away, pods are evicted in order, volumes are
//! detached, then the instance and the Node end.
//!
//! As in [`lifecycle`](crate::act::launch::lifecycle), [`step`] runs again until nothing is left to do. Its
//! progress is stored on the objects: the taint's `timeAdded` says since when kube-scheduler is
//! kept away, and the claim's condition says that the instance is terminating. What is kept in
//! memory ([`drains`](super::drains)) saves requests and decides nothing: before an instance is
//! terminated, its Node and its pods are read from the server.

mod evictions;
pub mod pod;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Api, DeleteParams, Preconditions};
use longshore_api::crd::{
    ConditionStatus, NodeClaim, Taint, TaintEffect, Time, Timestamp, condition,
};
use longshore_api::labels;
use longshore_cloud::{CloudError, CloudProvider};
use serde_json::json;
use tokio::time::Instant;

use super::proof;
use crate::act::claim_writes;
use crate::act::context::Context;
use crate::decide::claims::FINALIZER;
use crate::observe::node::NodeView;
use crate::observe::node_claim::{is_true, termination_time};
use crate::process::mutants::mutant;
use crate::process::step_error::{StepError, StepOutcome};
use longshore_core::model::conditions::{DRAINED, INSTANCE_TERMINATING, VOLUMES_DETACHED};
pub use pod::{DISRUPTED, DrainingPod};

const NO_BALANCER: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// How often a drain is continued, if nothing is due sooner.
const DRAIN_POLL: Duration = Duration::from_secs(1);
/// How often the cloud is asked for a terminating instance whose Node is still there and waits for
/// it.
const NODE_TERMINATION_POLL: Duration = Duration::from_secs(5);
/// An instance lives at least this long after the taint was seen on its node, whether or not it has
/// pods. kube-scheduler may not have seen the taint yet, and what it binds until then has to be
/// drained as well.
const MIN_TAINT_AGE: Duration = Duration::from_secs(5);

/// What becomes of the instance of a Node that is being deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Instance {
    /// It ends with the Node.
    Ends,
    /// Another Node of it stays: only the Node goes.
    Stays,
    /// Other Nodes of it go as well, and it ends with the last of them.
    EndsWithAnother,
    /// Other Nodes of it go as well; this Node is the last of them and waits for them.
    EndsLater,
}

/// `others` are the other Nodes of its instance. Of those that all go, the last by name waits for the
/// others, and the instance ends with it.
fn instance_of(node: &NodeView, others: &[Arc<NodeView>]) -> Instance {
    if others.is_empty() {
        Instance::Ends
    } else if others.iter().any(|other| other.deletion.is_none()) {
        Instance::Stays
    } else if others.iter().all(|other| other.name < node.name) {
        Instance::EndsLater
    } else {
        Instance::EndsWithAnother
    }
}

/// Does what is due for a node that is being deleted. `claims` are those with its provider ID, and
/// `others` the other Nodes with it.
pub async fn step(
    ctx: &Context,
    node: &NodeView,
    claims: &[Arc<NodeClaim>],
    others: &[Arc<NodeView>],
) -> StepOutcome {
    if node.deletion.is_none() || !node.holds(FINALIZER) {
        return Ok(None);
    }
    ctx.memory.end.drains.begin(&node.name, &node.uid);
    let instance = instance_of(node, others);
    let mut claim = match claims {
        [claim] if instance != Instance::Stays => Some((**claim).clone()),
        _ => None,
    };
    if let Some(claim) = &claim {
        delete_claim(ctx, claim).await?;
    }
    if !node.is_ready()
        && ctx
            .memory
            .end
            .drains
            .may_ask_cloud(&node.name, Instant::now())
        && instance_is_gone(&*ctx.provider, &node.provider_id).await
    {
        return drop_finalizer(ctx, node).await;
    }
    let ending = |claim: &NodeClaim| {
        claim
            .status
            .as_ref()
            .is_some_and(|s| is_true(s, INSTANCE_TERMINATING))
    };
    if !claim.as_ref().is_some_and(ending)
        && let Some(wait) = empty(ctx, node, &mut claim).await?
    {
        return Ok(Some(wait));
    }
    match instance {
        Instance::Ends => end(ctx, node, claim, claims.len()).await,
        Instance::Stays | Instance::EndsWithAnother => drop_finalizer(ctx, node).await,
        Instance::EndsLater => Ok(Some(DRAIN_POLL)),
    }
}

/// A node's claim goes with it.
async fn delete_claim(ctx: &Context, claim: &NodeClaim) -> Result<(), StepError> {
    if claim.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    ctx.may_write_claim(claim)?;
    let api: Api<NodeClaim> = Api::all(ctx.client.clone());
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: claim.metadata.uid.clone(),
        resource_version: None,
    });
    match api
        .delete(claim.metadata.name.as_deref().unwrap_or_default(), &params)
        .await
    {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            is_another(&api, claim, status.message).await
        }
        other => other.map(drop).map_err(StepError::other),
    }
}

/// A deletion by UID was refused: nothing is left to do if another claim has the name by now.
/// Otherwise the server was too busy, and the request is retried.
async fn is_another(
    api: &Api<NodeClaim>,
    claim: &NodeClaim,
    refused: String,
) -> Result<(), StepError> {
    let now = api
        .get_metadata_opt(claim.metadata.name.as_deref().unwrap_or_default())
        .await;
    match now.map_err(StepError::other)? {
        Some(now) if now.metadata.uid == claim.metadata.uid => Err(StepError::Conflict(refused)),
        _ => Ok(()),
    }
}

/// Sees to it that nothing is left on a node that has to leave before its instance may end. Returns
/// when to look again; nothing once it is empty.
async fn empty(
    ctx: &Context,
    node: &NodeView,
    claim: &mut Option<NodeClaim>,
) -> Result<Option<Duration>, StepError> {
    let Some(closed) = closed_for(node, ctx.now()) else {
        close(ctx, node).await?;
        return Ok(Some(Duration::from_millis(200)));
    };
    // The time in the taint is from before it was sent, and a write can be under way for long.
    let young = MIN_TAINT_AGE.saturating_sub(
        closed.min(
            ctx.memory
                .end
                .drains
                .seen_closed(&node.name, Instant::now()),
        ),
    );
    let ends = claim.as_ref().and_then(termination_time);
    if let Some(ends) = ends {
        let message = format!(
            "all pods will be deleted by {}",
            crate::observe::node_claim::rfc3339(ends)
        );
        ctx.events
            .node(&node.name, true, "TerminationGracePeriodExpiring", &message)
            .await;
        if let Some(claim) = claim {
            ctx.events
                .claim(claim, true, "TerminationGracePeriodExpiring", &message)
                .await;
        }
    }
    if ctx.memory.end.drains.wants_list(&node.name, Instant::now()) {
        list(ctx, node).await?;
    }
    let pods = pods_of(ctx, node)?;
    let left = evictions::drain(ctx, &node.name, &pods, ends).await?;
    if left > 0 && !mutant("skips-drain") {
        still_draining(ctx, claim, left).await?;
        let ask = ctx.memory.end.drains.next_ask(&node.name, Instant::now());
        return Ok(Some(ask.map_or(DRAIN_POLL, |ask| ask.min(DRAIN_POLL))));
    }
    if !young.is_zero() && !mutant("skips-drain") && !mutant("no-drain-time") {
        return Ok(Some(young));
    }
    if let Some(claim) = claim
        && set_claim_condition(ctx, claim, DRAINED, ConditionStatus::True, "Drained", "").await?
    {
        ctx.metrics.node_drained(claim);
    }
    if let Some(wait) = detach(
        ctx,
        node,
        claim,
        &pods,
        ends.is_some_and(|ends| ctx.now() >= ends),
    )
    .await?
    {
        return Ok(Some(wait));
    }
    // Bound since, or never seen: a watch may be late.
    list(ctx, node).await?;
    let now = ctx.now();
    let left = pods_of(ctx, node)?
        .iter()
        .filter(|pod| pod.counts(now))
        .count();
    if left > 0 && !mutant("skips-drain") {
        still_draining(ctx, claim, left).await?;
        return Ok(Some(Duration::ZERO));
    }
    Ok(None)
}

async fn still_draining(
    ctx: &Context,
    claim: &mut Option<NodeClaim>,
    left: usize,
) -> Result<(), StepError> {
    if let Some(claim) = claim {
        let message = format!("{left} pods left");
        set_claim_condition(
            ctx,
            claim,
            DRAINED,
            ConditionStatus::Unknown,
            "Draining",
            &message,
        )
        .await?;
    }
    Ok(())
}

/// Asks the pods of a node that stays to leave it, in order. Returns how many have not.
///
/// # Errors
/// What the server says.
pub async fn evict_from(ctx: &Context, node: &NodeView) -> Result<usize, StepError> {
    ctx.memory.end.drains.begin(&node.name, &node.uid);
    if ctx.memory.end.drains.wants_list(&node.name, Instant::now()) {
        list(ctx, node).await?;
    }
    let pods = pods_of(ctx, node)?;
    evictions::drain(ctx, &node.name, &pods, None).await
}

/// Waits for the volumes of a node to be detached, until the claim's time is `over`. Returns when
/// to look again; nothing once there is nothing to wait for.
async fn detach(
    ctx: &Context,
    node: &NodeView,
    claim: &mut Option<NodeClaim>,
    pods: &[Arc<DrainingPod>],
    over: bool,
) -> Result<Option<Duration>, StepError> {
    let attached = attachments(ctx, &node.name, pods).await;
    if let Some(claim) = claim {
        let (to, reason) = match (attached.is_empty(), over) {
            (true, _) => (ConditionStatus::True, "VolumesDetached"),
            (false, true) => (ConditionStatus::False, "TerminationGracePeriodElapsed"),
            (false, false) => (ConditionStatus::Unknown, "AwaitingVolumeDetachment"),
        };
        set_claim_condition(
            ctx,
            claim,
            VOLUMES_DETACHED,
            to,
            reason,
            &attached.join(", "),
        )
        .await?;
    }
    if attached.is_empty() || over {
        return Ok(None);
    }
    let names = attached
        .iter()
        .take(5)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    ctx.events
        .node(
            &node.name,
            false,
            "AwaitingVolumeDetachment",
            &format!("still attached: {names}"),
        )
        .await;
    Ok(Some(DRAIN_POLL))
}

/// Ends the instance of a node that is empty, then lets go of the Node. `known` is how many claims
/// with its provider ID the state has.
async fn end(
    ctx: &Context,
    node: &NodeView,
    claim: Option<NodeClaim>,
    known: usize,
) -> StepOutcome {
    let Some(now) = proof::node(&ctx.client, &node.name)
        .await?
        .filter(|now| now.uid == node.uid)
    else {
        // It is gone, and another one has its name, if any.
        return Ok(None);
    };
    if now.deletion.is_none() || now.provider_id != node.provider_id {
        return Err(StepError::Conflict(format!(
            "Node {} is not what it was",
            node.name
        )));
    }
    let mut claim = match claim {
        Some(claim) => Some(claim),
        None => {
            let mut claims = if known > 0 {
                Vec::new()
            } else {
                claims_of(ctx, node).await?
            };
            if claims.iter().any(|claim| !ctx.managed.claim(claim)) {
                // Another provider's, as the watch will say.
                return Ok(None);
            }
            if known.max(claims.len()) > 1 {
                // Several claims name it. Only they can resolve that.
                return drop_finalizer(ctx, &now).await;
            }
            claims.pop()
        }
    };
    if mutant("node-first") {
        return drop_finalizer(ctx, &now).await;
    }
    // With a claim or without one: the node is managed by us, empty and deleted.
    ctx.may_write()?;
    match ctx.provider.delete(&node.provider_id).await {
        Err(CloudError::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
        Ok(()) => {
            if let Some(claim) = &mut claim {
                set_claim_condition(
                    ctx,
                    claim,
                    INSTANCE_TERMINATING,
                    ConditionStatus::True,
                    INSTANCE_TERMINATING,
                    "",
                )
                .await?;
            }
            // Kwok's instance is the Node itself, which is deleted only after its finalizer is
            // removed; its provider reports that.
            if !ctx.provider.ends_with_node() {
                return Ok(Some(NODE_TERMINATION_POLL));
            }
        }
    }
    drop_finalizer(ctx, &now).await
}

/// The claims of a node as the server has them, where the state has none.
async fn claims_of(ctx: &Context, node: &NodeView) -> Result<Vec<NodeClaim>, StepError> {
    let pool = node.labels.get(labels::NODEPOOL).map_or("", String::as_str);
    let mut claims = proof::claims(&ctx.client, pool).await?;
    claims.retain(|c| {
        c.status
            .as_ref()
            .is_some_and(|s| s.provider_id == node.provider_id)
    });
    Ok(claims)
}

async fn instance_is_gone(provider: &dyn CloudProvider, provider_id: &str) -> bool {
    matches!(
        provider.get(provider_id).await,
        Err(CloudError::NotFound(_))
    )
}

/// How long a taint has kept kube-scheduler away from a node. Nothing if there is no taint, or if
/// its time is missing or impossible.
fn closed_for(node: &NodeView, now: Timestamp) -> Option<Duration> {
    let since = disrupted(node)?.time_added.as_ref()?.0;
    let closed = now.as_millisecond() - since.as_millisecond();
    match u64::try_from(closed) {
        Ok(closed) => Some(Duration::from_millis(closed)),
        // Times are rounded up, and clocks of replicas differ a little.
        Err(_) if closed > -5_000 => Some(Duration::ZERO),
        Err(_) => None,
    }
}

/// Whether a taint is the one that keeps kube-scheduler away from nodes that go.
fn is_disrupted(taint: &Taint) -> bool {
    taint.key == DISRUPTED && taint.effect == TaintEffect::NoSchedule
}

/// The taint of a node that goes; nothing if it has none.
pub fn disrupted(node: &NodeView) -> Option<&Taint> {
    node.taints.iter().find(|taint| is_disrupted(taint))
}

/// The other taints of a node.
pub fn other_taints(node: &NodeView) -> Vec<Taint> {
    let others = node.taints.iter().filter(|taint| !is_disrupted(taint));
    others.cloned().collect()
}

/// Keeps kube-scheduler and load balancers away from a node, from now on.
async fn close(ctx: &Context, node: &NodeView) -> Result<(), StepError> {
    let value = disrupted(node).map(|taint| taint.value.clone());
    let value = value.unwrap_or_default();
    let mut taints = other_taints(node);
    // Kubernetes keeps whole seconds: rounded up, so that it is never earlier than it was.
    let second = ctx.now().as_millisecond().div_euclid(1000) + 1;
    let since = Timestamp::from_second(second).map_err(StepError::other)?;
    taints.push(Taint {
        key: DISRUPTED.into(),
        value,
        effect: TaintEffect::NoSchedule,
        time_added: Some(Time(since)),
    });
    let metadata =
        json!({"resourceVersion": node.resource_version, "labels": {NO_BALANCER: "karpenter"}});
    ctx.patch_node(
        &node.name,
        &json!({"metadata": metadata, "spec": {"taints": taints}}),
    )
    .await
}

async fn drop_finalizer(ctx: &Context, node: &NodeView) -> StepOutcome {
    let rest: Vec<&String> = node.finalizers.iter().filter(|f| *f != FINALIZER).collect();
    let metadata = json!({"resourceVersion": node.resource_version, "finalizers": rest});
    ctx.patch_node(&node.name, &json!({"metadata": metadata}))
        .await?;
    if ctx.observes() {
        let message = format!("Finalized {FINALIZER}");
        ctx.events.node_if_few(&node.name, "Finalized", &message);
    }
    ctx.memory.end.drains.end(&node.name);
    let since = |at: &Time| (ctx.now().as_second() - at.0.as_second()).max(0) as f64;
    let lived = node.created.as_ref().map(since);
    ctx.metrics
        .node_terminated(&node.labels, lived, node.deletion.as_ref().map(since));
    Ok(None)
}

/// Sets a condition of the claim unless it stands already; `claim` is then as it was written. Says
/// whether it was news.
async fn set_claim_condition(
    ctx: &Context,
    claim: &mut NodeClaim,
    what: &str,
    to: ConditionStatus,
    reason: &str,
    message: &str,
) -> Result<bool, StepError> {
    let mut status = claim.status.clone().unwrap_or_default();
    let same =
        condition(&status.conditions, what).is_some_and(|c| c.status == to && c.reason == reason);
    if same {
        return Ok(false);
    }
    claim_writes::set(ctx.now(), &mut status, what, to, reason, message);
    let version = claim.metadata.resource_version.as_deref();
    claim.metadata.resource_version =
        claim_writes::patch_status(ctx, claim, version, &status).await?;
    claim.status = Some(status);
    Ok(true)
}

/// Lists the pods of a node from the server.
async fn list(ctx: &Context, node: &NodeView) -> Result<(), StepError> {
    ctx.memory.end.drains.lists(&node.name);
    let (pods, version) = proof::pods_on(&ctx.client, &node.name).await?;
    ctx.memory
        .end
        .drains
        .listed(&node.name, pods, &version, Instant::now());
    Ok(())
}

fn pods_of(ctx: &Context, node: &NodeView) -> Result<Vec<Arc<DrainingPod>>, StepError> {
    ctx.memory
        .end
        .drains
        .pods(&node.name)
        .ok_or_else(|| StepError::Other(format!("the pods of {} have not been listed", node.name)))
}

/// Volumes still attached to the node, those of pods that do not leave left out.
async fn attachments(ctx: &Context, node: &str, pods: &[Arc<DrainingPod>]) -> Vec<String> {
    let here = ctx.memory.end.drains.attachments(node);
    if here.is_empty() {
        return Vec::new();
    }
    let now = ctx.now();
    let mut stay: Vec<String> = Vec::new();
    for pod in pods.iter().filter(|p| !p.counts(now)) {
        for claim in pod.volume_claims() {
            stay.extend(volume(ctx, node, pod.namespace(), &claim).await);
        }
    }
    let blocks =
        |volume: &Option<String>| volume.as_ref().is_none_or(|volume| !stay.contains(volume));
    here.into_iter()
        .filter(|a| blocks(&a.volume))
        .map(|a| a.name)
        .collect()
}

/// The volume that a claim is bound to, if so.
async fn volume(ctx: &Context, node: &str, namespace: &str, name: &str) -> Option<String> {
    let claim = format!("{namespace}/{name}");
    if let Some(known) = ctx.memory.end.drains.volume(node, &claim, Instant::now()) {
        return known;
    }
    let api: Api<PersistentVolumeClaim> = Api::namespaced(ctx.client.clone(), namespace);
    let found = api.get_opt(name).await.ok()?;
    let volume = found
        .and_then(|claim| claim.spec?.volume_name)
        .filter(|volume| !volume.is_empty());
    ctx.memory
        .end
        .drains
        .note_volume(node, &claim, volume.clone(), Instant::now());
    volume
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_cluster::{context, fresh, instance};

    #[tokio::test]
    async fn what_is_told_of_a_claim_one_after_the_other_all_stays() {
        let (server, mut claim) = fresh();
        let ctx = context(&server, Ok(instance()));
        for what in ["Drained", "VolumesDetached", "InstanceTerminating"] {
            assert_eq!(
                set_claim_condition(&ctx, &mut claim, what, ConditionStatus::True, what, "").await,
                Ok(true)
            );
            assert_eq!(
                set_claim_condition(&ctx, &mut claim, what, ConditionStatus::True, what, "").await,
                Ok(false),
                "said already"
            );
        }
        let conditions = server
            .claim()
            .and_then(|claim| claim.status)
            .unwrap_or_default()
            .conditions;
        let conditions: Vec<&str> = conditions.iter().map(|c| c.type_.as_str()).collect();
        assert_eq!(
            conditions,
            ["Drained", "VolumesDetached", "InstanceTerminating"]
        );
    }

    #[test]
    fn an_instance_ends_with_the_last_of_its_nodes() {
        let node = |name: &str, goes: bool| {
            let mut node = json!({"metadata": {"name": name}});
            if goes {
                node["metadata"]["deletionTimestamp"] = "2026-11-24T12:00:00Z".into();
            }
            Arc::new(NodeView::read(&node.to_string()).unwrap())
        };
        let of = |others: &[Arc<NodeView>]| instance_of(&node("b", true), others);
        assert_eq!(of(&[]), Instance::Ends);
        assert_eq!(of(&[node("a", false)]), Instance::Stays);
        assert_eq!(of(&[node("a", true), node("c", false)]), Instance::Stays);
        assert_eq!(of(&[node("c", true)]), Instance::EndsWithAnother);
        assert_eq!(of(&[node("a", true)]), Instance::EndsLater);
    }

    #[test]
    fn a_node_is_closed_since_its_taint_says_so_and_no_earlier() {
        let with = |taints: serde_json::Value| {
            let node = json!({"metadata": {"name": "n"}, "spec": {"taints": taints}});
            let noon: Timestamp = "2026-11-24T12:00:00.500Z".parse().unwrap();
            closed_for(&NodeView::read(&node.to_string()).unwrap(), noon)
                .map(|closed| closed.as_millis())
        };
        let taint =
            |effect: &str, at: &str| json!([{"key": DISRUPTED, "effect": effect, "timeAdded": at}]);
        assert_eq!(with(json!([])), None);
        assert_eq!(
            with(json!([{"key": DISRUPTED, "effect": "NoSchedule"}])),
            None,
            "it could be from just now"
        );
        assert_eq!(
            with(taint("NoExecute", "2026-11-24T11:00:00Z")),
            None,
            "another taint"
        );
        assert_eq!(
            with(taint("NoSchedule", "2026-11-24T11:59:56Z")),
            Some(4500)
        );
        assert_eq!(
            with(taint("NoSchedule", "2026-11-24T12:00:01Z")),
            Some(0),
            "rounded up"
        );
        assert_eq!(
            with(taint("NoSchedule", "2026-11-24T13:00:00Z")),
            None,
            "a clock that was wrong"
        );
    }
}

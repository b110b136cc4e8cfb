//! A node's end: no new pods, then the ones it has leave in order, then volumes, then the instance, then the Node.
//!
//! Like [`lifecycle`](super::lifecycle), [`step`] is run again until there is nothing left to do, and remembers nothing.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Preconditions};
use longshore_api::crd::{ConditionStatus, NodeClaim, Time, Timestamp, condition, set_condition};
use longshore_api::labels;
use longshore_cloud::CloudError;
use serde::Deserialize;
use serde_json::json;

use super::claims::FINALIZER;
use super::context::Context;
use super::lifecycle::{Outcome, TERMINATION_TIME};
use super::mutants::mutant;
use super::node::NodeView;

const DISRUPTED: &str = "karpenter.sh/disrupted";
const NO_BALANCER: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// A pod that has been going for longer than its grace period and this is not waited for.
const STUCK: i64 = 60;
const POLL: Duration = Duration::from_secs(1);

/// Does what is due for a node that is being deleted. `claims` are those with its provider ID.
pub async fn step(ctx: &Context, node: &NodeView, claims: &[Arc<NodeClaim>]) -> Outcome {
    if node.deletion.is_none() || !node.holds(FINALIZER) {
        return Ok(None);
    }
    let mut claim = match claims {
        [claim] => Some((**claim).clone()),
        _ => None,
    };
    if let Some(claim) = &claim
        && claim.metadata.deletion_timestamp.is_none()
    {
        ctx.may_write()?;
        let api: Api<NodeClaim> = Api::all(ctx.client.clone());
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        match api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => drop(other.map_err(|e| e.to_string())?),
        }
    }
    if !node.is_ready() && instance_is_gone(ctx, node).await {
        return drop_finalizer(ctx, node).await;
    }
    if !node.taints.iter().any(|t| t.key == DISRUPTED) {
        let mut taints = node.taints.clone();
        taints.push(longshore_api::crd::Taint {
            key: DISRUPTED.into(),
            value: String::new(),
            effect: longshore_api::crd::TaintEffect::NoSchedule,
            time_added: None,
        });
        let metadata = json!({"resourceVersion": node.resource_version, "labels": {NO_BALANCER: "karpenter"}});
        ctx.patch_node(&node.name, &json!({"metadata": metadata, "spec": {"taints": taints}})).await?;
        return Ok(Some(Duration::from_millis(200)));
    }
    let ends =
        claim.as_ref().and_then(|c| c.metadata.annotations.as_ref()?.get(TERMINATION_TIME)?.parse::<Timestamp>().ok());
    if let Some(ends) = ends {
        let message = format!("all pods will be deleted by {}", super::lifecycle::rfc3339(ends));
        ctx.events.node(&node.name, true, "TerminationGracePeriodExpiring", &message).await;
        if let Some(claim) = &claim {
            ctx.events.claim(claim, true, "TerminationGracePeriodExpiring", &message).await;
        }
    }
    let pods = pods_on(ctx, &node.name).await?;
    let left = drain(ctx, node, &pods, ends).await?;
    if left > 0 && !mutant("skips-drain") {
        if let Some(claim) = &mut claim {
            say(ctx, claim, "Drained", ConditionStatus::Unknown, "Draining", &format!("{left} pods left")).await?;
        }
        return Ok(Some(POLL));
    }
    if let Some(claim) = &mut claim
        && say(ctx, claim, "Drained", ConditionStatus::True, "Drained", "").await?
    {
        ctx.metrics.node_drained(claim);
    }
    let over = ends.is_some_and(|ends| ctx.now() >= ends);
    let attached = attachments(ctx, &node.name, &pods).await?;
    if let Some(claim) = &mut claim {
        if attached.is_empty() {
            say(ctx, claim, "VolumesDetached", ConditionStatus::True, "VolumesDetached", "").await?;
        } else if over {
            let reason = "TerminationGracePeriodElapsed";
            say(ctx, claim, "VolumesDetached", ConditionStatus::False, reason, &attached.join(", ")).await?;
        } else {
            let reason = "AwaitingVolumeDetachment";
            say(ctx, claim, "VolumesDetached", ConditionStatus::Unknown, reason, &attached.join(", ")).await?;
        }
    }
    if !attached.is_empty() && !over {
        let names = attached.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        ctx.events.node(&node.name, false, "AwaitingVolumeDetachment", &format!("still attached: {names}")).await;
        return Ok(Some(POLL));
    }
    // Kwok's instance is the Node itself, which goes only when its finalizer does: its provider says so.
    if let Some(claim) = &mut claim {
        say(ctx, claim, "InstanceTerminating", ConditionStatus::True, "InstanceTerminating", "").await?;
        ctx.may_write()?;
        match ctx.provider.delete(&node.provider_id).await {
            Err(CloudError::NotFound(_)) => {}
            Err(error) => return Err(error.to_string()),
            Ok(()) if ctx.provider.ends_with_node() => {}
            Ok(()) => return Ok(Some(Duration::from_secs(5))),
        }
    }
    drop_finalizer(ctx, node).await
}

async fn instance_is_gone(ctx: &Context, node: &NodeView) -> bool {
    matches!(ctx.provider.get(&node.provider_id).await, Err(CloudError::NotFound(_)))
}

async fn drop_finalizer(ctx: &Context, node: &NodeView) -> Outcome {
    let rest: Vec<&String> = node.finalizers.iter().filter(|f| *f != FINALIZER).collect();
    let metadata = json!({"resourceVersion": node.resource_version, "finalizers": rest});
    ctx.patch_node(&node.name, &json!({"metadata": metadata})).await?;
    let since = |at: &longshore_api::crd::Time| (ctx.now().as_second() - at.0.as_second()).max(0) as f64;
    let lived = node.created.as_ref().map(since);
    ctx.metrics.node_terminated(&node.labels, lived, node.deletion.as_ref().map(since));
    Ok(None)
}

/// Sets a condition of the claim unless it stands already; `claim` is then as it was written. Says whether it was news.
async fn say(
    ctx: &Context,
    claim: &mut NodeClaim,
    what: &str,
    to: ConditionStatus,
    reason: &str,
    message: &str,
) -> Result<bool, String> {
    let mut status = claim.status.clone().unwrap_or_default();
    let same = condition(&status.conditions, what).is_some_and(|c| c.status == to && c.reason == reason);
    if same {
        return Ok(false);
    }
    set_condition(&mut status.conditions, what, to, reason, message, Time(ctx.now()));
    let version = claim.metadata.resource_version.as_deref();
    claim.metadata.resource_version = super::lifecycle::patch_status(ctx, claim, version, &status).await?;
    claim.status = Some(status);
    Ok(true)
}

/// A pod as far as its leaving is concerned.
#[derive(Deserialize, Default, Clone, Debug)]
#[serde(rename_all = "camelCase", default)]
struct LeavingPod {
    metadata: Meta,
    spec: Spec,
    status: Status,
}

#[derive(Deserialize, Default, Clone, Debug)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    name: String,
    namespace: String,
    uid: String,
    annotations: std::collections::BTreeMap<String, String>,
    deletion_timestamp: Option<Time>,
    owner_references: Vec<Owner>,
}

#[derive(Deserialize, Default, Clone, Debug)]
#[serde(default)]
struct Owner {
    kind: String,
}

#[derive(Deserialize, Default, Clone, Debug)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    priority_class_name: String,
    termination_grace_period_seconds: Option<i64>,
    tolerations: Vec<Toleration>,
    volumes: Vec<Volume>,
}

#[derive(Deserialize, Default, Clone, Debug)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    name: String,
    persistent_volume_claim: Option<ClaimRef>,
    ephemeral: Option<serde_json::Value>,
}

#[derive(Deserialize, Default, Clone, Debug)]
#[serde(rename_all = "camelCase", default)]
struct ClaimRef {
    claim_name: String,
}

#[derive(Deserialize, Default, Clone, Debug)]
#[serde(default)]
struct Toleration {
    key: String,
    operator: String,
    effect: String,
}

#[derive(Deserialize, Default, Clone, Debug)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    start_time: Option<Time>,
}

impl LeavingPod {
    fn tolerates_disruption(&self) -> bool {
        self.spec.tolerations.iter().any(|t| {
            let key = t.key == DISRUPTED || (t.key.is_empty() && t.operator == "Exists");
            key && (t.effect.is_empty() || t.effect == "NoSchedule")
        })
    }

    fn is_daemon(&self) -> bool {
        self.metadata.owner_references.iter().any(|o| o.kind == "DaemonSet")
    }

    fn is_static(&self) -> bool {
        self.metadata.annotations.contains_key(labels::MIRROR_POD)
            || self.metadata.owner_references.iter().any(|o| o.kind == "Node")
    }

    fn is_stuck(&self, now: Timestamp) -> bool {
        self.metadata.deletion_timestamp.as_ref().is_some_and(|t| now.as_second() > t.0.as_second() + STUCK)
    }

    /// It has to leave before the node may go.
    fn counts(&self, now: Timestamp) -> bool {
        let ended = matches!(self.status.phase.as_str(), "Succeeded" | "Failed");
        !ended && !self.tolerates_disruption() && !self.is_static() && !self.is_stuck(now)
    }

    /// Until when it must be left alone, if so: `None` in it is for ever.
    fn held(&self, now: Timestamp) -> bool {
        match self.metadata.annotations.get(labels::DO_NOT_DISRUPT).map(String::as_str) {
            None | Some("false") => false,
            Some("true") => true,
            Some(text) => {
                let Ok(held) = longshore_api::crd::duration::duration(text) else { return false };
                let start = self.status.start_time.as_ref().map_or(now.as_second(), |t| t.0.as_second());
                now.as_second() < start + held.as_secs() as i64
            }
        }
    }

    /// Who leaves first: others before daemons, and those before critical ones.
    fn tier(&self) -> u8 {
        let critical =
            matches!(self.spec.priority_class_name.as_str(), "system-cluster-critical" | "system-node-critical");
        if mutant("ignores-tiers") { 0 } else { u8::from(critical) * 2 + u8::from(self.is_daemon()) }
    }

    fn full(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }
}

async fn pods_on(ctx: &Context, node: &str) -> Result<Vec<LeavingPod>, String> {
    #[derive(Deserialize, Default)]
    struct List {
        #[serde(default)]
        items: Vec<LeavingPod>,
    }
    let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}");
    let request = http::Request::get(path).body(Vec::new()).map_err(|e| e.to_string())?;
    let list: List = ctx.client.request(request).await.map_err(|e| e.to_string())?;
    Ok(list.items)
}

/// Asks the pods whose turn it is to leave. Returns how many have not left.
async fn drain(ctx: &Context, node: &NodeView, pods: &[LeavingPod], ends: Option<Timestamp>) -> Result<usize, String> {
    let now = ctx.now();
    let waited: Vec<&LeavingPod> = pods.iter().filter(|p| p.counts(now)).collect();
    if let Some(ends) = ends {
        for pod in waited.iter().filter(|p| p.metadata.deletion_timestamp.is_none()) {
            let grace = pod.spec.termination_grace_period_seconds.unwrap_or(30);
            let left = ends.as_second() - now.as_second();
            if left < grace {
                force(ctx, pod, left.max(1)).await?;
            }
        }
    }
    let Some(turn) = waited.iter().map(|p| p.tier()).min() else { return Ok(0) };
    let mut refused: Vec<String> = Vec::new();
    for pod in waited.iter().filter(|p| p.tier() == turn && p.metadata.deletion_timestamp.is_none()) {
        if pod.held(now) {
            refused.push(format!("{} (do-not-disrupt)", pod.full()));
        } else if !evict(ctx, pod).await? {
            refused.push(pod.full());
        }
    }
    if !refused.is_empty() {
        refused.truncate(5);
        let message = format!("pods that cannot leave yet: {}", refused.join(", "));
        ctx.events.node(&node.name, true, "FailedDraining", &message).await;
    }
    Ok(waited.len())
}

/// Asks a pod to leave; says whether it does.
async fn evict(ctx: &Context, pod: &LeavingPod) -> Result<bool, String> {
    ctx.may_write()?;
    let api: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(ctx.plain.clone(), &pod.metadata.namespace);
    let uid = Some(pod.metadata.uid.clone());
    let delete_options = Some(DeleteParams::default().preconditions(Preconditions { uid, resource_version: None }));
    let params = EvictParams { delete_options, ..EvictParams::default() };
    if mutant("ignores-budgets") {
        return force(ctx, pod, 30).await.map(|()| true);
    }
    let answer = api.evict(&pod.metadata.name, &params).await;
    let code = match &answer {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    };
    ctx.metrics.evictions.with_label_values(&[&code.to_string()]).inc();
    match answer {
        Ok(_) => {
            ctx.events.pod(&pod.full(), false, "Evicted", "Evicted pod: its node is going").await;
            Ok(true)
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 429 || status.message.contains("PodDisruptionBudget") => {
            Ok(false)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Deletes a pod whose time is up.
async fn force(ctx: &Context, pod: &LeavingPod, grace: i64) -> Result<(), String> {
    ctx.may_write()?;
    let api: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(ctx.plain.clone(), &pod.metadata.namespace);
    let uid = Some(pod.metadata.uid.clone());
    let params =
        DeleteParams::default().grace_period(grace as u32).preconditions(Preconditions { uid, resource_version: None });
    match api.delete(&pod.metadata.name, &params).await {
        Ok(_) => {
            let message = format!("Deleted pod with {grace} s of grace: its node's termination grace period is over");
            ctx.events.pod(&pod.full(), false, "Disrupted", &message).await;
            Ok(())
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Volumes still attached to the node, those of pods that do not leave left out.
async fn attachments(ctx: &Context, node: &str, pods: &[LeavingPod]) -> Result<Vec<String>, String> {
    let api: Api<VolumeAttachment> = Api::all(ctx.client.clone());
    let all = api.list(&ListParams::default()).await.map_err(|e| e.to_string())?;
    let here: Vec<&VolumeAttachment> = all.items.iter().filter(|a| a.spec.node_name == node).collect();
    if here.is_empty() {
        return Ok(Vec::new());
    }
    let now = ctx.now();
    let mut stay: Vec<String> = Vec::new();
    for pod in pods.iter().filter(|p| !p.counts(now)) {
        for volume in &pod.spec.volumes {
            let claim = match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(claim), _) => claim.claim_name.clone(),
                (None, Some(_)) => format!("{}-{}", pod.metadata.name, volume.name),
                (None, None) => continue,
            };
            let api: Api<k8s_openapi::api::core::v1::PersistentVolumeClaim> =
                Api::namespaced(ctx.client.clone(), &pod.metadata.namespace);
            if let Ok(Some(claim)) = api.get_opt(&claim).await {
                stay.extend(claim.spec.and_then(|s| s.volume_name));
            }
        }
    }
    let blocks = |a: &&&VolumeAttachment| {
        a.spec.source.persistent_volume_name.as_ref().is_none_or(|volume| !stay.contains(volume))
    };
    Ok(here.iter().filter(blocks).filter_map(|a| a.metadata.name.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::lifecycle::tests::{context, fresh, instance};

    fn pod(json: &str) -> LeavingPod {
        serde_json::from_str(json).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[tokio::test]
    async fn what_is_told_of_a_claim_one_after_the_other_all_stays() {
        let (server, mut claim) = fresh();
        let ctx = context(&server, Ok(instance()));
        for what in ["Drained", "VolumesDetached", "InstanceTerminating"] {
            assert_eq!(say(&ctx, &mut claim, what, ConditionStatus::True, what, "").await, Ok(true));
            assert_eq!(say(&ctx, &mut claim, what, ConditionStatus::True, what, "").await, Ok(false), "said already");
        }
        let told = server.claim().and_then(|claim| claim.status).unwrap_or_default().conditions;
        let told: Vec<&str> = told.iter().map(|c| c.type_.as_str()).collect();
        assert_eq!(told, ["Drained", "VolumesDetached", "InstanceTerminating"]);
    }

    #[test]
    fn daemons_leave_after_others_and_critical_pods_last() {
        let plain = pod("{}");
        let daemon = pod(r#"{"metadata":{"ownerReferences":[{"kind":"DaemonSet"}]}}"#);
        let critical = pod(r#"{"spec":{"priorityClassName":"system-cluster-critical"}}"#);
        let both = pod(
            r#"{"metadata":{"ownerReferences":[{"kind":"DaemonSet"}]},"spec":{"priorityClassName":"system-node-critical"}}"#,
        );
        assert_eq!([&plain, &daemon, &critical, &both].map(LeavingPod::tier), [0, 1, 2, 3]);
    }

    #[test]
    fn pods_that_stay_by_right_are_not_waited_for() {
        let now = at(1_000_000);
        assert!(pod("{}").counts(now));
        assert!(!pod(r#"{"status":{"phase":"Succeeded"}}"#).counts(now));
        assert!(!pod(r#"{"spec":{"tolerations":[{"operator":"Exists"}]}}"#).counts(now));
        assert!(!pod(r#"{"spec":{"tolerations":[{"key":"karpenter.sh/disrupted","operator":"Exists"}]}}"#).counts(now));
        assert!(pod(r#"{"spec":{"tolerations":[{"key":"other","operator":"Exists"}]}}"#).counts(now));
        assert!(!pod(r#"{"metadata":{"ownerReferences":[{"kind":"Node"}]}}"#).counts(now));
        assert!(!pod(r#"{"metadata":{"deletionTimestamp":"1970-01-01T00:00:00Z"}}"#).counts(now));
    }

    #[test]
    fn do_not_disrupt_holds_for_ever_or_for_a_while() {
        let with = |value: &str| {
            pod(&format!(
                r#"{{"metadata":{{"annotations":{{"karpenter.sh/do-not-disrupt":"{value}"}}}},
                "status":{{"startTime":"1970-01-01T00:00:00Z"}}}}"#
            ))
        };
        assert!(with("true").held(at(9_999)) && !with("false").held(at(0)) && !with("soon").held(at(0)));
        assert!(with("1h").held(at(3_599)) && !with("1h").held(at(3_600)));
    }
}

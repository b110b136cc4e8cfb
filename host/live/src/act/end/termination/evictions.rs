//! Evicts pods in order. A pod that a PodDisruptionBudget protects is asked again and again: for
//! ever, where the NodeClaim has no `terminationGracePeriod`. With one, a pod that needs longer
//! to end than its node has left is deleted at once. When a node has to end is written by
//! `write_termination_time` in `act/end/finalize.rs`, and by `act/repair.rs` and
//! `act/repair/reboot.rs`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Preconditions};
use longshore_api::crd::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::pod::DrainingPod;
use crate::act::context::Context;
use crate::act::end::drains::PodRequest;
use crate::process::mutants::mutant;
use crate::process::step_error::StepError;

/// Most pods that are named in an Event.
const MAX_NAMED_PODS: usize = 5;
/// Most characters of a reason.
const MAX_REASON_CHARS: usize = 100;

/// What became of a request that a pod may leave.
enum Answer {
    /// It leaves, or has left.
    Leaves,
    /// It does not, and why; empty if the API server does not say which disruption budget forbids it.
    Refuses(String),
}

/// Evicts the pods of a node whose turn it is. Returns how many have not left.
///
/// # Errors
/// This replica does not lead, or the server cannot be reached.
pub async fn drain(
    ctx: &Context,
    node: &str,
    pods: &[Arc<DrainingPod>],
    ends: Option<Timestamp>,
) -> Result<usize, StepError> {
    let now = ctx.now();
    let waited: Vec<&Arc<DrainingPod>> = pods.iter().filter(|p| p.counts(now)).collect();
    let Some(turn) = waited.iter().map(|p| p.eviction_tier()).min() else {
        return Ok(0);
    };
    let mut refused: Vec<String> = Vec::new();
    for pod in waited.iter().filter(|p| !p.is_going()) {
        // Computed per pod and not once at the first eviction, because each answer takes time.
        let left = ends.map(|ends| ends.as_second() - ctx.now().as_second());
        let why = match left.filter(|left| *left < pod.grace()) {
            // Whatever its turn, its budget and its annotations.
            Some(left) => {
                let grace = if mutant("wrong-grace") {
                    1
                } else {
                    left.max(1)
                };
                ask(ctx, node, pod, PodRequest::Delete, force(ctx, pod, grace)).await?
            }
            None if pod.eviction_tier() > turn => None,
            None if pod.held(now) => Some("do-not-disrupt".to_owned()),
            None => ask(ctx, node, pod, PodRequest::Evict, evict(ctx, pod)).await?,
        };
        refused.extend(why.map(|why| {
            if why.is_empty() {
                pod.full()
            } else {
                format!("{} ({why})", pod.full())
            }
        }));
    }
    if !refused.is_empty() {
        refused.truncate(MAX_NAMED_PODS);
        let message = format!("evictions refused: {}", refused.join(", "));
        ctx.events
            .node(node, true, "FailedDraining", &message)
            .await;
    }
    Ok(waited.len())
}

/// Asks a pod unless it was asked a moment ago. Returns why it does not leave, if so.
async fn ask(
    ctx: &Context,
    node: &str,
    pod: &DrainingPod,
    what: PodRequest,
    question: impl Future<Output = Result<Answer, StepError>>,
) -> Result<Option<String>, StepError> {
    if !ctx
        .memory
        .end
        .drains
        .may_ask(node, pod, what, Instant::now())
    {
        return Ok(ctx.memory.end.drains.refusal(node, pod, what));
    }
    ctx.may_write()?;
    let why = match question.await? {
        Answer::Leaves => None,
        Answer::Refuses(why) => Some(why.chars().take(MAX_REASON_CHARS).collect::<String>()),
    };
    ctx.memory
        .end
        .drains
        .asked(node, pod, what, why.as_deref(), Instant::now());
    Ok(why)
}

/// The request that asks a pod to leave. By hand: kube 5.0 writes the options of an eviction under
/// a name that the API does not know, and without the UID a new pod of the same name would be
/// evicted in the place of the old one.
fn eviction(pod: &DrainingPod) -> Result<http::Request<Vec<u8>>, StepError> {
    let (namespace, name) = (pod.namespace(), pod.name());
    let body = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid()}},
    });
    http::Request::post(format!(
        "/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    ))
    .header(http::header::CONTENT_TYPE, "application/json")
    .body(body.to_string().into_bytes())
    .map_err(StepError::other)
}

/// Asks a pod to leave.
async fn evict(ctx: &Context, pod: &DrainingPod) -> Result<Answer, StepError> {
    if mutant("ignores-budgets") {
        return force(ctx, pod, 30).await;
    }
    let answer = ctx.plain.request_text(eviction(pod)?).await;
    let code = match &answer {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    };
    ctx.metrics
        .evictions
        .with_label_values(&[&code.to_string()])
        .inc();
    match answer {
        Ok(_) => {
            ctx.events
                .pod_with_uid(
                    (&pod.full(), pod.uid()),
                    false,
                    "Evicted",
                    "Evicted pod: node is terminating",
                )
                .await;
            Ok(Answer::Leaves)
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Answer::Leaves),
        Err(kube::Error::Api(status))
            if status.code == 429 || status.message.contains("PodDisruptionBudget") =>
        {
            Ok(Answer::Refuses(cause(&status)))
        }
        Err(kube::Error::Api(status)) => Ok(Answer::Refuses(status.message)),
        Err(error) => Err(error.into()),
    }
}

/// Which disruption budget forbids an eviction, in the API server's words; empty if it does not say.
fn cause(status: &kube::core::Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut said = causes.map(|cause| cause.message.trim_end_matches('.'));
    said.next().unwrap_or_default().to_owned()
}

/// Deletes a pod that has no more time than its node has left.
async fn force(ctx: &Context, pod: &DrainingPod, grace: i64) -> Result<Answer, StepError> {
    let api: Api<Pod> = Api::namespaced(ctx.plain.clone(), pod.namespace());
    let uid = Some(pod.uid().to_owned());
    let params = DeleteParams::default()
        .grace_period(u32::try_from(grace).unwrap_or(0))
        .preconditions(Preconditions {
            uid,
            resource_version: None,
        });
    match api.delete(pod.name(), &params).await {
        Ok(_) => {
            let message = format!(
                "Deleted pod with {grace} s grace period: the node's termination grace period \
                expires"
            );
            ctx.events
                .pod_with_uid((&pod.full(), pod.uid()), false, "Disrupted", &message)
                .await;
            Ok(Answer::Leaves)
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Answer::Leaves),
        Err(kube::Error::Api(status)) => Ok(Answer::Refuses(status.message)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eviction_names_the_pod_that_is_meant() {
        let pod = r#"{"metadata":{"name":"db-0","namespace":"shop","uid":"u-1"}}"#;
        let request = eviction(&serde_json::from_str(pod).unwrap()).unwrap();
        assert_eq!(request.uri(), "/api/v1/namespaces/shop/pods/db-0/eviction");
        let body: serde_json::Value = serde_json::from_slice(request.body()).unwrap();
        assert_eq!(body["deleteOptions"]["preconditions"]["uid"], "u-1");
    }
}

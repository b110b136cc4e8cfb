//! Creates the NodeClaims of a plan, several at a time. Each is known by its name, so that a create
//! without an answer is looked up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Resource as _;
use kube::api::PostParams;
use kube::core::Request;
use longshore_api::crd::NodeClaim;
use longshore_cloud::Launch;

use super::launch_groups;
use super::launch_request::launch_of;
use super::refusals::{self, Refused};
use crate::act::context::Context;
use crate::decide::claims::{NewNodeClaim, ROUND};
use crate::observe::planned_pods::PLANNED_PODS;
use crate::process::connection::is_not_leading;
use crate::process::mutants::mutant;
use crate::process::step_error::StepError;
use longshore_api::kinds::ObjectKind;
use longshore_report::count;

/// Leaves out the claims that are for one of these pods; says how many those are.
pub fn leave_out(wanted: &mut Vec<NewNodeClaim>, pods: &BTreeSet<String>) -> usize {
    let before = wanted.len();
    wanted.retain(|want| want.pods.iter().all(|pod| !pods.contains(pod)));
    before - wanted.len()
}

/// A NodeClaim that was created.
pub struct Created {
    pub name: String,
    /// The pods that it is for, `namespace/name`.
    pub pods: Vec<String>,
}

/// Creates claims, several at a time, and reports each to the loop at once. Returns those created,
/// and how many failed.
pub async fn write_all(ctx: &Arc<Context>, mut wanted: Vec<NewNodeClaim>) -> (Vec<Created>, usize) {
    let total = wanted.len();
    launch_groups::divide(&mut wanted, ctx.provider.most_in_group());
    let one = |want: NewNodeClaim| async move {
        if mutant("launch-first")
            && let Ok(object) = serde_json::from_value::<NodeClaim>(want.object.clone())
        {
            let launch = Launch {
                uid: want.pods.join(","),
                ..launch_of(&object)
            };
            let _ = ctx.provider.create(&launch).await;
        }
        match create(ctx, &want).await {
            Ok(text) => {
                ctx.memory
                    .launch
                    .launches
                    .made(&uid_of(&text), ctx.leadership.since());
                ctx.echo(ObjectKind::NodeClaim, &want.name, &text);
                tracing::info!(
                    nodeclaim = want.name,
                    nodepool = want.pool,
                    pods = want.pods.len(),
                    want.summary,
                    "created NodeClaim"
                );
                if let Some(policy) = &want.discouraged_by {
                    say_discouraged(ctx, &want, policy).await;
                }
                ctx.memory
                    .launch
                    .refusals
                    .done(Refused::Creation, &want.pool);
                ctx.metrics
                    .claim_created(&want.pool, want.min_values_relaxed);
                Some(Created {
                    name: want.name,
                    pods: want.pods,
                })
            }
            Err(error) => {
                creation_refused(ctx, &want, &error).await;
                None
            }
        }
    };
    let made: Vec<_> = futures::stream::iter(wanted)
        .map(one)
        .buffer_unordered(16)
        .collect()
        .await;
    let made: Vec<Created> = made.into_iter().flatten().collect();
    let failed = total - made.len();
    (made, failed)
}

/// What a policy discourages is bought: NodePool and log say so.
async fn say_discouraged(ctx: &Context, want: &NewNodeClaim, policy: &str) {
    let message = format!(
        "policy {policy} discourages {}, which is bought for {}: nothing that it leaves costs less",
        want.summary,
        count(want.pods.len(), "pod")
    );
    tracing::warn!(nodeclaim = want.name, nodepool = want.pool, "{message}");
    let events = &ctx.events;
    events
        .pool_named(&want.pool, true, "Discouraged", &message)
        .await;
}

/// A NodeClaim could not be created: its pods and the NodePool say so, and the log, once in a while.
async fn creation_refused(ctx: &Context, want: &NewNodeClaim, error: &StepError) {
    if matches!(error, StepError::NotLeading) {
        return;
    }
    let (what, why) = (Refused::Creation, error.to_string());
    if !ctx
        .memory
        .launch
        .refusals
        .note(what, &want.pool, &why, ctx.now())
    {
        tracing::debug!(
            nodeclaim = want.name,
            nodepool = want.pool,
            why,
            "creating NodeClaim failed"
        );
        return;
    }
    tracing::error!(
        nodeclaim = want.name,
        nodepool = want.pool,
        why,
        "creating NodeClaim failed"
    );
    let message = format!(
        "no NodeClaim can be created for NodePool {}: {why}",
        want.pool
    );
    let events = &ctx.events;
    events
        .pool_named(&want.pool, true, what.reason(), &message)
        .await;
    for pod in want.pods.iter().take(refusals::MAX_EVENT_PODS) {
        events.pod(pod, true, what.reason(), &message).await;
    }
}

/// How often a create without an answer is looked up.
const LOOK_UPS: u32 = 4;

/// Creates one claim. Its name is unique, so that it can be looked up when no answer comes. It is
/// never sent twice without that. Returns the claim as the server has it.
async fn create(ctx: &Context, want: &NewNodeClaim) -> Result<String, StepError> {
    ctx.may_write()?;
    let path = Request::new(NodeClaim::url_path(&(), None));
    let mut object = want.object.clone();
    if mutant("random-name") {
        object["metadata"]["name"] = serde_json::Value::Null;
        object["metadata"]["generateName"] = format!("{}-", want.pool).into();
    }
    let body = object.to_string().into_bytes();
    let sent = path
        .create(&PostParams::default(), body)
        .map_err(kube::Error::BuildRequest)?;
    let refused = match ctx.client.request_text(sent).await {
        Ok(text) => return Ok(text),
        Err(kube::Error::Api(status)) if !may_have_happened(status.code) => {
            return Err(StepError::Other(status.message));
        }
        Err(error) => error,
    };
    if is_not_leading(&refused) {
        return Err(StepError::NotLeading);
    }
    for attempt in 0..LOOK_UPS {
        let asked = path
            .get(&want.name, &kube::api::GetParams::default())
            .map_err(kube::Error::BuildRequest)?;
        match ctx.client.request_text(asked).await {
            Ok(text) if is_ours(&text, want) => return Ok(text),
            Ok(_) => {
                return Err(StepError::Other(format!(
                    "another NodeClaim is called {}",
                    want.name
                )));
            }
            Err(kube::Error::Api(status)) if status.code == 404 && attempt > 0 => break,
            Err(_) => tokio::time::sleep(Duration::from_secs(1 << attempt)).await,
        }
    }
    Err(refused.into())
}

/// Whether a request with this answer may have been carried out.
fn may_have_happened(code: u16) -> bool {
    code == 409 || code >= 500
}

/// The UID of a claim that the server has answered with; empty if it has none.
fn uid_of(text: &str) -> String {
    let claim = serde_json::from_str::<NodeClaim>(text).ok();
    claim
        .and_then(|claim| claim.metadata.uid)
        .unwrap_or_default()
}

/// Whether a claim is the one that was to be created: of the same round, for the same pods.
fn is_ours(text: &str, want: &NewNodeClaim) -> bool {
    let Ok(found) = serde_json::from_str::<NodeClaim>(text) else {
        return false;
    };
    let annotation = |name: &str| found.metadata.annotations.as_ref()?.get(name).cloned();
    let wanted = |name: &str| {
        want.object["metadata"]["annotations"][name]
            .as_str()
            .map(str::to_owned)
    };
    [ROUND, PLANNED_PODS]
        .iter()
        .all(|name| annotation(name) == wanted(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_that_has_vanished_costs_its_own_nodeclaim_and_no_other() {
        let wanted = |name: &str, pods: &[&str]| NewNodeClaim {
            name: name.to_owned(),
            pool: "web".to_owned(),
            pods: pods.iter().map(|pod| (*pod).to_owned()).collect(),
            object: json!({}),
            summary: String::new(),
            min_values_relaxed: false,
            discouraged_by: None,
        };
        let mut all = vec![
            wanted("1", &["shop/a", "shop/b"]),
            wanted("2", &["shop/c"]),
            wanted("3", &["shop/d"]),
        ];
        let gone = BTreeSet::from(["shop/b".to_owned(), "shop/x".to_owned()]);
        assert_eq!(leave_out(&mut all, &gone), 1);
        let left: Vec<&str> = all.iter().map(|want| &*want.name).collect();
        assert_eq!(left, ["2", "3"]);
    }
}

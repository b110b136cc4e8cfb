//! Writes to a NodeClaim: metadata, status and conditions, deletion.
//!
//! Every write names the version that it is based on. The copy that a step gets can be old (a
//! lagging watch, a new leader), and its result must not undo what a newer copy has caused. The
//! server refuses such a write as a conflict, and the next step has the new version.

use kube::Resource as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::Request;
use longshore_api::crd::{
    Condition, ConditionStatus, NodeClaim, NodeClaimStatus, Time, Timestamp, condition,
    set_condition,
};
use serde_json::{Value, json};

use super::context::Context;
use longshore_api::kinds::ObjectKind;

use crate::process::mutants::mutant;
use crate::process::step_error::StepError;
use longshore_core::model::conditions::CONSISTENT_STATE_FOUND;
use longshore_core::model::conditions::{CONSOLIDATABLE, INITIALIZED, LAUNCHED, REGISTERED};

/// Writes what has changed: labels and annotations first, then the status.
#[allow(clippy::missing_errors_doc)]
pub async fn write(
    ctx: &Context,
    old: &NodeClaim,
    new: &NodeClaim,
    status: NodeClaimStatus,
) -> Result<(), StepError> {
    let mut version = old.metadata.resource_version.clone();
    let (was, is) = (&old.metadata, &new.metadata);
    let annotated = was
        .annotations
        .iter()
        .flatten()
        .ne(is.annotations.iter().flatten());
    if was.labels != is.labels || annotated {
        let mut patch = json!({"labels": is.labels});
        if annotated {
            patch["annotations"] = json!(is.annotations);
        }
        version = patch_meta(ctx, old, patch).await?;
    }
    if old.status.as_ref() != Some(&status) {
        patch_status(ctx, old, version.as_deref(), &status).await?;
    }
    Ok(())
}

/// Counts a condition that has changed its status. One that is new and Unknown has not.
fn announce(ctx: &Context, old: &NodeClaim, new: &Condition) {
    let before = old
        .status
        .as_ref()
        .and_then(|s| condition(&s.conditions, &new.type_));
    let was = before.map_or(ConditionStatus::Unknown, |c| c.status);
    if was != new.status {
        ctx.metrics.claim_transition(before, new);
        tell(ctx, old, before, new);
    }
}

/// Conditions that change often, of which Karpenter writes no Event either.
const UNTOLD: [&str; 2] = [CONSISTENT_STATE_FOUND, CONSOLIDATABLE];

/// Says in an Event that a condition has changed, as long as there are not too many of them: one
/// for each condition of each claim costs the API server more than the claims do.
fn tell(ctx: &Context, claim: &NodeClaim, before: Option<&Condition>, new: &Condition) {
    if ctx.observes()
        && !UNTOLD.contains(&new.type_.as_str())
        && let Some(message) = transition(before, new)
    {
        ctx.events.claim_if_few(
            claim,
            new.status == ConditionStatus::False,
            &new.type_,
            message,
        );
    }
}

/// The message of an Event about a changed condition; nothing for one that was unknown and still
/// is.
pub fn transition(before: Option<&Condition>, new: &Condition) -> Option<String> {
    let before = before.map_or(ConditionStatus::Unknown, |c| c.status);
    let message = if new.message.is_empty() {
        String::new()
    } else {
        format!(", Message: {}", new.message)
    };
    (before != new.status).then(|| {
        let Condition {
            type_,
            status,
            reason,
            ..
        } = new;
        format!(
            "Status condition transitioned, Type: {type_}, Status: {before:?} -> {status:?}, \
            Reason: {reason}{message}"
        )
    })
}

/// Patches the metadata of a claim. Returns its new version.
#[allow(clippy::missing_errors_doc)]
pub async fn patch_meta(
    ctx: &Context,
    claim: &NodeClaim,
    fields: Value,
) -> Result<Option<String>, StepError> {
    let mut metadata = fields;
    if !mutant("no-precondition") {
        metadata["resourceVersion"] = json!(claim.metadata.resource_version);
    }
    send_meta(ctx, claim, metadata).await
}

/// Writes annotations of a claim; `null` takes one away. Whatever else is there stays, so no version is
/// named.
#[allow(clippy::missing_errors_doc)]
pub async fn annotate(
    ctx: &Context,
    claim: &NodeClaim,
    annotations: Value,
) -> Result<(), StepError> {
    let metadata = json!({"annotations": annotations});
    send_meta(ctx, claim, metadata).await.map(drop)
}

/// Sends a patch of the metadata of a claim. Returns the claim's new version.
#[allow(clippy::missing_errors_doc)]
async fn send_meta(
    ctx: &Context,
    claim: &NodeClaim,
    metadata: Value,
) -> Result<Option<String>, StepError> {
    ctx.may_write_claim(claim)?;
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let patch = Patch::Merge(json!({"metadata": metadata}));
    let path = Request::new(NodeClaim::url_path(&(), None));
    send(ctx, name, path.patch(name, &PatchParams::default(), &patch)).await
}

/// Writes the status of a claim that has this version, and counts conditions that have changed.
/// Returns the new version.
#[allow(clippy::missing_errors_doc)]
pub async fn patch_status(
    ctx: &Context,
    claim: &NodeClaim,
    version: Option<&str>,
    status: &NodeClaimStatus,
) -> Result<Option<String>, StepError> {
    let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
    let written = send_status(ctx, claim, patch).await?;
    status
        .conditions
        .iter()
        .for_each(|new| announce(ctx, claim, new));
    Ok(written)
}

/// Sends a patch of the status of a claim. Returns the claim's new version.
#[allow(clippy::missing_errors_doc)]
async fn send_status(
    ctx: &Context,
    claim: &NodeClaim,
    patch: Value,
) -> Result<Option<String>, StepError> {
    ctx.may_write_claim(claim)?;
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let path = Request::new(NodeClaim::url_path(&(), None));
    send(
        ctx,
        name,
        path.patch_subresource(
            "status",
            name,
            &PatchParams::default(),
            &Patch::Merge(patch),
        ),
    )
    .await
}

/// Sends a write of a claim; the answer is folded in before anything else is done with the claim.
async fn send(
    ctx: &Context,
    name: &str,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<Option<String>, StepError> {
    let request = request.map_err(kube::Error::BuildRequest)?;
    let answer = ctx.client.request_text(request).await?;
    Ok(ctx.echo(ObjectKind::NodeClaim, name, &answer))
}

/// Writes when pods were last bound to a claim's node or left it. Whatever else is in the status
/// stays, so no version is named.
#[allow(clippy::missing_errors_doc)]
pub async fn pod_event(ctx: &Context, claim: &NodeClaim, time: &str) -> Result<(), StepError> {
    send_status(ctx, claim, json!({"status": {"lastPodEventTime": time}}))
        .await
        .map(drop)
}

/// Deletes a claim if it is unchanged since it was read. Says whether it was there.
#[allow(clippy::missing_errors_doc)]
pub async fn delete(ctx: &Context, claim: &NodeClaim, why: &str) -> Result<bool, StepError> {
    ctx.may_write_claim(claim)?;
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let api: Api<NodeClaim> = Api::all(ctx.client.clone());
    let (uid, resource_version) = (
        claim.metadata.uid.clone(),
        claim.metadata.resource_version.clone(),
    );
    let params = DeleteParams::default().preconditions(Preconditions {
        uid,
        resource_version,
    });
    match api.delete(name, &params).await {
        Ok(deleted) => {
            // What has no finalizer is gone at once, and the watch says so.
            let going = deleted.left().filter(|claim| {
                claim.metadata.deletion_timestamp.is_some()
                    && claim
                        .metadata
                        .finalizers
                        .as_ref()
                        .is_some_and(|all| !all.is_empty())
            });
            if let Some(going) = going.and_then(|claim| serde_json::to_string(&claim).ok()) {
                ctx.echo(ObjectKind::NodeClaim, name, &going);
            }
            tracing::info!(nodeclaim = name, why, "asked for deletion of NodeClaim");
            Ok(true)
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        // A conflict: another claim has this name, or there was a concurrent write. The next step
        // finds out.
        Err(error) => Err(error.into()),
    }
}

/// The condition Ready follows from the three before it.
pub fn set_ready(now: Timestamp, status: &mut NodeClaimStatus) {
    let parts = [LAUNCHED, REGISTERED, INITIALIZED].map(|t| condition(&status.conditions, t));
    let worst = |wanted: ConditionStatus| {
        parts
            .iter()
            .flatten()
            .find(|c| c.status == wanted)
            .map(|c| (*c).clone())
    };
    let (state, reason, message) = if let Some(c) = worst(ConditionStatus::False) {
        (
            ConditionStatus::False,
            "UnhealthyDependents".to_owned(),
            format!("{}={}", c.type_, c.status.text()),
        )
    } else if parts
        .iter()
        .all(|c| c.is_some_and(|c| c.status == ConditionStatus::True))
    {
        (ConditionStatus::True, "Ready".to_owned(), String::new())
    } else {
        let waits: Vec<String> = parts
            .iter()
            .flatten()
            .filter(|c| c.status != ConditionStatus::True)
            .map(|c| c.type_.clone())
            .collect();
        (
            ConditionStatus::Unknown,
            "ReconcilingDependents".to_owned(),
            format!("waits for {}", waits.join(", ")),
        )
    };
    set(now, status, "Ready", state, &reason, &message);
}

/// Sets a condition; says whether that changed its status.
pub fn set(
    now: Timestamp,
    status: &mut NodeClaimStatus,
    what: &str,
    to: ConditionStatus,
    reason: &str,
    message: &str,
) -> bool {
    let before = condition(&status.conditions, what).map(|c| c.status);
    set_condition(&mut status.conditions, what, to, reason, message, Time(now));
    before != Some(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_says_what_a_condition_was_and_is() {
        let stated = |status: &str, message: &str| -> Condition {
            serde_json::from_value(json!({
                "type": "Registered", "status": status, "reason": "Registered", "message": message,
                "lastTransitionTime": "2026-11-01T12:00:00Z",
            }))
            .unwrap()
        };
        let (unknown, yes, no) = (
            stated("Unknown", ""),
            stated("True", ""),
            stated("False", "no node"),
        );
        assert_eq!(transition(None, &unknown), None);
        assert_eq!(transition(Some(&yes), &yes), None);
        let of = "Status condition transitioned, Type: Registered, Status:";
        assert_eq!(
            transition(None, &yes).unwrap(),
            format!("{of} Unknown -> True, Reason: Registered")
        );
        let expected = format!("{of} True -> False, Reason: Registered, Message: no node");
        assert_eq!(transition(Some(&yes), &no).unwrap(), expected);
    }
}

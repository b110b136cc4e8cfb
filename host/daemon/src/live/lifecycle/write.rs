//! What a step writes to its claim. Every write names the version that it was made from: the copies that steps are given
//! can be old (a watch that lags, a replica that has just taken over), and what came of an old one must not undo what a
//! newer one has brought about. A refusal is a conflict, and the next look has the new version.

use kube::Resource as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::Request;
use longshore_api::crd::{Condition, ConditionStatus, NodeClaim, NodeClaimStatus, condition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::live::context::Context;

/// Writes what has changed: labels first, then the status.
#[allow(clippy::missing_errors_doc)]
pub async fn write(ctx: &Context, old: &NodeClaim, new: &NodeClaim, status: NodeClaimStatus) -> Result<(), String> {
    let mut version = old.metadata.resource_version.clone();
    if old.metadata.labels != new.metadata.labels {
        version = patch_meta(ctx, old, json!({"labels": new.metadata.labels})).await?;
    }
    if old.status.as_ref() != Some(&status) {
        patch_status(ctx, old, version.as_deref(), &status).await?;
        for c in &status.conditions {
            announce(ctx, old, c);
        }
    }
    Ok(())
}

/// Counts a condition that has changed its status.
fn announce(ctx: &Context, old: &NodeClaim, new: &Condition) {
    let before = old.status.as_ref().and_then(|s| condition(&s.conditions, &new.type_));
    if before.map(|c| c.status) != Some(new.status) {
        ctx.metrics.claim_transition(before, new);
        tell(ctx, old, before, new);
    }
}

/// Says in an Event that a condition has changed, as long as there are not too many of them: one for each condition of each
/// claim costs the API server more than the claims do.
fn tell(ctx: &Context, claim: &NodeClaim, before: Option<&Condition>, new: &Condition) {
    if ctx.observes()
        && let Some(message) = transition(before, new)
    {
        ctx.events.claim_if_few(claim, new.status == ConditionStatus::False, &new.type_, message);
    }
}

/// What an Event says of a condition that has changed; nothing for one that nobody could say anything of and still can
/// not.
pub fn transition(before: Option<&Condition>, new: &Condition) -> Option<String> {
    let before = before.map_or(ConditionStatus::Unknown, |c| c.status);
    let message = if new.message.is_empty() { String::new() } else { format!(", Message: {}", new.message) };
    (before != new.status).then(|| {
        let Condition { type_, status, reason, .. } = new;
        format!(
            "Status condition transitioned, Type: {type_}, Status: {before:?} -> {status:?}, Reason: {reason}{message}"
        )
    })
}

/// Patches the metadata of a claim. Returns its new version.
#[allow(clippy::missing_errors_doc)]
pub async fn patch_meta(ctx: &Context, claim: &NodeClaim, fields: Value) -> Result<Option<String>, String> {
    ctx.may_write()?;
    let mut metadata = fields;
    metadata["resourceVersion"] = json!(claim.metadata.resource_version);
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let patch = Patch::Merge(json!({"metadata": metadata}));
    let api: Api<NodeClaim> = Api::all(ctx.client.clone());
    let written = api.patch_metadata(name, &PatchParams::default(), &patch).await.map_err(|e| e.to_string())?;
    ctx.written.note(name, written.metadata.resource_version.as_deref());
    Ok(written.metadata.resource_version)
}

/// Writes the status of a claim that has this version. Returns the new one.
#[allow(clippy::missing_errors_doc)]
pub async fn patch_status(
    ctx: &Context,
    claim: &NodeClaim,
    version: Option<&str>,
    status: &NodeClaimStatus,
) -> Result<Option<String>, String> {
    send_status(ctx, claim, json!({"metadata": {"resourceVersion": version}, "status": status})).await
}

/// Sends a patch of the status of a claim. Returns the claim's new version; nothing else of the answer is read.
#[allow(clippy::missing_errors_doc)]
async fn send_status(ctx: &Context, claim: &NodeClaim, patch: Value) -> Result<Option<String>, String> {
    #[derive(Deserialize)]
    struct Written {
        metadata: Version,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        resource_version: Option<String>,
    }
    ctx.may_write()?;
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let path = Request::new(NodeClaim::url_path(&(), None));
    let request = path.patch_subresource("status", name, &PatchParams::default(), &Patch::Merge(patch));
    let request = request.map_err(|e| kube::Error::BuildRequest(e).to_string())?;
    let written: Written = ctx.client.request(request).await.map_err(|e| e.to_string())?;
    ctx.written.note(name, written.metadata.resource_version.as_deref());
    Ok(written.metadata.resource_version)
}

/// Writes when pods last came to a claim's node or went. Whatever else is in the status stays, so no version is named.
#[allow(clippy::missing_errors_doc)]
pub async fn pod_event(ctx: &Context, claim: &NodeClaim, time: &str) -> Result<(), String> {
    send_status(ctx, claim, json!({"status": {"lastPodEventTime": time}})).await.map(drop)
}

/// Deletes a claim, if it is still as it was looked at. Says whether it was there.
#[allow(clippy::missing_errors_doc)]
pub async fn delete(ctx: &Context, claim: &NodeClaim, why: &str) -> Result<bool, String> {
    ctx.may_write()?;
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let api: Api<NodeClaim> = Api::all(ctx.client.clone());
    let (uid, resource_version) = (claim.metadata.uid.clone(), claim.metadata.resource_version.clone());
    let params = DeleteParams::default().preconditions(Preconditions { uid, resource_version });
    match api.delete(name, &params).await {
        Ok(_) => {
            tracing::info!(nodeclaim = name, why, "deleted NodeClaim");
            Ok(true)
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        // Another claim has this name, or somebody wrote at the same moment: the next look tells.
        Err(kube::Error::Api(status)) if status.code == 409 => Err(format!("Conflict: {}", status.message)),
        Err(error) => Err(error.to_string()),
    }
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
        let (unknown, yes, no) = (stated("Unknown", ""), stated("True", ""), stated("False", "no node"));
        assert_eq!(transition(None, &unknown), None);
        assert_eq!(transition(Some(&yes), &yes), None);
        let of = "Status condition transitioned, Type: Registered, Status:";
        assert_eq!(transition(None, &yes).unwrap(), format!("{of} Unknown -> True, Reason: Registered"));
        let told = format!("{of} True -> False, Reason: Registered, Message: no node");
        assert_eq!(transition(Some(&yes), &no).unwrap(), told);
    }
}

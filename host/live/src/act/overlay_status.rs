//! The status of a NodeOverlay: whether it counts, and why not.

use kube::api::{Api, Patch, PatchParams};
use longshore_api::crd::{
    ConditionStatus, NodeOverlay, NodeOverlayStatus, Time, condition, set_condition,
};
use serde_json::json;

use super::claim_writes::transition;
use super::context::Context;
use crate::observe::overlays::Verdict;
use crate::process::step_error::StepOutcome;

/// Writes the status of an overlay, unless it says so already.
pub async fn step(ctx: &Context, overlay: &NodeOverlay, verdict: &Verdict) -> StepOutcome {
    let Some(status) = new_status(overlay, verdict, Time(ctx.now())) else {
        return Ok(None);
    };
    ctx.may_write()?;
    let name = overlay.metadata.name.as_deref().unwrap_or_default();
    let api: Api<NodeOverlay> = Api::all(ctx.client.clone());
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &patch)
        .await?;
    let old = overlay.status.as_ref().map_or(&[][..], |s| &s.conditions);
    for new in &status.conditions {
        let stood = condition(old, &new.type_);
        if stood.map(|stood| stood.status) != Some(new.status) {
            ctx.metrics.overlay_transition(stood, new);
        }
        if let Some(message) = transition(stood, new) {
            let is_warning = new.status == ConditionStatus::False;
            ctx.events
                .overlay(overlay, is_warning, &new.type_, &message)
                .await;
        }
    }
    Ok(None)
}

/// The status of an overlay, with the conditions that Karpenter sets; nothing if it says so already.
pub(crate) fn new_status(
    overlay: &NodeOverlay,
    verdict: &Verdict,
    now: Time,
) -> Option<NodeOverlayStatus> {
    const VALID: &str = "ValidationSucceeded";
    let (validated, reason, message) = match verdict {
        Verdict::Applied => (ConditionStatus::True, VALID, ""),
        Verdict::Invalid(why) => (ConditionStatus::False, "RuntimeValidation", why.as_str()),
        Verdict::Conflict => (
            ConditionStatus::False,
            "Conflict",
            "conflict with another overlay",
        ),
    };
    let ready = match validated {
        ConditionStatus::True => ("Ready", ""),
        _ => ("UnhealthyDependents", "ValidationSucceeded=False"),
    };
    let mut status = overlay.status.clone().unwrap_or_default();
    let both = [(VALID, reason, message), ("Ready", ready.0, ready.1)];
    for (of, reason, message) in both {
        let all = &mut status.conditions;
        set_condition(all, of, validated, reason, message, now.clone());
        if let Some(set) = all.iter_mut().find(|one| one.type_ == of) {
            set.observed_generation = overlay.metadata.generation;
        }
    }
    (overlay.status.as_ref() != Some(&status)).then_some(status)
}

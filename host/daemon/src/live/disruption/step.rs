//! What is done for a command. Each function can be run twice or killed anywhere.

use std::sync::Arc;
use std::time::Duration;

use longshore_api::crd::{
    ConditionStatus, NodeClaim, Taint, TaintEffect, Time, condition, set_condition,
};
use serde_json::{Value, json};

use super::command::{Candidate, Command, CommandView, Due};
use super::{COMMAND, DETAILS, REPLACES, events};
use crate::live::claims::{NewNodeClaim, PODS};
use crate::live::context::Context;
use crate::live::fail_points::fail_point;
use crate::live::lifecycle::{Outcome, delete, is_true, patch_meta, patch_status};
use crate::live::mutants::mutant;
use crate::live::node::NodeView;
use crate::live::proof;
use crate::live::round;
use crate::live::step_error::StepError;
use crate::live::termination::{DISRUPTED, disrupted, other_taints};

/// Condition of a NodeClaim that is being disrupted, with the reason.
pub const REASON: &str = "DisruptionReason";
/// When a step is run again that waits for the watches.
const BEHIND: Duration = Duration::from_secs(1);

/// A command that has been decided and not begun.
pub struct NewCommand {
    /// Its ID: the same for the same round.
    pub id: String,
    /// What was decided.
    pub command: Command,
    /// Candidates with their nodes.
    pub candidates: Vec<Candidate>,
    /// What is bought first.
    pub replacements: Vec<NewNodeClaim>,
}

impl NewCommand {
    /// A command of a method for a reason, begun at a time in seconds since 1970. Its replacements
    /// are marked as bought by it. They are not for pods by name: those that move have other names
    /// afterwards.
    pub fn new(
        id: String,
        (method, reason): (&str, &str),
        began: i64,
        candidates: Vec<Candidate>,
        mut replacements: Vec<NewNodeClaim>,
    ) -> Self {
        for want in &mut replacements {
            let annotations = &mut want.object["metadata"]["annotations"];
            annotations[REPLACES] = id.clone().into();
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.remove(PODS);
            }
            want.pods.clear();
        }
        NewCommand {
            command: Command {
                method: method.to_owned(),
                reason: reason.to_owned(),
                candidates: candidates.len(),
                replacements: replacements.iter().map(|want| want.name.clone()).collect(),
                began,
            },
            id,
            candidates,
            replacements,
        }
    }
}

/// Begins a command: annotates and taints its candidates, then creates its replacements. What is
/// not done when it fails is taken back by [`step`].
///
/// # Errors
/// What the server says.
pub async fn begin(ctx: &Arc<Context>, new: NewCommand) -> Result<(), StepError> {
    fail_point("disrupt");
    let details = serde_json::to_string(&new.command).map_err(StepError::other)?;
    if mutant("replaces-first") {
        round::write_all(ctx, new.replacements.clone()).await;
    }
    let mut marked = Vec::new();
    for candidate in &new.candidates {
        let annotations = json!({"annotations": {COMMAND: new.id, DETAILS: details}});
        let version = patch_meta(ctx, &candidate.claim, annotations).await?;
        marked.push(version);
    }
    for (candidate, version) in new.candidates.iter().zip(marked) {
        close(ctx, candidate, &new.command.reason, version.as_deref()).await?;
    }
    let wanted = new.replacements.len();
    let (created, failed) = round::write_all(ctx, new.replacements).await;
    if failed > 0 {
        let said = format!("{} of {wanted} replacements were created", created.len());
        return Err(StepError::Other(said));
    }
    for candidate in &new.candidates {
        events::launching(ctx, candidate, &new.command).await;
    }
    Ok(())
}

/// Does what is due for a command.
pub async fn step(ctx: &Context, view: &CommandView, now: i64) -> Outcome {
    let due = match view.due(now) {
        Due::Wait(_) if mutant("deletes-before-replacement") => Due::Delete,
        Due::TakeBack(_) if mutant("forgets-command") => return Ok(None),
        due => due,
    };
    match due {
        Due::Over => Ok(None),
        Due::Wait(left) => Ok(Some(left)),
        Due::TakeBack(why) => take_back(ctx, view, why).await,
        Due::Delete => {
            let Some(command) = view.command() else {
                return Ok(Some(BEHIND));
            };
            // Watches that are behind may keep from us what has become of the replacements.
            if !mutant("deletes-before-replacement") {
                if !ctx.fresh.load(std::sync::atomic::Ordering::Relaxed) {
                    return Ok(Some(BEHIND));
                }
                if !proof::are_initialized(ctx, &command.replacements).await? {
                    return Ok(Some(BEHIND));
                }
            }
            for candidate in view.candidates.iter().filter(|one| !one.is_deleting()) {
                if !is_closed(candidate) {
                    let version = candidate.claim.metadata.resource_version.as_deref();
                    close(ctx, candidate, &command.reason, version).await?;
                    // Deleted once the watches have brought the taint.
                    return Ok(Some(BEHIND));
                }
                let why = format!("disrupted: {}", command.reason);
                if delete(ctx, &candidate.claim, &why).await? {
                    ctx.metrics
                        .disrupted(&command.reason.to_lowercase(), &candidate.claim);
                    events::terminating(ctx, candidate, &command).await;
                }
            }
            Ok(None)
        }
    }
}

/// Whether kube-scheduler is kept away from a candidate, and its claim says why.
fn is_closed(candidate: &Candidate) -> bool {
    if mutant("disrupts-open") {
        return true;
    }
    let tainted = candidate.nodes.iter().all(|node| disrupted(node).is_some());
    let status = candidate.claim.status.as_ref();
    tainted && status.is_some_and(|status| is_true(status, REASON))
}

/// Taints a candidate's nodes and sets the condition of its claim, which has this version.
async fn close(
    ctx: &Context,
    candidate: &Candidate,
    reason: &str,
    version: Option<&str>,
) -> Result<(), StepError> {
    let open = |node: &&Arc<NodeView>| disrupted(node).is_none() && !mutant("disrupts-open");
    for node in candidate.nodes.iter().filter(open) {
        let mut taints = node.taints.clone();
        taints.push(Taint {
            key: DISRUPTED.into(),
            value: String::new(),
            effect: TaintEffect::NoSchedule,
            time_added: None,
        });
        write_taints(ctx, node, &taints).await?;
    }
    let mut status = candidate.claim.status.clone().unwrap_or_default();
    if is_true(&status, REASON) {
        return Ok(());
    }
    let now = Time(ctx.now());
    let message = format!("its node is disrupted: {reason}");
    let yes = ConditionStatus::True;
    set_condition(&mut status.conditions, REASON, yes, reason, &message, now);
    patch_status(ctx, &candidate.claim, version, &status).await?;
    Ok(())
}

async fn write_taints(ctx: &Context, node: &NodeView, taints: &[Taint]) -> Result<(), StepError> {
    let metadata = json!({"resourceVersion": node.resource_version});
    let patch = json!({"metadata": metadata, "spec": {"taints": taints}});
    match ctx.patch_node(&node.name, &patch).await {
        Err(StepError::Gone) => Ok(()),
        other => other,
    }
}

/// Lets the candidates of a command stay. The annotations go last, so that a process that is
/// killed before is followed by one that knows.
async fn take_back(ctx: &Context, view: &CommandView, why: &str) -> Outcome {
    let command = view.command();
    let mut first = true;
    for candidate in view.candidates.iter().filter(|one| !one.is_deleting()) {
        if std::mem::take(&mut first) {
            tracing::warn!(command = view.id, why, "disruption taken back");
            command
                .iter()
                .for_each(|command| ctx.metrics.disruption.failed(command));
        }
        events::taken_back(ctx, candidate, why).await;
        open(ctx, &candidate.claim, &candidate.nodes).await?;
    }
    Ok(None)
}

/// Takes back taint, condition and annotations of a NodeClaim and its nodes.
///
/// # Errors
/// What the server says.
pub async fn open(
    ctx: &Context,
    claim: &NodeClaim,
    nodes: &[Arc<NodeView>],
) -> Result<(), StepError> {
    if !mutant("keeps-taint") {
        let closed = |node: &&Arc<NodeView>| node.deletion.is_none() && disrupted(node).is_some();
        for node in nodes.iter().filter(closed) {
            write_taints(ctx, node, &other_taints(node)).await?;
        }
    }
    let mut claim = claim.clone();
    let mut status = claim.status.clone().unwrap_or_default();
    if condition(&status.conditions, REASON).is_some() {
        status.conditions.retain(|c| c.type_ != REASON);
        let version = claim.metadata.resource_version.clone();
        claim.metadata.resource_version =
            patch_status(ctx, &claim, version.as_deref(), &status).await?;
    }
    let has = |key: &str| {
        let annotations = claim.metadata.annotations.as_ref();
        annotations.is_some_and(|all| all.contains_key(key))
    };
    if has(COMMAND) || has(DETAILS) {
        let none = json!({"annotations": {COMMAND: Value::Null, DETAILS: Value::Null}});
        patch_meta(ctx, &claim, none).await?;
    }
    Ok(())
}

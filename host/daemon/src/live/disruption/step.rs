//! What is done for a command. Each function can be run twice or killed anywhere.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use longshore_api::crd::{
    ConditionStatus, NodeClaim, Taint, TaintEffect, Time, condition, set_condition,
};
use longshore_core::disrupt::methods::FirstWhy;
use serde_json::{Value, json};

use super::command::{Candidate, Command, CommandView, Due, Repaired};
use super::{COMMAND, DETAILS, MOVES, REPLACES, events};
use crate::live::claims::{NewNodeClaim, PODS};
use crate::live::context::Context;
use crate::live::fail_points::fail_point;
use crate::live::lifecycle::{
    Outcome, TERMINATION_TIME, delete, is_true, patch_meta, patch_status,
};
use crate::live::mutants::mutant;
use crate::live::node::NodeView;
use crate::live::proof;
use crate::live::repair::{self, reboot};
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
    /// Where pods go, as [`MOVES`] has it, by NodeClaim of a candidate.
    pub moves: BTreeMap<String, String>,
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
                repair: None,
                first: None,
            },
            id,
            candidates,
            replacements,
            moves: BTreeMap::new(),
        }
    }

    /// Nodes of its candidates.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<NodeView>> {
        self.candidates
            .iter()
            .flat_map(|candidate| &candidate.nodes)
    }

    /// The same with where pods go.
    pub fn moves(mut self, moves: BTreeMap<String, String>) -> Self {
        self.moves = moves;
        self
    }

    /// The same, as a repair.
    pub fn repairs(mut self, what: Option<Repaired>) -> Self {
        self.command.repair = what;
        self
    }

    /// The same for a node that goes before it is replaced, and why.
    pub fn goes_first(mut self, why: FirstWhy) -> Self {
        let why = match why {
            FirstWhy::NoReservedCapacity => "no-reserved-capacity",
            FirstWhy::StaticAtLimit => "static-at-limit",
        };
        self.command.first = Some(why.to_owned());
        self
    }
}

/// Begins a command: annotates and taints its candidates, then creates its replacements. What is
/// not done when it fails is taken back by [`step`]. A repair that is not due any more is not begun.
///
/// # Errors
/// What the server says.
pub async fn begin(ctx: &Arc<Context>, new: NewCommand) -> Result<(), StepError> {
    fail_point("disrupt");
    let details = serde_json::to_string(&new.command).map_err(StepError::other)?;
    if new.command.repair.is_some() && !is_still_due(ctx, &new.candidates).await? {
        tracing::info!(command = new.id, "not repaired: the node has recovered");
        return Ok(());
    }
    if mutant("replaces-first") {
        round::write_all(ctx, new.replacements.clone()).await;
    }
    let mut marked = Vec::new();
    for candidate in &new.candidates {
        let name = candidate.claim.metadata.name.as_deref();
        let moves = name.and_then(|name| new.moves.get(name));
        let mut annotations = json!({"annotations": {COMMAND: new.id, DETAILS: details}});
        if let Some(moves) = moves {
            annotations["annotations"][MOVES] = moves.as_str().into();
        }
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
                let claim = bounded(ctx, &candidate.claim, &command).await?;
                if delete(ctx, &claim, &why).await? {
                    count_repair(ctx, &claim, &command);
                    ctx.metrics
                        .disrupted(&command.reason.to_lowercase(), &candidate.claim);
                    events::terminating(ctx, candidate, &command).await;
                }
            }
            Ok(None)
        }
    }
}

async fn is_still_due(ctx: &Context, candidates: &[Candidate]) -> Result<bool, StepError> {
    for candidate in candidates {
        for node in &candidate.nodes {
            if !repair::is_still_due(ctx, node, &candidate.claim).await? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// How long, seconds, the pods of a claim that a command repairs may take.
fn grace_of(claim: &NodeClaim, command: &Command) -> Option<i64> {
    let repaired = command.repair.as_ref()?;
    reboot::bound(repaired.grace, claim)
}

/// A claim that is about to be deleted, with what bounds how long its pods may take.
async fn bounded(
    ctx: &Context,
    claim: &NodeClaim,
    command: &Command,
) -> Result<NodeClaim, StepError> {
    match grace_of(claim, command) {
        Some(seconds) => reboot::end_within(ctx, claim, seconds).await,
        None => Ok(claim.clone()),
    }
}

fn count_repair(ctx: &Context, claim: &NodeClaim, command: &Command) {
    if let Some(repaired) = &command.repair {
        let mode = repair::mode(grace_of(claim, command));
        ctx.metrics.unhealthy(&repaired.condition, mode, claim);
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
        ctx.write_taints(node, &taints).await?;
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

/// Takes back taint, condition and annotations of a NodeClaim and its nodes, and a bound on how long
/// pods may take that was written right before the deletion.
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
            ctx.write_taints(node, &other_taints(node)).await?;
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
        let nothing = Value::Null;
        let none = [COMMAND, DETAILS, MOVES, TERMINATION_TIME]
            .map(|key| (key.to_owned(), nothing.clone()));
        let none = json!({"annotations": none.into_iter().collect::<serde_json::Map<_, _>>()});
        patch_meta(ctx, &claim, none).await?;
    }
    Ok(())
}

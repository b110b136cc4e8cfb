//! What is done for a command. Each function can be run twice or killed anywhere.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use longshore_api::crd::{
    ConditionStatus, NodeClaim, Taint, TaintEffect, Time, condition, set_condition,
};
use longshore_api::labels::DO_NOT_DISRUPT;
use longshore_core::disrupt::backoff;
use longshore_core::disrupt::methods::FirstWhy;
use longshore_core::disrupt::verdicts::{REBOOTING, Reason};
use longshore_core::model::Failures;
use serde_json::{Value, json};

use super::{COMMAND, DETAILS, MOVES, REPLACES, counts, events, failures};
use crate::act::claim_writes::{self, delete, patch_meta, patch_status};
use crate::act::context::Context;
use crate::act::end::proof;
use crate::act::end::termination::{DISRUPTED, DrainingPod, disrupted, other_taints};
use crate::act::launch::create_claims;
use crate::act::repair::{self, reboot};
use crate::decide::claims::NewNodeClaim;
use crate::decide::command::{
    Candidate, Command, CommandView, Due, Repaired, Replacement, Why, Worth, candidate_of,
};
use crate::metrics::Metrics;
use crate::observe::node::NodeView;
use crate::observe::node_claim::{self, TERMINATION_TIME, is_true};
use crate::observe::planned_pods::PLANNED_PODS;
use crate::process::mutants::mutant;
use crate::process::step_error::{StepError, StepOutcome};
use longshore_core::model::conditions::{CONSOLIDATABLE, DISRUPTION_REASON, DRIFTED, INITIALIZED};
use longshore_fail_points::fail_point;

/// When a step is run again that waits for the watches.
const STALE_WATCH_RETRY: Duration = Duration::from_secs(1);

/// A command that has been decided and not begun.
pub struct NewCommand {
    /// Its ID: the same for the same round.
    pub id: String,
    pub command: Command,
    /// Candidates with their nodes.
    pub candidates: Vec<Candidate>,
    /// What is bought first.
    pub replacements: Vec<NewNodeClaim>,
    /// Where pods go, as [`MOVES`] has it, by NodeClaim of a candidate.
    pub moves: BTreeMap<String, String>,
    /// Why consolidation is worth it; nothing for other reasons.
    worth: Option<Worth>,
}

impl NewCommand {
    /// A command of a method for a reason, begun at a time in seconds since 1970. Its replacements
    /// are marked as bought by it. They are not for pods by name: those that move have other names
    /// afterwards.
    pub fn new(
        id: String,
        (method, reason): (&str, Reason),
        began: i64,
        candidates: Vec<Candidate>,
        mut replacements: Vec<NewNodeClaim>,
    ) -> Self {
        for want in &mut replacements {
            let annotations = &mut want.object["metadata"]["annotations"];
            annotations[REPLACES] = id.clone().into();
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.remove(PLANNED_PODS);
            }
            want.pods.clear();
        }
        let elsewhere = |want: &NewNodeClaim| {
            let mut pools = candidates.iter().map(|one| node_claim::pool_of(&one.claim));
            pools.any(|pool| pool != want.pool)
        };
        let pools = match replacements.iter().any(elsewhere) {
            true => replacements.iter().map(|want| want.pool.clone()).collect(),
            false => Vec::new(),
        };
        NewCommand {
            command: Command {
                method: method.to_owned(),
                reason,
                candidates: candidates.len(),
                replacements: replacements.iter().map(|want| want.name.clone()).collect(),
                pools,
                began,
                limit: None,
                repair: None,
                first: None,
            },
            id,
            candidates,
            replacements,
            moves: BTreeMap::new(),
            worth: None,
        }
    }

    /// The same, as consolidation, with why it is worth it.
    pub fn worth(mut self, worth: Option<Worth>) -> Self {
        self.worth = worth;
        self
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

    /// The same for NodePools whose nodes did not become ready for earlier commands: it has more time.
    pub fn after(mut self, failures: Option<Failures>) -> Self {
        self.command.limit = failures.map(|of| backoff::time_limit(Some(of)));
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

/// A command that could not be begun. What was done of it is taken back by [`step`].
#[derive(Debug)]
pub struct NotBegun {
    pub error: StepError,
    /// Replacements were asked for: some may have been created.
    pub buys: bool,
}

/// Begins a command: annotates and taints its candidates, several at a time, then creates its
/// replacements. A repair that is not due any more is not begun.
///
/// # Errors
/// What the server says, once it has been asked several times.
pub async fn begin(ctx: &Arc<Context>, new: NewCommand) -> Result<(), NotBegun> {
    fail_point("disrupt");
    let early = |error| NotBegun { error, buys: false };
    let repairs = new.command.repair.is_some();
    if repairs && !is_still_due(ctx, &new.candidates).await.map_err(early)? {
        tracing::info!(command = new.id, "repair cancelled: the node has recovered");
        return Ok(());
    }
    if mutant("replaces-first") {
        create_claims::write_all(ctx, new.replacements.clone()).await;
    }
    mark_all(ctx, &new).await.map_err(early)?;
    let wanted = new.replacements.len();
    let (created, failed) = create_claims::write_all(ctx, new.replacements).await;
    if failed > 0 {
        let said = format!("{} of {wanted} replacements were created", created.len());
        let error = StepError::Other(said);
        return Err(NotBegun { error, buys: true });
    }
    let mut events = Vec::new();
    for candidate in &new.candidates {
        events.push(tell(ctx, candidate, &new.command, new.worth.as_ref()));
    }
    futures::stream::iter(events)
        .buffered(CANDIDATES_AT_ONCE)
        .collect::<Vec<()>>()
        .await;
    Ok(())
}

/// Says of a candidate what becomes of it.
async fn tell(ctx: &Context, candidate: &Candidate, command: &Command, worth: Option<&Worth>) {
    if let Some(worth) = worth {
        events::candidate(&ctx.events, candidate, command, worth).await;
    }
    events::launching(&ctx.events, candidate, command).await;
}

/// Annotates all candidates, then taints all of them: a process that follows finds each that is tainted
/// by its annotation.
async fn mark_all(ctx: &Context, new: &NewCommand) -> Result<(), StepError> {
    let details = serde_json::to_string(&new.command).map_err(StepError::other)?;
    let turns = if mutant("begins-at-first-try") {
        1
    } else {
        CANDIDATES_AT_ONCE
    };
    let mut marks = Vec::new();
    for candidate in &new.candidates {
        let name = candidate.claim.metadata.name.as_deref();
        let moves = name.and_then(|name| new.moves.get(name));
        let mut annotations = json!({COMMAND: new.id, DETAILS: details});
        if let Some(moves) = moves {
            annotations[MOVES] = moves.as_str().into();
        }
        marks.push(mark(ctx, candidate, &new.command, annotations));
    }
    let marked = futures::stream::iter(marks).buffered(turns);
    let marked: Vec<Candidate> = marked.try_collect().await?;
    let mut closes = Vec::new();
    for candidate in &marked {
        closes.push(close(ctx, candidate, new.command.reason));
    }
    let closed = futures::stream::iter(closes).buffered(turns);
    closed.try_collect::<Vec<()>>().await.map(drop)
}

/// How many candidates are written at a time.
const CANDIDATES_AT_ONCE: usize = 16;
/// How often a write is tried that meets another one, or whose answer is lost.
const WRITE_ATTEMPTS: u32 = 6;

/// Waits before the next try of a write: 50 ms, then twice as long each time.
async fn pause(attempt: u32) {
    tokio::time::sleep(Duration::from_millis(50 << attempt.min(5))).await;
}

/// Whether a write that failed is worth another try, on the object as it is then.
fn may_retry(error: &StepError, attempt: u32) -> bool {
    let passes = matches!(error, StepError::Conflict(_) | StepError::Other(_));
    passes && attempt + 1 < WRITE_ATTEMPTS && !mutant("begins-at-first-try")
}

/// Annotates a candidate. Another write of its NodeClaim is no reason to leave it, if what was decided
/// still holds. Returns the candidate as it is then.
async fn mark(
    ctx: &Context,
    candidate: &Candidate,
    command: &Command,
    annotations: Value,
) -> Result<Candidate, StepError> {
    let mut claim = NodeClaim::clone(&candidate.claim);
    let marked = |claim: NodeClaim| Candidate {
        claim: Arc::new(claim),
        nodes: candidate.nodes.clone(),
    };
    for attempt in 0.. {
        let written = patch_meta(ctx, &claim, json!({"annotations": annotations})).await;
        match written {
            Ok(version) => {
                claim.metadata.resource_version = version;
                let id = annotations[COMMAND].as_str().unwrap_or_default();
                let known = claim.metadata.annotations.get_or_insert_default();
                // Whoever reads it again has to find the same command.
                if !mutant("begins-at-first-try") {
                    known.insert(COMMAND.into(), id.to_owned());
                }
                return Ok(marked(claim));
            }
            Err(error) if may_retry(&error, attempt) => {}
            Err(error) => return Err(error),
        }
        pause(attempt).await;
        claim = read(ctx, &claim).await?;
        if candidate_of(&claim).is_some_and(|id| annotations[COMMAND] == id) {
            return Ok(marked(claim));
        }
        if let Some(why) = is_outdated(&claim, command) {
            return Err(StepError::Other(why.to_owned()));
        }
    }
    Err(StepError::Other("tried too often".into()))
}

/// A NodeClaim as the API server has it now.
async fn read(ctx: &Context, claim: &NodeClaim) -> Result<NodeClaim, StepError> {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let now = proof::claim(&ctx.client, name).await?;
    let same = now.filter(|now| now.metadata.uid == claim.metadata.uid);
    same.ok_or(StepError::Gone)
}

/// Why a candidate may go no more, if so: what was decided from has changed.
fn is_outdated(claim: &NodeClaim, command: &Command) -> Option<&'static str> {
    if claim.metadata.deletion_timestamp.is_some() {
        return Some("it is being deleted");
    }
    if candidate_of(claim).is_some() {
        return Some("another command has it");
    }
    let annotations = claim.metadata.annotations.as_ref();
    let says = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
    let is = |condition| claim.status.as_ref().is_some_and(|s| is_true(s, condition));
    match command.reason {
        Reason::Unhealthy => None,
        _ if says(DO_NOT_DISRUPT) == Some("true") => Some("it must not be disrupted"),
        Reason::Drifted if !is(DRIFTED) => Some("it has drifted no more"),
        Reason::Empty | Reason::Underutilized if !is(CONSOLIDATABLE) => {
            Some("its pods have changed")
        }
        _ => None,
    }
}

/// Does what is due for a command.
pub async fn step(ctx: &Context, view: &CommandView, now: i64) -> StepOutcome {
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
                return Ok(Some(STALE_WATCH_RETRY));
            };
            // Watches that are behind may keep from us what has become of the replacements.
            if !mutant("deletes-before-replacement") {
                if !ctx.fresh.load(std::sync::atomic::Ordering::Relaxed) {
                    return Ok(Some(STALE_WATCH_RETRY));
                }
                if !proof::are_initialized(&ctx.client, &command.replacements).await? {
                    return Ok(Some(STALE_WATCH_RETRY));
                }
            }
            if is_held(ctx, view, &command).await? {
                return take_back(ctx, view, Why::Held).await;
            }
            counts::count(ctx, view).await?;
            for candidate in view.candidates.iter().filter(|one| !one.is_deleting()) {
                if !is_closed(candidate) {
                    close(ctx, candidate, command.reason).await?;
                    // Deleted once the watches have brought the taint.
                    return Ok(Some(STALE_WATCH_RETRY));
                }
                let why = format!("disrupted: {}", command.reason.name());
                let claim = bounded(ctx, &candidate.claim, &command).await?;
                if delete(ctx, &claim, &why).await? {
                    count_repair(&ctx.metrics, &claim, &command);
                    ctx.disrupted(&command.reason.name().to_lowercase(), &candidate.claim);
                    events::terminating(&ctx.events, candidate, &command).await;
                }
            }
            if !command.replacements.is_empty() {
                for pool in &view.pools {
                    failures::succeeded(ctx, pool, command.began).await?;
                }
            }
            Ok(None)
        }
    }
}

/// Whether a pod on a candidate must not be disrupted, which was said since the command began: its node
/// would drain for ever. Repair, and drift where the drain is bounded, go on.
async fn is_held(ctx: &Context, view: &CommandView, command: &Command) -> Result<bool, StepError> {
    let stays = || view.candidates.iter().filter(|one| !one.is_deleting());
    if command.reason == Reason::Unhealthy || stays().count() < view.candidates.len() {
        return Ok(false);
    }
    let now = ctx.now();
    for candidate in stays() {
        let ends = candidate.claim.spec.termination_grace_period.is_some();
        if command.reason == Reason::Drifted && ends {
            continue;
        }
        for node in &candidate.nodes {
            let (pods, _) = proof::pods_on::<DrainingPod>(&ctx.client, &node.name).await?;
            if pods.iter().any(|pod| pod.counts(now) && pod.held(now)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
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

fn count_repair(metrics: &Metrics, claim: &NodeClaim, command: &Command) {
    if let Some(repaired) = &command.repair {
        let mode = repair::mode(grace_of(claim, command));
        metrics.unhealthy(&repaired.condition, mode, claim);
    }
}

/// Whether kube-scheduler is kept away from a candidate, and its claim says why.
fn is_closed(candidate: &Candidate) -> bool {
    if mutant("disrupts-open") {
        return true;
    }
    let tainted = candidate.nodes.iter().all(|node| disrupted(node).is_some());
    let status = candidate.claim.status.as_ref();
    tainted && status.is_some_and(|status| is_true(status, DISRUPTION_REASON))
}

/// Taints a candidate's nodes and sets the condition of its claim. Heartbeats of kubelets and other
/// writes meanwhile are no reason to fail.
async fn close(ctx: &Context, candidate: &Candidate, reason: Reason) -> Result<(), StepError> {
    let reason = reason.name();
    for node in &candidate.nodes {
        close_node(ctx, node).await?;
    }
    let mut claim = NodeClaim::clone(&candidate.claim);
    for attempt in 0.. {
        let mut status = claim.status.clone().unwrap_or_default();
        if is_true(&status, DISRUPTION_REASON) {
            return Ok(());
        }
        let now = Time(ctx.now());
        let message = format!("its node is disrupted: {reason}");
        let yes = ConditionStatus::True;
        set_condition(
            &mut status.conditions,
            DISRUPTION_REASON,
            yes,
            reason,
            &message,
            now,
        );
        let version = claim.metadata.resource_version.clone();
        match patch_status(ctx, &claim, version.as_deref(), &status).await {
            Ok(_) => return Ok(()),
            Err(error) if may_retry(&error, attempt) => {}
            Err(error) => return Err(error),
        }
        pause(attempt).await;
        let mine = candidate_of(&claim).map(str::to_owned);
        claim = read(ctx, &claim).await?;
        if candidate_of(&claim) != mine.as_deref() || claim.metadata.deletion_timestamp.is_some() {
            return Err(StepError::Other(
                "its NodeClaim is in no command any more".into(),
            ));
        }
    }
    Ok(())
}

/// Keeps kube-scheduler away from a node.
async fn close_node(ctx: &Context, node: &Arc<NodeView>) -> Result<(), StepError> {
    let mut node = node.clone();
    for attempt in 0.. {
        if disrupted(&node).is_some() || mutant("disrupts-open") {
            return Ok(());
        }
        let mut taints = node.taints.clone();
        taints.push(Taint {
            key: DISRUPTED.into(),
            value: String::new(),
            effect: TaintEffect::NoSchedule,
            time_added: None,
        });
        match ctx.write_taints(&node, &taints).await {
            Ok(()) => return Ok(()),
            Err(error) if may_retry(&error, attempt) => {}
            Err(error) => return Err(error),
        }
        pause(attempt).await;
        let now = proof::node(&ctx.client, &node.name).await?;
        match now.filter(|now| now.uid == node.uid) {
            Some(now) => node = Arc::new(now),
            None => return Ok(()),
        }
    }
    Ok(())
}

/// Lets the candidates of a command stay. What it has bought and no pod uses goes first, and the
/// NodePools remember what has failed. The annotations go last, so that a process that is killed
/// before is followed by one that knows.
async fn take_back(ctx: &Context, view: &CommandView, why: Why) -> StepOutcome {
    let command = view.command();
    tracing::warn!(command = view.id, why = why.text(), "disruption taken back");
    let failed = |of: &&Command| why.is_failure() && !of.replacements.is_empty();
    if let Some(command) = command.as_ref().filter(failed) {
        for pool in view.blamed(command) {
            failures::failed(ctx, pool, command).await?;
        }
    }
    for replacement in &view.replacements {
        if !mutant("keeps-replacements") {
            discard(ctx, replacement).await?;
        }
    }
    command
        .iter()
        .for_each(|command| ctx.metrics.disruption.failed(command));
    for candidate in view.candidates.iter().filter(|one| !one.is_deleting()) {
        events::taken_back(&ctx.events, candidate, why.text()).await;
        open(ctx, &candidate.claim, &candidate.nodes).await?;
    }
    Ok(None)
}

/// Deletes a replacement that no pod uses. A node that is used is one like any other from now on.
async fn discard(ctx: &Context, replacement: &Replacement) -> Result<(), StepError> {
    let claim = &replacement.claim;
    if claim.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    if is_used(ctx, replacement).await? {
        return claim_writes::annotate(ctx, claim, json!({REPLACES: Value::Null})).await;
    }
    let why = "its command was taken back, and no pod uses it";
    if delete(ctx, claim, why).await? {
        ctx.memory
            .recent
            .because(claim, "unused replacement", ctx.now());
    }
    Ok(())
}

/// What was bought by a command that no candidate names any more. What has become a node is one like
/// any other. The rest was created too late, or its candidates went without it.
pub async fn left_over(ctx: &Context, id: &str, replacements: &[Replacement]) -> StepOutcome {
    let now = ctx.now().as_second();
    let mut soonest: Option<Duration> = None;
    for replacement in replacements {
        let claim = &replacement.claim;
        let status = claim.status.as_ref();
        let is = |condition| status.is_some_and(|status| is_true(status, condition));
        let goes = claim.metadata.deletion_timestamp.is_some();
        let keeps = mutant("keeps-late-replacements") || mutant("keeps-replacements");
        if goes || is(INITIALIZED) || is(REBOOTING) || keeps {
            continue;
        }
        let created = claim.metadata.creation_timestamp.as_ref();
        let age = now - created.map_or(now, |at| at.0.as_second());
        // It has as long as a command would have given it.
        let left = u64::try_from(backoff::time_limit(None) - age).unwrap_or(0);
        let left = Duration::from_secs(left);
        if !left.is_zero() || !ctx.fresh.load(std::sync::atomic::Ordering::Relaxed) {
            let left = left.max(STALE_WATCH_RETRY);
            soonest = Some(soonest.map_or(left, |known| known.min(left)));
            continue;
        }
        let all = proof::claims(&ctx.client, "").await?;
        if all.iter().any(|of| candidate_of(of) == Some(id)) {
            return Ok(Some(STALE_WATCH_RETRY));
        }
        discard(ctx, replacement).await?;
    }
    Ok(soonest)
}

/// Whether pods have found the way to a replacement, or are expected on it.
async fn is_used(ctx: &Context, replacement: &Replacement) -> Result<bool, StepError> {
    if mutant("deletes-used-replacements") {
        return Ok(false);
    }
    for node in &replacement.nodes {
        let (pods, _) = proof::pods_on::<DrainingPod>(&ctx.client, &node.name).await?;
        if pods.iter().any(DrainingPod::uses) {
            return Ok(true);
        }
    }
    Ok(replacement.is_awaited)
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
    if condition(&status.conditions, DISRUPTION_REASON).is_some() {
        status.conditions.retain(|c| c.type_ != DISRUPTION_REASON);
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

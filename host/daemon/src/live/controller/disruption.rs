//! When to look for nodes to disrupt, and what becomes of what is found.
//!
//! A node is disrupted only if two rounds in a row, [`VALIDATION_DELAY`] apart, want it, so that a
//! cluster that changes just now is left alone. The first of them is written down ([`PROPOSED`]): a
//! process that ends in between leaves the second to the next one. Drifted and unhealthy nodes are not looked at
//! twice.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use longshore_api::crd::duration::{self, Lifetime};
use longshore_api::crd::{NodeClaim, NodePool, Timestamp};
use longshore_core::disrupt::methods::{Round, Verdict};
use longshore_core::disrupt::proposals::{Proposal, To};
use longshore_core::disrupt::verdicts::{Method, Stays};
use longshore_core::ids::{NodeIx, PoolIx};
use longshore_core::model::Failures;
use longshore_core::plan::Plan;
use longshore_core::snapshot::{Snapshot, moves};
use serde_json::json;
use tokio::time::Instant;

use super::{Controller, Done, Work};
use crate::disrupt::Messages;
use crate::live::act::claim_writes;
use crate::live::act::disruption::events;
use crate::live::act::disruption::step::{self, NewCommand};
use crate::live::act::end::termination::disrupted;
use crate::live::act::guard::{guarded, guarded_now};
use crate::live::act::work_queue::Lane;
use crate::live::decide::claims::{NewNodeClaim, NominationPlan, new_node_claims, pod_name};
use crate::live::decide::command::Worth;
use crate::live::decide::command::{
    Candidate, CommandView, Replacement, candidate_of, destinations, replacement_of,
};
use crate::live::decide::disruption::{Before, Decision, IdleLook, Rested, decide};
use crate::live::decide::staying::{self, Held, Told};
use crate::live::decide::waves::{self, Changes};
use crate::live::journal::look::BEFORE_FIRST_LOOK;
use crate::live::observe::node_claim;
use crate::live::observe::state::WorkItem;
use crate::live::process::mutants::mutant;

/// What was proposed is looked at again after this, before it is carried out.
const VALIDATION_DELAY: Duration = Duration::from_secs(15);
/// For so long another process takes up what was proposed.
const PROPOSAL_LIFETIME: Duration = Duration::from_secs(120);
/// Annotation of NodeClaims: when a look proposed to disrupt its node, until that is done or the next
/// look does not.
const PROPOSED: &str = "longshore.dev/proposed";
/// A cluster that has changed is looked at this often.
const CHANGED_LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// A cluster that has not changed is looked at this often: a budget's window may have opened.
const UNCHANGED_LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// After a round that bought, what it looked at is out of date.
const LOOK_DELAY_AFTER_PURCHASE: Duration = Duration::from_secs(1);
/// So much is logged of what the check refuses of one look.
const LOGGED_REFUSALS: usize = 3;
/// A search takes at most one part in so many of the time.
const SEARCH_TIME_DIVISOR: u32 = 10;

/// What a look came to.
pub(super) enum Look {
    /// What it found, and how to know that the next one would find nothing either.
    New(Box<Decision>, Option<IdleLook>),
    /// The cluster is as it was when a look found nothing to do.
    Same(Option<IdleLook>),
}

/// What the loop knows of disruption. What has to outlive the process is on objects as well.
#[derive(Default)]
pub(super) struct Disruption {
    /// A round is being decided.
    deciding: bool,
    /// When the next look is due, unless something changes.
    due: Option<Instant>,
    /// When one more node is to be repaired, as of the last look.
    repair_due: Option<Instant>,
    /// The version of the state at the last look.
    revision: u64,
    /// When the last look ended.
    looked: Option<Instant>,
    /// The last look, if it found nothing to do.
    idle: Option<IdleLook>,
    /// The last whole search that found nothing to do.
    rested: Option<Rested>,
    /// How many looks this process has begun.
    looks: u64,
    /// What was found while a round was being planned or written: its result is waited for.
    held: Option<Option<Look>>,
    /// What rounds have used since the look began.
    used: Used,
    /// No look begins before this: what a search costs is paid for by a pause.
    rests_until: Option<Instant>,
    /// How many looks have panicked one after the other.
    panics: u32,
    /// Nodes that the last look wants to disrupt, and when it was.
    proposed: Option<(Instant, BTreeSet<String>)>,
    /// NodePools whose budgets are in the way of a reason, and how many more nodes may go, as of the
    /// last look that found something new.
    blocked: BTreeMap<(String, &'static str), u32>,
    /// Nodes that a budget or an annotation keeps, as of the same look.
    pub(super) kept: Vec<Held>,
    /// Nodes of which was said why they stay.
    told: Told,
    /// Commands that are being begun, with what they buy.
    beginning: BTreeMap<String, Vec<NewNodeClaim>>,
    /// Commands that could not be begun, before anything was bought for them.
    unbegun: BTreeSet<String>,
    /// Claims of each command, candidates and replacements.
    commands: BTreeMap<String, BTreeSet<String>>,
    /// The command of each claim.
    of_claim: BTreeMap<String, String>,
}

/// What rounds of provisioning have used that a look did not know of.
#[derive(Default)]
struct Used {
    /// Nodes that pods were planned onto.
    nodes: BTreeSet<String>,
    /// NodePools that were bought from.
    pools: BTreeSet<String>,
    /// How many rounds there were; only mutants use this.
    rounds: u32,
}

impl Disruption {
    /// Notes which command a claim belongs to, if any; `None` for one that is gone. Returns the
    /// command that it concerns.
    fn note(&mut self, name: &str, command: Option<&str>) -> Option<String> {
        let before = self.of_claim.get(name).cloned();
        if before.as_deref() == command {
            return before;
        }
        if let Some(id) = &before {
            self.of_claim.remove(name);
            if let Some(claims) = self.commands.get_mut(id) {
                claims.remove(name);
                if claims.is_empty() {
                    self.commands.remove(id);
                }
            }
        }
        if let Some(id) = command {
            self.of_claim.insert(name.to_owned(), id.to_owned());
            let claims = self.commands.entry(id.to_owned()).or_default();
            claims.insert(name.to_owned());
        }
        command.map(str::to_owned).or(before)
    }

    /// A command is being begun, and what it buys.
    pub(super) fn begins(&mut self, id: String, buys: Vec<NewNodeClaim>) {
        self.beginning.insert(id, buys);
    }

    /// Replacements that are being created.
    pub(super) fn expected(&self) -> impl Iterator<Item = NewNodeClaim> + use<> {
        let all: Vec<NewNodeClaim> = self.beginning.values().flatten().cloned().collect();
        all.into_iter()
    }

    /// A round begins. What earlier ones have used matters to a look that is under way alone.
    pub(super) fn round_begins(&mut self) {
        if !self.deciding {
            self.used = Used::default();
        }
        self.used.rounds = self.used.rounds.saturating_add(1);
    }

    /// A round has planned pods onto these nodes, and bought from these NodePools.
    pub(super) fn round_used(
        &mut self,
        nodes: impl Iterator<Item = String>,
        pools: impl Iterator<Item = String>,
    ) {
        self.used.nodes.extend(nodes);
        self.used.pools.extend(pools);
    }

    /// Whether claims of a command may be created that the state has not.
    pub(super) fn is_beginning(&self) -> bool {
        !self.beginning.is_empty()
    }

    /// Whether a process that retires has to wait.
    pub(super) fn is_idle(&self) -> bool {
        !self.deciding && self.beginning.is_empty()
    }
}

/// The node of a claim that is in no command.
fn node_of(claim: &NodeClaim) -> Option<&str> {
    let free = claim.metadata.deletion_timestamp.is_none() && candidate_of(claim).is_none();
    let node = claim.status.as_ref().map(|status| &*status.node_name);
    node.filter(|node| free && !node.is_empty())
}

/// When a look proposed to disrupt a claim's node, if one did.
fn proposed_at(claim: &NodeClaim) -> Option<Timestamp> {
    let text = claim.metadata.annotations.as_ref()?.get(PROPOSED)?;
    text.parse().ok()
}

/// What the last look proposed, if it was a moment before `now`, and how long ago that was.
fn recalled<'a>(
    claims: impl Iterator<Item = &'a NodeClaim>,
    now: Timestamp,
) -> Option<(Duration, BTreeSet<String>)> {
    let proposed = claims.filter_map(|claim| Some((proposed_at(claim)?, node_of(claim)?)));
    let mut by_time: BTreeMap<Timestamp, BTreeSet<String>> = BTreeMap::new();
    for (at, node) in proposed {
        by_time.entry(at).or_default().insert(node.to_owned());
    }
    let (at, nodes) = by_time.pop_last()?;
    let age = u64::try_from(now.duration_since(at).as_secs()).ok();
    let age = age.map(Duration::from_secs)?;
    (age <= PROPOSAL_LIFETIME).then_some((age, nodes))
}

/// Whether a second look has to want what a method proposes.
fn is_looked_at_twice(method: Method) -> bool {
    !matches!(method, Method::Repair | Method::Drift)
}

impl Controller {
    /// Notes the command of a claim that has changed, and has it looked at.
    pub(super) fn follow_command(&mut self, name: &str, now: Instant) {
        let claim = self.state.claims.get(name).cloned();
        let command = claim
            .as_deref()
            .and_then(|claim| candidate_of(claim).or_else(|| replacement_of(claim)));
        if let Some(id) = self.disruption.note(name, command) {
            self.work(WorkItem::Command(id), Lane::Disruption, now);
        }
    }

    /// When the next look for disruption is due.
    pub(super) fn next_disruption(&self) -> Option<Instant> {
        let disruption = &self.disruption;
        if disruption.deciding || !disruption.beginning.is_empty() || !self.config.disrupts {
            return None;
        }
        let due = match &disruption.proposed {
            Some((since, _)) => *since + VALIDATION_DELAY,
            None => {
                let changed = disruption.revision != self.state.revision;
                let least = disruption
                    .looked
                    .map(|at| at + CHANGED_LOOK_INTERVAL)
                    .filter(|_| changed);
                let due = disruption.due.unwrap_or(self.began);
                least.map_or(due, |least| least.min(due))
            }
        };
        Some((disruption.rests_until).map_or(due, |rests| rests.max(due)))
    }

    /// Looks for nodes to disrupt, on another thread unless the loop plans on its own.
    pub(super) fn look_for_disruption(&mut self, now: Instant) {
        let live = self.config.policies.take();
        if !live.disruption().enabled.unwrap_or(true) {
            // The configuration is asked again then: not each time that the loop wakes up.
            self.disruption.proposed = None;
            self.mark_later(Changes {
                clear: self.marked(),
                ..Changes::default()
            });
            self.disruption.due = Some(now + CHANGED_LOOK_INTERVAL);
            self.disruption.looked = Some(now);
            return;
        }
        self.open_left_over();
        self.disruption.deciding = true;
        let idle = self.disruption.idle.take();
        // A taint that could not be taken back is tried again.
        let has_changed = self.disruption.revision != self.state.revision;
        let idle = idle.filter(|_| !has_changed && self.marked().is_empty());
        self.disruption.revision = self.state.revision;
        if !self.planning {
            self.disruption.used = Used::default();
        }
        self.disruption.looks += 1;
        let number = BEFORE_FIRST_LOOK + self.disruption.looks;
        let clock = self.ctx.clock.clone();
        let time = clock.now().as_millisecond();
        let revision = self.state.revision;
        self.config.journal.began(time, number, revision);
        let (input, repair) = self.look_input();
        self.disruption.repair_due = repair.map(|left| now + left);
        let apart = live.apart_to_disrupt();
        self.forget_told(now);
        let told = self.disruption.told.clone();
        // Once nothing changes any more, the whole cluster is searched. So it is if a look has proposed
        // something, which is a change by itself: a shorter look would not find it again.
        let is_short = has_changed && self.disruption.proposed.is_none();
        let rested = self.disruption.rested.as_ref().filter(|_| is_short);
        let rested = rested.and_then(|of| of.near(revision)).cloned();
        let metrics = self.ctx.metrics.clone();
        let look = move |how: &super::RoundConfig| {
            guarded_now(&metrics, "disruption", || {
                let before = Before {
                    idle: idle.as_ref(),
                    rested: rested.as_ref(),
                    told: &told,
                };
                match decide(how, (&live, &apart), input, before, (&clock, number)) {
                    None => Look::Same(idle),
                    Some(decision) => {
                        let idle = IdleLook::of(&decision, &live);
                        Look::New(Box::new(decision), idle)
                    }
                }
            })
        };
        if self.config.inline {
            let decision = look(&self.config);
            let takes = self.config.look_takes;
            if takes.is_zero() {
                self.disruption_decided(decision);
                return;
            }
            let done = self.done.clone();
            tokio::spawn(async move {
                tokio::time::sleep(takes).await;
                let _ = done.send(Done::Disruption(decision)).await;
            });
            return;
        }
        let (how, done) = (self.config.clone(), self.done.clone());
        self.config.compute(move || {
            let _ = done.blocking_send(Done::Disruption(look(&how)));
        });
    }

    /// Takes in what a look has found; nothing if it has panicked. While a round is being planned or
    /// written, that waits: what the round uses is known then.
    pub(super) fn disruption_decided(&mut self, look: Option<Look>) {
        if self.planning {
            self.disruption.held = Some(look);
            return;
        }
        let now = Instant::now();
        self.disruption.deciding = false;
        self.disruption.looked = Some(now);
        let (decision, idle) = match look {
            Some(Look::New(decision, idle)) => (decision, idle),
            Some(Look::Same(idle)) => {
                self.disruption.panics = 0;
                self.disruption.due = Some(now + UNCHANGED_LOOK_INTERVAL);
                self.disruption.rests_until = None;
                self.disruption.idle = idle;
                self.tell_blocked();
                return;
            }
            None => {
                self.look_panicked(now);
                return;
            }
        };
        self.disruption.panics = 0;
        let rested = Rested::of(&decision, idle.as_ref(), self.disruption.revision);
        self.disruption.rested = rested.or(self.disruption.rested.take());
        self.disruption.idle = idle.filter(|_| !decision.swept);
        let took = if self.config.inline {
            self.config.look_takes
        } else {
            decision.took
        };
        let pause = took * SEARCH_TIME_DIVISOR;
        self.disruption.rests_until = Some(now + pause);
        let due = now + UNCHANGED_LOOK_INTERVAL.max(pause);
        let repair = self.disruption.repair_due;
        let repair = repair.map(|at| at.max(now + pause.max(LOOK_DELAY_AFTER_PURCHASE)));
        self.disruption.due = Some(repair.map_or(due, |repair| repair.min(due)));
        (self.ctx.metrics.disruption).looked(decision.took, &decision.snapshot, &decision.round);
        self.tell_refused(&decision);
        if !self.was_leader {
            self.disruption.due = Some(now + LOOK_DELAY_AFTER_PURCHASE);
            return;
        }
        let mut decision = self.without_used(decision);
        self.disruption.kept = std::mem::take(&mut decision.held);
        // What it takes away may be all that shows them.
        self.remember_useless(&decision.snapshot);
        self.disruption.blocked = budgets_in_the_way(&decision.snapshot, &decision.round);
        self.tell_blocked();
        self.tell_repairs(&decision);
        self.tell_staying(&decision, now);
        for told in &decision.elapsed {
            self.tell_pod(told.clone());
        }
        for (proposal, verdict) in &decision.round.proposals {
            tracing::debug!(
                nodes = self.node_names(&decision.snapshot, proposal).join(" "),
                method = proposal.method.name(),
                ?verdict,
                swept = decision.swept,
                "proposal"
            );
        }
        self.replace_static(&decision);
        self.begin_singles(&decision);
        let planned = || {
            let now = decision.now.iter();
            now.filter(|proposal| proposal.method != Method::StaticDrift)
        };
        let wanted: BTreeSet<String> = planned()
            .filter(|proposal| is_looked_at_twice(proposal.method))
            .flat_map(|proposal| self.node_names(&decision.snapshot, proposal))
            .collect();
        // No look begins before the one that proposed them is old enough.
        let seen = self.disruption.proposed.take();
        let seen = seen.map(|(_, nodes)| nodes).unwrap_or_default();
        let holds = |proposal: &&Proposal| {
            let names = self.node_names(&decision.snapshot, proposal);
            let twice = is_looked_at_twice(proposal.method);
            let rests = |name: &String| seen.contains(name) && !self.pods_changed(name, now);
            !twice || names.iter().all(rests)
        };
        let (carried, later): (Vec<&Proposal>, Vec<&Proposal>) = planned().partition(holds);
        if !seen.is_empty() && !later.is_empty() {
            let metrics = &self.ctx.metrics.disruption;
            later
                .iter()
                .for_each(|proposal| metrics.unconfirmed(proposal.method));
        }
        let commands: Vec<NewCommand> = carried
            .iter()
            .enumerate()
            .filter_map(|(at, proposal)| {
                let repaired = proposal
                    .nodes
                    .first()
                    .filter(|_| proposal.method == Method::Repair);
                let repaired = repaired.and_then(|&node| Controller::repaired(&decision, node));
                let command = self.command(&decision.snapshot, proposal, at)?;
                Some(command.repairs(repaired))
            })
            .collect();
        let mut claims = self.state.claims.values();
        let under_way =
            self.disruption.is_beginning() || claims.any(|claim| candidate_of(claim).is_some());
        let begins = commands.iter().flat_map(NewCommand::nodes);
        self.mark_later(waves::changes(
            &decision.snapshot,
            &decision.round,
            self.marked(),
            &begins.map(|node| node.name.clone()).collect(),
            under_way || !commands.is_empty(),
        ));
        if commands.is_empty() {
            self.remember(&wanted);
            self.disruption.proposed = (!wanted.is_empty()).then_some((now, wanted));
            return;
        }
        for command in commands {
            self.begin(command);
        }
    }

    /// Says what the check has refused of a look: its nodes stay, and the rest goes on.
    fn tell_refused(&self, decision: &Decision) {
        let refused = &decision.round.refused;
        if refused.is_empty() {
            return;
        }
        let rounds = &self.ctx.metrics.rounds;
        rounds.with_label_values(&["rejected"]).inc();
        let messages = Messages {
            snapshot: &decision.snapshot,
        };
        for one in refused.iter().take(LOGGED_REFUSALS) {
            let nodes: Vec<String> = one.nodes.iter().map(|&node| messages.node(node)).collect();
            let violation = one.violations.first().map(ToString::to_string);
            tracing::error!(
                nodes = nodes.join(" "),
                method = one.method.name(),
                violation,
                "disruption rejected by check, its nodes stay: a defect of Longshore, please report it"
            );
        }
    }

    /// A look has panicked. The next one waits, twice as long each time: the cluster that it panicked at
    /// is still there.
    fn look_panicked(&mut self, now: Instant) {
        let disruption = &mut self.disruption;
        let pause = UNCHANGED_LOOK_INTERVAL * (1 << disruption.panics.min(4));
        disruption.panics = disruption.panics.saturating_add(1);
        disruption.proposed = None;
        disruption.due = Some(now + pause);
        disruption.rests_until = Some(now + pause);
    }

    /// Takes in what was found while a round was under way, now that it is over.
    pub(super) fn take_held_look(&mut self) {
        if let Some(look) = self.disruption.held.take() {
            self.disruption_decided(look);
        }
    }

    /// What of a decision does not depend on what rounds have used since the look began: nodes that
    /// pods were planned onto, and limits of NodePools that were bought from. The rest is found again.
    fn without_used(&mut self, mut decision: Box<Decision>) -> Box<Decision> {
        let used = std::mem::take(&mut self.disruption.used);
        if used.rounds > 0 && mutant("rounds-void-looks") {
            (decision.now, decision.singles) = (Vec::new(), Vec::new());
            return decision;
        }
        if used.nodes.is_empty() && used.pools.is_empty() {
            return decision;
        }
        let snapshot = decision.snapshot.clone();
        let text = |symbol| snapshot.world.names.text(symbol);
        let is_used = |node: NodeIx| {
            used.nodes
                .contains(text(snapshot.nodes[node.0 as usize].name))
        };
        let is_limited = |pool: PoolIx| {
            let record = &snapshot.world.pools[pool.0 as usize];
            let has_limits = !record.limits.is_empty() || record.node_limit.is_some();
            has_limits && used.pools.contains(text(record.name))
        };
        let before = decision.now.len() + decision.singles.len();
        decision.now.retain(|proposal| {
            let takes = proposal.nodes.iter().any(|&node| is_used(node));
            let fills = proposal.moves.iter().any(|of| match of.to {
                To::Node(node) => is_used(node),
                To::Replacement(_) => false,
            });
            let buys = proposal
                .replacements
                .iter()
                .any(|of| is_limited(of.claim.pool));
            !takes && !fills && !buys
        });
        decision.singles.retain(|single| !is_used(single.node));
        if decision.now.len() + decision.singles.len() < before {
            self.disruption.due = self
                .disruption
                .due
                .map(|due| due.min(Instant::now() + CHANGED_LOOK_INTERVAL));
        }
        decision
    }

    /// Writes on NodeClaims what a look proposes, so that another process need not begin anew.
    fn remember(&self, wanted: &BTreeSet<String>) {
        let time = self.ctx.now().to_string();
        let claims = self.state.claims.values();
        let writes = claims.filter_map(|claim| {
            let is_wanted = node_of(claim).is_some_and(|node| wanted.contains(node));
            let stale = !is_wanted && proposed_at(claim).is_some();
            (is_wanted || stale).then(|| (claim.clone(), is_wanted.then(|| time.clone())))
        });
        let writes: Vec<(Arc<NodeClaim>, Option<String>)> = writes.collect();
        if writes.is_empty() {
            return;
        }
        let ctx = self.ctx.clone();
        tokio::spawn(async move {
            for (claim, time) in writes {
                let written = claim_writes::annotate(&ctx, &claim, json!({PROPOSED: time})).await;
                if let Err(error) = written {
                    let name = claim.metadata.name.as_deref();
                    tracing::debug!(nodeclaim = name, %error, "writing proposal failed");
                }
            }
        });
    }

    /// Takes up what the process before this one has proposed, if that was a moment ago.
    pub(super) fn recall(&mut self, now: Instant) {
        let claims = self.state.claims.values().map(|claim| &**claim);
        let recalled = recalled(claims, self.ctx.now());
        self.disruption.proposed = recalled.map(|(age, nodes)| {
            let since = now.checked_sub(age).unwrap_or(now);
            (since, nodes)
        });
    }

    /// Nodes that carry the taint of later waves and are on no way out yet.
    fn marked(&self) -> BTreeSet<String> {
        let marked = self.state.nodes.values();
        let marked = marked.filter(|node| waves::goes_later(node) && node.deletion.is_none());
        let stays = |name: &String| {
            let claim = self.node_and_claim(name);
            claim.is_some_and(|(_, claim)| candidate_of(&claim).is_none())
        };
        marked.map(|node| node.name.clone()).filter(stays).collect()
    }

    /// Writes and takes back the taint of later waves. What fails is found again by the next look.
    fn mark_later(&self, changes: Changes) {
        let clear = changes.clear.into_iter().map(|name| (name, false));
        let all = changes.mark.into_iter().map(|name| (name, true));
        let known = all.chain(clear.filter(|_| !mutant("keeps-planned")));
        let node = |(name, later)| Some((self.state.nodes.get(&name)?.clone(), later));
        let nodes: Vec<_> = known.filter_map(node).collect();
        if nodes.is_empty() {
            return;
        }
        let ctx = self.ctx.clone();
        tokio::spawn(async move {
            for (node, later) in nodes {
                let taints = waves::taints(&node, later);
                if let Err(error) = ctx.write_taints(&node, &taints).await {
                    tracing::debug!(node = node.name, %error, "writing the taint of later waves failed");
                }
            }
        });
    }

    pub(super) fn node_names(&self, snapshot: &Snapshot, proposal: &Proposal) -> Vec<String> {
        let name = |node: &longshore_core::plan::NodeIx| {
            let symbol = snapshot.nodes[node.0 as usize].name;
            snapshot.world.names.text(symbol).to_owned()
        };
        proposal.nodes.iter().map(name).collect()
    }

    /// Whether pods of a node changed within `consolidateAfter`. Its claim may still say
    /// Consolidatable: the time of the change is written later.
    fn pods_changed(&self, node: &str, now: Instant) -> bool {
        let after = || {
            let claims = self.state.claim_of(self.state.nodes.get(node)?);
            let pool = self.state.pools.get(node_claim::pool_of(claims.first()?))?;
            match duration::lifetime(&pool.spec.disruption.consolidate_after) {
                Ok(Lifetime::After(after)) => Some(after),
                _ => None,
            }
        };
        let last = self.last_pod_events.last(node);
        last.is_some_and(|last| after().is_some_and(|after| now.duration_since(last) < after))
    }

    /// A proposal as a command; nothing if one of its objects is not there any more.
    fn command(&self, snapshot: &Snapshot, proposal: &Proposal, at: usize) -> Option<NewCommand> {
        let mut candidates = Vec::new();
        for name in self.node_names(snapshot, proposal) {
            let node = self.state.nodes.get(&name)?;
            let claims = self.state.claim_of(node);
            let [claim] = claims.as_slice() else {
                return None;
            };
            let again = candidate_of(claim).is_some() && !mutant("forgets-under-way");
            if claim.metadata.deletion_timestamp.is_some() || again {
                return None;
            }
            candidates.push(Candidate {
                claim: claim.clone(),
                nodes: vec![node.clone()],
            });
        }
        let now = self.ctx.now().as_second();
        let first = candidates.first()?.claim.metadata.name.clone()?;
        let id = format!("{now}-{at}-{first}");
        let bought = Plan {
            claims: proposal
                .replacements
                .iter()
                .map(|of| of.claim.clone())
                .collect(),
            ..Plan::default()
        };
        let no_nominations = NominationPlan::default();
        let wanted = new_node_claims(snapshot, &bought, &no_nominations, &self.state.pools, &id);
        if wanted.len() < proposal.replacements.len() {
            return None;
        }
        let bought: Vec<&str> = wanted.iter().map(|claim| claim.name.as_str()).collect();
        let moves = self.moves_by_claim(snapshot, proposal, &bought);
        let what = (proposal.method.name(), proposal.reason.name());
        let names: BTreeSet<&str> = wanted.iter().map(|want| &*want.pool).collect();
        let failures = self.failures_of(&names);
        let new = NewCommand::new(id, what, now, candidates, wanted);
        let consolidates = matches!(proposal.reason.name(), "Empty" | "Underutilized");
        let worth = consolidates.then(|| Worth {
            text: Messages { snapshot }.worth(proposal),
            is_approved: proposal.decision.is_some(),
        });
        let new = new.moves(moves).after(failures).worth(worth);
        tracing::info!(
            command = new.id,
            method = new.command.method,
            reason = new.command.reason,
            nodes = new.command.candidates,
            replacements = new.command.replacements.len(),
            pods = proposal.moves.len(),
            savings = proposal.savings,
            "disrupting"
        );
        Some(new)
    }

    /// What is known of failed commands that bought from NodePools: of several, the most.
    pub(super) fn failures_of(&self, pools: &BTreeSet<&str>) -> Option<Failures> {
        let pools = pools.iter().filter_map(|name| self.state.pools.get(*name));
        let known = pools.filter_map(|pool| self.ctx.failures.of(pool));
        known.max_by_key(|of| of.count)
    }

    /// NodePools that a command buys from.
    fn pools_of(&self, view: &CommandView) -> Vec<Arc<NodePool>> {
        let said = view.command().map(|command| command.pools);
        let said = said.unwrap_or_default();
        let candidates = view.candidates.iter();
        let names: BTreeSet<&str> = match said.is_empty() {
            true => candidates
                .map(|one| node_claim::pool_of(&one.claim))
                .collect(),
            false => said.iter().map(String::as_str).collect(),
        };
        let known = names
            .into_iter()
            .filter_map(|name| self.state.pools.get(name));
        known.cloned().collect()
    }

    /// Where the pods of each candidate go, as the annotation of its NodeClaim has it. `bought` are
    /// the names of the replacements.
    fn moves_by_claim(
        &self,
        snapshot: &Snapshot,
        proposal: &Proposal,
        bought: &[&str],
    ) -> BTreeMap<String, String> {
        let world = &snapshot.world;
        let mut by_node: BTreeMap<&str, BTreeMap<&str, Vec<String>>> = BTreeMap::new();
        for moved in &proposal.moves {
            let to = match moved.to {
                To::Node(node) => world.names.text(snapshot.nodes[node.0 as usize].name),
                To::Replacement(at) => bought[at],
            };
            // A pod that is nominated to a node is on none yet.
            let on = |node: &&NodeIx| {
                let pods = &snapshot.nodes[node.0 as usize].pods;
                pods.contains(&moved.pod)
            };
            let expected = || proposal.nodes.iter().find(on);
            let from = world.pods[moved.pod.0 as usize].node;
            let from = from.or_else(|| Some(snapshot.nodes[expected()?.0 as usize].name));
            let of = by_node.entry(from.map_or("", |node| world.names.text(node)));
            let pods = of.or_default().entry(to).or_default();
            pods.push(pod_name(world, moved.pod));
        }
        let claim_of = |node: &str| {
            let (_, claim) = self.node_and_claim(node)?;
            claim.metadata.name.clone()
        };
        let text = |of: &BTreeMap<&str, Vec<String>>| {
            moves::write(of.iter().map(|(to, pods)| (*to, &pods[..])))
        };
        let all = by_node.iter();
        all.filter_map(|(node, of)| Some((claim_of(node)?, text(of))))
            .collect()
    }

    /// Has a command begun.
    pub(super) fn begin(&mut self, new: NewCommand) {
        self.ctx.metrics.disruption.begun(&new.command);
        self.disruption
            .begins(new.id.clone(), new.replacements.clone());
        let (ctx, done, id) = (self.ctx.clone(), self.done.clone(), new.id.clone());
        tokio::spawn(async move {
            let begun = guarded(&ctx.metrics, "disruption", step::begin(&ctx, new)).await;
            let mut buys = true;
            if let Some(Err(failed)) = begun {
                let error = failed.error;
                tracing::warn!(command = id, %error, "beginning disruption failed; taken back");
                buys = failed.buys;
            }
            let _ = done.send(Done::Begun(id, buys)).await;
        });
    }

    /// A command has been begun, or has failed to. `buys` says whether something may have been bought.
    pub(super) fn begun(&mut self, id: String, buys: bool) {
        let now = Instant::now();
        self.disruption.beginning.remove(&id);
        if !buys {
            self.disruption.unbegun.insert(id.clone());
        }
        self.work(WorkItem::Command(id), Lane::Disruption, now);
    }

    pub(super) fn work_on_command(&mut self, id: &str) -> Option<Work> {
        if self.disruption.beginning.contains_key(id) {
            return None;
        }
        let Some(names) = self.disruption.commands.get(id) else {
            self.disruption.unbegun.remove(id);
            return None;
        };
        let claims: Vec<_> = names
            .iter()
            .filter_map(|name| self.state.claims.get(name).cloned())
            .collect();
        let (candidates, replacements): (Vec<_>, Vec<_>) = claims
            .into_iter()
            .partition(|claim| candidate_of(claim) == Some(id));
        let nodes = |claim: &Arc<_>| match node_claim::provider_id(claim) {
            "" => Vec::new(),
            provider_id => self.state.nodes_of(provider_id),
        };
        let replacements = replacements.into_iter().map(|claim| Replacement {
            nodes: nodes(&claim),
            is_awaited: self.is_expected_on(&claim),
            claim,
        });
        let replacements: Vec<Replacement> = replacements.collect();
        if candidates.is_empty() {
            let (ctx, id) = (self.ctx.clone(), id.to_owned());
            return Some(Box::pin(async move {
                step::left_over(&ctx, &id, &replacements).await
            }));
        }
        let candidates = candidates
            .into_iter()
            .map(|claim| Candidate {
                nodes: nodes(&claim),
                claim,
            })
            .collect::<Vec<_>>();
        let has_places = candidates.iter().all(|one: &Candidate| {
            let mut to = destinations(&one.claim);
            to.all(|to| self.stays(to))
        });
        let mut view = CommandView {
            id: id.to_owned(),
            has_places,
            replacements,
            pools: Vec::new(),
            is_unbegun: self.disruption.unbegun.contains(id),
            candidates,
        };
        view.pools = self.pools_of(&view);
        let ctx = self.ctx.clone();
        Some(Box::pin(async move {
            let now = ctx.now().as_second();
            step::step(&ctx, &view, now).await
        }))
    }

    /// Whether a pod that waits is planned for a claim whose node can still take it.
    fn is_expected_on(&self, claim: &NodeClaim) -> bool {
        let Some(name) = claim.metadata.name.as_deref() else {
            return false;
        };
        let mut waiting = self.state.waiting();
        self.planned_host(name, claim).is_some()
            && waiting.any(|pod| self.plans.owner(pod) == Some(name))
    }

    /// Whether there is a node of a name, or a NodeClaim, that is not on its way out.
    fn stays(&self, name: &str) -> bool {
        let going = |claim: &Arc<NodeClaim>| claim.metadata.deletion_timestamp.is_some();
        match self.state.nodes.get(name) {
            Some(node) => node.deletion.is_none() && !self.state.claim_of(node).iter().any(going),
            None => (self.state.claims.get(name)).is_some_and(|claim| !going(claim)),
        }
    }

    /// Nodes that have the taint and are in no command, as another controller may leave them.
    fn open_left_over(&self) {
        for node in self.state.nodes.values() {
            if node.deletion.is_some() || disrupted(node).is_none() {
                continue;
            }
            let claims = self.state.claim_of(node);
            let [claim] = claims.as_slice() else { continue };
            if claim.metadata.deletion_timestamp.is_some() || candidate_of(claim).is_some() {
                continue;
            }
            let (ctx, claim, node) = (self.ctx.clone(), claim.clone(), node.clone());
            tokio::spawn(async move {
                tracing::info!(
                    node = node.name,
                    "removed the taint of a disruption that is over"
                );
                if let Err(error) = step::open(&ctx, &claim, &[node]).await {
                    tracing::debug!(%error, "removing a taint failed; retrying in the next look");
                }
            });
        }
    }

    /// Forgets of which nodes something was said so long ago that it may be said again.
    fn forget_told(&mut self, now: Instant) {
        let is_new = |at: &Instant| now.saturating_duration_since(*at) < staying::REPEAT_INTERVAL;
        if !self.disruption.told.values().all(is_new) {
            Arc::make_mut(&mut self.disruption.told).retain(|_, at| is_new(at));
        }
    }

    /// Says of nodes that consolidation leaves what is in the way.
    fn tell_staying(&mut self, decision: &Decision, now: Instant) {
        let mut all = Vec::new();
        for staying in &decision.stays {
            Arc::make_mut(&mut self.disruption.told).insert(staying.node.clone(), now);
            let claim = self.node_and_claim(&staying.node).map(|(_, claim)| claim);
            all.push((
                staying.node.clone(),
                claim,
                staying.event,
                staying.message.clone(),
            ));
        }
        if all.is_empty() {
            return;
        }
        let ctx = self.ctx.clone();
        tokio::spawn(async move {
            for (node, claim, event, message) in all {
                events::stays(&ctx, &node, claim.as_deref(), (event, &message)).await;
            }
        });
    }

    /// Says which NodePools' budgets are in the way, again and again: the API server forgets an Event
    /// after an hour.
    fn tell_blocked(&self) {
        if !self.was_leader {
            return;
        }
        for ((name, reason), left) in &self.disruption.blocked {
            let Some(pool) = self.state.pools.get(name).cloned() else {
                continue;
            };
            let (ctx, reason, left) = (self.ctx.clone(), *reason, *left);
            tokio::spawn(async move { events::blocked(&ctx, &pool, reason, left).await });
        }
    }
}

/// NodePools whose budgets are in the way of a reason, and how many more nodes may go: those that a
/// proposal waits for, and those that let no node go where one would.
fn budgets_in_the_way(snapshot: &Snapshot, round: &Round) -> BTreeMap<(String, &'static str), u32> {
    let text = |symbol| snapshot.world.names.text(symbol).to_owned();
    let waits = round.proposals.iter().filter_map(|(proposal, verdict)| {
        let Verdict::Later(pool, left) = verdict else {
            return None;
        };
        Some(((text(*pool), proposal.reason.name()), *left))
    });
    let held = |method: Method| {
        let nodes = snapshot.nodes.iter().zip(&round.candidates);
        nodes.filter_map(move |(node, candidate)| {
            let refusal = candidate.refusal(method)?;
            let name = node
                .pool
                .filter(|_| matches!(refusal, Stays::NodePoolBudget(_)))?;
            Some(((text(name), method.reason().name()), 0))
        })
    };
    // Where a proposal waits, it says how many.
    let held = Method::ALL.into_iter().flat_map(held);
    held.chain(waits).collect()
}

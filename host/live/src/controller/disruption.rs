//! When to look for nodes to disrupt, and what becomes of what is found.
//!
//! A node is disrupted only if two rounds in a row, [`VALIDATION_DELAY`] apart, want it, so that a
//! cluster that changes just now is left alone. The first of them is written down ([`PROPOSED`]): a
//! process that ends in between leaves the second to the next one. Drifted and unhealthy nodes are not looked at
//! twice.

#[cfg(test)]
mod tests;

mod commands;
mod memory;
mod messages;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use longshore_api::crd::duration::{self, Lifetime};
use longshore_api::crd::{NodeClaim, Timestamp};
use longshore_core::disrupt::proposals::{Proposal, To};
use longshore_core::disrupt::verdicts::Method;
use longshore_core::ids::{NodeIx, PoolIx};
use longshore_core::snapshot::Snapshot;
use serde_json::json;
use tokio::time::Instant;

use super::{Controller, Done};
use crate::act::catch_panics::guarded_now;
use crate::act::claim_writes;
use crate::act::disruption::step::NewCommand;
use crate::act::work_queue::Lane;
use crate::decide::command::{candidate_of, replacement_of};
use crate::decide::disruption::{Before, Decision, IdleLook, Rested, decide};
use crate::decide::waves::{self, Changes};
use crate::observe::node_claim;
use crate::observe::state::WorkItem;
use crate::process::mutants::mutant;
use longshore_journal::look::BEFORE_FIRST_LOOK;

pub(super) use self::memory::Disruption;
use self::memory::Used;
use self::messages::budgets_in_the_way;

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
        self.forget_old_reports(now);
        let last_reported = self.disruption.last_reported.clone();
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
                    last_reported: &last_reported,
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
                self.report_blocked();
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
        self.report_refused(&decision);
        if !self.was_leader {
            self.disruption.due = Some(now + LOOK_DELAY_AFTER_PURCHASE);
            return;
        }
        let mut decision = self.without_used(decision);
        self.disruption.kept = std::mem::take(&mut decision.held);
        // What it takes away may be all that shows them.
        self.remember_useless(&decision.snapshot);
        self.disruption.blocked = budgets_in_the_way(&decision.snapshot, &decision.round);
        self.report_blocked();
        self.report_repairs(&decision);
        self.report_staying(&decision, now);
        for event in &decision.elapsed {
            self.emit_pod_event(event.clone());
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
}

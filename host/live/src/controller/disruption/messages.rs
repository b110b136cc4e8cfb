//! Log lines and Events about what a look left: proposals that the check refused, nodes that stay,
//! and budgets in the way.

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_core::disrupt::methods::{Round, Verdict};
use longshore_core::disrupt::verdicts::{Method, Stays};
use longshore_core::snapshot::Snapshot;
use tokio::time::Instant;

use super::LOGGED_REFUSALS;
use crate::act::disruption::events;
use crate::controller::Controller;
use crate::decide::disruption::Decision;
use crate::decide::staying;
use longshore_report::disruption::Messages;

/// NodePools whose budgets are in the way of a reason, and how many more nodes may go: those that a
/// proposal waits for, and those that let no node go where one would.
pub(super) fn budgets_in_the_way(
    snapshot: &Snapshot,
    round: &Round,
) -> BTreeMap<(String, &'static str), u32> {
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

impl Controller {
    /// Logs and counts proposals that the check has refused. Their nodes stay, the rest goes on.
    pub(super) fn report_refused(&self, decision: &Decision) {
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

    /// Forgets reports of nodes older than [`staying::REPEAT_INTERVAL`]: they may be repeated.
    pub(super) fn forget_old_reports(&mut self, now: Instant) {
        let is_new = |at: &Instant| now.saturating_duration_since(*at) < staying::REPEAT_INTERVAL;
        if !self.disruption.last_reported.values().all(is_new) {
            Arc::make_mut(&mut self.disruption.last_reported).retain(|_, at| is_new(at));
        }
    }

    /// Writes Events about nodes that stay, with the reason, and notes when that was.
    pub(super) fn report_staying(&mut self, decision: &Decision, now: Instant) {
        let mut all = Vec::new();
        for staying in &decision.stays {
            Arc::make_mut(&mut self.disruption.last_reported).insert(staying.node.clone(), now);
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
                events::stays(&ctx.events, &node, claim.as_deref(), (event, &message)).await;
            }
        });
    }

    /// Writes Events about NodePools whose budgets are in the way. They are repeated, as the API server
    /// forgets an Event after an hour.
    pub(super) fn report_blocked(&self) {
        if !self.was_leader {
            return;
        }
        for ((name, reason), left) in &self.disruption.blocked {
            let Some(pool) = self.state.pools.get(name).cloned() else {
                continue;
            };
            let (ctx, reason, left) = (self.ctx.clone(), *reason, *left);
            tokio::spawn(async move { events::blocked(&ctx.events, &pool, reason, left).await });
        }
    }
}

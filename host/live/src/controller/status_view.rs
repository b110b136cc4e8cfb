//! Exports the cluster and the loop to metrics and `longshore status`.

mod coming;
mod draining;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::Controller;
use crate::observe::node_claim::is_true;
use crate::observe::planned_pods::planned_pods;
use crate::observe::state::{MetricsSnapshot, TypeTable};
use crate::process::lock::lock;
use crate::status::parts::{Status, WaitingPods};
use longshore_core::model::conditions::REGISTERED;

impl Controller {
    /// The cluster as exported in metrics.
    pub(super) fn metrics_snapshot(&self) -> MetricsSnapshot {
        let coming = self.state.claims.values().filter(|claim| {
            claim.metadata.deletion_timestamp.is_none()
                && !claim
                    .status
                    .as_ref()
                    .is_some_and(|status| is_true(status, REGISTERED))
        });
        let planned = coming
            .flat_map(|claim| planned_pods(claim))
            .map(|planned| planned.pod);
        let more = self
            .rollout
            .in_flight()
            .flat_map(|(_, pods)| pods)
            .map(|(pod, _)| pod.as_str());
        let expected: BTreeSet<&str> = planned
            .chain(more)
            .filter(|pod| self.state.pods.waits(pod))
            .collect();
        let deciding = self
            .round_timer
            .last()
            .filter(|_| self.planning)
            .map(|began| began.elapsed());
        MetricsSnapshot {
            now: self.ctx.now(),
            queue: self.state.pods.pending() - expected.len(),
            deciding,
            pod_latency: self.pod_latency.clone(),
            classes: self.config.catalogue.class_views(),
            types: self.type_table(),
            ..self.state.metrics_snapshot(self.offers.current.catalogue())
        }
    }

    /// What can be bought as rounds see it: with NodeOverlays, and without what is short. Made anew
    /// when that changes.
    fn type_table(&self) -> Arc<TypeTable> {
        let (offers, names) = (self.offers.current.catalogue(), self.state.names());
        let overlays = self.config.overlays.as_deref();
        let made = overlays.and_then(|known| known.made(offers, names));
        let now = self.ctx.now().as_second();
        let offered = made.as_ref().map_or(offers, |made| &made.catalogue);
        let offered = (self.ctx.memory.launch.unavailable).without_unavailable(offered, names, now);
        let make = || Arc::new(TypeTable::of(&offered, names));
        self.offers.types.get(offered.number(), make)
    }

    pub(super) fn publish_status(&mut self, synced: bool, leads: bool, now: Instant) {
        self.publishing.done(now);
        let pools = &self.state.pools;
        (self.last_round.incompatible_pools).retain(|name, _| pools.contains_key(name));
        self.ctx.metrics.leads.set(i64::from(leads));
        self.ctx.metrics.synced.set(i64::from(synced));
        let unsynced = if synced {
            0
        } else {
            now.duration_since(self.began).as_secs()
        };
        self.ctx.metrics.unsynced.set(unsynced as i64);
        self.ctx.metrics.nodes.set(self.state.nodes.len() as i64);
        let overlays = self.overlays_status();
        let mut board = lock(&self.board);
        board.synced = synced;
        board.waiting.retain(|pod, _| self.state.pods.waits(pod));
        let waiting = grouped(&board.waiting);
        let (coming, pods) = coming::coming(&self.state);
        let explained = pods.iter().filter(|pod| !board.waiting.contains_key(**pod));
        let explained = explained.count() + board.waiting.len();
        let others = self.state.pods.pending().saturating_sub(explained);
        let policies = board.policies.clone();
        let short = self
            .ctx
            .memory
            .launch
            .unavailable
            .summary(self.ctx.now().as_second());
        self.ctx.metrics.short(&short);
        let mut troubles: BTreeMap<String, String> = self
            .state
            .lists
            .troubles()
            .map(|(kind, why)| (format!("{kind:?}"), why.to_owned()))
            .collect();
        let unreadable: Vec<String> = self
            .state
            .unreadable()
            .map(|(kind, name, why)| format!("{kind:?} {name}: {why}"))
            .collect();
        if !unreadable.is_empty() {
            let more = unreadable.len().saturating_sub(MAX_NAMED_UNREADABLE);
            let some = unreadable[..unreadable.len() - more].join("; ");
            let more = match more {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            troubles.insert(
                "unreadable".to_owned(),
                format!("cannot be read: {some}{more}"),
            );
        }
        if !board.definitions.is_empty() {
            troubles.insert("definitions".to_owned(), board.definitions.join("; "));
        }
        troubles.extend(
            self.ctx
                .memory
                .end
                .garbage
                .trouble()
                .map(|what| ("garbage".to_owned(), what)),
        );
        if let Some(why) = self.silence() {
            troubles.insert("API server".to_owned(), why);
        }
        if let Some(why) = &self.blocked {
            troubles.insert("planning".to_owned(), format!("planning is blocked: {why}"));
        }
        self.ctx
            .metrics
            .blocked
            .set(i64::from(self.blocked.is_some() || !synced));
        let claims = self.state.claims.values().map(|claim| &**claim);
        let (led, moment) = (self.ctx.leadership.since(), self.ctx.now());
        let led = moment - now.saturating_duration_since(led);
        let recent = self
            .ctx
            .memory
            .recent
            .view(claims, (self.since, led, moment));
        let of_policies = policies.iter().flat_map(|policies| &policies.warnings);
        let warnings = recent.warnings.iter().chain(of_policies).cloned();
        board.status = Some(Status {
            synced,
            leads,
            planning_waits: self.blocked.clone(),
            revision: self.state.revision,
            rounds: self.rounds,
            pods: self.state.pods.count(),
            pending: self.state.pods.pending(),
            nodes: self.state.nodes.len(),
            node_claims: self.state.claims.len(),
            node_pools: self.state.pools.len(),
            waiting,
            work: self.work.len(),
            last_plan: self.last_round.plan.clone(),
            troubles,
            without_capacity: short.status(),
            warnings: warnings.collect(),
            policies,
            barren: self.last_round.incompatible_pools.clone(),
            overlays,
            coming,
            others,
            refused: self.ctx.memory.launch.refusals.lines(),
            churn: recent.churn,
            lost: recent.lost,
            cost: recent.cost,
            changes: recent.changes,
            draining: draining::draining(&self.state, &self.ctx),
            held: self.disruption.kept.clone(),
            answered_seconds_ago: None,
        });
    }
}

/// Most unreadable objects that are named.
const MAX_NAMED_UNREADABLE: usize = 10;
/// Most reasons for waiting that are shown.
const MAX_REASONS: usize = 20;
/// Most pods that are named for each.
const MAX_NAMED_PODS: usize = 3;

/// Pods that wait, by why, the reason of most first.
fn grouped(waiting: &BTreeMap<String, String>) -> Vec<WaitingPods> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    waiting
        .iter()
        .for_each(|(pod, why)| by_reason.entry(why).or_default().push(pod));
    let mut reasons: Vec<_> = by_reason.into_iter().collect();
    reasons.sort_by_key(|(_, pods)| std::cmp::Reverse(pods.len()));
    let line = |(why, pods): (&str, Vec<&str>)| WaitingPods {
        why: why.to_owned(),
        pods: pods.len(),
        some: pods
            .iter()
            .take(MAX_NAMED_PODS)
            .map(|pod| (*pod).to_owned())
            .collect(),
    };
    reasons.into_iter().take(MAX_REASONS).map(line).collect()
}

//! When the loop wakes up, and why nothing may be planned.

use std::time::Duration;

use tokio::time::Instant;

use super::Controller;
use crate::observe::node_claim;
use crate::process::pulse;
use longshore_api::kinds::ObjectKind;

/// How often freshness is checked while no round may be made.
const FRESHNESS_POLL: Duration = Duration::from_secs(1);

/// How often leadership is checked, if there are several replicas.
const LEADERSHIP_POLL: Duration = Duration::from_millis(250);

/// Replicas that compete ask for the Lease every 2 s. Without an answer for so long this one is cut
/// off from the API server.
const MAX_LEASE_SILENCE: Duration = Duration::from_secs(15);

/// Without a Lease, this process counts as cut off after its watches were silent for so long:
/// bookmarks come every minute, or the kind is listed again.
pub(super) const MAX_WATCH_SILENCE: Duration = Duration::from_secs(100);

impl Controller {
    /// When to wake up if nothing arrives.
    pub(super) fn next(&self, now: Instant) -> Instant {
        let mut next = now + pulse::WAKE_INTERVAL;
        let mut by = |at: Option<Instant>| next = at.map_or(next, |at| next.min(at));
        if !self.ctx.leadership.is_permanent() {
            by(Some(now + LEADERSHIP_POLL));
        }
        by(self.publishing.next());
        by(self.next_answer(now));
        if self.was_leader && self.state.lists.synced() && !self.ctx.leadership.is_retiring() {
            by(self.work.next());
            by(self.rollout.wakes_at(now));
            by(self.garbage.next());
            by(self.pool_counts.next());
            by(self.canaries.next());
            by(self.last_pod_events.next());
            by(self.purchases.failed.next());
            let blocked = self.why_blocked(now).map(|_| now + FRESHNESS_POLL);
            let unblocked = |at: Instant| blocked.map_or(at, |again| at.max(again));
            by(self.next_disruption().map(unblocked));
            by(self.next_round().filter(|_| !self.planning).map(unblocked));
        }
        next.max(now)
    }

    /// When the next round may be made.
    pub(super) fn next_round(&self) -> Option<Instant> {
        self.round_timer
            .next(self.rollout.any_nominated(), self.waits())
            .filter(|_| self.waits())
    }

    /// When the question that waits may be answered: between two rounds, or at any time where
    /// another replica makes them.
    pub(super) fn next_answer(&self, now: Instant) -> Option<Instant> {
        let round = if self.was_leader {
            self.next_round()
        } else {
            None
        };
        if self.planning || !self.state.lists.synced() {
            None
        } else {
            self.explain_requests.due(now, round)
        }
    }

    /// Whether there is anything to plan for.
    pub(super) fn waits(&self) -> bool {
        self.state.pods.pending() > 0 || self.state.any_node_leaves()
    }

    /// Since when the API server has not answered, if that is long.
    pub(super) fn silence(&self) -> Option<String> {
        let (time, ago) = self.ctx.clock.last_answer()?;
        let limit = match self.ctx.leadership.is_permanent() {
            true => MAX_WATCH_SILENCE,
            false => MAX_LEASE_SILENCE,
        };
        (ago >= limit).then(|| {
            let time = node_claim::rfc3339(time);
            format!("the API server has not answered since {time}; what is shown is from then")
        })
    }

    /// Why nothing may be planned, if so.
    pub(super) fn why_blocked(&self, now: Instant) -> Option<String> {
        let stale = self.silence();
        let stale = stale.or_else(|| Some(self.watches.stale(now)?.to_string()));
        stale.or_else(|| {
            let needed = [ObjectKind::NodeClaim, ObjectKind::Node, ObjectKind::Pod].into_iter();
            needed
                .filter_map(|kind| self.state.lists.trouble(kind))
                .next()
                .map(str::to_owned)
        })
    }

    /// Has a kind listed again; nothing is planned before it was.
    pub(super) fn relist(&mut self, kind: ObjectKind) {
        self.watches.relist(kind);
        self.ctx.relists.ask(kind);
    }
}

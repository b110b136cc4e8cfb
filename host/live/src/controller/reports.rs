//! Takes in what tasks report.

use tokio::time::Instant;

use super::{Controller, Done};
use crate::observe::state::WorkItem;
use longshore_api::kinds::ObjectKind;

impl Controller {
    pub(super) fn report(&mut self, report: Done) {
        self.publishing.note_change();
        match report {
            Done::Step(what, _) if !self.was_leader => self.work.forget(&what),
            Done::Step(what, outcome) => {
                if let (WorkItem::Claim(name), Err(_)) = (&what, &outcome) {
                    self.rollout.step_failed(name);
                }
                let failures = self.work.ended(&what, &outcome, Instant::now());
                if let (Some(failures), Err(error)) = (failures, outcome) {
                    tracing::warn!(?what, %error, failures, "reconcile failed; retrying");
                }
            }
            Done::Round(round) => {
                self.trim_due = true;
                self.apply_plan(*round);
            }
            Done::RoundPanicked => self.round_panicked(),
            Done::Written(claims, failed, outdated) => {
                let state = &self.state;
                let created = claims.len();
                let pods = claims.into_iter().flat_map(|created| created.pods);
                self.purchases
                    .bought
                    .extend(pods.filter(|pod| state.pods.waits(pod)));
                self.planning = false;
                if outdated {
                    let rounds = &self.ctx.metrics.rounds;
                    rounds.with_label_values(&["outdated"]).inc();
                    tracing::warn!(
                        "watch of pods lags: planned pods are bound or gone, nothing is bought for \
                        them; listing pods again"
                    );
                    self.relist(ObjectKind::Pod);
                    self.round_timer.pod_arrived(Instant::now());
                }
                if created + failed > 0 {
                    self.written(created, failed, Instant::now());
                }
            }
            Done::Collected => {
                self.garbage.ended();
                self.pool_counts.note_change();
            }
            Done::Canaries(done) => self.canaries_done(done),
            Done::Explained => self.explain_requests.ended(),
            Done::Disruption(decision) => {
                self.trim_due = true;
                self.disruption_decided(decision);
            }
            Done::Begun(id, buys) => self.begun(id, buys),
            Done::Nominated(pods) => {
                let now = Instant::now();
                pods.iter()
                    .for_each(|(pod, _)| self.rollout.nomination_written(pod, now));
            }
            Done::Registered(claim, ready) => {
                self.rollout.node_registered(&claim, ready, Instant::now());
            }
        }
    }

    /// NodeClaims of a round were created, and others could not be: those pods are planned again,
    /// later each time where nothing can be created.
    pub(super) fn written(&mut self, created: usize, failed: usize, now: Instant) {
        let outcome = if created > 0 { "bought" } else { "failed" };
        let rounds = &self.ctx.metrics.rounds;
        rounds.with_label_values(&[outcome]).inc();
        if let Some(plan) = &mut self.last_round.plan {
            plan.failed = Some(failed);
        }
        self.purchases.failed.note(created, failed, now);
    }

    /// A round has panicked. The next one does without improving; should that panic too, liveness
    /// says so in time.
    pub(super) fn round_panicked(&mut self) {
        self.planning = false;
        self.panics += 1;
    }
}

//! Has rounds decided, and questions answered between them.

use tokio::time::Instant;

use super::{Controller, Done};
use crate::act::catch_panics::guarded_now;
use crate::act::repair::Repairs;
use crate::config::NewPods;
use crate::decide;
use crate::decide::round;
use crate::decide::round::RoundConfig;
use crate::serve::explain_requests::Subject;
use crate::serve::http::Query;
use longshore_report::explained::NoExplanation;

impl Controller {
    pub(super) fn plan(&mut self, now: Instant) {
        self.round_timer.close();
        if !self.waits() {
            return;
        }
        self.planning = true;
        self.disruption.round_begins();
        self.round_timer.begin(now);
        self.rounds += 1;
        let (clock, number) = (self.ctx.clock.clone(), self.rounds);
        self.apply_config();
        self.ctx
            .pulse
            .due(now, round::time_limit(&self.config.policies.take()));
        self.config
            .journal
            .began(clock.now().as_millisecond(), number, self.state.revision);
        let input = self.round_input();
        let (careful, metrics) = (self.panics > 0, self.ctx.metrics.clone());
        let decide = move |how: &RoundConfig| {
            guarded_now(&metrics, "planning", || {
                round::decide(how, &clock, number, careful, input)
            })
        };
        if self.config.inline {
            match decide(&self.config) {
                Some(round) => self.apply_plan(round),
                None => self.round_panicked(),
            }
            return;
        }
        let (how, done) = (self.config.clone(), self.done.clone());
        self.config.compute(move || {
            let _ = done.blocking_send(match decide(&how) {
                Some(round) => Done::Round(Box::new(round)),
                None => Done::RoundPanicked,
            });
        });
    }

    pub(super) fn asked(&mut self, ask: Query) {
        match ask {
            Query::Explain(question) => self.explain_requests.ask(question, Instant::now()),
            Query::Metrics(reply) if self.was_leader => drop(reply.send(self.metrics_snapshot())),
            Query::Metrics(_) => {}
        }
    }

    /// Answers a query about a pod or a node between two rounds: it plans like a round and drops the plan. A
    /// round that becomes due meanwhile does not wait for it.
    pub(super) fn answer_query(&mut self, now: Instant) {
        let Some(question) = self.explain_requests.begin(now) else {
            return;
        };
        let input = match &question.about {
            Subject::Pod(_) => self.round_input(),
            Subject::Node(_) => self.look_input().0,
        };
        let how = self.config.clone();
        let live = how.policies.take().apart();
        let repairs_off = matches!(self.ctx.repairs, Repairs::Off);
        let metrics = self.ctx.metrics.clone();
        let answer = self.config.compute(move || {
            let explained = guarded_now(&metrics, "explaining", || match &question.about {
                Subject::Pod(pod) => round::explain(&how, &live, input, pod),
                Subject::Node(node) => {
                    decide::disruption::explain(&how, &live, input, (node, repairs_off))
                }
            });
            let defect = || {
                let why = "explaining has panicked: a defect of Longshore, please report it";
                Err(NoExplanation::Defect(why.to_owned()))
            };
            let _ = question.reply.send(explained.unwrap_or_else(defect));
            drop(question.turn);
        });
        let done = self.done.clone();
        tokio::spawn(async move {
            // Whatever became of it.
            let _ = answer.await;
            let _ = done.send(Done::Explained).await;
        });
    }

    /// The part of the configuration that the fold uses. To be called between two rounds.
    pub(super) fn apply_config(&mut self) {
        self.state.pods.plans_unattempted = self
            .config
            .policies
            .take()
            .planning()
            .new_pods
            .unwrap_or_default()
            == NewPods::Immediate;
    }
}

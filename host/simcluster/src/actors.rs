//! The other actors of a cluster: kubelets, kube-scheduler, controllers, the cloud's controllers.
//!
//! One task runs them all: it folds the changes in order, and then does the one thing that is due
//! next. So every actor sees the current cluster and none has to remember its own requests. Nothing
//! depends on how tasks are scheduled. Actors call the server directly; faults between the server
//! and the daemon do not affect them. While nothing changes nothing is due: there are no
//! heartbeats.
//!
//! Absent on purpose: anything that the daemon decides, preemption, default ServiceAccounts,
//! endpoints, autoscaling.

mod context;
mod controllers;
pub mod kubelet;
mod node_lifecycle;
mod pods_by_labels;
pub mod scheduler;
mod selector;
mod timing;
mod view;
mod work;

use std::time::Duration;

use serde_json::Value;

use crate::clock::Clock;
use crate::cloud::{Cloud, CloudEvent};
use crate::log::Log;
use crate::object::Change;
use crate::server::{Server, resources};
use context::ActorContext;
use controllers::daemons::Daemons;
use controllers::{garbage, volumes};
pub use timing::Timing;
use work::Work;

pub struct Actors {
    context: ActorContext,
    seen: u64,
    kubelet: kubelet::Kubelet,
    scheduler: scheduler::Scheduler,
    nodes: node_lifecycle::NodeLifecycle,
    daemons: Daemons,
    cloud: Cloud,
}

impl Actors {
    /// Actors of a cluster that has not begun.
    pub fn new(
        server: Server,
        clock: Clock,
        seed: u64,
        timing: Timing,
        cloud: Cloud,
        log: Log,
    ) -> Self {
        Actors {
            context: ActorContext::new(server, clock, seed, timing, log),
            seen: 0,
            kubelet: kubelet::Kubelet::default(),
            scheduler: scheduler::Scheduler::default(),
            nodes: node_lifecycle::NodeLifecycle::default(),
            daemons: Daemons::default(),
            cloud,
        }
    }

    /// Acts for ever.
    pub async fn run(mut self) {
        loop {
            self.take_in();
            let now = self.context.clock.elapsed();
            if self.cloud.next().is_some_and(|due| due <= now) {
                self.cloud.step(now);
            } else if let Some(work) = self.context.event_queue.take(now) {
                self.act(work);
            } else {
                self.wait(now).await;
            }
        }
    }

    /// Sleeps until something is due or has changed.
    async fn wait(&self, now: Duration) {
        let due = [self.context.event_queue.next(), self.cloud.next()]
            .into_iter()
            .flatten()
            .min();
        // Timers count in milliseconds; without work a year passes quickly.
        let pause = due.map_or(Duration::from_secs(365 * 86_400), |due| {
            due.saturating_sub(now)
        });
        tokio::select! {
            biased;
            () = self.context.server.changed(self.seen) => {}
            () = self.cloud.asked() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }

    fn take_in(&mut self) {
        let events = self.cloud.events();
        // Before the Node of the machine comes, which may have the name of one that is gone.
        for happening in &events {
            if let CloudEvent::Began { node } = happening {
                self.kubelet.began(node);
                self.nodes.began(node);
            }
        }
        for change in self.context.server.changes(self.seen) {
            self.seen = change.revision;
            let before = self.context.view.apply(&change);
            self.on_change(&change, before.as_deref());
        }
        for happening in events {
            match happening {
                CloudEvent::Began { .. } => {}
                CloudEvent::Ended { node } => {
                    self.kubelet.ended(&mut self.context, &node);
                    self.nodes.ended(&mut self.context, &node);
                }
            }
        }
    }

    fn on_change(&mut self, change: &Change, before: Option<&Value>) {
        let ctx = &mut self.context;
        self.kubelet.on_change(ctx, change, before);
        self.scheduler.on_change(ctx, change, before);
        self.nodes.on_change(ctx, change, before);
        garbage::on_change(ctx, change, before);
        controllers::wake(ctx, change, before);
    }

    fn act(&mut self, work: Work) {
        let ctx = &mut self.context;
        match work {
            Work::Reconcile(key) if key.resource == resources::DAEMON_SET => {
                self.daemons.reconcile(ctx, &key)
            }
            Work::Reconcile(key) => controllers::reconcile(ctx, &key),
            Work::Collect(key) => garbage::collect(ctx, &key),
            Work::Detach(key) => volumes::detach(ctx, &key),
            Work::Kubelet(step) => self.kubelet.act(ctx, step),
            Work::Schedule => self.scheduler.act(ctx),
            Work::Node(step) => self.nodes.act(ctx, step),
        }
    }
}

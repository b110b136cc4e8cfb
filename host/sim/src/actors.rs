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

pub mod budget;
pub mod daemons;
pub mod deployment;
pub mod garbage;
pub mod job;
pub mod kubelet;
pub mod node_lifecycle;
pub mod pods_by_labels;
pub mod replicas;
pub mod scheduler;
pub mod selector;
pub mod stateful;
pub mod template;
pub mod view;
pub mod volumes;

use std::time::Duration;

use serde_json::Value;

use crate::clock::Clock;
use crate::cloud::{Cloud, CloudEvent};
use crate::event_queue::EventQueue;
use crate::fields;
use crate::keyed_rng::{self, KeyedRng};
use crate::log::Log;
use crate::object::{Change, Event, Key, Resource};
use crate::server::{DeleteOptions, Server, Subresource, resources};
use view::View;

/// How long things take. Zero is allowed everywhere.
#[derive(Clone, Debug)]
pub struct Timing {
    /// From a change to the controllers' answer.
    pub controllers: Duration,
    /// One pod through kube-scheduler.
    pub binding: Duration,
    /// From binding to Ready, unless the pod's annotation [`kubelet::START_AFTER`] says otherwise.
    pub pod_start: Duration,
    /// From SIGTERM to the end of a pod that listens, unless [`kubelet::STOP_AFTER`] says
    /// otherwise.
    pub pod_stop: Duration,
    /// How long pods run that end by themselves, unless [`kubelet::RUNS_FOR`] says otherwise.
    pub job: Duration,
    /// From a Node object to its being Ready, unless its annotation [`crate::cloud::READY_AFTER`] says
    /// otherwise.
    pub node_ready: Duration,
    /// From the last word of a kubelet until its node is taken for unreachable
    /// (`--node-monitor-grace-period`).
    pub node_silence: Duration,
    /// From a node's end until the cloud's controller removes its Node object; nothing where there
    /// is none.
    pub node_removal: Option<Duration>,
    /// How long pods of a node that does not exist are left alone (the pod-GC's quarantine and half
    /// its period).
    pub pod_collection: Duration,
    /// Longest delay of node changes on the way to kube-scheduler, in order.
    pub scheduler_lag: Duration,
    /// From the end of a volume's last pod on a node until it is detached.
    pub detach: Duration,
    /// Share by which starts, stops and boots differ from one to the next.
    pub spread: f64,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            controllers: Duration::from_millis(50),
            binding: Duration::from_millis(5),
            pod_start: Duration::from_secs(3),
            pod_stop: Duration::from_secs(2),
            job: Duration::from_secs(60),
            node_ready: Duration::from_secs(10),
            node_silence: Duration::from_secs(50),
            node_removal: Some(Duration::from_secs(60)),
            pod_collection: Duration::from_secs(50),
            scheduler_lag: Duration::ZERO,
            detach: Duration::ZERO,
            spread: 0.25,
        }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Work {
    /// A controller looks at an object of its kind.
    Reconcile(Key),
    /// The garbage collector looks at an object.
    Collect(Key),
    /// A volume comes off a node, by its attachment.
    Detach(Key),
    /// Runs due actions of a kubelet.
    Kubelet(kubelet::Step),
    /// kube-scheduler looks at its queue.
    Schedule,
    /// A node is looked after: taints, evictions, pods without a node.
    Node(node_lifecycle::Step),
}

/// What actors have in common.
pub struct ActorContext {
    /// The API server.
    pub server: Server,
    /// The time.
    pub clock: Clock,
    pub chance: KeyedRng,
    /// How long things take.
    pub timing: Timing,
    /// The cluster, up to the last change.
    pub view: View,
    /// What is due.
    pub event_queue: EventQueue<Work>,
    pub log: Log,
    /// Pods made so far, for their names.
    made: u64,
    hashes: template::Hashes,
}

impl ActorContext {
    /// Asks for something as soon as a controller would get to it.
    pub fn soon(&mut self, work: Work) {
        self.event_queue
            .once(self.clock.elapsed() + self.timing.controllers, work);
    }

    /// Asks for something after a while.
    pub fn after(&mut self, wait: Duration, work: Work) {
        self.event_queue.at(self.clock.elapsed() + wait, work);
    }

    /// Enqueues an object for its controller.
    pub fn reconcile(&mut self, key: Key) {
        self.soon(Work::Reconcile(key));
    }

    /// The time of day as objects have it.
    pub fn stamp(&self) -> String {
        fields::stamp(self.clock.now())
    }

    /// A name that begins with `base`, as controllers give to their pods.
    pub fn name(&mut self, base: &str) -> String {
        self.made += 1;
        format!(
            "{base}{}",
            keyed_rng::suffix(self.chance.draw(base, &self.made.to_string()))
        )
    }

    /// Makes an object. A refusal is logged: controllers try again when something changes.
    pub fn create(&mut self, resource: Resource, object: Value) -> bool {
        let what = format!("{} {}", resource.kind, fields::name(&object));
        match self.server.create(resource, object) {
            Ok(_) => true,
            Err(refusal) => {
                self.log.say(
                    self.clock,
                    format!("{what} could not be made: {}", refusal.message),
                );
                false
            }
        }
    }

    /// Changes an object; one that is gone is left alone.
    pub fn update(&mut self, key: &Key, sub: Subresource, mut change: impl FnMut(&mut Value)) {
        if let Err(refusal) = self.server.update(key, sub, &mut change)
            && refusal.code != 404
        {
            let what = format!("{} {}", key.resource.kind, key.name);
            self.log.say(
                self.clock,
                format!("{what} could not be changed: {}", refusal.message),
            );
        }
    }

    /// Sets fields of an object's status, where they differ.
    pub fn set_status(&mut self, key: &Key, fields: &[(&str, Value)]) {
        let Some(object) = self.view.get(key) else {
            return;
        };
        if fields
            .iter()
            .all(|(field, value)| object["status"].get(field).unwrap_or(&Value::Null) == value)
        {
            return;
        }
        self.update(key, Subresource::Status, |object| {
            let status = fields::map_at(object, "status");
            for (field, value) in fields {
                match value {
                    Value::Null => drop(status.as_object_mut().and_then(|s| s.remove(*field))),
                    value => status[*field] = value.clone(),
                }
            }
        });
    }

    /// Deletes an object, with its grace period.
    pub fn delete(&mut self, key: &Key) {
        self.delete_with(key, DeleteOptions::default());
    }

    /// Deletes an object at once.
    pub fn force(&mut self, key: &Key) {
        self.delete_with(
            key,
            DeleteOptions {
                grace: Some(0),
                ..DeleteOptions::default()
            },
        );
    }

    fn delete_with(&mut self, key: &Key, options: DeleteOptions) {
        if let Err(refusal) = self.server.delete(key, &options)
            && refusal.code != 404
        {
            let what = format!("{} {}", key.resource.kind, key.name);
            self.log.say(
                self.clock,
                format!("{what} could not be deleted: {}", refusal.message),
            );
        }
    }
}

pub struct Actors {
    context: ActorContext,
    seen: u64,
    kubelet: kubelet::Kubelet,
    scheduler: scheduler::Scheduler,
    nodes: node_lifecycle::NodeLifecycle,
    daemons: daemons::Daemons,
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
        let ctx = ActorContext {
            server,
            clock,
            chance: KeyedRng(seed),
            timing,
            view: View::default(),
            event_queue: EventQueue::default(),
            log,
            made: 0,
            hashes: template::Hashes::default(),
        };
        Actors {
            context: ctx,
            seen: 0,
            kubelet: kubelet::Kubelet::default(),
            scheduler: scheduler::Scheduler::default(),
            nodes: node_lifecycle::NodeLifecycle::default(),
            daemons: daemons::Daemons::default(),
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
        wake_controllers(ctx, change, before);
    }

    fn act(&mut self, work: Work) {
        let ctx = &mut self.context;
        match work {
            Work::Reconcile(key) if key.resource == resources::DAEMON_SET => {
                self.daemons.reconcile(ctx, &key)
            }
            Work::Reconcile(key) => reconcile(ctx, &key),
            Work::Collect(key) => garbage::collect(ctx, &key),
            Work::Detach(key) => volumes::detach(ctx, &key),
            Work::Kubelet(step) => self.kubelet.act(ctx, step),
            Work::Schedule => self.scheduler.act(ctx),
            Work::Node(step) => self.nodes.act(ctx, step),
        }
    }
}

/// The actors that a change concerns: the object's controller, its owner's, and for pods and nodes
/// those that count them.
fn wake_controllers(ctx: &mut ActorContext, change: &Change, before: Option<&Value>) {
    let object = &change.object;
    if has_controller(change.key.resource) {
        ctx.reconcile(change.key.clone());
    }
    fn state(pod: &Value) -> (bool, bool, &str) {
        (
            fields::ready(pod),
            fields::deleting(pod),
            fields::text(pod, "/status/phase"),
        )
    }
    let unmoved = change.key.resource == resources::POD
        && change.event == Event::Modified
        && before.map(state) == Some(state(object));
    if !unmoved
        && let Some(owner) = fields::controller(object)
        && let Some(key) = ctx.view.by_uid(fields::text(owner, "/uid"))
        && has_controller(key.resource)
    {
        ctx.reconcile(key.clone());
    }
    if change.key.resource == resources::POD {
        deployment::wake(ctx, change);
        budget::wake(ctx, change, before);
        volumes::wake(ctx, change, before);
    }
    if change.key.resource == resources::NODE {
        daemons::wake(ctx, change, before);
    }
}

fn has_controller(resource: Resource) -> bool {
    [
        resources::DEPLOYMENT,
        resources::REPLICA_SET,
        resources::STATEFUL_SET,
        resources::DAEMON_SET,
        resources::JOB,
        resources::POD_DISRUPTION_BUDGET,
        resources::PERSISTENT_VOLUME_CLAIM,
    ]
    .contains(&resource)
}

fn reconcile(ctx: &mut ActorContext, key: &Key) {
    let Some(object) = ctx.view.get(key).cloned() else {
        return;
    };
    match key.resource {
        resources::DEPLOYMENT => deployment::reconcile(ctx, key, &object),
        resources::REPLICA_SET => replicas::reconcile(ctx, key, &object),
        resources::STATEFUL_SET => stateful::reconcile(ctx, key, &object),
        resources::JOB => job::reconcile(ctx, key, &object),
        resources::POD_DISRUPTION_BUDGET => budget::reconcile(ctx, key, &object),
        resources::PERSISTENT_VOLUME_CLAIM => volumes::reconcile(ctx, key, &object),
        _ => {}
    }
}

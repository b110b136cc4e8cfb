//! The kubelets of all nodes: nodes become ready, pods start, end by themselves, or are stopped.
//!
//! A kubelet writes only changes. It does not renew its Lease, and the cloud reports lost machines.
//! Nodes without an instance of the cloud never fail. Pods bound to a node that is not ready start
//! once it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::context::ActorContext;
use super::work::{KubeletStep, Work};
use crate::cloud::READY_AFTER;
use crate::fields;
use crate::object::{Change, Event, Key};
use crate::server::{Subresource, resources};

/// Annotation of pods: from binding to Ready, as `90s`; `never` for pods that do not get ready.
pub const START_AFTER: &str = "sim.longshore.dev/start-after";
/// Annotation of pods: from SIGTERM to their end; the grace period cuts it short.
pub const STOP_AFTER: &str = "sim.longshore.dev/stop-after";
/// Annotation of pods that ignore SIGTERM, `true`: their whole grace period passes.
pub const IGNORES_SIGTERM: &str = "sim.longshore.dev/ignores-sigterm";
/// Annotation of pods: how long they run until they end by themselves.
pub const RUNS_FOR: &str = "sim.longshore.dev/runs-for";
/// Annotation of pods that end by themselves, `true`: they fail.
pub const FAILS: &str = "sim.longshore.dev/fails";

#[derive(Default)]
pub struct Kubelet {
    /// Nodes without a machine.
    dead: BTreeSet<String>,
    /// Times at which pods began to stop, by UID.
    stopping_since: BTreeMap<String, Duration>,
}

impl Kubelet {
    pub fn on_change(&mut self, ctx: &mut ActorContext, change: &Change, before: Option<&Value>) {
        match change.key.resource {
            resources::NODE if change.event == Event::Added => self.node_came(ctx, change),
            resources::NODE if change.event == Event::Modified => {
                let ready = |n: &Value| fields::condition(n, "Ready") == "True";
                if ready(&change.object) && !before.is_some_and(ready) {
                    self.catch_up(ctx, &change.key.name);
                }
            }
            resources::POD if change.event == Event::Deleted => {
                self.stopping_since.remove(fields::uid(&change.object));
            }
            resources::POD => self.on_pod_change(ctx, change, before),
            _ => {}
        }
    }

    fn node_came(&mut self, ctx: &mut ActorContext, change: &Change) {
        let (node, name) = (&change.object, fields::name(&change.object));
        // Pods that were leaving a machine of the same name: this one runs none of them.
        for (key, pod) in ctx.view.pods_on(name) {
            if fields::deleting(&pod) {
                self.stop(ctx, &key, &pod);
            }
        }
        let usual = ctx
            .chance
            .around(ctx.timing.node_ready, ctx.timing.spread, "node-ready", name);
        if fields::condition(node, "Ready") != "True"
            && let Some(wait) = asked(node, READY_AFTER, usual)
        {
            ctx.after(
                wait,
                Work::Kubelet(KubeletStep::Ready(
                    change.key.clone(),
                    fields::uid(node).to_owned(),
                )),
            );
        }
    }

    /// Pods that were bound to a node before it was ready start now.
    fn catch_up(&self, ctx: &mut ActorContext, node: &str) {
        for (key, pod) in ctx.view.pods_on(node) {
            if fields::text(&pod, "/status/phase") == "Pending" && !fields::deleting(&pod) {
                self.start_later(ctx, &key, &pod);
            }
        }
    }

    fn start_later(&self, ctx: &mut ActorContext, key: &Key, pod: &Value) {
        let usual = ctx.chance.around(
            ctx.timing.pod_start,
            ctx.timing.spread,
            "pod-start",
            fields::name(pod),
        );
        if let Some(wait) = asked(pod, START_AFTER, usual) {
            ctx.after(
                wait,
                Work::Kubelet(KubeletStep::Start(key.clone(), fields::uid(pod).to_owned())),
            );
        }
    }

    fn on_pod_change(&mut self, ctx: &mut ActorContext, change: &Change, before: Option<&Value>) {
        let pod = &change.object;
        let node = fields::text(pod, "/spec/nodeName");
        if node.is_empty() || self.dead.contains(node) {
            return;
        }
        if fields::deleting(pod) {
            self.stop(ctx, &change.key, pod);
        } else if before.is_none_or(|b| fields::text(b, "/spec/nodeName").is_empty())
            && !fields::ended(pod)
        {
            self.start_later(ctx, &change.key, pod);
        }
    }

    /// Tells a pod to stop, or looks again how long it may take: a later deletion can shorten the
    /// grace period.
    fn stop(&mut self, ctx: &mut ActorContext, key: &Key, pod: &Value) {
        let now = ctx.clock.elapsed();
        let since = *self
            .stopping_since
            .entry(fields::uid(pod).to_owned())
            .or_insert(now);
        let usual = ctx.chance.around(
            ctx.timing.pod_stop,
            ctx.timing.spread,
            "pod-stop",
            fields::name(pod),
        );
        let grace = fields::time(pod, "/metadata/deletionTimestamp")
            .and_then(|end| Duration::try_from(end.duration_since(ctx.clock.now())).ok())
            .unwrap_or_default();
        let killed = now + grace;
        let stops = match asked(pod, STOP_AFTER, usual) {
            Some(wait) if fields::annotation(pod, IGNORES_SIGTERM) != Some("true") => {
                (since + wait).min(killed)
            }
            _ => killed,
        };
        let stops = if fields::text(pod, "/status/phase") == "Running" {
            stops.max(now)
        } else {
            now
        };
        ctx.event_queue.at(
            stops,
            Work::Kubelet(KubeletStep::Stop(key.clone(), fields::uid(pod).to_owned())),
        );
    }

    /// A machine has started that has the name of one that is gone.
    pub fn began(&mut self, node: &str) {
        self.dead.remove(node);
    }

    /// A machine is gone, and with it its kubelet.
    pub fn ended(&mut self, _: &mut ActorContext, node: &str) {
        self.dead.insert(node.to_owned());
    }

    /// Runs due actions.
    pub fn act(&mut self, ctx: &mut ActorContext, step: KubeletStep) {
        let (KubeletStep::Ready(key, uid)
        | KubeletStep::Start(key, uid)
        | KubeletStep::Finish(key, uid)
        | KubeletStep::Stop(key, uid)) = &step;
        let Some(object) = ctx.view.same(key, uid).cloned() else {
            return;
        };
        let node = match key.resource {
            resources::NODE => fields::name(&object),
            _ => fields::text(&object, "/spec/nodeName"),
        };
        if self.dead.contains(node) {
            return;
        }
        match &step {
            KubeletStep::Ready(..) => node_ready(ctx, key),
            KubeletStep::Start(..) if !fields::deleting(&object) && may_start(ctx, &object) => {
                start(ctx, key, &object)
            }
            KubeletStep::Finish(..) if !fields::deleting(&object) => finish(ctx, key, &object),
            // The grace period may have changed since: then another step is due later or was due
            // before.
            KubeletStep::Stop(..) => ctx.force(key),
            KubeletStep::Start(..) | KubeletStep::Finish(..) => {}
        }
    }
}

/// Whether a pod that is bound is also to be run now: once, on a node that is there and ready. A
/// pod on the host's network does not wait for it to be ready, as nothing else does for the
/// network.
fn may_start(ctx: &ActorContext, pod: &Value) -> bool {
    let Some(node) = ctx.view.node(fields::text(pod, "/spec/nodeName")) else {
        return false;
    };
    let host = pod["spec"]["hostNetwork"] == true;
    fields::text(pod, "/status/phase") == "Pending"
        && (host || fields::condition(node, "Ready") == "True")
}

/// The duration in an annotation, the usual one without it, nothing for `never`.
fn asked(object: &Value, annotation: &str, usual: Duration) -> Option<Duration> {
    match fields::annotation(object, annotation) {
        Some("never") => None,
        Some(text) => Some(fields::duration(text).unwrap_or(usual)),
        None => Some(usual),
    }
}

fn node_ready(ctx: &mut ActorContext, key: &Key) {
    let now = ctx.clock.now();
    ctx.update(key, Subresource::Status, |node| {
        fields::set_condition(
            node,
            "Ready",
            "True",
            "KubeletReady",
            "kubelet is posting ready status",
            now,
        );
        for pressure in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
            fields::set_condition(node, pressure, "False", "KubeletHasNoPressure", "", now);
        }
    });
    ctx.log.say(ctx.clock, format!("{} is ready", key.name));
}

fn start(ctx: &mut ActorContext, key: &Key, pod: &Value) {
    let now = ctx.clock.now();
    let stamp = fields::stamp(now);
    let containers: Vec<Value> = fields::items(pod, "/spec/containers")
        .iter()
        .map(|c| {
            json!({
                "name": c["name"], "image": c["image"].as_str().unwrap_or_default(), "imageID": "", "ready": true,
                "started": true, "restartCount": 0, "state": {"running": {"startedAt": stamp}},
            })
        })
        .collect();
    ctx.update(key, Subresource::Status, |pod| {
        let status = fields::map_at(pod, "status");
        status["phase"] = "Running".into();
        status["startTime"] = stamp.clone().into();
        status["containerStatuses"] = containers.clone().into();
        for condition in ["Initialized", "ContainersReady", "Ready"] {
            fields::set_condition(pod, condition, "True", "", "", now);
        }
    });
    let job = ctx
        .chance
        .around(ctx.timing.job, ctx.timing.spread, "job", fields::name(pod));
    let restarts = matches!(fields::text(pod, "/spec/restartPolicy"), "" | "Always");
    let ends = if restarts && fields::annotation(pod, RUNS_FOR).is_none() {
        None
    } else {
        asked(pod, RUNS_FOR, job)
    };
    if let Some(wait) = ends {
        ctx.after(
            wait,
            Work::Kubelet(KubeletStep::Finish(
                key.clone(),
                fields::uid(pod).to_owned(),
            )),
        );
    }
}

fn finish(ctx: &mut ActorContext, key: &Key, pod: &Value) {
    let fails = fields::annotation(pod, FAILS) == Some("true");
    let now = ctx.clock.now();
    ctx.update(key, Subresource::Status, |pod| {
        fields::map_at(pod, "status")["phase"] = if fails { "Failed" } else { "Succeeded" }.into();
        let reason = if fails { "PodFailed" } else { "PodCompleted" };
        for condition in ["ContainersReady", "Ready"] {
            fields::set_condition(pod, condition, "False", reason, "", now);
        }
        for status in fields::list_at(pod, "status", "containerStatuses") {
            status["ready"] = false.into();
            status["state"] = json!({"terminated": {"exitCode": u8::from(fails), "finishedAt": fields::stamp(now)}});
        }
    });
}

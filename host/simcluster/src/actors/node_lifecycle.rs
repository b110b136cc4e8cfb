//! Reactions to unhealthy nodes: taints, evictions, removal.
//!
//! In real clusters these are four controllers (node-lifecycle, taint-eviction, pod-GC and the
//! cloud's node controller). Here they share one table of evictions. As there, evictions by taint
//! and by pod-GC ignore PodDisruptionBudgets. Absent: rate limits of evictions, and their stop when
//! a whole zone fails.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::context::ActorContext;
use super::selector;
use super::work::{NodeStep, Work};
use crate::fields;
use crate::object::{Change, Event, Key};
use crate::server::{Subresource, resources};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// What pods tolerate of the two taints above that say nothing of them (admission's
/// DefaultTolerationSeconds).
const DEFAULT_TOLERATION: i64 = 300;

/// Nodes and the pods evicted from them.
#[derive(Default)]
pub struct NodeLifecycle {
    /// Nodes without a machine.
    gone: BTreeSet<String>,
    /// Pods, by UID, that leave at a time that is on the event queue.
    leaving: BTreeSet<String>,
}

impl NodeLifecycle {
    pub fn on_change(&mut self, ctx: &mut ActorContext, change: &Change, before: Option<&Value>) {
        match change.key.resource {
            resources::NODE => self.on_node_change(ctx, change, before),
            resources::POD => self.on_pod_change(ctx, change, before),
            _ => {}
        }
    }

    fn on_node_change(&mut self, ctx: &mut ActorContext, change: &Change, before: Option<&Value>) {
        let node = &change.object;
        if change.event == Event::Deleted {
            let wait = ctx.timing.pod_collection;
            return ctx.after(
                wait,
                Work::Node(NodeStep::Collect(fields::name(node).to_owned())),
            );
        }
        fn watched(node: &Value) -> (&str, &Value) {
            (fields::condition(node, "Ready"), &node["spec"])
        }
        if before.map(watched) != Some(watched(node)) {
            ctx.soon(Work::Node(NodeStep::Taint(change.key.clone())));
            ctx.soon(Work::Node(NodeStep::Evict(change.key.clone())));
        }
        // A machine may be gone before its Node object came.
        if before.is_none() && self.gone.contains(fields::name(node)) {
            self.expect_silence(ctx, &change.key, fields::uid(node));
        }
    }

    fn on_pod_change(&mut self, ctx: &mut ActorContext, change: &Change, before: Option<&Value>) {
        let pod = &change.object;
        let node = fields::text(pod, "/spec/nodeName");
        if change.event == Event::Deleted {
            self.leaving.remove(fields::uid(pod));
        } else if !node.is_empty()
            && before.is_none_or(|b| fields::text(b, "/spec/nodeName") != node)
        {
            match ctx.view.node(node) {
                None => {
                    let wait = ctx.timing.pod_collection;
                    ctx.after(wait, Work::Node(NodeStep::Collect(node.to_owned())));
                }
                Some(found) if evicting(found).next().is_some() => {
                    let key = fields::key_of(resources::NODE, found);
                    ctx.soon(Work::Node(NodeStep::Evict(key)));
                }
                Some(_) => {}
            }
        }
    }

    /// A machine has started that has the name of one that is gone.
    pub fn began(&mut self, node: &str) {
        self.gone.remove(node);
    }

    /// A machine is gone.
    pub fn ended(&mut self, ctx: &mut ActorContext, node: &str) {
        self.gone.insert(node.to_owned());
        let key = fields::key(resources::NODE, "", node);
        if let Some(uid) = ctx.view.get(&key).map(|n| fields::uid(n).to_owned()) {
            self.expect_silence(ctx, &key, &uid);
        }
    }

    fn expect_silence(&self, ctx: &mut ActorContext, key: &Key, uid: &str) {
        ctx.after(
            ctx.timing.node_silence,
            Work::Node(NodeStep::Silent(key.clone(), uid.to_owned())),
        );
        if let Some(wait) = ctx.timing.node_removal {
            ctx.after(
                wait,
                Work::Node(NodeStep::Remove(key.clone(), uid.to_owned())),
            );
        }
    }

    /// Runs due actions.
    pub fn act(&mut self, ctx: &mut ActorContext, step: NodeStep) {
        match step {
            NodeStep::Taint(key) => taint(ctx, &key),
            NodeStep::Silent(key, uid) => silent(ctx, &key, &uid),
            NodeStep::Remove(key, uid) => {
                if ctx
                    .view
                    .same(&key, &uid)
                    .is_some_and(|node| !fields::deleting(node))
                {
                    ctx.log.say(
                        ctx.clock,
                        format!("{}: its machine is gone, the Node is deleted", key.name),
                    );
                    ctx.delete(&key);
                }
            }
            NodeStep::Evict(key) => self.evict(ctx, &key),
            NodeStep::Leave(key, uid) => {
                self.leaving.remove(&uid);
                self.leave(ctx, &key, &uid);
            }
            NodeStep::Collect(node) => collect(ctx, &node),
        }
    }

    fn evict(&mut self, ctx: &mut ActorContext, key: &Key) {
        let Some(node) = ctx.view.get(key).cloned() else {
            return;
        };
        if evicting(&node).next().is_none() {
            return;
        }
        for (key, pod) in ctx.view.pods_on(&key.name) {
            match tolerated_for(&pod, &node) {
                None => {}
                Some(_) if fields::deleting(&pod) => {}
                Some(wait) if wait.is_zero() => self.leave(ctx, &key, fields::uid(&pod)),
                Some(wait) => {
                    let uid = fields::uid(&pod).to_owned();
                    if self.leaving.insert(uid.clone()) {
                        ctx.after(wait, Work::Node(NodeStep::Leave(key, uid)));
                    }
                }
            }
        }
    }

    /// A pod leaves if its node still has a taint that it does not tolerate for ever.
    fn leave(&mut self, ctx: &mut ActorContext, key: &Key, uid: &str) {
        let Some(pod) = ctx.view.same(key, uid).cloned() else {
            return;
        };
        let Some(node) = ctx.view.node(fields::text(&pod, "/spec/nodeName")).cloned() else {
            return;
        };
        if !fields::deleting(&pod) && tolerated_for(&pod, &node).is_some() {
            ctx.log.say(
                ctx.clock,
                format!(
                    "{} is evicted by a taint of {}",
                    key.name,
                    fields::name(&node)
                ),
            );
            ctx.delete(key);
        }
    }
}

fn evicting(node: &Value) -> impl Iterator<Item = &Value> {
    fields::items(node, "/spec/taints")
        .iter()
        .filter(|t| t["effect"] == "NoExecute")
}

/// How long the pod stays in view of the node's taints; nothing for as long as it likes.
fn tolerated_for(pod: &Value, node: &Value) -> Option<Duration> {
    let tolerations = fields::items(pod, "/spec/tolerations");
    let one = |taint: &Value| {
        let fitting: Vec<&Value> = tolerations
            .iter()
            .filter(|t| selector::tolerates(t, taint))
            .collect();
        if fitting.is_empty() {
            let known = taint["key"] == NOT_READY || taint["key"] == UNREACHABLE;
            return Some(if known { DEFAULT_TOLERATION } else { 0 });
        }
        fitting
            .iter()
            .filter_map(|t| t["tolerationSeconds"].as_i64())
            .min()
    };
    let least = evicting(node).filter_map(one).min()?;
    Some(Duration::from_secs(least.max(0).unsigned_abs()))
}

/// Taints that follow from conditions and from `spec.unschedulable`.
fn taint(ctx: &mut ActorContext, key: &Key) {
    let Some(node) = ctx.view.get(key).cloned() else {
        return;
    };
    let ready = fields::condition(&node, "Ready");
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    match ready {
        "True" => {}
        "Unknown" => wanted.extend([(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
        _ => wanted.extend([(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
    }
    if node["spec"]["unschedulable"] == true {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let ours =
        |t: &Value| [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&fields::text(t, "/key"));
    let is = |t: &Value, (key, effect): (&str, &str)| t["key"] == key && t["effect"] == effect;
    let has = fields::items(&node, "/spec/taints");
    let stays = |t: &Value| !ours(t) || wanted.iter().any(|w| is(t, *w));
    if has.iter().all(stays) && wanted.iter().all(|w| has.iter().any(|t| is(t, *w))) {
        return;
    }
    let stamp = ctx.stamp();
    ctx.update(key, Subresource::Object, |node| {
        let taints = fields::list_at(node, "spec", "taints");
        taints.retain(stays);
        for want in &wanted {
            if !taints.iter().any(|t| is(t, *want)) {
                let mut taint = json!({"key": want.0, "effect": want.1});
                if want.1 == "NoExecute" {
                    taint["timeAdded"] = stamp.clone().into();
                }
                taints.push(taint);
            }
        }
    });
}

/// A node has not been heard of: its state is unknown, and its pods are not ready.
fn silent(ctx: &mut ActorContext, key: &Key, uid: &str) {
    if ctx
        .view
        .same(key, uid)
        .is_none_or(|node| fields::condition(node, "Ready") == "Unknown")
    {
        return;
    }
    let now = ctx.clock.now();
    ctx.log
        .say(ctx.clock, format!("{} is unreachable", key.name));
    ctx.update(key, Subresource::Status, |node| {
        fields::set_condition(
            node,
            "Ready",
            "Unknown",
            "NodeStatusUnknown",
            "kubelet stopped posting status",
            now,
        );
    });
    for (key, pod) in ctx.view.pods_on(&key.name) {
        if fields::ready(&pod) {
            ctx.update(&key, Subresource::Status, |pod| {
                fields::set_condition(pod, "Ready", "False", "NodeNotReady", "", now);
            });
        }
    }
}

/// Pods of a node that does not exist are removed for good.
fn collect(ctx: &mut ActorContext, node: &str) {
    if ctx.view.node(node).is_some() {
        return;
    }
    for (key, _) in ctx.view.pods_on(node) {
        ctx.log.say(
            ctx.clock,
            format!("{} is collected: {node} is gone", key.name),
        );
        ctx.force(&key);
    }
}

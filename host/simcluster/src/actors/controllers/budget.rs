//! PodDisruptionBudgets: the number of pods that may be evicted now.
//!
//! The server decrements `disruptionsAllowed` at every eviction and adds the pod to
//! `disruptedPods`. This controller counts anew, and removes pods that have ended, or that did not
//! end within two minutes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::actors::context::ActorContext;
use crate::actors::pods_by_labels::{self, Count};
use crate::actors::selector;
use crate::actors::work::Work;
use crate::fields;
use crate::object::{Change, Event, Key, Resource};
use crate::server::{Subresource, resources};

/// An eviction that has not come to anything after this is forgotten, in seconds.
const DISRUPTION_TIMEOUT: i64 = 120;

/// A pod has come, gone, or changed whether it is well: budgets that select it count again.
pub fn wake(ctx: &mut ActorContext, change: &Change, before: Option<&Value>) {
    let state = |p: &Value| (fields::ready(p), fields::deleting(p), fields::ended(p));
    let same = |b: &Value| {
        state(b) == state(&change.object)
            && b["metadata"]["labels"] == change.object["metadata"]["labels"]
    };
    if change.event == Event::Modified && before.is_some_and(same) {
        return;
    }
    let namespace = &change.key.namespace;
    let selected = |budget: &Value| {
        let selector = &budget["spec"]["selector"];
        selector::selects(selector, &change.object)
            || before.is_some_and(|b| selector::selects(selector, b))
    };
    let budgets: Vec<Key> = ctx
        .view
        .within(resources::POD_DISRUPTION_BUDGET, namespace)
        .filter(|(_, budget)| selected(budget))
        .map(|(key, _)| key)
        .collect();
    budgets.into_iter().for_each(|key| ctx.reconcile(key));
}

/// Counts.
pub fn reconcile(ctx: &mut ActorContext, key: &Key, budget: &Value) {
    if fields::deleting(budget) {
        return;
    }
    let chosen = &budget["spec"]["selector"];
    let disrupted = disrupted(ctx, key, budget);
    let pods: Vec<&Count> = ctx
        .view
        .pods_by_labels()
        .within(&key.namespace)
        .filter(|count| selector::selects_labels(chosen, Some(&count.labels)))
        .collect();
    let (expected, desired) = wanted(ctx, budget, &pods);
    // Those that have been evicted are as good as gone.
    let leaves = |name: &String| {
        let pod = ctx
            .view
            .get(&fields::key(resources::POD, &key.namespace, name));
        pod.is_some_and(|p| {
            pods_by_labels::healthy(p) && !fields::ended(p) && selector::selects(chosen, p)
        })
    };
    let evicted = disrupted.keys().filter(|name| leaves(name)).count();
    let healthy = pods.iter().map(|count| count.healthy).sum::<usize>() as i64 - evicted as i64;
    let allowed = if expected > 0 {
        (healthy - desired).max(0)
    } else {
        0
    };
    let status = [
        ("expectedPods", json!(expected)),
        ("desiredHealthy", json!(desired)),
        ("currentHealthy", json!(healthy)),
        ("disruptionsAllowed", json!(allowed)),
        (
            "disruptedPods",
            if disrupted.is_empty() {
                Value::Null
            } else {
                Value::Object(disrupted)
            },
        ),
        (
            "observedGeneration",
            budget["metadata"]["generation"].clone(),
        ),
    ];
    ctx.set_status(key, &status);
    let state = if allowed > 0 { "True" } else { "False" };
    if fields::condition(budget, "DisruptionAllowed") != state {
        let now = ctx.clock.now();
        let reason = if allowed > 0 {
            "SufficientPods"
        } else {
            "InsufficientPods"
        };
        ctx.update(key, Subresource::Status, |b| {
            fields::set_condition(b, "DisruptionAllowed", state, reason, "", now);
        });
    }
}

/// Pods expected, and how many of them must be well.
fn wanted(ctx: &ActorContext, budget: &Value, pods: &[&Count]) -> (i64, i64) {
    let spec = &budget["spec"];
    let set = |field: &str| spec.get(field).filter(|v| !v.is_null());
    let there = || pods.iter().map(|count| count.pods).sum::<usize>() as i64;
    if let Some(most) = set("maxUnavailable") {
        let expected = scale(ctx, pods);
        let away = fields::count_or_share(Some(most), expected, true).unwrap_or(0);
        return (expected, (expected - away).max(0));
    }
    match set("minAvailable") {
        Some(Value::Number(least)) => (there(), least.as_i64().unwrap_or(0)),
        Some(share) => {
            let expected = scale(ctx, pods);
            (
                expected,
                fields::count_or_share(Some(share), expected, true).unwrap_or(expected),
            )
        }
        None => (there(), 1),
    }
}

/// How many pods the controllers of these pods are meant to have; a pod without one counts for
/// itself.
fn scale(ctx: &ActorContext, pods: &[&Count]) -> i64 {
    let mut scales: BTreeMap<&str, i64> = BTreeMap::new();
    let mut alone = 0;
    for (controller, pods) in pods.iter().flat_map(|count| &count.controllers) {
        match replicas(ctx, controller) {
            Some((uid, replicas)) => drop(scales.insert(uid, replicas)),
            None => alone += *pods as i64,
        }
    }
    scales.values().sum::<i64>() + alone
}

/// The UID and number of replicas of what scales a pod. A ReplicaSet of a Deployment counts as the
/// Deployment does: during a roll-out it is only a part.
fn replicas<'a>(ctx: &'a ActorContext, uid: &str) -> Option<(&'a str, i64)> {
    const SCALED: [Resource; 3] = [
        resources::REPLICA_SET,
        resources::STATEFUL_SET,
        resources::REPLICATION_CONTROLLER,
    ];
    let key = ctx
        .view
        .by_uid(uid)
        .filter(|key| SCALED.contains(&key.resource))?;
    let set = ctx.view.get(key)?;
    let above = fields::controller(set).and_then(|o| ctx.view.by_uid(fields::text(o, "/uid")));
    let scaled = above.and_then(|key| ctx.view.get(key)).unwrap_or(set);
    Some((
        fields::uid(scaled),
        fields::number(scaled, "/spec/replicas").unwrap_or(1),
    ))
}

/// Evictions that have not become deletions yet.
fn disrupted(ctx: &mut ActorContext, key: &Key, budget: &Value) -> Map<String, Value> {
    let now = ctx.clock.now();
    let mut left = Map::new();
    for (name, at) in budget["status"]["disruptedPods"]
        .as_object()
        .into_iter()
        .flatten()
    {
        let pod = ctx
            .view
            .get(&fields::key(resources::POD, &key.namespace, name));
        let waits = pod.is_some_and(|p| !fields::deleting(p));
        let age = at
            .as_str()
            .and_then(|t| t.parse().ok())
            .map_or(i64::MAX, |t| now.duration_since(t).as_secs());
        if waits && age <= DISRUPTION_TIMEOUT {
            left.insert(name.clone(), at.clone());
            let due = ctx.clock.elapsed()
                + std::time::Duration::from_secs((DISRUPTION_TIMEOUT - age + 1).unsigned_abs());
            ctx.event_queue.once(due, Work::Reconcile(key.clone()));
        }
    }
    left
}

//! PodDisruptionBudgets: how many pods may be evicted now.
//!
//! The server takes one off `disruptionsAllowed` for every eviction and notes the pod in `disruptedPods`; here the
//! numbers are counted anew and pods that went, or did not go within two minutes, are taken off the note.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Desk, Work, fields, selector};
use crate::object::{Change, Event, Key, Resource};
use crate::server::{Sub, resources};

/// An eviction that has not come to anything after this is forgotten, in seconds.
const DISRUPTION_TIMEOUT: i64 = 120;

/// A pod has come, gone, or changed whether it is well: budgets that select it count again.
pub fn wake(desk: &mut Desk, change: &Change, before: Option<&Value>) {
    let well = |p: &Value| (fields::ready(p), fields::deleting(p), fields::ended(p), p["metadata"]["labels"].clone());
    if change.event == Event::Modified && before.map(well) == Some(well(&change.object)) {
        return;
    }
    let namespace = &change.key.namespace;
    let selected = |budget: &Value| {
        let selector = &budget["spec"]["selector"];
        selector::selects(selector, &change.object) || before.is_some_and(|b| selector::selects(selector, b))
    };
    let budgets: Vec<Key> = desk
        .view
        .within(resources::POD_DISRUPTION_BUDGET, namespace)
        .filter(|(_, budget)| selected(budget))
        .map(|(key, _)| key)
        .collect();
    budgets.into_iter().for_each(|key| desk.reconcile(key));
}

/// Counts.
pub fn reconcile(desk: &mut Desk, key: &Key, budget: &Value) {
    if fields::deleting(budget) {
        return;
    }
    let chosen = &budget["spec"]["selector"];
    let pods: Vec<Arc<Value>> = desk
        .view
        .within(resources::POD, &key.namespace)
        .filter(|(_, pod)| selector::selects(chosen, pod) && !fields::ended(pod))
        .map(|(_, pod)| pod.clone())
        .collect();
    let (expected, desired) = wanted(desk, budget, &pods);
    let disrupted = disrupted(desk, key, budget);
    let well = |p: &&Arc<Value>| fields::ready(p) && !fields::deleting(p) && !disrupted.contains_key(fields::name(p));
    let healthy = pods.iter().filter(well).count() as i64;
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let status = [
        ("expectedPods", json!(expected)),
        ("desiredHealthy", json!(desired)),
        ("currentHealthy", json!(healthy)),
        ("disruptionsAllowed", json!(allowed)),
        ("disruptedPods", if disrupted.is_empty() { Value::Null } else { Value::Object(disrupted) }),
        ("observedGeneration", budget["metadata"]["generation"].clone()),
    ];
    desk.set_status(key, &status);
    let state = if allowed > 0 { "True" } else { "False" };
    if fields::condition(budget, "DisruptionAllowed") != state {
        let now = desk.clock.now();
        let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
        desk.update(key, Sub::Status, |b| {
            fields::set_condition(b, "DisruptionAllowed", state, reason, "", now);
        });
    }
}

/// Pods expected, and how many of them must be well.
fn wanted(desk: &Desk, budget: &Value, pods: &[Arc<Value>]) -> (i64, i64) {
    let spec = &budget["spec"];
    let set = |field: &str| spec.get(field).filter(|v| !v.is_null());
    if let Some(most) = set("maxUnavailable") {
        let expected = scale(desk, pods);
        let away = fields::count_or_share(Some(most), expected, true).unwrap_or(0);
        return (expected, (expected - away).max(0));
    }
    match set("minAvailable") {
        Some(Value::Number(least)) => (pods.len() as i64, least.as_i64().unwrap_or(0)),
        Some(share) => {
            let expected = scale(desk, pods);
            (expected, fields::count_or_share(Some(share), expected, true).unwrap_or(expected))
        }
        None => (pods.len() as i64, 1),
    }
}

/// How many pods the controllers of these pods are meant to have; a pod without one counts for itself.
fn scale(desk: &Desk, pods: &[Arc<Value>]) -> i64 {
    let mut scales: BTreeMap<String, i64> = BTreeMap::new();
    for pod in pods {
        let owner = fields::controller(pod).map_or("", |o| fields::text(o, "/uid"));
        let (uid, replicas) = replicas(desk, owner).unwrap_or_else(|| (fields::uid(pod).to_owned(), 1));
        scales.insert(uid, replicas);
    }
    scales.values().sum()
}

/// The UID and number of replicas of what scales a pod. A ReplicaSet of a Deployment counts as the Deployment does:
/// during a roll-out it is only a part.
fn replicas(desk: &Desk, uid: &str) -> Option<(String, i64)> {
    const SCALED: [Resource; 3] = [resources::REPLICA_SET, resources::STATEFUL_SET, resources::REPLICATION_CONTROLLER];
    let key = desk.view.by_uid(uid).filter(|key| SCALED.contains(&key.resource))?;
    let set = desk.view.get(key)?;
    let above = fields::controller(set).and_then(|o| desk.view.by_uid(fields::text(o, "/uid")));
    let scaled = above.and_then(|key| desk.view.get(key)).unwrap_or(set);
    Some((fields::uid(scaled).to_owned(), fields::number(scaled, "/spec/replicas").unwrap_or(1)))
}

/// Evictions that have not become deletions yet.
fn disrupted(desk: &mut Desk, key: &Key, budget: &Value) -> Map<String, Value> {
    let now = desk.clock.now();
    let mut left = Map::new();
    for (name, at) in budget["status"]["disruptedPods"].as_object().into_iter().flatten() {
        let pod = desk.view.get(&fields::key(resources::POD, &key.namespace, name));
        let waits = pod.is_some_and(|p| !fields::deleting(p));
        let age = at.as_str().and_then(|t| t.parse().ok()).map_or(i64::MAX, |t| now.duration_since(t).as_secs());
        if waits && age <= DISRUPTION_TIMEOUT {
            left.insert(name.clone(), at.clone());
            let due =
                desk.clock.elapsed() + std::time::Duration::from_secs((DISRUPTION_TIMEOUT - age + 1).unsigned_abs());
            desk.agenda.once(due, Work::Reconcile(key.clone()));
        }
    }
    left
}

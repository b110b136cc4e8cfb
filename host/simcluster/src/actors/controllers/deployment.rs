//! Deployments: one ReplicaSet per template, and roll-outs from the old one to the new one.
//!
//! A roll-out keeps `maxSurge` and `maxUnavailable`, and removes old pods that are not ready first.
//! Absent: proportional scaling during a roll-out, progress deadlines, roll-backs other than
//! writing the old template again.

use std::sync::Arc;

use serde_json::{Value, json};

use super::template;
use crate::actors::context::ActorContext;
use crate::fields;
use crate::object::{Change, Event, Key};
use crate::server::{Subresource, resources};

const HASH: &str = "pod-template-hash";

/// A ReplicaSet of a Deployment.
struct Set {
    key: Key,
    object: Arc<Value>,
    /// Pods it is to have.
    wants: i64,
    /// Pods that are ready.
    ready: i64,
    /// Pods that are there.
    there: i64,
}

/// A pod is gone: a Deployment with strategy Recreate may wait for it.
pub fn wake(ctx: &mut ActorContext, change: &Change) {
    if change.event != Event::Deleted {
        return;
    }
    let owner = |o: &Value| {
        ctx.view
            .by_uid(fields::text(fields::controller(o)?, "/uid"))
            .cloned()
    };
    let Some(set) = owner(&change.object).and_then(|key| ctx.view.get(&key).cloned()) else {
        return;
    };
    if let Some(key) = owner(&set).filter(|key| key.resource == resources::DEPLOYMENT) {
        ctx.reconcile(key);
    }
}

/// Moves replicas from old ReplicaSets to the current one.
pub fn reconcile(ctx: &mut ActorContext, key: &Key, deployment: &Value) {
    let hash = ctx.hashes.of(deployment);
    let mut sets = sets(ctx, deployment);
    let wanted = fields::number(deployment, "/spec/replicas")
        .unwrap_or(1)
        .max(0);
    if !fields::deleting(deployment) && deployment["spec"]["paused"] != true {
        let Some(at) = sets
            .iter()
            .position(|s| fields::label(&s.object, HASH) == Some(&hash))
        else {
            let first = if sets.is_empty() { wanted } else { 0 };
            return create(ctx, deployment, &hash, first);
        };
        let current = sets.remove(at);
        roll(ctx, deployment, wanted, &current, &sets);
        forget(ctx, deployment, &sets);
        sets.push(current);
    }
    status(ctx, key, deployment, wanted, &hash, &sets);
}

fn sets(ctx: &ActorContext, deployment: &Value) -> Vec<Set> {
    let mut sets: Vec<Set> = ctx
        .view
        .controlled(resources::REPLICA_SET, fields::uid(deployment))
        .into_iter()
        .map(|(key, object)| {
            let status = |field: &str| object["status"][field].as_i64().unwrap_or(0);
            let (ready, there) = (status("readyReplicas"), status("replicas"));
            Set {
                wants: fields::number(&object, "/spec/replicas").unwrap_or(1),
                ready,
                there,
                key,
                object,
            }
        })
        .collect();
    // Creation times are whole seconds; names break ties.
    sets.sort_by_cached_key(|s| {
        (
            fields::text(&s.object, "/metadata/creationTimestamp").to_owned(),
            s.key.name.clone(),
        )
    });
    sets
}

fn create(ctx: &mut ActorContext, deployment: &Value, hash: &str, replicas: i64) {
    let mut pods = deployment["spec"]["template"].clone();
    template::label(&mut pods, HASH, hash);
    let mut selector = deployment["spec"]["selector"].clone();
    fields::map_at(&mut selector, "matchLabels")[HASH] = hash.into();
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", fields::name(deployment)),
            "namespace": deployment["metadata"]["namespace"],
            "labels": pods["metadata"]["labels"],
            "ownerReferences": [fields::controlled_by(resources::DEPLOYMENT, deployment)],
        },
        "spec": {"replicas": replicas, "selector": selector, "template": pods},
    });
    ctx.create(resources::REPLICA_SET, set);
}

fn roll(ctx: &mut ActorContext, deployment: &Value, wanted: i64, current: &Set, old: &[Set]) {
    let before: i64 = old.iter().map(|s| s.wants).sum();
    if fields::text(deployment, "/spec/strategy/type") == "Recreate" {
        old.iter()
            .filter(|s| s.wants > 0)
            .for_each(|s| scale(ctx, &s.key, 0));
        // Terminating pods count, on purpose.
        let pods = |s: &Set| ctx.view.controlled(resources::POD, fields::uid(&s.object));
        let left = old
            .iter()
            .flat_map(pods)
            .any(|(_, pod)| !fields::ended(&pod));
        if before == 0 && !left && current.wants != wanted {
            scale(ctx, &current.key, wanted);
        }
        return;
    }
    let (surge, unavailable) = limits(deployment, wanted);
    if before == 0 || current.wants > wanted {
        if current.wants != wanted {
            scale(ctx, &current.key, wanted);
        }
    } else {
        let most = wanted.min(wanted + surge - before).max(current.wants);
        if most != current.wants {
            scale(ctx, &current.key, most);
        }
    }
    // Old pods that are not ready may all go. Ready ones may go as long as enough remain.
    let total = before + current.wants;
    let mut spare = total - (wanted - unavailable) - (current.wants - current.ready).max(0);
    let mut ready_spare =
        current.ready + old.iter().map(|s| s.ready).sum::<i64>() - (wanted - unavailable);
    for set in old.iter().filter(|s| s.wants > 0) {
        let lame = (set.wants - set.ready).clamp(0, spare.max(0));
        let well = ready_spare.min(spare - lame).clamp(0, set.wants - lame);
        if lame + well > 0 {
            scale(ctx, &set.key, set.wants - lame - well);
            spare -= lame + well;
            ready_spare -= well;
        }
    }
}

/// Pods above and below the wanted number that a roll-out may have: never both zero.
fn limits(deployment: &Value, wanted: i64) -> (i64, i64) {
    let rolling = &deployment["spec"]["strategy"]["rollingUpdate"];
    let share = json!("25%");
    let value = |field: &str, up| {
        fields::count_or_share(
            Some(
                rolling
                    .get(field)
                    .filter(|v| !v.is_null())
                    .unwrap_or(&share),
            ),
            wanted,
            up,
        )
    };
    let surge = value("maxSurge", true).unwrap_or(1).max(0);
    let unavailable = value("maxUnavailable", false).unwrap_or(0).clamp(0, wanted);
    if surge == 0 && unavailable == 0 {
        (0, 1)
    } else {
        (surge, unavailable)
    }
}

fn scale(ctx: &mut ActorContext, key: &Key, replicas: i64) {
    ctx.update(key, Subresource::Object, |set| {
        fields::map_at(set, "spec")["replicas"] = replicas.into()
    });
}

/// Old ReplicaSets without pods beyond `revisionHistoryLimit` go, the oldest first.
fn forget(ctx: &mut ActorContext, deployment: &Value, old: &[Set]) {
    let keep = fields::number(deployment, "/spec/revisionHistoryLimit")
        .unwrap_or(10)
        .max(0) as usize;
    let empty: Vec<&Set> = old
        .iter()
        .filter(|s| s.wants == 0 && s.there == 0 && !fields::deleting(&s.object))
        .collect();
    for set in empty.iter().take(empty.len().saturating_sub(keep)) {
        ctx.delete(&set.key);
    }
}

fn status(
    ctx: &mut ActorContext,
    key: &Key,
    deployment: &Value,
    wanted: i64,
    hash: &str,
    sets: &[Set],
) {
    let (there, ready) = (
        sets.iter().map(|s| s.there).sum::<i64>(),
        sets.iter().map(|s| s.ready).sum::<i64>(),
    );
    let updated: i64 = sets
        .iter()
        .filter(|s| fields::label(&s.object, HASH) == Some(hash))
        .map(|s| s.there)
        .sum();
    let count = |n: i64| if n == 0 { Value::Null } else { json!(n) };
    ctx.set_status(
        key,
        &[
            ("replicas", count(there)),
            ("updatedReplicas", count(updated)),
            ("readyReplicas", count(ready)),
            ("availableReplicas", count(ready)),
            ("unavailableReplicas", count((wanted - ready).max(0))),
            (
                "observedGeneration",
                deployment["metadata"]["generation"].clone(),
            ),
        ],
    );
    let enough = ready >= wanted - limits(deployment, wanted).1;
    let available = if enough { "True" } else { "False" };
    if ctx
        .view
        .get(key)
        .is_some_and(|d| fields::condition(d, "Available") != available)
    {
        let now = ctx.clock.now();
        let reason = if enough {
            "MinimumReplicasAvailable"
        } else {
            "MinimumReplicasUnavailable"
        };
        ctx.update(key, Subresource::Status, |d| {
            fields::set_condition(d, "Available", available, reason, "", now);
        });
    }
}

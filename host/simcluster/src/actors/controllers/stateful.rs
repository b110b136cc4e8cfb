//! StatefulSets: pods with ordered names, each with its own volumes.
//!
//! Absent: partitions and `OnDelete`, retention policies of claims.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::template;
use crate::actors::context::ActorContext;
use crate::fields;
use crate::object::Key;
use crate::server::resources;

const REVISION: &str = "controller-revision-hash";

/// Makes pods from the lowest ordinal up and deletes them from the highest down, one after another
/// unless `podManagementPolicy: Parallel`.
pub fn reconcile(ctx: &mut ActorContext, key: &Key, set: &Value) {
    let hash = ctx.hashes.of(set);
    let mut pods: BTreeMap<i64, (Key, Arc<Value>)> = BTreeMap::new();
    for (pod_key, pod) in ctx.view.controlled(resources::POD, fields::uid(set)) {
        let rest = pod_key
            .name
            .strip_prefix(&*key.name)
            .and_then(|r| r.strip_prefix('-'));
        let ordinal = rest.and_then(|r| r.parse().ok());
        if let Some(ordinal) = ordinal {
            pods.insert(ordinal, (pod_key, pod));
        }
    }
    let wanted = fields::number(set, "/spec/replicas").unwrap_or(1).max(0);
    if !fields::deleting(set) {
        step(ctx, set, &hash, wanted, &pods);
    }
    let live = || {
        pods.values()
            .filter(|(_, p)| !fields::deleting(p) && !fields::ended(p))
    };
    let ready = live().filter(|(_, p)| fields::ready(p)).count();
    let updated = live()
        .filter(|(_, p)| fields::label(p, REVISION) == Some(&hash))
        .count();
    ctx.set_status(
        key,
        &[
            ("replicas", json!(live().count())),
            ("readyReplicas", json!(ready)),
            ("availableReplicas", json!(ready)),
            ("currentReplicas", json!(updated)),
            ("updatedReplicas", json!(updated)),
            ("observedGeneration", set["metadata"]["generation"].clone()),
        ],
    );
}

fn step(
    ctx: &mut ActorContext,
    set: &Value,
    hash: &str,
    wanted: i64,
    pods: &BTreeMap<i64, (Key, Arc<Value>)>,
) {
    let parallel = fields::text(set, "/spec/podManagementPolicy") == "Parallel";
    for ordinal in 0..wanted {
        match pods.get(&ordinal) {
            None => create(ctx, set, hash, ordinal),
            Some((key, pod)) if fields::ended(pod) && !fields::deleting(pod) => ctx.delete(key),
            Some((_, pod)) if fields::ready(pod) && !fields::deleting(pod) => continue,
            Some(_) => {}
        }
        if !parallel {
            return;
        }
    }
    for (_, (pod_key, pod)) in pods.range(wanted..).rev() {
        if !fields::deleting(pod) {
            ctx.delete(pod_key);
        }
        if !parallel {
            return;
        }
    }
    // All is there and ready: one pod of an old template goes, the highest first.
    let old = pods
        .range(..wanted)
        .rev()
        .find(|(_, (_, p))| fields::label(p, REVISION) != Some(hash));
    let settled = pods
        .range(..wanted)
        .all(|(_, (_, p))| fields::ready(p) && !fields::deleting(p));
    if let (Some((_, (pod_key, _))), true) = (old, settled) {
        ctx.delete(pod_key);
    }
}

fn create(ctx: &mut ActorContext, set: &Value, hash: &str, ordinal: i64) {
    let name = format!("{}-{ordinal}", fields::name(set));
    let mut pod = template::pod(
        &set["spec"]["template"],
        resources::STATEFUL_SET,
        set,
        &name,
    );
    template::label(&mut pod, "statefulset.kubernetes.io/pod-name", &name);
    template::label(
        &mut pod,
        "apps.kubernetes.io/pod-index",
        &ordinal.to_string(),
    );
    template::label(&mut pod, REVISION, hash);
    let namespace = fields::text(set, "/metadata/namespace").to_owned();
    for claim in fields::items(set, "/spec/volumeClaimTemplates") {
        let volume = fields::name(claim);
        let claim_name = format!("{volume}-{name}");
        let volumes = fields::list_at(&mut pod, "spec", "volumes");
        volumes.retain(|v| v["name"] != volume);
        volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim_name}}));
        let place = fields::key(resources::PERSISTENT_VOLUME_CLAIM, &namespace, &claim_name);
        if ctx.view.get(&place).is_none() {
            let metadata = json!({
                "name": claim_name, "namespace": namespace, "labels": set["spec"]["selector"]["matchLabels"],
            });
            ctx.create(
                resources::PERSISTENT_VOLUME_CLAIM,
                json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim["spec"]}),
            );
        }
    }
    ctx.create(resources::POD, pod);
}

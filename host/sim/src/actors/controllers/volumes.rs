//! Volumes: claims are bound to volumes, and volumes are attached to nodes and detached.
//!
//! A claim whose class waits for its first consumer gets a volume in the zone of its pod's node.
//! Any other claim gets a volume without a zone at once. Absent: volumes made by hand other than by
//! `spec.volumeName`, sizes, access modes, reclaim policies, snapshots.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::actors::context::ActorContext;
use crate::actors::work::Work;
use crate::fields;
use crate::object::{Change, Event, Key};
use crate::server::{Subresource, resources};

const ZONE: &str = "topology.kubernetes.io/zone";

/// A pod was bound, has started or is gone: its claims are enqueued.
pub fn wake(ctx: &mut ActorContext, change: &Change, before: Option<&Value>) {
    fn state(pod: &Value) -> (&str, bool) {
        (fields::text(pod, "/spec/nodeName"), fields::ended(pod))
    }
    if change.event == Event::Modified && before.map(state) == Some(state(&change.object)) {
        return;
    }
    for claim in claims(&change.object) {
        ctx.reconcile(fields::key(
            resources::PERSISTENT_VOLUME_CLAIM,
            &change.key.namespace,
            &claim,
        ));
    }
}

/// Names of the claims that a pod mounts.
pub fn claims(pod: &Value) -> Vec<String> {
    let volumes = fields::items(pod, "/spec/volumes").iter();
    let claim = |v: &Value| match v["persistentVolumeClaim"]["claimName"].as_str() {
        Some(name) => Some(name.to_owned()),
        None if v["ephemeral"].is_object() => Some(format!(
            "{}-{}",
            fields::name(pod),
            fields::text(v, "/name")
        )),
        None => None,
    };
    volumes.filter_map(claim).collect()
}

/// Gives a claim its volume and keeps its attachments.
pub fn reconcile(ctx: &mut ActorContext, key: &Key, claim: &Value) {
    let users: Vec<Arc<Value>> = ctx
        .view
        .within(resources::POD, &key.namespace)
        .filter(|(_, pod)| claims(pod).iter().any(|c| **c == *key.name))
        .map(|(_, pod)| pod.clone())
        .collect();
    let volume = fields::text(claim, "/spec/volumeName").to_owned();
    if fields::text(claim, "/status/phase") != "Bound" {
        return bind(ctx, key, claim, &volume, &users);
    }
    let mut nodes: Vec<&str> = users
        .iter()
        .filter(|p| !fields::ended(p))
        .map(|p| fields::text(p, "/spec/nodeName"))
        .filter(|node| ctx.view.node(node).is_some())
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    attach(ctx, &volume, &nodes);
}

fn bind(ctx: &mut ActorContext, key: &Key, claim: &Value, volume: &str, users: &[Arc<Value>]) {
    let class = fields::text(claim, "/spec/storageClassName").to_owned();
    let found = ctx
        .view
        .get(&fields::key(resources::STORAGE_CLASS, "", &class))
        .cloned();
    let mut name = volume.to_owned();
    if volume.is_empty() {
        let Some(found) = found else { return };
        let waits = fields::text(&found, "/volumeBindingMode") == "WaitForFirstConsumer";
        let node = users
            .iter()
            .map(|p| fields::text(p, "/spec/nodeName"))
            .find(|n| !n.is_empty());
        let zone = node
            .and_then(|n| ctx.view.node(n))
            .and_then(|n| fields::label(n, ZONE))
            .map(str::to_owned);
        if waits && node.is_none() {
            return;
        }
        name = format!("pvc-{}", fields::uid(claim));
        let mut spec = json!({
            "capacity": claim["spec"]["resources"]["requests"], "accessModes": claim["spec"]["accessModes"],
            "storageClassName": class, "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": &*key.namespace,
                "name": &*key.name, "uid": fields::uid(claim)},
            "csi": {"driver": found["provisioner"], "volumeHandle": name},
        });
        if let Some(zone) = zone {
            let term =
                json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]});
            spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [term]}});
        }
        let metadata = json!({"name": name});
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec});
        if !ctx.create(resources::PERSISTENT_VOLUME, volume) {
            return;
        }
    }
    ctx.update(key, Subresource::Object, |claim| {
        fields::map_at(claim, "spec")["volumeName"] = name.clone().into();
        let metadata = fields::map_at(claim, "metadata");
        fields::map_at(metadata, "annotations")["pv.kubernetes.io/bind-completed"] = "yes".into();
    });
    ctx.set_status(key, &[("phase", "Bound".into())]);
}

/// Takes a volume off a node, unless a pod there uses it again.
pub fn detach(ctx: &mut ActorContext, key: &Key) {
    let Some(attachment) = ctx.view.get(key).cloned() else {
        return;
    };
    let volume = fields::text(&attachment, "/spec/source/persistentVolumeName");
    let uses = |(pod_key, pod): &(Key, Arc<Value>)| {
        let is_it = |name: &String| {
            let claim = fields::key(resources::PERSISTENT_VOLUME_CLAIM, &pod_key.namespace, name);
            ctx.view
                .get(&claim)
                .is_some_and(|claim| fields::text(claim, "/spec/volumeName") == volume)
        };
        !fields::ended(pod) && claims(pod).iter().any(is_it)
    };
    if !ctx
        .view
        .pods_on(fields::text(&attachment, "/spec/nodeName"))
        .iter()
        .any(uses)
    {
        ctx.delete(key);
    }
}

fn attach(ctx: &mut ActorContext, volume: &str, nodes: &[&str]) {
    let here: Vec<(Key, String)> = ctx
        .view
        .all(resources::VOLUME_ATTACHMENT)
        .filter(|(_, a)| fields::text(a, "/spec/source/persistentVolumeName") == volume)
        .map(|(key, a)| (key, fields::text(a, "/spec/nodeName").to_owned()))
        .collect();
    for (key, node) in &here {
        if !nodes.contains(&node.as_str()) {
            match ctx.timing.detach {
                Duration::ZERO => ctx.delete(key),
                wait => ctx
                    .event_queue
                    .once(ctx.clock.elapsed() + wait, Work::Detach(key.clone())),
            }
        }
    }
    for node in nodes
        .iter()
        .filter(|node| !here.iter().any(|(_, n)| n == *node))
    {
        let name = format!("csi-{volume}-{node}");
        let spec = json!({"attacher": "sim", "nodeName": node, "source": {"persistentVolumeName": volume}});
        ctx.create(
            resources::VOLUME_ATTACHMENT,
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
                "spec": spec, "status": {"attached": true}}),
        );
    }
}

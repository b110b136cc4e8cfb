//! Volumes: claims are bound to volumes, and volumes are attached to nodes and detached.
//!
//! A claim gets a volume that is there and free, if one fits. Otherwise one is made, unless its class
//! says that people make them: in the zone of its pod's node where the class waits for its first
//! consumer, at once and without a zone elsewhere. Absent: reclaim policies, snapshots, volume modes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::free_volumes::{self, Unbound};
use crate::actors::context::ActorContext;
use crate::actors::view::View;
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

/// A volume is free: claims that are not bound are enqueued.
pub fn wake_claims(ctx: &mut ActorContext, change: &Change) {
    if change.event == Event::Deleted || !free_volumes::is_free(&change.object) {
        return;
    }
    let all = ctx.view.all(resources::PERSISTENT_VOLUME_CLAIM);
    let waiting = all.filter(|(_, claim)| fields::text(claim, "/status/phase") != "Bound");
    let keys: Vec<Key> = waiting.map(|(key, _)| key).collect();
    keys.into_iter().for_each(|key| ctx.reconcile(key));
}

/// What the claims of a pod ask of its node.
pub struct Needs {
    /// Node affinity of volumes.
    bound: Vec<Arc<Value>>,
    /// Claims that wait for their first consumer.
    unbound: Vec<Unbound>,
}

impl Needs {
    /// Why a node has no place for them, in Kubernetes' words.
    pub fn refuse(&self, view: &View, node: &str) -> Option<&'static str> {
        let node = view.node(node);
        let is_at =
            |volume: &Arc<Value>| node.is_some_and(|node| free_volumes::admits(volume, node));
        if !self.bound.iter().all(is_at) {
            return Some("node(s) had volume node affinity conflict");
        }
        let has_place = self.unbound.is_empty()
            || node.is_some_and(|node| free_volumes::on_node(view, &self.unbound, node).is_some());
        (!has_place).then_some("node(s) didn't find available persistent volumes to bind")
    }
}

/// What the claims of a pod ask of its node.
///
/// # Errors
/// Why the pod has to wait for one of them, in Kubernetes' words.
pub fn needs(view: &View, namespace: &str, claims: &[String]) -> Result<Needs, String> {
    let (mut bound, mut unbound) = (Vec::new(), Vec::new());
    for name in claims {
        let key = fields::key(resources::PERSISTENT_VOLUME_CLAIM, namespace, name);
        let claim = view
            .get(&key)
            .ok_or_else(|| format!("persistentvolumeclaim {name:?} not found"))?;
        let volume = fields::text(claim, "/spec/volumeName");
        let class = fields::text(claim, "/spec/storageClassName");
        let class = view.get(&fields::key(resources::STORAGE_CLASS, "", class));
        if fields::text(claim, "/status/phase") == "Bound" {
            let volume = view.get(&fields::key(resources::PERSISTENT_VOLUME, "", volume));
            bound.extend(volume.cloned());
        } else if volume.is_empty() && class.is_some_and(|class| waits(class)) {
            let claim = claim.clone();
            unbound.push(Unbound { key, claim });
        } else {
            return Err("pod has unbound immediate PersistentVolumeClaims".into());
        }
    }
    Ok(Needs { bound, unbound })
}

/// A pod is about to be bound: volumes that are there and that its claims get are theirs.
pub fn reserve(ctx: &mut ActorContext, pod: &Key, object: &Value, node: &str) {
    let Ok(Needs { unbound, .. }) = needs(&ctx.view, &pod.namespace, &claims(object)) else {
        return;
    };
    let chosen = ctx
        .view
        .node(node)
        .and_then(|node| free_volumes::on_node(&ctx.view, &unbound, node));
    for (unbound, volume) in unbound.iter().zip(chosen.into_iter().flatten()) {
        if let Some(volume) = volume {
            free_volumes::reserve(ctx, &volume, unbound);
        }
    }
}

fn waits(class: &Value) -> bool {
    fields::text(class, "/volumeBindingMode") == "WaitForFirstConsumer"
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
pub fn reconcile(ctx: &mut ActorContext, key: &Key, claim: &Arc<Value>) {
    let users: Vec<Arc<Value>> = ctx
        .view
        .within(resources::POD, &key.namespace)
        .filter(|(_, pod)| claims(pod).iter().any(|c| **c == *key.name))
        .map(|(_, pod)| pod.clone())
        .collect();
    let volume = fields::text(claim, "/spec/volumeName").to_owned();
    if fields::text(claim, "/status/phase") != "Bound" {
        return bind(ctx, key, claim, &users);
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

fn bind(ctx: &mut ActorContext, key: &Key, claim: &Arc<Value>, users: &[Arc<Value>]) {
    let unbound = Unbound {
        key: key.clone(),
        claim: claim.clone(),
    };
    let volume = match fields::text(claim, "/spec/volumeName") {
        "" => found_or_made(ctx, &unbound, users),
        name => Some(fields::key(resources::PERSISTENT_VOLUME, "", name)),
    };
    let Some(volume) = volume else { return };
    let is_ours = |found: &Arc<Value>| free_volumes::is_for(found, key, claim);
    match ctx.view.get(&volume) {
        // Made just now.
        None if fields::text(claim, "/spec/volumeName").is_empty() => {}
        Some(found) if is_ours(found) => {}
        Some(found) if free_volumes::is_free(found) => {
            free_volumes::reserve(ctx, &volume, &unbound);
        }
        // Another's, or not there yet.
        _ => return,
    }
    let name = volume.name;
    ctx.update(key, Subresource::Object, |claim| {
        fields::map_at(claim, "spec")["volumeName"] = (*name).into();
        let metadata = fields::map_at(claim, "metadata");
        fields::map_at(metadata, "annotations")["pv.kubernetes.io/bind-completed"] = "yes".into();
    });
    ctx.set_status(key, &[("phase", "Bound".into())]);
}

/// The volume of a claim that names none: one that is there, or else one that is made.
fn found_or_made(ctx: &mut ActorContext, unbound: &Unbound, users: &[Arc<Value>]) -> Option<Key> {
    let Unbound { key, claim } = unbound;
    let class = fields::text(claim, "/spec/storageClassName");
    let class = fields::key(resources::STORAGE_CLASS, "", class);
    let found = ctx.view.get(&class).cloned();
    let node = users
        .iter()
        .map(|pod| fields::text(pod, "/spec/nodeName"))
        .find(|node| !node.is_empty());
    if node.is_none() && found.as_ref().is_some_and(|class| waits(class)) {
        return None;
    }
    let node = node.and_then(|node| ctx.view.node(node).cloned());
    if let Some(volume) = free_volumes::first(&ctx.view, unbound, node.as_deref(), &[]) {
        return Some(volume);
    }
    let found = found.filter(|class| free_volumes::is_made(class))?;
    let name = format!("pvc-{}", fields::uid(claim));
    let mut spec = json!({
        "capacity": claim["spec"]["resources"]["requests"], "accessModes": claim["spec"]["accessModes"],
        "storageClassName": &*class.name, "persistentVolumeReclaimPolicy": "Delete",
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": &*key.namespace,
            "name": &*key.name, "uid": fields::uid(claim)},
        "csi": {"driver": found["provisioner"], "volumeHandle": name},
    });
    let zone = node.as_deref().and_then(|node| fields::label(node, ZONE));
    if let Some(zone) = zone {
        let term = json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]});
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [term]}});
    }
    let metadata = json!({"name": name});
    let volume =
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec});
    let made = ctx.create(resources::PERSISTENT_VOLUME, volume);
    made.then(|| fields::key(resources::PERSISTENT_VOLUME, "", &name))
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

//! A cluster after disruption on paper, as manifests: what was read, less what is gone, with pods on their
//! new nodes, and the nodes that were bought.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use longshore_core::model::{ClusterObjects, Labels, NodeClaim, NodeRecord, Symbol, Taint};
use serde_json::{Map, Value, json};

use crate::input;
use longshore_live::error::Failure;
use longshore_report::messages::{effect, quantities, rfc3339};

/// Whether a cluster can be written: only what was read as JSON can, and only from files.
pub fn check(files: &[PathBuf]) -> Result<(), Failure> {
    match files.iter().find(|file| file.as_os_str() == "-") {
        None => Ok(()),
        Some(_) => Err(Failure::Usage {
            message: "--write cannot read standard input twice".into(),
            hint: "give the snapshot as a file".into(),
        }),
    }
}

/// Writes the cluster to a file.
pub fn write(file: &Path, read: &[PathBuf], world: &ClusterObjects) -> Result<(), Failure> {
    let mut items = Vec::new();
    for from in read {
        let bytes = input::bytes(from)?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| Failure::Input {
            file: from.clone(),
            reason: format!("--write takes JSON: {error}"),
            hint: "get it with kubectl get … -o json".into(),
        })?;
        match value {
            Value::Object(mut list) if list.get("items").is_some_and(Value::is_array) => {
                if let Some(Value::Array(all)) = list.remove("items") {
                    items.extend(all);
                }
            }
            other => items.push(other),
        }
    }
    let cluster = after(items, world);
    let text = serde_json::to_vec(&cluster).map_err(|error| Failure::Print(error.into()))?;
    std::fs::write(file, text).map_err(|source| Failure::Input {
        file: file.into(),
        reason: format!("cannot be written: {source}"),
        hint: String::new(),
    })
}

fn after(items: Vec<Value>, world: &ClusterObjects) -> Value {
    let text = |symbol: Symbol| world.names.text(symbol);
    let nodes: BTreeMap<&str, &NodeRecord> = world
        .nodes
        .iter()
        .map(|node| (text(node.name), node))
        .collect();
    let claims: BTreeMap<&str, &NodeClaim> = world
        .claims
        .iter()
        .map(|claim| (text(claim.name), claim))
        .collect();
    let pods: BTreeMap<(&str, &str), Option<Symbol>> = world
        .pods
        .iter()
        .map(|pod| {
            (
                (text(world.shapes.get(pod.shape).namespace), &*pod.name),
                pod.node,
            )
        })
        .collect();
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    let mut kept = Vec::new();
    for mut item in items {
        let of = |key: &str| {
            item["metadata"][key]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let (kind, name, namespace) = (
            item["kind"].as_str().unwrap_or_default().to_owned(),
            of("name"),
            of("namespace"),
        );
        let stays = match kind.as_str() {
            "Node" => nodes.contains_key(name.as_str()),
            "NodeClaim" => claims.contains_key(name.as_str()),
            "Pod" => {
                let namespace = if namespace.is_empty() {
                    "default"
                } else {
                    &namespace
                };
                match pods.get(&(namespace, name.as_str())) {
                    Some(node) => {
                        if let Some(node) = node {
                            item["spec"]["nodeName"] = text(*node).into();
                        }
                        true
                    }
                    None => false,
                }
            }
            _ => true,
        };
        if stays {
            seen.insert((kind, name));
            kept.push(item);
        }
    }
    let is_new = |kind: &str, name: &str| !seen.contains(&(kind.to_owned(), name.to_owned()));
    for (name, claim) in claims.iter().filter(|(name, _)| is_new("NodeClaim", name)) {
        kept.push(claim_object(world, name, claim));
    }
    for (name, node) in nodes.iter().filter(|(name, _)| is_new("Node", name)) {
        kept.push(node_object(world, name, node));
    }
    json!({"apiVersion": "v1", "kind": "List", "items": kept})
}

fn labels(world: &ClusterObjects, labels: &Labels) -> Value {
    let pairs = labels.iter().map(|(key, value)| {
        (
            world.names.text(key).to_owned(),
            world.names.text(value).into(),
        )
    });
    Value::Object(pairs.collect::<Map<String, Value>>())
}

fn taints(world: &ClusterObjects, taints: &[Taint]) -> Value {
    let one = |taint: &Taint| json!({"key": world.names.text(taint.key), "value": world.names.text(taint.value), "effect": effect(taint.effect)});
    taints.iter().map(one).collect()
}

/// The time of the world, as objects have it.
fn time(world: &ClusterObjects) -> String {
    rfc3339(world.now)
}

/// RFC 3339, in UTC, of seconds since 1970.
fn claim_object(world: &ClusterObjects, name: &str, claim: &NodeClaim) -> Value {
    let text = |symbol: Symbol| world.names.text(symbol);
    let now = time(world);
    let conditions: Vec<Value> = claim
        .conditions
        .iter()
        .map(|&kind| {
            json!({"type": text(kind), "status": "True", "reason": text(kind), "message": "",
                "lastTransitionTime": now})
        })
        .collect();
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "uid": text(claim.uid), "labels": labels(world, &claim.labels),
            "creationTimestamp": now, "finalizers": ["karpenter.sh/termination"]},
        "spec": {
            "nodeClassRef": {"group": text(claim.class.group), "kind": text(claim.class.kind),
                "name": text(claim.class.name)},
            "requirements": [],
            "taints": taints(world, &claim.taints),
            "startupTaints": taints(world, &claim.startup_taints),
        },
        "status": {
            "providerID": claim.provider_id.map(text),
            "nodeName": claim.node_name.map(text),
            "capacity": quantities(&world.names, claim.capacity.iter()),
            "allocatable": quantities(&world.names, claim.allocatable.iter()),
            "conditions": conditions,
        },
    })
}

fn node_object(world: &ClusterObjects, name: &str, node: &NodeRecord) -> Value {
    let now = time(world);
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": format!("node-{name}"), "labels": labels(world, &node.labels),
            "creationTimestamp": now, "finalizers": ["karpenter.sh/termination"]},
        "spec": {"providerID": node.provider_id.map(|id| world.names.text(id)), "taints": taints(world, &node.taints)},
        "status": {
            "capacity": quantities(&world.names, node.capacity.iter()),
            "allocatable": quantities(&world.names, node.allocatable.iter()),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                "lastTransitionTime": now}],
        },
    })
}

//! Disruption on small clusters: rules one by one, and what the search finds beside brute force.
#![allow(missing_docs)]

mod brute_force;
mod moves;
mod night;
mod repair;
#[path = "../common/rng.rs"]
mod rng;
mod rules;
mod search;
mod static_capacity;
mod static_pools;
mod together;

use std::sync::Arc;

use longshore_api::manifests::Reader;
use longshore_core::disrupt::costs::{MoveCost, price_of};
use longshore_core::disrupt::methods::{self, Explain, Round, RoundOptions};
use longshore_core::disrupt::proposals::Proposal;
use longshore_core::ids::NodeIx;
use longshore_core::model::ClusterObjects;
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;
use serde_json::{Value, json};

const TIME: &str = "2026-11-24T12:00:00Z";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Types `c1`, `c2`, `c4` and `c8` with so many cores, 4 GiB a core, at a dollar a core in two zones,
/// on demand; `spot` of 4 cores for half of it.
fn types() -> Value {
    let one = |name: &str, cores: u32, price: f64, capacity: &str| {
        let offering = |zone: &str| {
            json!({"Price": price, "Available": true, "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity]},
                {"key": ZONE, "operator": "In", "values": [zone]}]})
        };
        json!({"name": name, "architecture": "amd64", "operatingSystems": ["linux"],
            "resources": {"cpu": cores.to_string(), "memory": format!("{}Gi", 4 * cores), "pods": "110",
                "ephemeral-storage": "20Gi"},
            "offerings": [offering("a"), offering("b")]})
    };
    json!([
        one("c1", 1, 1.0, "on-demand"),
        one("c2", 2, 2.0, "on-demand"),
        one("c4", 4, 4.0, "on-demand"),
        one("c8", 8, 8.0, "on-demand"),
        one("s4", 4, 2.0, "spot"),
    ])
}

fn pool() -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default", "uid": "pool"},
        "spec": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s",
                "budgets": [{"nodes": "100%"}]},
            "template": {"spec": {"expireAfter": "Never",
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}}}})
}

/// A node with its NodeClaim.
fn node(name: &str, kind: &str, zone: &str) -> Vec<Value> {
    let cores: u32 = kind[1..].parse().unwrap();
    let capacity = if kind.starts_with('s') {
        "spot"
    } else {
        "on-demand"
    };
    let labels = json!({"karpenter.sh/capacity-type": capacity, ZONE: zone,
        "node.kubernetes.io/instance-type": kind, "kubernetes.io/arch": "amd64"});
    let amounts =
        json!({"cpu": cores.to_string(), "memory": format!("{}Gi", 4 * cores), "pods": "110"});
    node_of(name, labels, &amounts, &amounts)
}

/// A node of these labels and amounts, after its NodeClaim.
fn node_of(name: &str, mut labels: Value, capacity: &Value, allocatable: &Value) -> Vec<Value> {
    let own = [
        ("karpenter.sh/nodepool", "default"),
        ("karpenter.sh/registered", "true"),
        ("karpenter.sh/initialized", "true"),
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
    ];
    own.iter()
        .for_each(|(key, value)| labels[*key] = json!(value));
    let is = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": TIME, "reason": kind, "message": ""});
    let conditions: Vec<Value> = [
        "Launched",
        "Registered",
        "Initialized",
        "Consolidatable",
        "Ready",
    ]
    .map(is)
    .to_vec();
    vec![
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": format!("claim-{name}"), "uid": format!("c-{name}"), "labels": labels,
                "creationTimestamp": TIME},
            "spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": []},
            "status": {"providerID": format!("kwok://{name}"), "nodeName": name, "capacity": capacity,
                "allocatable": allocatable, "conditions": conditions}}),
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": format!("n-{name}"), "labels": labels, "creationTimestamp": TIME},
            "spec": {"providerID": format!("kwok://{name}")},
            "status": {"capacity": capacity, "allocatable": allocatable, "conditions": [is("Ready")]}}),
    ]
}

fn pod(name: &str, app: &str, milli: u32, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("p-{name}"), "labels": {"app": app},
            "creationTimestamp": TIME,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app,
                "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "app",
            "resources": {"requests": {"cpu": format!("{milli}m"), "memory": "64Mi"}}}]},
        "status": {"phase": "Running", "startTime": TIME}})
}

fn objects(items: &[Value], types: &Value) -> ClusterObjects {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let mut reader = Reader::new();
    reader.read("cluster.json", list.as_bytes());
    let (mut objects, problems) = reader.finish();
    assert!(problems.list.is_empty(), "{problems}");
    let bytes = types.to_string();
    let (catalogue, problems) =
        longshore_kwok::catalogue::parse("types.json", bytes.as_bytes(), &mut objects.names);
    assert!(problems.list.is_empty(), "{problems}");
    objects.catalogue = catalogue;
    objects.now = longshore_api::time::timestamp(TIME).unwrap();
    objects
}

fn snapshot(items: &[Value]) -> Snapshot {
    Snapshot::new(Arc::new(objects(items, &types())))
}

fn round(snapshot: &Snapshot) -> Round {
    let options = RoundOptions {
        move_cost: Some(MoveCost::Amount(0.01)),
        explain: Explain::All,
        ..RoundOptions::default()
    };
    methods::round(snapshot, &ByPrice, options, Stop::never())
}

fn name(snapshot: &Snapshot, node: NodeIx) -> String {
    let node = &snapshot.nodes[node.0 as usize];
    snapshot.world.names.text(node.name).to_owned()
}

fn names(snapshot: &Snapshot, proposal: &Proposal) -> Vec<String> {
    let nodes = proposal.nodes.iter();
    nodes.map(|&node| name(snapshot, node)).collect()
}

fn cost(snapshot: &Snapshot) -> f64 {
    snapshot
        .nodes
        .iter()
        .filter_map(|node| price_of(snapshot, node))
        .sum()
}

/// Two nodes of 4 cores, a pod of less than a core on each.
fn two() -> Vec<Value> {
    let mut items = vec![pool()];
    items.extend(node("one", "c4", "a"));
    items.extend(node("two", "c4", "a"));
    items.push(pod("web-1", "web", 900, "one"));
    items.push(pod("web-2", "web", 900, "two"));
    items
}

fn of<'v>(items: &'v mut [Value], kind: &str, name: &str) -> &'v mut Value {
    let is = |item: &&mut Value| item["kind"] == kind && item["metadata"]["name"] == name;
    items.iter_mut().find(is).unwrap()
}

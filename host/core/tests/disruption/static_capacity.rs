//! Which nodes of a static NodePool scale-down takes first.

use longshore_api::manifests::Reader;
use longshore_core::disrupt::static_capacity::removal_order;
use longshore_core::model::ClusterObjects;
use serde_json::{Value, json};

const TIME: &str = "2026-11-24T12:00:00Z";

fn pool(expire_after: &str) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "fixed", "uid": "pool"},
        "spec": {"replicas": 1, "template": {"spec": {"expireAfter": expire_after,
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": []}}}})
}

/// A claim that was made at a time; with its node if it has been launched.
fn node(name: &str, pool: &str, created: &str, launched: bool) -> Vec<Value> {
    let labels = json!({"karpenter.sh/nodepool": pool, "kubernetes.io/hostname": name});
    let id = if launched {
        format!("kwok://{name}")
    } else {
        String::new()
    };
    let mut all = vec![json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": format!("claim-{name}"), "uid": name, "labels": labels, "creationTimestamp": created},
        "spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": []},
        "status": {"providerID": id}})];
    if launched {
        all.push(json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": format!("n-{name}"), "labels": labels, "creationTimestamp": created},
            "spec": {"providerID": id}}));
    }
    all
}

fn pod(name: &str, node: &str, owner: &str, annotations: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": TIME,
            "annotations": annotations,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner, "name": "app", "uid": "app", "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "app"}]},
        "status": {"phase": "Running", "startTime": TIME}})
}

fn order(items: &[Value], seconds: i64) -> String {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let mut reader = Reader::new();
    reader.read("cluster.json", list.as_bytes());
    let (world, problems): (ClusterObjects, _) = reader.finish();
    assert!(problems.list.is_empty(), "{problems}");
    let now = longshore_api::time::timestamp(TIME).unwrap() + seconds;
    let fixed = world.names.get("fixed").unwrap();
    let order = removal_order(&world, fixed, now);
    let names: Vec<&str> = order.iter().map(|name| world.names.text(*name)).collect();
    names.join(" ").replace("claim-", "")
}

#[test]
fn claims_without_an_instance_go_first_then_empty_nodes_then_cheap_ones_and_protected_ones_last() {
    let mut items = vec![pool("Never")];
    for name in ["busy", "daemons", "guarded", "idle", "kept", "light"] {
        items.extend(node(name, "fixed", TIME, true));
    }
    items.extend(node("waiting", "fixed", TIME, false));
    items.extend(node("other", "dynamic", TIME, true));
    items.push(pod("b1", "busy", "ReplicaSet", json!({})));
    items.push(pod("b2", "busy", "ReplicaSet", json!({})));
    items.push(pod("l1", "light", "ReplicaSet", json!({})));
    items.push(pod("d1", "daemons", "DaemonSet", json!({})));
    items.push(pod(
        "k1",
        "kept",
        "ReplicaSet",
        json!({"karpenter.sh/do-not-disrupt": "true"}),
    ));
    items.push(pod(
        "g1",
        "guarded",
        "ReplicaSet",
        json!({"karpenter.sh/do-not-disrupt": "10m"}),
    ));
    // Empty nodes are equal but for what their daemons cost.
    assert_eq!(
        order(&items, 0),
        "waiting idle daemons light busy guarded kept"
    );
    // The protection of one pod has ended.
    assert_eq!(
        order(&items, 600),
        "waiting idle daemons guarded light busy kept"
    );
}

#[test]
fn a_node_that_expires_soon_costs_less() {
    let mut items = vec![pool("10h")];
    items.extend(node("a-new", "fixed", "2026-11-24T11:00:00Z", true));
    items.extend(node("b-old", "fixed", "2026-11-24T04:00:00Z", true));
    items.push(pod("p1", "a-new", "ReplicaSet", json!({})));
    items.push(pod("p2", "b-old", "ReplicaSet", json!({})));
    items.push(pod("p3", "b-old", "ReplicaSet", json!({})));
    // 1 pod × 0.9 of its life against 2 pods × 0.2.
    assert_eq!(order(&items, 0), "b-old a-new");
}

//! NodePools that may not be bought from are reported with a reason, and purchases back off where
//! others taint new nodes.

use std::sync::Arc;

use expect_test::expect;
use longshore_core::model::Settings;
use longshore_core::snapshot::{Ineligible, Snapshot};
use serde_json::{Value, json};

use super::{any, merge, node, plan, pod, pool, running, world};

/// 2026-11-01T00:10:00Z.
const NOW: i64 = 1_793_491_800;

#[test]
fn a_nodepool_that_may_not_be_bought_from_says_why() {
    let class = |name: &str| json!({"template": {"spec": {"nodeClassRef": {"name": name}}}});
    let mut not_ready = pool("not-ready", json!([]), &json!({}));
    merge(
        &mut not_ready,
        &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
    );
    let mut deleting = pool("deleting", json!([]), &json!({}));
    let at = json!({"deletionTimestamp": "2026-11-01T00:00:00Z", "finalizers": ["x"]});
    merge(&mut deleting, &json!({"metadata": at}));
    let objects = [
        pool("static", json!([]), &json!({"replicas": 2})),
        pool("lost", json!([]), &class("elsewhere")),
        not_ready,
        deleting,
        pool("any", json!([]), &json!({})),
        pod("a", "web", "100", "1Gi", &json!({})),
    ];
    expect![[r#"
        left a: deleting Deleting; lost ClassMissing; not-ready NotReady; static Static; any types 8: labels 0 resources [8, 0, 0, 0, 0] offerings 0
    "#]]
    .assert_eq(&plan(&objects));
    expect![[r#"
        left a: pod NoPools
    "#]]
    .assert_eq(&plan(&[pod("a", "web", "1", "1Gi", &json!({}))]));
}

/// A node of the pool `default`, with its claim, made so many seconds ago and tainted.
fn tainted(name: &str, age: i64, key: &str) -> [Value; 2] {
    let created = format!(
        "2026-11-01T00:{:02}:{:02}Z",
        (600 - age) / 60,
        (600 - age) % 60
    );
    let labels = json!({
        "karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
    });
    let mut node = node(name, "a", "8", "32Gi");
    merge(
        &mut node,
        &json!({
            "metadata": {"labels": labels, "creationTimestamp": created},
            "spec": {"providerID": format!("kwok://{name}"), "taints": [{"key": key, "value": "yes", "effect": "NoExecute"}]},
        }),
    );
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": format!("claim-{name}"), "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {
            "requirements": [], "nodeClassRef": class,
            "taints": [{"key": "own", "value": "yes", "effect": "NoExecute"}],
        },
        "status": {"providerID": format!("kwok://{name}"), "nodeName": name},
    });
    [node, claim]
}

/// `NODES TAINT SECONDS` of what the pool `default` waits for, if it does.
fn waits(objects: &[Value]) -> Option<String> {
    let mut world = world(objects, Settings::default());
    world.now = NOW;
    let snapshot = Snapshot::new(Arc::new(world));
    snapshot
        .ineligible_pools
        .iter()
        .find_map(|(_, why)| match why {
            Ineligible::ForeignTaints(spoiled) => {
                let key = snapshot.world.names.text(spoiled.taint.key);
                Some(format!("{} {key} {}", spoiled.nodes, spoiled.until - NOW))
            }
            _ => None,
        })
}

/// Nodes made 1, 2, 3 … seconds ago.
fn nodes(count: i64, key: &str) -> Vec<Value> {
    let named = |n: i64| tainted(&format!("n{n}"), n, key);
    std::iter::once(any())
        .chain((1..=count).flat_map(named))
        .collect()
}

#[test]
fn a_nodepool_whose_new_nodes_others_taint_waits_longer_with_each() {
    let after: Vec<_> = (2..=9)
        .map(|count| waits(&nodes(count, "agent/not-there")))
        .collect();
    let wait = |count, seconds| Some(format!("{count} agent/not-there {seconds}"));
    let [two, three, four, five] = [None, wait(3, 4), wait(4, 9), wait(5, 19)];
    assert_eq!(
        after,
        [
            two,
            three,
            four,
            five,
            wait(6, 39),
            wait(7, 79),
            wait(8, 119),
            wait(9, 119)
        ]
    );
    let mut other = nodes(6, "agent/not-there");
    other.push(pool("other", json!([]), &json!({})));
    assert_eq!(
        waits(&other),
        wait(6, 39),
        "the other one may be bought from"
    );
}

#[test]
fn nodes_that_are_used_or_old_or_tainted_as_they_should_be_do_not_count() {
    assert_eq!(
        waits(&nodes(6, "own")),
        None,
        "the NodeClaim has asked for it"
    );
    assert_eq!(
        waits(&nodes(6, "node.kubernetes.io/not-ready")),
        None,
        "Kubernetes says how the node is"
    );
    assert_eq!(
        waits(&nodes(6, "karpenter.sh/disrupted")),
        None,
        "it is on its way out"
    );
    let mut used = nodes(5, "agent/not-there");
    used.extend((1..=3).map(|n| running(&format!("p{n}"), "web", &format!("n{n}"), &json!({}))));
    assert_eq!(waits(&used), None, "two are left");
    let aged = |age: i64| -> Vec<Value> {
        std::iter::once(any())
            .chain((0..5).flat_map(|n| tainted(&format!("n{n}"), age, "agent/not-there")))
            .collect()
    };
    assert_eq!(waits(&aged(19)), Some("5 agent/not-there 1".to_owned()));
    assert_eq!(waits(&aged(20)), None, "it has waited");
    let mut open = nodes(6, "agent/not-there");
    for object in &mut open {
        object["spec"].as_object_mut().unwrap().remove("taints");
    }
    assert_eq!(waits(&open), None, "the taint is gone");
}

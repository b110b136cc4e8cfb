//! Drifted nodes of static NodePools.

use longshore_core::ids::NodeIx;
use serde_json::{Value, json};

use super::{TIME, of, round, snapshot, two};

/// Two drifted nodes of a static NodePool: `two` for longer.
fn two_static(more: &[(&str, Value)]) -> Vec<Value> {
    let mut items = two();
    let spec = &mut items[0]["spec"];
    spec["replicas"] = json!(2);
    for (key, value) in more {
        spec[*key] = value.clone();
    }
    for (name, since) in [("claim-one", TIME), ("claim-two", "2026-11-24T11:00:00Z")] {
        let drifted = json!({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted", "message": "",
            "lastTransitionTime": since});
        let conditions = &mut of(&mut items, "NodeClaim", name)["status"]["conditions"];
        conditions.as_array_mut().unwrap().push(drifted);
    }
    items
}

fn replaced(items: &[Value]) -> String {
    let snapshot = snapshot(items);
    let round = round(&snapshot);
    assert!(round.proposals.is_empty(), "{:?}", round.proposals);
    let name = |node: &NodeIx| {
        snapshot
            .world
            .names
            .text(snapshot.nodes[node.0 as usize].name)
    };
    round
        .static_drift
        .iter()
        .map(name)
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn drifted_nodes_of_a_static_pool_are_replaced_within_budget_and_node_limit() {
    let budget = |nodes: &str| {
        let disruption = json!({"consolidateAfter": "0s", "budgets": [{"nodes": nodes}]});
        replaced(&two_static(&[("disruption", disruption)]))
    };
    assert_eq!(
        replaced(&two_static(&[])),
        "two one",
        "the longest drifted first"
    );
    assert_eq!(budget("1"), "two");
    assert_eq!(budget("0"), "");
    let limit = |nodes: &str| replaced(&two_static(&[("limits", json!({"nodes": nodes}))]));
    assert_eq!(limit("4"), "two one");
    assert_eq!(limit("3"), "two");
    assert_eq!(limit("2"), "", "a replacement has no room");
}

#[test]
fn a_static_pool_with_more_nodes_than_replicas_replaces_none() {
    assert_eq!(replaced(&two_static(&[("replicas", json!(1))])), "");
    let mut items = two_static(&[]);
    of(&mut items, "NodeClaim", "claim-two")["metadata"]["annotations"] =
        json!({"karpenter.sh/do-not-disrupt": "true"});
    assert_eq!(replaced(&items), "one");
}

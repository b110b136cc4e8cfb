//! Pods of nodes in commands keep room where they will go.

use longshore_core::disrupt::verdicts::{Method, Stays};
use longshore_core::snapshot::Snapshot;
use serde_json::{Value, json};

use super::{name, of, pod, round, snapshot, two};

/// Node `one` is in a command that moves its pod to node `two`.
fn moving() -> Vec<Value> {
    let mut items = two();
    of(&mut items, "NodeClaim", "claim-one")["metadata"]["annotations"] = json!({
        "longshore.dev/disruption": "d1", "longshore.dev/moves": "two=default/web-1"});
    items
}

/// The objects of `moving` while the node is being deleted.
fn leaving() -> Vec<Value> {
    let mut items = moving();
    of(&mut items, "NodeClaim", "claim-one")["metadata"]["deletionTimestamp"] = json!(super::TIME);
    items
}

/// Free thousandths of a core of node `two`, and how many pods are there.
fn of_two(snapshot: &Snapshot) -> (i64, usize) {
    let world = &snapshot.world;
    let mut nodes = snapshot.nodes.iter();
    let two = nodes
        .find(|node| world.names.text(node.name) == "two")
        .unwrap();
    (
        two.free.get(longshore_core::model::ResourceId::Cpu),
        two.pods.len(),
    )
}

#[test]
fn the_room_of_a_pod_that_will_move_is_not_free() {
    assert_eq!(of_two(&snapshot(&two())), (3100, 1));
    assert_eq!(of_two(&snapshot(&moving())), (2200, 1));
    let gone = snapshot(&leaving());
    assert_eq!(of_two(&gone), (2200, 2));
    assert!(gone.pending.is_empty(), "{:?}", gone.pending);
}

#[test]
fn a_pod_whose_destination_is_full_is_planned_again() {
    let mut items = leaving();
    items.push(pod("large", "large", 3000, "two"));
    let snapshot = snapshot(&items);
    assert_eq!(of_two(&snapshot), (100, 2));
    assert_eq!(snapshot.pending.len(), 1);
}

#[test]
fn a_destination_is_not_disrupted() {
    let snapshot = snapshot(&moving());
    let round = round(&snapshot);
    assert!(round.proposals.is_empty(), "{:?}", round.proposals);
    let mut nodes = (0..).zip(&round.candidates);
    let two = nodes
        .find(|(at, _)| name(&snapshot, longshore_core::ids::NodeIx(*at)) == "two")
        .unwrap();
    let refusal = two.1.refusal(Method::MultiNode);
    assert!(matches!(refusal, Some(Stays::Nominated(_))), "{refusal:?}");
}

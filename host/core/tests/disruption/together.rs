//! Pods with required affinity to a host: they move with the pods that they have to be beside.

use longshore_core::disrupt::proposals;
use longshore_core::disrupt::verdicts::Stays;
use longshore_core::ids::PodIx;
use serde_json::{Value, json};

use super::{name, names, node, pod, pool, round, snapshot};

const HOST: &str = "kubernetes.io/hostname";

/// A pod that has to be on a host with a pod of an app.
fn follower(name: &str, app: &str, milli: u32, node: &str, beside: &str) -> Value {
    let mut pod = pod(name, app, milli, node);
    pod["spec"]["affinity"] = json!({"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": beside}}, "topologyKey": HOST}]}});
    pod
}

/// A node that may not go.
fn held(name: &str, kind: &str) -> Vec<Value> {
    let mut both = node(name, kind, "a");
    both[1]["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    both
}

/// A large node with a pod and its follower, and a small one with `milli` of a core taken.
fn large_and_small(milli: u32) -> Vec<Value> {
    let mut items = vec![pool()];
    items[0]["spec"]["limits"] = json!({"cpu": "0"});
    items.extend(node("large", "c8", "a"));
    items.extend(held("small", "c4"));
    items.push(pod("web", "web", 1000, "large"));
    items.push(follower("cache", "cache", 1000, "large", "web"));
    items.push(pod("other", "other", milli, "small"));
    items
}

fn pod_name(items: &[Value], pod: PodIx) -> String {
    snapshot(items).world.pods[pod.0 as usize].name.to_string()
}

/// Why a node stays.
fn stays(items: &[Value], of: &str) -> Stays {
    let snapshot = snapshot(items);
    let round = round(&snapshot);
    assert!(round.proposals.is_empty(), "{:?}", round.proposals);
    let mut stays = round.stays.into_iter();
    let (_, why) = stays
        .find(|(node, _)| name(&snapshot, *node) == of)
        .unwrap();
    why
}

#[test]
fn a_pod_and_its_follower_move_to_the_same_host() {
    let snapshot = snapshot(&large_and_small(500));
    let now = round(&snapshot).now();
    proposals::check(&snapshot, &now).unwrap();
    assert_eq!(now.len(), 1);
    assert_eq!(names(&snapshot, &now[0]), ["large"]);
    let targets: Vec<_> = now[0].moves.iter().map(|moved| moved.to).collect();
    assert!(
        targets.len() == 2 && targets[0] == targets[1],
        "{targets:?}"
    );
}

#[test]
fn a_host_with_room_for_one_of_two_that_move_together_takes_neither() {
    let items = large_and_small(2500);
    let Stays::NoPlaceTogether(pod, 1) = stays(&items, "large") else {
        panic!("{:?}", stays(&items, "large"));
    };
    assert!(["web", "cache"].contains(&pod_name(&items, pod).as_str()));
}

#[test]
fn pods_that_have_to_be_beside_their_like_move_as_one() {
    let mut items = vec![pool()];
    items[0]["spec"]["limits"] = json!({"cpu": "0"});
    items.extend(node("large", "c8", "a"));
    // The first two have room for one of the pods, the last one for both.
    for small in ["s1", "s2", "s3"] {
        items.extend(held(small, "c4"));
        let taken = if small == "s3" { 1000 } else { 2500 };
        items.push(pod(&format!("on-{small}"), small, taken, small));
    }
    for number in 0..2 {
        items.push(follower(&format!("db-{number}"), "db", 1200, "large", "db"));
    }
    let snapshot = snapshot(&items);
    let now = round(&snapshot).now();
    proposals::check(&snapshot, &now).unwrap();
    let moves = now.iter().flat_map(|of| of.moves.iter());
    let mut of_db: Vec<_> = moves
        .filter(|moved| {
            let pod = &snapshot.world.pods[moved.pod.0 as usize];
            pod.name.starts_with("db-")
        })
        .map(|moved| moved.to)
        .collect();
    assert_eq!(of_db.len(), 2, "the large node goes: {now:?}");
    of_db.dedup();
    assert_eq!(of_db.len(), 1, "{of_db:?}");
}

#[test]
fn a_follower_that_is_beside_nothing_keeps_its_node() {
    let mut items = large_and_small(500);
    items.push(follower("lost", "lost", 100, "large", "nowhere"));
    let Stays::NotModelled(pod) = stays(&items, "large") else {
        panic!("{:?}", stays(&items, "large"));
    };
    assert_eq!(pod_name(&items, pod), "lost");
}

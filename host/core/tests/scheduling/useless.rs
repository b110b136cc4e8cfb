//! Purchases that did not help are not made again: by the NodeClaims while they are there, by what
//! NodePools remember afterwards.

use std::sync::Arc;

use longshore_core::model::Settings;
use longshore_core::model::purchases::{BOUGHT_GIVEN, UNJOINED, USELESS};
use longshore_core::plan::{Effort, Unfit};
use longshore_core::planner::{self, Options};
use longshore_core::policy::ByPrice;
use longshore_core::reasons::Ineligible;
use longshore_core::snapshot::Snapshot;
use longshore_core::snapshot::useless_purchases::{given_now, given_of, remember};
use serde_json::{Value, json};

use super::{any, merge, node, plan, pod, pool, running, world};

/// 2026-11-01T00:10:00Z; nodes were ready at 00:09:00, a minute ago.
const NOW: i64 = 1_793_491_800;

/// A pod that no existing node takes: it asks for a label that they lack.
fn picky(name: &str) -> Value {
    let mut pod = pod(
        name,
        "web",
        "1",
        "1Gi",
        &json!({"nodeSelector": {"team": "a"}}),
    );
    merge(
        &mut pod,
        &json!({"metadata": {"creationTimestamp": "2026-11-01T00:07:00Z"}}),
    );
    pod
}

fn team() -> Value {
    let team = json!([{"key": "team", "operator": "In", "values": ["a"]}]);
    pool("default", team, &json!({}))
}

/// A node that was bought for pods and that lacks the label `team` all the same, with its claim.
fn bought(pods: &str) -> [Value; 2] {
    let mut node = node("n", "a", "4", "16Gi");
    let labels = json!({
        "karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
    });
    merge(
        &mut node,
        &json!({"metadata": {"labels": labels}, "spec": {"providerID": "kwok://n"}}),
    );
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let room = json!({"cpu": "4", "memory": "16Gi", "pods": "20"});
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": "default-bcd", "labels": {"karpenter.sh/nodepool": "default"},
            "creationTimestamp": "2026-11-01T00:08:00Z",
            "annotations": {"longshore.dev/planned-pods": pods},
        },
        "spec": {"requirements": [], "nodeClassRef": class},
        "status": {
            "providerID": "kwok://n", "nodeName": "n", "capacity": room, "allocatable": room,
            "conditions": [
                {"type": "Registered", "status": "True", "lastTransitionTime": "2026-11-01T00:09:00Z"},
                {"type": "Initialized", "status": "True", "lastTransitionTime": "2026-11-01T00:09:00Z"},
            ],
        },
    });
    [node, claim]
}

fn snapshot(objects: &[Value]) -> Snapshot {
    snapshot_at(objects, NOW)
}

fn snapshot_at(objects: &[Value], now: i64) -> Snapshot {
    let mut world = world(objects, Settings::default());
    world.now = now;
    Snapshot::new(Arc::new(world))
}

/// How many nodes are bought, and why not for the others.
fn outcome(snapshot: &Snapshot) -> String {
    let options = Options {
        effort: Effort::Normal,
        seed: 1,
    };
    let plan = planner::plan(snapshot, &ByPrice, options).unwrap();
    let mut text = format!("{} bought", plan.claims.len());
    for left in &plan.unplaced {
        let name = &snapshot.world.pods[left.pod.0 as usize].name;
        match &left.refusals[0].unfit {
            Unfit::UselessPurchase(useless) => {
                let seconds = useless.until - NOW;
                text += &format!(
                    ", {name}: {} {} times, {seconds} s",
                    useless.claim, useless.times
                );
            }
            other => text += &format!(", {name}: {other:?}"),
        }
    }
    text
}

/// The annotation that the NodePool `default` gets.
fn remembered(snapshot: &Snapshot) -> Option<String> {
    let found = &snapshot.useless.found;
    remember(&snapshot.world, found, &snapshot.world.pools[0])
}

/// A NodePool with an annotation, and a pod like the one that was bought for.
fn remembering(annotation: &str, text: &str) -> [Value; 2] {
    let mut pool = team();
    merge(
        &mut pool,
        &json!({"metadata": {"annotations": {annotation: text}}}),
    );
    [pool, picky("b")]
}

#[test]
fn nothing_is_bought_again_for_pods_that_a_ready_node_with_room_did_not_help() {
    let [node, claim] = bought("default/a");
    let found = snapshot(&[team(), picky("a"), node.clone(), claim.clone()]);
    // Ready at 00:09:00, 30 seconds to settle, five minutes of back-off.
    assert_eq!(outcome(&found), "0 bought, a: default-bcd 1 times, 270 s");
    assert_eq!(found.useless.found.len(), 1);
    let others = [team(), picky("other"), node, claim];
    assert_eq!(
        outcome(&snapshot(&others)),
        "1 bought",
        "it was bought for another"
    );
}

#[test]
fn another_pod_of_the_same_group_waits_too_and_an_ordinary_one_gets_its_node() {
    let [node, claim] = bought("default/a");
    let big = pod("big", "web", "6", "1Gi", &json!({}));
    let objects = [team(), picky("a"), picky("b"), big, node, claim];
    assert_eq!(
        outcome(&snapshot(&objects)),
        "1 bought, a: default-bcd 1 times, 270 s, b: default-bcd 1 times, 270 s"
    );
}

#[test]
fn it_is_no_useless_purchase_while_kube_scheduler_is_at_it_or_others_took_the_room() {
    let [node, claim] = bought("default/a");
    let early = [
        team(),
        picky("a"),
        picky("other"),
        node.clone(),
        claim.clone(),
    ];
    let early = snapshot_at(&early, NOW - 31);
    assert_eq!(
        outcome(&early),
        "1 bought, a: default-bcd 0 times, -30 s",
        "it is waited for, and not by others"
    );
    assert!(early.useless.found.is_empty());
    let mut large = running("large", "other", "n", &json!({}));
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3500m");
    let taken = [team(), picky("a"), large, node.clone(), claim.clone()];
    assert_eq!(
        outcome(&snapshot(&taken)),
        "1 bought",
        "somebody took the room"
    );
    let mut sister = picky("sister");
    sister["spec"]["nodeName"] = json!("n");
    sister["status"] = json!({"phase": "Running", "startTime": "2026-11-01T00:09:20Z"});
    let helped = [team(), picky("a"), sister, node.clone(), claim.clone()];
    assert_eq!(
        outcome(&snapshot(&helped)),
        "1 bought",
        "a pod of the group was bound since"
    );
    let mut daemon = running("agent", "agent", "n", &json!({}));
    daemon["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3500m");
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "d", "controller": true}]);
    merge(
        &mut daemon,
        &json!({"metadata": {"ownerReferences": owner}}),
    );
    let crowded = [team(), picky("a"), daemon, node, claim];
    assert_eq!(
        outcome(&snapshot(&crowded)),
        "0 bought, a: default-bcd 1 times, 270 s",
        "daemons run on the next node too"
    );
}

#[test]
fn a_pod_of_the_same_name_that_came_later_was_not_bought_for() {
    let [node, claim] = bought("default/a");
    let mut later = picky("a");
    merge(
        &mut later,
        &json!({"metadata": {"creationTimestamp": "2026-11-01T00:09:30Z"}}),
    );
    assert_eq!(
        outcome(&snapshot(&[team(), later, node, claim])),
        "1 bought"
    );
}

#[test]
fn a_nodepool_remembers_it_when_the_node_is_gone_until_the_back_off_has_passed() {
    let [node, claim] = bought("default/a");
    let text = remembered(&snapshot(&[team(), picky("a"), node, claim])).unwrap();
    let known = remembering(USELESS, &text);
    assert_eq!(
        outcome(&snapshot(&known)),
        "0 bought, b: default-bcd 1 times, 270 s"
    );
    assert_eq!(remembered(&snapshot(&known)), None, "nothing new");
    assert_eq!(outcome(&snapshot_at(&known, NOW + 270)), "1 bought");
    let old = snapshot_at(&known, NOW + 270 + 3600);
    assert_eq!(
        remembered(&old),
        None,
        "that it is old is no reason to write"
    );
    let mut helped = picky("sister");
    helped["spec"]["nodeName"] = json!("elsewhere");
    helped["status"] = json!({"phase": "Running", "startTime": "2026-11-01T00:09:40Z"});
    let [pool, waiting] = known;
    assert_eq!(
        remembered(&snapshot(&[pool, waiting, helped])).as_deref(),
        Some("")
    );
}

#[test]
fn the_next_purchase_in_vain_is_put_off_twice_as_long() {
    let [node, claim] = bought("default/a");
    let once = snapshot(&[team(), picky("a"), node.clone(), claim.clone()]);
    let text = remembered(&once).unwrap();
    let [pool, _] = remembering(USELESS, &text);
    let mut again = claim;
    merge(
        &mut again,
        &json!({"metadata": {"name": "default-xyz", "creationTimestamp": "2026-11-01T00:16:00Z"}}),
    );
    for condition in again["status"]["conditions"].as_array_mut().unwrap() {
        condition["lastTransitionTime"] = json!("2026-11-01T00:17:00Z");
    }
    let twice = snapshot_at(&[pool, picky("a"), node, again], NOW + 480);
    assert_eq!(
        outcome(&twice),
        "0 bought, a: default-xyz 2 times, 1050 s",
        "from 00:17:30 on for ten minutes"
    );
    assert!(remembered(&twice).unwrap().contains(",2,"));
}

#[test]
fn a_change_of_the_pod_a_nodepool_a_node_class_or_the_node_ends_it() {
    let [node, claim] = bought("default/a");
    let text = remembered(&snapshot(&[
        team(),
        picky("a"),
        node.clone(),
        claim.clone(),
    ]))
    .unwrap();
    let [known, _] = remembering(USELESS, &text);
    let with = |pool: &Value, pod: Value| {
        outcome(&snapshot(&[pool.clone(), pod, node.clone(), claim.clone()]))
    };
    assert_eq!(
        with(&known, picky("a")),
        "0 bought, a: default-bcd 1 times, 270 s"
    );
    let mut larger = picky("a");
    larger["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
    assert_eq!(
        outcome(&snapshot(&[known.clone(), larger])),
        "1 bought",
        "another pod"
    );
    let mut edited = known.clone();
    merge(&mut edited, &json!({"metadata": {"generation": 2}}));
    assert_eq!(
        with(&edited, picky("a")),
        "1 bought",
        "the NodePool was edited"
    );
    let mut relabelled = node.clone();
    merge(
        &mut relabelled,
        &json!({"metadata": {"labels": {"other": "x"}}}),
    );
    let objects = [known, picky("a"), relabelled, claim.clone()];
    assert_eq!(
        outcome(&snapshot(&objects)),
        "1 bought",
        "the node has other labels"
    );
}

#[test]
fn the_end_of_the_node_is_no_change_of_it() {
    let [mut node, mut claim] = bought("default/a");
    let found = snapshot(&[team(), picky("a"), node.clone(), claim.clone()]);
    let [known, _] = remembering(USELESS, &remembered(&found).unwrap());
    // The Node is taken from load balancers while it drains.
    let label = json!({"node.kubernetes.io/exclude-from-external-load-balancers": "karpenter"});
    merge(&mut node, &json!({"metadata": {"labels": label}}));
    let goes = json!({"metadata": {"deletionTimestamp": "2026-11-01T00:09:50Z"}});
    merge(&mut claim, &goes);
    assert_eq!(
        outcome(&snapshot(&[known, picky("a"), node, claim])),
        "0 bought, a: default-bcd 1 times, 270 s"
    );
}

#[test]
fn a_node_that_was_bought_before_a_nodepool_was_edited_says_nothing_of_what_is_bought_now() {
    let [node, mut claim] = bought("default/a");
    let before = given_now(&snapshot(&[team()]).world);
    let given = json!({BOUGHT_GIVEN: format!("{before:016x}")});
    merge(&mut claim, &json!({"metadata": {"annotations": given}}));
    let objects = |pool: Value| [pool, picky("a"), node.clone(), claim.clone()];
    assert_eq!(
        outcome(&snapshot(&objects(team()))),
        "0 bought, a: default-bcd 1 times, 270 s"
    );
    let mut edited = team();
    merge(&mut edited, &json!({"metadata": {"generation": 2}}));
    assert_eq!(outcome(&snapshot(&objects(edited))), "1 bought");
}

#[test]
fn pods_that_wait_in_vain_may_still_go_to_a_node_that_exists() {
    let [node, claim] = bought("default/a");
    let text = remembered(&snapshot(&[team(), picky("a"), node.clone(), claim])).unwrap();
    let [known, pod] = remembering(USELESS, &text);
    let mut suits = node;
    merge(&mut suits, &json!({"metadata": {"labels": {"team": "a"}}}));
    assert_eq!(outcome(&snapshot(&[known, pod, suits])), "0 bought");
}

#[test]
fn jobs_and_rollouts_make_pods_of_the_same_group() {
    let [node, claim] = bought("default/a");
    let text = remembered(&snapshot(&[team(), picky("a"), node, claim])).unwrap();
    let [known, mut pod] = remembering(USELESS, &text);
    let labels = json!({"batch.kubernetes.io/job-name": "b", "pod-template-hash": "7"});
    merge(&mut pod, &json!({"metadata": {"labels": labels}}));
    assert_eq!(
        outcome(&snapshot(&[known.clone(), pod.clone()])),
        "0 bought, b: default-bcd 1 times, 270 s"
    );
    merge(
        &mut pod,
        &json!({"metadata": {"labels": {"app": "another"}}}),
    );
    assert_eq!(outcome(&snapshot(&[known, pod])), "1 bought");
}

/// A NodePool whose last nodes never joined, `until` so many seconds from now.
fn unjoined(nodes: u32, until: i64) -> Value {
    let world = snapshot(&[any()]).world;
    let given = given_of(&world, &world.pools[0]);
    let mut pool = any();
    let text = format!("{nodes},1,{},{given:016x}", NOW + until);
    merge(
        &mut pool,
        &json!({"metadata": {"annotations": {UNJOINED: text}}}),
    );
    pool
}

#[test]
fn a_nodepool_whose_nodes_never_join_is_left_alone_and_others_go_on() {
    let waits = |pool: Value| {
        let found = snapshot(&[pool, pod("a", "web", "1", "1Gi", &json!({}))]);
        let why = found
            .ineligible_pools
            .iter()
            .find_map(|(_, why)| match why {
                Ineligible::NeverJoined(backoff) => Some(backoff.until - NOW),
                _ => None,
            });
        (why, outcome(&found).starts_with("1 bought"))
    };
    assert_eq!(waits(unjoined(2, 100)), (None, true), "two may be chance");
    assert_eq!(waits(unjoined(3, 100)), (Some(100), false));
    let mut edited = unjoined(3, 100);
    merge(&mut edited, &json!({"metadata": {"generation": 2}}));
    assert_eq!(waits(edited), (None, true), "it was edited since");
    let objects = [
        unjoined(3, 100),
        pool("other", json!([]), &json!({})),
        pod("a", "web", "1", "1Gi", &json!({})),
    ];
    assert!(plan(&objects).contains("other"), "{}", plan(&objects));
}

#[test]
fn after_its_pause_a_nodepool_tries_one_node() {
    let large = |name: &str| pod(name, "web", "7", "1Gi", &json!({}));
    let two = [unjoined(3, 0), large("a"), large("b")];
    assert!(outcome(&snapshot(&two)).starts_with("1 bought"));
    let [_, mut claim] = bought("default/c");
    claim["status"] = json!({});
    let tried = [unjoined(3, 0), large("a"), claim.clone()];
    assert!(outcome(&snapshot(&tried)).starts_with("0 bought"));
    let goes = json!({"metadata": {"deletionTimestamp": "2026-11-01T00:09:50Z"}});
    merge(&mut claim, &goes);
    let goes = [unjoined(3, 0), large("a"), claim];
    assert!(outcome(&snapshot(&goes)).starts_with("0 bought"));
}

//! Nodes that exist, are on their way in, or on their way out.

use expect_test::expect;
use serde_json::json;

use super::{any, merge, node, plan, pod, pods, running};

#[test]
fn existing_nodes_are_filled_first() {
    let mut objects = pods(3, "web", "1", "1Gi", &json!({}));
    objects.extend([any(), node("n1", "a", "2100m", "8Gi")]);
    expect![[r#"
        default: x2.arm64 spot b 0.0353 (6 types): web3
        n1: web1 web2
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn pods_of_a_deleting_node_are_planned_and_its_room_is_not() {
    let mut leaving = node("n1", "a", "8", "32Gi");
    merge(
        &mut leaving,
        &json!({"metadata": {"deletionTimestamp": "2026-11-01T00:00:00Z", "finalizers": ["x"]}}),
    );
    let objects = [
        any(),
        leaving,
        running("moves", "web", "n1", &json!({})),
        pod("new", "web", "1", "1Gi", &json!({})),
    ];
    expect![[r#"
        default: x2.arm64 spot b 0.0353 (6 types): moves new
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn pods_that_do_not_count_are_left_alone() {
    let mut fresh = pod("fresh", "web", "1", "1Gi", &json!({}));
    fresh["status"] = json!({"phase": "Pending"});
    let mut nominated = pod("nominated", "web", "1", "1Gi", &json!({}));
    merge(
        &mut nominated,
        &json!({"status": {"nominatedNodeName": "n1"}}),
    );
    let mut daemon = pod("daemon", "web", "1", "1Gi", &json!({}));
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true}]);
    merge(
        &mut daemon,
        &json!({"metadata": {"ownerReferences": owner}}),
    );
    expect![[""]].assert_eq(&plan(&[
        any(),
        node("n1", "a", "2", "8Gi"),
        fresh,
        nominated,
        daemon,
    ]));
}

#[test]
fn a_nominated_pod_holds_its_room_and_one_whose_node_is_gone_is_planned_again() {
    let nominated = |name: &str, node: &str| {
        let mut pod = pod(name, "web", "1", "1Gi", &json!({}));
        merge(&mut pod, &json!({"status": {"nominatedNodeName": node}}));
        pod
    };
    let objects = [
        any(),
        node("n1", "a", "2100m", "8Gi"),
        nominated("kept", "n1"),
        nominated("lost", "gone"),
        pod("next", "web", "1", "1Gi", &json!({})),
    ];
    expect![[r#"
        default: x2.arm64 spot b 0.0353 (6 types): next
        n1: lost
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn of_two_pods_that_are_nominated_to_one_place_the_one_of_higher_priority_has_it() {
    let of = |name: &str, priority: u32| {
        let mut pod = pod(name, "web", "2", "1Gi", &json!({"priority": priority}));
        merge(&mut pod, &json!({"status": {"nominatedNodeName": "n1"}}));
        pod
    };
    let objects = [
        any(),
        node("n1", "a", "2100m", "8Gi"),
        of("a", 0),
        of("b", 10),
    ];
    expect![[r#"
        default: x4.arm64 spot b 0.0706 (4 types): a
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn a_pod_whose_place_others_have_taken_is_planned_again_unless_they_end() {
    let mut nominated = pod("nominated", "web", "1", "1Gi", &json!({}));
    merge(
        &mut nominated,
        &json!({"status": {"nominatedNodeName": "n1"}}),
    );
    let mut other = pod("other", "web", "1500m", "1Gi", &json!({}));
    merge(
        &mut other,
        &json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}),
    );
    let objects = |other: &serde_json::Value| {
        [
            any(),
            node("n1", "a", "2100m", "8Gi"),
            nominated.clone(),
            other.clone(),
        ]
    };
    expect![[r#"
        default: x2.arm64 spot b 0.0353 (6 types): nominated
    "#]]
    .assert_eq(&plan(&objects(&other)));
    merge(
        &mut other,
        &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    );
    expect![[""]].assert_eq(&plan(&objects(&other)));
}

#[test]
fn volumes_decide_the_zone() {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"}, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"},
    });
    let terms = json!([{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["c"]}]}]);
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "v"}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
    });
    let mount =
        json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
    let missing =
        json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "gone"}}]});
    let objects = [
        any(),
        claim,
        volume,
        pod("db", "db", "1", "1Gi", &mount),
        pod("lost", "db", "1", "1Gi", &missing),
    ];
    expect![[r#"
        default: x2.arm64 spot c 0.0367 (6 types): db
        left lost: pod Volume("its PersistentVolumeClaim gone does not exist")
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn a_pod_that_is_one_too_many_in_its_zone_is_planned_again() {
    let rule = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                       "labelSelector": {"matchLabels": {"app": "web"}}}]);
    let web = |name: &str, more: serde_json::Value| {
        let mut pod = pod(
            name,
            "web",
            "1",
            "1Gi",
            &json!({"topologySpreadConstraints": rule}),
        );
        merge(&mut pod, &more);
        pod
    };
    let on = |name: &str, node: &str| {
        web(
            name,
            json!({"spec": {"nodeName": node}, "status": {"phase": "Running"}}),
        )
    };
    let nominated =
        |name: &str, node: &str| web(name, json!({"status": {"nominatedNodeName": node}}));
    let nodes = [
        any(),
        node("n1", "a", "8", "32Gi"),
        node("n2", "b", "8", "32Gi"),
        node("n3", "c", "8", "32Gi"),
    ];
    let planned = |pods: &[serde_json::Value]| plan(&[&nodes, pods].concat());
    // Two were meant for each zone. While all of them may still arrive, no pod is in the way.
    let [a, b] = [on("a", "n1"), on("b", "n2")];
    expect![[""]].assert_eq(&planned(&[
        a.clone(),
        b.clone(),
        nominated("c", "n3"),
        nominated("d", "n1"),
        nominated("e", "n2"),
    ]));
    // One that was meant for the third went to the first: there is one too many in it now, and too
    // few in the third.
    let other = on("other", "n1");
    expect![[r#"
        n3: d
    "#]]
    .assert_eq(&planned(&[
        a.clone(),
        b.clone(),
        other,
        nominated("d", "n1"),
        nominated("e", "n2"),
    ]));
    // Another pod nominated there gets the room, so it is not planned again.
    let mut large = pod("large", "jobs", "5500m", "1Gi", &json!({}));
    merge(&mut large, &json!({"status": {"nominatedNodeName": "n1"}}));
    expect![[r#"
        n3: d
    "#]]
    .assert_eq(&planned(&[
        a.clone(),
        b.clone(),
        on("other", "n1"),
        nominated("d", "n1"),
        nominated("e", "n2"),
        large,
    ]));
    // But if a pod is planned for the third anyway, all may stay where they are.
    let next = web("next", json!({}));
    expect![[r#"
        n3: next
    "#]]
    .assert_eq(&planned(&[
        a,
        b,
        nominated("d", "n1"),
        nominated("e", "n2"),
        next,
    ]));
}

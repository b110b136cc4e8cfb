//! What kube-scheduler 1.36 was seen to do and a planner would not guess.

use std::sync::Arc;

use longshore_core::kube_scheduler::simulate;
use longshore_core::model::Settings;
use longshore_core::planner::{self, PlanOptions};
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use serde_json::{Value, json};

use super::{any, merge, node, plan, pod, pool, running, world};

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

fn rule(kind: &str, terms: &[(&str, Value)]) -> Value {
    let terms: Vec<Value> = terms
        .iter()
        .map(|(key, labels)| json!({"topologyKey": key, "labelSelector": {"matchLabels": labels}}))
        .collect();
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

fn web() -> Value {
    json!({"app": "web"})
}

fn with(mut object: Value, patch: &Value) -> Value {
    merge(&mut object, patch);
    object
}

fn terminating(pod: Value) -> Value {
    with(
        pod,
        &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    )
}

/// A node without some label.
fn without(mut node: Value, label: &str) -> Value {
    node["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove(label);
    node
}

fn small(name: &str, app: &str, patch: &Value) -> Value {
    pod(name, app, "500m", "64Mi", patch)
}

#[test]
fn the_first_of_its_kind_may_go_anywhere_while_no_such_pod_has_a_domain() {
    let zonal = rule("podAffinity", &[(ZONE, web())]);
    let objects = [
        node("n1", "a", "4", "8Gi"),
        without(node("n2", "a", "200m", "8Gi"), ZONE),
        running("r", "web", "n2", &json!({})),
        small("w", "web", &zonal),
        small("other", "other", &json!({})),
    ];
    assert_eq!(plan(&objects), "n1: other w\n");
}

#[test]
fn a_pod_that_matches_one_of_two_affinity_terms_is_no_company() {
    let both = rule(
        "podAffinity",
        &[(ZONE, json!({"a": "1"})), (ZONE, json!({"b": "1"}))],
    );
    let labelled = |name: &str, labels: Value| {
        with(
            running(name, "x", "n1", &json!({})),
            &json!({"metadata": {"labels": labels}}),
        )
    };
    let mut objects = vec![
        any(),
        node("n1", "a", "4", "8Gi"),
        labelled("a", json!({"a": "1"})),
        labelled("b", json!({"b": "1"})),
        small("w", "web", &both),
    ];
    let text = plan(&objects);
    assert!(
        text.starts_with("left w: default Affinity") && text.lines().count() == 1,
        "{text}"
    );
    objects.push(labelled("ab", json!({"a": "1", "b": "1"})));
    assert_eq!(plan(&objects), "n1: w\n");
}

#[test]
fn terminating_pods_count_for_affinity_and_anti_affinity_and_not_for_spread() {
    let gone = || terminating(running("r", "web", "n1", &json!({})));
    let nodes = || vec![node("n1", "a", "4", "8Gi"), node("n2", "b", "4", "8Gi")];
    let planned = |running: Value, patch: &Value| {
        let mut objects = nodes();
        objects.extend([running, small("w", "web", patch)]);
        plan(&objects)
    };
    let apart = rule("podAntiAffinity", &[(HOST, web())]);
    assert_eq!(planned(gone(), &apart), "n2: w\n");
    let beside = rule("podAffinity", &[(ZONE, web())]);
    assert_eq!(planned(gone(), &beside), "n1: w\n");
    let its_own = with(gone(), &json!({"spec": apart}));
    assert_eq!(planned(its_own, &json!({})), "n2: w\n");
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": web()},
    }]});
    assert_eq!(planned(gone(), &spread), "n1: w\n");
}

#[test]
fn anti_affinity_over_a_label_that_a_node_lacks_holds_there() {
    let apart = rule("podAntiAffinity", &[("rack", web())]);
    let three = |objects: Vec<Value>| {
        let pods = (1..=3).map(|n| small(&format!("w{n}"), "web", &apart));
        plan(&objects.into_iter().chain(pods).collect::<Vec<_>>())
    };
    let full = || node("n1", "a", "4", "8Gi");
    assert_eq!(
        three(vec![full(), running("r", "web", "n1", &apart)]),
        "n1: w1 w2 w3\n"
    );
    let racked = with(full(), &json!({"metadata": {"labels": {"rack": "r"}}}));
    let bought = three(vec![racked, running("r", "web", "n1", &apart), any()]);
    assert!(
        bought.starts_with("default: ") && bought.ends_with(": w1 w2 w3\n"),
        "{bought}"
    );
    let racks = json!([{"key": "rack", "operator": "In", "values": ["r1", "r2"]}]);
    let kept_apart = three(vec![pool("racks", racks, &json!({}))]);
    assert_eq!(kept_apart.matches("racks: ").count(), 2, "{kept_apart}");
    assert!(kept_apart.contains("left w3"), "{kept_apart}");
}

#[test]
fn a_label_that_a_new_node_must_not_have_is_not_given_to_it_by_others() {
    let apart = rule("podAntiAffinity", &[("rack", web())]);
    let racked = |name: &str, rack: &str| {
        with(
            node(name, "a", "200m", "8Gi"),
            &json!({"metadata": {"labels": {"rack": rack}}}),
        )
    };
    let spread = json!({
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "db"}},
        }],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [
                {"key": "rack", "operator": "NotIn", "values": ["r9"]},
            ]}],
        }}},
    });
    let mut objects = vec![any(), racked("n1", "r1"), racked("n2", "r2")];
    objects.extend((1..=2).map(|n| small(&format!("w{n}"), "web", &apart)));
    objects.extend((1..=2).map(|n| small(&format!("d{n}"), "db", &spread)));
    let text = plan(&objects);
    assert!(
        !text.contains("BreaksPlan") && !text.contains("left"),
        "{text}"
    );
}

fn claim(name: &str, patch: &Value) -> Value {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "late",
            "resources": {"requests": {"storage": "2Gi"}}},
    });
    with(claim, patch)
}

fn bound(name: &str, volume: &str) -> Value {
    claim(
        name,
        &json!({"spec": {"volumeName": volume}, "status": {"phase": "Bound"}}),
    )
}

fn volume(name: &str, patch: &Value) -> Value {
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "late",
            "capacity": {"storage": "4Gi"}, "csi": {"driver": "x.csi", "volumeHandle": name}},
    });
    with(volume, patch)
}

fn class(provisioner: &str, patch: &Value) -> Value {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
        "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
    });
    with(class, patch)
}

fn mounts(claim: &str) -> Value {
    json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]})
}

fn two_nodes() -> Vec<Value> {
    vec![
        any(),
        node("n1", "a", "4", "8Gi"),
        node("n2", "b", "4", "8Gi"),
    ]
}

#[test]
fn a_claim_for_one_pod_serves_one_pod() {
    let one = json!({"spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": "v"}});
    let shared = || {
        vec![
            claim("c", &one),
            volume("v", &json!({})),
            class("x.csi", &json!({})),
        ]
    };
    let refused = |text: &str, user: &str| {
        let words = format!("is ReadWriteOncePod, and pod {user} uses it");
        assert!(text.contains("left ") && text.contains(&words), "{text}");
    };
    let user = || running("user", "web", "n1", &mounts("c"));
    for user in [user(), terminating(user())] {
        let objects = [
            two_nodes(),
            shared(),
            vec![user, small("w", "web", &mounts("c"))],
        ];
        refused(&plan(&objects.concat()), "user");
    }
    let waiting = vec![
        small("w1", "web", &mounts("c")),
        small("w2", "web", &mounts("c")),
    ];
    let text = plan(&[two_nodes(), shared(), waiting].concat());
    assert!(text.starts_with("n1: w1\n"), "{text}");
    refused(&text, "w1");
}

#[test]
fn a_volume_that_is_to_be_made_for_a_node_keeps_its_pod_there() {
    let selected = |node: &str| {
        let note = json!({"volume.kubernetes.io/selected-node": node});
        claim("c", &json!({"metadata": {"annotations": note}}))
    };
    let planned = |node: &str| {
        let rest = vec![
            selected(node),
            class("x.csi", &json!({})),
            small("w", "web", &mounts("c")),
        ];
        plan(&[two_nodes(), rest].concat())
    };
    assert_eq!(planned("n2"), "n2: w\n");
    let text = planned("gone");
    assert!(
        text.starts_with("left w: ") && text.contains("which does not exist"),
        "{text}"
    );
}

#[test]
fn zone_labels_of_a_volume_count_without_its_node_affinity() {
    let planned = |zone: &str| {
        let labels = json!({"metadata": {"labels": {ZONE: zone}}});
        let rest = vec![
            bound("c", "v"),
            volume("v", &labels),
            small("w", "web", &mounts("c")),
        ];
        plan(&[two_nodes(), rest].concat())
    };
    assert_eq!(planned("b"), "n2: w\n");
    assert_eq!(planned("a__b"), "n1: w\n");
    assert!(planned("c").contains(" c "), "{}", planned("c"));
}

#[test]
fn a_region_that_a_volume_has_by_its_beta_name_counts_as_its_zone_does() {
    let beta = "failure-domain.beta.kubernetes.io/region";
    let planned = |labels: &Value| {
        let in_region = json!({"metadata": {"labels": {beta: "r1"}}});
        plan(&[
            with(
                node("n1", "a", "4", "8Gi"),
                &json!({"metadata": {"labels": labels}}),
            ),
            bound("c", "v"),
            volume("v", &in_region),
            small("w", "web", &mounts("c")),
        ])
    };
    let region = "topology.kubernetes.io/region";
    assert_eq!(planned(&json!({region: "r1"})), "n1: w\n");
    assert_eq!(planned(&json!({beta: "r1"})), "n1: w\n");
    assert!(planned(&json!({region: "r2"})).starts_with("left w: "));
    // A node of a zone that says nothing of its region.
    assert!(planned(&json!({})).starts_with("left w: "));
}

#[test]
fn a_claim_that_names_a_volume_of_another_claim_is_waited_for() {
    let planned = |kept_for: &str, phase: &str, done: bool| {
        let patch = json!({
            "spec": {"claimRef": {"namespace": "default", "name": kept_for}},
            "status": {"phase": phase},
        });
        let status = if done { "Bound" } else { "Pending" };
        let named = json!({"spec": {"volumeName": "v"}, "status": {"phase": status}});
        let rest = vec![
            claim("c", &named),
            volume("v", &patch),
            small("w", "web", &mounts("c")),
        ];
        plan(&[two_nodes(), rest].concat())
    };
    assert_eq!(planned("c", "Bound", true), "n1: w\n");
    assert_eq!(planned("c", "Available", false), "n1: w\n");
    let text = planned("other", "Bound", false);
    assert!(
        text.contains("v of its claim c is kept for another claim"),
        "{text}"
    );
    let text = planned("c", "Released", false);
    assert!(text.contains("v of its claim c is released"), "{text}");
}

#[test]
fn a_spread_constraint_whose_selector_has_no_rules_counts_no_pod() {
    let spread = |required: &str| {
        json!({"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": required, "labelSelector": {},
        }]})
    };
    let objects = |required: &str| {
        [
            node("n1", "a", "4", "8Gi"),
            node("n2", "b", "200m", "8Gi"),
            running("r1", "web", "n1", &json!({})),
            running("r2", "web", "n1", &json!({})),
            small("w", "web", &spread(required)),
        ]
    };
    for required in ["DoNotSchedule", "ScheduleAnyway"] {
        assert_eq!(plan(&objects(required)), "n1: w\n");
        assert_eq!(bound_by_the_model(&objects(required)), [1; 4]);
    }
}

#[test]
fn volumes_that_people_make_are_used_where_they_are() {
    let by_hand = || class("kubernetes.io/no-provisioner", &json!({}));
    let on = |node: &str| {
        json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]},
        ]}}}})
    };
    let planned = |volumes: Vec<Value>| {
        let rest = vec![
            by_hand(),
            claim("c", &json!({})),
            small("w", "web", &mounts("c")),
        ];
        plan(&[two_nodes(), volumes, rest].concat())
    };
    let text = planned(Vec::new());
    assert!(
        text.contains("no PersistentVolume of StorageClass late is free"),
        "{text}"
    );
    assert_eq!(planned(vec![volume("v", &on("n2"))]), "n2: w\n");
    let tiny = with(
        volume("v", &on("n2")),
        &json!({"spec": {"capacity": {"storage": "1Gi"}}}),
    );
    assert!(planned(vec![tiny]).starts_with("left w"));
    let taken = json!({"status": {"phase": "Released"}});
    assert!(planned(vec![with(volume("v", &on("n2")), &taken)]).starts_with("left w"));
}

fn by_hand() -> Value {
    class("kubernetes.io/no-provisioner", &json!({}))
}

/// A PersistentVolume that nodes with a value of a label can use.
fn volume_at(name: &str, label: &str, value: &str, size: &str) -> Value {
    let terms =
        json!([{"matchExpressions": [{"key": label, "operator": "In", "values": [value]}]}]);
    let affinity = json!({"required": {"nodeSelectorTerms": terms}});
    volume(
        name,
        &json!({"spec": {"capacity": {"storage": size}, "nodeAffinity": affinity}}),
    )
}

/// Pods `w1`, `w2`, … with a claim each, of so many gibibytes.
fn with_claims(cpu: &str, sizes: &[u32]) -> Vec<Value> {
    let of = |(n, size): (usize, &u32)| {
        let size = format!("{size}Gi");
        let asks = json!({"spec": {"resources": {"requests": {"storage": size}}}});
        let (name, c) = (format!("w{}", n + 1), format!("c{}", n + 1));
        [
            claim(&c, &asks),
            pod(&name, "web", cpu, "64Mi", &mounts(&c)),
        ]
    };
    sizes.iter().enumerate().flat_map(of).collect()
}

#[test]
fn a_volume_that_is_there_serves_one_claim() {
    let words = "every PersistentVolume that fits its claim c2 goes to another claim";
    let planned = |volumes: Vec<Value>, pods: Vec<Value>| {
        let objects = [two_nodes(), vec![by_hand()], volumes, pods].concat();
        let bound = bound_by_the_model(&objects);
        assert!(bound.iter().all(|pods| *pods == bound[0]), "{bound:?}");
        (plan(&objects), bound[0])
    };
    let (text, bound) = planned(
        vec![volume_at("v", HOST, "n2", "4Gi")],
        with_claims("500m", &[2, 2]),
    );
    assert!(text.starts_with("n2: w1\nleft w2: pod "), "{text}");
    assert!(text.contains(words) && bound == 1, "{text}");
    // Wherever it can be used, also on a new node.
    let (text, bound) = planned(vec![volume("v", &json!({}))], with_claims("5", &[2, 2]));
    assert!(text.starts_with("default: "), "{text}");
    assert_eq!(text.matches("default: ").count(), 1, "{text}");
    assert!(text.contains(words) && bound == 1, "{text}");
    // Each of two claims of one pod has its own.
    let both = json!({"volumes": [
        {"name": "v1", "persistentVolumeClaim": {"claimName": "c1"}},
        {"name": "v2", "persistentVolumeClaim": {"claimName": "c2"}},
    ]});
    let two_of_one = || {
        let claims = [claim("c1", &json!({})), claim("c2", &json!({}))];
        [&claims[..], &[small("w", "web", &both)]].concat()
    };
    let one = || volume_at("v", HOST, "n2", "4Gi");
    let (text, bound) = planned(vec![one()], two_of_one());
    assert!(text.starts_with("left w: pod ") && bound == 0, "{text}");
    assert!(text.contains(words), "{text}");
    let other = volume_at("u", HOST, "n1", "4Gi");
    let (text, bound) = planned(vec![one(), other], two_of_one());
    assert!(text.starts_with("left w: ") && bound == 0, "{text}");
    let beside = volume_at("u", HOST, "n2", "4Gi");
    let (text, bound) = planned(vec![one(), beside], two_of_one());
    assert_eq!((text.as_str(), bound), ("n2: w\n", 1));
}

#[test]
fn a_claim_is_given_the_smallest_volume_that_fits() {
    let planned = |volumes: Vec<Value>, sizes: &[u32]| {
        let rest = vec![by_hand()];
        plan(&[two_nodes(), rest, volumes, with_claims("500m", sizes)].concat())
    };
    let sizes = || {
        vec![
            volume_at("large", HOST, "n1", "9Gi"),
            volume_at("small", HOST, "n1", "4Gi"),
        ]
    };
    assert_eq!(planned(sizes(), &[2, 8]), "n1: w1 w2\n");
    let text = planned(sizes(), &[8, 8]);
    assert!(text.starts_with("n1: w1\nleft w2"), "{text}");
    // One that is kept for the claim is its only one, whatever its modes.
    let kept = json!({"spec": {"accessModes": ["ReadOnlyMany"],
        "claimRef": {"namespace": "default", "name": "c1"}}});
    let kept = with(volume_at("kept", HOST, "n2", "9Gi"), &kept);
    let with_it = |kept: Value| planned([sizes(), vec![kept]].concat(), &[2]);
    assert_eq!(with_it(kept.clone()), "n2: w1\n");
    // Unless that was another claim of the same name, which is gone.
    let gone = with(kept, &json!({"status": {"phase": "Released"}}));
    assert_eq!(with_it(gone), "n1: w1\n");
}

#[test]
fn volumes_that_are_there_come_before_those_that_are_made() {
    let topology = json!({"allowedTopologies": [{"matchLabelExpressions": [
        {"key": ZONE, "values": ["a"]},
    ]}]});
    let objects = [
        vec![
            node("n1", "a", "600m", "8Gi"),
            node("n2", "b", "4", "8Gi"),
            class("x.csi", &topology),
            volume_at("v", ZONE, "b", "4Gi"),
        ],
        with_claims("500m", &[2, 2, 2]),
    ];
    let text = plan(&objects.concat());
    assert!(text.starts_with("n1: w1\nn2: w2\nleft w3"), "{text}");
    assert_eq!(bound_by_the_model(&objects.concat()), [2; 4]);
    // New nodes for the others are where volumes can be made.
    let text = plan(&[objects.concat(), vec![any()]].concat());
    assert!(text.contains(" spot a "), "{text}");
}

#[test]
fn a_pod_that_is_about_to_be_bound_has_its_volume() {
    let nominated = json!({"status": {"nominatedNodeName": "n2"}});
    let mut pods = with_claims("500m", &[2, 2]);
    merge(&mut pods[1], &nominated);
    let planned =
        |volumes: Vec<Value>| plan(&[two_nodes(), vec![by_hand()], volumes, pods.clone()].concat());
    let text = planned(vec![volume_at("v", HOST, "n2", "4Gi")]);
    assert!(
        text.starts_with("left w2: ") && text.contains("is free and fits its claim c2"),
        "{text}"
    );
    let two = vec![
        volume_at("v", HOST, "n2", "4Gi"),
        volume_at("u", HOST, "n1", "4Gi"),
    ];
    assert_eq!(planned(two), "n1: w2\n");
}

#[test]
fn a_local_volume_whose_node_is_gone_is_waited_for() {
    let local = |node: &str| {
        json!({"spec": {"csi": null, "local": {"path": "/d"}, "nodeAffinity": {"required": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]},
        ]}}}})
    };
    let planned = |node: &str| {
        let rest = vec![
            bound("c", "v"),
            volume("v", &local(node)),
            small("w", "web", &mounts("c")),
        ];
        plan(&[two_nodes(), rest].concat())
    };
    assert_eq!(planned("n2"), "n2: w\n");
    assert!(
        planned("gone").contains("local to a node that does not exist"),
        "{}",
        planned("gone")
    );
}

#[test]
fn a_driver_that_counts_its_room_makes_volumes_where_there_is_some() {
    let driver = || {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
            "metadata": {"name": "x.csi"}, "spec": {"storageCapacity": true}})
    };
    let room = |size: &str, zone: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": {"name": zone, "namespace": "default"}, "storageClassName": "late",
            "capacity": size, "nodeTopology": {"matchLabels": {ZONE: zone}}})
    };
    let planned = |more: Vec<Value>| {
        let waits = small("w", "web", &mounts("c"));
        let rest = vec![class("x.csi", &json!({})), claim("c", &json!({})), waits];
        plan(&[two_nodes(), more, rest].concat())
    };
    assert_eq!(planned(Vec::new()), "n1: w\n");
    let text = planned(vec![driver()]);
    assert!(
        text.contains("no CSIStorageCapacity of StorageClass late"),
        "{text}"
    );
    assert!(planned(vec![driver(), room("1Gi", "a")]).starts_with("left w"));
    assert_eq!(
        planned(vec![driver(), room("1Gi", "a"), room("9Gi", "b")]),
        "n2: w\n"
    );
}

#[test]
fn a_new_node_brings_room_of_its_own_where_volumes_are_made_on_the_node() {
    let own = "example.com/node";
    let driver = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
        "metadata": {"name": "x.csi"}, "spec": {"storageCapacity": true}});
    let room = |size: &str, key: &str, value: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": {"name": value, "namespace": "default"}, "storageClassName": "late",
            "capacity": size, "nodeTopology": {"matchLabels": {key: value}}})
    };
    let nodes = |second: &str| {
        let label =
            |node: Value, value: &str| with(node, &json!({"metadata": {"labels": {own: value}}}));
        vec![
            label(node("n1", "a", "4", "8Gi"), "n1"),
            label(node("n2", "b", "4", "8Gi"), second),
        ]
    };
    let planned = |nodes: Vec<Value>, rooms: Vec<Value>| {
        let waits = small("w", "web", &mounts("c"));
        let rest = vec![
            driver.clone(),
            class("x.csi", &json!({})),
            claim("c", &json!({})),
            waits,
            any(),
        ];
        plan(&[nodes, rooms, rest].concat())
    };
    let full = || vec![room("1Gi", own, "n1"), room("1Gi", own, "n2")];
    let bought = planned(nodes("n2"), full());
    assert!(bought.starts_with("default: "), "{bought}");
    let free = vec![room("1Gi", own, "n1"), room("9Gi", own, "n2")];
    assert_eq!(planned(nodes("n2"), free), "n2: w\n");
    // Nodes share this one, so that it is no node's own.
    let shared = planned(nodes("n1"), full());
    assert!(shared.starts_with("left w"), "{shared}");
    let zonal = planned(
        nodes("n2"),
        vec![room("1Gi", ZONE, "a"), room("1Gi", ZONE, "b")],
    );
    assert!(zonal.starts_with("left w"), "{zonal}");
}

#[test]
fn the_beta_name_of_a_zone_is_another_label_until_nodes_carry_it() {
    let beta = "failure-domain.beta.kubernetes.io/zone";
    let topology = json!({"allowedTopologies": [{"matchLabelExpressions": [
        {"key": beta, "values": ["a"]},
    ]}]});
    let planned = |nodes: Vec<Value>| {
        let waits = small("w", "web", &mounts("c"));
        let rest = vec![class("x.csi", &topology), claim("c", &json!({})), waits];
        plan(&[nodes, rest].concat())
    };
    assert!(
        planned(two_nodes()).starts_with("left w: "),
        "{}",
        planned(two_nodes())
    );
    let mut carried = two_nodes();
    merge(
        &mut carried[1],
        &json!({"metadata": {"labels": {beta: "a"}}}),
    );
    assert_eq!(planned(carried), "n1: w\n");
}

#[test]
fn a_rule_over_the_beta_name_of_a_zone_goes_by_what_nodes_carry() {
    let beta = "failure-domain.beta.kubernetes.io/zone";
    let planned = |kind: &str, labels: &Value| {
        plan(&[
            with(
                node("n1", "a", "4", "8Gi"),
                &json!({"metadata": {"labels": labels}}),
            ),
            running("r", "web", "n1", &json!({})),
            small("w", "web", &rule(kind, &[(beta, web())])),
        ])
    };
    let carried = json!({beta: "a"});
    assert_eq!(planned("podAntiAffinity", &json!({})), "n1: w\n");
    assert!(planned("podAntiAffinity", &carried).starts_with("left w: "));
    assert!(planned("podAffinity", &json!({})).starts_with("left w: "));
    assert_eq!(planned("podAffinity", &carried), "n1: w\n");
}

#[test]
fn new_nodes_are_taken_to_carry_the_beta_name_where_others_do() {
    let beta = "failure-domain.beta.kubernetes.io/zone";
    let old = node("n1", "a", "100m", "8Gi");
    let planned = |old: Value| {
        let waits = small("w", "web", &rule("podAffinity", &[(beta, web())]));
        plan(&[any(), old, waits])
    };
    assert!(planned(old.clone()).starts_with("left w: "));
    let carried = with(old, &json!({"metadata": {"labels": {beta: "a"}}}));
    let text = planned(carried);
    assert!(text.contains("w") && !text.starts_with("left"), "{text}");
}

fn limited(to: u32) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n1"},
        "spec": {"drivers": [{"name": "x.csi", "nodeID": "n1", "allocatable": {"count": to}}]}})
}

#[test]
fn volumes_of_one_handle_are_one_and_attachments_count_without_a_pod() {
    let handle = json!({"spec": {"csi": {"volumeHandle": "same"}}});
    let objects = |more: Vec<Value>, second: &Value| {
        let own = vec![
            node("n1", "a", "4", "8Gi"),
            limited(1),
            bound("c1", "v1"),
            bound("c2", "v2"),
            volume("v1", &handle),
            volume("v2", second),
            small("w", "web", &mounts("c2")),
        ];
        plan(&[own, more].concat())
    };
    let runs = || running("r", "web", "n1", &mounts("c1"));
    assert_eq!(objects(vec![runs()], &handle), "n1: w\n");
    assert!(objects(vec![runs()], &json!({})).starts_with("left w"));
    let attached = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": "a"}, "spec": {"attacher": "x.csi", "nodeName": "n1",
            "source": {"persistentVolumeName": "v1"}}});
    assert!(objects(vec![attached], &json!({})).starts_with("left w"));
    assert_eq!(objects(Vec::new(), &json!({})), "n1: w\n");
}

#[test]
fn a_pod_that_needs_a_feature_of_the_kubelet_goes_to_nodes_that_declare_it() {
    let needs = json!({"containers": [{"name": "c", "restartPolicy": "Never",
        "restartPolicyRules": [{"action": "RestartAllContainers"}],
        "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}}]});
    let feature = "RestartAllContainersOnContainerExits";
    let declares = json!({"status": {"declaredFeatures": [feature]}});
    let objects = |more: Vec<Value>| {
        let own = vec![node("n1", "a", "4", "8Gi"), small("w", "web", &needs)];
        plan(&[own, more].concat())
    };
    assert!(objects(Vec::new()).starts_with("left w"));
    let declaring = with(node("n2", "b", "4", "8Gi"), &declares);
    assert_eq!(objects(vec![declaring]), "n2: w\n");
    // A new kubelet is taken to declare it.
    assert!(
        objects(vec![any()]).starts_with("default: "),
        "{}",
        objects(vec![any()])
    );
}

#[test]
fn a_cordoned_node_takes_nobody_with_or_without_its_taint() {
    let cordoned = with(
        node("n1", "a", "4", "8Gi"),
        &json!({"spec": {"unschedulable": true}}),
    );
    let text = plan(&[cordoned.clone(), small("w", "web", &json!({}))]);
    assert!(text.starts_with("left w"), "{text}");
    let tolerates = json!({"tolerations": [
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
    ]});
    assert_eq!(plan(&[cordoned, small("w", "web", &tolerates)]), "n1: w\n");
}

#[test]
fn a_node_without_a_hostname_is_no_host() {
    let nameless = || without(node("n1", "a", "4", "8Gi"), HOST);
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": web()},
    }]});
    assert!(plan(&[nameless(), small("w", "web", &spread)]).starts_with("left w"));
    let apart = rule("podAntiAffinity", &[(HOST, web())]);
    let objects = [
        nameless(),
        running("r", "web", "n1", &apart),
        small("w", "web", &apart),
    ];
    assert_eq!(plan(&objects), "n1: w\n");
}

#[test]
fn what_dynamic_resource_allocation_gives_is_refused_by_name() {
    let asks = |resource: &str| {
        let amounts = json!({"cpu": "500m", resource: "1"});
        json!({"containers": [{"name": "c", "resources": {"requests": amounts, "limits": {resource: "1"}}}]})
    };
    let text = plan(&[any(), small("w", "web", &asks("example.com/gpu"))]);
    assert!(text.starts_with("left w: pod NoSuchResource"), "{text}");
    let device = json!({"status": {"allocatable": {"example.com/gpu": "1"}}});
    let has = with(node("n1", "a", "4", "8Gi"), &device);
    assert_eq!(
        plan(&[has, small("w", "web", &asks("example.com/gpu"))]),
        "n1: w\n"
    );
}

#[test]
fn pods_of_a_group_are_not_planned_for() {
    let group = json!({"schedulingGroup": {"podGroupName": "train"}});
    let objects = [node("n1", "a", "4", "8Gi"), small("w", "web", &group)];
    assert!(
        plan(&objects).contains("names PodGroup `train`"),
        "{}",
        plan(&objects)
    );
}

#[test]
fn a_pod_that_is_resized_leaves_the_room_that_kube_scheduler_sees() {
    let resized = |spec: &str, has: &str, reason: &str| {
        let patch = json!({
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": spec}}}]},
            "status": {
                "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": has},
                    "resources": {"requests": {"cpu": has}}}],
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
            },
        });
        let pod = with(running("r", "web", "n1", &json!({})), &patch);
        let big = pod_of("2500m");
        plan(&[node("n1", "a", "4", "8Gi"), pod, big])
    };
    assert_eq!(resized("3", "1", "Infeasible"), "n1: big\n");
    assert!(resized("3", "1", "Deferred").starts_with("left big"));
    assert!(resized("1", "3", "").starts_with("left big"));
}

fn pod_of(cpu: &str) -> Value {
    pod("big", "web", cpu, "64Mi", &json!({}))
}

fn over_hosts(patch: &Value) -> Value {
    let rule = json!({
        "maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": web()},
    });
    json!({"topologySpreadConstraints": [with(rule, patch)]})
}

/// How many pods the model of kube-scheduler binds in each of some runs of a plan.
fn bound_by_the_model(objects: &[Value]) -> Vec<usize> {
    let snapshot = Snapshot::new(Arc::new(world(objects, Settings::default())));
    let plan = planner::plan(&snapshot, &ByPrice, PlanOptions::default()).unwrap();
    let runs = (0..4).map(|seed| simulate(&snapshot, &plan, seed));
    runs.map(|run| run.placements.len()).collect()
}

#[test]
fn hosts_are_compared_with_the_nodes_that_are_there() {
    let one_each = |nodes: &[&str]| -> Vec<Value> {
        let on = |name: &&str| {
            let pod = running(&format!("r-{name}"), "web", name, &json!({}));
            vec![node(name, "a", "4", "8Gi"), pod]
        };
        nodes.iter().flat_map(on).collect()
    };
    let waits = || small("w", "web", &over_hosts(&json!({})));
    // One node that the pod can use has one of them already: there is nothing to be even with.
    let own = json!({"metadata": {"labels": {"disk": "ssd"}}});
    let mut one = one_each(&["n1"]);
    merge(&mut one[0], &own);
    let picky = with(waits(), &json!({"spec": {"nodeSelector": {"disk": "ssd"}}}));
    let others = vec![node("n2", "a", "4", "8Gi"), picky.clone()];
    let alone = [one, others].concat();
    assert_eq!(plan(&alone), "n1: w\n");
    assert_eq!(bound_by_the_model(&alone), [1; 4]);
    // So it is where a node could be bought.
    assert_eq!(plan(&[alone, vec![any()]].concat()), "n1: w\n");
    // Each of three has one.
    let mut even = one_each(&["n1", "n2", "n3"]);
    even.push(waits());
    assert_eq!(plan(&even), "n1: w\n");
    assert_eq!(bound_by_the_model(&even), [1; 4]);
    // A fourth that has none, also without room or with a taint, is compared.
    let taint = json!({"spec": {"taints": [{"key": "own", "effect": "NoSchedule"}]}});
    for empty in [
        node("n4", "a", "100m", "8Gi"),
        with(node("n4", "a", "4", "8Gi"), &taint),
    ] {
        let uneven = [even.clone(), vec![empty]].concat();
        assert!(plan(&uneven).starts_with("left w"), "{}", plan(&uneven));
        assert_eq!(bound_by_the_model(&uneven), [0; 4]);
    }
    // With its taint it is not if the constraint honors taints.
    let honors = small(
        "w",
        "web",
        &over_hosts(&json!({"nodeTaintsPolicy": "Honor"})),
    );
    let tainted = with(node("n4", "a", "4", "8Gi"), &taint);
    let honored = [one_each(&["n1", "n2"]), vec![tainted, honors]].concat();
    assert_eq!(plan(&honored), "n1: w\n");
    assert_eq!(bound_by_the_model(&honored), [1; 4]);
}

#[test]
fn too_few_hosts_or_one_on_its_way_out_make_the_fewest_none() {
    let pair = |patch: &Value| {
        vec![
            node("n1", "a", "4", "8Gi"),
            node("n2", "a", "4", "8Gi"),
            running("r1", "web", "n1", &json!({})),
            running("r2", "web", "n2", &json!({})),
            small("w", "web", &over_hosts(patch)),
        ]
    };
    assert_eq!(plan(&pair(&json!({"minDomains": 2}))), "n1: w\n");
    assert!(plan(&pair(&json!({"minDomains": 3}))).starts_with("left w"));
    assert_eq!(bound_by_the_model(&pair(&json!({"minDomains": 3}))), [0; 4]);
    // Its pods go before it does.
    let leaves = with(
        node("n3", "a", "4", "8Gi"),
        &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}}),
    );
    let leaving = [pair(&json!({})), vec![leaves]].concat();
    assert!(plan(&leaving).starts_with("left w"), "{}", plan(&leaving));
    assert_eq!(bound_by_the_model(&leaving), [0; 4]);
    let bought = plan(&[leaving, vec![any()]].concat());
    assert!(bought.starts_with("default: "), "{bought}");
}

#[test]
fn a_node_that_does_not_get_ready_is_a_host_without_pods() {
    let owned = json!({"karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true"});
    let waits = |made: &str, more: &Value| {
        let joined = json!({"metadata": {"labels": owned}, "spec": {"providerID": "n3"}});
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "c3", "labels": owned, "creationTimestamp": made},
            "spec": {"nodeClassRef": {
                "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default",
            }},
            "status": {"providerID": "n3", "nodeName": "n3"},
        });
        vec![
            any(),
            node("n1", "a", "4", "8Gi"),
            node("n2", "a", "4", "8Gi"),
            with(with(node("n3", "a", "4", "8Gi"), &joined), more),
            claim,
            running("r1", "web", "n1", &json!({})),
            running("r2", "web", "n2", &json!({})),
            small("w1", "web", &over_hosts(&json!({}))),
            small("w2", "web", &over_hosts(&json!({}))),
            small("w3", "web", &over_hosts(&json!({}))),
        ]
    };
    let (early, late) = ("1970-01-01T00:00:00Z", "1969-12-31T23:49:59Z");
    let not_ready = json!({"spec": {"taints": [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    ]}});
    // Once it is ready one of the pods is bound there, and then the others elsewhere.
    let text = plan(&waits(early, &not_ready));
    assert!(!text.contains("default: "), "{text}");
    // One that takes too long may never come: no other pod waits for it.
    let text = plan(&waits(late, &not_ready));
    assert!(
        text.starts_with("default: ") && text.contains("n3: w1\n"),
        "{text}"
    );
    let initialized = json!({"metadata": {"labels": {"karpenter.sh/initialized": "true"}}});
    let text = plan(&waits(late, &initialized));
    assert!(!text.contains("default: "), "{text}");
}

#[test]
fn new_nodes_begin_with_none_after_pods_are_bound_to_those_that_are_there() {
    let mut objects = vec![
        any(),
        node("n1", "a", "700m", "8Gi"),
        node("n2", "a", "700m", "8Gi"),
        running("r1", "web", "n1", &json!({})),
        running("r2", "web", "n2", &json!({})),
    ];
    objects.extend((1..=4).map(|n| small(&format!("w{n}"), "web", &over_hosts(&json!({})))));
    let text = plan(&objects);
    assert!(text.contains("n1: w1\nn2: w2\n"), "{text}");
    assert_eq!(text.matches("default: ").count(), 2, "{text}");
}

#[test]
fn the_first_pod_with_a_place_decides_where_the_volume_of_an_unbound_claim_is() {
    let waits = |name: &str, cpu: &str, patch: &Value| {
        with(
            pod(name, "web", cpu, "64Mi", &mounts("c")),
            &json!({"spec": patch}),
        )
    };
    let planned = |pods: &[Value], of_claim: &Value| {
        let rest = vec![claim("c", of_claim), class("x.csi", &json!({}))];
        plan(&[two_nodes(), rest, pods.to_vec()].concat())
    };
    let any_size = |cpu: &str| [waits("w1", cpu, &json!({})), waits("w2", cpu, &json!({}))];
    // Both on one node, or the second waits: its volume is made in the zone of the first.
    let words = "c is not bound, and pod w1, which uses it too, is placed first";
    assert_eq!(planned(&any_size("500m"), &json!({})), "n1: w1 w2\n");
    let text = planned(&any_size("2500m"), &json!({}));
    assert!(text.starts_with("n1: w1\n"), "{text}");
    assert!(
        text.contains("left w2: pod ") && text.contains(words),
        "{text}"
    );
    // One that can be bound at once decides, before one that needs a new node.
    let with_pool = |pods: &[Value]| {
        let rest = vec![claim("c", &json!({})), class("x.csi", &json!({}))];
        plan(&[two_nodes(), rest, pods.to_vec()].concat())
    };
    let text = with_pool(&[
        waits("w1", "6", &json!({})),
        waits("w2", "500m", &json!({})),
    ]);
    assert!(text.starts_with("n1: w2\n"), "{text}");
    assert!(text.contains("left w1: pod "), "{text}");
    assert!(!text.contains("default: "), "{text}");
    // The refusal of a pod without any place names a rule and no other pod.
    let nowhere = json!({"nodeSelector": {"disk": "none"}});
    let text = with_pool(&[
        waits("w1", "500m", &nowhere),
        waits("w2", "500m", &json!({})),
    ]);
    assert!(
        text.contains("left w1: ") && !text.contains("placed first"),
        "{text}"
    );
    // The first in the queue decides, not the largest.
    let sizes = [
        waits("w1", "500m", &json!({})),
        waits("w2", "3800m", &json!({})),
    ];
    let text = planned(&sizes, &json!({}));
    assert!(
        text.starts_with("n1: w1\n") && text.contains(words),
        "{text}"
    );
    // One without a place holds no other.
    let nowhere = json!({"nodeSelector": {"disk": "none"}});
    let held = [
        waits("w1", "500m", &nowhere),
        waits("w2", "500m", &json!({})),
    ];
    let text = planned(&held, &json!({}));
    assert!(
        text.starts_with("n1: w2\n") && text.contains("left w1"),
        "{text}"
    );
    let one_pod = json!({"spec": {"accessModes": ["ReadWriteOncePod"]}});
    let text = planned(&held, &one_pod);
    assert!(
        text.starts_with("n1: w2\n") && text.contains("left w1"),
        "{text}"
    );
    let text = planned(&any_size("500m"), &one_pod);
    assert!(
        text.starts_with("n1: w1\n") && text.contains("left w2"),
        "{text}"
    );
    // Once a node is chosen there is no more to decide, nor where the volume is there.
    let note = json!({"volume.kubernetes.io/selected-node": "n2"});
    let chosen = json!({"metadata": {"annotations": note}});
    assert_eq!(planned(&any_size("500m"), &chosen), "n2: w1 w2\n");
    let text = plan(
        &[
            two_nodes(),
            vec![bound("c", "v"), volume("v", &json!({}))],
            any_size("2500m").to_vec(),
        ]
        .concat(),
    );
    assert_eq!(text, "n1: w1\nn2: w2\n");
}

#[test]
fn pods_of_an_unbound_claim_share_a_new_node_or_wait() {
    let planned = |cpu: &str| {
        let mut objects = vec![any(), claim("c", &json!({})), class("x.csi", &json!({}))];
        objects.extend((1..=2).map(|n| pod(&format!("w{n}"), "web", cpu, "64Mi", &mounts("c"))));
        plan(&objects)
    };
    let text = planned("1500m");
    assert!(
        text.starts_with("default: ") && text.ends_with(": w1 w2\n"),
        "{text}"
    );
    let text = planned("5");
    assert_eq!(text.matches("default: ").count(), 1, "{text}");
    assert!(
        text.contains("left w2: pod ") && text.contains("pod w1, which"),
        "{text}"
    );
}

#[test]
fn a_nominated_pod_has_decided_where_the_volume_is() {
    let nominated = with(
        pod("w1", "web", "500m", "64Mi", &mounts("c")),
        &json!({"status": {"nominatedNodeName": "n2"}}),
    );
    let planned = |cpu: &str| {
        let waits = pod("w2", "web", cpu, "64Mi", &mounts("c"));
        let rest = vec![
            claim("c", &json!({})),
            class("x.csi", &json!({})),
            nominated.clone(),
            waits,
        ];
        plan(&[two_nodes(), rest].concat())
    };
    assert_eq!(planned("500m"), "n2: w2\n");
    let text = planned("3800m");
    assert!(
        text.starts_with("left w2: pod ") && text.contains("pod w1, which"),
        "{text}"
    );
}

#[test]
fn the_model_binds_pods_of_an_unbound_claim_to_one_node() {
    let rest = vec![claim("c", &json!({})), class("x.csi", &json!({}))];
    let pods = |cpu: &str| -> Vec<Value> {
        let of = |n: u32| pod(&format!("w{n}"), "web", cpu, "64Mi", &mounts("c"));
        (1..=2).map(of).collect()
    };
    let big = [two_nodes(), rest.clone(), pods("2500m")].concat();
    assert_eq!(bound_by_the_model(&big), [1; 4]);
    let little = [two_nodes(), rest, pods("500m")].concat();
    assert_eq!(bound_by_the_model(&little), [2; 4]);
}

#[test]
fn a_limit_below_zero_lets_nothing_be_bought() {
    let limited = |cpu: &str| pool("default", json!([]), &json!({"limits": {"cpu": cpu}}));
    let planned = |cpu: &str| plan(&[limited(cpu), small("w", "web", &json!({}))]);
    assert!(planned("8").starts_with("default: "), "{}", planned("8"));
    assert!(planned("-1").starts_with("left w"), "{}", planned("-1"));
}

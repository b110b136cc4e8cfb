//! Labels, taints, preferences.

use expect_test::expect;
use longshore_core::model::{PreferencePolicy, Settings};
use serde_json::{Value, json};

use super::{any, plan, plan_with, pod, pool};

fn affinity(kind: &str, value: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {kind: value}}})
}

fn required(terms: &Value) -> Value {
    affinity(
        "requiredDuringSchedulingIgnoredDuringExecution",
        json!({"nodeSelectorTerms": terms}),
    )
}

fn rule(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

#[test]
fn selectors_and_every_operator_narrow_the_node() {
    let term = |key, op, values: &[&str]| {
        required(&json!([{"matchExpressions": [rule(key, op, values)]}]))
    };
    let zone = "topology.kubernetes.io/zone";
    let cpu = "karpenter.kwok.sh/instance-cpu";
    let objects = [
        any(),
        pod("in", "p", "1", "1Gi", &term(zone, "In", &["c"])),
        pod("notin", "p", "1", "1Gi", &term(zone, "NotIn", &["b", "c"])),
        pod("gt", "p", "1", "1Gi", &term(cpu, "Gt", &["4"])),
        pod("lt", "p", "100m", "1Gi", &term(cpu, "Lt", &["2"])),
        pod("exists", "p", "1", "1Gi", &term("team", "Exists", &[])),
        pod(
            "absent",
            "p",
            "1",
            "1Gi",
            &term("team", "DoesNotExist", &[]),
        ),
    ];
    expect![[r#"
        default: x1.arm64 spot b 0.0176 (2 types): lt
        default: x2.arm64 spot c 0.0367 (6 types): in
        default: x8.arm64 spot a 0.1440 (2 types): absent gt notin
        left exists: default label team
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn contradictory_selectors_are_told_apart() {
    let arch = "kubernetes.io/arch";
    let terms = json!([{"matchExpressions": [rule(arch, "In", &["amd64"]), rule(arch, "NotIn", &["amd64"])]}]);
    let objects = [any(), pod("torn", "p", "1", "1Gi", &required(&terms))];
    expect![[r#"
        left torn: default label kubernetes.io/arch
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn the_second_term_of_required_affinity_is_tried_when_the_first_fails() {
    let zone = "topology.kubernetes.io/zone";
    let terms = json!([{"matchExpressions": [rule(zone, "In", &["mars"])]}, {"matchExpressions": [rule(zone, "In", &["a"])]}]);
    let objects = [any(), pod("p", "p", "1", "1Gi", &required(&terms))];
    expect![[r#"
        default: x2.arm64 spot a 0.0360 (6 types): p
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn preferences_are_kept_where_they_can_be_and_given_up_heaviest_first() {
    let zone = "topology.kubernetes.io/zone";
    let prefer = |weight: i32, zone_value: &str| json!({"weight": weight, "preference": {"matchExpressions": [rule(zone, "In", &[zone_value])]}});
    let patch = affinity(
        "preferredDuringSchedulingIgnoredDuringExecution",
        json!([prefer(1, "c"), prefer(9, "mars")]),
    );
    let objects = [any(), pod("p", "p", "1", "1Gi", &patch)];
    expect![[r#"
        default: x2.arm64 spot c 0.0367 (6 types): p
    "#]]
    .assert_eq(&plan(&objects));
    let ignore = Settings {
        preferences: PreferencePolicy::Ignore,
        ..Settings::default()
    };
    expect![[r#"
        default: x2.arm64 spot b 0.0353 (6 types): p
    "#]]
    .assert_eq(&plan_with(&objects, ignore));
}

#[test]
fn taints_keep_away_pods_that_do_not_tolerate_them() {
    let taint = |effect: &str| json!({"template": {"spec": {"taints": [{"key": "team", "value": "a", "effect": effect}]}}});
    let tolerant = json!({"tolerations": [{"key": "team", "operator": "Equal", "value": "a"}]});
    let objects = [
        pool("hard", json!([]), &taint("NoSchedule")),
        pod("no", "p", "1", "1Gi", &json!({})),
        pod("yes", "p", "1", "1Gi", &tolerant),
    ];
    expect![[r#"
        hard: x2.arm64 spot b 0.0353 (6 types): yes
        left no: hard taint team
    "#]]
    .assert_eq(&plan(&objects));
    let objects = [
        pool("soft", json!([]), &taint("PreferNoSchedule")),
        pod("no", "p", "1", "1Gi", &json!({})),
    ];
    expect![[r#"
        soft: x2.arm64 spot b 0.0353 (6 types): no
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn custom_labels_come_from_the_pool() {
    let labels = json!({"template": {"metadata": {"labels": {"team": "a"}}}});
    let objects = [
        pool("a", json!([]), &labels),
        any(),
        pod(
            "mine",
            "p",
            "1",
            "1Gi",
            &json!({"nodeSelector": {"team": "a"}}),
        ),
        pod(
            "theirs",
            "p",
            "1",
            "1Gi",
            &json!({"nodeSelector": {"team": "b"}}),
        ),
    ];
    expect![[r#"
        a: x2.arm64 spot b 0.0353 (6 types): mine
        left theirs: default label team; a label team
    "#]]
    .assert_eq(&plan(&objects));
}

/// A NodePool that requires labels without naming a value.
fn without_values() -> Value {
    let requirements = json!([
        rule("team", "Exists", &[]),
        rule("gen", "Gt", &["5"]),
        rule("tier", "NotIn", &["gold"]),
        rule("size", "In", &["s", "l"]),
    ]);
    pool("default", requirements, &json!({}))
}

#[test]
fn a_label_that_is_required_without_a_value_is_given_one() {
    let term = |rules: &[Value]| required(&json!([{"matchExpressions": rules}]));
    let settled = |pod: Value| {
        let objects = [without_values(), pod];
        let snapshot = longshore_core::snapshot::Snapshot::new(std::sync::Arc::new(super::world(
            &objects,
            Settings::default(),
        )));
        let options = longshore_core::planner::PlanOptions {
            effort: longshore_core::plan::Effort::Normal,
            seed: 1,
        };
        let plan =
            longshore_core::planner::plan(&snapshot, &longshore_core::policy::ByPrice, options);
        let names = &snapshot.world.names;
        let custom = ["gen", "size", "team", "tier"];
        let claims = plan.unwrap().claims;
        let labels = claims[0].requirements.iter().filter_map(|(key, values)| {
            let values: Vec<&str> = values.iter().map(|&v| names.text(v)).collect();
            let key = names.text(*key);
            custom
                .contains(&key)
                .then(|| format!("{key}={}", values.join("|")))
        });
        labels.collect::<Vec<_>>().join(" ")
    };
    let most = i64::MAX;
    assert_eq!(
        settled(pod("any", "p", "1", "1Gi", &json!({}))),
        format!("gen={most} size=l team={most} tier={most}")
    );
    let bounds = term(&[rule("gen", "Gt", &["7"]), rule("gen", "Lt", &["100"])]);
    let gen_of = |settled: String| settled.split(' ').next().unwrap_or_default().to_owned();
    assert_eq!(
        gen_of(settled(pod("p", "p", "1", "1Gi", &bounds))),
        "gen=99"
    );
    let without = term(&[
        rule("gen", "Lt", &["100"]),
        rule("gen", "NotIn", &["99", "98"]),
    ]);
    assert_eq!(
        gen_of(settled(pod("p", "p", "1", "1Gi", &without))),
        "gen=97"
    );
    let named = term(&[rule("team", "In", &["b"])]);
    assert!(settled(pod("p", "p", "1", "1Gi", &named)).contains("team=b "));
    let absent = term(&[rule("tier", "DoesNotExist", &[])]);
    assert!(!settled(pod("p", "p", "1", "1Gi", &absent)).contains("tier"));
}

#[test]
fn a_pod_that_names_a_value_gets_no_node_that_will_have_another() {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let room = json!({"cpu": "8", "memory": "32Gi", "pods": "20"});
    let in_flight = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "flying", "labels": {"karpenter.sh/nodepool": "default", "team": i64::MAX.to_string()}},
        "spec": {"requirements": [rule("team", "Exists", &[])], "nodeClassRef": class},
        "status": {"capacity": room, "allocatable": room},
    });
    let wants = |operator: &str, values: &[&str]| {
        let terms = json!([{"matchExpressions": [rule("team", operator, values)]}]);
        pod("p", "p", "1", "1Gi", &required(&terms))
    };
    let objects = |pod: Value| [without_values(), in_flight.clone(), pod];
    assert!(plan(&objects(wants("Exists", &[]))).contains("flying"));
    assert!(!plan(&objects(wants("In", &["x"]))).contains("flying"));
}

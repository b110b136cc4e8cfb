//! Spread, affinity, anti-affinity.

use expect_test::expect;
use serde_json::{Value, json};

use super::{any, node, plan, pod, pods, running};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

fn spread(app: &str, key: &str, patch: &Value) -> Value {
    let mut rule = json!({
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    });
    super::merge(&mut rule, patch);
    json!({"topologySpreadConstraints": [rule]})
}

fn near(kind: &str, app: &str, key: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key});
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

#[test]
fn spread_goes_round_the_zones_the_cheapest_first() {
    let mut objects = pods(4, "web", "3", "1Gi", &spread("web", ZONE, &json!({})));
    objects.push(any());
    expect![[r#"
        default: x4.arm64 spot a 0.0720 (4 types): web2
        default: x4.arm64 spot c 0.0734 (4 types): web3
        default: x8.arm64 spot b 0.1411 (2 types): web1 web4
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn spread_counts_what_runs_already() {
    let mut objects = pods(2, "web", "900m", "1Gi", &spread("web", ZONE, &json!({})));
    objects.extend([
        any(),
        node("n1", "b", "1", "2Gi"),
        node("n2", "a", "1", "2Gi"),
    ]);
    objects.extend([
        running("r1", "web", "n1", &json!({})),
        running("r2", "web", "n2", &json!({})),
    ]);
    expect![[r#"
        default: x1.arm64 spot c 0.0184 (8 types): web1
        n1: web2
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn spread_over_hosts_opens_a_node_for_each() {
    let mut objects = pods(3, "web", "100m", "128Mi", &spread("web", HOST, &json!({})));
    objects.push(any());
    expect![[r#"
        default: x1.arm64 spot b 0.0176 (8 types): web1
        default: x1.arm64 spot b 0.0176 (8 types): web2
        default: x1.arm64 spot b 0.0176 (8 types): web3
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn too_few_domains_for_min_domains_leave_pods_over() {
    let mut objects = pods(
        4,
        "web",
        "100m",
        "128Mi",
        &spread("web", ZONE, &json!({"minDomains": 5})),
    );
    objects.push(any());
    expect![[r#"
        default: x1.arm64 spot a 0.0180 (8 types): web2
        default: x1.arm64 spot b 0.0176 (8 types): web1
        default: x1.arm64 spot c 0.0184 (8 types): web3
        left web4: default Spread topology.kubernetes.io/zone, least a with 1: TooFewDomains { domains: 3, wanted: 5 }
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn affinity_gathers_pods_in_one_zone() {
    let mut objects = pods(3, "web", "4", "1Gi", &near("podAffinity", "web", ZONE));
    objects.push(any());
    expect![[r#"
        default: x8.arm64 spot b 0.1411 (2 types): web1
        default: x8.arm64 spot b 0.1411 (2 types): web2
        default: x8.arm64 spot b 0.1411 (2 types): web3
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn affinity_to_a_pod_that_comes_later_waits_for_it() {
    let objects = [
        any(),
        pod(
            "follower",
            "follower",
            "2",
            "1Gi",
            &near("podAffinity", "leader", ZONE),
        ),
        pod(
            "leader",
            "leader",
            "1",
            "1Gi",
            &json!({"nodeSelector": {ZONE: "c"}}),
        ),
    ];
    expect![[r#"
        default: x4.arm64 spot c 0.0734 (4 types): follower leader
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn affinity_to_absent_pods_leaves_the_pod_over() {
    let objects = [
        any(),
        pod(
            "lonely",
            "lonely",
            "1",
            "1Gi",
            &near("podAffinity", "absent", ZONE),
        ),
    ];
    expect![[r#"
        left lonely: default Affinity topology.kubernetes.io/zone
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn a_cycle_of_affinity_is_no_reason_to_hang() {
    let objects = [
        any(),
        pod("a", "a", "1", "1Gi", &near("podAffinity", "b", ZONE)),
        pod("b", "b", "1", "1Gi", &near("podAffinity", "a", ZONE)),
    ];
    expect![[r#"
        left a: default Affinity topology.kubernetes.io/zone
        left b: default Affinity topology.kubernetes.io/zone
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn anti_affinity_over_hosts_and_over_zones() {
    let mut objects = pods(
        2,
        "db",
        "100m",
        "128Mi",
        &near("podAntiAffinity", "db", HOST),
    );
    objects.extend(pods(
        4,
        "quorum",
        "100m",
        "128Mi",
        &near("podAntiAffinity", "quorum", ZONE),
    ));
    objects.push(any());
    expect![[r#"
        default: x1.arm64 spot a 0.0180 (8 types): db2 quorum2
        default: x1.arm64 spot b 0.0176 (8 types): db1 quorum1
        default: x1.arm64 spot c 0.0184 (8 types): quorum3
        left quorum4: default AntiAffinity topology.kubernetes.io/zone
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn a_running_pods_anti_affinity_keeps_others_away() {
    let objects = [
        any(),
        node("n1", "a", "4", "8Gi"),
        running(
            "hermit",
            "hermit",
            "n1",
            &near("podAntiAffinity", "web", HOST),
        ),
        pod("web", "web", "1", "1Gi", &json!({})),
        pod("other", "other", "1", "1Gi", &json!({})),
    ];
    expect![[r#"
        default: x2.arm64 spot b 0.0353 (6 types): web
        n1: other
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn pods_spread_over_instance_types_get_small_ones() {
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "node.kubernetes.io/instance-type",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}},
    }]});
    let mut objects = pods(3, "web", "500m", "64Mi", &spread);
    objects.push(any());
    expect![[r#"
        default: x1.amd64 spot b 0.0196 (1 types): web2
        default: x1.arm64 spot b 0.0176 (1 types): web1
        default: x2.arm64 spot b 0.0353 (1 types): web3
    "#]]
    .assert_eq(&plan(&objects));
}

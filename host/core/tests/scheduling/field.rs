//! What public bug reports have shown.

use serde_json::{Value, json};

use super::{any, merge, node, plan, pod, pods, pool, running};

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

fn selects(app: &str) -> Value {
    json!({"matchLabels": {"app": app}})
}

fn with(kind: &str, app: &str, key: &str) -> Value {
    let terms = json!([{"topologyKey": key, "labelSelector": selects(app)}]);
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

/// Zones of the NodeClaims of a plan, in its order.
fn zones(text: &str) -> Vec<&str> {
    let claims = text.lines().filter(|line| line.contains(" types"));
    claims.filter_map(|line| line.split(' ').nth(3)).collect()
}

#[test]
fn the_first_pod_goes_where_those_that_must_be_with_it_can_be() {
    let follows = with("podAffinity", "web", ZONE);
    for zone in ["a", "b", "c"] {
        let mut bound = follows.clone();
        merge(&mut bound, &json!({"nodeSelector": {ZONE: zone}}));
        let objects = [
            any(),
            pod("web", "web", "6", "64Mi", &json!({})),
            pod("db", "db", "5", "64Mi", &bound),
        ];
        let text = plan(&objects);
        assert!(!text.contains("left"), "{text}");
        assert_eq!(zones(&text), [zone, zone], "{text}");
    }
}

#[test]
fn the_first_pod_goes_where_the_nodepool_of_its_followers_buys() {
    let in_c = json!([{"key": ZONE, "operator": "In", "values": ["c"]}]);
    let labels = json!({"template": {"metadata": {"labels": {"team": "data"}}}});
    let mut follows = with("podAffinity", "web", ZONE);
    merge(&mut follows, &json!({"nodeSelector": {"team": "data"}}));
    let objects = [
        any(),
        pool("data", in_c, &labels),
        pod("web", "web", "6", "64Mi", &json!({})),
        pod("db", "db", "5", "64Mi", &follows),
    ];
    let text = plan(&objects);
    assert!(!text.contains("left"), "{text}");
}

#[test]
fn followers_without_a_common_domain_leave_the_first_pod_free() {
    let follows = |zone: &str| {
        let mut patch = with("podAffinity", "web", ZONE);
        merge(&mut patch, &json!({"nodeSelector": {ZONE: zone}}));
        patch
    };
    let objects = [
        any(),
        pod("web", "web", "6", "64Mi", &json!({})),
        pod("one", "one", "5", "64Mi", &follows("a")),
        pod("two", "two", "4", "64Mi", &follows("c")),
    ];
    let text = plan(&objects);
    assert_eq!(text.matches("left").count(), 1, "{text}");
}

#[test]
fn the_first_pod_goes_where_followers_of_its_followers_can_be() {
    for zone in ["a", "b", "c"] {
        let mut last = with("podAffinity", "third", ZONE);
        merge(&mut last, &json!({"nodeSelector": {ZONE: zone}}));
        let objects = [
            any(),
            pod("first", "first", "6", "64Mi", &json!({})),
            pod(
                "second",
                "second",
                "5",
                "64Mi",
                &with("podAffinity", "first", ZONE),
            ),
            pod(
                "third",
                "third",
                "4",
                "64Mi",
                &with("podAffinity", "second", ZONE),
            ),
            pod("fourth", "fourth", "3", "64Mi", &last),
        ];
        let text = plan(&objects);
        assert!(!text.contains("left"), "{text}");
        assert!(zones(&text).iter().all(|of| *of == zone), "{text}");
    }
}

#[test]
fn the_first_pod_goes_where_its_followers_tolerate_the_taints() {
    let zone = |zone: &str| json!([{"key": ZONE, "operator": "In", "values": [zone]}]);
    let taint = json!({"template": {"spec": {"taints": [{"key": "own", "effect": "NoSchedule"}]}}});
    let tolerates = json!({"tolerations": [{"key": "own", "operator": "Exists"}]});
    let objects = [
        pool("tainted", zone("b"), &taint),
        pool("plain", zone("c"), &json!({})),
        pod("web", "web", "6", "64Mi", &tolerates),
        pod("db", "db", "5", "64Mi", &with("podAffinity", "web", ZONE)),
    ];
    let text = plan(&objects);
    assert!(!text.contains("left"), "{text}");
    assert_eq!(zones(&text), ["c", "c"], "{text}");
}

#[test]
fn later_pods_lead_followers_that_the_first_one_cannot_have() {
    let follows = |zone: &str| {
        let mut patch = with("podAffinity", "web", ZONE);
        merge(&mut patch, &json!({"nodeSelector": {ZONE: zone}}));
        patch
    };
    let leaders = pods(2, "web", "6", "64Mi", &json!({}));
    let followers = vec![
        pod("one", "one", "5", "64Mi", &follows("a")),
        pod("two", "two", "4", "64Mi", &follows("c")),
    ];
    let text = plan(&[vec![any()], leaders, followers].concat());
    assert!(!text.contains("left"), "{text}");
}

#[test]
fn a_leader_that_must_spread_leads_with_its_second_pod() {
    // Zone b has one already, which no pod follows: the first new one goes to another zone.
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selects("web"),
    }]});
    let lead = |mut pod: Value| {
        merge(&mut pod, &json!({"metadata": {"labels": {"tier": "lead"}}}));
        pod
    };
    let mut follows = json!({"affinity": {"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"tier": "lead"}}},
        ],
    }}});
    merge(&mut follows, &json!({"nodeSelector": {ZONE: "b"}}));
    let zones = json!([{"key": ZONE, "operator": "In", "values": ["a", "b"]}]);
    let mut objects = vec![
        pool("default", zones, &json!({})),
        node("n1", "b", "200m", "8Gi"),
        running("r", "web", "n1", &json!({})),
        pod("db", "db", "5", "64Mi", &follows),
    ];
    let web = pods(2, "web", "6", "64Mi", &spread);
    objects.extend(web.into_iter().map(lead));
    let text = plan(&objects);
    assert!(!text.contains("left"), "{text}");
}

#[test]
fn a_limit_is_charged_what_nodes_need_and_not_what_they_might_be() {
    let apart = with("podAntiAffinity", "web", HOST);
    let limited = |cpu: &str| pool("default", json!([]), &json!({"limits": {"cpu": cpu}}));
    let web = pods(10, "web", "500m", "64Mi", &apart);
    let text = plan(&[vec![limited("10")], web.clone()].concat());
    assert!(!text.contains("left"), "{text}");
    let text = plan(&[vec![limited("9")], web].concat());
    assert_eq!(text.matches("left web").count(), 1, "{text}");
}

//! What public bug reports have shown.

use serde_json::{Value, json};

use super::{any, merge, plan, pod, pods, pool};

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
fn a_limit_is_charged_what_nodes_need_and_not_what_they_might_be() {
    let apart = with("podAntiAffinity", "web", HOST);
    let limited = |cpu: &str| pool("default", json!([]), &json!({"limits": {"cpu": cpu}}));
    let web = pods(10, "web", "500m", "64Mi", &apart);
    let text = plan(&[vec![limited("10")], web.clone()].concat());
    assert!(!text.contains("left"), "{text}");
    let text = plan(&[vec![limited("9")], web].concat());
    assert_eq!(text.matches("left web").count(), 1, "{text}");
}

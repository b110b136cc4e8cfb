//! Hostile pods, all kinds of them at once, given to the command as one file: time and memory are bounded, pods of other
//! tenants are placed, and the hostile ones are told why not.

#![allow(clippy::print_stdout, reason = "what each kind takes is told")]

use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

fn pod(namespace: &str, name: &str, app: &str, patch: Value) -> Value {
    let requests = json!({"cpu": "100m", "memory": "128Mi"});
    let mut spec = json!({"containers": [{"name": "main", "resources": {"requests": requests}}]});
    if let (Some(spec), Value::Object(patch)) = (spec.as_object_mut(), patch) {
        spec.extend(patch);
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": name, "labels": {"app": app}}, "spec": spec,
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    })
}

fn anti(terms: impl Iterator<Item = Value>) -> Value {
    let terms: Vec<Value> = terms.collect();
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

fn spread(count: usize, app: &str, own: &str) -> Value {
    let rule = |n: usize| {
        let mut labels = json!({"app": app});
        if !own.is_empty() {
            labels["own"] = json!(format!("{own}-{n}"));
        }
        json!({
            "maxSkew": 1, "topologyKey": if n.is_multiple_of(2) { ZONE } else { HOSTNAME }, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": labels},
        })
    };
    json!({"topologySpreadConstraints": (0..count).map(rule).collect::<Vec<Value>>()})
}

/// Two tenants who mean no harm, with three hundred pods each.
fn others() -> Vec<Value> {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let template = json!({"spec": {"nodeClassRef": class, "requirements": []}});
    let mut objects = vec![json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {"template": template},
    })];
    for at in 0..300 {
        objects.push(pod(
            "shop",
            &format!("web{at}"),
            "web",
            spread(1, "web", ""),
        ));
        objects.push(pod("jobs", &format!("batch{at}"), "batch", json!({})));
    }
    objects
}

/// A hundred pods with three hundred terms, ten thousand selectors of everybody, pods with a megabyte of labels, with two
/// hundred spread constraints, with ten thousand namespaces by name and by label.
fn hostile() -> Vec<Value> {
    let mut objects = Vec::new();
    for n in 0..10_000 {
        let meta = json!({"name": format!("n{n}"), "labels": {"all": "yes"}});
        objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": meta}));
    }
    let namespaces: Vec<String> = (0..10_000).map(|n| format!("n{n}")).collect();
    for at in 0..100 {
        let one = |what: &str, patch: Value| {
            pod(
                "hostile",
                &format!("{what}{at}"),
                &format!("{what}{at}"),
                patch,
            )
        };
        let matching = |n: usize| json!({"matchLabels": {"app": format!("other-{at}-{n}")}});
        let terms = (0..300)
            .map(|n| json!({"topologyKey": if n % 2 == 0 { HOSTNAME } else { ZONE }, "labelSelector": matching(n)}));
        objects.push(one("terms", anti(terms)));
        let everybody = |n: usize| json!({"key": "app", "operator": "NotIn", "values": [format!("none-{at}-{n}")]});
        let selectors = (0..100).map(|n| {
            json!({"topologyKey": HOSTNAME, "namespaceSelector": {}, "labelSelector": {"matchExpressions": [everybody(n)]}})
        });
        objects.push(one("selectors", anti(selectors)));
        objects.push(one("spread", spread(200, "none", &at.to_string())));
        objects.push(one("most-spread", spread(64, "none", &at.to_string())));
        if at < 10 {
            let named = json!({"topologyKey": HOSTNAME, "namespaces": namespaces, "labelSelector": matching(0)});
            objects.push(one("names", anti(std::iter::once(named))));
            let all = json!({"matchLabels": {"all": "yes"}});
            let by_label = (0..300)
                .map(|n| json!({"topologyKey": HOSTNAME, "namespaceSelector": all, "labelSelector": matching(n)}));
            objects.push(one("selected", anti(by_label)));
            let mut labelled = one("labels", json!({}));
            let labels =
                (0..3900).map(|n| (format!("{at}-{n}-{:x>200}", ""), json!("v".repeat(60))));
            labelled["metadata"]["labels"] = Value::Object(labels.collect::<Map<String, Value>>());
            objects.push(labelled);
        }
    }
    objects
}

/// The objects of one kind of hostile pods: what all need, and the pods with names of this beginning and a number.
fn of_kind(kind: &str) -> Vec<Value> {
    let is = |object: &Value| {
        let number = object["metadata"]["name"]
            .as_str()
            .and_then(|name| name.strip_prefix(kind))
            .unwrap_or_default();
        object["kind"] == "Namespace"
            || !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    };
    hostile().into_iter().filter(is).collect()
}

/// The plan for a cluster with such hostile pods: within the limits of a round, and with the pods of others placed.
fn plan(name: &str, hostile: Vec<Value>) -> Value {
    let objects: Vec<Value> = others().into_iter().chain(hostile).collect();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile_pods-{name}.json"));
    std::fs::write(
        &file,
        json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string(),
    )
    .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_longshore"));
    let ran = command
        .args(["plan", "-o", "json", "--snapshot"])
        .arg(&file)
        .output()
        .expect("longshore starts");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{name}: {said}");
    let plan: Value = serde_json::from_slice(&ran.stdout).unwrap();

    let number = |key: &str| plan[key].as_f64().unwrap_or(f64::INFINITY);
    let (seconds, mib) = (
        number("parseSeconds") + number("stateSeconds") + number("seconds"),
        number("mib"),
    );
    println!("{name}: {seconds:.2} s, {mib:.0} MiB");
    assert!(seconds < 30.0, "{name}: a round takes {seconds} s");
    assert!(mib < 300.0, "{name}: it takes {mib} MiB");
    assert_eq!(
        (refused(&plan, "shop/").len(), refused(&plan, "jobs/").len()),
        (0, 0),
        "{name}: pods of others are placed"
    );
    plan
}

/// Errors of pods whose names have this beginning.
fn refused(plan: &Value, prefix: &str) -> Vec<String> {
    let errors = plan["errors"].as_object().expect("errors by pod");
    errors
        .iter()
        .filter(|(pod, _)| pod.starts_with(prefix))
        .map(|(_, said)| said.to_string())
        .collect()
}

#[test]
fn hostile_pods_take_neither_the_time_nor_the_memory_nor_the_place_of_others() {
    let plan = plan("all", hostile());
    for (what, count, why) in [
        ("hostile/spread", 100, "200 topology spread constraints"),
        ("hostile/names", 10, "10000 namespaces"),
        ("hostile/labels", 10, "bytes of labels"),
    ] {
        let errors = refused(&plan, what);
        assert_eq!(errors.len(), count, "{what}: {errors:?}");
        assert!(
            errors.iter().all(|said| said.contains(why)),
            "{what}: {errors:?}"
        );
    }
    for what in ["hostile/terms", "hostile/most-spread", "hostile/selected"] {
        let errors = refused(&plan, what);
        assert_eq!(
            errors.len(),
            0,
            "{what} ask for much, and nothing keeps them out: {errors:?}"
        );
    }
}

#[test]
fn one_kind_of_hostile_pods_is_no_worse_alone() {
    for kind in [
        "terms",
        "selectors",
        "spread",
        "most-spread",
        "names",
        "selected",
        "labels",
    ] {
        plan(kind, of_kind(kind));
    }
}

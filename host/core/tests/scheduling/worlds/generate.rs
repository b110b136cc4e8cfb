//! Worlds from seeds: nodes with and without labels, taints and hostnames, cordoned ones, running and
//! terminating pods, and pending pods with every rule about nodes and other pods.

use serde_json::{Value, json};

use crate::rng::Rng;
use crate::{merge, node, pod, pool};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const RACK: &str = "example.com/rack";
const GEN: &str = "example.com/gen";
const KEYS: [&str; 4] = [ZONE, HOST, RACK, RACK];
const APPS: [&str; 4] = ["web", "db", "cache", "web2"];
const NAMESPACES: [&str; 3] = ["default", "team-a", "team-b"];

/// A world's objects.
pub fn objects(seed: u64) -> Vec<Value> {
    let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995);
    (0..8).for_each(|_| _ = rng.below(2));
    let mut all: Vec<Value> = NAMESPACES
        .iter()
        .map(|name| {
            let labels = json!({"team": name.trim_start_matches("team-")});
            json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "labels": labels}})
        })
        .collect();
    let nodes = 1 + rng.below(8);
    all.extend((0..nodes).map(|at| a_node(&mut rng, at)));
    all.extend(storage(&mut rng));
    for at in 0..rng.below(9) {
        let on = format!("n{}", rng.below(nodes));
        all.push(bound(&mut rng, at, &on));
    }
    if percent(&mut rng, 60) {
        all.extend(pools(&mut rng));
    }
    for at in 0..1 + rng.below(4) {
        all.extend(workload(&mut rng, at));
    }
    all
}

fn percent(rng: &mut Rng, percent: usize) -> bool {
    rng.below(100) < percent
}

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.below(from.len())]
}

fn a_node(rng: &mut Rng, at: usize) -> Value {
    let cpu = pick(rng, &["1", "2", "4", "8"]);
    let mut node = node(&format!("n{at}"), pick(rng, &["a", "b", "c"]), cpu, "16Gi");
    let labels = &mut node["metadata"]["labels"];
    if percent(rng, 15) {
        labels.as_object_mut().unwrap().remove(ZONE);
    }
    if percent(rng, 8) {
        labels.as_object_mut().unwrap().remove(HOST);
    }
    if percent(rng, 50) {
        labels[RACK] = json!(pick(rng, &["r1", "r2"]));
    }
    if percent(rng, 50) {
        labels[GEN] = json!(pick(rng, &["3", "7"]));
    }
    if percent(rng, 20) {
        let effect = pick(rng, &["NoSchedule", "NoSchedule", "PreferNoSchedule"]);
        node["spec"]["taints"] = json!([{"key": "dedicated", "value": "x", "effect": effect}]);
    }
    if percent(rng, 8) {
        node["spec"]["unschedulable"] = json!(true);
    }
    node
}

fn pools(rng: &mut Rng) -> Vec<Value> {
    let one = |rng: &mut Rng, name: &str| {
        let mut requirements = Vec::new();
        if percent(rng, 40) {
            let zones = pick(rng, &["a", "b"]);
            requirements.push(json!({"key": ZONE, "operator": "In", "values": [zones, "c"]}));
        }
        let mut template = json!({});
        if percent(rng, 35) {
            template["metadata"] = json!({"labels": {RACK: pick(rng, &["r1", "r3"])}});
        }
        if percent(rng, 25) {
            template["spec"] =
                json!({"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]});
        }
        let mut patch = json!({"template": template});
        if percent(rng, 25) {
            patch["limits"] = json!({"cpu": pick(rng, &["4", "16"])});
        }
        pool(name, json!(requirements), &patch)
    };
    let mut all = vec![one(rng, "default")];
    if percent(rng, 40) {
        all.push(one(rng, "second"));
    }
    all
}

/// A class, a volume in a zone, a local one, and one of which one pod at a time may use the claim.
fn storage(rng: &mut Rng) -> Vec<Value> {
    let volume = |name: &str, mode: &str, more: &Value| {
        let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": [mode], "storageClassName": "late",
                "csi": {"driver": "x.csi", "volumeHandle": name}}});
        merge(&mut volume, more);
        volume
    };
    let claim = |name: &str, mode: &str, volume: Option<&str>| {
        let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"accessModes": [mode], "storageClassName": "late", "resources": {"requests": {"storage": "1Gi"}}}});
        if let Some(volume) = volume {
            claim["spec"]["volumeName"] = json!(volume);
            claim["status"] = json!({"phase": "Bound"});
        }
        claim
    };
    let zone = pick(rng, &["a", "b"]);
    vec![
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
            "provisioner": "x.csi", "volumeBindingMode": "WaitForFirstConsumer"}),
        volume(
            "zonal",
            "ReadWriteOnce",
            &json!({"metadata": {"labels": {ZONE: zone}}}),
        ),
        volume("alone", "ReadWriteOncePod", &json!({})),
        claim("zonal", "ReadWriteOnce", Some("zonal")),
        claim("alone", "ReadWriteOncePod", Some("alone")),
        claim("later", "ReadWriteOnce", None),
    ]
}

/// A pod that runs, terminating or not.
fn bound(rng: &mut Rng, at: usize, on: &str) -> Value {
    let app = pick(rng, &APPS);
    let namespace = pick(rng, &NAMESPACES);
    let mut spec = json!({"nodeName": on});
    if percent(rng, 35) {
        merge(
            &mut spec,
            &json!({"affinity": {"podAntiAffinity": required(&[term(rng)])}}),
        );
    }
    let mut pod = pod(&format!("run{at}"), app, "100m", "64Mi", &spec);
    pod["metadata"]["namespace"] = json!(namespace);
    pod["status"] = json!({"phase": "Running"});
    if percent(rng, 20) {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    pod
}

/// Some pending pods with the same rules.
fn workload(rng: &mut Rng, at: usize) -> Vec<Value> {
    let app = pick(rng, &APPS);
    let namespace = pick(rng, &NAMESPACES);
    let count = 1 + rng.below(6);
    let cpu = pick(rng, &["100m", "400m", "900m", "1900m"]);
    let mut spec = json!({});
    let mut affinity = json!({});
    if percent(rng, 40) {
        let terms: Vec<Value> = (0..1 + rng.below(2)).map(|_| term(rng)).collect();
        affinity["podAffinity"] = required(&terms);
    }
    if percent(rng, 35) {
        let terms: Vec<Value> = (0..1 + rng.below(2)).map(|_| term(rng)).collect();
        affinity["podAntiAffinity"] = required(&terms);
    }
    if percent(rng, 20) {
        let value = pick(rng, &["4", "2"]);
        let expression = match rng.below(4) {
            0 => json!({"key": GEN, "operator": "Gt", "values": [value]}),
            1 => json!({"key": ZONE, "operator": "In", "values": ["a", "b"]}),
            2 => json!({"key": RACK, "operator": "DoesNotExist"}),
            _ => json!({"key": RACK, "operator": "NotIn", "values": ["r1"]}),
        };
        affinity["nodeAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [expression]}]}});
    }
    if percent(rng, 20) {
        let preferred = json!({"weight": 10, "podAffinityTerm": term(rng)});
        let kind = pick(rng, &["podAffinity", "podAntiAffinity"]);
        affinity[kind]["preferredDuringSchedulingIgnoredDuringExecution"] = json!([preferred]);
    }
    spec["affinity"] = affinity;
    if percent(rng, 40) {
        let rules: Vec<Value> = (0..1 + rng.below(2)).map(|_| spread(rng, app)).collect();
        spec["topologySpreadConstraints"] = json!(rules);
    }
    if percent(rng, 40) {
        spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
    }
    if percent(rng, 12) {
        spec["containers"] = json!([{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}],
            "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]);
    }
    if namespace == "default" && percent(rng, 25) {
        let claim = pick(rng, &["zonal", "alone", "later"]);
        spec["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    }
    let one = |n: usize| {
        let mut pod = pod(&format!("w{at}-{n}"), app, cpu, "64Mi", &spec);
        pod["metadata"]["namespace"] = json!(namespace);
        pod
    };
    (0..count).map(one).collect()
}

fn required(terms: &[Value]) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": terms})
}

fn term(rng: &mut Rng) -> Value {
    let app = pick(rng, &APPS);
    let selector = match rng.below(5) {
        0 => {
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": [app, "web"]}]})
        }
        1 => json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        _ => json!({"matchLabels": {"app": app}}),
    };
    let mut term = json!({"topologyKey": pick(rng, &KEYS), "labelSelector": selector});
    match rng.below(8) {
        0 => term["namespaces"] = json!(["team-a", "default"]),
        1 => term["namespaceSelector"] = json!({"matchLabels": {"team": "b"}}),
        2 => term["namespaceSelector"] = json!({}),
        _ => {}
    }
    term
}

fn spread(rng: &mut Rng, app: &str) -> Value {
    let mut rule = json!({
        "maxSkew": 1 + rng.below(2), "topologyKey": pick(rng, &KEYS),
        "whenUnsatisfiable": pick(rng, &["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": {"matchLabels": {"app": if percent(rng, 85) { app } else { "db" }}},
        "nodeAffinityPolicy": pick(rng, &["Honor", "Honor", "Ignore"]),
        "nodeTaintsPolicy": pick(rng, &["Honor", "Ignore", "Ignore"]),
    });
    if rule["whenUnsatisfiable"] == "DoNotSchedule" && percent(rng, 20) {
        rule["minDomains"] = json!(1 + rng.below(3));
    }
    rule
}

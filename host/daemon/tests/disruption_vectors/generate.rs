//! Small clusters from seeds for disruption: one to eight nodes with every rule that keeps a node.
//! A seed gives the same cluster for ever: recorded answers belong to it, so a change here that
//! draws chance differently makes all of them void.

#[allow(dead_code, reason = "the other generator needs the rest")]
#[path = "../differential/random.rs"]
mod random;

use serde_json::{Value, json};

use random::Random;

const NOW: &str = "2026-03-01T00:00:00Z";
const POOL: &str = "karpenter.sh/nodepool";
const ZONES: [&str; 2] = ["a", "b"];
/// Cores, GiB and USD per hour on demand.
const TYPES: [(&str, u32, u32, f64); 8] = [
    ("c-1", 1, 2, 0.040),
    ("c-2", 2, 4, 0.081),
    ("c-4", 4, 8, 0.158),
    ("c-8", 8, 16, 0.322),
    ("m-2", 2, 8, 0.097),
    ("m-4", 4, 16, 0.191),
    ("m-8", 8, 32, 0.388),
    ("r-4", 4, 32, 0.249),
];

/// Manifests of a cluster, as a v1 List, and its instance types.
pub fn cluster(seed: u64) -> (Value, Value) {
    let random = &mut Random::new(seed);
    let types = types();
    let mut items = vec![json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
        "metadata": {"name": "default"}, "spec": {},
    })];
    let pools: Vec<String> = (0..random.between(1, 2))
        .map(|at| format!("pool-{at}"))
        .collect();
    for pool in &pools {
        items.push(node_pool(random, pool));
    }
    for app in 0..APPS {
        if random.chance(12) {
            items.push(pod_budget(random, app));
        }
    }
    for at in 0..random.between(1, 8) {
        let pool = random.pick(&pools).clone();
        node(random, at, &pool, &types, &mut items);
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    (list, Value::Array(types))
}

/// Every type in every zone, on demand and spot.
fn types() -> Vec<Value> {
    let one = |&(name, cores, gib, price): &(&str, u32, u32, f64)| {
        let offerings = ZONES.iter().flat_map(|zone| {
            [("on-demand", price), ("spot", price * 0.4)].map(|(capacity, price)| {
                let price = (price * 1e5).round() / 1e5;
                json!({"Price": price, "Available": true, "Requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity]},
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
                ]})
            })
        });
        json!({
            "name": name, "offerings": offerings.collect::<Vec<_>>(), "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": {
                "cpu": cores.to_string(), "memory": format!("{gib}Gi"), "pods": "20",
                "ephemeral-storage": "20Gi",
            },
        })
    };
    TYPES.iter().map(one).collect()
}

fn node_pool(random: &mut Random, name: &str) -> Value {
    let policy = match random.chance(12) {
        true => "WhenEmpty",
        false => "WhenEmptyOrUnderutilized",
    };
    let after = *random.pick(&[
        "0s", "0s", "0s", "0s", "0s", "0s", "0s", "0s", "30s", "Never",
    ]);
    let budgets = match random.below(10) {
        0 => json!([{"nodes": "0"}]),
        1 => json!([{"nodes": "1"}]),
        2 => json!([{"nodes": "50%"}]),
        3 => json!([{"nodes": "0", "reasons": ["Empty"]}, {"nodes": "100%"}]),
        4 => json!([{"nodes": "0", "reasons": ["Underutilized"]}, {"nodes": "100%"}]),
        5 => json!([{"nodes": "0", "reasons": ["Drifted"]}, {"nodes": "2"}]),
        _ => json!([{"nodes": "100%"}]),
    };
    let mut requirements =
        vec![json!({"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]})];
    if random.chance(60) {
        let kinds: &[&str] = match random.below(3) {
            0 => &["on-demand", "spot"],
            1 => &["spot"],
            _ => &["on-demand"],
        };
        requirements.push(json!({
            "key": "karpenter.sh/capacity-type", "operator": "In", "values": kinds,
        }));
    }
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": name, "uid": format!("np-{name}")},
        "spec": {
            "disruption": {"consolidationPolicy": policy, "consolidateAfter": after, "budgets": budgets},
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "expireAfter": "Never", "requirements": requirements,
            }},
        },
    })
}

/// So many applications.
const APPS: usize = 4;

fn pod_budget(random: &mut Random, app: usize) -> Value {
    let allowed = random.below(3);
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": format!("budget-{app}"), "namespace": "default", "uid": format!("pdb-{app}")},
        "spec": {"maxUnavailable": allowed, "selector": {"matchLabels": {"app": format!("app-{app}")}}},
        "status": {
            "disruptionsAllowed": allowed, "currentHealthy": 9, "desiredHealthy": 9 - allowed, "expectedPods": 9,
        },
    })
}

fn met(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": NOW})
}

fn node(random: &mut Random, at: usize, pool: &str, types: &[Value], items: &mut Vec<Value>) {
    let name = format!("node-{at}");
    let shape = random.pick(types).clone();
    let zone = *random.pick(&ZONES);
    let capacity_type = *random.pick(&["on-demand", "on-demand", "spot"]);
    let labels = json!({
        POOL: pool, "karpenter.kwok.sh/kwoknodeclass": "default", "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": shape["name"], "topology.kubernetes.io/zone": zone,
        "karpenter.sh/capacity-type": capacity_type,
        "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
    });
    let mut claim_labels = labels.clone();
    claim_labels
        .as_object_mut()
        .map(|labels| labels.remove("kubernetes.io/hostname"));
    let mut conditions = vec![
        met("Launched"),
        met("Registered"),
        met("Initialized"),
        met("Ready"),
    ];
    if random.chance(85) {
        conditions.push(met("Consolidatable"));
    }
    if random.chance(20) {
        conditions.push(met("Drifted"));
    }
    let keeps = match random.below(14) {
        0 => json!({"karpenter.sh/do-not-disrupt": "true"}),
        1 => json!({"karpenter.sh/do-not-disrupt": "false"}),
        _ => json!({}),
    };
    let resources = &shape["resources"];
    let metadata = |name: &str, uid: String, labels: &Value| {
        json!({
            "name": name, "uid": uid, "labels": labels, "creationTimestamp": NOW,
            "finalizers": ["karpenter.sh/termination"],
        })
    };
    let mut claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": metadata(&format!("{pool}-{at}"), format!("nc-{at}"), &claim_labels),
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "expireAfter": "Never",
            "requirements": [{"key": POOL, "operator": "In", "values": [pool]}],
        },
        "status": {
            "providerID": format!("kwok://{name}"), "nodeName": name, "capacity": resources,
            "allocatable": resources, "conditions": conditions,
        },
    });
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": metadata(&name, format!("n-{at}"), &labels),
        "spec": {"providerID": format!("kwok://{name}")},
        "status": {"capacity": resources, "allocatable": resources, "conditions": [met("Ready")]},
    });
    node["metadata"]["annotations"] = keeps;
    if random.chance(4) {
        for object in [&mut claim, &mut node] {
            object["metadata"]["deletionTimestamp"] = json!(NOW);
        }
    }
    items.push(claim);
    items.push(node);
    let cores: usize = resources["cpu"]
        .as_str()
        .and_then(|cpu| cpu.parse().ok())
        .unwrap_or(1);
    let mut left = cores * 1000;
    for number in 0..random.below(6) {
        let cpu = *random.pick(&[100, 250, 500, 1000, 1500]);
        if cpu <= left {
            left -= cpu;
            items.push(pod(random, &format!("pod-{at}-{number}"), &name, zone, cpu));
        }
    }
}

fn pod(random: &mut Random, name: &str, node: &str, zone: &str, cpu: usize) -> Value {
    let app = random.below(APPS);
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "labels": {"app": format!("app-{app}")},
            "creationTimestamp": NOW, "annotations": {},
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {
                "cpu": format!("{cpu}m"), "memory": format!("{}Mi", random.pick(&[128, 256, 512, 1024])),
            }}}],
        },
        "status": {"phase": "Running", "startTime": NOW, "conditions": [met("Ready"), met("PodScheduled")]},
    });
    if !random.chance(8) {
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("app-{app}"),
            "uid": format!("rs-{app}"), "controller": true,
        }]);
    }
    match random.below(40) {
        0 => pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true"),
        1 => {
            pod["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] =
                json!(random.pick(&["-100", "1000"]));
        }
        2 => pod["spec"]["priority"] = json!(1_000_000),
        3 => pod["spec"]["nodeSelector"] = json!({"topology.kubernetes.io/zone": zone}),
        _ => {}
    }
    pod
}

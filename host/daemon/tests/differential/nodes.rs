//! Nodes with their claims, in every state of a node's life, and the pods on them.

use serde_json::{Value, json};

use super::random::push;
use super::rules::{ARCH, CAPACITY, FAMILY, HOST, NOW, OS, POOL, SIZE, TEAM, TEAMS, TYPE, ZONE};
use super::{Making, Theme, pods, volumes};

#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeState {
    Ready,
    /// Joined, but startup taints stand.
    Starting,
    /// Bought, not joined: there is a claim and no node.
    InFlight,
    /// On its way out.
    Leaving,
    /// Nobody's: there is a node and no claim.
    Foreign,
}

/// None to four nodes; always some where the cluster is about nodes.
pub fn make(making: &mut Making) {
    let about = making.about(Theme::Nodes);
    let count = match () {
        () if about => making.random.between(1, 4),
        () if making.about(Theme::Volumes)
            || making.about(Theme::Neighbours)
            || making.about(Theme::Spread) =>
        {
            making.random.below(4)
        }
        () => making.random.below(6).saturating_sub(3),
    };
    for at in 0..count {
        let state = match making.random.below(if about { 10 } else { 22 }) {
            0 | 1 => NodeState::Starting,
            2 | 3 => NodeState::InFlight,
            4 | 5 => NodeState::Leaving,
            6 => NodeState::Foreign,
            _ => NodeState::Ready,
        };
        node(making, at, state);
    }
}

fn node(making: &mut Making, at: usize, state: NodeState) {
    let name = format!("node-{at}");
    let shape = making.random.pick(&making.types).clone();
    let offerings: Vec<Value> = shape["offerings"].as_array().cloned().unwrap_or_default();
    let offering = making.random.pick(&offerings).clone();
    let of = |key: &str| {
        let requirements = offering["Requirements"].as_array().into_iter().flatten();
        requirements
            .filter(|r| r["key"] == key)
            .map(|r| r["values"][0].clone())
            .next()
            .unwrap_or_default()
    };
    let pool_name = making.random.pick(&making.pools).clone();
    let pool = making
        .items
        .iter()
        .find(|i| i["kind"] == "NodePool" && i["metadata"]["name"] == *pool_name)
        .cloned();
    let pool = pool.unwrap_or_default();
    let template = &pool["spec"]["template"];
    let type_name = shape["name"].as_str().unwrap_or("").to_owned();
    let mut labels = json!({
        CAPACITY: of(CAPACITY), ZONE: of(ZONE), HOST: name, ARCH: shape["architecture"], OS: shape["operatingSystems"][0],
        TYPE: type_name, FAMILY: type_name.split(['.', '-']).next(), SIZE: shape["resources"]["cpu"],
    });
    for (key, value) in template["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
    {
        labels[key.as_str()] = value.clone();
    }
    if making.random.chance(25) {
        labels[TEAM] = json!(making.random.pick(&TEAMS));
    }
    if state != NodeState::Foreign {
        labels[POOL] = json!(pool_name);
        labels["karpenter.kwok.sh/kwoknodeclass"] = json!("default");
    }
    let joined = matches!(
        state,
        NodeState::Ready | NodeState::Leaving | NodeState::Starting
    );
    if joined {
        labels["karpenter.sh/registered"] = json!("true");
        if state != NodeState::Starting {
            labels["karpenter.sh/initialized"] = json!("true");
        }
    }
    let capacity = shape["resources"].clone();
    let cpus: usize = capacity["cpu"]
        .as_str()
        .and_then(|cpu| cpu.parse().ok())
        .unwrap_or(1);
    let gib: usize = capacity["memory"]
        .as_str()
        .and_then(|m| m.trim_end_matches("Gi").parse().ok())
        .unwrap_or(1);
    let mut free = capacity.clone();
    free["cpu"] = json!(format!("{}m", cpus * 1000 - 100));
    free["memory"] = json!(format!("{}Mi", gib * 1024 - 10));

    let mut taints: Vec<Value> = template["spec"]["taints"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let own = taints.clone();
    let mut startup: Vec<Value> = template["spec"]["startupTaints"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if state == NodeState::Starting {
        if startup.is_empty() && making.random.chance(50) {
            startup.push(json!({"key": "example.com/boot", "effect": "NoSchedule"}));
        }
        taints.extend(startup.clone());
        if making.random.chance(50) {
            taints.push(json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}));
        }
    }
    if state == NodeState::Foreign && making.random.chance(50) || making.random.chance(6) {
        taints.push(json!({"key": "dedicated", "value": "a", "effect": "NoSchedule"}));
    }
    let uid = format!("nc-{at}");
    if state != NodeState::Foreign {
        let mut reached = vec!["Launched"];
        reached.extend(["Registered"].iter().filter(|_| joined));
        reached.extend(
            ["Initialized", "Consolidatable", "Ready"]
                .iter()
                .filter(|_| joined && state != NodeState::Starting),
        );
        let mut claim_labels = labels.clone();
        if let Some(labels) = claim_labels.as_object_mut() {
            labels.remove(HOST);
            if state == NodeState::InFlight {
                labels.remove("karpenter.sh/registered");
            }
        }
        let conditions: Vec<Value> = reached.iter().map(|kind| met(kind)).collect();
        let mut claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": format!("{pool_name}-{at}"), "uid": uid, "labels": claim_labels, "creationTimestamp": NOW, "finalizers": ["karpenter.sh/termination"]},
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "expireAfter": "Never",
                "requirements": [{"key": POOL, "operator": "In", "values": [pool_name]}], "taints": own, "startupTaints": startup,
            },
            "status": {"providerID": format!("kwok://{name}"), "capacity": capacity, "allocatable": free, "conditions": conditions},
        });
        if state != NodeState::InFlight {
            claim["status"]["nodeName"] = json!(name);
        }
        if state == NodeState::Leaving {
            claim["metadata"]["deletionTimestamp"] = json!(NOW);
        }
        making.items.push(claim);
    }
    if state == NodeState::InFlight {
        return;
    }
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": format!("n-{at}"), "labels": labels, "creationTimestamp": NOW, "finalizers": ["karpenter.sh/termination"]},
        "spec": {"providerID": format!("kwok://{name}"), "taints": taints},
        "status": {"capacity": capacity, "allocatable": free, "conditions": [met("Ready")]},
    });
    if state == NodeState::Leaving {
        node["metadata"]["deletionTimestamp"] = json!(NOW);
        if making.random.chance(70) {
            push(
                &mut node["spec"]["taints"],
                json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}),
            );
        }
    }
    making.items.push(node);
    if making.about(Theme::Volumes) && making.random.chance(70) {
        let count = making.random.below(3);
        making.items.push(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
            "spec": {"drivers": [{"name": volumes::DRIVER, "nodeID": name, "topologyKeys": [ZONE], "allocatable": {"count": count}}]},
        }));
    }
    let mut left = cpus * 1000 - 100;
    for number in 0..making.random.below(4) {
        let cpu = *making.random.pick(&[100, 250, 500, 1000]);
        if cpu <= left
            && (number + 1)
                < capacity["pods"]
                    .as_str()
                    .and_then(|p| p.parse().ok())
                    .unwrap_or(4)
        {
            left -= cpu;
            let pod = pods::running(making, &format!("r{at}-{number}"), &name, cpu);
            making.items.push(pod);
        }
    }
}

fn met(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": NOW})
}

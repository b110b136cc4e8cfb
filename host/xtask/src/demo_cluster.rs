//! The cluster of the demo: a web shop on a busy morning. It is generated here and shipped in
//! `examples/clusters/web-shop.json`; a test keeps the two equal.

use anyhow::Context as _;
use serde_json::{Value, json};

const FILE: &str = "examples/clusters/web-shop.json";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const MORNING: &str = "2026-11-02T07:00:00Z";

/// What sets a service's pods apart from plain ones.
enum Extra {
    Plain,
    /// Spread over zones, as a rule.
    Zones,
    /// Spread over zones and hosts, as a wish.
    Wish,
    /// Never two on a host.
    Alone,
    Arm,
    /// Never on spot capacity.
    OnDemand,
    /// A graphics card.
    Gpu,
}

/// Name, replicas, millicores, MiB, and what is special.
const SERVICES: [(&str, usize, u32, u32, Extra); 24] = [
    ("storefront", 48, 500, 1024, Extra::Zones),
    ("search", 24, 1000, 4096, Extra::Zones),
    ("catalogue", 30, 250, 512, Extra::Wish),
    ("basket", 24, 250, 768, Extra::Zones),
    ("checkout", 18, 500, 1024, Extra::OnDemand),
    ("payments", 9, 500, 1024, Extra::OnDemand),
    ("ledger", 5, 2000, 8192, Extra::Alone),
    ("orders", 18, 500, 1536, Extra::Zones),
    ("inventory", 16, 500, 2048, Extra::Wish),
    ("prices", 20, 250, 512, Extra::Plain),
    ("promotions", 8, 250, 512, Extra::Plain),
    ("reviews", 10, 100, 256, Extra::Plain),
    ("profiles", 12, 250, 1024, Extra::Wish),
    ("sessions", 6, 1000, 6144, Extra::Alone),
    ("images", 20, 1000, 1024, Extra::Arm),
    ("video", 12, 4000, 4096, Extra::Arm),
    ("mail", 6, 100, 256, Extra::Plain),
    ("webhooks", 10, 100, 128, Extra::Plain),
    ("fraud", 10, 1000, 2048, Extra::Zones),
    ("recommendations", 16, 2000, 8192, Extra::Plain),
    ("features", 4, 2000, 16384, Extra::Alone),
    ("vision", 3, 4000, 14336, Extra::Gpu),
    ("reports", 30, 1000, 3072, Extra::Plain),
    ("exports", 25, 500, 4096, Extra::Plain),
];

/// Name, millicores, MiB of what runs on every node.
const DAEMONS: [(&str, u32, u32); 4] = [
    ("network", 50, 64),
    ("proxy", 50, 64),
    ("metrics", 100, 128),
    ("logs", 100, 192),
];

/// Writes the cluster where it is shipped.
pub fn write() -> anyhow::Result<()> {
    let file = longshore_xtask::guests::root().join(FILE);
    std::fs::write(&file, text()).with_context(|| format!("cannot write {}", file.display()))?;
    println!("wrote {}", file.display());
    Ok(())
}

/// The cluster as a v1 List, one object a line.
fn text() -> String {
    let objects: Vec<String> = objects().iter().map(Value::to_string).collect();
    format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{}\n]}}\n",
        objects.join(",\n")
    )
}

fn objects() -> Vec<Value> {
    let mut all = vec![
        json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}),
        pool(
            "default",
            json!([
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
                {"key": "karpenter.kwok.sh/instance-family", "operator": "NotIn", "values": ["t3", "t3a", "t4g"]},
            ]),
            Value::Null,
        ),
        pool(
            "gpu",
            json!([
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "karpenter.kwok.sh/instance-family", "operator": "In", "values": ["g4dn", "g5", "g6"]},
            ]),
            json!([{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]),
        ),
    ];
    all.extend(DAEMONS.map(|(name, cpu, memory)| daemon_set(name, cpu, memory)));
    for at in 0..3 {
        all.extend(node(at));
    }
    let mut serial = 0;
    for (name, replicas, cpu, memory, extra) in &SERVICES {
        all.push(replica_set(name));
        for at in 0..*replicas {
            let mut pod = pod(name, at, *cpu, *memory, extra);
            pod["metadata"]["uid"] = format!("pod-{serial:04}").into();
            // The night shift: a few of the first services run already.
            if serial < 90 && at % 8 == 0 {
                pod["spec"]["nodeName"] = format!("night-{}", (at / 8) % 3).into();
                pod["status"] = json!({"phase": "Running"});
            }
            all.push(pod);
            serial += 1;
        }
    }
    all
}

fn pool(name: &str, requirements: Value, taints: Value) -> Value {
    let mut spec = json!({
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": requirements,
    });
    if !taints.is_null() {
        spec["taints"] = taints;
    }
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"limits": {"cpu": "2000"}, "template": {"spec": spec}}})
}

fn daemon_set(name: &str, cpu: u32, memory: u32) -> Value {
    let mut spec = containers(cpu, memory);
    spec["tolerations"] = json!([{"operator": "Exists"}]);
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": {"daemon": name}},
                 "template": {"metadata": {"labels": {"daemon": name}}, "spec": spec}}})
}

fn replica_set(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": name}}}})
}

/// A node that worked the night, with its NodeClaim and daemons.
fn node(at: usize) -> Vec<Value> {
    let (name, zone) = (
        format!("night-{at}"),
        ["us-east-1a", "us-east-1b", "us-east-1c"][at],
    );
    let labels = json!({
        "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "on-demand", ZONE: zone, HOST: name,
        "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true", "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "m6i.xlarge",
    });
    let capacity =
        json!({"cpu": "4", "memory": "16384Mi", "pods": "58", "ephemeral-storage": "20Gi"});
    let free =
        json!({"cpu": "3900m", "memory": "16264Mi", "pods": "58", "ephemeral-storage": "20Gi"});
    let conditions = |kinds: &[&str]| {
        kinds
            .iter()
            .map(|kind| json!({"type": kind, "status": "True"}))
            .collect::<Value>()
    };
    let id = format!("kwok://{name}");
    let mut all = vec![
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": format!("default-{at}"), "labels": labels, "creationTimestamp": MORNING},
            "spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": []},
            "status": {"providerID": id, "nodeName": name, "capacity": capacity, "allocatable": free,
                       "conditions": conditions(&["Launched", "Registered", "Initialized", "Ready"])}}),
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels, "creationTimestamp": MORNING}, "spec": {"providerID": id},
            "status": {"capacity": capacity, "allocatable": free, "conditions": conditions(&["Ready"])}}),
    ];
    for (daemon, cpu, memory) in DAEMONS {
        let mut spec = containers(cpu, memory);
        spec["tolerations"] = json!([{"operator": "Exists"}]);
        spec["nodeName"] = name.as_str().into();
        all.push(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("{daemon}-{at}"), "namespace": "kube-system", "uid": format!("{daemon}-{at}"),
                "labels": {"daemon": daemon}, "creationTimestamp": MORNING,
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": daemon, "uid": format!("ds-{daemon}"), "controller": true}]},
            "spec": spec, "status": {"phase": "Running"}}));
    }
    all
}

fn containers(cpu: u32, memory: u32) -> Value {
    let requests = json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
    json!({"containers": [{"name": "main", "resources": {"requests": requests}}]})
}

fn pod(service: &str, at: usize, cpu: u32, memory: u32, extra: &Extra) -> Value {
    let selector = json!({"matchLabels": {"app": service}});
    let spread = |key: &str, when: &str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector});
    let mut spec = containers(cpu, memory);
    match extra {
        Extra::Plain => {}
        Extra::Zones => spec["topologySpreadConstraints"] = json!([spread(ZONE, "DoNotSchedule")]),
        Extra::Wish => {
            spec["topologySpreadConstraints"] = json!([
                spread(ZONE, "ScheduleAnyway"),
                spread(HOST, "ScheduleAnyway")
            ]);
        }
        Extra::Alone => {
            let term = json!([{"labelSelector": selector, "topologyKey": HOST}]);
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}});
        }
        Extra::Arm => spec["nodeSelector"] = json!({"kubernetes.io/arch": "arm64"}),
        Extra::OnDemand => {
            spec["nodeSelector"] = json!({"karpenter.sh/capacity-type": "on-demand"})
        }
        Extra::Gpu => {
            spec["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1".into();
            spec["containers"][0]["resources"]["limits"] = json!({"nvidia.com/gpu": "1"});
            spec["tolerations"] = json!([{"key": "nvidia.com/gpu", "operator": "Exists"}]);
        }
    }
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{service}-{at}"), "namespace": "shop", "labels": {"app": service},
            "creationTimestamp": MORNING,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": service, "uid": format!("rs-{service}"), "controller": true}]},
        "spec": spec,
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_cluster_is_the_one_made_here() {
        let shipped = std::fs::read_to_string(longshore_xtask::guests::root().join(FILE)).unwrap();
        assert!(
            shipped == text(),
            "run `cargo xtask demo-cluster` and commit {FILE}"
        );
        assert!(
            shipped.len() < 300 << 10,
            "{} KiB is a lot to ship",
            shipped.len() >> 10
        );
    }
}

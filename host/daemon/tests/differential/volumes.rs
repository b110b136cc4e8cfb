//! Claims on volumes: bound in a zone, waiting for a class, or broken.

use serde_json::{Value, json};

use super::Making;
use super::random::push;
use super::rules::{NOW, ZONE};

pub const DRIVER: &str = "csi.example.com";

/// Storage classes: anywhere, some zones, and one that binds at once.
pub fn classes(making: &mut Making) {
    let zones = making.random.some(&making.zones, 2);
    let class = |name: &str, mode: &str| json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, "provisioner": DRIVER, "volumeBindingMode": mode});
    let mut zonal = class("zonal", "WaitForFirstConsumer");
    if making.random.chance(60) {
        zonal["allowedTopologies"] =
            json!([{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]);
    } else {
        zonal["allowedTopologies"] = zones
            .iter()
            .map(|zone| json!({"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]}))
            .collect();
    }
    making.items.extend([
        class("anywhere", "WaitForFirstConsumer"),
        zonal,
        class("at-once", "Immediate"),
    ]);
}

/// Adds a volume with a claim of its own, or an earlier one, to a pod.
pub fn mount(making: &mut Making, pod: &mut Value, number: usize) {
    let claims: Vec<String> = making
        .items
        .iter()
        .filter(|item| {
            item["kind"] == "PersistentVolumeClaim"
                && item["metadata"]["namespace"] == pod["metadata"]["namespace"]
        })
        .filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned))
        .collect();
    if !claims.is_empty() && making.random.chance(30) {
        let claim = making.random.pick(&claims).clone();
        return push(
            &mut pod["spec"]["volumes"],
            json!({"name": format!("v{number}"), "persistentVolumeClaim": {"claimName": claim}}),
        );
    }
    let volume = format!("v{number}");
    let namespace = pod["metadata"]["namespace"].clone();
    if making.random.chance(12) {
        let name = format!(
            "{}-{volume}",
            pod["metadata"]["name"].as_str().unwrap_or("")
        );
        let class = *making.random.pick(&["anywhere", "zonal"]);
        let template = json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}}});
        push(
            &mut pod["spec"]["volumes"],
            json!({"name": volume, "ephemeral": {"volumeClaimTemplate": template}}),
        );
        if making.random.chance(80) {
            let claim = claim(&name, &namespace, class);
            making.items.push(claim);
        }
        return;
    }
    let name = format!(
        "claim-{}-{number}",
        pod["metadata"]["name"].as_str().unwrap_or("")
    );
    push(
        &mut pod["spec"]["volumes"],
        json!({"name": volume, "persistentVolumeClaim": {"claimName": name}}),
    );
    match making.random.below(12) {
        0 => {} // no such claim
        1 => making.items.push(claim(&name, &namespace, "at-once")),
        2 => making.items.push(claim(&name, &namespace, "no-such-class")),
        3 | 4 => making.items.push(claim(&name, &namespace, "zonal")),
        5 => making.items.push(claim(&name, &namespace, "anywhere")),
        6 => {
            let mut lost = claim(&name, &namespace, "anywhere");
            lost["status"]["phase"] = json!("Lost");
            lost["spec"]["volumeName"] = json!("gone");
            making.items.push(lost);
        }
        _ => bound(making, &name, &namespace),
    }
}

fn claim(name: &str, namespace: &Value, class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("pvc-{name}"), "creationTimestamp": NOW},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    })
}

fn bound(making: &mut Making, name: &str, namespace: &Value) {
    let mut claim = claim(name, namespace, "anywhere");
    let volume = format!("pv-{name}");
    claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
    claim["spec"]["volumeName"] = json!(volume);
    claim["status"]["phase"] = json!("Bound");
    making.items.push(claim);
    let zones = making.random.some(&making.zones, 2);
    let terms: Vec<Value> = match making.random.chance(50) {
        true => vec![json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": zones}]})],
        false => zones
            .iter()
            .map(|zone| json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}))
            .collect(),
    };
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "anywhere", "capacity": {"storage": "1Gi"},
        "csi": {"driver": DRIVER, "volumeHandle": volume},
        "claimRef": {"kind": "PersistentVolumeClaim", "name": name, "namespace": namespace, "uid": format!("pvc-{name}")},
    });
    if making.random.chance(85) {
        spec["nodeAffinity"]["required"] = json!({"nodeSelectorTerms": terms});
    }
    making.items.push(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume, "uid": volume}, "spec": spec, "status": {"phase": "Bound"}}));
}

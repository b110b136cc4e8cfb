//! Nodes as the kubelets of EC2 register them.

use longshore_emulator::kubelet::Joining;
use serde_json::{Value, json};

use longshore_simcluster::cloud::READY_AFTER;
use longshore_simcluster::fields;

/// What a type has: capacity, and what of it is left for pods.
pub(super) type Amounts = (Value, Value);

/// What a NodeClaim says of its machine, if it does.
pub(super) fn amounts(claim: &Value) -> Option<Amounts> {
    let part = |path: &str| fields::at(claim, path).filter(|part| part["cpu"].is_string());
    let capacity = part("/status/capacity")?;
    let allocatable = part("/status/allocatable")?;
    Some((capacity.clone(), allocatable.clone()))
}

/// The Node as its kubelet registers it, with the labels, the taints and the most pods of its user
/// data.
pub(super) fn node(
    joining: &Joining,
    (capacity, allocatable): &Amounts,
    never_ready: bool,
) -> Value {
    let (mut capacity, mut allocatable) = (capacity.clone(), allocatable.clone());
    if let Some(pods) = joining.max_pods {
        capacity["pods"] = pods.to_string().into();
        allocatable["pods"] = pods.to_string().into();
    }
    let starting = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let taints = joining.taints.iter().map(|text| taint(text));
    let taints: Vec<Value> = taints.chain([starting]).collect();
    let mut annotations = json!({});
    if never_ready {
        annotations[READY_AFTER] = "never".into();
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": joining.name, "labels": joining.labels, "annotations": annotations,
        },
        "spec": {"providerID": joining.provider_id, "taints": taints},
        "status": {
            "capacity": capacity, "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}],
        },
    })
}

/// Reads `key=value:Effect` or `key:Effect`.
fn taint(text: &str) -> Value {
    let (pair, effect) = text.rsplit_once(':').unwrap_or((text, ""));
    match pair.split_once('=') {
        Some((key, value)) => json!({"key": key, "value": value, "effect": effect}),
        None => json!({"key": pair, "effect": effect}),
    }
}

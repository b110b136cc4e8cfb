//! What Karpenter adds to every launch before user data is rendered.

use serde_json::{Value, json};

use super::boot::{Boot, Family, Taint};

/// The taint that a node has until its NodeClaim is registered.
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";
/// The label of nodes that take their taints themselves, so that nothing has to sync them.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";

/// Adds the DNS address and `max_pods` where the kubelet's settings have none, the taint
/// [`UNREGISTERED`] and the label [`DO_NOT_SYNC_TAINTS`] (Custom images get neither from us), and
/// takes away labels that a kubelet may not give itself: those under `kubernetes.io` and `k8s.io`.
pub fn resolve(boot: &mut Boot, max_pods: i64) {
    boot.labels.retain(|key, _| !is_restricted(key));
    if boot.family != Family::Custom {
        boot.labels
            .insert(DO_NOT_SYNC_TAINTS.to_owned(), "true".to_owned());
    }
    let there = |taint: &Taint| taint.key == UNREGISTERED && taint.effect == "NoExecute";
    if !boot.taints.iter().any(there) {
        boot.taints.push(Taint {
            key: UNREGISTERED.to_owned(),
            effect: "NoExecute".to_owned(),
            ..Taint::default()
        });
    }
    let servers = boot.kubelet.get("clusterDNS").and_then(Value::as_array);
    if servers.is_none_or(Vec::is_empty) && !boot.cluster.kube_dns_ip.is_empty() {
        let address = json!([boot.cluster.kube_dns_ip]);
        boot.kubelet.insert("clusterDNS".to_owned(), address);
    }
    if !boot.kubelet.get("maxPods").is_some_and(Value::is_number) {
        boot.kubelet.insert("maxPods".to_owned(), json!(max_pods));
    }
}

/// Whether the API server refuses a label that a kubelet gives its own node, or Karpenter believes
/// so.
fn is_restricted(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    ["kubernetes.io", "k8s.io"].iter().any(|reserved| {
        domain
            .strip_suffix(reserved)
            .is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

//! Arguments of the kubelet, for families whose bootstrap script takes them: AL2 and Windows.

use std::collections::BTreeMap;

use super::boot::Boot;
use super::kubelet::Kubelet;

/// All arguments, with a space between them. Maps are sorted; Karpenter's order is random.
pub(super) fn arguments(boot: &Boot, kubelet: &Kubelet) -> String {
    let mut all = Vec::new();
    if !boot.labels.is_empty() {
        all.push(format!("--node-labels=\"{}\"", label_list(&boot.labels)));
    }
    let taints: Vec<String> = boot
        .taints
        .iter()
        .map(|taint| match taint.value.as_str() {
            "" => format!("{}:{}", taint.key, taint.effect),
            value => format!("{}={value}:{}", taint.key, taint.effect),
        })
        .collect();
    all.push(format!("--register-with-taints=\"{}\"", taints.join(",")));
    let mut number = |name: &str, value: Option<i64>| {
        all.extend(value.map(|value| format!("--{name}={value}")));
    };
    number("max-pods", kubelet.max_pods);
    number("pods-per-core", kubelet.pods_per_core);
    for (name, map, sign) in [
        ("system-reserved", &kubelet.system_reserved, '='),
        ("kube-reserved", &kubelet.kube_reserved, '='),
        ("eviction-hard", &kubelet.eviction_hard, '<'),
        ("eviction-soft", &kubelet.eviction_soft, '<'),
        (
            "eviction-soft-grace-period",
            &kubelet.eviction_soft_grace_period,
            '=',
        ),
    ] {
        all.extend(joined(name, map, sign));
    }
    let mut number = |name: &str, value: Option<i64>| {
        all.extend(value.map(|value| format!("--{name}={value}")));
    };
    number(
        "eviction-max-pod-grace-period",
        kubelet.eviction_max_pod_grace_period,
    );
    number(
        "image-gc-high-threshold",
        kubelet.image_gc_high_threshold_percent,
    );
    number(
        "image-gc-low-threshold",
        kubelet.image_gc_low_threshold_percent,
    );
    all.extend(
        kubelet
            .cpu_cfs_quota
            .map(|on| format!("--cpu-cfs-quota={on}")),
    );
    all.join(" ")
}

fn joined(name: &str, map: &BTreeMap<String, String>, sign: char) -> Option<String> {
    let pairs: Vec<String> = map
        .iter()
        .map(|(key, value)| format!("{key}{sign}{value}"))
        .collect();
    (!pairs.is_empty()).then(|| format!("--{name}=\"{}\"", pairs.join(",")))
}

/// Labels as `--node-labels` takes them, sorted.
pub(super) fn label_list(labels: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    pairs.join(",")
}

//! The twelve settings of the kubelet that every family can express, out of the open map.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::duration;

/// The twelve settings. Values of another type than the kubelet's are passed over: the map is
/// checked before (`validation::kubelet` of `longshore-ec2`).
#[derive(Debug, Default)]
pub(super) struct Kubelet {
    pub cluster_dns: Vec<String>,
    pub max_pods: Option<i64>,
    pub pods_per_core: Option<i64>,
    pub system_reserved: BTreeMap<String, String>,
    pub kube_reserved: BTreeMap<String, String>,
    pub eviction_hard: BTreeMap<String, String>,
    pub eviction_soft: BTreeMap<String, String>,
    /// Durations as Go writes them.
    pub eviction_soft_grace_period: BTreeMap<String, String>,
    pub eviction_max_pod_grace_period: Option<i64>,
    pub image_gc_high_threshold_percent: Option<i64>,
    pub image_gc_low_threshold_percent: Option<i64>,
    pub cpu_cfs_quota: Option<bool>,
}

impl Kubelet {
    /// Picks the settings out of `spec.kubelet`.
    pub fn of(all: &Map<String, Value>) -> Self {
        let number = |name: &str| all.get(name).and_then(Value::as_i64);
        let texts = |name: &str| -> BTreeMap<String, String> {
            let map = all.get(name).and_then(Value::as_object);
            let text = |(key, value): (&String, &Value)| Some((key.clone(), text(value)?));
            map.into_iter().flatten().filter_map(text).collect()
        };
        let mut grace = texts("evictionSoftGracePeriod");
        for value in grace.values_mut() {
            if let Some(time) = duration::parse(value) {
                *value = duration::write(time);
            }
        }
        let servers = all.get("clusterDNS").and_then(Value::as_array);
        Self {
            cluster_dns: servers.into_iter().flatten().filter_map(text).collect(),
            max_pods: number("maxPods"),
            pods_per_core: number("podsPerCore"),
            system_reserved: texts("systemReserved"),
            kube_reserved: texts("kubeReserved"),
            eviction_hard: texts("evictionHard"),
            eviction_soft: texts("evictionSoft"),
            eviction_soft_grace_period: grace,
            eviction_max_pod_grace_period: number("evictionMaxPodGracePeriod"),
            image_gc_high_threshold_percent: number("imageGCHighThresholdPercent"),
            image_gc_low_threshold_percent: number("imageGCLowThresholdPercent"),
            cpu_cfs_quota: all.get("cpuCFSQuota").and_then(Value::as_bool),
        }
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

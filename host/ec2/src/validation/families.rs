//! Settings of the kubelet that a family's images would not apply.

use serde_json::{Map, Value};

use super::fault::Fault;
use crate::nodeclass::AmiFamily;

/// Settings that the bootstrap of every family passes on.
const PASSED_ON: [&str; 12] = [
    "clusterDNS",
    "cpuCFSQuota",
    "evictionHard",
    "evictionMaxPodGracePeriod",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "kubeReserved",
    "maxPods",
    "podsPerCore",
    "systemReserved",
];

/// Faults of settings that nodes of a family would boot without. AL2023 takes all of them, and what
/// Custom images do with them is not known.
pub(super) fn unsupported(family: AmiFamily, settings: &Map<String, Value>) -> Vec<Fault> {
    if matches!(family, AmiFamily::AL2023 | AmiFamily::Custom) {
        return Vec::new();
    }
    let name = family.as_str();
    let mut faults = Vec::new();
    for (field, value) in settings {
        let many = value.as_array().is_some_and(|list| list.len() > 1);
        let what = match field.as_str() {
            "podsPerCore" if family == AmiFamily::Bottlerocket => {
                format!("is not passed on to nodes of {name}")
            }
            "clusterDNS" if many => format!("has several addresses; {name} passes on one"),
            field if PASSED_ON.contains(&field) => continue,
            _ => format!("is not passed on to nodes of {name}"),
        };
        let hint = match field.as_str() {
            "clusterDNS" => "give one address",
            _ => "remove it, or use AL2023",
        };
        faults.push(Fault::new(field, what, hint));
    }
    faults
}

//! The settings that a kubelet runs with: its file, with the drop-in merged in.

use longshore_userdata::Family;
use serde_json::{Map, Value, json};

/// What stands in the kubelet's own file before a node's settings are merged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Nothing that the rules ask for: AL2, Bottlerocket and Windows, whose settings are flags or
    /// fill a template.
    Bare,
    /// What nodeadm of AL2023 writes, of release 20260724.
    Nodeadm,
}

impl Base {
    /// That of a family; `None` for images of one's own, of which nothing is known.
    pub fn of(family: Family) -> Option<Self> {
        match family {
            Family::Custom => None,
            Family::AL2023 => Some(Base::Nodeadm),
            _ => Some(Base::Bare),
        }
    }

    /// The file as the kubelet of a minor version has read it, with those defaults that a drop-in
    /// cannot bring back. Reserved amounts stand for those of any instance type.
    pub fn file(self, minor: u16) -> Map<String, Value> {
        let mut all = match self {
            Base::Bare => return Map::new(),
            Base::Nodeadm => json!({
                "cgroupRoot": "/",
                "evictionHard": {
                    "memory.available": "100Mi",
                    "nodefs.available": "10%",
                    "nodefs.inodesFree": "5%",
                },
                "featureGates": {"RotateKubeletServerCertificate": true},
                "hairpinMode": "hairpin-veth",
                "kubeReserved": {"cpu": "70m", "ephemeral-storage": "1Gi", "memory": "574Mi"},
                "kubeReservedCgroup": "/runtime",
                "protectKernelDefaults": true,
                "readOnlyPort": 0,
                "serializeImagePulls": false,
                "serverTLSBootstrap": true,
                "systemReservedCgroup": "/system",
            }),
        };
        if minor >= 33 {
            all["featureGates"]["DynamicResourceAllocation"] = true.into();
        }
        if minor >= 34 {
            all["featureGates"]["MutableCSINodeAllocatableCount"] = true.into();
            all["shutdownGracePeriod"] = "2m30s".into();
            all["shutdownGracePeriodCriticalPods"] = "30s".into();
        }
        // The kubelet fills defaults in before it merges. These depend on a gate: without the gate
        // they are refused, also if the drop-in turned it off.
        let on = |name: &str| super::gates::gate(name, minor).is_some_and(|gate| gate.default);
        if on("KubeletCrashLoopBackOffMax") {
            all["crashLoopBackOff"] = json!({"maxContainerRestartPeriod": "5m0s"});
        }
        if on("KubeletEnsureSecretPulledImages") {
            all["imagePullCredentialsVerificationPolicy"] = "NeverVerifyPreloadedImages".into();
        }
        match all {
            Value::Object(all) => all,
            _ => Map::new(),
        }
    }
}

/// The settings of a kubelet of a minor version: the file with `settings` merged in.
pub fn effective(settings: &Map<String, Value>, base: Base, minor: u16) -> Map<String, Value> {
    let mut all = base.file(minor);
    merge_patch(&mut all, settings);
    all
}

/// Merges as a JSON merge patch (RFC 7386) does: maps key by key, anything else replaced, and `null`
/// removes.
pub fn merge_patch(into: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match value {
            Value::Null => drop(into.remove(key)),
            Value::Object(patch) => {
                let below = into.entry(key).or_insert_with(|| json!({}));
                if !below.is_object() {
                    *below = json!({});
                }
                if let Value::Object(below) = below {
                    merge_patch(below, patch);
                }
            }
            value => drop(into.insert(key.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drop_in_replaces_lists_merges_maps_and_removes_with_null() {
        let object = |value: Value| value.as_object().cloned().unwrap_or_default();
        let mut all = object(json!({"a": [1], "b": {"c": 1, "d": 2}, "e": 3, "f": {"g": 1}}));
        merge_patch(
            &mut all,
            &object(json!({"a": [2, 3], "b": {"c": null, "x": 5}, "e": {"y": 1}, "f": null})),
        );
        let merged = json!({"a": [2, 3], "b": {"d": 2, "x": 5}, "e": {"y": 1}});
        assert_eq!(Value::Object(all), merged);
    }
}

//! The parts of a pod that a drain uses.

use std::collections::BTreeMap;

use longshore_api::crd::{Time, Timestamp};
use longshore_api::labels;
use serde::Deserialize;

use crate::process::mutants::mutant;

/// Taint of nodes that go.
pub const DISRUPTED: &str = "karpenter.sh/disrupted";
/// A pod that has been going for longer than its grace period and this is not waited for.
const STUCK_GRACE: i64 = 60;

/// A pod on a node that is being deleted.
#[derive(Deserialize, Default, Clone, Debug)]
#[serde(rename_all = "camelCase", default)]
pub struct DrainingPod {
    metadata: Meta,
    spec: Spec,
    status: Status,
}

#[derive(Deserialize, Default, Clone, Debug)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    annotations: BTreeMap<String, String>,
    deletion_timestamp: Option<Time>,
    owner_references: Vec<Owner>,
}

#[derive(Deserialize, Default, Clone, Debug)]
#[serde(default)]
struct Owner {
    kind: String,
}

#[derive(Deserialize, Default, Clone, Debug)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    priority_class_name: String,
    termination_grace_period_seconds: Option<i64>,
    tolerations: Vec<Toleration>,
    volumes: Vec<Volume>,
}

#[derive(Deserialize, Default, Clone, Debug)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    name: String,
    persistent_volume_claim: Option<ClaimRef>,
    ephemeral: Option<serde_json::Value>,
}

#[derive(Deserialize, Default, Clone, Debug)]
#[serde(rename_all = "camelCase", default)]
struct ClaimRef {
    claim_name: String,
}

#[derive(Deserialize, Default, Clone, Debug)]
#[serde(default)]
struct Toleration {
    key: String,
    operator: String,
    effect: String,
}

#[derive(Deserialize, Default, Clone, Debug)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    start_time: Option<Time>,
}

impl DrainingPod {
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    pub fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    pub fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// `namespace/name`.
    pub fn full(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }

    /// The version of the object, where it is a number.
    pub fn version(&self) -> Option<u64> {
        self.metadata.resource_version.parse().ok()
    }

    /// Whether its deletion was asked for.
    pub fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Seconds that it gets to end.
    pub fn grace(&self) -> i64 {
        self.spec.termination_grace_period_seconds.unwrap_or(30)
    }

    fn tolerates_disruption(&self) -> bool {
        self.spec.tolerations.iter().any(|t| {
            let key = t.key == DISRUPTED || (t.key.is_empty() && t.operator == "Exists");
            key && (t.effect.is_empty() || t.effect == "NoSchedule")
        })
    }

    fn is_daemon(&self) -> bool {
        self.metadata
            .owner_references
            .iter()
            .any(|o| o.kind == "DaemonSet")
    }

    fn is_static(&self) -> bool {
        self.metadata.annotations.contains_key(labels::MIRROR_POD)
            || self
                .metadata
                .owner_references
                .iter()
                .any(|o| o.kind == "Node")
    }

    fn is_stuck(&self, now: Timestamp) -> bool {
        self.metadata
            .deletion_timestamp
            .as_ref()
            .is_some_and(|t| now.as_second() > t.0.as_second() + STUCK_GRACE)
    }

    /// It has to leave before the node may go.
    pub fn counts(&self, now: Timestamp) -> bool {
        let ended = matches!(self.status.phase.as_str(), "Succeeded" | "Failed");
        let ended = ended || (mutant("evicted-is-gone") && self.is_going());
        !ended && !self.tolerates_disruption() && !self.is_static() && !self.is_stuck(now)
    }

    /// It would have to find another node if this one went.
    pub fn uses(&self) -> bool {
        let ended = matches!(self.status.phase.as_str(), "Succeeded" | "Failed");
        !ended && !self.is_going() && !self.is_daemon() && !self.is_static()
    }

    /// Whether `karpenter.sh/do-not-disrupt` says that it must be left alone now.
    pub fn held(&self, now: Timestamp) -> bool {
        if mutant("ignores-do-not-disrupt") {
            return false;
        }
        match self
            .metadata
            .annotations
            .get(labels::DO_NOT_DISRUPT)
            .map(String::as_str)
        {
            None | Some("false") => false,
            Some("true") => true,
            Some(text) => {
                let Ok(held) = longshore_api::crd::duration::duration(text) else {
                    return false;
                };
                let start = self
                    .status
                    .start_time
                    .as_ref()
                    .map_or(now.as_second(), |t| t.0.as_second());
                now.as_second()
                    < start.saturating_add(i64::try_from(held.as_secs()).unwrap_or(i64::MAX))
            }
        }
    }

    /// Order of eviction: ordinary pods, then daemons, then critical pods.
    pub fn eviction_tier(&self) -> u8 {
        let critical = matches!(
            self.spec.priority_class_name.as_str(),
            "system-cluster-critical" | "system-node-critical"
        );
        if mutant("ignores-tiers") {
            0
        } else {
            u8::from(critical) * 2 + u8::from(self.is_daemon())
        }
    }

    /// Names of the PersistentVolumeClaims that it mounts.
    pub fn volume_claims(&self) -> impl Iterator<Item = String> {
        self.spec.volumes.iter().filter_map(|volume| {
            match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(claim), _) => Some(claim.claim_name.clone()),
                (None, Some(_)) => Some(format!("{}-{}", self.metadata.name, volume.name)),
                (None, None) => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(json: &str) -> DrainingPod {
        serde_json::from_str(json).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn daemons_leave_after_others_and_critical_pods_last() {
        let plain = pod("{}");
        let daemon = pod(r#"{"metadata":{"ownerReferences":[{"kind":"DaemonSet"}]}}"#);
        let critical = pod(r#"{"spec":{"priorityClassName":"system-cluster-critical"}}"#);
        let both = pod(
            r#"{"metadata":{"ownerReferences":[{"kind":"DaemonSet"}]},"spec":{"priorityClassName":"system-node-critical"}}"#,
        );
        assert_eq!(
            [&plain, &daemon, &critical, &both].map(DrainingPod::eviction_tier),
            [0, 1, 2, 3]
        );
    }

    #[test]
    fn pods_that_stay_by_right_are_not_waited_for() {
        let now = at(1_000_000);
        assert!(pod("{}").counts(now));
        assert!(!pod(r#"{"status":{"phase":"Succeeded"}}"#).counts(now));
        assert!(!pod(r#"{"spec":{"tolerations":[{"operator":"Exists"}]}}"#).counts(now));
        assert!(
            !pod(
                r#"{"spec":{"tolerations":[{"key":"karpenter.sh/disrupted","operator":"Exists"}]}}"#
            )
            .counts(now)
        );
        assert!(
            pod(r#"{"spec":{"tolerations":[{"key":"other","operator":"Exists"}]}}"#).counts(now)
        );
        assert!(!pod(r#"{"metadata":{"ownerReferences":[{"kind":"Node"}]}}"#).counts(now));
        assert!(!pod(r#"{"metadata":{"deletionTimestamp":"1970-01-01T00:00:00Z"}}"#).counts(now));
    }

    #[test]
    fn do_not_disrupt_holds_for_ever_or_for_a_while() {
        let with = |value: &str| {
            pod(&format!(
                r#"{{"metadata":{{"annotations":{{"karpenter.sh/do-not-disrupt":"{value}"}}}},
                "status":{{"startTime":"1970-01-01T00:00:00Z"}}}}"#
            ))
        };
        assert!(
            with("true").held(at(9_999)) && !with("false").held(at(0)) && !with("soon").held(at(0))
        );
        assert!(with("1h").held(at(3_599)) && !with("1h").held(at(3_600)));
    }

    #[test]
    fn claims_are_named_and_those_of_ephemeral_volumes_follow_from_the_pod() {
        let pod = pod(
            r#"{"metadata":{"name":"db-0"},"spec":{"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data-db-0"}},
            {"name":"tmp","emptyDir":{}},{"name":"scratch","ephemeral":{}}]}}"#,
        );
        assert_eq!(
            pod.volume_claims().collect::<Vec<_>>(),
            ["data-db-0", "db-0-scratch"]
        );
    }
}

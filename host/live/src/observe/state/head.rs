//! The few fields that the state reads of objects whose rest goes into the store.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// What the state reads of a pod.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodHead {
    pub(super) metadata: Head,
    pub(super) spec: PodSpec,
    pub(super) status: PodStatus,
}

/// What the state reads of any object.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Head {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) creation_timestamp: String,
    pub(super) resource_version: String,
    pub(super) generation: Option<i64>,
    pub(super) owner_references: Vec<Owner>,
}

/// A reference to an owner.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Owner {
    pub(super) kind: String,
}

/// What the state reads of the spec of a pod.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    pub(super) node_name: Option<String>,
    pub(super) scheduler_name: String,
    pub(super) scheduling_gates: Vec<IgnoredAny>,
    pub(super) resource_claims: Vec<IgnoredAny>,
    pub(super) scheduling_group: Option<IgnoredAny>,
}

/// What the state reads of the status of a pod.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodStatus {
    pub(super) phase: String,
    pub(super) nominated_node_name: String,
    pub(super) conditions: Vec<PodCondition>,
}

/// A condition of a pod, or of a node class.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PodCondition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AnyHead {
    metadata: Head,
}

impl PodHead {
    /// Whether kube-scheduler schedules the pod, and may do so now. Pods that ask for dynamic
    /// resources are left to its word, and so are pods of a group, which it holds back until the
    /// group is complete.
    pub(super) fn is_for_kube_scheduler(&self) -> bool {
        let spec = &self.spec;
        let default = ["", "default-scheduler"].contains(&spec.scheduler_name.as_str());
        default
            && spec.scheduling_gates.is_empty()
            && spec.resource_claims.is_empty()
            && spec.scheduling_group.is_none()
    }
}

/// The metadata of an object.
pub(super) fn head(json: &str) -> Result<Head, serde_json::Error> {
    match longshore_api::json::member(json.as_bytes(), 0, "metadata").and_then(|at| json.get(at)) {
        Some(metadata) => serde_json::from_str(metadata),
        None => Ok(serde_json::from_str::<AnyHead>(json)?.metadata),
    }
}

/// `namespace/name`, or the name.
pub(super) fn full(head: &Head) -> Box<str> {
    match head.namespace.as_str() {
        "" => head.name.as_str().into(),
        namespace => format!("{namespace}/{}", head.name).into(),
    }
}

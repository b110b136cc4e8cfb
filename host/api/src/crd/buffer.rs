//! CapacityBuffer: room reserved for future pods. The resource is shared with other autoscalers.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::quantities::Quantities;
use super::schema;

/// How much room, for pods like which.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1beta1",
    kind = "CapacityBuffer",
    plural = "capacitybuffers",
    shortname = "cb",
    category = "autoscaling",
    namespaced,
    status = "CapacityBufferStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Room kept free for pods to come.",
    printcolumn(
        name = "Strategy",
        type_ = "string",
        json_path = ".spec.provisioningStrategy"
    ),
    printcolumn(
        name = "PodTemplate",
        type_ = "string",
        json_path = ".status.podTemplateRef.name"
    ),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(
        name = "ConditionsType",
        type_ = "string",
        json_path = ".status.conditions[*].type"
    ),
    printcolumn(
        name = "ConditionsStatus",
        type_ = "string",
        json_path = ".status.conditions[*].status"
    ),
    printcolumn(
        name = "ConditionsReason",
        type_ = "string",
        json_path = ".status.conditions[*].reason"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.podTemplateRef) || has(self.replicas) || \
    has(self.limits)")
    .message("a buffer of a pod template needs replicas or limits"))]
#[x_kube(validation = Rule::new("!(has(self.podTemplateRef) && has(self.scalableRef))")
    .message("a buffer follows a pod template or a workload, not both"))]
pub struct CapacityBufferSpec {
    /// How the room is kept; others than the default are left to other autoscalers.
    #[serde(default = "active_capacity")]
    pub provisioning_strategy: String,
    /// The PodTemplate, of the same namespace, that room is kept for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<PodTemplateRef>,
    /// The workload in the same namespace that the room is reserved for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableRef>,
    /// Room for this many pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Room for this share of the workload's replicas, in percent, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub percentage: Option<i32>,
    /// What the pods of the buffer may ask for together, at most. Alone, it sizes the buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Quantities>,
}

impl Default for CapacityBufferSpec {
    fn default() -> Self {
        Self {
            provisioning_strategy: active_capacity(),
            pod_template_ref: None,
            scalable_ref: None,
            replicas: None,
            percentage: None,
            limits: None,
        }
    }
}

/// A PodTemplate by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PodTemplateRef {
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// A workload by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalableRef {
    /// Its API group; `apps`, if empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schema::text")]
    pub api_group: String,
    /// Its kind.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// What is known of a CapacityBuffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferStatus {
    /// The PodTemplate that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<PodTemplateRef>,
    /// For how many pods room is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The generation of the PodTemplate that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// How the room is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// Statements about the buffer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

fn active_capacity() -> String {
    "buffer.x-k8s.io/active-capacity".to_owned()
}

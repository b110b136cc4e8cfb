//! NodeClaim: one node, from request to termination.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::{Condition, if_readable, readable};
use super::defaults::{is_default, month};
use super::quantities::Quantities;
use super::requirement::{NodeClassRef, Requirement};
use super::schema;
use super::taint::Taint;

/// What a NodeClaim asks for. It never changes.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodeClaim",
    plural = "nodeclaims",
    category = "karpenter",
    status = "NodeClaimStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "One node: what was asked for, what was bought, and how far it is.",
    printcolumn(
        name = "Type",
        type_ = "string",
        json_path = r".metadata.labels.node\.kubernetes\.io/instance-type"
    ),
    printcolumn(
        name = "Capacity",
        type_ = "string",
        json_path = r".metadata.labels.karpenter\.sh/capacity-type"
    ),
    printcolumn(
        name = "Zone",
        type_ = "string",
        json_path = r".metadata.labels.topology\.kubernetes\.io/zone"
    ),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "ImageID",
        type_ = "string",
        json_path = ".status.imageID",
        priority = 1
    ),
    printcolumn(
        name = "ID",
        type_ = "string",
        json_path = ".status.providerID",
        priority = 1
    ),
    printcolumn(
        name = "NodePool",
        type_ = "string",
        json_path = r".metadata.labels.karpenter\.sh/nodepool",
        priority = 1
    ),
    printcolumn(
        name = "NodeClass",
        type_ = "string",
        json_path = ".spec.nodeClassRef.name",
        priority = 1
    ),
    printcolumn(
        name = "Drifted",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Drifted")].status"#,
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self == oldSelf").message("a NodeClaim's spec cannot change"))]
pub struct NodeClaimSpec {
    /// The object that says how the node is made.
    pub node_class_ref: NodeClassRef,
    /// What labels the node must have; among them, which instance types may be bought.
    #[schemars(schema_with = "schema::claim_requirements")]
    pub requirements: Vec<Requirement>,
    /// What the node must have room for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resources: ResourceRequests,
    /// Taints that the node keeps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub taints: Vec<Taint>,
    /// Taints that the node starts with and that others take away, once their part is ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub startup_taints: Vec<Taint>,
    /// How old the node may get, or `Never`. Read it with [`super::duration::lifetime`].
    #[serde(default = "month")]
    #[schemars(regex(pattern = schema::LIFETIME))]
    pub expire_after: String,
    /// How long the node may take to drain before its pods go anyway. Read it with
    /// [`super::duration::duration`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub termination_grace_period: Option<String>,
}

impl Default for NodeClaimSpec {
    fn default() -> Self {
        Self {
            node_class_ref: NodeClassRef::default(),
            requirements: Vec::new(),
            resources: ResourceRequests::default(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            expire_after: month(),
            termination_grace_period: None,
        }
    }
}

/// What a node must have room for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceRequests {
    /// Amounts by resource: the pods and daemons that the node was planned for, together.
    #[serde(default, skip_serializing_if = "Quantities::is_empty")]
    pub requests: Quantities,
}

// What cannot be read of it is passed over, so that one NodeClaim does not spoil the list of the others.
/// What is known of a NodeClaim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// Name of the node, once there is one.
    #[serde(
        default,
        deserialize_with = "if_readable",
        skip_serializing_if = "String::is_empty"
    )]
    pub node_name: String,
    /// The cloud's name of the instance.
    #[serde(
        default,
        deserialize_with = "if_readable",
        rename = "providerID",
        skip_serializing_if = "String::is_empty"
    )]
    pub provider_id: String,
    /// The image that the instance started from.
    #[serde(
        default,
        deserialize_with = "if_readable",
        rename = "imageID",
        skip_serializing_if = "String::is_empty"
    )]
    pub image_id: String,
    /// What the node has.
    #[serde(
        default,
        deserialize_with = "if_readable",
        skip_serializing_if = "Quantities::is_empty"
    )]
    pub capacity: Quantities,
    /// What of it is left for pods.
    #[serde(
        default,
        deserialize_with = "if_readable",
        skip_serializing_if = "Quantities::is_empty"
    )]
    pub allocatable: Quantities,
    /// When a pod was last bound to the node, or was last seen to end or go.
    #[serde(
        default,
        deserialize_with = "if_readable",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::time")]
    pub last_pod_event_time: Option<Time>,
    /// Statements about the claim.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(schema_with = "schema::claim_conditions")]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_that_is_strange_in_part_spoils_neither_the_rest_nor_the_list() {
        let claim = |status| {
            json!({
                "metadata": {"name": "a"},
                "spec": {"nodeClassRef": {"group": "g", "kind": "K", "name": "n"}, "requirements": []},
                "status": status,
            })
        };
        let strange = json!({
            "nodeName": 5, "providerID": "aws:///a/i-1", "imageID": {}, "capacity": ["cpu"],
            "allocatable": {"cpu": {}}, "lastPodEventTime": "soon",
            "conditions": [{"type": "Ready", "status": "Perhaps"},
                {"type": "Launched", "status": "True", "lastTransitionTime": "2026-11-21T08:00:00Z"}],
        });
        let usual = json!({"providerID": "aws:///a/i-2", "capacity": {"cpu": 4}});
        let list = json!([claim(strange), claim(usual)]);
        let list: Vec<NodeClaim> = serde_json::from_value(list).unwrap();
        let status = |at: usize| list[at].status.clone().unwrap();
        assert_eq!(
            status(0),
            NodeClaimStatus {
                provider_id: "aws:///a/i-1".to_owned(),
                conditions: vec![status(0).conditions[0].clone()],
                ..NodeClaimStatus::default()
            }
        );
        assert_eq!(status(0).conditions[0].type_, "Launched");
        assert_eq!(status(1).capacity["cpu"].0, "4");
    }
}

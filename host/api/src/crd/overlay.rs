//! NodeOverlay: corrections to the cloud's description of instance types.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::quantities::Quantities;
use super::requirement::Operator;
use super::schema;

/// What a NodeOverlay changes, and for which instance types.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    plural = "nodeoverlays",
    shortname = "overlays",
    category = "karpenter",
    status = "NodeOverlayStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Corrects the price of instance types, or adds resources to what they have.",
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
        name = "Weight",
        type_ = "integer",
        json_path = ".spec.weight",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.price) || !has(self.priceAdjustment)")
    .message("an overlay sets a price or adjusts it, not both"))]
pub struct NodeOverlaySpec {
    /// Which instance types, offerings and NodePools are meant.
    #[schemars(schema_with = "schema::overlay_requirements")]
    pub requirements: Vec<OverlayRequirement>,
    /// The price instead: dollars per hour, a decimal number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^\d+(\.\d+)?$"))]
    pub price: Option<String>,
    /// What to add to the price: dollars per hour with a sign, or with a sign and `%`, a share of
    /// it. No price falls below 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(
        pattern = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$"
    ))]
    pub price_adjustment: Option<String>,
    /// Resources that nodes have besides what the cloud knows.
    #[serde(default, skip_serializing_if = "Quantities::is_empty")]
    #[x_kube(validation = Rule::new("self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))")
        .message("an overlay cannot change cpu, memory, ephemeral-storage or pods"))]
    pub capacity: Quantities,
    /// Where overlays meet, the one with the greatest weight counts; none counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub weight: Option<i32>,
}

/// A requirement on a label of instance types, without `minValues`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverlayRequirement {
    /// The label's key.
    #[schemars(schema_with = "schema::requirement_key")]
    pub key: String,
    /// How the label's value relates to `values`.
    pub operator: Operator,
    /// Values to compare with: at least one for `In` and `NotIn`, one whole number for `Gt`, `Lt`,
    /// `Gte` and `Lte`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::requirement_values")]
    pub values: Vec<String>,
}

/// What is known of a NodeOverlay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeOverlayStatus {
    /// Statements about the overlay.
    #[serde(
        default,
        deserialize_with = "super::condition::readable",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

//! Taints of nodes, as the custom resources hold them. A launch (`longshore-cloud`) has them as its
//! NodeClaim has. Other types of taints stand where this one cannot: interned in `core`, for wasm32
//! in `userdata`, as a record of the contract in `policy`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// Keeps pods without a matching toleration off a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Name of the taint: a label key.
    #[schemars(regex(pattern = schema::NAME), length(min = 1))]
    pub key: String,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schema::taint_value")]
    pub value: String,
    /// What happens to pods that do not tolerate it.
    pub effect: TaintEffect,
    /// When it was put on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub time_added: Option<Time>,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// New pods stay away.
    NoSchedule,
    /// New pods go elsewhere if they can.
    PreferNoSchedule,
    /// Running pods go, too.
    NoExecute,
}

impl TaintEffect {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            TaintEffect::NoSchedule => "NoSchedule",
            TaintEffect::PreferNoSchedule => "PreferNoSchedule",
            TaintEffect::NoExecute => "NoExecute",
        }
    }
}

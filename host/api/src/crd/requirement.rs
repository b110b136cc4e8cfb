//! Requirements of custom resources on a node's labels, and the reference to its node class.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// A requirement on a label of nodes. Several are met together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// The label's key.
    #[schemars(schema_with = "schema::requirement_key")]
    pub key: String,
    /// How the label's value relates to `values`.
    pub operator: Operator,
    /// Values to compare with: at least one for `In`, one whole number for `Gt`, `Lt`, `Gte` and
    /// `Lte`, none for `Exists` and `DoesNotExist`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::requirement_values")]
    pub values: Vec<String>,
    /// How many different values of this label the instance types of a launch must offer between
    /// them (alpha).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::min_values")]
    pub min_values: Option<i64>,
}

/// How a label's value relates to a requirement's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Operator {
    /// Is one of them.
    In,
    /// Is none of them, or the label is absent.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// Is greater.
    Gt,
    /// Is less.
    Lt,
    /// Is greater or equal.
    Gte,
    /// Is less or equal.
    Lte,
}

impl Operator {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Operator::In => "In",
            Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::Gt => "Gt",
            Operator::Lt => "Lt",
            Operator::Gte => "Gte",
            Operator::Lte => "Lte",
        }
    }
}

/// The object that says how nodes of a NodePool are made: a KWOKNodeClass, an EC2NodeClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassRef {
    /// API group of the class, without version.
    #[schemars(regex(pattern = r"^[^/]*$"))]
    #[x_kube(validation = Rule::new("self != ''").message("a class has an API group"))]
    pub group: String,
    /// Kind of the class.
    #[x_kube(validation = Rule::new("self != ''").message("a class has a kind"))]
    pub kind: String,
    /// Name of the class.
    #[x_kube(validation = Rule::new("self != ''").message("a class has a name"))]
    pub name: String,
}

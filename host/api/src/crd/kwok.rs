//! KWOKNodeClass: parameters of nodes without machines.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::defaults::is_default;
use super::{duration, schema};

/// What stands beside a KWOKNodeClass' metadata. Unlike other resources it may come without a spec,
/// so the spec is a field of this and kube's derive, which would require it, is told that there is
/// none.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.kwok.sh",
    version = "v1alpha1",
    kind = "KWOKNodeClass",
    plural = "kwoknodeclasses",
    shortname = "kwoknc",
    shortname = "kwokncs",
    category = "karpenter",
    status = "KWOKNodeClassStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "How nodes without machines are made.",
    no_spec
)]
pub struct KWOKNodeClassFields {
    /// What the class asks for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spec: KWOKNodeClassSpec,
}

/// What a KWOKNodeClass asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KWOKNodeClassSpec {
    /// How long after its launch a node appears; at once, if absent. Read it with
    /// [`KWOKNodeClass::registration_delay`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub node_registration_delay: Option<String>,
}

/// What is known of a KWOKNodeClass. The API server fills in that it is ready.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KWOKNodeClassStatus {
    /// Statements about the class.
    #[serde(
        default,
        deserialize_with = "super::condition::readable",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(schema_with = "schema::plain_conditions")]
    pub conditions: Vec<Condition>,
}

impl KWOKNodeClass {
    /// How long after its launch a node appears.
    pub fn registration_delay(&self) -> Result<std::time::Duration, duration::NotADuration> {
        self.spec
            .spec
            .node_registration_delay
            .as_deref()
            .map_or(Ok(std::time::Duration::ZERO), duration::duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_may_come_without_a_spec() {
        let head = r#""apiVersion":"karpenter.kwok.sh/v1alpha1","kind":"KWOKNodeClass","metadata":{"name":"default"}"#;
        let class: KWOKNodeClass = serde_json::from_str(&format!("{{{head}}}")).unwrap();
        assert_eq!(class.registration_delay().unwrap().as_secs(), 0);
        let json = format!(r#"{{{head},"spec":{{"nodeRegistrationDelay":"1m30s"}}}}"#);
        let class: KWOKNodeClass = serde_json::from_str(&json).unwrap();
        assert_eq!(class.registration_delay().unwrap().as_secs(), 90);
        let again = serde_json::to_value(&class).unwrap();
        assert_eq!(again["spec"]["nodeRegistrationDelay"], "1m30s");
        assert_eq!(again["metadata"]["name"], "default");
    }
}

//! The definitions that a cluster installs: generated from the types, adjusted to Karpenter's own,
//! and written as YAML.
//!
//! kube's derive expresses some things differently from Karpenter's definitions. Most servers treat
//! both alike, but without differences there is nothing to consider.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use serde_json::{Map, Value, json};

use super::{CapacityBuffer, KWOKNodeClass, NodeClaim, NodeOverlay, NodePool};

mod yaml;

/// Annotations of every definition. With a definition all of its objects go, and with NodePools their
/// nodes: so neither Helm nor Argo CD nor Flux deletes one because it left a chart or a folder.
const KEPT: [(&str, &str); 3] = [
    (
        "argocd.argoproj.io/sync-options",
        "Prune=false,Delete=false",
    ),
    ("helm.sh/resource-policy", "keep"),
    ("kustomize.toolkit.fluxcd.io/prune", "disabled"),
];

/// All definitions of this crate, by name. A cloud provider's crate has its own.
pub fn all() -> Vec<Definition> {
    vec![
        Definition::new(CapacityBuffer::crd()),
        Definition::new(KWOKNodeClass::crd()).with_default_status(&json!({
            "conditions": [{
                "type": "Ready",
                "status": "True",
                "reason": "Ready",
                "message": "",
                "lastTransitionTime": "2024-01-01T01:01:01Z",
            }],
        })),
        Definition::new(NodeClaim::crd()),
        Definition::new(NodeOverlay::crd()),
        Definition::new(NodePool::crd()),
    ]
}

/// A CustomResourceDefinition as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition(Value);

impl Definition {
    /// The definition of a type with kube's derive.
    pub fn of<T: kube::CustomResourceExt>() -> Self {
        Self::new(T::crd())
    }

    fn new(mut definition: CustomResourceDefinition) -> Self {
        let kept = KEPT.map(|(key, value)| (key.to_owned(), value.to_owned()));
        definition.metadata.annotations = Some(kept.into());
        // Only maps with keys that are no text cannot become JSON, and there are none.
        let mut value = serde_json::to_value(definition).unwrap_or_default();
        let kind = value
            .pointer("/spec/names/kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        if let Some(names) = value
            .pointer_mut("/spec/names")
            .and_then(Value::as_object_mut)
        {
            // The server would fill it in.
            names.insert("listKind".to_owned(), json!(format!("{kind}List")));
            names.retain(|_, value| *value != json!([]));
        }
        if let Some(version) = value
            .pointer_mut("/spec/versions/0")
            .and_then(Value::as_object_mut)
        {
            version.retain(|_, value| *value != json!([]));
        }
        if let Some(schema) = value.pointer_mut(SCHEMA).and_then(Value::as_object_mut) {
            schema.remove("title");
            document(schema);
        }
        if let Some(schema) = value.pointer_mut(SCHEMA) {
            settle(schema);
        }
        Self(value)
    }

    /// The definition for objects that may come without a spec.
    pub fn with_optional_spec(mut self) -> Self {
        if let Some(schema) = self.0.pointer_mut(SCHEMA).and_then(Value::as_object_mut) {
            schema.remove("required");
        }
        self
    }

    /// The definition with one rule more (CEL, and what is said where it does not hold), at a JSON
    /// pointer below the schema of its objects. A place that is not there gets none.
    pub fn with_rule(mut self, at: &str, rule: &str, message: &str) -> Self {
        let place = self.0.pointer_mut(&format!("{SCHEMA}{at}"));
        if let Some(place) = place.and_then(Value::as_object_mut) {
            let rules = place.entry("x-kubernetes-validations");
            let rules = rules.or_insert_with(|| json!([]));
            if let Some(rules) = rules.as_array_mut() {
                rules.push(json!({"rule": rule, "message": message}));
            }
        }
        self
    }

    fn with_default_status(mut self, status: &Value) -> Self {
        let place = self
            .0
            .pointer_mut(&format!("{SCHEMA}/properties/status"))
            .and_then(Value::as_object_mut);
        if let Some(place) = place {
            place.insert("default".to_owned(), status.clone());
        }
        self
    }

    /// Its name, such as `nodepools.karpenter.sh`.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// The file that it is shipped in, such as `karpenter.sh_nodepools.yaml`.
    pub fn file(&self) -> String {
        format!(
            "{}_{}.yaml",
            self.text("/spec/group"),
            self.text("/spec/names/plural")
        )
    }

    /// The CustomResourceDefinition as the API server takes it.
    pub fn json(&self) -> &Value {
        &self.0
    }

    /// The schema of its objects.
    pub fn schema(&self) -> &Value {
        self.0.pointer(SCHEMA).unwrap_or(&Value::Null)
    }

    /// All of it as YAML.
    pub fn yaml(&self) -> String {
        yaml::write(&self.0)
    }

    fn text(&self, pointer: &str) -> &str {
        self.0
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";

/// Names the fields that every object has.
fn document(schema: &mut Map<String, Value>) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (name, description) in [
        ("apiVersion", "Group and version of the resource."),
        ("kind", "Kind of the resource."),
    ] {
        properties.insert(
            name.to_owned(),
            json!({"description": description, "type": "string"}),
        );
    }
    // The server refuses a definition that says more of it.
    properties.insert("metadata".to_owned(), json!({"type": "object"}));
}

/// Puts a schema, and all within, as upstream does.
fn settle(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            // An absent field is left out, and not null.
            fields.remove("nullable");
            if let Some(Value::Array(values)) = fields.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            // kube takes the types of alternatives away.
            if fields.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
                fields.insert(
                    "anyOf".to_owned(),
                    json!([{"type": "integer"}, {"type": "string"}]),
                );
            }
            // Rust's doc comments are wrapped, and some point to functions.
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = prose(text);
            }
            fields.values_mut().for_each(settle);
        }
        Value::Array(items) => items.iter_mut().for_each(settle),
        // Bounds of whole numbers are held as floats.
        Value::Number(number) => {
            if let Some(whole) = number
                .as_f64()
                .filter(|float| number.is_f64() && float.fract() == 0.0)
            {
                *number = (whole as i64).into();
            }
        }
        _ => {}
    }
}

/// A doc comment as words for users: on one line, and without sentences that point into the code.
fn prose(doc: &str) -> String {
    let line = doc.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut text = line.as_str();
    if let Some(at) = text.find(" Read it with [") {
        text = &text[..at];
    }
    text.to_owned()
}

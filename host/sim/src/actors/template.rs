//! Pods from pod templates.

use serde_json::{Value, json};

use super::fields;
use crate::object::Resource;

/// A pod of a template, controlled by `owner`. `name` is its whole name.
pub fn pod(template: &Value, resource: Resource, owner: &Value, name: &str) -> Value {
    let mut metadata = json!({
        "name": name, "namespace": owner["metadata"]["namespace"],
        "ownerReferences": [fields::controlled_by(resource, owner)],
    });
    for field in ["labels", "annotations"] {
        if let Some(map) = template["metadata"].get(field).filter(|m| m.is_object()) {
            metadata[field] = map.clone();
        }
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

/// Sets a label.
pub fn label(object: &mut Value, key: &str, value: &str) {
    let metadata = fields::map_at(object, "metadata");
    fields::map_at(metadata, "labels")[key] = value.into();
}

/// A short name for the content of a template, as in `pod-template-hash`.
pub fn hash(template: &Value) -> String {
    super::chance::suffix(super::chance::Chance(0).draw("template", &template.to_string()))
}

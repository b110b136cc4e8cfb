//! Creates pods from pod templates.

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::fields;
use crate::keyed_rng::{self, KeyedRng};
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

/// Latest hashes of templates, by the UID of their object.
#[derive(Default)]
pub struct Hashes(FxHashMap<Box<str>, (Option<i64>, String)>);

impl Hashes {
    /// A short name for the content of an object's template, as in `pod-template-hash`.
    pub fn of(&mut self, object: &Value) -> String {
        let (uid, generation) = (
            fields::uid(object),
            fields::number(object, "/metadata/generation"),
        );
        if let Some((of, hash)) = self.0.get(uid)
            && *of == generation
            && generation.is_some()
        {
            return hash.clone();
        }
        let template = object["spec"]["template"].to_string();
        let hash = keyed_rng::suffix(KeyedRng(0).draw("template", &template));
        self.0.insert(uid.into(), (generation, hash.clone()));
        hash
    }
}

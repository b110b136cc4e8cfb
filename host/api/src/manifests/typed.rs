//! Objects of Kubernetes' own kinds held against their types, where no API server has seen them.
//!
//! A value of the wrong type is refused, as by the API server. A field that the type does not have is
//! said and does not count: a cluster may be newer.

mod pod;

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, ReplicationController,
    Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass, VolumeAttachment};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::admit::{is_status, twice};
use super::diagnostic::Fault;
use super::documents::path_text;
use super::explain::hint;
use super::metadata;

/// What is wrong with an object.
#[derive(Default)]
pub(super) struct Found {
    /// Why the API server refuses it.
    pub refusals: Vec<Fault>,
    /// Fields that do not count.
    pub notes: Vec<Fault>,
}

/// Holds an object against the type of its kind. Nothing is known of other kinds and versions.
pub(super) fn check(group: &str, version: &str, kind: &str, text: &str) -> Found {
    match (group, version, kind) {
        ("", "v1", "Pod") => read(text, pod::pod),
        ("", "v1", "Node") => read::<Node>(text, |_| Vec::new()),
        ("", "v1", "Namespace") => read::<Namespace>(text, |_| Vec::new()),
        ("", "v1", "LimitRange") => read::<LimitRange>(text, |_| Vec::new()),
        ("", "v1", "PersistentVolume") => read::<PersistentVolume>(text, |_| Vec::new()),
        ("", "v1", "PersistentVolumeClaim") => read::<PersistentVolumeClaim>(text, |_| Vec::new()),
        ("", "v1", "ReplicationController") => read::<ReplicationController>(text, |_| Vec::new()),
        ("", "v1", "Service") => read::<Service>(text, |_| Vec::new()),
        ("apps", "v1", "DaemonSet") => read(text, pod::daemon),
        ("apps", "v1", "ReplicaSet") => read::<ReplicaSet>(text, |_| Vec::new()),
        ("apps", "v1", "StatefulSet") => read::<StatefulSet>(text, |_| Vec::new()),
        ("policy", "v1", "PodDisruptionBudget") => {
            read::<PodDisruptionBudget>(text, |_| Vec::new())
        }
        ("scheduling.k8s.io", "v1", "PriorityClass") => read::<PriorityClass>(text, |_| Vec::new()),
        ("storage.k8s.io", "v1", "StorageClass") => read::<StorageClass>(text, |_| Vec::new()),
        ("storage.k8s.io", "v1", "CSINode") => read::<CSINode>(text, |_| Vec::new()),
        ("storage.k8s.io", "v1", "CSIDriver") => read::<CSIDriver>(text, |_| Vec::new()),
        ("storage.k8s.io", "v1", "VolumeAttachment") => {
            read::<VolumeAttachment>(text, |_| Vec::new())
        }
        _ => Found::default(),
    }
}

/// Reads an object as its type, which has more rules.
fn read<T: DeserializeOwned>(text: &str, rules: impl Fn(&T) -> Vec<Fault>) -> Found {
    let Ok(mut object) = serde_json::from_str::<Value>(text) else {
        return Found::default();
    };
    as_go_reads(&mut object);
    let mut found = Found::default();
    found.notes.extend(twice(text));
    found.refusals.extend(metadata::check(&object));
    let mut track = serde_path_to_error::Track::new();
    let reader = serde_path_to_error::Deserializer::new(object, &mut track);
    let result: Result<T, _> = serde_ignored::deserialize(reader, |path| {
        let field = path_text(&path);
        if !is_status(&field) {
            found.notes.push(Fault {
                field,
                what: "is not a known field".to_owned(),
                hint: "it has no effect here; remove it, or correct its spelling: kubectl apply \
                       refuses it"
                    .to_owned(),
            });
        }
    });
    match result {
        Ok(object) => found.refusals.extend(rules(&object)),
        Err(error) => {
            let field = track.path().to_string();
            let what: String = error.to_string().chars().take(300).collect();
            found.refusals.push(Fault {
                field: if field == "." { String::new() } else { field },
                hint: hint(&what).to_owned(),
                what,
            });
        }
    }
    found
}

/// Maps with amounts by resource.
const AMOUNTS: [&str; 11] = [
    "allocatable",
    "allocatedResources",
    "capacity",
    "default",
    "defaultRequest",
    "limits",
    "max",
    "maxLimitRequestRatio",
    "min",
    "overhead",
    "requests",
];
/// Fields with an amount.
const AMOUNT: [&str; 3] = ["divisor", "maximumVolumeSize", "sizeLimit"];

/// Null is the same as nothing, and a number is an amount too.
fn as_go_reads(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            for (name, value) in fields {
                if AMOUNT.contains(&name.as_str()) {
                    as_text(value);
                }
                if let (true, Value::Object(amounts)) =
                    (AMOUNTS.contains(&name.as_str()), &mut *value)
                {
                    as_texts(amounts);
                }
                as_go_reads(value);
            }
        }
        Value::Array(items) => {
            let of_objects = items.iter().any(Value::is_object);
            for item in items.iter_mut().filter(|item| item.is_null()) {
                *item = if of_objects { json!({}) } else { json!("") };
            }
            items.iter_mut().for_each(as_go_reads);
        }
        _ => {}
    }
}

fn as_texts(amounts: &mut Map<String, Value>) {
    // What a CSINode says of a driver is a number.
    let amounts = amounts.iter_mut().filter(|(name, _)| *name != "count");
    amounts.for_each(|(_, amount)| as_text(amount));
}

fn as_text(value: &mut Value) {
    if let Value::Number(number) = value {
        *value = number.to_string().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_volumes_of_a_csi_node_stays_a_number() {
        let text = r#"{"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n"},
            "spec": {"drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": 25}}]}}"#;
        let found = check("storage.k8s.io", "v1", "CSINode", text);
        assert!(found.refusals.is_empty() && found.notes.is_empty());
    }

    #[test]
    fn wrong_types_are_refused_and_unknown_fields_said() {
        let pod = |container: &str| {
            let image = if container.contains("image") {
                ""
            } else {
                r#""image": "pause", "#
            };
            let spec = format!(r#"{{"containers": [{{"name": "c", {image}{container}}}]}}"#);
            let text = format!(
                r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "a"}}, "spec": {spec}}}"#
            );
            let found = check("", "v1", "Pod", &text);
            let said = |faults: &[Fault]| {
                let one = |fault: &Fault| format!("{}: {}", fault.field, fault.what);
                faults.iter().map(one).collect::<Vec<_>>().join("\n")
            };
            (said(&found.refusals), said(&found.notes))
        };
        let amounts =
            r#""resources": {"requests": {"cpu": 1, "memory": 1.5, "example.com/x": null}}"#;
        assert_eq!(pod(amounts), (String::new(), String::new()));
        let (refused, _) = pod(r#""image": 5"#);
        assert!(
            refused.starts_with("spec.containers[0].image: invalid type"),
            "{refused}"
        );
        let (refused, said) = pod(r#""imagee": "pause""#);
        assert_eq!(
            (&*refused, &*said),
            ("", "spec.containers[0].imagee: is not a known field")
        );
    }
}

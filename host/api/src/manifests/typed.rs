//! Objects of Kubernetes' own kinds held against their types, where no API server has seen them.
//!
//! A value of the wrong type is refused, as by the API server. A field that the type does not have is
//! said and does not count: a cluster may be newer.

mod pod;

use longshore_objects::{Object, read};
use serde_json::{Map, Value, json};

use super::admit::twice;
use super::diagnostic::{Fault, quoted};
use super::explain::hint;
use super::metadata;
use super::status::{is_status, passed_over};

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
    let Ok(mut object) = serde_json::from_str::<Value>(text) else {
        return Found::default();
    };
    as_go_reads(&mut object);
    let of_metadata = metadata::check(&object);
    let fractions = fractions(&object);
    let Some(read) = read((group, version, kind), object) else {
        return Found::default();
    };
    let mut found = Found::default();
    found.notes.extend(fractions);
    found.notes.extend(twice(text));
    found.refusals.extend(of_metadata);
    let unknown = read.unknown.into_iter().filter(|field| !is_status(field));
    found.notes.extend(unknown.map(|field| {
        Fault {
        field,
        what: "is not a known field".to_owned(),
        hint: "it has no effect here; remove it, or correct its spelling: kubectl apply refuses it"
            .to_owned(),
    }
    }));
    match read.object {
        Ok(Object::Pod(of)) => found.refusals.extend(pod::pod(&of)),
        Ok(Object::DaemonSet(of)) => found.refusals.extend(pod::daemon(&of)),
        Ok(Object::Other) => {}
        Err(wrong) if is_status(&wrong.field) => {
            let fault = Fault {
                field: wrong.field,
                what: wrong.what.chars().take(300).collect(),
                hint: String::new(),
            };
            found.notes.push(passed_over(fault));
        }
        Err(wrong) => {
            let what: String = wrong.what.chars().take(300).collect();
            found.refusals.push(Fault {
                field: wrong.field,
                hint: hint(&what).to_owned(),
                what,
            });
        }
    }
    found
}

/// Memory and storage of a pod's containers in thousandths of a byte: `512m` for `512Mi`, say.
fn fractions(object: &Value) -> Vec<Fault> {
    let mut all = Vec::new();
    for (at, spec) in [
        ("spec", &object["spec"]),
        ("spec.template.spec", &object["spec"]["template"]["spec"]),
    ] {
        for list in ["containers", "initContainers"] {
            for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
                for part in ["requests", "limits"] {
                    for resource in ["memory", "ephemeral-storage"] {
                        let amount = container["resources"][part][resource].as_str();
                        let Some(amount) = amount.filter(|text| text.ends_with('m')) else {
                            continue;
                        };
                        all.push(Fault {
                            field: format!("{at}.{list}[{index}].resources.{part}[{resource}]"),
                            what: format!("{} are thousandths of a byte", quoted(amount)),
                            hint: "write Mi for mebibytes".to_owned(),
                        });
                    }
                }
            }
        }
    }
    all
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

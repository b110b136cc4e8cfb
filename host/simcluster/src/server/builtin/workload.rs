//! Kinds that create pods: defaults, templates, immutable selectors.

use serde_json::{Value, json};

use super::pod;
use crate::object::Resource;
use crate::server::api_error::{ApiErrorWithDetails, Cause};
use crate::server::meta::{self, at, default, part, text};
use crate::server::select::Selector;

/// Fills in what is not said.
pub fn complete(resource: Resource, object: &mut Value) {
    if let Some(spec) = object
        .pointer_mut("/spec/template/spec")
        .and_then(Value::as_object_mut)
    {
        pod::complete(spec);
    }
    if resource.plural == "jobs" {
        return job(object);
    }
    let labels = object.pointer("/spec/template/metadata/labels").cloned();
    let spec = part(object, "spec");
    match resource.plural {
        "deployments" => {
            let rolling = json!({
                "type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
            });
            default(spec, "replicas", json!(1));
            default(spec, "strategy", rolling);
            default(spec, "revisionHistoryLimit", json!(10));
            default(spec, "progressDeadlineSeconds", json!(600));
        }
        "replicasets" => default(spec, "replicas", json!(1)),
        "replicationcontrollers" => {
            default(spec, "replicas", json!(1));
            if let Some(labels) = labels {
                default(spec, "selector", labels);
            }
        }
        "statefulsets" => {
            default(spec, "replicas", json!(1));
            default(spec, "podManagementPolicy", json!("OrderedReady"));
            default(
                spec,
                "updateStrategy",
                json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
            );
            default(spec, "revisionHistoryLimit", json!(10));
            let retention = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
            default(spec, "persistentVolumeClaimRetentionPolicy", retention);
            for claim in spec
                .get_mut("volumeClaimTemplates")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                default(part(claim, "spec"), "volumeMode", json!("Filesystem"));
            }
        }
        "daemonsets" => {
            let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
            default(spec, "updateStrategy", rolling);
            default(spec, "revisionHistoryLimit", json!(10));
        }
        _ => {}
    }
}

/// A job's pods are selected by its UID, which is written into its template.
fn job(object: &mut Value) {
    let uid = text(object, &["metadata", "uid"]).to_owned();
    let name = text(object, &["metadata", "name"]).to_owned();
    let spec = part(object, "spec");
    default(spec, "parallelism", json!(1));
    if spec["parallelism"] == json!(1) && !spec.contains_key("completions") {
        spec.insert("completions".into(), json!(1));
    }
    default(spec, "backoffLimit", json!(6));
    default(spec, "completionMode", json!("NonIndexed"));
    default(spec, "suspend", json!(false));
    default(spec, "podReplacementPolicy", json!("TerminatingOrFailed"));
    default(spec, "manualSelector", json!(false));
    if spec["manualSelector"] == json!(true) || spec.contains_key("selector") {
        return;
    }
    spec.insert(
        "selector".into(),
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}),
    );
    let template = meta::fields(spec.entry("template").or_insert_with(|| json!({})));
    let metadata = meta::fields(template.entry("metadata").or_insert_with(|| json!({})));
    let labels = meta::fields(metadata.entry("labels").or_insert_with(|| json!({})));
    for (label, value) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ] {
        labels.insert(label.into(), json!(value));
    }
}

/// Refuses what could never make a pod of its own.
pub fn check(resource: Resource, object: &Value) -> Result<(), ApiErrorWithDetails> {
    let mut causes = Vec::new();
    let template = &object["spec"]["template"];
    match at(template, &["spec"]).and_then(Value::as_object) {
        Some(spec) => causes.extend(pod::check("spec.template.spec", spec)),
        None => causes.push(Cause::required("spec.template.spec.containers", "")),
    }
    let labels = template["metadata"]["labels"].as_object();
    let selector = &object["spec"]["selector"];
    if resource.plural == "jobs" {
        let policy = text(template, &["spec", "restartPolicy"]);
        if !matches!(policy, "OnFailure" | "Never") {
            let message = format!(
                "Unsupported value: {policy:?}: supported values: \"OnFailure\", \"Never\""
            );
            let field = "spec.template.spec.restartPolicy".to_owned();
            causes.push(Cause {
                field,
                reason: "FieldValueNotSupported",
                message,
            });
        }
    } else if selector.is_null() {
        causes.push(Cause::required("spec.selector", ""));
    } else {
        let takes = match resource.plural {
            "replicationcontrollers" => {
                Selector::of(&json!({"matchLabels": selector})).takes_labels(labels)
            }
            _ => Selector::of(selector).takes_labels(labels),
        };
        if !takes {
            let value = &template["metadata"]["labels"];
            let why = "`selector` does not match template `labels`";
            causes.push(Cause::invalid("spec.template.metadata.labels", value, why));
        }
    }
    let name = text(object, &["metadata", "name"]);
    if causes.is_empty() {
        Ok(())
    } else {
        Err(ApiErrorWithDetails::invalid(resource, name, &causes))
    }
}

/// Refuses changes of what can never be changed.
pub fn change(resource: Resource, object: &Value, old: &Value) -> Result<(), ApiErrorWithDetails> {
    let fixed: &[&str] = match resource.plural {
        "replicationcontrollers" => &[],
        "jobs" => &["selector", "template", "completionMode"],
        _ => &["selector"],
    };
    for field in fixed {
        let value = &object["spec"][field];
        if *value != old["spec"][field] {
            let cause = Cause::invalid(format!("spec.{field}"), value, "field is immutable");
            return Err(ApiErrorWithDetails::invalid(
                resource,
                text(object, &["metadata", "name"]),
                &[cause],
            ));
        }
    }
    Ok(())
}

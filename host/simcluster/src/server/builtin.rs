//! Defaults, admission and immutable fields of built-in kinds.
//!
//! This covers what an autoscaler and the controllers around it notice. Unknown fields are kept,
//! quantities keep their notation, and most kinds are validated only for what is named here.

mod limits;
mod pod;
mod workload;

use serde_json::{Value, json};

use super::api_error::{ApiErrorWithDetails, Cause};
use super::meta::{self, at, default, part, text};
use super::resources::{SERVICE, STORAGE_CLASS};
use super::state::ServerState;
use crate::object::{Resource, Subresource};

/// Completes and checks a new object.
pub fn admit(
    state: &mut ServerState,
    resource: Resource,
    object: &mut Value,
) -> Result<(), ApiErrorWithDetails> {
    match resource.plural {
        "pods" => pod::admit(state, object)?,
        "nodes" => node(object),
        "namespaces" => namespace(object),
        "limitranges" => limits::complete(object),
        "persistentvolumeclaims" => claim(state, object),
        "persistentvolumes" => volume(object),
        "services" => service(state, object),
        "deployments"
        | "replicasets"
        | "statefulsets"
        | "daemonsets"
        | "jobs"
        | "replicationcontrollers" => {
            meta::fields(object).remove("status");
            workload::complete(resource, object);
            workload::check(resource, object)?;
        }
        "poddisruptionbudgets" => {
            meta::fields(object).remove("status");
        }
        "storageclasses" => {
            default(meta::fields(object), "reclaimPolicy", json!("Delete"));
            default(
                meta::fields(object),
                "volumeBindingMode",
                json!("Immediate"),
            );
        }
        "priorityclasses" => default(
            meta::fields(object),
            "preemptionPolicy",
            json!("PreemptLowerPriority"),
        ),
        _ => {}
    }
    Ok(())
}

/// Completes and checks a changed object.
pub fn change(
    resource: Resource,
    object: &mut Value,
    old: &Value,
    sub: Subresource,
) -> Result<(), ApiErrorWithDetails> {
    if sub == Subresource::Status {
        return Ok(());
    }
    match resource.plural {
        "pods" => pod::change(object, old),
        "deployments"
        | "replicasets"
        | "statefulsets"
        | "daemonsets"
        | "jobs"
        | "replicationcontrollers" => {
            workload::complete(resource, object);
            workload::check(resource, object)?;
            workload::change(resource, object, old)
        }
        "nodes" => {
            let before = text(old, &["spec", "providerID"]);
            if !before.is_empty() && before != text(object, &["spec", "providerID"]) {
                let why = "node updates may not change providerID except from \"\" to valid";
                return Err(refuse(
                    resource,
                    object,
                    Cause::forbidden("spec.providerID", why),
                ));
            }
            Ok(())
        }
        "limitranges" => {
            limits::complete(object);
            Ok(())
        }
        "namespaces" => {
            // Only `finalize` changes those.
            let before = old.pointer("/spec/finalizers").cloned();
            match before {
                Some(before) => drop(part(object, "spec").insert("finalizers".into(), before)),
                None => drop(part(object, "spec").remove("finalizers")),
            }
            Ok(())
        }
        "services" => {
            for field in ["clusterIP", "clusterIPs"] {
                if let Some(before) = at(old, &["spec", field]) {
                    default(part(object, "spec"), field, before.clone());
                }
            }
            Ok(())
        }
        "priorityclasses" if object["value"] != old["value"] => Err(refuse(
            resource,
            object,
            Cause::invalid("value", &object["value"], "field is immutable"),
        )),
        _ => Ok(()),
    }
}

fn refuse(resource: Resource, object: &Value, cause: Cause) -> ApiErrorWithDetails {
    ApiErrorWithDetails::invalid(resource, text(object, &["metadata", "name"]), &[cause])
}

/// A node is taken to be not ready until the node lifecycle controller has looked at it.
fn node(object: &mut Value) {
    let taints = part(object, "spec")
        .entry("taints")
        .or_insert_with(|| json!([]));
    let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    if let Some(taints) = taints.as_array_mut() {
        let same = |taint: &Value| {
            taint["key"] == not_ready["key"] && taint["effect"] == not_ready["effect"]
        };
        if !taints.iter().any(same) {
            taints.push(not_ready);
        }
    }
}

fn namespace(object: &mut Value) {
    let name = text(object, &["metadata", "name"]).to_owned();
    let labels = meta::metadata_mut(object)
        .entry("labels")
        .or_insert_with(|| json!({}));
    meta::fields(labels).insert("kubernetes.io/metadata.name".into(), json!(name));
    part(object, "spec").insert("finalizers".into(), json!(["kubernetes"]));
    meta::fields(object).insert("status".into(), json!({"phase": "Active"}));
}

/// Somebody uses it until a controller says otherwise.
fn protect(object: &mut Value, finalizer: &str) {
    let all = meta::metadata_mut(object)
        .entry("finalizers")
        .or_insert_with(|| json!([]));
    if let Some(all) = all.as_array_mut()
        && !all.iter().any(|other| other == finalizer)
    {
        all.push(json!(finalizer));
    }
}

fn claim(state: &ServerState, object: &mut Value) {
    protect(object, "kubernetes.io/pvc-protection");
    meta::fields(object).insert("status".into(), json!({"phase": "Pending"}));
    let spec = part(object, "spec");
    default(spec, "volumeMode", json!("Filesystem"));
    if !spec.contains_key("storageClassName") {
        const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
        let classes = state.store.all(STORAGE_CLASS);
        let mut defaults =
            classes.filter(|class| class.value["metadata"]["annotations"][DEFAULT] == "true");
        if let Some(class) = defaults.next() {
            spec.insert("storageClassName".into(), json!(*class.key.name));
        }
    }
}

fn volume(object: &mut Value) {
    protect(object, "kubernetes.io/pv-protection");
    meta::fields(object).insert("status".into(), json!({"phase": "Pending"}));
    let spec = part(object, "spec");
    default(spec, "persistentVolumeReclaimPolicy", json!("Retain"));
    default(spec, "volumeMode", json!("Filesystem"));
}

fn service(state: &ServerState, object: &mut Value) {
    meta::fields(object).insert("status".into(), json!({"loadBalancer": {}}));
    let spec = part(object, "spec");
    default(spec, "type", json!("ClusterIP"));
    default(spec, "sessionAffinity", json!("None"));
    for port in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let number = port["port"].clone();
        default(meta::fields(port), "protocol", json!("TCP"));
        default(meta::fields(port), "targetPort", number);
    }
    if spec["type"] != "ExternalName" && !spec.contains_key("clusterIP") {
        let taken: Vec<&str> = state
            .store
            .all(SERVICE)
            .map(|s| text(&s.value, &["spec", "clusterIP"]))
            .collect();
        let address = |n: u32| format!("10.96.{}.{}", n >> 8, n & 0xff);
        if let Some(free) = (10..0xffff)
            .map(address)
            .find(|address| !taken.contains(&address.as_str()))
        {
            spec.insert("clusterIPs".into(), json!([free]));
            spec.insert("clusterIP".into(), json!(free));
        }
    }
}

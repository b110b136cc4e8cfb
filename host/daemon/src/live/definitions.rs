//! Compares the cluster's resource definitions with those of this Longshore. The watch reports a
//! missing one. An outdated one accepts objects and silently drops the fields that it does not
//! know.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use longshore_api::crd::definition::{self, Definition};
use serde_json::Value;

/// What installs the definitions.
pub const INSTALL: &str = "kubectl apply --server-side --force-conflicts -f deploy/crds";

/// Most fields that are named.
const NAMED: usize = 5;

/// What is wrong with the definitions in the cluster, a sentence each.
///
/// # Errors
/// The server cannot be asked, or does not let us.
pub async fn differences(client: &kube::Client) -> Result<Vec<String>, kube::Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut said = Vec::new();
    for ours in definition::all() {
        if let Some(theirs) = api.get_opt(ours.name()).await? {
            let theirs = serde_json::to_value(&theirs).unwrap_or_default();
            said.extend(difference(&ours, &theirs));
        }
    }
    Ok(said)
}

/// What the cluster's definition lacks of ours, in a sentence; nothing if it lacks nothing.
pub fn difference(ours: &Definition, theirs: &Value) -> Option<String> {
    let name = ours.name();
    let version = ours.json()["spec"]["versions"][0]["name"]
        .as_str()
        .unwrap_or_default();
    let versions = theirs["spec"]["versions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let same = versions
        .iter()
        .find(|v| v["name"] == version && v["served"] == true);
    let Some(same) = same else {
        let names: Vec<&str> = versions.iter().filter_map(|v| v["name"].as_str()).collect();
        let has = names.join(", ");
        return Some(format!(
            "the cluster's {name} has {has} and not {version}; {INSTALL}"
        ));
    };
    let mut lacks = Vec::new();
    compare(
        ours.schema(),
        &same["schema"]["openAPIV3Schema"],
        "",
        &mut lacks,
    );
    if lacks.is_empty() {
        return None;
    }
    let more = lacks.len().saturating_sub(NAMED);
    lacks.truncate(NAMED);
    let fields = lacks.join(", ")
        + &if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
    Some(format!(
        "CRD {name} in the cluster is outdated and drops the fields {fields}; {INSTALL}"
    ))
}

/// Adds the fields that `theirs` does not have, the outermost of each.
fn compare(ours: &Value, theirs: &Value, path: &str, lacks: &mut Vec<String>) {
    if theirs["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    for (name, field) in ours["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        match theirs["properties"].get(name) {
            // What is in it is known to every server.
            Some(_) if path == "metadata" => {}
            Some(theirs) => compare(field, theirs, &path, lacks),
            None => lacks.push(path),
        }
    }
    for part in ["items", "additionalProperties"] {
        if ours[part].is_object() && theirs[part].is_object() {
            compare(&ours[part], &theirs[part], path, lacks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools() -> Definition {
        definition::all()
            .into_iter()
            .find(|d| d.name().starts_with("nodepools."))
            .unwrap()
    }

    #[test]
    fn a_definition_is_told_from_one_of_another_version() {
        let ours = pools();
        assert_eq!(difference(&ours, ours.json()), None);
        let mut older = ours.json().clone();
        let spec = &mut older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            ["properties"];
        spec.as_object_mut().unwrap().remove("replicas");
        let budgets = &mut spec["disruption"]["properties"]["budgets"]["items"]["properties"];
        budgets.as_object_mut().unwrap().remove("reasons");
        let said = difference(&ours, &older).unwrap();
        assert_eq!(
            said,
            "CRD nodepools.karpenter.sh in the cluster is outdated and drops the fields \
             spec.disruption.budgets.reasons, spec.replicas; \
             kubectl apply --server-side --force-conflicts -f deploy/crds"
        );
        let mut beta = ours.json().clone();
        beta["spec"]["versions"][0]["name"] = "v1beta1".into();
        assert!(
            difference(&ours, &beta)
                .unwrap()
                .contains("nodepools.karpenter.sh has v1beta1 and not v1; kubectl")
        );
    }
}

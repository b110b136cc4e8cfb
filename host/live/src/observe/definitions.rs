//! Compares the cluster's resource definitions with those of this Longshore. The watch reports a
//! missing one. An outdated one accepts objects and silently drops the fields that it does not
//! know.

use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use longshore_api::crd::definition::{self, Definition};
use serde_json::Value;

/// What installs the definitions.
pub const INSTALL: &str = "kubectl apply --server-side --force-conflicts -f deploy/crds";

/// Most fields that are named.
const MAX_NAMED_FIELDS: usize = 5;

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
            let found = difference(&ours, &theirs);
            said.extend(found.map(|found| format!("{found}; {INSTALL}")));
        }
    }
    Ok(said)
}

/// What a definition in the cluster lacks of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// It does not serve our version: it has others.
    Version {
        name: String,
        version: String,
        has: Vec<String>,
    },
    /// It has no such fields, by path, and drops them.
    Fields { name: String, fields: Vec<String> },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Version { name, version, has } => {
                let has = has.join(", ");
                write!(f, "the cluster's {name} has {has} and not {version}")
            }
            Difference::Fields { name, fields } => {
                let named = &fields[..fields.len().min(MAX_NAMED_FIELDS)];
                write!(
                    f,
                    "CRD {name} in the cluster is outdated and drops the fields {}",
                    named.join(", ")
                )?;
                match fields.len() - named.len() {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
        }
    }
}

/// What the cluster's definition lacks of ours; nothing if it lacks nothing.
pub fn difference(ours: &Definition, theirs: &Value) -> Option<Difference> {
    let name = ours.name().to_owned();
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
        let names = versions.iter().filter_map(|v| v["name"].as_str());
        return Some(Difference::Version {
            name,
            version: version.to_owned(),
            has: names.map(str::to_owned).collect(),
        });
    };
    let mut fields = Vec::new();
    let theirs = &same["schema"]["openAPIV3Schema"];
    compare(ours.schema(), theirs, "", &mut fields);
    (!fields.is_empty()).then_some(Difference::Fields { name, fields })
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
        assert_eq!(
            difference(&ours, &older).unwrap().to_string(),
            "CRD nodepools.karpenter.sh in the cluster is outdated and drops the fields \
             spec.disruption.budgets.reasons, spec.replicas"
        );
        let mut beta = ours.json().clone();
        beta["spec"]["versions"][0]["name"] = "v1beta1".into();
        assert_eq!(
            difference(&ours, &beta).unwrap().to_string(),
            "the cluster's nodepools.karpenter.sh has v1beta1 and not v1"
        );
    }
}

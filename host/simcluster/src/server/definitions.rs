//! Custom kinds: objects are pruned, defaulted and validated by the cluster's definitions, which are
//! those of `longshore-api` and `longshore-ec2` that `deploy/crds` ships.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use longshore_api::crd::admission::Admission;
use longshore_api::crd::definition::{self, Definition};
use serde_json::Value;

pub use longshore_api::crd::admission::{ListKind, Schema};

use super::api_error::ApiErrorWithDetails;
use super::meta::text;
use super::resources;
use crate::object::Resource;

/// By kind. Compiling the rules takes longer than a simulated minute: once per process.
fn all() -> &'static BTreeMap<Resource, Admission> {
    static ALL: OnceLock<BTreeMap<Resource, Admission>> = OnceLock::new();
    ALL.get_or_init(|| {
        let admission = |definition: &Definition| {
            let spec = &definition.json()["spec"];
            let (group, plural) = (text(spec, &["group"]), text(spec, &["names", "plural"]));
            let version = text(&spec["versions"][0], &["name"]);
            let resource = resources::find(group, version, plural)?;
            Some((resource, Admission::of(definition)))
        };
        let ec2 = longshore_ec2::nodeclass::definition();
        let all = definition::all();
        all.iter().chain([&ec2]).filter_map(admission).collect()
    })
}

/// The schema of a custom kind.
pub fn schema(resource: Resource) -> Option<&'static Schema> {
    all().get(&resource).map(Admission::schema)
}

/// Cleans, completes and checks a custom object.
pub fn shape(
    resource: Resource,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), ApiErrorWithDetails> {
    let Some(admission) = all().get(&resource) else {
        return Err(ApiErrorWithDetails::nowhere());
    };
    let causes = admission.admit(object, old);
    if causes.is_empty() {
        return Ok(());
    }
    let name = text(object, &["metadata", "name"]);
    Err(ApiErrorWithDetails::invalid(resource, name, &causes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_has_its_kind_and_its_rules_compile() {
        let known: Vec<&str> = all().keys().map(|resource| resource.plural).collect();
        // That of EC2NodeClasses is not among the API's own.
        assert_eq!(known.len(), definition::all().len() + 1, "{known:?}");
        for (resource, admission) in all() {
            let (errors, about) = admission.compilation();
            assert!(errors.is_empty(), "{}: {errors:?}", resource.plural);
            assert!(about.len() <= 2, "{}: {about:?}", resource.plural);
        }
    }
}

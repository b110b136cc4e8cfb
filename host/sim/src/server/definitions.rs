//! Custom kinds: objects are cleaned, completed and checked by the definitions that a cluster is given.
//!
//! The definitions are those of `longshore-api`, which are what `deploy/crds` ships. What an object had before is not
//! checked again: neither its schema nor its rules can refuse what they have accepted.

mod schema;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use kube_cel::{CompiledSchema, Validator, compile_schema};
use longshore_api::crd::definition;
use serde_json::{Value, json};

pub use schema::{ListKind, Schema};

use super::meta::text;
use super::refusal::{Cause, Refused};
use super::resources;
use crate::object::Resource;

struct Definition {
    schema: Schema,
    rules: CompiledSchema,
}

/// By kind. Compiling the rules takes longer than a simulated minute: once per process.
fn all() -> &'static BTreeMap<Resource, Definition> {
    static ALL: OnceLock<BTreeMap<Resource, Definition>> = OnceLock::new();
    ALL.get_or_init(|| {
        let definition = |definition: &definition::Definition| {
            let spec = &definition.json()["spec"];
            let (group, plural) = (text(spec, &["group"]), text(spec, &["names", "plural"]));
            let version = text(&spec["versions"][0], &["name"]);
            let resource = resources::find(group, version, plural)?;
            let schema = definition.schema();
            Some((resource, Definition { schema: Schema::read(schema), rules: compile_schema(schema) }))
        };
        definition::all().iter().filter_map(definition).collect()
    })
}

/// The schema of a custom kind.
pub fn schema(resource: Resource) -> Option<&'static Schema> {
    all().get(&resource).map(|definition| &definition.schema)
}

/// Cleans, completes and checks a custom object.
pub fn shape(resource: Resource, object: &mut Value, old: Option<&Value>) -> Result<(), Refused> {
    let Some(Definition { schema, rules }) = all().get(&resource) else { return Err(Refused::nowhere()) };
    schema.clean(object);
    schema.complete(object);
    let name = text(object, &["metadata", "name"]).to_owned();
    let mut causes = Vec::new();
    schema.check_object(object, old, &mut causes);
    if causes.is_empty() {
        obey(rules, object, old, &mut causes);
    }
    if causes.is_empty() { Ok(()) } else { Err(Refused::invalid(resource, &name, &causes)) }
}

/// Asks the rules about what differs from before.
fn obey(rules: &CompiledSchema, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let mut ask = |rules: &CompiledSchema, path: &str, value: &Value, old: Option<&Value>| {
        let failures = Validator::new().validate_compiled(rules, value, old);
        for failure in failures.err().map(kube_cel::ValidationErrors::into_vec).unwrap_or_default() {
            let parts = [path, &failure.field_path];
            let field = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
            causes.push(Cause::invalid(field, &json!("object"), &failure.message));
        }
    };
    if !rules.validations.is_empty() {
        return ask(rules, "", object, old);
    }
    for (name, value) in object.as_object().into_iter().flatten() {
        let before = old.and_then(|old| old.get(name));
        if let Some(rules) = rules.properties.get(name)
            && before != Some(value)
        {
            ask(rules, name, value, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_has_its_kind_and_its_rules_compile() {
        let known: Vec<&str> = all().keys().map(|resource| resource.plural).collect();
        assert_eq!(known.len(), definition::all().len(), "{known:?}");
        for (resource, Definition { rules, .. }) in all() {
            assert!(!rules.has_errors(), "{}: {:?}", resource.plural, rules.compilation_errors());
        }
    }
}

//! Custom kinds: objects are pruned, defaulted and validated by the cluster's definitions.
//!
//! The definitions are those of `longshore-api`, which `deploy/crds` ships. Unchanged parts of an
//! object are not validated again: neither schema nor rules can refuse what they have accepted.

mod schema;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, OnceLock, PoisonError};

use kube_cel::{CompiledSchema, Validator, compile_schema};
use longshore_api::crd::definition;
use serde_json::{Value, json};

pub use schema::{ListKind, Schema};

use super::api_error::{ApiErrorWithDetails, Cause};
use super::meta::text;
use super::resources;
use crate::object::Resource;

struct Definition {
    schema: Schema,
    rules: Rules,
}

/// The rules of a definition, by the field of the object that they are about; the empty one for the
/// whole.
struct Rules {
    compiled: CompiledSchema,
    about: Vec<String>,
    /// New values that were accepted, as text: objects made from one template are many, and asking
    /// takes milliseconds.
    accepted: Mutex<BTreeSet<String>>,
}

/// So many of those are kept.
const ACCEPTED: usize = 1000;

impl Rules {
    fn new(compiled: CompiledSchema) -> Self {
        let whole = (!compiled.validations.is_empty()).then(String::new);
        let parts = compiled
            .properties
            .iter()
            .filter(|(_, part)| has_rules(part))
            .map(|(name, _)| name.clone());
        let mut about: Vec<String> = whole.into_iter().chain(parts).collect();
        about.sort();
        Rules {
            compiled,
            about,
            accepted: Mutex::default(),
        }
    }
}

fn has_rules(part: &CompiledSchema) -> bool {
    let below = part
        .properties
        .values()
        .chain(part.items.as_deref())
        .chain(part.additional_properties.as_deref());
    !part.validations.is_empty() || below.chain(&part.all_of).any(has_rules)
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
            Some((
                resource,
                Definition {
                    schema: Schema::read(schema),
                    rules: Rules::new(compile_schema(schema)),
                },
            ))
        };
        let ec2 = longshore_ec2::nodeclass::definition();
        let all = definition::all();
        all.iter().chain([&ec2]).filter_map(definition).collect()
    })
}

/// The schema of a custom kind.
pub fn schema(resource: Resource) -> Option<&'static Schema> {
    all().get(&resource).map(|definition| &definition.schema)
}

/// An object with one of these faults is not looked at by rules.
const STOPS: [&str; 5] = [
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
];

/// Cleans, completes and checks a custom object.
pub fn shape(
    resource: Resource,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), ApiErrorWithDetails> {
    let Some(Definition { schema, rules }) = all().get(&resource) else {
        return Err(ApiErrorWithDetails::nowhere());
    };
    schema.clean(object);
    schema.complete(object);
    let name = text(object, &["metadata", "name"]).to_owned();
    let mut causes = Vec::new();
    schema.check_object(object, old, &mut causes);
    if causes.iter().any(|cause| STOPS.contains(&cause.reason)) {
        let why = "some validation rules were not checked because the object was invalid; correct the existing errors \
            to complete validation";
        causes.push(Cause::invalid("<nil>", &Value::Null, why));
    } else {
        obey(rules, object, old, &mut causes);
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(ApiErrorWithDetails::invalid(resource, &name, &causes))
    }
}

/// Asks the rules about what differs from before.
fn obey(rules: &Rules, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    for name in &rules.about {
        let part = |object| {
            if name.is_empty() {
                Some(object)
            } else {
                Value::get(object, name)
            }
        };
        let (value, before) = (part(object), old.and_then(part));
        let compiled = if name.is_empty() {
            Some(&rules.compiled)
        } else {
            rules.compiled.properties.get(name)
        };
        if let (Some(value), Some(compiled)) = (value, compiled)
            && before != Some(value)
        {
            ask(rules, compiled, name, value, before, causes);
        }
    }
}

fn ask(
    rules: &Rules,
    compiled: &CompiledSchema,
    path: &str,
    value: &Value,
    before: Option<&Value>,
    causes: &mut Vec<Cause>,
) {
    let lock = || {
        rules
            .accepted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    };
    // What is new is accepted for what it is alone.
    let text = before.is_none().then(|| format!("{path} {value}"));
    if text.as_ref().is_some_and(|text| lock().contains(text)) {
        return;
    }
    let failures = Validator::new().validate_compiled(compiled, value, before);
    let failures = failures
        .err()
        .map(kube_cel::ValidationErrors::into_vec)
        .unwrap_or_default();
    if let (Some(text), true) = (text, failures.is_empty()) {
        let mut accepted = lock();
        if accepted.len() >= ACCEPTED {
            accepted.clear();
        }
        accepted.insert(text);
    }
    for failure in failures {
        let parts = [path, &failure.field_path];
        let field = parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(".");
        causes.push(Cause::invalid(field, &json!("object"), &failure.message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_has_its_kind_and_its_rules_compile() {
        let known: Vec<&str> = all().keys().map(|resource| resource.plural).collect();
        // That of EC2NodeClasses is not among the API's own.
        assert_eq!(known.len(), definition::all().len() + 1, "{known:?}");
        for (resource, Definition { rules, .. }) in all() {
            let errors = rules.compiled.compilation_errors();
            assert!(errors.is_empty(), "{}: {errors:?}", resource.plural);
            assert!(
                rules.about.len() <= 2,
                "{}: {:?}",
                resource.plural,
                rules.about
            );
        }
    }
}

//! What the API server does with a custom object before it stores it: fields that the definition
//! does not know and nulls go, defaults come, and schema and rules (CEL) are asked.
//!
//! Offline commands say with it what a cluster would refuse, and the simulated API server is made of
//! it. Unchanged parts of an object are not validated again: neither schema nor rules can refuse
//! what they have accepted.

mod schema;

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use kube_cel::{CompiledSchema, Validator, compile_schema};
use serde_json::{Value, json};

use super::definition::{self, Definition};

pub use schema::{ListKind, Schema};

/// What is wrong with a field, in the API server's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Such as `spec.weight`.
    pub field: String,
    /// Such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// In words, without the field.
    pub message: String,
}

impl Cause {
    /// A value that is not allowed.
    pub fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        let value = if value.is_object() || value.is_array() {
            json!(value.to_string())
        } else {
            value.clone()
        };
        Cause {
            field: field.into(),
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {value}: {why}"),
        }
    }

    /// A value that is not there.
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        Cause {
            field: field.into(),
            reason: "FieldValueRequired",
            message,
        }
    }

    /// A change that may not be made.
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Cause {
            field: field.into(),
            reason: "FieldValueForbidden",
            message: format!("Forbidden: {why}"),
        }
    }
}

/// An object with one of these faults is not looked at by rules.
const STOPS: [&str; 5] = [
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
];

/// Admits the objects of one definition.
pub struct Admission {
    group: String,
    kind: String,
    schema: Schema,
    definition: Value,
    /// Compiled when the first object asks: rules take longer than everything else.
    rules: OnceLock<Rules>,
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
const MAX_ACCEPTED: usize = 1000;

/// The admissions of this crate's definitions.
pub fn all() -> &'static [Admission] {
    static ALL: OnceLock<Vec<Admission>> = OnceLock::new();
    ALL.get_or_init(|| definition::all().iter().map(Admission::of).collect())
}

impl Admission {
    /// The rules of this definition's schema.
    pub fn of(definition: &Definition) -> Self {
        let spec = &definition.json()["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Admission {
            group: text(&spec["group"]),
            kind: text(&spec["names"]["kind"]),
            schema: Schema::read(definition.schema()),
            definition: definition.schema().clone(),
            rules: OnceLock::new(),
        }
    }

    /// Whether the objects of this group and kind are its own.
    pub fn is_for(&self, group: &str, kind: &str) -> bool {
        (&*self.group, &*self.kind) == (group, kind)
    }

    /// The schema of its objects.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Cleans and completes an object as it will be stored, and says what is wrong with it. `old` is
    /// the object that it takes the place of, if there is one.
    pub fn admit(&self, object: &mut Value, old: Option<&Value>) -> Vec<Cause> {
        self.schema.clean(object);
        self.schema.complete(object);
        let mut causes = Vec::new();
        self.schema.check_object(object, old, &mut causes);
        if causes.iter().any(|cause| STOPS.contains(&cause.reason)) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing \
                errors to complete validation";
            causes.push(Cause::invalid("<nil>", &Value::Null, why));
        } else {
            self.rules().obey(object, old, &mut causes);
        }
        causes
    }

    /// What could not be compiled of its rules, and the fields that they are about.
    pub fn compilation(&self) -> (Vec<String>, &[String]) {
        let rules = self.rules();
        let errors = rules.compiled.compilation_errors();
        let errors = errors.iter().map(|error| format!("{error:?}"));
        (errors.collect(), &rules.about)
    }

    fn rules(&self) -> &Rules {
        self.rules
            .get_or_init(|| Rules::new(compile_schema(&self.definition)))
    }
}

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

    /// Asks the rules about what differs from before.
    fn obey(&self, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
        for name in &self.about {
            let part = |object| {
                if name.is_empty() {
                    Some(object)
                } else {
                    Value::get(object, name)
                }
            };
            let (value, before) = (part(object), old.and_then(part));
            let compiled = if name.is_empty() {
                Some(&self.compiled)
            } else {
                self.compiled.properties.get(name)
            };
            if let (Some(value), Some(compiled)) = (value, compiled)
                && before != Some(value)
            {
                self.ask(compiled, name, value, before, causes);
            }
        }
    }

    fn ask(
        &self,
        compiled: &CompiledSchema,
        path: &str,
        value: &Value,
        before: Option<&Value>,
        causes: &mut Vec<Cause>,
    ) {
        let lock = || self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
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
            if accepted.len() >= MAX_ACCEPTED {
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
}

fn has_rules(part: &CompiledSchema) -> bool {
    let below = part
        .properties
        .values()
        .chain(part.items.as_deref())
        .chain(part.additional_properties.as_deref());
    !part.validations.is_empty() || below.chain(&part.all_of).any(has_rules)
}

//! A structural schema: the fields that an object may have, their defaults, and their allowed
//! values.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use regex::Regex;
use serde_json::{Map, Value, json};

use super::Cause;

mod stored;

/// How a list is put together from several hands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListKind {
    /// As a whole.
    #[default]
    Atomic,
    /// Value by value.
    Set,
    /// Item by item, identified by these fields.
    Map(Vec<String>),
}

/// A schema, or a part of one.
#[derive(Debug, Default)]
pub struct Schema {
    kind: String,
    int_or_string: bool,
    nullable: bool,
    properties: BTreeMap<String, Schema>,
    additional: Option<Box<Schema>>,
    /// Fields that are not known stay.
    open: bool,
    items: Option<Box<Schema>>,
    required: Vec<String>,
    one_of: Vec<Value>,
    pattern: Option<Regex>,
    is_time: bool,
    limits: Vec<(Limit, f64)>,
    default: Option<Value>,
    /// How a list of it is put together.
    pub list: ListKind,
    /// Whether its fields are put together as a whole.
    pub is_atomic: bool,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    Minimum,
    Maximum,
    MinLength,
    MaxLength,
    MinItems,
    MaxItems,
    MaxProperties,
}

const LIMITS: [(&str, Limit); 7] = [
    ("minimum", Limit::Minimum),
    ("maximum", Limit::Maximum),
    ("minLength", Limit::MinLength),
    ("maxLength", Limit::MaxLength),
    ("minItems", Limit::MinItems),
    ("maxItems", Limit::MaxItems),
    ("maxProperties", Limit::MaxProperties),
];

impl Schema {
    /// From `openAPIV3Schema`.
    pub fn read(schema: &Value) -> Self {
        let word = |name: &str| schema[name].as_str().unwrap_or_default();
        let is = |name: &str| schema[name] == json!(true);
        let words = |name: &str| {
            let list = schema[name].as_array().into_iter().flatten();
            list.filter_map(Value::as_str)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let part = |name: &str| {
            schema[name]
                .is_object()
                .then(|| Box::new(Schema::read(&schema[name])))
        };
        let properties = schema["properties"].as_object().into_iter().flatten();
        Schema {
            kind: word("type").to_owned(),
            int_or_string: is("x-kubernetes-int-or-string"),
            nullable: is("nullable"),
            properties: properties
                .map(|(name, part)| (name.clone(), Schema::read(part)))
                .collect(),
            additional: part("additionalProperties"),
            open: is("x-kubernetes-preserve-unknown-fields") || is("additionalProperties"),
            items: part("items"),
            required: words("required"),
            one_of: schema["enum"].as_array().cloned().unwrap_or_default(),
            pattern: schema["pattern"]
                .as_str()
                .and_then(|pattern| Regex::new(pattern).ok()),
            is_time: word("format") == "date-time",
            limits: LIMITS
                .iter()
                .filter_map(|(name, limit)| Some((*limit, schema[*name].as_f64()?)))
                .collect(),
            default: schema.get("default").cloned(),
            list: match word("x-kubernetes-list-type") {
                "set" => ListKind::Set,
                "map" => ListKind::Map(words("x-kubernetes-list-map-keys")),
                _ => ListKind::Atomic,
            },
            is_atomic: word("x-kubernetes-map-type") == "atomic",
        }
    }

    /// The part for a field.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or(self.additional.as_deref())
    }

    /// The part for the items of a list.
    pub fn item(&self) -> Option<&Schema> {
        self.items.as_deref()
    }

    /// The fields below `value` that the schema does not know, each as a path such as
    /// `spec.limit`. Of a whole object, the metadata is left alone.
    pub fn unknown(&self, object: &Value) -> Vec<String> {
        let mut found = Vec::new();
        self.find_unknown("", object, &mut found);
        found
    }

    fn find_unknown(&self, path: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            // A value of another type is a fault of its own.
            Value::Object(_) if self.kind == "array" => {}
            Value::Object(fields) => {
                for (name, value) in fields {
                    if path.is_empty() && is_own(name) {
                        continue;
                    }
                    let path = match path {
                        "" => name.clone(),
                        path => format!("{path}.{name}"),
                    };
                    match self.field(name) {
                        Some(part) => part.find_unknown(&path, value, found),
                        None if self.open => {}
                        None => found.push(path),
                    }
                }
            }
            Value::Array(items) => {
                for (n, item) in items.iter().enumerate() {
                    if let Some(part) = &self.items {
                        part.find_unknown(&format!("{path}[{n}]"), item, found);
                    }
                }
            }
            _ => {}
        }
    }

    /// Takes away what it does not know. Of a whole object, the metadata is left alone.
    pub fn clean(&self, object: &mut Value) {
        let Value::Object(fields) = object else {
            return;
        };
        fields.retain(|name, value| match self.field(name) {
            _ if is_own(name) => true,
            Some(part) => !value.is_null() || part.nullable,
            None => self.open,
        });
        for (name, value) in fields.iter_mut().filter(|(name, _)| !is_own(name)) {
            if let Some(part) = self.field(name) {
                part.prune(value);
            }
        }
    }

    fn prune(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, value| match self.field(name) {
                    // Null is the same as nothing, unless it is said that it is not.
                    Some(part) => !value.is_null() || part.nullable,
                    None => self.open,
                });
                for (name, value) in fields {
                    if let Some(part) = self.field(name) {
                        part.prune(value);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(part) = &self.items {
                    items.iter_mut().for_each(|item| part.prune(item));
                }
            }
            _ => {}
        }
    }

    /// Fills in what has a default.
    pub fn complete(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, part) in &self.properties {
                    if let Some(default) = &part.default
                        && !fields.contains_key(name)
                    {
                        fields.insert(name.clone(), default.clone());
                    }
                }
                for (name, value) in fields {
                    if let Some(part) = self.field(name) {
                        part.complete(value);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(part) = &self.items {
                    items.iter_mut().for_each(|item| part.complete(item));
                }
            }
            _ => {}
        }
    }

    /// Says what is wrong with an object.
    pub fn check_object(&self, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
        let Value::Object(fields) = object else {
            return;
        };
        self.check_required("", fields, causes);
        for (name, part) in &self.properties {
            if let Some(value) = fields.get(name).filter(|_| !is_own(name)) {
                part.check(name, value, old.and_then(|old| old.get(name)), causes);
            }
        }
    }

    fn check_required(&self, path: &str, fields: &Map<String, Value>, causes: &mut Vec<Cause>) {
        for name in self
            .required
            .iter()
            .filter(|name| !fields.contains_key(*name))
        {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            causes.push(Cause::required(path, ""));
        }
    }

    fn check(&self, path: &str, value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
        if old == Some(value) || (value.is_null() && self.nullable) {
            return;
        }
        if !self.is_of_kind(value) {
            let kind = if self.int_or_string {
                "integer,string"
            } else {
                &self.kind
            };
            let has = kind_of(value);
            let why = format!("{path} in body must be of type {kind}: {has:?}");
            let cause = Cause::invalid(path, &json!(has), &why);
            causes.push(Cause {
                reason: "FieldValueTypeInvalid",
                ..cause
            });
            return;
        }
        self.check_value(path, value, causes);
        match value {
            Value::Object(fields) => {
                self.check_required(path, fields, causes);
                for (name, value) in fields {
                    if let Some(part) = self.field(name) {
                        part.check(
                            &format!("{path}.{name}"),
                            value,
                            old.and_then(|old| old.get(name)),
                            causes,
                        );
                    }
                }
            }
            Value::Array(items) => {
                self.check_twice(path, items, causes);
                for (n, item) in items.iter().enumerate() {
                    if let Some(part) = &self.items {
                        part.check(&format!("{path}[{n}]"), item, self.same(item, old), causes);
                    }
                }
            }
            _ => {}
        }
    }

    /// The item of a list that an item was before.
    fn same<'a>(&self, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
        let ListKind::Map(keys) = &self.list else {
            return None;
        };
        old?.as_array()?
            .iter()
            .find(|before| keys.iter().all(|key| before[key] == item[key]))
    }

    fn is_of_kind(&self, value: &Value) -> bool {
        if self.int_or_string {
            return value.is_i64() || value.is_u64() || value.is_string();
        }
        match self.kind.as_str() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            _ => true,
        }
    }

    fn check_value(&self, path: &str, value: &Value, causes: &mut Vec<Cause>) {
        let mut wrong = |reason, message: String| {
            causes.push(Cause {
                field: path.to_owned(),
                reason,
                message,
            })
        };
        if !self.one_of.is_empty() && !self.one_of.contains(value) {
            let known: Vec<String> = self.one_of.iter().map(Value::to_string).collect();
            let message = format!(
                "Unsupported value: {value}: supported values: {}",
                known.join(", ")
            );
            wrong("FieldValueNotSupported", message);
        }
        let invalid = |why: String| format!("Invalid value: {value}: {path} in body {why}");
        if let (Some(pattern), Some(text)) = (&self.pattern, value.as_str())
            && !pattern.is_match(text)
        {
            wrong(
                "FieldValueInvalid",
                invalid(format!("should match '{pattern}'")),
            );
        }
        if let (true, Some(text)) = (self.is_time, value.as_str())
            && text.parse::<Timestamp>().is_err()
        {
            wrong(
                "FieldValueInvalid",
                invalid(format!("must be of type date-time: {text:?}")),
            );
        }
        let number = value.as_f64();
        let letters = value.as_str().map(|text| text.chars().count() as f64);
        let items = value.as_array().map(|items| items.len() as f64);
        let fields = value.as_object().map(|fields| fields.len() as f64);
        for (limit, bound) in &self.limits {
            let (has, most) = match limit {
                Limit::Minimum | Limit::Maximum => (number, matches!(limit, Limit::Maximum)),
                Limit::MinLength | Limit::MaxLength => (letters, matches!(limit, Limit::MaxLength)),
                Limit::MinItems | Limit::MaxItems => (items, matches!(limit, Limit::MaxItems)),
                Limit::MaxProperties => (fields, true),
            };
            let Some(has) = has.filter(|has| if most { has > bound } else { has < bound }) else {
                continue;
            };
            match limit {
                Limit::Maximum => wrong(
                    "FieldValueInvalid",
                    invalid(format!("should be less than or equal to {bound}")),
                ),
                Limit::Minimum => {
                    wrong(
                        "FieldValueInvalid",
                        invalid(format!("should be greater than or equal to {bound}")),
                    );
                }
                Limit::MinLength => wrong(
                    "FieldValueInvalid",
                    invalid(format!("should be at least {bound} chars long")),
                ),
                Limit::MinItems => wrong(
                    "FieldValueInvalid",
                    invalid(format!("should have at least {bound} items")),
                ),
                Limit::MaxLength => {
                    wrong(
                        "FieldValueTooLong",
                        format!("Too long: may not be more than {bound} bytes"),
                    );
                }
                Limit::MaxItems | Limit::MaxProperties => {
                    wrong(
                        "FieldValueTooMany",
                        format!("Too many: {has}: must have at most {bound} items"),
                    );
                }
            }
        }
    }

    /// Items of sets and maps are there once.
    fn check_twice(&self, path: &str, items: &[Value], causes: &mut Vec<Cause>) {
        let key = |item: &Value| match &self.list {
            ListKind::Atomic => None,
            ListKind::Set => Some(item.to_string()),
            ListKind::Map(keys) => {
                Some(json!(keys.iter().map(|key| &item[key]).collect::<Vec<_>>()).to_string())
            }
        };
        let mut seen = BTreeSet::new();
        for (n, item) in items.iter().enumerate() {
            if let Some(key) = key(item)
                && !seen.insert(key)
            {
                let message = format!("Duplicate value: {item}");
                causes.push(Cause {
                    field: format!("{path}[{n}]"),
                    reason: "FieldValueDuplicate",
                    message,
                });
            }
        }
    }
}

/// Whether a field of a whole object is no matter of its schema.
fn is_own(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

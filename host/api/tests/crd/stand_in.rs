//! As much of an API server as it takes to accept or refuse an object: the schema's keywords here,
//! its rules by kube-cel. A real server is asked the same in `crd_rules.rs`, where there is one.

use std::collections::BTreeSet;

use kube_cel::{CompiledSchema, Validator, apply_defaults, compile_schema};
use longshore_api::crd::definition::Definition;
use regex::Regex;
use serde_json::{Value, json};

/// One kind of object.
pub struct StandIn {
    schema: Value,
    rules: CompiledSchema,
}

/// What one part of the schema has against an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// Which part: its place and keyword, or rule.
    pub by: String,
    /// The keyword, or the rule's message.
    pub because: String,
}

impl StandIn {
    pub fn new(definition: &Definition) -> Self {
        let rules = compile_schema(definition.schema());
        assert!(!rules.has_errors(), "{:?}", rules.compilation_errors());
        Self {
            schema: definition.schema().clone(),
            rules,
        }
    }

    /// All that stands against an object, none if it is accepted. Rules are asked only where the
    /// schema is content, as a server does.
    pub fn refusals(&self, object: &Value, before: Option<&Value>) -> Vec<Refusal> {
        let object = apply_defaults(&self.schema, object);
        let mut refusals = Vec::new();
        check("", &self.schema, &object, &mut refusals);
        if !refusals.is_empty() {
            return refusals;
        }
        let failures = Validator::new().validate_compiled(&self.rules, &object, before);
        let failures = failures
            .err()
            .map(kube_cel::ValidationErrors::into_vec)
            .unwrap_or_default();
        let refusal = |failure: kube_cel::ValidationError| Refusal {
            by: format!("{} {}", schema_path(&failure.field_path), failure.rule),
            because: failure.message,
        };
        failures.into_iter().map(refusal).collect()
    }

    /// The parts of the schema that look at an object: places and keywords, places and rules.
    pub fn looking_at(&self, object: &Value, before: Option<&Value>) -> BTreeSet<String> {
        let object = apply_defaults(&self.schema, object);
        let mut parts = BTreeSet::new();
        looks(
            "",
            &self.schema,
            Some(&object),
            before.is_some(),
            &mut parts,
        );
        parts
    }

    /// All parts of the schema that can refuse something.
    pub fn parts(&self) -> BTreeSet<String> {
        let mut parts = BTreeSet::new();
        looks("", &self.schema, None, true, &mut parts);
        parts
    }
}

const KEYWORDS: [&str; 9] = [
    "enum",
    "maximum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minimum",
    "minItems",
    "minLength",
    "pattern",
];

/// Lists what looks at a value, or without one, all that could.
fn looks(
    path: &str,
    schema: &Value,
    value: Option<&Value>,
    is_change: bool,
    parts: &mut BTreeSet<String>,
) {
    for keyword in KEYWORDS
        .iter()
        .filter(|keyword| !schema[**keyword].is_null())
    {
        // Length and pattern of a list hold for nothing.
        let for_text = matches!(*keyword, "maxLength" | "minLength" | "pattern");
        let number = schema["x-kubernetes-int-or-string"] == json!(true)
            && value.is_some_and(|v| !v.is_string());
        if !(for_text && (schema["type"] == "array" || number)) {
            parts.insert(format!("{path} {keyword}"));
        }
    }
    if let Some("set" | "map") = schema["x-kubernetes-list-type"].as_str() {
        parts.insert(format!("{path} duplicate"));
    }
    for name in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        // What has a default is never missing.
        if schema["properties"][name]["default"].is_null() {
            parts.insert(format!("{path} required {name}"));
        }
    }
    for rule in schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let rule = rule["rule"].as_str().unwrap_or_default();
        if is_change || !rule.contains("oldSelf") {
            parts.insert(format!("{path} {rule}"));
        }
    }
    for (below, schema, values) in children(path, schema, value) {
        match values {
            None => looks(&below, schema, None, is_change, parts),
            Some(values) => values
                .iter()
                .for_each(|value| looks(&below, schema, Some(value), is_change, parts)),
        }
    }
}

/// The parts of a schema with the values that each is for; with no value, the parts alone.
fn children<'a>(
    path: &str,
    schema: &'a Value,
    value: Option<&'a Value>,
) -> Vec<(String, &'a Value, Option<Vec<&'a Value>>)> {
    let below = |name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    };
    let mut parts = Vec::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        parts.push((
            below(name),
            property,
            value.map(|value| value.get(name).into_iter().collect()),
        ));
    }
    if schema["items"].is_object() {
        let items = value.map(|value| value.as_array().into_iter().flatten().collect());
        parts.push((format!("{path}[]"), &schema["items"], items));
    }
    if schema["additionalProperties"].is_object() {
        let values = value.map(|value| {
            value
                .as_object()
                .into_iter()
                .flatten()
                .map(|(_, value)| value)
                .collect()
        });
        parts.push((
            format!("{path}{{}}"),
            &schema["additionalProperties"],
            values,
        ));
    }
    parts
}

fn check(path: &str, schema: &Value, value: &Value, refusals: &mut Vec<Refusal>) {
    let keywords = KEYWORDS
        .iter()
        .filter(|keyword| !schema[**keyword].is_null());
    let mut because: Vec<(&str, String)> = keywords
        .filter(|keyword| violates(keyword, &schema[**keyword], value))
        .map(|k| (*k, (*k).to_owned()))
        .collect();
    if !is_of_type(schema, value) {
        because.push(("type", "type".to_owned()));
    }
    if has_duplicates(schema, value) {
        because.push(("duplicate", "duplicate".to_owned()));
    }
    for name in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if value.is_object() && value.get(name).is_none() {
            because.push(("required", format!("required {name}")));
        }
    }
    let refusal = |(keyword, part): (&str, String)| Refusal {
        by: format!("{path} {part}"),
        because: keyword.to_owned(),
    };
    refusals.extend(because.into_iter().map(refusal));
    for (below, schema, values) in children(path, schema, Some(value)) {
        values
            .into_iter()
            .flatten()
            .for_each(|value| check(&below, schema, value, refusals));
    }
}

fn violates(keyword: &str, limit: &Value, value: &Value) -> bool {
    let most = usize::try_from(limit.as_u64().unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    match keyword {
        "enum" => limit
            .as_array()
            .is_some_and(|values| !values.contains(value)),
        "minimum" => value
            .as_f64()
            .zip(limit.as_f64())
            .is_some_and(|(value, least)| value < least),
        "maximum" => value
            .as_f64()
            .zip(limit.as_f64())
            .is_some_and(|(value, most)| value > most),
        "minLength" => value
            .as_str()
            .is_some_and(|text| text.chars().count() < most),
        "maxLength" => value
            .as_str()
            .is_some_and(|text| text.chars().count() > most),
        "minItems" => value.as_array().is_some_and(|items| items.len() < most),
        "maxItems" => value.as_array().is_some_and(|items| items.len() > most),
        "maxProperties" => value.as_object().is_some_and(|fields| fields.len() > most),
        "pattern" => {
            let pattern =
                Regex::new(limit.as_str().unwrap_or_default()).expect("the pattern is one");
            value.as_str().is_some_and(|text| !pattern.is_match(text))
        }
        other => panic!("nobody knows {other}"),
    }
}

fn is_of_type(schema: &Value, value: &Value) -> bool {
    if schema["x-kubernetes-int-or-string"] == json!(true) {
        return value.is_i64() || value.is_string();
    }
    match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64(),
        Some("boolean") => value.is_boolean(),
        other => panic!("no type of ours is {other:?}"),
    }
}

fn has_duplicates(schema: &Value, value: &Value) -> bool {
    let key = |item: &Value| match schema["x-kubernetes-list-map-keys"].as_array() {
        Some(keys) => keys
            .iter()
            .map(|key| item[key.as_str().unwrap_or_default()].to_string())
            .collect(),
        None => item.to_string(),
    };
    let Some("set" | "map") = schema["x-kubernetes-list-type"].as_str() else {
        return false;
    };
    let items = value.as_array().map_or(&[][..], Vec::as_slice);
    items.iter().map(key).collect::<BTreeSet<String>>().len() < items.len()
}

/// `spec.taints[].key` from `spec.taints[3].key`.
fn schema_path(path: &str) -> String {
    path.chars()
        .filter(|c| !c.is_ascii_digit() || !path.contains('['))
        .collect()
}

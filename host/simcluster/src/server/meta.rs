//! Reads and validates the metadata that all objects have.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::api_error::{ApiErrorWithDetails, Cause};
use crate::object::Resource;

/// A text at a path of fields, empty if there is none.
pub fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// A value at a path of fields.
pub fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter()
        .try_fold(object, |value, field| value.get(field))
        .filter(|value| !value.is_null())
}

/// A whole number at a path of fields.
pub fn number(object: &Value, path: &[&str]) -> Option<i64> {
    at(object, path).and_then(Value::as_i64)
}

/// The metadata of an object, made where there is none or something else.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    fields(
        fields(object)
            .entry("metadata")
            .or_insert_with(|| json!({})),
    )
}

/// A part of an object with fields, made where there is none or something else.
pub fn part<'a>(object: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    fields(fields(object).entry(name).or_insert_with(|| json!({})))
}

/// Fills in a field that is not there.
pub fn default(fields: &mut Map<String, Value>, name: &str, value: Value) {
    let there = fields.entry(name).or_insert(Value::Null);
    if there.is_null() {
        *there = value;
    }
}

/// The fields of a value, which becomes one with fields if it is not.
pub fn fields(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        // It was made one above.
        _ => unreachable!("a value with fields"),
    }
}

/// The containers of a pod's spec, init containers included.
pub fn containers(spec: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    let lists = spec
        .iter_mut()
        .filter(|(field, _)| matches!(field.as_str(), "containers" | "initContainers"));
    lists.filter_map(|(_, list)| list.as_array_mut()).flatten()
}

pub fn finalizers(object: &Value) -> Vec<&str> {
    let list = at(object, &["metadata", "finalizers"]).and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Whether it is on its way out.
pub fn is_leaving(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some()
}

/// A time as objects have it, to the second.
pub fn time(at: Timestamp) -> Value {
    json!(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Takes away fields of the metadata that say nothing, as a typed server would not write them.
pub fn normalize(object: &mut Value) {
    let metadata = metadata_mut(object);
    metadata.retain(|name, value| {
        let is_empty = match value {
            Value::Null => true,
            Value::Object(fields) => fields.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => false,
        };
        !is_empty || name == "name"
    });
}

/// Takes away fields that are null, at any depth: a typed server knows no difference between them
/// and none.
pub fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Refuses metadata that no object may have.
pub fn check(resource: Resource, object: &Value) -> Result<(), ApiErrorWithDetails> {
    let name = text(object, &["metadata", "name"]);
    let mut causes = Vec::new();
    if name.is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else if let Some(why) = wrong_name(resource, name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), why));
    }
    for (key, value) in at(object, &["metadata", "labels"])
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if !is_qualified(key) {
            causes.push(Cause::invalid("metadata.labels", &json!(key), QUALIFIED));
        }
        if !value.as_str().is_some_and(is_label_value) {
            causes.push(Cause::invalid("metadata.labels", value, LABEL));
        }
    }
    for key in at(object, &["metadata", "annotations"])
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::keys)
    {
        if !is_qualified(&key.to_lowercase()) {
            causes.push(Cause::invalid(
                "metadata.annotations",
                &json!(key),
                QUALIFIED,
            ));
        }
    }
    for finalizer in finalizers(object) {
        if !is_qualified(finalizer) {
            causes.push(Cause::invalid(
                "metadata.finalizers",
                &json!(finalizer),
                QUALIFIED,
            ));
        }
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(ApiErrorWithDetails::invalid(resource, name, &causes))
    }
}

const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                         with an alphanumeric character";
const LABEL: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                     must start and end with an alphanumeric character";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                         and must start and end with an alphanumeric character";
const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                         start and end with an alphanumeric character";

fn wrong_name(resource: Resource, name: &str) -> Option<&'static str> {
    let is_edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_label = |part: &str| {
        let bytes = part.as_bytes();
        bytes.iter().all(|b| is_edge(*b) || *b == b'-')
            && bytes.first().is_some_and(|b| is_edge(*b))
            && bytes.last().is_some_and(|b| is_edge(*b))
    };
    match resource.plural {
        "namespaces" | "services" => (!is_label(name) || name.len() > 63).then_some(DNS_LABEL),
        _ => (!name.split('.').all(is_label) || name.len() > 253).then_some(SUBDOMAIN),
    }
}

/// Whether a text can be the key of a label.
pub fn is_qualified(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let prefix_is_right = prefix.is_none_or(|prefix| {
        !prefix.is_empty()
            && prefix.len() <= 253
            && prefix
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
    });
    prefix_is_right && !name.is_empty() && is_label_value(name)
}

/// Whether a text can be the value of a label.
pub fn is_label_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    let is_edge = |b: Option<&u8>| b.is_none_or(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
        && is_edge(bytes.first())
        && is_edge(bytes.last())
}

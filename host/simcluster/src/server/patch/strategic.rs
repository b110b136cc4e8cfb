//! Strategic merge patches: like merge patches, but lists of named items are merged item by item,
//! with the directives `$patch` and `$deleteFromPrimitiveList`.

use serde_json::{Map, Value};

use crate::object::Resource;
use crate::server::api_error::ApiErrorWithDetails;
use crate::server::meta;
use crate::server::types::Position;

/// Merges a patch into an object of a built-in kind.
pub fn strategic(
    resource: Resource,
    target: &mut Value,
    patch: &Value,
) -> Result<(), ApiErrorWithDetails> {
    merge(Position::of(resource), target, patch)
}

const DIRECTIVE: &str = "$patch";
const DELETE: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";
const RETAIN: &str = "$retainKeys";

fn merge(
    place: Position<'_>,
    target: &mut Value,
    patch: &Value,
) -> Result<(), ApiErrorWithDetails> {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return Ok(());
    };
    match patch.get(DIRECTIVE).and_then(Value::as_str) {
        Some("replace") => {
            *target = Value::Object(without_directives(patch));
            return Ok(());
        }
        Some("delete") => {
            *target = Value::Object(Map::new());
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => {
            return Err(ApiErrorWithDetails::bad(format!(
                "unknown patch type {other:?} in a strategic merge patch"
            )));
        }
    }
    let fields = meta::fields(target);
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix(DELETE) {
            let gone = value.as_array().map_or(&[][..], Vec::as_slice);
            if let Some(Value::Array(items)) = fields.get_mut(list) {
                items.retain(|item| !gone.contains(item));
            }
        }
        if name.starts_with('$') {
            continue;
        }
        if value.is_null() {
            fields.remove(name);
            continue;
        }
        let place = place.field(name);
        match (value, place.patch_key()) {
            (Value::Array(items), Some(key)) => {
                let list = fields
                    .entry(name.as_str())
                    .or_insert_with(|| Value::Array(Vec::new()));
                merge_list(place, list, items, key)?;
            }
            _ => merge(
                place,
                fields.entry(name.as_str()).or_insert(Value::Null),
                value,
            )?,
        }
    }
    if let Some(kept) = patch.get(RETAIN).and_then(Value::as_array) {
        fields.retain(|name, _| kept.iter().any(|kept| kept == name));
    }
    for (name, order) in patch
        .iter()
        .filter_map(|(name, order)| Some((name.strip_prefix(ORDER)?, order)))
    {
        let key = place.field(name).patch_key().unwrap_or_default();
        if let (Some(Value::Array(items)), Some(order)) = (fields.get_mut(name), order.as_array()) {
            let of = |item: &Value| {
                if key.is_empty() {
                    item.clone()
                } else {
                    item[key].clone()
                }
            };
            let rank = |item: &Value| {
                order
                    .iter()
                    .position(|other| of(other) == of(item))
                    .unwrap_or(order.len())
            };
            items.sort_by_key(rank);
        }
    }
    Ok(())
}

fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    patch
        .iter()
        .filter(|(name, _)| !name.starts_with('$'))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn merge_list(
    place: Position<'_>,
    list: &mut Value,
    patch: &[Value],
    key: &str,
) -> Result<(), ApiErrorWithDetails> {
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    let Value::Array(items) = list else {
        return Ok(());
    };
    if key.is_empty() {
        for value in patch {
            if !items.contains(value) {
                items.push(value.clone());
            }
        }
        return Ok(());
    }
    if patch.iter().any(|item| item[DIRECTIVE] == "replace") {
        items.clear();
    }
    for item in patch {
        let directive = item[DIRECTIVE].as_str();
        if directive == Some("replace") && item.as_object().is_some_and(|item| item.len() == 1) {
            continue;
        }
        let Some(name) = item.get(key) else {
            return Err(ApiErrorWithDetails::bad(format!(
                "map: {item} does not contain declared merge key: {key}"
            )));
        };
        let found = items.iter().position(|other| other[key] == *name);
        match (directive, found) {
            (Some("delete"), Some(at)) => drop(items.remove(at)),
            (Some("delete"), None) => {}
            (_, Some(at)) => merge(place.item(), &mut items[at], item)?,
            (_, None) => {
                let mut new = Value::Null;
                merge(place.item(), &mut new, item)?;
                items.push(new);
            }
        }
    }
    Ok(())
}

//! Patches: JSON patch (RFC 6902) and merge patch (RFC 7396) here, strategic ones in a module of
//! their own.

mod strategic;

use serde_json::{Map, Value};

pub use strategic::strategic;

use super::api_error::ApiErrorWithDetails;
use super::meta;

/// Merges a patch into a value (RFC 7396).
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    let fields = meta::fields(target);
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.as_str()).or_insert(Value::Null), value);
        }
    }
}

/// Carries out the steps of a JSON patch, all or none.
pub fn json(target: &mut Value, steps: &Value) -> Result<(), ApiErrorWithDetails> {
    let malformed =
        || ApiErrorWithDetails::bad("error decoding patch: a JSON patch is a list of operations");
    for step in steps.as_array().ok_or_else(malformed)? {
        let step = step.as_object().ok_or_else(malformed)?;
        take(target, step)?;
    }
    Ok(())
}

fn take(target: &mut Value, step: &Map<String, Value>) -> Result<(), ApiErrorWithDetails> {
    let word = |name: &str| step.get(name).and_then(Value::as_str).unwrap_or_default();
    let (operation, path) = (word("op"), word("path"));
    let impossible = |why: &str| {
        let message = format!(
            "the server rejected our request due to an error in our request: {operation} {path}: {why}"
        );
        ApiErrorWithDetails::plain(422, "Invalid", message)
    };
    let value = || step.get("value").cloned().unwrap_or(Value::Null);
    let done = match operation {
        "add" => add(target, path, value()),
        "remove" => remove(target, path).map(drop),
        "replace" => match target.pointer_mut(path) {
            Some(place) => {
                *place = value();
                Some(())
            }
            None => None,
        },
        "move" => remove(target, word("from")).and_then(|value| add(target, path, value)),
        "copy" => target
            .pointer(word("from"))
            .cloned()
            .and_then(|value| add(target, path, value)),
        // Nothing equals null, as the library that servers use has it.
        "test"
            if target.pointer(path).unwrap_or(&Value::Null)
                == step.get("value").unwrap_or(&Value::Null) =>
        {
            Some(())
        }
        "test" => return Err(impossible("the value is another one")),
        _ => {
            return Err(ApiErrorWithDetails::bad(format!(
                "error decoding patch: unknown operation {operation:?}"
            )));
        }
    };
    done.ok_or_else(|| impossible("there is no such place"))
}

/// The place that holds what a path names, and its name there.
fn parent<'a>(target: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (above, last) = path.rsplit_once('/')?;
    Some((
        target.pointer_mut(above)?,
        last.replace("~1", "/").replace("~0", "~"),
    ))
}

fn add(target: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *target = value;
        return Some(());
    }
    let (parent, name) = parent(target, path)?;
    match parent {
        Value::Object(fields) => {
            fields.insert(name, value);
        }
        Value::Array(items) if name == "-" => items.push(value),
        Value::Array(items) => {
            let at: usize = name.parse().ok().filter(|at| *at <= items.len())?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(target: &mut Value, path: &str) -> Option<Value> {
    let (parent, name) = parent(target, path)?;
    match parent {
        Value::Object(fields) => fields.remove(&name),
        Value::Array(items) => {
            let at: usize = name.parse().ok().filter(|at| *at < items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

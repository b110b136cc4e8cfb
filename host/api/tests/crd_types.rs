//! The Rust types read everything that the API server accepts, and write it back.

use longshore_api::crd::{CapacityBuffer, KWOKNodeClass, NodeClaim, NodeOverlay, NodePool};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

#[test]
fn what_is_read_is_written_back() {
    let mut wrong = Vec::new();
    for case in crate::table::cases()
        .iter()
        .filter(|case| case.because.is_none())
    {
        let object = case.result();
        let again = match case.kind.as_str() {
            "CapacityBuffer" => again::<CapacityBuffer>(&object),
            "KWOKNodeClass" => again::<KWOKNodeClass>(&object),
            "NodeClaim" => again::<NodeClaim>(&object),
            "NodeOverlay" => again::<NodeOverlay>(&object),
            "NodePool" => again::<NodePool>(&object),
            other => panic!("no type for {other}"),
        };
        let (again, object) = match again {
            Ok(again) => (again, object),
            Err(error) => {
                wrong.push(format!("{}: {error}", case.what));
                continue;
            }
        };
        if let Some(lost) = lost("", &object, &again) {
            wrong.push(format!("{}: {lost}", case.what));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn again<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, String> {
    let read: T = serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
    let written = serde_json::to_value(&read).map_err(|error| error.to_string())?;
    let twice: T = serde_json::from_value(written.clone())
        .map_err(|error| format!("the second time: {error}"))?;
    match serde_json::to_value(&twice) {
        Ok(second) if second == written => Ok(written),
        _ => Err("is not the same the second time".to_owned()),
    }
}

/// The first thing that is in `before` and not in `after`. Defaults may be added, what is empty may
/// be left out, and a quantity's number may become its text.
fn lost(path: &str, before: &Value, after: &Value) -> Option<String> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => before.iter().find_map(|(key, value)| {
            let path = format!("{path}.{key}");
            match after.get(key) {
                Some(after) => lost(&path, value, after),
                None => (!is_empty(value)).then(|| format!("{path} is lost")),
            }
        }),
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => before
            .iter()
            .zip(after)
            .find_map(|(before, after)| lost(&format!("{path}[]"), before, after)),
        (Value::Number(before), Value::String(after)) if before.to_string() == *after => None,
        (before, after) => (before != after).then(|| format!("{path} is {after}")),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

//! What the API server asks of the metadata of every object, for manifests that it has not seen.

use serde_json::{Map, Value};

use super::diagnostic::{Fault, Path, quoted};
use super::pod::api_rules::label;
use crate::labels;

/// Bytes that keys and values of all annotations may have.
const MOST_BYTES: usize = 256 << 10;

/// What the API server refuses of an object's metadata. A name that is missing is said elsewhere.
pub(super) fn check(object: &Value) -> Option<Fault> {
    let metadata = object.get("metadata")?.as_object()?;
    let at = Path::Root.field("metadata");
    let name = metadata.get("name").and_then(Value::as_str);
    if let Some(name) = name.filter(|name| !name.is_empty() && !labels::is_dns_name(name)) {
        return Some(no_name(name));
    }
    for (field, check) in [
        (
            "labels",
            labels_of as fn(&Map<String, Value>, Path<'_>) -> Result<(), Fault>,
        ),
        ("annotations", annotations_of),
    ] {
        let map = metadata.get(field).and_then(Value::as_object);
        if let Some(fault) = map.and_then(|map| check(map, at.field(field)).err()) {
            return Some(fault);
        }
    }
    None
}

/// Says that a text is none of an object's names.
pub(super) fn no_name(name: &str) -> Fault {
    Fault {
        field: "metadata.name".to_owned(),
        what: format!("{} is not a name that the API server takes", quoted(name)),
        hint:
            "at most 253 lower case letters, digits, `-` and `.`, first and last a letter or digit"
                .to_owned(),
    }
}

fn labels_of(map: &Map<String, Value>, at: Path<'_>) -> Result<(), Fault> {
    for (key, value) in map {
        label(key, text(value, at.key(key))?, at)?;
    }
    Ok(())
}

fn annotations_of(map: &Map<String, Value>, at: Path<'_>) -> Result<(), Fault> {
    let mut bytes = 0;
    for (key, value) in map {
        // Their domains may have capitals.
        if !labels::is_label_key(&key.to_lowercase()) {
            let what = format!("{} is not an annotation key", quoted(key));
            return Err(at
                .key(key)
                .fault(what, "write it like team or example.com/team"));
        }
        bytes += key.len() + text(value, at.key(key))?.len();
    }
    if bytes > MOST_BYTES {
        let what = format!("have {bytes} bytes together");
        return Err(at.fault(what, "the API server takes at most 262144"));
    }
    Ok(())
}

/// The text of a value; null is empty.
fn text<'v>(value: &'v Value, at: Path<'_>) -> Result<&'v str, Fault> {
    match value {
        Value::Null => Ok(""),
        Value::String(text) => Ok(text),
        _ => Err(at.fault("is not a text", "put the value in quotes")),
    }
}

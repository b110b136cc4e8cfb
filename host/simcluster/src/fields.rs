//! Reads and writes fields of JSON objects for actors: paths, conditions, owners, times.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::object::{Key, Resource};

/// What is at a path (`/spec/containers/0`). As `Value::pointer`, which allocates for every part of
/// the path; names with a slash or a tilde in them are not reached.
pub fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/')
        .skip(1)
        .try_fold(object, |value, part| match value {
            Value::Object(map) => map.get(part),
            Value::Array(list) => list.get(part.parse::<usize>().ok()?),
            _ => None,
        })
}

/// Text at a path; empty where there is none.
pub fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// A whole number at a path.
pub fn number(object: &Value, path: &str) -> Option<i64> {
    at(object, path).and_then(Value::as_i64)
}

/// The items of a list at a path; none where there is no list.
pub fn items<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// What an object is called.
pub fn key_of(resource: Resource, object: &Value) -> Key {
    key(resource, text(object, "/metadata/namespace"), name(object))
}

/// A key from its parts.
pub fn key(resource: Resource, namespace: &str, name: &str) -> Key {
    Key {
        resource,
        namespace: Arc::from(namespace),
        name: Arc::from(name),
    }
}

/// The value of a label.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// The value of an annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object
        .get("metadata")?
        .get("annotations")?
        .get(key)?
        .as_str()
}

/// Whether it is being deleted.
pub fn deleting(object: &Value) -> bool {
    at(object, "/metadata/deletionTimestamp").is_some_and(|t| !t.is_null())
}

/// Whether a finalizer is on it.
pub fn holds(object: &Value, finalizer: &str) -> bool {
    items(object, "/metadata/finalizers")
        .iter()
        .any(|f| f == finalizer)
}

/// Takes a finalizer away.
pub fn release(object: &mut Value, finalizer: &str) {
    if let Some(all) = object
        .pointer_mut("/metadata/finalizers")
        .and_then(Value::as_array_mut)
    {
        all.retain(|f| f != finalizer);
    }
}

/// The owner that controls it: `ownerReferences` with `controller: true`.
pub fn controller(object: &Value) -> Option<&Value> {
    items(object, "/metadata/ownerReferences")
        .iter()
        .find(|o| o["controller"] == true)
}

/// An owner reference to a controller.
pub fn controlled_by(resource: Resource, owner: &Value) -> Value {
    json!({
        "apiVersion": resource.api_version(), "kind": resource.kind, "name": name(owner), "uid": uid(owner),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// A time as objects have it, to the second.
pub fn stamp(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second())
        .unwrap_or(at)
        .to_string()
}

/// A time at a path.
pub fn time(object: &Value, path: &str) -> Option<Timestamp> {
    text(object, path).parse().ok()
}

/// A duration such as `30s` or `1h30m`.
pub fn duration(text: &str) -> Option<Duration> {
    Duration::try_from(text.parse::<SignedDuration>().ok()?).ok()
}

/// The status of a condition: `True`, `False`, `Unknown`, or empty.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    let found = items(object, "/status/conditions")
        .iter()
        .find(|c| c["type"] == kind);
    found.map_or("", |c| text(c, "/status"))
}

/// Sets a condition; says whether anything changed. The time of transition moves only with the
/// status.
pub fn set_condition(
    object: &mut Value,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let conditions = list_at(object, "status", "conditions");
    let mut next = json!({"type": kind, "status": status, "lastTransitionTime": stamp(now)});
    if !reason.is_empty() {
        next["reason"] = reason.into();
    }
    if !message.is_empty() {
        next["message"] = message.into();
    }
    let Some(found) = conditions.iter_mut().find(|c| c["type"] == kind) else {
        conditions.push(next);
        return true;
    };
    if found["status"] == status {
        if text(found, "/reason") == reason && text(found, "/message") == message {
            return false;
        }
        next["lastTransitionTime"] = found["lastTransitionTime"].clone();
    }
    *found = next;
    true
}

/// The list in `object[part][field]`, made where it is missing.
pub fn list_at<'a>(object: &'a mut Value, part: &str, field: &str) -> &'a mut Vec<Value> {
    let place = &mut map_at(object, part)[field];
    if !place.is_array() {
        *place = Value::Array(Vec::new());
    }
    match place {
        Value::Array(list) => list,
        _ => unreachable!("it was made a list above"),
    }
}

/// The map in `object[part]`, made where it is missing.
pub fn map_at<'a>(object: &'a mut Value, part: &str) -> &'a mut Value {
    if !object.is_object() {
        *object = json!({});
    }
    let place = &mut object[part];
    if !place.is_object() {
        *place = json!({});
    }
    place
}

/// Whether a pod has ended by itself.
pub fn ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Whether a pod is ready.
pub fn ready(pod: &Value) -> bool {
    condition(pod, "Ready") == "True"
}

/// A count or a share of `of` (`maxSurge: 25%`), shares rounded up or down.
pub fn count_or_share(value: Option<&Value>, of: i64, up: bool) -> Option<i64> {
    match value? {
        Value::Number(n) => n.as_i64(),
        Value::String(text) => match text.strip_suffix('%') {
            None => text.parse().ok(),
            Some(share) => {
                let hundredths = share.parse::<i64>().ok()?.checked_mul(of)?;
                Some(if up {
                    hundredths.div_euclid(100) + i64::from(hundredths % 100 != 0)
                } else {
                    hundredths / 100
                })
            }
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_keep_their_time_while_their_status_stays() {
        let at = |s| Timestamp::from_second(s).unwrap();
        let mut pod = json!({});
        assert!(set_condition(
            &mut pod,
            "Ready",
            "False",
            "Starting",
            "",
            at(1)
        ));
        assert!(!set_condition(
            &mut pod,
            "Ready",
            "False",
            "Starting",
            "",
            at(2)
        ));
        assert!(set_condition(
            &mut pod,
            "Ready",
            "False",
            "Pulling",
            "",
            at(3)
        ));
        assert_eq!(
            text(&pod, "/status/conditions/0/lastTransitionTime"),
            "1970-01-01T00:00:01Z"
        );
        assert!(set_condition(&mut pod, "Ready", "True", "", "", at(4)));
        assert_eq!(
            text(&pod, "/status/conditions/0/lastTransitionTime"),
            "1970-01-01T00:00:04Z"
        );
    }

    #[test]
    fn shares_are_rounded_as_asked() {
        let of = |value: Value, up| count_or_share(Some(&value), 10, up);
        assert_eq!(
            (of(json!("25%"), true), of(json!("25%"), false)),
            (Some(3), Some(2))
        );
        assert_eq!(
            (
                of(json!(4), true),
                of(json!("4"), true),
                of(json!("x%"), true)
            ),
            (Some(4), Some(4), None)
        );
    }

    #[test]
    fn durations_are_read() {
        assert_eq!(duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("1h"), Some(Duration::from_secs(3600)));
        assert_eq!((duration("soon"), duration("-1s")), (None, None));
    }
}

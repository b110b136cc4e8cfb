//! What becomes of a status that cannot be read.
//!
//! `spec` is written by people: what is wrong there is refused. `status` is written by controllers,
//! which may be newer than this reader. What cannot be read there is passed over with a word, and the
//! object stays. Of a list the item goes as a whole: half of it might mean something else.

use serde_json::Value;

use super::diagnostic::Fault;

/// After so many parts the whole status goes.
const MAX_PARTS: usize = 16;

/// Whether a field is part of a status.
pub(super) fn is_status(path: &str) -> bool {
    let rest = path.strip_prefix("status");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// An object without the part of its status that a fault is about, with what has been passed over
/// before it. Nothing if the fault is about something else.
pub(super) fn without(text: &str, fault: &Fault, passed: usize) -> Option<String> {
    if !is_status(&fault.field) {
        return None;
    }
    let mut object: Value = serde_json::from_str(text).ok()?;
    let fields = object.as_object_mut()?;
    let path = fault.field["status".len()..].trim_start_matches('.');
    let is_cut = passed < MAX_PARTS
        && !path.is_empty()
        && fields
            .get_mut("status")
            .is_some_and(|status| cut(status, path));
    if !is_cut {
        fields.remove("status")?;
    }
    Some(object.to_string())
}

/// The fault as it is said of what counts without it.
pub(super) fn passed_over(mut fault: Fault) -> Fault {
    fault.hint = HINT.to_owned();
    fault
}

/// What becomes of a part of a status that cannot be read.
pub const HINT: &str = "passed over; the controller that wrote it may be newer";

/// Takes away what a path is about, or the item of a list that it is in. Says whether it was there.
fn cut(value: &mut Value, path: &str) -> bool {
    let (segment, rest) = match path.strip_prefix('[') {
        Some(inner) => inner.split_once(']').unwrap_or((inner, "")),
        None => path.split_at(path.find(['.', '[']).unwrap_or(path.len())),
    };
    let rest = rest.trim_start_matches('.');
    match value {
        Value::Array(items) => match segment.parse::<usize>() {
            Ok(at) if at < items.len() => {
                items.remove(at);
                true
            }
            _ => false,
        },
        Value::Object(fields) => {
            // Keys of maps may have dots.
            if rest.is_empty() || fields.contains_key(path) {
                let key = if rest.is_empty() { segment } else { path };
                return fields.remove(key).is_some();
            }
            match fields.get_mut(segment) {
                Some(below @ (Value::Object(_) | Value::Array(_))) => cut(below, rest),
                Some(_) => fields.remove(segment).is_some(),
                None => false,
            }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_at_fault_goes_and_of_a_list_the_item() {
        let text = r#"{"spec":{"a":1},"status":{"list":[{"a":{"b":1}},{"c":2}],"map":{"x.y/z":"?","w":"1"},"n":1}}"#;
        let left = |field: &str, passed| {
            let fault = Fault {
                field: field.to_owned(),
                what: String::new(),
                hint: String::new(),
            };
            without(text, &fault, passed)
        };
        for (field, expected) in [
            (
                "status.list[0].a.b",
                r#"{"spec":{"a":1},"status":{"list":[{"c":2}],"map":{"x.y/z":"?","w":"1"},"n":1}}"#,
            ),
            (
                "status.map.x.y/z",
                r#"{"spec":{"a":1},"status":{"list":[{"a":{"b":1}},{"c":2}],"map":{"w":"1"},"n":1}}"#,
            ),
            (
                "status.map[x.y/z]",
                r#"{"spec":{"a":1},"status":{"list":[{"a":{"b":1}},{"c":2}],"map":{"w":"1"},"n":1}}"#,
            ),
            ("status", r#"{"spec":{"a":1}}"#),
            ("status.nothing.here", r#"{"spec":{"a":1}}"#),
        ] {
            let left: Value = serde_json::from_str(&left(field, 0).unwrap()).unwrap();
            assert_eq!(
                left,
                serde_json::from_str::<Value>(expected).unwrap(),
                "{field}"
            );
        }
        assert_eq!(left("spec.a", 0), None);
        assert_eq!(left("statusOf.a", 0), None);
        assert_eq!(
            left("status.n", MAX_PARTS).as_deref(),
            Some(r#"{"spec":{"a":1}}"#)
        );
    }
}

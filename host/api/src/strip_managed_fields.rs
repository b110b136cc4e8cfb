//! Objects as the text that the server sent, without `managedFields`, and the few fields that are
//! read before an object is parsed.

use std::ops::Range;

use crate::json;

/// What stands in the metadata of an object; strings in their quotes.
#[derive(Default)]
struct Metadata<'a> {
    name: Option<&'a str>,
    namespace: Option<&'a str>,
    version: Option<&'a str>,
    managed: Option<Range<usize>>,
}

fn metadata(text: &str) -> Option<Metadata<'_>> {
    let bytes = text.as_bytes();
    let at = json::member(bytes, json::skip_space(bytes, 0), "metadata")?;
    let mut found = Metadata::default();
    let walked = json::walk(bytes, at.start, |key, start| {
        let end = match json::skip_value(bytes, start) {
            Ok(end) => end,
            Err(broken) => return Some(Err(broken)),
        };
        match key {
            b"name" => found.name = text.get(start..end),
            b"namespace" => found.namespace = text.get(start..end),
            b"resourceVersion" => found.version = text.get(start..end),
            b"managedFields" => found.managed = Some(start..end),
            _ => {}
        }
        Some(Ok(end))
    });
    walked.ok()?;
    Some(found)
}

/// An object without `metadata.managedFields`, which no decision reads and which is often the
/// larger half, and its version. What is no object stays as it is.
pub fn strip_managed_fields(text: &str) -> (Box<str>, Option<&str>) {
    let Some(Metadata {
        version, managed, ..
    }) = metadata(text)
    else {
        return (text.into(), None);
    };
    let version = version
        .and_then(|quoted| quoted.strip_prefix('"')?.strip_suffix('"'))
        .filter(|v| !v.is_empty());
    // An empty list in its place, so that the text around it need not be parsed.
    let slim = match managed.filter(|managed| managed.len() > 2) {
        Some(managed) => {
            let mut slim = String::with_capacity(text.len() - managed.len() + 2);
            slim.push_str(&text[..managed.start]);
            slim.push_str("[]");
            slim.push_str(&text[managed.end..]);
            slim.into()
        }
        None => text.into(),
    };
    (slim, version)
}

/// An object's `namespace/name`, or its name; nothing where the text is no object with a name.
pub fn full_name(text: &str) -> Option<String> {
    let Metadata {
        name, namespace, ..
    } = metadata(text)?;
    let read = |quoted: &str| serde_json::from_str::<String>(quoted).ok();
    let name = name.and_then(read)?;
    match namespace
        .and_then(read)
        .filter(|namespace| !namespace.is_empty())
    {
        Some(namespace) => Some(format!("{namespace}/{name}")),
        None => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managed_fields_are_left_out_and_nothing_else() {
        let text = r#" {"kind":"Pod","metadata":{"name":"a","resourceVersion":"12","managedFields":[{"f":"]}"}], "namespace":"n"},"spec":{}}"#;
        let left = r#" {"kind":"Pod","metadata":{"name":"a","resourceVersion":"12","managedFields":[], "namespace":"n"},"spec":{}}"#;
        assert_eq!(strip_managed_fields(text), (left.into(), Some("12")));
        assert_eq!(strip_managed_fields(left), (left.into(), Some("12")));
        for none in [
            "",
            "[]",
            "{}",
            r#"{"metadata":[{"resourceVersion":"1"}]}"#,
            r#"{"metadata":{"resourceVersion":1}}"#,
            r#"{"metadata":{"managedFields":[{"a":1"#,
        ] {
            assert_eq!(strip_managed_fields(none), (none.into(), None));
        }
    }

    #[test]
    fn names_are_found() {
        assert_eq!(
            full_name(r#"{"metadata":{"name":"a","namespace":"n"}}"#).unwrap(),
            "n/a"
        );
        assert_eq!(
            full_name(r#"{"metadata":{"name":"x\u0041"}}"#).unwrap(),
            "xA"
        );
        for none in [
            "",
            "[]",
            "{}",
            r#"{"metadata":{"name":7}}"#,
            r#"{"metadata":{"name":"a""#,
        ] {
            assert!(full_name(none).is_none(), "{none}");
        }
    }
}

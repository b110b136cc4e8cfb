//! Explains why a JSON text is invalid: field, reason and hint. It runs only after reading has
//! failed, so that reading itself tracks no paths.

use serde::Deserialize;

use super::diagnostic::Fault;
use crate::json;

/// Why an object could not be read as `W`, and its name if that much can be read.
pub(super) fn unreadable<'a, W: Deserialize<'a>>(text: &'a str) -> (String, Fault) {
    let at = json::member(text.as_bytes(), 0, "metadata").map(|range| range.start);
    let of = |name| at.and_then(|at| json::string_member(text.as_bytes(), at, name));
    let name = match (of("namespace"), of("name")) {
        (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
        (_, name) => name.unwrap_or_default().to_owned(),
    };
    let (field, what, hint) = explain::<W>(text);
    (
        name,
        Fault {
            field,
            what,
            hint: hint.to_owned(),
        },
    )
}

/// Field, reason and hint for a JSON text that cannot be read as `W`.
pub fn explain<'a, W: Deserialize<'a>>(text: &'a str) -> (String, String, &'static str) {
    let mut reader = serde_json::Deserializer::from_str(text);
    let result: Result<W, _> = serde_path_to_error::deserialize(&mut reader);
    let (field, what): (String, String) = match result {
        Ok(_) => (String::new(), "has text after its end".to_owned()),
        Err(error) => {
            let field = error.path().to_string();
            let text = error.inner().to_string();
            let text = text
                .rsplit_once(" at line ")
                .map_or(text.as_str(), |(what, _)| what);
            (
                if field == "." { String::new() } else { field },
                text.chars().take(300).collect(),
            )
        }
    };
    let hint = hint(&what);
    (field, what, hint)
}

/// What to do about a value of the wrong type.
pub(super) fn hint(what: &str) -> &'static str {
    let expected = |text: &str| what.contains(&format!("expected {text}"));
    if what.starts_with("duplicate field") {
        "keep one of the two"
    } else if expected("a string") {
        "put the value in quotes"
    } else if what.starts_with("missing field") {
        "add it"
    } else if what == "number out of range" {
        "write a smaller number"
    } else if expected("f64") {
        "write a number without quotes"
    } else if expected("a quantity") {
        "write it like 500m, 2 or 4Gi"
    } else if expected("a list") || expected("a sequence") {
        "write a list: `[…]`, or entries that start with `-`"
    } else if expected("a map")
        || expected("an instance type")
        || expected("an offering")
        || expected("a requirement")
    {
        "write it as `key: value`"
    } else if expected("i32") || expected("i64") {
        "write a whole number without quotes"
    } else if expected("a boolean") {
        "write true or false without quotes"
    } else if what.starts_with("recursion limit") {
        "no Kubernetes object is nested that deeply"
    } else {
        ""
    }
}

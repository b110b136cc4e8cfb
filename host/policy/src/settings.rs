//! Settings of a policy: TOML from the operator, JSON to the guest, validated against the guest's
//! JSON Schema.
//!
//! The validation covers the keywords that wit/ promises (`type`, `properties`, `required`,
//! `additionalProperties`, `items`, `enum`, `minimum`, `maximum`) and refuses unknown keys.
//! Everything else is left to the guest's `configure`.

pub(crate) mod skeleton;

use serde::de::{Deserialize as _, Deserializer, Error as _};
use serde_json::{Map, Number, Value};

/// Settings as the guest gets them, from the operator's TOML (none is an empty table).
pub(crate) fn from_toml(text: Option<&str>) -> Result<Value, toml::de::Error> {
    let table = text.map_or_else(|| Ok(toml::Table::new()), toml::from_str)?;
    finite_table(table)
        .map(Value::Object)
        .map_err(toml::de::Error::custom)
}

/// Settings that are a table of a document.
pub(crate) fn deserialize<'de, D>(from: D) -> Result<Map<String, Value>, D::Error>
where
    D: Deserializer<'de>,
{
    finite_table(toml::Table::deserialize(from)?).map_err(D::Error::custom)
}

fn finite_table(table: toml::Table) -> Result<Map<String, Value>, String> {
    let entries = table.into_iter();
    entries
        .map(|(key, value)| {
            let value = finite(&key, value)?;
            Ok((key, value))
        })
        .collect()
}

/// A value as JSON: dates as strings. Fails at a number that JSON has not.
fn finite(key: &str, value: toml::Value) -> Result<Value, String> {
    Ok(match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| format!("`{key}` is {number}: expected a finite number"))?,
        toml::Value::Boolean(truth) => Value::Bool(truth),
        toml::Value::Datetime(date) => Value::String(date.to_string()),
        toml::Value::Array(items) => {
            let items = items.into_iter().map(|item| finite(key, item));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        toml::Value::Table(table) => Value::Object(finite_table(table)?),
    })
}

/// What is wrong with settings: one sentence for each problem, with the place and a hint.
pub(crate) fn check(schema: &str, settings: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    if schema.trim().is_empty() {
        if let Some(key) = settings
            .as_object()
            .and_then(|settings| settings.keys().next())
        {
            problems.push(format!("`{key}`: this policy takes no settings"));
        }
        return problems;
    }
    match serde_json::from_str(schema) {
        Ok(schema) => visit(&schema, settings, "", &mut problems),
        Err(error) => problems.push(format!(
            "the policy's own settings schema is not JSON: {error}"
        )),
    }
    problems
}

fn visit(schema: &Value, value: &Value, place: &str, problems: &mut Vec<String>) {
    let shown = || {
        if place.is_empty() {
            "settings".to_owned()
        } else {
            format!("`{place}`")
        }
    };
    if let Some(expected) = schema.get("type").and_then(Value::as_str)
        && !is_type(value, expected)
    {
        problems.push(format!(
            "{}: expected {expected}, found {}",
            shown(),
            describe(value)
        ));
        return;
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        problems.push(format!(
            "{}: expected one of {}, found {}",
            shown(),
            allowed.join(", "),
            describe(value)
        ));
    }
    if let Some(number) = value.as_f64() {
        let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
        if let Some(least) = bound("minimum").filter(|&least| number < least) {
            problems.push(format!(
                "{}: expected at least {least}, found {value}",
                shown()
            ));
        }
        if let Some(most) = bound("maximum").filter(|&most| number > most) {
            problems.push(format!(
                "{}: expected at most {most}, found {value}",
                shown()
            ));
        }
    }
    match value {
        Value::Object(fields) => visit_object(schema, fields, place, problems),
        Value::Array(items) => {
            let Some(each) = schema.get("items") else {
                return;
            };
            for (at, item) in items.iter().enumerate() {
                visit(each, item, &format!("{place}[{at}]"), problems);
            }
        }
        _ => {}
    }
}

fn visit_object(
    schema: &Value,
    fields: &Map<String, Value>,
    place: &str,
    problems: &mut Vec<String>,
) {
    let inside = |key: &str| {
        if place.is_empty() {
            key.to_owned()
        } else {
            format!("{place}.{key}")
        }
    };
    let none = Map::new();
    let known = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&none);
    for key in schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if !fields.contains_key(key) {
            problems.push(format!("`{}` is missing", inside(key)));
        }
    }
    for (key, value) in fields {
        match (known.get(key), schema.get("additionalProperties")) {
            (Some(schema), _) => visit(schema, value, &inside(key), problems),
            (None, Some(Value::Bool(true))) => {}
            (None, Some(others @ Value::Object(_))) => visit(others, value, &inside(key), problems),
            (None, _) => problems.push(format!(
                "`{}`: unknown key{}",
                inside(key),
                meant(key, known)
            )),
        }
    }
}

/// A hint for an unknown key: the nearest known one, or all of them.
fn meant(key: &str, known: &Map<String, Value>) -> String {
    let nearest = known.keys().min_by_key(|have| distance(key, have));
    match nearest.filter(|have| distance(key, have) <= have.len().div_ceil(3)) {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None if known.is_empty() => "; none is known here".to_owned(),
        None => format!(
            "; known are {}",
            known
                .keys()
                .map(|k| format!("`{k}`"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

/// Levenshtein's distance between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

fn is_type(value: &Value, expected: &str) -> bool {
    match expected {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        _ => true,
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Object(_) => "a table".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type": "object", "required": ["mode"], "properties": {
        "mode": {"type": "string", "enum": ["a", "b"]},
        "discounts": {"type": "array", "items": {"type": "object", "properties": {
            "family": {"type": "string"}, "percent": {"type": "number", "minimum": 0, "maximum": 100}}}},
        "zones": {"type": "object", "additionalProperties": {"type": "number"}}}}"#;

    fn problems(toml: &str) -> Vec<String> {
        check(SCHEMA, &from_toml(Some(toml)).unwrap())
    }

    #[test]
    fn good_settings_have_no_problems() {
        let good =
            "mode = 'a'\nzones = { x = 1, y = 2.5 }\n[[discounts]]\nfamily = 'm7g'\npercent = 12";
        assert_eq!(problems(good), [""; 0]);
    }

    #[test]
    fn every_problem_names_its_place_and_what_was_expected() {
        let bad = "zones = { x = 'one' }\n[[discounts]]\nfamly = 'm7g'\npercent = 120\n[[discounts]]\nother = 1";
        assert_eq!(
            problems(bad),
            [
                "`mode` is missing",
                "`discounts[0].famly`: unknown key; did you mean `family`?",
                "`discounts[0].percent`: expected at most 100, found 120",
                "`discounts[1].other`: unknown key; known are `family`, `percent`",
                "`zones.x`: expected number, found \"one\"",
            ]
        );
        assert_eq!(
            problems("mode = 'c'"),
            ["`mode`: expected one of \"a\", \"b\", found \"c\""]
        );
    }

    #[test]
    fn a_number_that_json_has_not_is_refused() {
        let refused = |text: &str| from_toml(Some(text)).unwrap_err().to_string();
        assert_eq!(
            refused("zones = { x = [1.0, inf] }").trim_end(),
            "`x` is inf: expected a finite number"
        );
        assert_eq!(
            refused("limit = nan").trim_end(),
            "`limit` is NaN: expected a finite number"
        );
    }

    #[test]
    fn a_policy_without_a_schema_takes_no_settings() {
        assert_eq!(
            check("", &from_toml(Some("x = 1")).unwrap()),
            ["`x`: this policy takes no settings"]
        );
        assert_eq!(check("", &from_toml(None).unwrap()), [""; 0]);
    }
}

//! A settings schema as TOML to begin with: what each setting means, and a line that sets it.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::cases::text::{quoted, toml_value};
use crate::guest_text::printable;

/// Schemas can be nested without end; tables of tables that an operator writes are not.
const DEEPEST: usize = 8;

/// Settings in TOML, as a policy's schema describes them. What has to be set has a line, all else is in
/// comments, with its default where the schema says one. A table that may have any name is called NAME.
///
/// # Errors
/// The schema is not JSON.
pub fn skeleton(schema: &str) -> Result<String, serde_json::Error> {
    let schema: Value = match schema.trim() {
        "" => Value::Null,
        text => serde_json::from_str(text)?,
    };
    let mut out = String::new();
    table(&schema, "", true, DEEPEST, &mut out);
    if out.is_empty() {
        out = "# This policy takes no settings.\n".to_owned();
    }
    Ok(out)
}

/// The settings of a table: first what has a value of its own, then tables, as TOML wants it.
fn table(schema: &Value, path: &str, is_set: bool, depth: usize, out: &mut String) {
    let none = Map::new();
    let all = schema["properties"].as_object().unwrap_or(&none);
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let is_set = |key: &str| is_set && required.contains(&key);
    let (tables, values): (Vec<_>, Vec<_>) = all.iter().partition(|(_, of)| is_table(of));
    for (key, of) in values {
        comment(of, out);
        let sign = if is_set(key) { "" } else { "# " };
        _ = writeln!(out, "{sign}{} = {}", name(key), value(of, is_set(key)));
    }
    if depth == 0 {
        return;
    }
    for (key, of) in tables {
        let inside = match path {
            "" => name(key),
            path => format!("{path}.{}", name(key)),
        };
        let (inside, of, brackets) = match &of["items"] {
            Value::Object(_) => (inside, &of["items"], ("[[", "]]")),
            _ => (inside, of, ("[", "]")),
        };
        if !out.is_empty() {
            out.push('\n');
        }
        comment(&all[key], out);
        let sign = if is_set(key) { "" } else { "# " };
        let any = &of["additionalProperties"];
        if of["properties"].is_object() || !any.is_object() {
            _ = writeln!(out, "{sign}{}{inside}{}", brackets.0, brackets.1);
            table(of, &inside, is_set(key), depth - 1, out);
        }
        match any {
            Value::Object(_) if any["properties"].is_object() => {
                _ = writeln!(out, "{sign}{}{inside}.NAME{}", brackets.0, brackets.1);
                table(any, &format!("{inside}.NAME"), is_set(key), depth - 1, out);
            }
            Value::Object(_) => {
                _ = writeln!(out, "{sign}{}{inside}{}", brackets.0, brackets.1);
                comment(any, out);
                _ = writeln!(out, "# NAME = {}", value(any, false));
            }
            _ => {}
        }
    }
}

/// Whether it is written with a header of its own.
fn is_table(of: &Value) -> bool {
    let has_keys =
        |of: &Value| of["properties"].is_object() || of["additionalProperties"].is_object();
    has_keys(of) || has_keys(&of["items"])
}

/// What a setting means, its type and its bounds.
fn comment(of: &Value, out: &mut String) {
    let text = |key: &str| of[key].as_str().map(printable);
    let mut parts: Vec<String> = text("type").into_iter().collect();
    if let Some(allowed) = of["enum"].as_array() {
        let allowed: Vec<String> = allowed.iter().map(toml_value).collect();
        parts.push(format!("one of {}", printable(&allowed.join(", "))));
    }
    for (key, words) in [("minimum", "at least"), ("maximum", "at most")] {
        if of[key].is_number() {
            parts.push(format!("{words} {}", of[key]));
        }
    }
    let said = match (text("description"), parts.join(", ")) {
        (Some(words), parts) if parts.is_empty() => words,
        (Some(words), parts) => format!("{words} ({parts})"),
        (None, parts) => parts,
    };
    if !said.is_empty() {
        _ = writeln!(out, "# {said}");
    }
}

/// The default if it is said. Of what has to be set else the first value that is allowed, or an empty
/// one of the type.
fn value(of: &Value, is_set: bool) -> String {
    let allowed = of["enum"].as_array().and_then(|all| all.first());
    let default = of.get("default").filter(|default| !default.is_null());
    if let Some(known) = default.or(allowed.filter(|_| is_set)) {
        return printable(&toml_value(known));
    }
    if !is_set {
        return "…".to_owned();
    }
    match of["type"].as_str() {
        Some("integer" | "number") if of["minimum"].is_number() => of["minimum"].to_string(),
        Some("integer" | "number") => "0".to_owned(),
        Some("boolean") => "false".to_owned(),
        Some("array") => "[]".to_owned(),
        Some("object") => "{}".to_owned(),
        _ => "\"\"".to_owned(),
    }
}

/// A key as TOML writes it.
fn name(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !key.is_empty() && key.chars().all(is_bare) {
        true => key.to_owned(),
        false => quoted(&printable(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_has_a_comment_and_a_line() {
        let schema = r#"{"type": "object", "required": ["team", "rates"], "properties": {
            "usd": {"description": "USD of\na ton.", "type": "number", "minimum": 0, "default": 80},
            "team": {"type": "string"},
            "odd key": {"enum": ["a", "b"]},
            "rates": {"description": "The first that matches.", "type": "array", "items": {"type": "object",
                "required": ["rate"], "properties": {"rate": {"type": "number", "maximum": 1},
                "offerings": {"type": "object", "properties": {"zone": {"type": "string"}}}}}},
            "watts": {"type": "object", "additionalProperties": {"type": "object",
                "properties": {"rest": {"type": "number", "minimum": 0.5}}}},
            "shares": {"type": "object", "additionalProperties": {"type": "number"}}}}"#;
        let text = skeleton(schema).unwrap();
        let expected = r#"# one of "a", "b"
# "odd key" = …
# string
team = ""
# USD of a ton. (number, at least 0)
# usd = 80

# The first that matches. (array)
[[rates]]
# number, at most 1
rate = 0

# object
# [rates.offerings]
# string
# zone = …

# object
# [shares]
# number
# NAME = …

# object
# [watts.NAME]
# number, at least 0.5
# rest = …
"#;
        assert_eq!(text, expected);
        toml::from_str::<toml::Table>(&text).unwrap();
    }

    #[test]
    fn a_policy_without_settings_says_so_and_a_schema_without_end_ends() {
        assert!(skeleton("").unwrap().contains("no settings"));
        assert!(skeleton("no JSON").is_err());
        let mut deep = "{}".to_owned();
        for _ in 0..60 {
            deep = format!(r#"{{"properties": {{"a": {deep}}}}}"#);
        }
        assert!(skeleton(&deep).unwrap().len() < 2000);
    }
}

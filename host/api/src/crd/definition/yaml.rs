//! JSON written as YAML: in blocks, with quotes only where a reader could mistake a text for
//! something else.

use serde_json::Value;

/// The document.
pub fn write(value: &Value) -> String {
    let mut out = String::from("---\n");
    block(&mut out, value, 0);
    out
}

/// A value whose first line starts at `indent`, where the cursor is at the start of a line.
fn block(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                pad(out, indent);
                entry(out, key, value, indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                pad(out, indent);
                out.push('-');
                match item {
                    // The first field stands beside the dash.
                    Value::Object(fields) if !fields.is_empty() => {
                        for (at, (key, value)) in fields.iter().enumerate() {
                            if at == 0 {
                                out.push(' ');
                            } else {
                                pad(out, indent + 2);
                            }
                            entry(out, key, value, indent + 2);
                        }
                    }
                    Value::Array(items) if !items.is_empty() => {
                        out.push('\n');
                        block(out, item, indent + 2);
                    }
                    plain => line(out, plain),
                }
            }
        }
        plain => line(out, plain),
    }
}

fn entry(out: &mut String, key: &str, value: &Value, indent: usize) {
    text(out, key);
    out.push(':');
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            block(out, value, indent + 2);
        }
        // The dashes of a list stand under its key.
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            block(out, value, indent);
        }
        plain => line(out, plain),
    }
}

fn line(out: &mut String, value: &Value) {
    out.push(' ');
    match value {
        Value::String(value) => text(out, value),
        other => out.push_str(&other.to_string()),
    }
    out.push('\n');
}

fn text(out: &mut String, text: &str) {
    if is_plain(text) {
        out.push_str(text);
    } else {
        // JSON's quotes and escapes are YAML's.
        out.push_str(&Value::from(text).to_string());
    }
}

/// Whether a text reads as itself without quotes: words that start with a letter or dot, do not end
/// in a colon or space, hold nothing that YAML reads, and are none of its names for truth or
/// nothing.
fn is_plain(text: &str) -> bool {
    const NAMES: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '.')
        && !text.ends_with([':', ' '])
        && !text.contains(": ")
        && !text.contains(" #")
        && text
            .chars()
            .all(|c| !c.is_control() && !"\"'\\{}[]|>&*!%`@".contains(c))
        && !NAMES.contains(&text.to_ascii_lowercase().as_str())
        && !text[1..].starts_with(|second: char| text.starts_with('.') && second.is_ascii_digit())
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    #[test]
    fn quotes_stand_only_where_they_must() {
        let value = json!({
            "plain": "two words, and more",
            "date": "2024-01-01T01:01:01Z",
            "truth": "True",
            "empty": "",
            "pattern": "^a\\d$",
            "colon": "a: b",
            "number": 1,
            "none": {},
            "list": [{"a": 1, "b": [2]}, [3, 4], "five"],
            "map": {"x": {"y": "z"}},
        });
        expect![[r#"
            ---
            colon: "a: b"
            date: "2024-01-01T01:01:01Z"
            empty: ""
            list:
            - a: 1
              b:
              - 2
            -
              - 3
              - 4
            - five
            map:
              x:
                "y": z
            none: {}
            number: 1
            pattern: "^a\\d$"
            plain: two words, and more
            truth: "True"
        "#]]
        .assert_eq(&super::write(&value));
    }
}

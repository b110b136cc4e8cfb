//! Texts that the hash covers, as Go writes them: JSON of the kubelet's settings, sizes of volumes.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

/// The kubelet's settings as JSON without spaces, keys sorted by bytes, and `<`, `>`, `&` escaped;
/// `null` if there are none.
pub(super) fn kubelet(settings: Option<&Map<String, Value>>) -> String {
    match settings.filter(|settings| !settings.is_empty()) {
        None => "null".to_owned(),
        Some(settings) => {
            let mut out = String::new();
            object(&mut out, settings);
            out
        }
    }
}

fn value(out: &mut String, value: &Value) {
    match value {
        Value::Object(fields) => object(out, fields),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                self::value(out, item);
            }
            out.push(']');
        }
        Value::String(text) => string(out, text),
        Value::Number(number) => self::number(out, number),
        Value::Bool(_) | Value::Null => {
            let _ = write!(out, "{value}");
        }
    }
}

fn object(out: &mut String, fields: &Map<String, Value>) {
    let mut sorted: Vec<_> = fields.iter().collect();
    sorted.sort_by(|a, b| a.0.cmp(b.0));
    out.push('{');
    for (at, (key, field)) in sorted.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        string(out, key);
        out.push(':');
        value(out, field);
    }
    out.push('}');
}

fn string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..'\u{20}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A number: integers of 64 bits as they are, others as a double. Doubles below 10⁻⁶ or from 10²¹
/// have an exponent.
fn number(out: &mut String, number: &Number) {
    let float = match number.as_f64() {
        Some(float) if number.as_i64().is_none() => float,
        _ => {
            let _ = write!(out, "{number}");
            return;
        }
    };
    let size = float.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        // Rust writes 1e21 where Go writes 1e+21.
        let text = format!("{float:e}");
        let text = match text.split_once('e') {
            Some((digits, power)) if !power.starts_with('-') => format!("{digits}e+{power}"),
            _ => text,
        };
        out.push_str(&text);
    } else {
        let _ = write!(out, "{float}");
    }
}

/// A size with the largest suffix that keeps it whole: `1024Gi` is `1Ti`, `2000G` is `2T`. `None`
/// for what is not a whole number with Gi, G, Ti or T.
pub(super) fn volume_size(size: &str) -> Option<String> {
    let (digits, suffix) = size.split_at(size.find(|c: char| !c.is_ascii_digit())?);
    let mut number: u64 = digits.parse().ok().filter(|number| *number > 0)?;
    let (step, suffixes): (u64, &[&str]) = match suffix {
        "Gi" | "Ti" => (1024, &["Gi", "Ti", "Pi", "Ei"]),
        "G" | "T" => (1000, &["G", "T", "P", "E"]),
        _ => return None,
    };
    let mut at = suffixes.iter().position(|one| *one == suffix)?;
    while number.is_multiple_of(step) && at + 1 < suffixes.len() {
        (number, at) = (number / step, at + 1);
    }
    Some(format!("{number}{}", suffixes[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_largest_suffix() {
        let of = |size| volume_size(size).unwrap_or_default();
        assert_eq!(
            ["20Gi", "1024Gi", "2048Gi", "1000G", "1500G", "58Ti", "64T"].map(of),
            ["20Gi", "1Ti", "2Ti", "1T", "1500G", "58Ti", "64T"]
        );
        assert_eq!(
            ["", "Ti", "5", "5Mi", "-5Gi", "0Gi", "1.5Ti"].map(of),
            [""; 7]
        );
    }

    #[test]
    fn json_is_gos() {
        let text = r#"{"b":[1,1.0,1.5,1e21,1e-7,0.000001,-0.0,18446744073709551615],"a":"<&>\u0001\u007f\u2028é\n"}"#;
        let settings: Map<String, Value> = serde_json::from_str(text).unwrap();
        expect_test::expect![[r#"{"a":"\u003c\u0026\u003e\u0001\u2028é\n","b":[1,1,1.5,1e+21,1e-7,0.000001,-0,18446744073709552000]}"#]].assert_eq(&kubelet(Some(&settings)));
        assert_eq!(kubelet(None), "null");
        assert_eq!(kubelet(Some(&Map::new())), "null");
    }
}

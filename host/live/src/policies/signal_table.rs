//! The table of a signal: a JSON object of numbers.

use std::collections::BTreeMap;

use serde_json::error::Category;

/// Numbers by key.
pub type Table = BTreeMap<String, f64>;

/// The largest table, in bytes: 100 000 rows of `type/zone`.
pub const MAX_BYTES: u64 = 4 << 20;
/// How a table is written.
pub const HINT: &str = "expected a JSON object of numbers: {\"us-east-1a\": 379.5}";
/// The longest key.
const MAX_KEY_BYTES: usize = 256;

/// Checks what came. An empty table is refused: more often than not it is an exporter that has just
/// started.
pub fn read(bytes: &[u8]) -> Result<Table, String> {
    let rows: Table = serde_json::from_slice(bytes).map_err(|error| {
        // Not in the words of the parser, which repeat what stands there.
        let what = match error.classify() {
            Category::Data => "no number",
            Category::Eof => "cut short",
            Category::Syntax | Category::Io => "no JSON",
        };
        let (line, column) = (error.line(), error.column());
        format!("not a signal: {what} at line {line}, column {column}")
    })?;
    if rows.is_empty() {
        return Err("not a signal: the table is empty".into());
    }
    match rows.keys().find(|key| key.len() > MAX_KEY_BYTES) {
        Some(key) => Err(format!("not a signal: a key of {} bytes", key.len())),
        None => Ok(rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_table_is_refused_in_its_own_words() {
        let refused = |text: &str| read(text.as_bytes()).unwrap_err();
        assert_eq!(
            refused("<html>"),
            "not a signal: no JSON at line 1, column 1"
        );
        assert_eq!(
            refused(r#"{"a": "secret"}"#),
            "not a signal: no number at line 1, column 14",
            "what stands there is not repeated"
        );
        assert_eq!(
            refused("{\"a\": 1,\n"),
            "not a signal: cut short at line 2, column 0"
        );
        assert!(refused(r#"{"a": 1e999}"#).starts_with("not a signal: no JSON at line 1"));
        assert_eq!(refused("{}"), "not a signal: the table is empty");
        assert_eq!(
            refused(&format!("{{\"{}\": 1}}", "x".repeat(300))),
            "not a signal: a key of 300 bytes"
        );
        assert_eq!(read(br#"{"a": 1, "b": 2.5}"#).unwrap().len(), 2);
    }
}

//! TOML as Karpenter writes it (Go's library go-toml, version 2).
//!
//! Within a table its values come first, then the tables below it, each under its full name. An
//! empty line stands before a table's name if a value stands before. Texts are in single quotes
//! where they can be.

use std::fmt::Write as _;

use toml::Value;
use toml::value::Offset;

/// Keys and values in the order that they are written in.
pub(super) type Table = Vec<(String, Item)>;

/// A value of a table.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// As it was read; maps are sorted by key.
    Read(Value),
    /// A table in an order of its own.
    Table(Table),
}

/// A document.
pub(super) fn write(table: &Table) -> String {
    let mut out = Out {
        text: String::new(),
        after_value: false,
    };
    out.table(&[], &refs(table));
    out.text
}

enum Ref<'a> {
    Value(&'a Value),
    Table(Vec<(&'a str, Ref<'a>)>),
    Tables(Vec<Vec<(&'a str, Ref<'a>)>>),
}

fn refs(table: &Table) -> Vec<(&str, Ref<'_>)> {
    table
        .iter()
        .map(|(key, value)| (key.as_str(), item(value)))
        .collect()
}

fn item(item: &Item) -> Ref<'_> {
    match item {
        Item::Read(value) => read(value),
        Item::Table(table) => Ref::Table(refs(table)),
    }
}

fn sorted(table: &toml::Table) -> Vec<(&str, Ref<'_>)> {
    let mut all: Vec<_> = table
        .iter()
        .map(|(key, value)| (key.as_str(), read(value)))
        .collect();
    all.sort_by(|a, b| a.0.cmp(b.0));
    all
}

fn read(value: &Value) -> Ref<'_> {
    match value {
        Value::Table(table) => Ref::Table(sorted(table)),
        Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_table) => {
            let tables = items.iter().filter_map(Value::as_table);
            Ref::Tables(tables.map(sorted).collect())
        }
        value => Ref::Value(value),
    }
}

struct Out {
    text: String,
    after_value: bool,
}

impl Out {
    fn table(&mut self, path: &[&str], table: &[(&str, Ref<'_>)]) {
        for (name, value) in table {
            if let Ref::Value(value) = value {
                key(&mut self.text, name);
                self.text.push_str(" = ");
                inline(&mut self.text, value);
                self.text.push('\n');
                self.after_value = true;
            }
        }
        for (name, value) in table {
            let path: Vec<&str> = path.iter().copied().chain([*name]).collect();
            match value {
                Ref::Value(_) => {}
                Ref::Table(table) => {
                    self.header(&path, "[", "]");
                    self.table(&path, table);
                }
                Ref::Tables(tables) => {
                    for table in tables {
                        self.header(&path, "[[", "]]");
                        self.table(&path, table);
                    }
                }
            }
        }
    }

    fn header(&mut self, path: &[&str], open: &str, close: &str) {
        if self.after_value {
            self.text.push('\n');
        }
        self.after_value = false;
        self.text.push_str(open);
        for (at, part) in path.iter().enumerate() {
            if at > 0 {
                self.text.push('.');
            }
            key(&mut self.text, part);
        }
        self.text.push_str(close);
        self.text.push('\n');
    }
}

fn key(out: &mut String, key: &str) {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !key.is_empty() && key.chars().all(bare) {
        out.push_str(key);
    } else {
        text(out, key);
    }
}

fn inline(out: &mut String, value: &Value) {
    match value {
        Value::String(value) => text(out, value),
        Value::Integer(value) => {
            let _ = write!(out, "{value}");
        }
        Value::Float(value) => float(out, *value),
        Value::Boolean(value) => {
            let _ = write!(out, "{value}");
        }
        Value::Datetime(value) => {
            let mut value = *value;
            if value.offset == Some(Offset::Custom { minutes: 0 }) {
                value.offset = Some(Offset::Z);
            }
            let _ = write!(out, "{value}");
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                inline(out, item);
            }
            out.push(']');
        }
        Value::Table(table) => {
            let mut all: Vec<_> = table.iter().collect();
            all.sort_by(|a, b| a.0.cmp(b.0));
            out.push('{');
            for (at, (name, value)) in all.into_iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                key(out, name);
                out.push_str(" = ");
                inline(out, value);
            }
            out.push('}');
        }
    }
}

fn float(out: &mut String, value: f64) {
    if value.is_nan() {
        out.push_str("nan");
    } else if value.is_infinite() {
        out.push_str(if value > 0.0 { "inf" } else { "-inf" });
    } else {
        let _ = write!(out, "{value}");
        if value.fract() == 0.0 {
            out.push_str(".0");
        }
    }
}

fn text(out: &mut String, text: &str) {
    let plain = |c: char| c != '\'' && !c.is_ascii_control();
    if text.chars().all(plain) {
        let _ = write!(out, "'{text}'");
        return;
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

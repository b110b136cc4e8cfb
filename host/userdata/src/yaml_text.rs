//! YAML as Go's yaml library (version 2) writes it, and whether a text is a YAML map.
//!
//! Blocks, keys sorted by bytes, lists at the indentation of their key. A text stands plain where
//! it reads as itself in YAML 1.1, else in double quotes if it would read as another type, else in
//! single quotes, or in double quotes if it has characters that need an escape. A text with line
//! ends is a literal block. Texts with spaces are folded after column 80.

mod keys;
mod plain;

use std::fmt::Write as _;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

use keys::in_order;
use plain::reads_as_other;

/// Where lines are folded, at the next space.
const WIDTH: usize = 80;

/// Whether the first document of a text is a map with plain keys, or has no content.
pub(super) fn is_map(text: &str) -> bool {
    let mut root = None;
    // For each open list or map: whether it is a map, and the number of nodes in it.
    let mut open: Vec<(bool, usize)> = Vec::new();
    // Our parser takes no tab between a key and its value; Go's does.
    let text = text.replace(":\t", ": ");
    for event in Parser::new_from_str(&text) {
        let Ok((event, _)) = event else {
            return false;
        };
        let (node, map) = match &event {
            Event::DocumentEnd => break,
            Event::MappingStart(..) => (true, true),
            Event::SequenceStart(..) => (true, false),
            Event::Scalar(text, style, ..) => {
                let nothing = *style == ScalarStyle::Plain
                    && matches!(&**text, "" | "~" | "null" | "Null" | "NULL");
                (true, nothing && open.is_empty())
            }
            Event::Alias(_) => (true, false),
            _ => (false, false),
        };
        let starts = matches!(event, Event::MappingStart(..) | Event::SequenceStart(..));
        if node {
            root.get_or_insert(map);
            if let Some((in_map, count)) = open.last_mut() {
                // A list or map as a key cannot become JSON.
                if *in_map && count.is_multiple_of(2) && starts {
                    return false;
                }
                *count += 1;
            }
        }
        if starts {
            open.push((map, 0));
        }
        if matches!(event, Event::MappingEnd | Event::SequenceEnd) {
            open.pop();
        }
    }
    root.unwrap_or(true)
}

/// The documents of a YAML text, those without content too. Comments and directives before the first
/// mark belong to the first document.
pub(super) fn documents(text: &str) -> Vec<&str> {
    let (mut all, mut start, mut at) = (Vec::new(), 0, 0);
    let preamble = |text: &str| {
        let line = |line: &str| line.trim().is_empty() || line.trim_start().starts_with(['#', '%']);
        text.lines().all(line)
    };
    for line in text.split_inclusive('\n') {
        let mark = |mark: &str| {
            let rest = line.strip_prefix(mark);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
        };
        if mark("---") && !preamble(&text[start..at]) {
            all.push(&text[start..at]);
            start = at;
        }
        at += line.len();
        if mark("...") {
            all.push(&text[start..at]);
            start = at;
        }
    }
    if all.is_empty() || !preamble(&text[start..]) {
        all.push(&text[start..]);
    }
    all
}

/// Whether a document has no content: spaces, comments and marks of its start and end, or a null.
pub(super) fn is_empty(text: &str) -> bool {
    for event in Parser::new_from_str(text) {
        match event {
            Ok((Event::Scalar(text, ScalarStyle::Plain, ..), _)) => {
                return matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
            }
            Ok((
                Event::Scalar(..)
                | Event::Alias(_)
                | Event::SequenceStart(..)
                | Event::MappingStart(..),
                _,
            ))
            | Err(_) => return false,
            Ok(_) => {}
        }
    }
    true
}

/// A character in keys and texts that Go's library refuses to read, if there is one.
pub(super) fn unwritable(fields: &Map<String, Value>) -> Option<char> {
    let bad =
        |c: char| matches!(c, '\u{7f}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}');
    fn find(value: &Value, bad: fn(char) -> bool) -> Option<char> {
        match value {
            Value::String(text) => text.chars().find(|c| bad(*c)),
            Value::Array(items) => items.iter().find_map(|item| find(item, bad)),
            Value::Object(fields) => fields.iter().find_map(|(key, value)| {
                key.chars().find(|c| bad(*c)).or_else(|| find(value, bad))
            }),
            _ => None,
        }
    }
    fields
        .iter()
        .find_map(|(key, value)| key.chars().find(|c| bad(*c)).or_else(|| find(value, bad)))
}

/// A document. An empty map at the root is `{}`.
pub(super) fn write(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => map(&mut out, fields, 0),
        other => {
            inline(&mut out, other, 0);
            out.push('\n');
        }
    }
    out
}

fn map(out: &mut String, fields: &Map<String, Value>, indent: usize) {
    for (at, (key, value)) in in_order(fields.iter().collect()).into_iter().enumerate() {
        // The first key of an entry stands beside the entry's dash.
        if at > 0 || out.ends_with('\n') || out.is_empty() {
            pad(out, indent);
        }
        text(out, key, indent, Place::Key);
        out.push(':');
        entry(out, value, indent);
    }
}

/// A value after a key's colon.
fn entry(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            map(out, fields, indent + 2);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            list(out, items, indent);
        }
        plain => {
            out.push(' ');
            inline(out, plain, indent + 2);
            out.push('\n');
        }
    }
}

fn list(out: &mut String, items: &[Value], indent: usize) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 || out.ends_with('\n') {
            pad(out, indent);
        }
        out.push_str("- ");
        match item {
            Value::Object(fields) if !fields.is_empty() => map(out, fields, indent + 2),
            Value::Array(items) if !items.is_empty() => list(out, items, indent + 2),
            plain => {
                inline(out, plain, indent + 2);
                out.push('\n');
            }
        }
    }
}

/// A value without a block below; `indent` is that of lines that go on.
fn inline(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(value) => number(out, value),
        Value::String(value) => text(out, value, indent, Place::Value),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

/// A number: whole ones as they are; others with an exponent below 10⁻⁴ and from 10⁶.
fn number(out: &mut String, number: &Number) {
    if number.is_i64() || number.is_u64() {
        let _ = write!(out, "{number}");
        return;
    }
    let float = number.as_f64().unwrap_or_default();
    // The text between was JSON, where a whole double has no point.
    if float.fract() == 0.0 && float.abs() < 9e18 {
        let _ = write!(out, "{}", float as i64);
        return;
    }
    let scientific = format!("{float:e}");
    let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or_default();
    if !(-4..6).contains(&power) {
        let sign = if power < 0 { '-' } else { '+' };
        let _ = write!(out, "{digits}e{sign}{:02}", power.unsigned_abs());
    } else {
        let _ = write!(out, "{float}");
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Key,
    Value,
}

/// What a text allows.
struct Analysis {
    plain: bool,
    single: bool,
    block: bool,
    multiline: bool,
}

fn analyze(text: &str) -> Analysis {
    let chars: Vec<char> = text.chars().collect();
    let blank = |at: usize| chars.get(at).is_none_or(|c| " \t\n\r".contains(*c));
    let (mut indicators, mut special) = (text.starts_with("---") || text.starts_with("..."), false);
    let (mut space_break, mut break_space, mut line_breaks) = (false, false, false);
    for (at, c) in chars.iter().enumerate() {
        let before = at == 0 || blank(at - 1);
        let after = blank(at + 1);
        indicators |= match c {
            '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
            | '@' | '`'
                if at == 0 =>
            {
                true
            }
            '?' | ':' | '-' if at == 0 => after,
            ':' => after,
            '#' => before,
            _ => false,
        };
        special |= !is_printable(*c);
        let (is_break, was_break) = (is_break(*c), at > 0 && self::is_break(chars[at - 1]));
        line_breaks |= is_break;
        let was_space = at > 0 && chars[at - 1] == ' ';
        break_space |= *c == ' ' && was_break;
        space_break |= is_break && was_space;
    }
    let edge = |c: Option<&char>| c.is_some_and(|c| *c == ' ' || is_break(*c));
    let edges = edge(chars.first()) || edge(chars.last());
    let trailing_space = chars.last() == Some(&' ');
    let odd = space_break || special;
    Analysis {
        plain: !(edges || break_space || odd || line_breaks || indicators),
        single: !(break_space || odd),
        block: !(trailing_space || odd),
        multiline: line_breaks,
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        && c != '\u{feff}'
}

fn text(out: &mut String, text: &str, indent: usize, place: Place) {
    let found = analyze(text);
    let key = place == Place::Key;
    if text.contains('\n') {
        if found.block && !key {
            return literal(out, text, indent);
        }
        return double(out, text, indent, place);
    }
    if reads_as_other(text) || (key && found.multiline) {
        return double(out, text, indent, place);
    }
    if found.plain {
        folded(out, text, indent, place, false);
    } else if found.single {
        out.push('\'');
        folded(out, text, indent, place, true);
        out.push('\'');
    } else {
        double(out, text, indent, place);
    }
}

/// A plain or single-quoted text: single spaces become line ends beyond the width.
fn folded(out: &mut String, text: &str, indent: usize, place: Place, quoted: bool) {
    let chars: Vec<char> = text.chars().collect();
    let mut spaces = false;
    for (at, c) in chars.iter().enumerate() {
        if *c == ' ' {
            let next = chars.get(at + 1) == Some(&' ');
            let inside = !quoted || (at > 0 && at + 1 < chars.len());
            if place == Place::Value && !spaces && column(out) > WIDTH && inside && !next {
                out.push('\n');
                pad(out, indent);
            } else {
                out.push(' ');
            }
            spaces = true;
        } else {
            if quoted && *c == '\'' {
                out.push('\'');
            }
            out.push(*c);
            spaces = false;
        }
    }
}

fn double(out: &mut String, text: &str, indent: usize, place: Place) {
    out.push('"');
    let chars: Vec<char> = text.chars().collect();
    let mut spaces = false;
    for (at, c) in chars.iter().enumerate() {
        if !is_printable(*c) || is_break(*c) || matches!(c, '"' | '\\') {
            escape(out, *c);
            spaces = false;
        } else if *c == ' ' {
            let inside = at > 0 && at + 1 < chars.len();
            if place == Place::Value && !spaces && column(out) > WIDTH && inside {
                out.push('\n');
                pad(out, indent);
                if chars.get(at + 1) == Some(&' ') {
                    out.push('\\');
                }
            } else {
                out.push(' ');
            }
            spaces = true;
        } else {
            out.push(*c);
            spaces = false;
        }
    }
    out.push('"');
}

fn escape(out: &mut String, c: char) {
    out.push('\\');
    match c {
        '\0' => out.push('0'),
        '\u{7}' => out.push('a'),
        '\u{8}' => out.push('b'),
        '\t' => out.push('t'),
        '\n' => out.push('n'),
        '\u{b}' => out.push('v'),
        '\u{c}' => out.push('f'),
        '\r' => out.push('r'),
        '\u{1b}' => out.push('e'),
        '"' | '\\' => out.push(c),
        '\u{85}' => out.push('N'),
        '\u{2028}' => out.push('L'),
        '\u{2029}' => out.push('P'),
        c if u32::from(c) <= 0xff => {
            let _ = write!(out, "x{:02X}", u32::from(c));
        }
        c if u32::from(c) <= 0xffff => {
            let _ = write!(out, "u{:04X}", u32::from(c));
        }
        c => {
            let _ = write!(out, "U{:08X}", u32::from(c));
        }
    }
}

fn literal(out: &mut String, text: &str, indent: usize) {
    out.push('|');
    if text.starts_with([' ', '\n']) {
        out.push('2');
    }
    let rest = text.trim_end_matches('\n');
    match text.len() - rest.len() {
        0 => out.push('-'),
        1 if !rest.is_empty() => {}
        _ => out.push('+'),
    }
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(out, indent);
            out.push_str(line);
        }
    }
}

fn column(out: &str) -> usize {
    let line = out.rsplit_once('\n').map_or(out, |(_, line)| line);
    line.chars().count()
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

//! Turns a YAML document into JSON with the values on the same lines, so that one reader serves
//! both and its messages have the right line of either.
//!
//! Merge keys (`<<`) are resolved: a map's own keys win, then those of the first map merged. A key
//! that a map has twice is written twice: the reader of its object refuses that object alone.
//!
//! Guards: depth, size of expanded aliases, no tags that change a value, string keys only. Plain scalars are read as in YAML 1.2 (`yes` is a string), because `kubectl -o yaml`
//! quotes the rest.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault};

use rustc_hash::{FxHashSet, FxHasher};
use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use crate::json;

/// Deeper nesting is refused (no object of Kubernetes goes beyond 40).
const MAX_DEPTH: usize = 100;
/// Aliases may unfold to this many bytes per document.
const MAX_UNFOLDED_BYTES: usize = 4 << 20;
/// Nodes with anchors may have this many bytes per document; a node inside another counts for both.
const MAX_ANCHORED_BYTES: usize = 64 << 20;

/// Why a document cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct YamlFault {
    /// The line in the document, from 0.
    pub line: u32,
    /// What is wrong.
    pub what: String,
    /// How to correct it.
    pub hint: &'static str,
}

/// The documents of a YAML text, each with the number of lines before it. They start at lines
/// `---`, which keep their place, so that a document's first line is known.
pub(crate) fn documents(text: &str) -> impl Iterator<Item = (u32, &str)> {
    let mut rest = Some((0u32, text));
    std::iter::from_fn(move || {
        let (first_line, text) = rest.take()?;
        let mut at = 0;
        for (lines, line) in (0u32..).zip(text.split_inclusive('\n')) {
            let marker = line
                .strip_prefix("---")
                .is_some_and(|after| after.trim_start().len() < after.len() || after.is_empty());
            if marker && at > 0 {
                rest = Some((first_line + lines, &text[at..]));
                break;
            }
            at += line.len();
        }
        Some((first_line, &text[..at]))
    })
}

/// The JSON of a YAML document, empty for a document without content.
pub(crate) fn to_json(document: &str) -> Result<String, YamlFault> {
    let mut writer = Writer {
        out: String::with_capacity(document.len() + document.len() / 4),
        ..Writer::default()
    };
    for event in Parser::new_from_str(document) {
        match event {
            Ok((event, span)) => writer.event(event, span)?,
            Err(error) => {
                let line = error.marker().line().saturating_sub(1) as u32;
                return Err(YamlFault {
                    line,
                    what: format!("is not YAML: {}", error.info()),
                    hint: scan_hint(document, line, error.info()),
                });
            }
        }
    }
    Ok(writer.out)
}

/// The usual reason for a text that does not scan, by the line where it stopped.
fn scan_hint(document: &str, line: u32, what: &str) -> &'static str {
    if what.contains("recursion limit") {
        return "no Kubernetes object is nested that deeply";
    }
    if what.contains("unknown anchor") {
        return "define the anchor in the same document, before its first use";
    }
    let tab = |text: &str| text.trim_start_matches(' ').starts_with('\t');
    if document
        .lines()
        .skip(line.saturating_sub(1) as usize)
        .take(2)
        .any(tab)
    {
        "indent with spaces, not with tabs"
    } else {
        "check the indentation and the quotes around this line"
    }
}

/// An open list or map.
struct Open {
    map: bool,
    entries: usize,
    /// In a map: a key was written, its value is next.
    value_next: bool,
    /// Where the text of this node starts, if it has an anchor.
    anchor: Option<(usize, usize)>,
    /// Hashes of a map's keys.
    keys: FxHashSet<u64>,
    /// Where the value of a merge key starts that is being written.
    merging: Option<usize>,
    /// The maps to merge, and lists of them, as text.
    merges: Vec<String>,
}

fn hash(key: &str) -> u64 {
    BuildHasherDefault::<FxHasher>::default().hash_one(key)
}

#[derive(Default)]
struct Writer {
    out: String,
    line: u32,
    open: Vec<Open>,
    /// The text of anchored nodes, by anchor.
    anchors: HashMap<usize, String>,
    unfolded: usize,
    anchored: usize,
}

impl Writer {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), YamlFault> {
        let line = span.start.line().saturating_sub(1) as u32;
        let refuse = |what: &str, hint| {
            Err(YamlFault {
                line,
                what: what.to_owned(),
                hint,
            })
        };
        let key_next = self
            .open
            .last()
            .is_some_and(|open| open.map && !open.value_next);
        match event {
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => {}
            Event::Alias(anchor) => {
                let Some(text) = self.anchors.get(&anchor).cloned() else {
                    return refuse(
                        "an alias refers to a node that is not complete",
                        "write the value out",
                    );
                };
                self.unfolded += text.len();
                if self.unfolded > MAX_UNFOLDED_BYTES {
                    return refuse("aliases unfold to more than 4 MiB", "write the values out");
                }
                if key_next && !text.starts_with('"') {
                    return refuse(
                        "a map has a key that is not a string",
                        "put the key in quotes",
                    );
                }
                if key_next {
                    self.key(text.trim_matches('"'));
                }
                self.before(line);
                self.out.push_str(&text);
                self.after(line)?;
            }
            Event::Scalar(text, style, anchor, tag) => {
                if key_next && style == ScalarStyle::Plain && text == "<<" {
                    let start = self.out.len();
                    if let Some(open) = self.open.last_mut() {
                        (open.value_next, open.merging) = (true, Some(start));
                    }
                    return Ok(());
                }
                let string = tag
                    .as_ref()
                    .is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
                if tag.is_some() && !string {
                    return refuse("tags other than !!str are not read", "remove the tag");
                }
                if key_next {
                    self.key(&text);
                }
                self.before(line);
                let start = self.out.len();
                match style {
                    ScalarStyle::Plain if !string && !key_next => plain(&text, &mut self.out),
                    _ => quote(&text, &mut self.out),
                }
                if anchor > 0 {
                    self.remember(anchor, start, line)?;
                }
                self.after(line)?;
            }
            Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _)
                if key_next || self.open.len() >= MAX_DEPTH =>
            {
                let _ = anchor;
                return if key_next {
                    refuse(
                        "a map has a key that is not a string",
                        "put the key in quotes",
                    )
                } else {
                    refuse("is nested more than 100 deep", "no Kubernetes object is")
                };
            }
            Event::SequenceStart(anchor, _) => self.start(line, anchor, false),
            Event::MappingStart(anchor, _) => self.start(line, anchor, true),
            Event::SequenceEnd => self.end(']', line)?,
            Event::MappingEnd => self.end('}', line)?,
        }
        Ok(())
    }

    fn start(&mut self, line: u32, anchor: usize, map: bool) {
        self.before(line);
        let anchor = (anchor > 0).then_some((anchor, self.out.len()));
        self.out.push(if map { '{' } else { '[' });
        self.open.push(Open {
            map,
            entries: 0,
            value_next: false,
            anchor,
            keys: FxHashSet::default(),
            merging: None,
            merges: Vec::new(),
        });
    }

    /// Notes a key of the innermost map.
    fn key(&mut self, key: &str) {
        if let Some(open) = self.open.last_mut() {
            open.keys.insert(hash(key));
        }
    }

    /// Writes what the innermost map merges and does not have itself.
    fn merge(&mut self) {
        let Some(open) = self.open.last_mut() else {
            return;
        };
        for text in std::mem::take(&mut open.merges) {
            let bytes = text.as_bytes();
            let mut maps = Vec::new();
            match bytes.first() {
                Some(b'[') => {
                    let _ = json::walk(bytes, 0, |_, start| {
                        maps.push(start);
                        Some(json::skip_value(bytes, start))
                    });
                }
                _ => maps.push(0),
            }
            for at in maps {
                let _ = json::walk(bytes, at, |key, start| {
                    let end = json::skip_value(bytes, start);
                    // Keys are as `quote` writes them, the same for the same key.
                    let written = String::from_utf8_lossy(key);
                    if let Ok(end) = end
                        && open.keys.insert(hash(&unquoted(&written)))
                    {
                        if open.entries > 0 {
                            self.out.push(',');
                        }
                        open.entries += 1;
                        self.out.push('"');
                        self.out.push_str(&written);
                        self.out.push_str("\":");
                        self.out.push_str(&text[start..end]);
                    }
                    Some(end)
                });
            }
        }
    }

    fn end(&mut self, close: char, line: u32) -> Result<(), YamlFault> {
        self.merge();
        self.out.push(close);
        if let Some((anchor, start)) = self.open.pop().and_then(|open| open.anchor) {
            self.remember(anchor, start, line)?;
        }
        self.after(line)
    }

    /// Keeps the text from `start` on for aliases of this anchor.
    fn remember(&mut self, anchor: usize, start: usize, line: u32) -> Result<(), YamlFault> {
        let text = self.out[start..].replace('\n', "");
        self.anchored += text.len();
        if self.anchored > MAX_ANCHORED_BYTES {
            let what = "nodes with anchors have more than 64 MiB".to_owned();
            return Err(YamlFault {
                line,
                what,
                hint: "remove anchors that no alias needs",
            });
        }
        self.anchors.insert(anchor, text);
        Ok(())
    }

    /// The separator that belongs before a value or key, and as many line breaks as bring it to its
    /// line.
    fn before(&mut self, line: u32) {
        if let Some(open) = self.open.last() {
            if open.merging.is_some() {
                // Its value is taken out again.
            } else if open.value_next {
                self.out.push(':');
            } else if open.entries > 0 {
                self.out.push(',');
            }
        }
        while self.line < line {
            self.out.push('\n');
            self.line += 1;
        }
    }

    fn after(&mut self, line: u32) -> Result<(), YamlFault> {
        let Some(open) = self.open.last_mut() else {
            return Ok(());
        };
        if let Some(start) = open.merging.take() {
            let written = self.out.split_off(start);
            self.line -= json::lines_before(written.as_bytes(), written.len());
            let text = written.replace('\n', "");
            open.value_next = false;
            if !are_maps(&text) {
                return Err(YamlFault {
                    line,
                    what: "a merge key (`<<`) has a value that is no map".to_owned(),
                    hint: "merge a map (`<<: *name`) or a list of maps",
                });
            }
            open.merges.push(text);
        } else if open.map && !open.value_next {
            open.value_next = true;
        } else {
            open.value_next = false;
            open.entries += 1;
        }
        Ok(())
    }
}

/// Whether a text is a map or a list of maps.
fn are_maps(text: &str) -> bool {
    let bytes = text.as_bytes();
    match bytes.first() {
        Some(b'{') => true,
        Some(b'[') => {
            let mut all = true;
            let end = json::walk(bytes, 0, |_, start| {
                all &= bytes.get(start) == Some(&b'{');
                Some(json::skip_value(bytes, start))
            });
            all && end.is_ok()
        }
        _ => false,
    }
}

/// A key as it was before [`quote`].
fn unquoted(written: &str) -> String {
    serde_json::from_str(&format!("\"{written}\"")).unwrap_or_else(|_| written.to_owned())
}

/// A plain scalar as YAML 1.2's core schema reads it.
fn plain(text: &str, out: &mut String) {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => out.push_str("null"),
        "true" | "True" | "TRUE" => out.push_str("true"),
        "false" | "False" | "FALSE" => out.push_str("false"),
        _ if is_json_number(text) => out.push_str(text),
        _ => quote(text, out),
    }
}

/// Whether a text is a number in JSON's grammar: `-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?`.
fn is_json_number(text: &str) -> bool {
    let digits = |text: &mut &[u8]| {
        let count = text.iter().take_while(|b| b.is_ascii_digit()).count();
        *text = &text[count..];
        count
    };
    let mut rest = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let leading_zero = rest.first() == Some(&b'0');
    let whole = digits(&mut rest);
    if whole == 0 || (leading_zero && whole > 1) {
        return false;
    }
    if let Some(after) = rest.strip_prefix(b".") {
        rest = after;
        if digits(&mut rest) == 0 {
            return false;
        }
    }
    if let Some(after) = rest.strip_prefix(b"e").or_else(|| rest.strip_prefix(b"E")) {
        rest = after
            .strip_prefix(b"+")
            .or_else(|| after.strip_prefix(b"-"))
            .unwrap_or(after);
        if digits(&mut rest) == 0 {
            return false;
        }
    }
    rest.is_empty()
}

/// A JSON string.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        match to_json(text) {
            Ok(json) => json,
            Err(fault) => format!("line {}: {}; {}", fault.line, fault.what, fault.hint),
        }
    }

    #[test]
    fn values_stay_on_their_lines() {
        let json = json(
            "# a comment\na: 1\nb:\n  - x\n\n  - y: |\n      two\n      lines\n    z: {q: [1, 2]}\n",
        );
        let lines: Vec<&str> = json.split('\n').collect();
        assert_eq!(
            lines,
            [
                "",
                "{\"a\":1,",
                "\"b\":",
                "[\"x\",",
                "",
                "{\"y\":",
                "\"two\\nlines\\n\",",
                "",
                "\"z\":{\"q\":[1,2]}}]}"
            ]
        );
    }

    #[test]
    fn plain_scalars_are_typed_and_others_are_strings() {
        for (yaml, wanted) in [
            ("a: 1.5", r#"{"a":1.5}"#),
            ("a: 1e3", r#"{"a":1e3}"#),
            ("a: '1'", r#"{"a":"1"}"#),
            ("a: !!str 1", r#"{"a":"1"}"#),
            ("a: 0x10", r#"{"a":"0x10"}"#),
            ("a: 007", r#"{"a":"007"}"#),
            ("a: yes", r#"{"a":"yes"}"#),
            ("a: True", r#"{"a":true}"#),
            ("a: ~", r#"{"a":null}"#),
            ("a:", r#"{"a":null}"#),
            ("1: a", r#"{"1":"a"}"#),
            ("a: \"\\t\\0\"", r#"{"a":"\u0009\u0000"}"#),
            ("a: &x {b: 1}\nc: *x", "{\"a\":{\"b\":1},\n\"c\":{\"b\":1}}"),
            ("", ""),
            ("# nothing", ""),
            (
                "a: &x {b: 1, c: 2}\nd:\n  c: 3\n  <<: *x",
                "{\"a\":{\"b\":1,\"c\":2},\n\"d\":\n{\"c\":3,\"b\":1}}",
            ),
            (
                "a: &x {b: 1}\nc:\n  <<: [*x, {b: 2, d: 3}]\n  e: 4",
                "{\"a\":{\"b\":1},\n\"c\":\n{\n\"e\":4,\"b\":1,\"d\":3}}",
            ),
            (
                "<<: 1",
                "line 0: a merge key (`<<`) has a value that is no map; merge a map (`<<: *name`) or \
                a list of maps",
            ),
        ] {
            assert_eq!(json(yaml), wanted, "{yaml}");
        }
    }
}

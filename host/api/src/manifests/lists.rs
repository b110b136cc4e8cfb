//! Finds objects in a source: documents of YAML, values of JSON, and lists in them.

use std::ops::Range;

use super::{Reader, Source, TypeOf, yaml};
use crate::json;
use crate::manifests::diagnostic::{CUT_SHORT, Diagnostic, Fault, Location, quoted};

/// The kind of a typed list's items, which may leave it out.
fn kind_of_items(text: &[u8], at: usize) -> Option<TypeOf<'_>> {
    let kind = json::string_member(text, at, "kind")?.strip_suffix("List")?;
    (!kind.is_empty()).then(|| TypeOf {
        api_version: json::string_member(text, at, "apiVersion").unwrap_or(""),
        kind,
    })
}

/// Whether the object at `at` is a List or a typed list.
pub(super) fn is_list(text: &[u8], at: usize) -> bool {
    json::string_member(text, at, "kind").is_some_and(|kind| kind.ends_with("List"))
        && json::member(text, at, "items").is_some_and(|items| text[items.start] == b'[')
}

impl Reader {
    pub(super) fn yaml(&mut self, source: &str, text: &str) {
        let mut number = 0;
        for (first_line, document) in yaml::documents(text) {
            let content = document.trim_start_matches("---").trim_start();
            if json::looks_like_json(content.as_bytes()) {
                let from = document.len() - content.len();
                let lines_before = first_line + json::lines_before(document.as_bytes(), from);
                let text = content.as_bytes();
                let mut part = Source {
                    name: source,
                    text,
                    lines_before,
                    document: number,
                    counted: (0, 0),
                };
                self.json(&mut part);
                number = part.document;
                continue;
            }
            match yaml::to_json(document) {
                Ok(json) if matches!(json.trim(), "" | "null") => {}
                Ok(json) => {
                    let text = json.as_bytes();
                    let mut part = Source {
                        name: source,
                        text,
                        lines_before: first_line,
                        document: number,
                        counted: (0, 0),
                    };
                    self.json(&mut part);
                    number = part.document;
                }
                Err(fault) => {
                    number += 1;
                    let line = Some(first_line + fault.line + 1);
                    let place = Location {
                        source: source.to_owned(),
                        document: number,
                        item: None,
                        line,
                    };
                    self.problems.push(Diagnostic {
                        location: place,
                        what: fault.what,
                        hint: fault.hint.to_owned(),
                        ..Diagnostic::default()
                    });
                }
            }
        }
    }

    /// Reads JSON values one after the other.
    pub(super) fn json(&mut self, source: &mut Source<'_>) {
        let mut at = json::skip_space(source.text, 0);
        while at < source.text.len() {
            source.document += 1;
            at = match self.root(source, at) {
                Ok(end) => json::skip_space(source.text, end),
                Err(broken) => {
                    self.broken(source, broken);
                    match json::skip_value(source.text, at) {
                        Ok(end) if !broken.at_end => json::skip_space(source.text, end),
                        _ => return,
                    }
                }
            };
            if source.text[at..].starts_with(b"---") {
                at = json::skip_space(source.text, at + 3);
            }
        }
    }

    pub(super) fn broken(&mut self, source: &mut Source<'_>, broken: json::Broken) {
        let place = source.place(broken.at, None);
        let (what, hint) = if broken.at_end {
            (CUT_SHORT.to_owned(), "the file may have been cut short")
        } else {
            let found = String::from_utf8_lossy(
                &source.text[broken.at..source.text.len().min(broken.at + 20)],
            )
            .into_owned();
            let found = found.lines().next().unwrap_or_default();
            (
                format!("is not JSON: unexpected {}", quoted(found)),
                "check commas, colons and quotes before it",
            )
        };
        self.problems.push(Diagnostic {
            location: place,
            what,
            hint: hint.to_owned(),
            ..Diagnostic::default()
        });
    }

    /// Reads the value at `at`: an object, a list object or a bare list. Returns its end.
    pub(super) fn root(
        &mut self,
        source: &mut Source<'_>,
        at: usize,
    ) -> Result<usize, json::Broken> {
        let text = source.text;
        if text[at] == b'[' {
            let mut unnamed = Vec::new();
            let end = self.items(source, at, &mut unnamed)?;
            for (range, item) in unnamed {
                self.object(source, range, Some(item), None);
            }
            return Ok(end);
        }
        if text[at] != b'{' {
            let end = json::skip_value(text, at)?;
            let found = String::from_utf8_lossy(&text[at..end]).into_owned();
            let fault = Fault {
                field: String::new(),
                what: format!("is not an object: {}", quoted(&found)),
                hint: "a manifest starts with apiVersion and kind".to_owned(),
            };
            self.refuse(
                source,
                at..end,
                None,
                &TypeOf {
                    api_version: "",
                    kind: "",
                },
                "",
                fault,
            );
            return Ok(end);
        }
        // Items come before the list's own kind when fields are sorted; those without a kind wait
        // for it.
        let (mut is_list, mut unnamed) = (false, Vec::new());
        let end = json::walk(text, at, |key, start| {
            if key == b"items" && text.get(start) == Some(&b'[') {
                is_list = true;
                return Some(self.items(source, start, &mut unnamed));
            }
            Some(json::skip_value(text, start))
        })?;
        let end = end.unwrap_or(text.len());
        if !is_list {
            self.object(source, at..end, None, None);
            return Ok(end);
        }
        let of_items = kind_of_items(text, at);
        for (range, item) in unnamed {
            self.object(source, range, Some(item), of_items.as_ref());
        }
        Ok(end)
    }

    /// Reads the items of the list at `at`; those without a kind are put aside. Returns the list's
    /// end.
    pub(super) fn items(
        &mut self,
        source: &mut Source<'_>,
        at: usize,
        unnamed: &mut Vec<(Range<usize>, u32)>,
    ) -> Result<usize, json::Broken> {
        let text = source.text;
        let mut item = 0;
        // Lists within the list, which are read when it is done: nothing recurses.
        let mut lists = Vec::new();
        let end = json::walk(text, at, |_, start| {
            item += 1;
            let end = match json::skip_value(text, start) {
                Ok(end) => end,
                Err(broken) => return Some(Err(broken)),
            };
            match text[start] {
                b'{' if is_list(text, start) => lists.push(start),
                b'{' if json::string_member(text, start, "kind").is_none() => {
                    unnamed.push((start..end, item))
                }
                // `null` is no object, and no mistake.
                b'n' => {}
                _ => self.object(source, start..end, Some(item), None),
            }
            Some(Ok(end))
        })?;
        self.nested(source, lists)?;
        Ok(end.unwrap_or(text.len()))
    }

    /// Reads the items of lists within a list.
    fn nested(
        &mut self,
        source: &mut Source<'_>,
        mut lists: Vec<usize>,
    ) -> Result<(), json::Broken> {
        let text = source.text;
        while let Some(at) = lists.pop() {
            let Some(items) = json::member(text, at, "items") else {
                continue;
            };
            let of_items = kind_of_items(text, at);
            let mut item = 0;
            json::walk(text, items.start, |_, start| {
                item += 1;
                let end = match json::skip_value(text, start) {
                    Ok(end) => end,
                    Err(broken) => return Some(Err(broken)),
                };
                match text[start] {
                    b'{' if is_list(text, start) => lists.push(start),
                    b'n' => {}
                    _ => self.object(source, start..end, Some(item), of_items.as_ref()),
                }
                Some(Ok(end))
            })?;
        }
        Ok(())
    }
}

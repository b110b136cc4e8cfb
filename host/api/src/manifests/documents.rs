//! Finds the documents of a text, whatever is in them: YAML documents, JSON values one after the
//! other, items of a List. Each is read by its caller into a type of its own.
//!
//! For input that is small and has other kinds than [`Reader`](super::Reader) folds: node classes,
//! descriptions of a cloud, nodes to render. Unknown fields are refused here, but for those of an
//! object that a cluster has accepted (see [`Document::prune`]).

use longshore_objects::path_text;
use serde::de::DeserializeOwned;

#[cfg(feature = "crd")]
use super::diagnostic::Fault;
use super::diagnostic::{CUT_SHORT, Diagnostic, Diagnostics, Location};
use super::explain::explain;
use super::yaml;
#[cfg(feature = "crd")]
use crate::crd::admission::Admission;
use crate::json;

/// One value of a source, as JSON with the line breaks that it had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    text: String,
    location: Location,
    /// It as the API server stores it, where that was asked for.
    admitted: Option<String>,
}

/// All documents of a source, empty ones left out, and what could not be taken apart. `source`
/// names it in diagnostics.
pub fn documents(source: &str, bytes: &[u8]) -> (Vec<Document>, Diagnostics) {
    let mut finder = Finder {
        source,
        found: Vec::new(),
        problems: Diagnostics::default(),
        number: 0,
    };
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) if json::looks_like_json(text.trim_start().as_bytes()) => finder.json(text, 0),
        Ok(text) => finder.yaml(text),
        Err(error) => {
            let line = json::lines_before(bytes, error.valid_up_to());
            finder.number = 1;
            finder.problem(line, "is not UTF-8", "save it as UTF-8 text");
        }
    }
    (finder.found, finder.problems)
}

struct Finder<'a> {
    source: &'a str,
    found: Vec<Document>,
    problems: Diagnostics,
    number: u32,
}

impl Finder<'_> {
    fn yaml(&mut self, text: &str) {
        for (first_line, document) in yaml::documents(text) {
            let content = document.trim_start_matches("---").trim_start();
            if json::looks_like_json(content.as_bytes()) {
                let from = document.len() - content.len();
                let before = json::lines_before(document.as_bytes(), from);
                self.json(content, first_line + before);
                continue;
            }
            match yaml::to_json(document) {
                // A document with nothing but comments is nothing.
                Ok(text) if matches!(text.trim(), "" | "null") => {}
                Ok(text) => self.json(&text, first_line),
                Err(fault) => {
                    self.number += 1;
                    self.problem(first_line + fault.line, &fault.what, fault.hint);
                }
            }
        }
    }

    /// Takes JSON values one after the other; `before` lines of the source come before the text.
    fn json(&mut self, text: &str, before: u32) {
        let bytes = text.as_bytes();
        let mut at = json::skip_space(bytes, 0);
        while at < bytes.len() {
            self.number += 1;
            let line = before + json::lines_before(bytes, at);
            match json::skip_value(bytes, at) {
                Ok(end) => {
                    self.found.push(Document {
                        text: text[at..end].to_owned(),
                        location: Location {
                            source: self.source.to_owned(),
                            document: self.number,
                            item: None,
                            line: Some(line + 1),
                        },
                        admitted: None,
                    });
                    at = json::skip_space(bytes, end);
                }
                Err(broken) => {
                    let line = before + json::lines_before(bytes, broken.at);
                    return match broken.at_end {
                        true => self.problem(line, CUT_SHORT, "the file may have been cut short"),
                        false => self.problem(
                            line,
                            "is not JSON",
                            "check commas, colons and quotes before it",
                        ),
                    };
                }
            }
            if text[at..].starts_with("---") {
                at = json::skip_space(bytes, at + 3);
            }
        }
    }

    fn problem(&mut self, line: u32, what: &str, hint: &str) {
        self.problems.push(Diagnostic {
            location: Location {
                source: self.source.to_owned(),
                document: self.number,
                item: None,
                line: Some(line + 1),
            },
            what: what.to_owned(),
            hint: hint.to_owned(),
            ..Diagnostic::default()
        });
    }
}

impl Document {
    /// Its JSON.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where it starts.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The objects of a List (any object with a list of `items`), lists within it taken apart too,
    /// or the document itself.
    pub fn items(self) -> Vec<Document> {
        let (mut all, mut open) = (Vec::new(), vec![self]);
        while let Some(document) = open.pop() {
            let is_item = document.location.item.is_some();
            let is_list = |one: &Document| one.field("kind").is_some_and(|k| k.ends_with("List"));
            if is_item && !is_list(&document) {
                all.push(document);
                continue;
            }
            match document.split() {
                Ok(items) => open.extend(items.into_iter().rev()),
                Err(document) => all.push(document),
            }
        }
        all
    }

    /// The items of a List without nulls, or what is no List.
    #[allow(clippy::result_large_err, reason = "it is the document itself")]
    fn split(self) -> Result<Vec<Document>, Document> {
        let bytes = self.text.as_bytes();
        let items = json::member(bytes, 0, "items").filter(|range| bytes[range.start] == b'[');
        let Some(items) = items else {
            return Err(self);
        };
        let (mut all, mut item) = (Vec::new(), 0);
        // Lines are counted from one item to the next: from the start each time, a long list would
        // take the square of its length.
        let (mut counted, mut lines) = (0, 0);
        // What is not a list is found when the objects are read.
        let _ = json::walk(bytes, items.start, |_, start| {
            let end = json::skip_value(bytes, start);
            item += 1;
            if let Ok(end) = end
                && bytes[start] != b'n'
            {
                let mut location = self.location.clone();
                location.item = Some(item);
                lines += json::lines_before(&bytes[counted..], start - counted);
                counted = start;
                location.line = location.line.map(|line| line + lines);
                all.push(Document {
                    text: self.text[start..end].to_owned(),
                    location,
                    admitted: None,
                });
            }
            Some(end)
        });
        Ok(all)
    }

    /// Has the object read as the API server stores it, without nulls and unknown fields and with
    /// defaults. Returns fields that do not count.
    ///
    /// # Errors
    /// The first unknown field of an object that no cluster has accepted.
    #[cfg(feature = "crd")]
    #[allow(
        clippy::result_large_err,
        reason = "one for each document that is refused"
    )]
    pub fn prune(&mut self, admission: &Admission) -> Result<Vec<Diagnostic>, Diagnostic> {
        let Some(admitted) = super::admit::prune(admission, &self.text) else {
            return Ok(Vec::new());
        };
        let diagnostic = |fault: &Fault| self.refuse(&fault.field, &*fault.what, &*fault.hint);
        if let Some(first) = admitted.refusals.first() {
            return Err(diagnostic(first));
        }
        let notes = admitted.notes.iter().map(diagnostic).collect();
        self.admitted = Some(admitted.text.into_owned());
        Ok(notes)
    }

    /// Has the object read as if a field had this value, where it is not there.
    #[cfg(feature = "crd")]
    pub fn give(&mut self, field: &str, value: &serde_json::Value) {
        use serde_json::Value;
        let text = self.admitted.as_deref().unwrap_or(&self.text);
        let Ok(Value::Object(mut object)) = serde_json::from_str(text) else {
            return;
        };
        if !object.contains_key(field) {
            object.insert(field.to_owned(), value.clone());
            self.admitted = Some(Value::Object(object).to_string());
        }
    }

    /// Has the object read without a field.
    #[cfg(feature = "crd")]
    pub fn leave_out(&mut self, field: &str) {
        use serde_json::Value;
        let text = self.admitted.as_deref().unwrap_or(&self.text);
        if let Ok(Value::Object(mut object)) = serde_json::from_str(text)
            && object.remove(field).is_some()
        {
            self.admitted = Some(Value::Object(object).to_string());
        }
    }

    /// Fails on what the API server refuses of an object that no cluster has accepted: asked after
    /// checks that have words and hints of their own.
    #[cfg(feature = "crd")]
    #[allow(
        clippy::result_large_err,
        reason = "one for each document that is refused"
    )]
    pub fn check_admission(&self, admission: &Admission) -> Result<(), Diagnostic> {
        let is_by_hand = !super::admit::is_stored(&self.text);
        let admitted = super::admit::admit(admission, &self.text, is_by_hand);
        let refusals = admitted.map(|admitted| admitted.refusals);
        match refusals.as_ref().and_then(|all| all.first()) {
            Some(first) => Err(self.refuse(&first.field, &*first.what, &*first.hint)),
            None => Ok(()),
        }
    }

    /// Fails on a value of another type than the schema's: a list is no object.
    #[cfg(feature = "crd")]
    #[allow(
        clippy::result_large_err,
        reason = "one for each document that is refused"
    )]
    pub fn check_types(&self, admission: &Admission) -> Result<(), Diagnostic> {
        let text = self.admitted.as_deref().unwrap_or(&self.text);
        match super::admit::wrong_type(admission, text) {
            Some(fault) => Err(self.refuse(&fault.field, &*fault.what, &*fault.hint)),
            None => Ok(()),
        }
    }

    /// A text field of the object, if it is there: `kind`, `apiVersion`.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.text
            .starts_with('{')
            .then(|| json::string_member(self.text.as_bytes(), 0, name))
            .flatten()
    }

    /// Reads the document. Fails on a value of the wrong form and on a field that the type does not
    /// know. `apiVersion` and `kind` are known: types of custom resources leave them to the caller.
    #[allow(
        clippy::result_large_err,
        reason = "one for each document that is refused"
    )]
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Diagnostic> {
        let mut unknown = None;
        let text = self.admitted.as_deref().unwrap_or(&self.text);
        let mut reader = serde_json::Deserializer::from_str(text);
        let read: Result<T, _> = serde_ignored::deserialize(&mut reader, |path| {
            let path = path_text(&path);
            if !matches!(path.as_str(), "apiVersion" | "kind") {
                unknown.get_or_insert(path);
            }
        });
        match (read, unknown) {
            (Ok(value), None) => Ok(value),
            (Ok(_), Some(field)) => {
                let what = "is not a known field";
                Err(self.refuse(&field, what, "remove it, or correct its spelling"))
            }
            (Err(_), _) => {
                let (field, what, hint) = explain::<T>(text);
                Err(self.refuse(&field, what, hint))
            }
        }
    }

    /// A diagnostic of a field of the document, with the field's line.
    pub fn refuse(
        &self,
        field: &str,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) -> Diagnostic {
        let bytes = self.text.as_bytes();
        let mut location = self.location.clone();
        let at = json::locate(bytes, field);
        location.line = location
            .line
            .map(|line| line + json::lines_before(bytes, at));
        let short = |text: &str| text.chars().take(300).collect::<String>();
        Diagnostic {
            location,
            kind: short(self.field("kind").unwrap_or_default()),
            name: short(self.name()),
            field: short(field),
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// `metadata.name`, or else `name`; empty if there is none.
    pub fn name(&self) -> &str {
        let bytes = self.text.as_bytes();
        json::member(bytes, 0, "metadata")
            .and_then(|range| json::string_member(bytes, range.start, "name"))
            .or_else(|| self.field("name"))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, Debug)]
    struct Thing {
        #[allow(dead_code)]
        metadata: Option<Name>,
        #[allow(dead_code)]
        list: Option<Vec<Name>>,
    }

    #[derive(serde::Deserialize, Debug)]
    struct Name {
        #[allow(dead_code)]
        name: String,
    }

    #[test]
    fn documents_keep_their_lines_and_say_what_is_wrong_where() {
        let text = "metadata: {name: one}\n---\n# nothing\n---\nmetadata:\n  name: two\nlist:\n- \
                    name: a\n  size: 3\n---\nkind: List\nitems:\n- list: 5\n- metadata: {name: x}\n---\na: [\n";
        let (found, problems) = documents("a.yaml", text.as_bytes());
        let mut out: Vec<String> = found
            .into_iter()
            .flat_map(Document::items)
            .map(|document| match document.read::<Thing>() {
                Ok(_) => format!("{}: fine", document.name()),
                Err(problem) => problem.to_string(),
            })
            .collect();
        out.extend(problems.list.iter().map(ToString::to_string));
        expect_test::expect![[r#"
            one: fine
            a.yaml:9 (document 2): two: list[0].size: is not a known field; remove it, or correct its spelling
            a.yaml:13 (document 3, item 1): list: invalid type: integer `5`, expected a sequence; write a list: `[…]`, or entries that start with `-`
            x: fine
            a.yaml:17 (document 4): is not YAML: while parsing a node, did not find expected node content; check the indentation and the quotes around this line"#]].assert_eq(&out.join("\n"));
    }
}

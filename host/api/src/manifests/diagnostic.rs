//! A problem of an object: location, field, reason and hint.

use std::collections::BTreeMap;
use std::fmt;

/// The location of an object in the input.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Location {
    /// The name given to [`Reader::read`](super::Reader::read), usually a file's.
    pub source: String,
    /// Which document of the source, from 1.
    pub document: u32,
    /// Which item of the document's list, from 1.
    pub item: Option<u32>,
    /// The line in the source, from 1, where known.
    pub line: Option<u32>,
}

/// An object that was skipped, a field of an object that does not count, or a piece of text that is
/// no object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Diagnostic {
    /// File or document, and the object and field in it where they are known.
    pub location: Location,
    /// Its kind, empty if unreadable.
    pub kind: String,
    /// Its name, with its namespace before a slash if it has one; empty if unreadable.
    pub name: String,
    /// The field, as in `spec.containers[0].resources`; empty for the object as a whole.
    pub field: String,
    /// What is wrong with it.
    pub what: String,
    /// What can be done; empty if that is plain.
    pub hint: String,
}

/// What is said of a text that ends within an object.
pub(crate) const CUT_SHORT: &str = "is not JSON: the text ends in the middle of an object";

impl Diagnostic {
    /// Whether the text ended in the middle of an object.
    pub fn is_cut_short(&self) -> bool {
        self.what == CUT_SHORT
    }
}

impl fmt::Display for Diagnostic {
    /// `cluster.yaml:12 (document 2, item 7): Pod default/web: spec.priority: is not a number;
    /// hint`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.location.source)?;
        if let Some(line) = self.location.line {
            write!(f, ":{line}")?;
        }
        match self.location.item {
            Some(item) => write!(f, " (document {}, item {item})", self.location.document)?,
            None if self.location.document > 0 => {
                write!(f, " (document {})", self.location.document)?
            }
            None => {}
        }
        for part in [
            format!("{} {}", self.kind, self.name).trim(),
            &self.field,
            &self.what,
        ] {
            if !part.is_empty() {
                write!(f, ": {part}")?;
            }
        }
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}

/// Everything that was not taken into the world.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Diagnostics {
    /// The first [`Diagnostics::MAX_KEPT`] of them, in the order they were found.
    pub list: Vec<Diagnostic>,
    /// How many more there were.
    pub more: usize,
    /// Objects of kinds that planning has no use for, by kind: no mistake, but worth a line.
    pub ignored: BTreeMap<String, usize>,
}

impl Diagnostics {
    /// Limit of problems that are kept in full. More problems of a hostile file with millions would
    /// not help.
    pub const MAX_KEPT: usize = 1000;

    /// Adds one.
    pub fn push(&mut self, problem: Diagnostic) {
        if self.list.len() < Self::MAX_KEPT {
            self.list.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// Whether there was none. Ignored kinds are not problems.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there were.
    pub fn len(&self) -> usize {
        self.list.len() + self.more
    }
}

impl fmt::Display for Diagnostics {
    /// One a line, then how many more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.list {
            writeln!(f, "{problem}")?;
        }
        match self.more {
            0 => Ok(()),
            more => writeln!(f, "… and {more} more"),
        }
    }
}

/// A mistake in an object while it is read, before its place is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// Path of the field in the object.
    pub field: String,
    /// What is wrong with it.
    pub what: String,
    /// How to correct it; empty if that is plain.
    pub hint: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.what)?;
        if self.hint.is_empty() {
            Ok(())
        } else {
            write!(f, "; {}", self.hint)
        }
    }
}

/// A field's path while objects are taken apart: a list on the stack that becomes text only for a
/// [`Fault`].
#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    /// The object.
    Root,
    /// A field, possibly several with dots.
    Field(&'a Path<'a>, &'a str),
    /// An entry of a list.
    Index(&'a Path<'a>, usize),
    /// An entry of a map.
    Key(&'a Path<'a>, &'a str),
}

impl<'a> Path<'a> {
    /// A field below.
    pub fn field(&'a self, name: &'a str) -> Path<'a> {
        Path::Field(self, name)
    }

    /// An entry of the list here.
    pub fn index(&'a self, at: usize) -> Path<'a> {
        Path::Index(self, at)
    }

    /// An entry of the map here.
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }

    /// A fault here.
    pub fn fault(&self, what: impl Into<String>, hint: impl Into<String>) -> Fault {
        Fault {
            field: self.to_string(),
            what: what.into(),
            hint: hint.into(),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Index(parent, at) => write!(f, "{parent}[{at}]"),
            Path::Key(parent, key) => write!(f, "{parent}[{key}]"),
        }
    }
}

/// Foreign text, shortened for a message and without control characters.
pub fn quoted(text: &str) -> String {
    const MAX_CHARACTERS: usize = 60;
    let mut out = String::new();
    for c in text.chars().take(MAX_CHARACTERS) {
        if c.is_control() {
            out.extend(c.escape_debug())
        } else {
            out.push(c)
        }
    }
    if text.chars().nth(MAX_CHARACTERS).is_some() {
        out.push('…');
    }
    format!("`{out}`")
}

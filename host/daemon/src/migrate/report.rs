//! What was found, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use longshore_api::manifests::Diagnostic;
use serde::Serialize;
use serde_json::json;

use super::cluster::{Cluster, Object};
use longshore_report::count;

/// What something means for the take-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Longshore must not be started before this is put right.
    Blocks,
    /// Longshore does something else than Karpenter with it.
    Differs,
    /// Metadata is written. No node is touched.
    Writes,
    /// Worth knowing. It is the same under Karpenter, or has no consequence.
    Note,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Level::Blocks => "BLOCKS",
            Level::Differs => "DIFFERS",
            Level::Writes => "WRITES",
            Level::Note => "NOTE",
        }
    }
}

/// Something about an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What follows from it for a take-over.
    pub level: Level,
    /// Kind of the object.
    pub kind: String,
    /// Its name, with its namespace before a slash if it has one.
    pub name: String,
    /// File and line; empty for an object of the API server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// The field; empty for the object as a whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// What happens, or what is the case.
    pub what: String,
    /// Why, and what can be done; empty if that is plain.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

/// All findings about a cluster.
pub struct Report {
    findings: Vec<Finding>,
    /// How many objects of each kind were looked at.
    objects: BTreeMap<&'static str, usize>,
}

/// How many objects with the same finding are named.
const MAX_NAMED_OBJECTS: usize = 3;
/// The widest line of text.
const WIDTH: usize = 100;
/// How far texts are indented below the level.
const INDENT: usize = 9;

impl Report {
    /// Nothing yet about a cluster.
    pub fn new(cluster: &Cluster) -> Self {
        let kinds = ["EC2NodeClass", "KWOKNodeClass", "NodePool", "NodeClaim"];
        let number = |kind: &'static str| (kind, cluster.all(kind).count());
        Report {
            findings: Vec::new(),
            objects: kinds.into_iter().map(number).collect(),
        }
    }

    /// Adds a finding about an object.
    pub fn add(
        &mut self,
        level: Level,
        object: &Object,
        field: &str,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.findings.push(Finding {
            level,
            kind: object.kind().to_owned(),
            name: object.full_name(),
            place: object.place(field),
            field: field.to_owned(),
            what: what.into(),
            hint: hint.into(),
        });
    }

    /// Adds a finding about the cluster or what it runs.
    pub fn add_of(
        &mut self,
        level: Level,
        (kind, name): (&str, &str),
        field: &str,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.findings.push(Finding {
            level,
            kind: kind.to_owned(),
            name: name.to_owned(),
            place: String::new(),
            field: field.to_owned(),
            what: what.into(),
            hint: hint.into(),
        });
    }

    /// Adds what a reader of manifests says of an object.
    pub fn add_diagnostic(&mut self, level: Level, object: &Object, said: Diagnostic) {
        self.add(level, object, &said.field, said.what, said.hint);
    }

    /// The worst first; findings about one kind of object together.
    pub fn sort(&mut self) {
        self.findings.sort_by(|a, b| {
            let key = |one: &Finding| (one.level, one.kind.clone(), one.field.clone());
            key(a)
                .cmp(&key(b))
                .then_with(|| (&a.what, &a.name).cmp(&(&b.what, &b.name)))
        });
    }

    fn worst(&self) -> Level {
        let levels = self.findings.iter().map(|one| one.level);
        levels.min().unwrap_or(Level::Note)
    }

    /// 0: nothing changes. 1: metadata is written, and no node is touched. 3: something is done
    /// otherwise than by Karpenter, or Longshore must not be started yet. 2 is for failures.
    pub fn code(&self) -> u8 {
        match self.worst() {
            Level::Note => 0,
            Level::Writes => 1,
            Level::Differs | Level::Blocks => 3,
        }
    }

    /// Objects of a level, each once.
    fn number(&self, level: Level) -> usize {
        let of_level = self.findings.iter().filter(|one| one.level == level);
        let mut all: Vec<_> = of_level.map(|one| (&one.kind, &one.name)).collect();
        all.sort();
        all.dedup();
        all.len()
    }

    fn verdict(&self) -> String {
        let differs = || {
            let number = count(self.number(Level::Differs), "object");
            format!("something is other than under Karpenter for {number}.")
        };
        match self.worst() {
            Level::Note => "Nothing changes.".to_owned(),
            Level::Writes => {
                let number = count(self.number(Level::Writes), "object");
                format!(
                    "Nothing is done to a node that Karpenter would not do. Metadata of {number} is \
                     written."
                )
            }
            Level::Differs => format!("Look at these first: {}", differs()),
            Level::Blocks => format!(
                "Do not start Longshore yet. {} in the way.",
                match self.number(Level::Blocks) {
                    1 => "1 thing is".to_owned(),
                    more => format!("{more} things are"),
                }
            ),
        }
    }

    /// For people. Objects with the same finding are named together.
    pub fn text(&self) -> String {
        let parts = self.objects.iter().filter(|(_, number)| **number > 0);
        let parts: Vec<String> = parts
            .map(|(kind, number)| match (*kind, *number) {
                (kind, 1) => format!("1 {kind}"),
                (kind, n) if kind.ends_with('s') => format!("{n} {kind}es"),
                (kind, n) => format!("{n} {kind}s"),
            })
            .collect();
        let mut text = format!("Read {}.\n", parts.join(", "));
        let mut rest = &self.findings[..];
        while let Some(first) = rest.first() {
            let like = |one: &&Finding| {
                let key = |one: &Finding| (one.level, one.kind.clone(), one.field.clone());
                key(one) == key(first) && one.what == first.what && one.hint == first.hint
            };
            let alike: Vec<&Finding> = rest.iter().take_while(like).collect();
            rest = &rest[alike.len()..];
            text.push('\n');
            text += &paragraph(first.level.word(), &headline(&alike));
            text += &paragraph("", &first.what);
            if !first.hint.is_empty() {
                text += &paragraph("", &first.hint);
            }
        }
        text += &format!("\n{}\n", self.verdict());
        text
    }

    pub fn json(&self) -> String {
        let all = json!({
            "verdict": match self.worst() {
                Level::Note => "nothing",
                Level::Writes => "metadata",
                Level::Differs => "differs",
                Level::Blocks => "blocked",
            },
            "exitCode": self.code(),
            "objects": self.objects,
            "findings": self.findings,
        });
        format!("{all:#}\n")
    }

    #[cfg(test)]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }
}

/// `NodeClaim a, b, c and 7 more: field (file:12)`.
fn headline(alike: &[&Finding]) -> String {
    let Some(first) = alike.first() else {
        return String::new();
    };
    let named: Vec<&str> = alike
        .iter()
        .take(MAX_NAMED_OBJECTS)
        .map(|one| &*one.name)
        .collect();
    let mut text = format!("{} {}", first.kind, named.join(", "));
    if alike.len() > MAX_NAMED_OBJECTS {
        _ = write!(text, " and {} more", alike.len() - MAX_NAMED_OBJECTS);
    }
    if !first.field.is_empty() {
        _ = write!(text, ": {}", first.field);
    }
    if !first.place.is_empty() {
        _ = write!(text, " ({})", first.place);
    }
    text
}

/// Words in lines that are not too wide, after a word of their own on the first.
fn paragraph(first: &str, words: &str) -> String {
    let mut text = format!("{first:<INDENT$}");
    let mut at = INDENT;
    for word in words.split_whitespace() {
        let width = word.chars().count();
        if at > INDENT && at + 1 + width > WIDTH {
            text = format!("{}\n{:INDENT$}", text.trim_end(), "");
            at = INDENT;
        }
        if at > INDENT {
            text.push(' ');
            at += 1;
        }
        text += word;
        at += width;
    }
    format!("{}\n", text.trim_end())
}

//! The table of what is taken and what is refused (`rules.yaml`), read into cases.

#![allow(dead_code, reason = "each test uses a part")]

use longshore_api::crd::definition::{self, Definition};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Table {
    bases: BTreeMap<String, Value>,
    cases: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    at: Vec<String>,
    #[serde(default)]
    accepted: Vec<Value>,
    #[serde(default)]
    refused: Vec<Refused>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    before: Option<Value>,
    value: Value,
    because: String,
}

/// An object to create or to change, and what should come of it.
pub struct Case {
    /// Place and value, as the table has them.
    pub what: String,
    pub kind: String,
    /// What the case patches: the base object, patched for `before` if the case is a change.
    pub object: Value,
    /// The case is a change of `object` and not the creation of its result.
    pub is_change: bool,
    /// Goes to the subresource.
    pub is_status: bool,
    /// A merge patch of the whole object.
    pub patch: Value,
    /// Why it is refused: a keyword, or part of a rule's message.
    pub because: Option<String>,
}

impl Case {
    /// The object that is taken or refused.
    pub fn result(&self) -> Value {
        let mut object = self.object.clone();
        merge(&mut object, &self.patch);
        object
    }

    /// The object before the change, if the case is one.
    pub fn before(&self) -> Option<&Value> {
        self.is_change.then_some(&self.object)
    }
}

pub fn cases() -> Vec<Case> {
    let table: Table =
        serde_norway::from_str(include_str!("rules.yaml")).expect("the table can be read");
    let mut cases = Vec::new();
    for entry in &table.cases {
        for place in &entry.at {
            for value in &entry.accepted {
                // A change is told by its key; no resource has a field of that name.
                let (before, value) = match value.get("before") {
                    Some(before) => (Some(before), &value["value"]),
                    None => (None, value),
                };
                cases.push(case(&table.bases, place, before, value, None));
            }
            for refused in &entry.refused {
                cases.push(case(
                    &table.bases,
                    place,
                    refused.before.as_ref(),
                    &refused.value,
                    Some(&refused.because),
                ));
            }
        }
    }
    cases
}

/// The definitions that the cases are about.
pub fn definitions() -> Vec<Definition> {
    definition::all()
}

fn case(
    bases: &BTreeMap<String, Value>,
    place: &str,
    before: Option<&Value>,
    value: &Value,
    because: Option<&String>,
) -> Case {
    let (kind, path) = place.split_once(' ').unwrap_or((place, ""));
    let mut object = bases
        .get(kind)
        .unwrap_or_else(|| panic!("no base for {kind}"))
        .clone();
    if let Some(before) = before {
        merge(&mut object, &at(path, expand(before)));
    }
    Case {
        what: before.map_or_else(
            || format!("{place}: {value}"),
            |before| format!("{place}: {before} → {value}"),
        ),
        kind: kind.to_owned(),
        object,
        is_change: before.is_some(),
        is_status: path.starts_with("status"),
        patch: at(path, expand(value)),
        because: because.cloned(),
    }
}

/// A merge patch of the whole object from one of a part.
fn at(path: &str, value: Value) -> Value {
    let steps = path.split('.').filter(|step| !step.is_empty());
    steps
        .rev()
        .fold(value, |value, step| json!({ step: value }))
}

/// Writes out what the table abbreviates with `×`.
fn expand(value: &Value) -> Value {
    let times = |text: &str| {
        let (what, times) = text.rsplit_once(" × ")?;
        Some((what.to_owned(), times.parse::<usize>().ok()?))
    };
    match value {
        Value::String(text) => {
            times(text).map_or_else(|| value.clone(), |(what, times)| json!(what.repeat(times)))
        }
        Value::Array(items) => items.iter().map(expand).collect(),
        Value::Object(fields) => {
            let mut out = Map::new();
            for (key, value) in fields {
                match times(key) {
                    Some((what, times)) if what == "item" => {
                        return json!(vec![expand(value); times]);
                    }
                    Some((what, times)) => {
                        out.extend((0..times).map(|n| (format!("{what}{n}"), expand(value))))
                    }
                    None => drop(out.insert(key.clone(), expand(value))),
                }
            }
            Value::Object(out)
        }
        plain => plain.clone(),
    }
}

/// Applies a merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(target) = target.as_object_mut() else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

//! A kubelet that is asked whether it starts: its settings, by field, and what it refuses.

use longshore_api::manifests::quoted;
use longshore_userdata::duration;
use serde_json::{Map, Value};

use super::super::effective::Base;
use super::super::gates::gate;
use crate::validation::fault::Fault;

/// A second, in nanoseconds.
pub(super) const SECOND: i64 = 1_000_000_000;

/// A kubelet of one version with its settings, and what it has refused so far.
pub(super) struct Kubelet<'a> {
    /// What it runs with.
    pub(super) all: Map<String, Value>,
    /// What was asked of it.
    pub(super) asked: &'a Map<String, Value>,
    pub(super) base: Base,
    pub(super) minor: u16,
    pub(super) faults: Vec<Fault>,
}

impl Kubelet<'_> {
    pub(super) fn refuse(&mut self, field: &str, what: impl Into<String>, hint: &str) {
        self.faults.push(Fault::new(field, what, hint));
    }

    /// Refuses unless the condition holds. A field that was not asked for stands as the kubelet's
    /// own file has it; the fault is then that of `others` that was.
    pub(super) fn unless(&mut self, holds: bool, field: &str, what: impl Into<String>, hint: &str) {
        if !holds {
            self.refuse(field, what, hint);
        }
    }

    /// The first of these fields that was asked for; the first of all if none was.
    pub(super) fn blamed<'f>(&self, fields: &[&'f str]) -> &'f str {
        let asked = fields.iter().find(|field| self.asked.contains_key(**field));
        asked.or(fields.first()).copied().unwrap_or_default()
    }

    pub(super) fn number(&self, field: &str, default: i64) -> i64 {
        let value = self.all.get(field).and_then(Value::as_i64);
        value.unwrap_or(default)
    }

    pub(super) fn text(&self, field: &str) -> &str {
        let value = self.all.get(field).and_then(Value::as_str);
        value.unwrap_or_default()
    }

    pub(super) fn truth(&self, field: &str, default: bool) -> bool {
        let value = self.all.get(field).and_then(Value::as_bool);
        value.unwrap_or(default)
    }

    /// A duration in nanoseconds; those of length zero are not set.
    pub(super) fn time(&self, field: &str) -> Option<i64> {
        let time = duration::parse(self.all.get(field)?.as_str()?);
        time.filter(|time| *time != 0)
    }

    pub(super) fn map(&self, field: &str) -> impl Iterator<Item = (&str, &str)> {
        let map = self.all.get(field).and_then(Value::as_object);
        let pairs = map.into_iter().flatten();
        pairs.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    pub(super) fn has(&self, field: &str) -> bool {
        self.all.get(field).is_some_and(|value| match value {
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(map) => !map.is_empty(),
            Value::Null => false,
            _ => true,
        })
    }

    /// Whether a feature gate is on: as it is set, else as all of its stage are, else its default.
    pub(super) fn gate(&self, name: &str) -> bool {
        let set = |name: &str| self.all.get("featureGates")?.get(name)?.as_bool();
        let known = gate(name, self.minor);
        let of_stage = || set(known?.all?);
        let default = || known.is_some_and(|gate| gate.default);
        set(name).or_else(of_stage).unwrap_or_else(default)
    }

    pub(super) fn word(&mut self, field: &str, allowed: &[&str]) {
        let word = self.text(field).to_owned();
        let named: Vec<&str> = allowed
            .iter()
            .filter(|one| !one.is_empty())
            .copied()
            .collect();
        let hint = format!("write one of {}", named.join(", "));
        let right = allowed.contains(&word.as_str());
        self.unless(right, field, format!("is {}", quoted(&word)), &hint);
    }
}

/// A pair of texts of its own.
pub(super) fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

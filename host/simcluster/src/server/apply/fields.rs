//! Sets of fields in the format of `fieldsV1`: a tree of steps, `f:NAME` for a field, `k:{…}` for
//! an item by its keys, `v:VALUE` for an item of a set.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::server::definitions::ListKind;
use crate::server::types::{Position, key_of};

/// A set of fields. One that has neither itself nor anything below it is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields {
    /// The place itself is in the set.
    own: bool,
    below: BTreeMap<String, Fields>,
}

impl Fields {
    /// From `fieldsV1`.
    pub fn read(value: &Value) -> Self {
        let mut fields = Fields::read_below(value);
        fields.own = false;
        fields
    }

    fn read_below(value: &Value) -> Self {
        let steps = value.as_object().map(|steps| steps.iter());
        let below: BTreeMap<String, Fields> = steps
            .into_iter()
            .flatten()
            .filter(|(step, _)| *step != ".")
            .map(|(step, value)| (step.clone(), Fields::read_below(value)))
            .collect();
        Fields {
            own: below.is_empty() || value.get(".").is_some(),
            below,
        }
    }

    /// As `fieldsV1`.
    pub fn write(&self) -> Value {
        let mut steps: Map<String, Value> = self
            .below
            .iter()
            .map(|(step, fields)| (step.clone(), fields.write()))
            .collect();
        if self.own && !steps.is_empty() {
            steps.insert(".".to_owned(), Value::Object(Map::new()));
        }
        Value::Object(steps)
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        !self.own && self.below.is_empty()
    }

    fn insert(&mut self, step: String, fields: Fields) {
        if !fields.is_empty() {
            self.below.insert(step, fields);
        }
    }

    /// What is in it and not in another.
    pub fn without(&self, other: &Fields) -> Fields {
        let mut rest = Fields {
            own: self.own && !other.own,
            below: BTreeMap::new(),
        };
        for (step, fields) in &self.below {
            let left = other
                .below
                .get(step)
                .map_or_else(|| fields.clone(), |other| fields.without(other));
            rest.insert(step.clone(), left);
        }
        rest
    }

    /// What is in both.
    pub fn common(&self, other: &Fields) -> Fields {
        let mut both = Fields {
            own: self.own && other.own,
            below: BTreeMap::new(),
        };
        for (step, fields) in &self.below {
            if let Some(other) = other.below.get(step) {
                both.insert(step.clone(), fields.common(other));
            }
        }
        both
    }

    /// What is in either.
    pub fn with(&self, other: &Fields) -> Fields {
        let mut all = self.clone();
        all.own |= other.own;
        for (step, fields) in &other.below {
            let joined = all
                .below
                .get(step)
                .map_or_else(|| fields.clone(), |mine| mine.with(fields));
            all.insert(step.clone(), joined);
        }
        all
    }

    /// What is in it and holds.
    pub fn filtered(&self, holds: &dyn Fn(&[&str]) -> bool) -> Fields {
        self.filtered_at(&mut Vec::new(), holds)
    }

    fn filtered_at<'a>(
        &'a self,
        path: &mut Vec<&'a str>,
        holds: &dyn Fn(&[&str]) -> bool,
    ) -> Fields {
        let mut rest = Fields {
            own: self.own && holds(path),
            below: BTreeMap::new(),
        };
        for (step, fields) in &self.below {
            path.push(step);
            rest.insert(step.clone(), fields.filtered_at(path, holds));
            path.pop();
        }
        rest
    }

    /// All places in it.
    pub fn paths(&self) -> Vec<Vec<&str>> {
        let mut all = Vec::new();
        self.collect(&mut Vec::new(), &mut all);
        all
    }

    fn collect<'a>(&'a self, path: &mut Vec<&'a str>, all: &mut Vec<Vec<&'a str>>) {
        if self.own {
            all.push(path.clone());
        }
        for (step, fields) in &self.below {
            path.push(step);
            fields.collect(path, all);
            path.pop();
        }
    }
}

/// The fields that can be owned: all but the identity of the object and what the server writes.
pub fn owned(place: Position<'_>, object: &Value) -> Fields {
    let mut all = fields_of(place, object);
    for step in ["f:apiVersion", "f:kind"] {
        all.below.remove(step);
    }
    if let Some(metadata) = all.below.get_mut("f:metadata") {
        const SERVERS: [&str; 10] = [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "managedFields",
            "selfLink",
        ];
        metadata.below.retain(|step, _| {
            !SERVERS
                .iter()
                .any(|name| step.strip_prefix("f:") == Some(name))
        });
        metadata.own = false;
        if metadata.is_empty() {
            all.below.remove("f:metadata");
        }
    }
    all.own = false;
    all
}

fn fields_of(place: Position<'_>, value: &Value) -> Fields {
    let mut fields = Fields::default();
    match value {
        Value::Object(parts) if !place.is_atomic() => {
            for (name, value) in parts {
                fields.insert(format!("f:{name}"), fields_of(place.field(name), value));
            }
            fields.own = fields.below.is_empty();
        }
        Value::Array(items) => {
            let kind = place.list();
            for item in items {
                match &kind {
                    ListKind::Atomic => {}
                    ListKind::Set => fields.insert(
                        step(&kind, item),
                        Fields {
                            own: true,
                            ..Fields::default()
                        },
                    ),
                    ListKind::Map(_) => {
                        let mut below = fields_of(place.item(), item);
                        below.own = true;
                        fields.insert(step(&kind, item), below);
                    }
                }
            }
            fields.own = fields.below.is_empty();
        }
        _ => fields.own = true,
    }
    fields
}

/// The step from a list to one of its items.
fn step(kind: &ListKind, item: &Value) -> String {
    match kind {
        ListKind::Map(keys) => {
            let keys: Map<String, Value> = keys
                .iter()
                .map(|key| (key.clone(), key_of(item, key)))
                .collect();
            format!("k:{}", Value::Object(keys))
        }
        _ => format!("v:{item}"),
    }
}

/// What is at a place.
pub fn at<'a>(place: Position<'_>, value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    let Some((first, rest)) = path.split_first() else {
        return Some(value);
    };
    if let Some(name) = first.strip_prefix("f:") {
        return at(place.field(name), value.get(name)?, rest);
    }
    let kind = place.list();
    let item = value
        .as_array()?
        .iter()
        .find(|item| step(&kind, item) == *first)?;
    at(place.item(), item, rest)
}

/// Takes away what is at these places.
pub fn remove(place: Position<'_>, value: &mut Value, gone: &Fields) {
    match value {
        Value::Object(parts) => {
            for (step, fields) in &gone.below {
                let Some(name) = step.strip_prefix("f:") else {
                    continue;
                };
                let Some(part) = parts.get_mut(name) else {
                    continue;
                };
                remove(place.field(name), part, fields);
                let is_empty = match &*part {
                    Value::Object(parts) => parts.is_empty(),
                    Value::Array(items) => items.is_empty(),
                    _ => fields.own,
                };
                if is_empty || (fields.own && fields.below.is_empty()) {
                    parts.remove(name);
                }
            }
        }
        Value::Array(items) => {
            let kind = place.list();
            items.retain_mut(|item| match gone.below.get(&step(&kind, item)) {
                None => true,
                Some(fields) if fields.own => false,
                Some(fields) => {
                    remove(place.item(), item, fields);
                    true
                }
            });
        }
        _ => {}
    }
}

/// A place as messages show it: `.spec.containers[name="main"].image`.
pub fn path_text(path: &[&str]) -> String {
    let mut out = String::new();
    for step in path {
        match step.split_once(':') {
            Some(("f", name)) => {
                out.push('.');
                out.push_str(name);
            }
            Some(("k", keys)) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let keys: Vec<String> = keys
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                out.push_str(&format!("[{}]", keys.join(",")));
            }
            Some(("v", value)) => out.push_str(&format!("[={value}]")),
            _ => {}
        }
    }
    out
}

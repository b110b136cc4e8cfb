//! Server-side apply: a manager owns the fields that it applies. Fields of other managers are a
//! conflict unless forced. A field that a manager no longer applies is removed, unless another
//! manager owns it too.
//!
//! Owners are kept in `metadata.managedFields` as in a real server. Objects without an apply are
//! not tracked: the first apply finds one owner of all existing fields, `before-first-apply`.

mod fields;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use self::fields::Fields;
use super::api_error::ApiErrorWithDetails;
use super::meta::{self, text};
use super::types::{self, Position};
use crate::object::Resource;
use crate::server::definitions::ListKind;

/// Who writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manager {
    /// `fieldManager`, or the client's name.
    pub name: String,
    /// By apply, not by update.
    pub applies: bool,
    /// Such as `status`, or empty.
    pub subresource: String,
}

impl Manager {
    /// A manager that updates whole objects.
    pub fn update(name: &str) -> Self {
        Manager {
            name: name.to_owned(),
            ..Manager::default()
        }
    }
}

/// One of `managedFields`.
#[derive(Clone, Debug, PartialEq)]
struct Owner {
    manager: Manager,
    fields: Fields,
    time: Value,
}

fn owners(object: &Value) -> Vec<Owner> {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten();
    let owner = |entry: &Value| Owner {
        manager: Manager {
            name: text(entry, &["manager"]).to_owned(),
            applies: text(entry, &["operation"]) == "Apply",
            subresource: text(entry, &["subresource"]).to_owned(),
        },
        fields: Fields::read(&entry["fieldsV1"]),
        time: entry["time"].clone(),
    };
    entries.map(owner).collect()
}

fn write_owners(resource: Resource, object: &mut Value, owners: &[Owner]) {
    let entry = |owner: &Owner| {
        let operation = if owner.manager.applies {
            "Apply"
        } else {
            "Update"
        };
        let mut entry = json!({
            "manager": owner.manager.name, "operation": operation, "apiVersion": resource.api_version(),
            "time": owner.time, "fieldsType": "FieldsV1", "fieldsV1": owner.fields.write(),
        });
        if !owner.manager.subresource.is_empty() {
            entry["subresource"] = json!(owner.manager.subresource);
        }
        entry
    };
    let entries: Vec<Value> = owners
        .iter()
        .filter(|owner| !owner.fields.is_empty())
        .map(entry)
        .collect();
    let metadata = meta::metadata_mut(object);
    if entries.is_empty() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields".into(), json!(entries));
    }
}

/// Records the managers of changed fields. An apply has done so itself.
pub fn track(
    resource: Resource,
    old: Option<&Value>,
    new: &mut Value,
    manager: &Manager,
    now: Timestamp,
) {
    if manager.applies {
        return;
    }
    let Some(old) = old else { return };
    let mut all = owners(old);
    // Who sends none, or others than there are, does not change them by that.
    if all.is_empty() {
        meta::metadata_mut(new).remove("managedFields");
        return;
    }
    let place = Position::of(resource);
    let before = fields::owned(place, old);
    let after = fields::owned(place, new);
    let changed =
        after.filtered(&|path| fields::at(place, old, path) != fields::at(place, new, path));
    let gone = before.without(&after);
    for owner in &mut all {
        owner.fields = owner.fields.without(&gone);
        if owner.manager != *manager {
            owner.fields = owner.fields.without(&changed);
        }
    }
    if !changed.is_empty() {
        match all.iter_mut().find(|owner| owner.manager == *manager) {
            Some(owner) => {
                owner.fields = owner.fields.with(&changed);
                owner.time = meta::time(now);
            }
            None => all.push(Owner {
                manager: manager.clone(),
                fields: changed,
                time: meta::time(now),
            }),
        }
    }
    write_owners(resource, new, &all);
}

/// The object after an apply of some fields, owners included.
pub fn apply(
    resource: Resource,
    old: Option<&Value>,
    applied: &Value,
    manager: &Manager,
    force: bool,
    now: Timestamp,
) -> Result<Value, ApiErrorWithDetails> {
    if !applied.is_object() {
        return Err(ApiErrorWithDetails::bad(
            "error decoding YAML: what is applied is not an object",
        ));
    }
    if !meta::at(applied, &["metadata", "managedFields"])
        .is_none_or(|f| f.as_array().is_some_and(Vec::is_empty))
    {
        return Err(ApiErrorWithDetails::bad(
            "metadata.managedFields must be nil",
        ));
    }
    let version = text(applied, &["apiVersion"]);
    if version != resource.api_version() || text(applied, &["kind"]) != resource.kind {
        return Err(ApiErrorWithDetails::bad(
            "what is applied says of itself that it is another kind than the path says",
        ));
    }
    let place = Position::of(resource);
    let mut applied = applied.clone();
    meta::drop_nulls(&mut applied);
    let wanted = fields::owned(place, &applied);
    let nothing = json!({});
    let live = old.unwrap_or(&nothing);
    let mut all = owners(live);
    if all.is_empty() && old.is_some() {
        let manager = Manager::update("before-first-apply");
        all.push(Owner {
            manager,
            fields: fields::owned(place, live),
            time: meta::time(now),
        });
    }
    conflicts(
        resource, place, &mut all, &wanted, live, &applied, manager, force,
    )?;
    let mut new = live.clone();
    merge(place, &mut new, &applied);
    let mine = all.iter().position(|owner| owner.manager == *manager);
    if let Some(mine) = mine {
        let mut dropped = all[mine].fields.without(&wanted);
        for (n, owner) in all.iter().enumerate() {
            if n != mine {
                dropped = dropped.without(&owner.fields);
            }
        }
        fields::remove(place, &mut new, &dropped);
    }
    let same = mine.is_some_and(|mine| all[mine].fields == wanted);
    match mine {
        Some(_) if same => {}
        Some(mine) => {
            all[mine].fields = wanted;
            all[mine].time = meta::time(now);
        }
        None => all.push(Owner {
            manager: manager.clone(),
            fields: wanted,
            time: meta::time(now),
        }),
    }
    write_owners(resource, &mut new, &all);
    Ok(new)
}

#[allow(clippy::too_many_arguments)]
fn conflicts(
    resource: Resource,
    place: Position<'_>,
    all: &mut [Owner],
    wanted: &Fields,
    live: &Value,
    applied: &Value,
    manager: &Manager,
    force: bool,
) -> Result<(), ApiErrorWithDetails> {
    let mut found: Vec<(String, String)> = Vec::new();
    for owner in all.iter_mut().filter(|owner| owner.manager != *manager) {
        let both = wanted.common(&owner.fields);
        let taken = both.filtered(&|path| {
            let value = fields::at(place, applied, path);
            // That an item of a list is there is nothing to differ about.
            !path.last().is_some_and(|step| step.starts_with("k:"))
                && fields::at(place, live, path) != value
        });
        if taken.is_empty() {
            continue;
        }
        if force {
            owner.fields = owner.fields.without(&taken);
            continue;
        }
        let Manager {
            name,
            applies,
            subresource,
        } = &owner.manager;
        let mut manager = format!("conflict with {name:?}");
        if !subresource.is_empty() {
            manager += &format!(" with subresource {subresource:?}");
        }
        if !applies {
            manager += &format!(" using {}", resource.api_version());
        }
        found.extend(
            taken
                .paths()
                .iter()
                .map(|path| (manager.clone(), fields::path_text(path))),
        );
    }
    if found.is_empty() {
        return Ok(());
    }
    let words: Vec<String> = found
        .iter()
        .map(|(manager, field)| format!("{manager}: {field}"))
        .collect();
    let message = match &words[..] {
        [one] => format!("Apply failed with 1 conflict: {one}"),
        many => format!(
            "Apply failed with {} conflicts: {}",
            many.len(),
            many.join(", ")
        ),
    };
    let cause = |(manager, field): &(String, String)| json!({"reason": "FieldManagerConflict", "message": manager, "field": field});
    Err(ApiErrorWithDetails::plain(409, "Conflict", message)
        .because(found.iter().map(cause).collect()))
}

/// Puts what is applied over what is there.
fn merge(place: Position<'_>, live: &mut Value, applied: &Value) {
    match applied {
        Value::Object(fields) if !place.is_atomic() => {
            let live = meta::fields(live);
            for (name, value) in fields {
                merge(
                    place.field(name),
                    live.entry(name.as_str()).or_insert(Value::Null),
                    value,
                );
            }
        }
        Value::Array(items) => {
            let kind = place.list();
            if kind == ListKind::Atomic || !live.is_array() {
                *live = Value::Array(Vec::new());
            }
            let Value::Array(list) = live else { return };
            for item in items {
                match &kind {
                    ListKind::Atomic => list.push(item.clone()),
                    ListKind::Set if list.contains(item) => {}
                    ListKind::Set => list.push(item.clone()),
                    ListKind::Map(keys) => match types::find(list, keys, item) {
                        Some(at) => merge(place.item(), &mut list[at], item),
                        None => list.push(item.clone()),
                    },
                }
            }
        }
        other => *live = other.clone(),
    }
}

//! Creates and changes objects: what the server adds, keeps, counts and refuses for every kind.
//!
//! Objects are written one after another under one lock, so a write sees the last version. Rules of
//! one kind are in [`super::builtin`], or in the definition of a custom kind.

use std::sync::Arc;

use serde_json::{Value, json};

use super::api_error::{ApiErrorWithDetails, Cause};
use super::apply::{self, Manager};
use super::meta::{self, finalizers, is_leaving, text};
use super::resources::{EVENT, NAMESPACE, POD};
use super::state::ServerState;
use super::store::{self, Stored};
use super::{builtin, definitions};
use crate::object::{Key, Resource, Subresource};

/// How a write is made.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Who writes, for those objects that remember it.
    pub manager: Manager,
    /// Carried out but not kept.
    pub dry_run: bool,
    /// It need not name the version that it changes: a patch, or a write right after a read.
    pub blind: bool,
}

/// Creates an object; `namespace` is the one of the path.
pub fn create(
    state: &mut ServerState,
    resource: Resource,
    namespace: &str,
    mut object: Value,
    manner: &WriteOptions,
) -> Result<Arc<Stored>, ApiErrorWithDetails> {
    identify(resource, &mut object)?;
    settle_namespace(resource, namespace, &mut object)?;
    let namespace = text(&object, &["metadata", "namespace"]).to_owned();
    let now = state.clock.now();
    let metadata = meta::metadata_mut(&mut object);
    if metadata
        .get("resourceVersion")
        .and_then(Value::as_str)
        .is_some_and(|version| !matches!(version, "" | "0"))
    {
        return Err(ApiErrorWithDetails::plain(
            500,
            "",
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let generated = metadata
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .is_empty();
    let prefix = metadata
        .get("generateName")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if generated && !prefix.is_empty() {
        // Cut so that the whole fits into a label.
        let prefix: String = prefix.chars().take(58).collect();
        let name = loop {
            let name = format!("{prefix}{}", state.ids.suffix());
            if state
                .store
                .get(resource, &store::path(&namespace, &name))
                .is_none()
            {
                break name;
            }
        };
        metadata.insert("name".into(), json!(name));
    }
    for field in [
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        metadata.remove(field);
    }
    if !manner.manager.applies {
        metadata.remove("managedFields");
    }
    metadata.insert("uid".into(), json!(state.ids.uid()));
    metadata.insert("creationTimestamp".into(), meta::time(now));
    metadata.remove("generation");
    if resource.counts_generations() {
        metadata.insert("generation".into(), json!(1));
    }
    let name = text(&object, &["metadata", "name"]).to_owned();
    lives(state, resource, &namespace, &name)?;
    shape(state, resource, &mut object, None, Subresource::Object)?;
    let path = store::path(&namespace, &name);
    if state.store.get(resource, &path).is_some() {
        return Err(ApiErrorWithDetails::exists(resource, &name));
    }
    apply::track(resource, None, &mut object, &manner.manager, now);
    let key = Key {
        resource,
        namespace: namespace.into(),
        name: name.into(),
    };
    if resource == EVENT && !manner.dry_run {
        state.note_event(&key);
    }
    Ok(keep(state, &key, object, manner))
}

/// Replaces an object, or its status, by what it is to be.
pub fn replace(
    state: &mut ServerState,
    old: &Arc<Stored>,
    mut new: Value,
    sub: Subresource,
    manner: &WriteOptions,
) -> Result<Arc<Stored>, ApiErrorWithDetails> {
    let resource = old.key.resource;
    identify(resource, &mut new)?;
    settle_namespace(resource, &old.key.namespace, &mut new)?;
    let name = text(&new, &["metadata", "name"]);
    if name != &*old.key.name {
        let wanted = &old.key.name;
        return Err(ApiErrorWithDetails::bad(format!(
            "the name of the object ({name}) does not match the name on the URL ({wanted})"
        )));
    }
    check_version(old, &new, manner)?;
    let stamp = meta::at(&new, &["metadata", "deletionTimestamp"]);
    if let Some(stamp) = stamp
        .filter(|stamp| meta::at(&old.value, &["metadata", "deletionTimestamp"]) != Some(stamp))
    {
        let cause = Cause::invalid("metadata.deletionTimestamp", stamp, "field is immutable");
        return Err(ApiErrorWithDetails::invalid(
            resource,
            &old.key.name,
            &[cause],
        ));
    }
    restrict_to_subresource(&old.value, &mut new, resource, sub);
    if is_leaving(&old.value) {
        let before = finalizers(&old.value);
        if let Some(more) = finalizers(&new).into_iter().find(|f| !before.contains(f)) {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new \
                finalizers []string{{{more:?}}}"
            );
            let cause = Cause::forbidden("metadata.finalizers", &why);
            return Err(ApiErrorWithDetails::invalid(
                resource,
                &old.key.name,
                &[cause],
            ));
        }
    }
    shape(state, resource, &mut new, Some(&old.value), sub)?;
    let now = state.clock.now();
    count(resource, &old.value, &mut new, sub);
    apply::track(resource, Some(&old.value), &mut new, &manner.manager, now);
    if new == *old.value {
        return Ok(old.clone());
    }
    let waits = |object: &Value| {
        meta::number(object, &["metadata", "deletionGracePeriodSeconds"]) != Some(0)
    };
    if is_leaving(&new)
        && finalizers(&new).is_empty()
        && !finalizers(&old.value).is_empty()
        && !waits(&new)
    {
        // The last finalizer is gone: the object is deleted, unchanged.
        if !manner.dry_run {
            state.store.remove(&old.key, state.clock.elapsed());
        }
        return Ok(old.clone());
    }
    Ok(keep(state, &old.key, new, manner))
}

fn keep(state: &mut ServerState, key: &Key, object: Value, manner: &WriteOptions) -> Arc<Stored> {
    let at = state.clock.elapsed();
    if manner.dry_run {
        Stored::draft(key, object)
    } else {
        state.store.put(key, object, at)
    }
}

/// It says of itself what the path says.
fn identify(resource: Resource, object: &mut Value) -> Result<(), ApiErrorWithDetails> {
    let Some(fields) = object.as_object_mut() else {
        return Err(ApiErrorWithDetails::bad(
            "the object provided is unrecognized (must be of type Object)",
        ));
    };
    if fields
        .get("metadata")
        .is_some_and(|metadata| !metadata.is_object() && !metadata.is_null())
    {
        return Err(ApiErrorWithDetails::bad(
            "the object's metadata is not an object",
        ));
    }
    let version = resource.api_version();
    let said = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let (kind, given) = (said("kind"), said("apiVersion"));
    if !given.is_empty() && given != version {
        return Err(ApiErrorWithDetails::bad(format!(
            "the API version in the data ({given}) does not match the expected API version \
            ({version})"
        )));
    }
    if !kind.is_empty() && kind != resource.kind {
        let (kind, wanted) = (kind.to_owned(), resource.kind);
        return Err(ApiErrorWithDetails::bad(format!(
            "{kind} in version \"{}\" cannot be handled as a {wanted}: no kind {kind:?} is \
            registered at this place",
            resource.version
        )));
    }
    if given.is_empty() || kind.is_empty() {
        fields.insert("apiVersion".into(), json!(version));
        fields.insert("kind".into(), json!(resource.kind));
    }
    Ok(())
}

fn settle_namespace(
    resource: Resource,
    namespace: &str,
    object: &mut Value,
) -> Result<(), ApiErrorWithDetails> {
    let metadata = meta::metadata_mut(object);
    if !resource.namespaced {
        metadata.remove("namespace");
        return Ok(());
    }
    let given = metadata
        .get("namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if given.is_empty() {
        metadata.insert("namespace".into(), json!(namespace));
    } else if !namespace.is_empty() && given != namespace {
        return Err(ApiErrorWithDetails::bad(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Its namespace is there and takes new objects.
fn lives(
    state: &ServerState,
    resource: Resource,
    namespace: &str,
    name: &str,
) -> Result<(), ApiErrorWithDetails> {
    if !resource.namespaced {
        return Ok(());
    }
    let Some(home) = state.store.get(NAMESPACE, namespace) else {
        return Err(ApiErrorWithDetails::not_found(NAMESPACE, namespace));
    };
    if !is_leaving(&home.value) {
        return Ok(());
    }
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let cause = json!([{
        "reason": "NamespaceTerminating",
        "message": format!("namespace {namespace} is being terminated"),
        "field": "metadata.namespace",
    }]);
    Err(ApiErrorWithDetails::forbidden(resource, name, &why).because(cause))
}

/// Cleans, completes and checks what is to be stored.
fn shape(
    state: &mut ServerState,
    resource: Resource,
    object: &mut Value,
    old: Option<&Value>,
    sub: Subresource,
) -> Result<(), ApiErrorWithDetails> {
    meta::normalize(object);
    if resource.is_custom() {
        if old.is_none() && resource.has_status() {
            meta::fields(object).remove("status");
        }
        meta::check(resource, object)?;
        return definitions::shape(resource, object, old);
    }
    meta::drop_nulls(object);
    meta::check(resource, object)?;
    match old {
        None => builtin::admit(state, resource, object),
        Some(old) => builtin::change(resource, object, old, sub),
    }
}

fn check_version(
    old: &Stored,
    new: &Value,
    manner: &WriteOptions,
) -> Result<(), ApiErrorWithDetails> {
    let (resource, name) = (old.key.resource, &*old.key.name);
    let (before, uid) = (
        text(&old.value, &["metadata", "uid"]),
        text(new, &["metadata", "uid"]),
    );
    if !uid.is_empty() && uid != before {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {before}"
        );
        return Err(ApiErrorWithDetails::conflict(resource, name, &why));
    }
    match text(new, &["metadata", "resourceVersion"]) {
        "" | "0" if resource.may_replace_blindly() || manner.blind => Ok(()),
        "" | "0" => {
            let cause = Cause::invalid(
                "metadata.resourceVersion",
                &json!(0),
                "must be specified for an update",
            );
            Err(ApiErrorWithDetails::invalid(resource, name, &[cause]))
        }
        version if version == text(&old.value, &["metadata", "resourceVersion"]) => Ok(()),
        _ => Err(ApiErrorWithDetails::changed(resource, name)),
    }
}

/// Takes back what this kind of write cannot change. Little of it differs: what is equal is not
/// copied.
fn restrict_to_subresource(old: &Value, new: &mut Value, resource: Resource, sub: Subresource) {
    if sub == Subresource::Status && resource.is_custom() {
        restore_readonly_all(new, old, &["status", "metadata"]);
        restore_readonly_all(&mut new["metadata"], &old["metadata"], &["managedFields"]);
        return;
    }
    if resource.has_status() {
        match sub {
            Subresource::Status => {
                restore_readonly_all(new, old, &["status", "metadata"]);
                restore_readonly(
                    &mut new["metadata"],
                    "ownerReferences",
                    old["metadata"].get("ownerReferences"),
                );
            }
            Subresource::Object => restore_readonly(new, "status", old.get("status")),
        }
    }
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
        "resourceVersion",
    ] {
        restore_readonly(&mut new["metadata"], field, old["metadata"].get(field));
    }
}

fn restore_readonly(object: &mut Value, field: &str, value: Option<&Value>) {
    let fields = meta::fields(object);
    match (value, fields.get_mut(field)) {
        (Some(value), Some(new)) if new == value => {}
        (Some(value), Some(new)) => *new = value.clone(),
        (Some(value), None) => drop(fields.insert(field.to_owned(), value.clone())),
        (None, Some(_)) => drop(fields.remove(field)),
        (None, None) => {}
    }
}

/// Puts back all fields but some.
fn restore_readonly_all(object: &mut Value, old: &Value, but: &[&str]) {
    let Some(old) = old.as_object() else { return };
    let stays = |field: &str| but.contains(&field);
    meta::fields(object).retain(|field, _| stays(field) || old.contains_key(field));
    old.iter()
        .filter(|(field, _)| !stays(field))
        .for_each(|(field, value)| restore_readonly(object, field, Some(value)));
}

/// Counts a change of what is asked for.
fn count(resource: Resource, old: &Value, new: &mut Value, sub: Subresource) {
    if !resource.counts_generations() || sub == Subresource::Status {
        return;
    }
    let differs = if resource.is_custom() {
        fn said(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
            let fields = object.as_object().into_iter().flatten();
            fields.filter(|(name, _)| *name != "metadata" && *name != "status")
        }
        !said(old).eq(said(new))
    } else {
        old.get("spec") != new.get("spec")
            || (resource.plural == "endpointslices" && old["endpoints"] != new["endpoints"])
    };
    if differs {
        let before = meta::number(old, &["metadata", "generation"]).unwrap_or(0);
        new["metadata"]["generation"] = json!(before + 1);
    }
}

/// Whether the store holds a pod or anything else by this name.
pub fn current(
    state: &ServerState,
    resource: Resource,
    namespace: &str,
    name: &str,
) -> Result<Arc<Stored>, ApiErrorWithDetails> {
    let found = state
        .store
        .get(resource, &store::path(namespace, name))
        .cloned();
    found.ok_or_else(|| ApiErrorWithDetails::not_found(resource, name))
}

/// As [`current`], a pod.
pub fn pod(state: &ServerState, key: &Key) -> Result<Arc<Stored>, ApiErrorWithDetails> {
    current(state, POD, &key.namespace, &key.name)
}

//! Deletion of an object: at once, after a pod's grace period, or when the last finalizer is
//! removed.
//!
//! Dependents are not handled here. The garbage collector does that; the finalizers `orphan` and
//! `foregroundDeletion` carry the requested propagation.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::api_error::ApiErrorWithDetails;
use super::meta::{self, at, finalizers, is_leaving, number, text};
use super::resources::{NAMESPACE, POD};
use super::state::ServerState;
use super::store::Stored;

/// Propagation to the dependents of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Propagation {
    /// They go after it.
    #[default]
    Background,
    /// They go before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// How an object is deleted.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Seconds that a pod may take, instead of what it asks for itself.
    pub grace: Option<i64>,
    /// Only if it has this UID.
    pub uid: Option<String>,
    /// Only if it has this version.
    pub version: Option<String>,
    /// Propagation to its dependents.
    pub propagation: Option<Propagation>,
    /// Carried out but not kept.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// From `metav1.DeleteOptions`, as the body of a request has them.
    pub fn read(body: &Value) -> Result<Self, ApiErrorWithDetails> {
        let propagation = match text(body, &["propagationPolicy"]) {
            "" if at(body, &["orphanDependents"]) == Some(&json!(true)) => {
                Some(Propagation::Orphan)
            }
            "" => None,
            "Background" => Some(Propagation::Background),
            "Foreground" => Some(Propagation::Foreground),
            "Orphan" => Some(Propagation::Orphan),
            other => {
                return Err(ApiErrorWithDetails::plain(
                    422,
                    "Invalid",
                    format!(
                        "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: \
                        Unsupported value: {other:?}"
                    ),
                ));
            }
        };
        let owned =
            |path: &[&str]| Some(text(body, path).to_owned()).filter(|text| !text.is_empty());
        Ok(DeleteOptions {
            grace: number(body, &["gracePeriodSeconds"]),
            uid: owned(&["preconditions", "uid"]),
            version: owned(&["preconditions", "resourceVersion"]),
            propagation,
            dry_run: at(body, &["dryRun"]).is_some(),
        })
    }
}

/// What has become of an object that was to be deleted.
pub enum Deleted {
    /// It is gone; its last version.
    Gone(Arc<Stored>),
    Going(Arc<Stored>),
}

/// Deletes an object.
pub fn delete(
    state: &mut ServerState,
    old: &Arc<Stored>,
    options: &DeleteOptions,
) -> Result<Deleted, ApiErrorWithDetails> {
    preconditions(old, options)?;
    let resource = old.key.resource;
    if resource == NAMESPACE {
        return namespace(state, old, options);
    }
    let mut new = (*old.value).clone();
    let held = settle_finalizers(&mut new, options.propagation);
    let grace = if resource == POD {
        pod_grace(&old.value, options)
    } else {
        0
    };
    if grace == 0 && !held {
        return Ok(Deleted::Gone(remove(state, old, options)));
    }
    if is_leaving(&old.value) {
        if !shorten_grace(&mut new, grace, options) && new == *old.value {
            return Ok(Deleted::Going(old.clone()));
        }
    } else {
        stamp(state, &mut new, grace);
    }
    Ok(Deleted::Going(keep(state, old, new, options)))
}

fn remove(state: &mut ServerState, old: &Arc<Stored>, options: &DeleteOptions) -> Arc<Stored> {
    if options.dry_run {
        return old.clone();
    }
    let at = state.clock.elapsed();
    state
        .store
        .remove(&old.key, at)
        .unwrap_or_else(|| old.clone())
}

fn keep(
    state: &mut ServerState,
    old: &Arc<Stored>,
    new: Value,
    options: &DeleteOptions,
) -> Arc<Stored> {
    let at = state.clock.elapsed();
    if options.dry_run {
        Stored::draft(&old.key, new)
    } else {
        state.store.put(&old.key, new, at)
    }
}

fn preconditions(old: &Stored, options: &DeleteOptions) -> Result<(), ApiErrorWithDetails> {
    let (resource, name) = (old.key.resource, &*old.key.name);
    let differs = |wanted: &Option<String>, field: &str, what: &str| {
        let has = text(&old.value, &["metadata", field]);
        let wanted = wanted.as_deref().filter(|wanted| *wanted != has)?;
        let why = format!(
            "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {has}"
        );
        Some(ApiErrorWithDetails::conflict(resource, name, &why))
    };
    let refused = differs(&options.uid, "uid", "UID")
        .or_else(|| differs(&options.version, "resourceVersion", "ResourceVersion"));
    refused.map_or(Ok(()), Err)
}

/// Writes down what was wished for dependents. Whether the object has finalizers.
fn settle_finalizers(object: &mut Value, propagation: Option<Propagation>) -> bool {
    let mut all: Vec<String> = finalizers(object).into_iter().map(str::to_owned).collect();
    if let Some(wish) = propagation {
        all.retain(|f| f != "orphan" && f != "foregroundDeletion");
        match wish {
            Propagation::Background => {}
            Propagation::Foreground => all.push("foregroundDeletion".to_owned()),
            Propagation::Orphan => all.push("orphan".to_owned()),
        }
    }
    let held = !all.is_empty();
    let metadata = meta::metadata_mut(object);
    if held {
        metadata.insert("finalizers".into(), json!(all));
    } else {
        metadata.remove("finalizers");
    }
    held
}

/// Seconds that a pod may still take.
fn pod_grace(pod: &Value, options: &DeleteOptions) -> i64 {
    let ended = matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed");
    if text(pod, &["spec", "nodeName"]).is_empty() || ended {
        return 0;
    }
    let own = number(pod, &["spec", "terminationGracePeriodSeconds"]).unwrap_or(30);
    if is_leaving(pod) {
        let before = number(pod, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
        return before.min(options.grace.unwrap_or(before));
    }
    // A negative one means the least that is still graceful.
    let grace = options.grace.unwrap_or(own);
    if grace < 0 { 1 } else { grace }
}

/// Shortens the time of one that is leaving, which is all that can be done to it. Says whether that
/// changed anything.
fn shorten_grace(object: &mut Value, grace: i64, options: &DeleteOptions) -> bool {
    let before = number(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    if options.grace.is_none() || grace >= before {
        return false;
    }
    let ends =
        text(object, &["metadata", "deletionTimestamp"]).parse::<k8s_openapi::jiff::Timestamp>();
    let metadata = meta::metadata_mut(object);
    if let Ok(ends) = ends
        && let Ok(ends) = ends.checked_sub(Duration::from_secs((before - grace).unsigned_abs()))
    {
        metadata.insert("deletionTimestamp".into(), meta::time(ends));
    }
    metadata.insert("deletionGracePeriodSeconds".into(), json!(grace));
    true
}

fn stamp(state: &ServerState, object: &mut Value, grace: i64) {
    let now = state.clock.now();
    let ends = now
        .checked_add(Duration::from_secs(grace.unsigned_abs()))
        .unwrap_or(now);
    let metadata = meta::metadata_mut(object);
    metadata.insert("deletionTimestamp".into(), meta::time(ends));
    metadata.insert("deletionGracePeriodSeconds".into(), json!(grace));
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
        metadata.insert("generation".into(), json!(generation + 1));
    }
}

/// A namespace goes when a controller has emptied it and let go of `spec.finalizers`.
fn namespace(
    state: &mut ServerState,
    old: &Arc<Stored>,
    options: &DeleteOptions,
) -> Result<Deleted, ApiErrorWithDetails> {
    let name = &*old.key.name;
    if matches!(
        name,
        "default" | "kube-system" | "kube-public" | "kube-node-lease"
    ) {
        return Err(ApiErrorWithDetails::forbidden(
            NAMESPACE,
            name,
            "this namespace may not be deleted",
        ));
    }
    let mut new = (*old.value).clone();
    let held = settle_finalizers(&mut new, options.propagation);
    if is_leaving(&old.value) {
        let is_empty = at(&new, &["spec", "finalizers"])
            .and_then(Value::as_array)
            .is_none_or(Vec::is_empty);
        if is_empty && !held {
            return Ok(Deleted::Gone(remove(state, old, options)));
        }
        return Ok(Deleted::Going(old.clone()));
    }
    stamp(state, &mut new, 0);
    meta::metadata_mut(&mut new).remove("deletionGracePeriodSeconds");
    meta::part(&mut new, "status").insert("phase".into(), json!("Terminating"));
    Ok(Deleted::Going(keep(state, old, new, options)))
}

/// Replaces the finalizers of a namespace's `spec`, as `PUT …/finalize` does. The last one gone,
/// the namespace is.
pub fn finalize(state: &mut ServerState, old: &Arc<Stored>, wanted: &Value) -> Arc<Stored> {
    let mut new = (*old.value).clone();
    let left = wanted
        .pointer("/spec/finalizers")
        .cloned()
        .unwrap_or_else(|| json!([]));
    let is_last = left.as_array().is_none_or(Vec::is_empty);
    meta::part(&mut new, "spec").insert("finalizers".into(), left);
    let options = DeleteOptions::default();
    if is_leaving(&new) && is_last && finalizers(&new).is_empty() {
        return remove(state, old, &options);
    }
    if new == *old.value {
        old.clone()
    } else {
        keep(state, old, new, &options)
    }
}

//! The garbage collector: deletes objects without owners, in the background or in the foreground,
//! or orphans them. Beside it the namespace controller, which empties deleted namespaces.

use serde_json::Value;

use crate::actors::context::ActorContext;
use crate::actors::work::Work;
use crate::fields;
use crate::object::{Change, Event, Key};
use crate::server::{DeleteOptions, Propagation, Subresource, resources};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// A change: enqueues dependents of deleted objects, owners that wait for dependents, and new
/// objects with a missing owner.
pub fn on_change(ctx: &mut ActorContext, change: &Change, before: Option<&Value>) {
    let object = &change.object;
    wake_namespace(ctx, change);
    match change.event {
        Event::Deleted => {
            for key in ctx.view.dependents(fields::uid(object)) {
                ctx.soon(Work::Collect(key));
            }
            wake_owners(ctx, object);
        }
        _ => {
            let waits = fields::deleting(object)
                && (fields::holds(object, FOREGROUND) || fields::holds(object, ORPHAN));
            let owned_anew = before.is_none_or(|b| owners(b) != owners(object))
                && !missing_owners(ctx, object).is_empty();
            if waits || owned_anew {
                ctx.soon(Work::Collect(change.key.clone()));
            }
            // A dependent that no longer blocks its owner.
            if before.is_some_and(|b| owners(b) != owners(object)) {
                before.into_iter().for_each(|b| wake_owners(ctx, b));
            }
        }
    }
}

/// A terminating namespace is reconciled when an object in it is deleted or created.
fn wake_namespace(ctx: &mut ActorContext, change: &Change) {
    let name = match change.key.resource {
        resources::NAMESPACE => change.key.name.clone(),
        _ if change.event == Event::Modified || change.key.namespace.is_empty() => return,
        _ => change.key.namespace.clone(),
    };
    let key = fields::key(resources::NAMESPACE, "", &name);
    if ctx
        .view
        .get(&key)
        .is_some_and(|namespace| fields::deleting(namespace))
    {
        ctx.soon(Work::Collect(key));
    }
}

/// Deletes everything in a namespace; lets go of it once it is empty.
fn empty(ctx: &mut ActorContext, key: &Key) {
    let namespaced = resources::ALL.iter().filter(|r| r.namespaced);
    let all: Vec<(Key, bool)> = namespaced
        .flat_map(|r| ctx.view.within(*r, &key.name))
        .map(|(key, object)| (key, fields::deleting(object)))
        .collect();
    all.iter()
        .filter(|(_, deleting)| !deleting)
        .for_each(|(key, _)| ctx.delete(key));
    if all.is_empty()
        && let Err(refusal) = ctx.server.finalize_namespace(&key.name)
        && refusal.code != 404
    {
        ctx.log.say(
            ctx.clock,
            format!("namespace {} stays: {}", key.name, refusal.message),
        );
    }
}

fn owners(object: &Value) -> &[Value] {
    fields::items(object, "/metadata/ownerReferences")
}

fn wake_owners(ctx: &mut ActorContext, object: &Value) {
    for owner in fields::items(object, "/metadata/ownerReferences") {
        if let Some(key) = ctx.view.by_uid(fields::text(owner, "/uid")).cloned()
            && ctx.view.get(&key).is_some_and(|o| fields::deleting(o))
        {
            ctx.soon(Work::Collect(key));
        }
    }
}

/// UIDs of owners that are not there.
fn missing_owners(ctx: &ActorContext, object: &Value) -> Vec<String> {
    let uids = fields::items(object, "/metadata/ownerReferences")
        .iter()
        .map(|o| fields::text(o, "/uid"));
    uids.filter(|uid| ctx.view.by_uid(uid).is_none())
        .map(str::to_owned)
        .collect()
}

/// Looks at one object.
pub fn collect(ctx: &mut ActorContext, key: &Key) {
    let Some(object) = ctx.view.get(key).cloned() else {
        return;
    };
    if fields::deleting(&object) {
        if key.resource == resources::NAMESPACE {
            empty(ctx, key);
        } else if fields::holds(&object, ORPHAN) {
            orphan_dependents(ctx, key, fields::uid(&object));
        } else if fields::holds(&object, FOREGROUND) {
            delete_dependents(ctx, key, fields::uid(&object));
        }
        return;
    }
    let owners = fields::items(&object, "/metadata/ownerReferences");
    let missing = missing_owners(ctx, &object);
    if missing.is_empty() {
        return;
    }
    if missing.len() == owners.len() {
        ctx.delete(key);
    } else {
        disown(ctx, key, &missing);
    }
}

/// Takes owners off an object.
fn disown(ctx: &mut ActorContext, key: &Key, uids: &[String]) {
    ctx.update(key, Subresource::Object, |object| {
        let owners = object
            .pointer_mut("/metadata/ownerReferences")
            .and_then(Value::as_array_mut);
        owners
            .into_iter()
            .for_each(|all| all.retain(|o| !uids.iter().any(|uid| o["uid"] == uid.as_str())));
    });
}

fn orphan_dependents(ctx: &mut ActorContext, key: &Key, uid: &str) {
    for dependent in ctx.view.dependents(uid) {
        disown(ctx, &dependent, &[uid.to_owned()]);
    }
    ctx.update(key, Subresource::Object, |o| fields::release(o, ORPHAN));
}

/// Deletes dependents; once none is left that blocks the owner, the owner goes.
fn delete_dependents(ctx: &mut ActorContext, key: &Key, uid: &str) {
    let mut blocked = false;
    for dependent in ctx.view.dependents(uid) {
        let Some(object) = ctx.view.get(&dependent).cloned() else {
            continue;
        };
        let owners = fields::items(&object, "/metadata/ownerReferences");
        let blocks = |o: &&Value| o["uid"] == uid && o["blockOwnerDeletion"] == true;
        blocked |= owners.iter().any(|o| blocks(&o));
        if fields::deleting(&object) {
            continue;
        }
        let lives = |o: &&Value| {
            let owner = ctx
                .view
                .by_uid(fields::text(o, "/uid"))
                .and_then(|key| ctx.view.get(key));
            o["uid"] != uid && owner.is_some_and(|o| !fields::deleting(o))
        };
        if owners.iter().any(|o| lives(&o)) {
            disown(ctx, &dependent, &[uid.to_owned()]);
            continue;
        }
        let more = !ctx.view.dependents(fields::uid(&object)).is_empty();
        let propagation = if more {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        ctx.delete_with(
            &dependent,
            DeleteOptions {
                propagation: Some(propagation),
                ..DeleteOptions::default()
            },
        );
    }
    if !blocked {
        ctx.update(key, Subresource::Object, |o| fields::release(o, FOREGROUND));
    }
}

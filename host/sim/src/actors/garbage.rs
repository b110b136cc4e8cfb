//! The garbage collector: what no owner is left of goes, in the background, in the foreground, or is orphaned. Beside
//! it the namespace controller, which empties namespaces that are deleted.

use serde_json::Value;

use super::{Desk, Work, fields};
use crate::object::{Change, Event, Key};
use crate::server::{DeleteOptions, Propagation, Sub, resources};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// A change: dependents of what has gone are looked at, owners that wait for their dependents, and what is new and
/// names an owner that is not there.
pub fn saw(desk: &mut Desk, change: &Change, before: Option<&Value>) {
    let object = &change.object;
    wake_namespace(desk, change);
    match change.event {
        Event::Deleted => {
            for key in desk.view.dependents(fields::uid(object)) {
                desk.soon(Work::Collect(key));
            }
            wake_owners(desk, object);
        }
        _ => {
            let waits =
                fields::deleting(object) && (fields::holds(object, FOREGROUND) || fields::holds(object, ORPHAN));
            let owned_anew =
                before.is_none_or(|b| owners(b) != owners(object)) && !missing_owners(desk, object).is_empty();
            if waits || owned_anew {
                desk.soon(Work::Collect(change.key.clone()));
            }
            // A dependent that no longer blocks its owner.
            if before.is_some_and(|b| owners(b) != owners(object)) {
                before.into_iter().for_each(|b| wake_owners(desk, b));
            }
        }
    }
}

/// A namespace that is going is looked at when something in it has gone, or has come too late.
fn wake_namespace(desk: &mut Desk, change: &Change) {
    let name = match change.key.resource {
        resources::NAMESPACE => change.key.name.clone(),
        _ if change.event == Event::Modified || change.key.namespace.is_empty() => return,
        _ => change.key.namespace.clone(),
    };
    let key = fields::key(resources::NAMESPACE, "", &name);
    if desk.view.get(&key).is_some_and(|namespace| fields::deleting(namespace)) {
        desk.soon(Work::Collect(key));
    }
}

/// Deletes everything in a namespace; lets go of it once it is empty.
fn empty(desk: &mut Desk, key: &Key) {
    let namespaced = resources::ALL.iter().filter(|r| r.namespaced);
    let all: Vec<(Key, bool)> = namespaced
        .flat_map(|r| desk.view.within(*r, &key.name))
        .map(|(key, object)| (key, fields::deleting(object)))
        .collect();
    all.iter().filter(|(_, deleting)| !deleting).for_each(|(key, _)| desk.delete(key));
    if all.is_empty()
        && let Err(refusal) = desk.server.finalize_namespace(&key.name)
        && refusal.code != 404
    {
        desk.log.say(desk.clock, format!("namespace {} stays: {}", key.name, refusal.message));
    }
}

fn owners(object: &Value) -> &[Value] {
    fields::items(object, "/metadata/ownerReferences")
}

fn wake_owners(desk: &mut Desk, object: &Value) {
    for owner in fields::items(object, "/metadata/ownerReferences") {
        if let Some(key) = desk.view.by_uid(fields::text(owner, "/uid")).cloned()
            && desk.view.get(&key).is_some_and(|o| fields::deleting(o))
        {
            desk.soon(Work::Collect(key));
        }
    }
}

/// UIDs of owners that are not there.
fn missing_owners(desk: &Desk, object: &Value) -> Vec<String> {
    let uids = fields::items(object, "/metadata/ownerReferences").iter().map(|o| fields::text(o, "/uid"));
    uids.filter(|uid| desk.view.by_uid(uid).is_none()).map(str::to_owned).collect()
}

/// Looks at one object.
pub fn collect(desk: &mut Desk, key: &Key) {
    let Some(object) = desk.view.get(key).cloned() else { return };
    if fields::deleting(&object) {
        if key.resource == resources::NAMESPACE {
            empty(desk, key);
        } else if fields::holds(&object, ORPHAN) {
            orphan_dependents(desk, key, fields::uid(&object));
        } else if fields::holds(&object, FOREGROUND) {
            delete_dependents(desk, key, fields::uid(&object));
        }
        return;
    }
    let owners = fields::items(&object, "/metadata/ownerReferences");
    let missing = missing_owners(desk, &object);
    if missing.is_empty() {
        return;
    }
    if missing.len() == owners.len() {
        desk.delete(key);
    } else {
        disown(desk, key, &missing);
    }
}

/// Takes owners off an object.
fn disown(desk: &mut Desk, key: &Key, uids: &[String]) {
    desk.update(key, Sub::Object, |object| {
        let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
        owners.into_iter().for_each(|all| all.retain(|o| !uids.iter().any(|uid| o["uid"] == uid.as_str())));
    });
}

fn orphan_dependents(desk: &mut Desk, key: &Key, uid: &str) {
    for dependent in desk.view.dependents(uid) {
        disown(desk, &dependent, &[uid.to_owned()]);
    }
    desk.update(key, Sub::Object, |o| fields::release(o, ORPHAN));
}

/// Deletes dependents; once none is left that blocks the owner, the owner goes.
fn delete_dependents(desk: &mut Desk, key: &Key, uid: &str) {
    let mut blocked = false;
    for dependent in desk.view.dependents(uid) {
        let Some(object) = desk.view.get(&dependent).cloned() else { continue };
        let owners = fields::items(&object, "/metadata/ownerReferences");
        let blocks = |o: &&Value| o["uid"] == uid && o["blockOwnerDeletion"] == true;
        blocked |= owners.iter().any(|o| blocks(&o));
        if fields::deleting(&object) {
            continue;
        }
        let lives = |o: &&Value| {
            let owner = desk.view.by_uid(fields::text(o, "/uid")).and_then(|key| desk.view.get(key));
            o["uid"] != uid && owner.is_some_and(|o| !fields::deleting(o))
        };
        if owners.iter().any(|o| lives(&o)) {
            disown(desk, &dependent, &[uid.to_owned()]);
            continue;
        }
        let more = !desk.view.dependents(fields::uid(&object)).is_empty();
        let propagation = if more { Propagation::Foreground } else { Propagation::Background };
        desk.delete_with(&dependent, DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() });
    }
    if !blocked {
        desk.update(key, Sub::Object, |o| fields::release(o, FOREGROUND));
    }
}

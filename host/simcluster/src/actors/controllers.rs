//! The controllers of workloads, budgets and volumes, and the garbage collector: which of them a
//! change wakes, and which of them an object has.

mod budget;
pub(super) mod daemons;
mod deployment;
pub(super) mod free_volumes;
pub(super) mod garbage;
mod job;
mod replicas;
mod stateful;
pub(super) mod template;
pub(super) mod volumes;

use serde_json::Value;

use super::context::ActorContext;
use crate::fields;
use crate::object::{Change, Event, Key, Resource};
use crate::server::resources;

/// The actors that a change concerns: the object's controller, its owner's, and for pods and nodes
/// those that count them.
pub(super) fn wake(ctx: &mut ActorContext, change: &Change, before: Option<&Value>) {
    let object = &change.object;
    if has_controller(change.key.resource) {
        ctx.reconcile(change.key.clone());
    }
    fn state(pod: &Value) -> (bool, bool, &str) {
        (
            fields::ready(pod),
            fields::deleting(pod),
            fields::text(pod, "/status/phase"),
        )
    }
    let unmoved = change.key.resource == resources::POD
        && change.event == Event::Modified
        && before.map(state) == Some(state(object));
    if !unmoved
        && let Some(owner) = fields::controller(object)
        && let Some(key) = ctx.view.by_uid(fields::text(owner, "/uid"))
        && has_controller(key.resource)
    {
        ctx.reconcile(key.clone());
    }
    if change.key.resource == resources::POD {
        deployment::wake(ctx, change);
        budget::wake(ctx, change, before);
        volumes::wake(ctx, change, before);
    }
    if change.key.resource == resources::PERSISTENT_VOLUME {
        volumes::wake_claims(ctx, change);
    }
    if change.key.resource == resources::NODE {
        daemons::wake(ctx, change, before);
    }
}

fn has_controller(resource: Resource) -> bool {
    [
        resources::DEPLOYMENT,
        resources::REPLICA_SET,
        resources::STATEFUL_SET,
        resources::DAEMON_SET,
        resources::JOB,
        resources::POD_DISRUPTION_BUDGET,
        resources::PERSISTENT_VOLUME_CLAIM,
    ]
    .contains(&resource)
}

/// An object's controller looks at it.
pub(super) fn reconcile(ctx: &mut ActorContext, key: &Key) {
    let Some(object) = ctx.view.get(key).cloned() else {
        return;
    };
    match key.resource {
        resources::DEPLOYMENT => deployment::reconcile(ctx, key, &object),
        resources::REPLICA_SET => replicas::reconcile(ctx, key, &object),
        resources::STATEFUL_SET => stateful::reconcile(ctx, key, &object),
        resources::JOB => job::reconcile(ctx, key, &object),
        resources::POD_DISRUPTION_BUDGET => budget::reconcile(ctx, key, &object),
        resources::PERSISTENT_VOLUME_CLAIM => volumes::reconcile(ctx, key, &object),
        _ => {}
    }
}

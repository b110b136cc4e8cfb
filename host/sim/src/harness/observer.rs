//! What must hold of what comes of the daemon's doings, looked at change by change.

use std::sync::Arc;
use std::time::Duration;

use super::desk::Desk;
use super::judges;
use crate::actors::fields;
use crate::object::{Change, Event};
use crate::server::resources;

/// Reads every change, for ever.
pub(super) async fn observe(desk: Arc<Desk>) {
    let mut seen = 0;
    let mut minute = tokio::time::interval(Duration::from_secs(60));
    loop {
        for change in desk.server.changes(seen) {
            seen = change.revision;
            saw(&desk, &change);
        }
        judges::catch_up(&desk, None);
        tokio::select! {
            biased;
            () = desk.server.changed(seen) => {}
            _ = minute.tick() => judges::minute(&desk),
        }
    }
}

fn saw(desk: &Desk, change: &Change) {
    let object = &change.object;
    if change.event != Event::Deleted {
        return;
    }
    match change.key.resource {
        resources::NODE_CLAIM => {
            // A backup may have brought it back under another UID. An instance of which it did not know is garbage then,
            // and what is not collected by the end is a leak.
            let restored = |other: &std::sync::Arc<serde_json::Value>| fields::name(other) == fields::name(object);
            if desk.server.list(resources::NODE_CLAIM).iter().any(restored) {
                return;
            }
            if let Some(node) = desk.cloud.runs_for(fields::uid(object)) {
                desk.violated(format!("claim {} is gone and {node} runs", fields::name(object)));
            }
        }
        resources::NODE if fields::label(object, "karpenter.sh/registered").is_some() => {
            let id = fields::text(object, "/spec/providerID");
            if desk.cloud.runs(id) {
                desk.violated(format!("{} is gone and its instance runs", fields::name(object)));
            }
        }
        _ => {}
    }
}

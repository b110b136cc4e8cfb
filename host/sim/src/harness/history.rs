//! Rules on the results of the daemon's actions, checked at every change.

use std::sync::Arc;
use std::time::Duration;

use super::interceptor::Interceptor;
use super::judges::Judges;
use longshore_simcluster::fields;
use longshore_simcluster::object::{Change, Event};
use longshore_simcluster::server::resources;

/// Reads every change, for ever.
pub(super) async fn observe(judges: Arc<Judges>) {
    let interceptor = &judges.interceptor;
    let mut seen = 0;
    let mut minute = tokio::time::interval(Duration::from_secs(60));
    loop {
        for change in interceptor.server.changes(seen) {
            seen = change.revision;
            on_change(interceptor, &change);
        }
        judges.catch_up(None);
        tokio::select! {
            biased;
            () = interceptor.server.changed(seen) => {}
            _ = minute.tick() => judges.minute(),
        }
    }
}

fn on_change(interceptor: &Interceptor, change: &Change) {
    let object = &change.object;
    if change.event != Event::Deleted {
        return;
    }
    match change.key.resource {
        resources::NODE_CLAIM => {
            // A backup may have brought it back under another UID. An instance of which it did not
            // know is garbage then, and what is not collected by the end is a leak.
            let restored = |other: &std::sync::Arc<serde_json::Value>| {
                fields::name(other) == fields::name(object)
            };
            if interceptor
                .server
                .list(resources::NODE_CLAIM)
                .iter()
                .any(restored)
            {
                return;
            }
            if let Some(node) = interceptor.cloud.runs_for(fields::uid(object)) {
                interceptor.violated(format!(
                    "claim {} is gone and {node} runs",
                    fields::name(object)
                ));
            }
        }
        resources::NODE if fields::label(object, "karpenter.sh/registered").is_some() => {
            let id = fields::text(object, "/spec/providerID");
            if interceptor.cloud.runs(id) {
                interceptor.violated(format!(
                    "{} is gone and its instance runs",
                    fields::name(object)
                ));
            }
        }
        _ => {}
    }
}

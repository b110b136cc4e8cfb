//! Counts pods at every change: running, pending and for how long, evicted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use longshore_simcluster::clock::Clock;
use longshore_simcluster::fields;
use longshore_simcluster::object::{Change, Event};
use longshore_simcluster::server::{Server, resources};

/// What is known of one.
#[derive(Clone, Copy, Default)]
struct Pod {
    born: Duration,
    /// It has a node.
    bound: bool,
    ready: bool,
    /// It is going, or has ended by itself.
    over: bool,
}

/// All pods but those of DaemonSets, which come and go with their nodes.
#[derive(Default)]
pub struct Pods {
    known: HashMap<String, Pod>,
    /// Without a node.
    pub pending: usize,
    /// Ready.
    pub running: usize,
    most_pending: usize,
    /// How long pods waited for a node, seconds, of all that got one.
    pub waits: Vec<f32>,
    /// Had to leave because their node was drained.
    pub evicted: u64,
    /// Lost with their machine.
    pub lost: u64,
}

impl Pods {
    /// Most that waited at once since this was asked last.
    pub fn take_most_pending(&mut self) -> usize {
        std::mem::replace(&mut self.most_pending, self.pending).max(self.pending)
    }

    /// How long those wait already that have no node, seconds.
    pub fn waiting(&self, now: Duration) -> impl Iterator<Item = f32> {
        let waits = self.known.values().filter(|pod| !pod.bound && !pod.over);
        waits.map(move |pod| now.saturating_sub(pod.born).as_secs_f32())
    }

    fn on_change(&mut self, server: &Server, now: Duration, change: &Change) {
        let pod = &*change.object;
        if fields::controller(pod).is_some_and(|owner| owner["kind"] == "DaemonSet") {
            return;
        }
        let uid = fields::uid(pod);
        let before = self.known.get(uid).copied();
        let was = before.unwrap_or(Pod {
            born: now,
            ..Pod::default()
        });
        let node = fields::text(pod, "/spec/nodeName");
        let gone = change.event == Event::Deleted;
        let is = Pod {
            born: was.born,
            bound: !node.is_empty(),
            ready: fields::ready(pod) && !fields::deleting(pod),
            over: gone || fields::deleting(pod) || fields::ended(pod),
        };
        if is.bound && !was.bound {
            self.waits.push(now.saturating_sub(was.born).as_secs_f32());
        }
        if is.over && !was.over && is.bound && before.is_some() && leaves(pod, gone) {
            match why(server, node) {
                Why::Drained => self.evicted += 1,
                Why::Lost => self.lost += 1,
                Why::Wanted => {}
            }
        }
        let waits = |pod: &Pod| !pod.bound && !pod.over;
        let runs = |pod: &Pod| pod.ready && !pod.over;
        if before.is_some() {
            self.pending -= usize::from(waits(&was));
            self.running -= usize::from(runs(&was));
        }
        self.pending += usize::from(waits(&is));
        self.running += usize::from(runs(&is));
        self.most_pending = self.most_pending.max(self.pending);
        if gone {
            self.known.remove(uid);
        } else if let Some(known) = self.known.get_mut(uid) {
            *known = is;
        } else {
            self.known.insert(uid.to_owned(), is);
        }
    }
}

/// Whether it goes, and has not ended by itself. A machine that is lost takes pods with it, which
/// the pod-GC fails before it deletes them.
fn leaves(pod: &Value, gone: bool) -> bool {
    gone || fields::deleting(pod) || fields::text(pod, "/status/phase") == "Failed"
}

enum Why {
    Drained,
    Lost,
    /// Its workload was scaled down or deleted.
    Wanted,
}

fn why(server: &Server, node: &str) -> Why {
    match server.get(&fields::key(resources::NODE, "", node)) {
        None => Why::Lost,
        Some(node) if fields::condition(&node, "Ready") != "True" => Why::Lost,
        Some(node) if fields::deleting(&node) => Why::Drained,
        Some(_) => Why::Wanted,
    }
}

/// Counts, for ever.
pub async fn count(server: Server, clock: Clock, pods: Arc<Mutex<Pods>>) {
    let mut seen = 0;
    loop {
        let changes = server.changes(seen);
        if let Some(last) = changes.last() {
            seen = last.revision;
            let now = clock.elapsed();
            let mut pods = pods.lock().unwrap_or_else(PoisonError::into_inner);
            changes
                .iter()
                .filter(|change| change.key.resource == resources::POD)
                .for_each(|change| {
                    pods.on_change(&server, now, change);
                });
        }
        server.changed(seen).await;
    }
}

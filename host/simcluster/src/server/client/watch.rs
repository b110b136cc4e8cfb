//! A watch: reads the log as fast as the client reads the watch, and keeps only its position in the
//! log.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::object::{Event, Resource};
use crate::server::api_error::ApiErrorWithDetails;
use crate::server::select::Selector;
use crate::server::state::Server;
use crate::server::store::{Logged, Stored, Subscription};

/// Time between two bookmarks of a watch.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// Time from the last bookmark to the end of a watch.
const LAST_BOOKMARK_LEAD: Duration = Duration::from_secs(2);
/// A piece of a watch has about as many bytes at most.
const PIECE_BYTES: usize = 1 << 20;

/// What is watched.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub resource: Resource,
    /// Of one namespace, or empty.
    pub namespace: String,
    pub selector: Selector,
    /// Metadata alone.
    pub partial: bool,
}

impl Wanted {
    /// Whether an object is among them.
    pub fn takes(&self, stored: &Stored) -> bool {
        (self.namespace.is_empty() || *stored.key.namespace == *self.namespace)
            && self.selector.takes(&stored.value)
    }

    fn write(&self, out: &mut Vec<u8>, event: &str, stored: &Stored) {
        let text: &[u8] = if self.partial {
            stored.partial().as_bytes()
        } else {
            stored.text()
        };
        out.reserve(text.len() + 40);
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(event.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        out.extend_from_slice(text);
        out.extend_from_slice(b"}\n");
    }

    /// Encodes a change for a watch with these selectors.
    fn tell(&self, out: &mut Vec<u8>, logged: &Logged) {
        let was = logged
            .before
            .as_ref()
            .is_some_and(|before| self.takes(before));
        let is = logged.event != Event::Deleted && self.takes(&logged.now);
        match (was, is) {
            (false, false) => {}
            (false, true) => self.write(out, "ADDED", &logged.now),
            (true, true) => self.write(out, "MODIFIED", &logged.now),
            (true, false) if logged.event == Event::Deleted => {
                self.write(out, "DELETED", &logged.now)
            }
            (true, false) => {
                // It is sent as it was when last selected, with the current version.
                let Some(before) = &logged.before else { return };
                let mut last = (*before.value).clone();
                last["metadata"]["resourceVersion"] = json!(logged.revision.to_string());
                self.write(out, "DELETED", &Stored::draft(&before.key, last));
            }
        }
    }

    fn bookmark(&self, revision: u64, ends_beginning: bool) -> Bytes {
        let marks = if ends_beginning {
            r#""annotations":{"k8s.io/initial-events-end":"true"},"#
        } else {
            ""
        };
        let (kind, version) = match self.partial {
            true => ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned()),
            false => (self.resource.kind, self.resource.api_version()),
        };
        let metadata =
            format!(r#"{{{marks}"creationTimestamp":null,"resourceVersion":"{revision}"}}"#);
        let object =
            format!(r#"{{"apiVersion":"{version}","kind":"{kind}","metadata":{metadata}}}"#);
        format!("{{\"object\":{object},\"type\":\"BOOKMARK\"}}\n").into()
    }
}

/// How a watch begins and ends.
pub struct WatchOptions {
    /// Changes after this revision are sent.
    pub after: u64,
    /// Objects that are sent first, as if they were new.
    pub first: Vec<Arc<Stored>>,
    /// A bookmark ends them.
    pub marks_beginning: bool,
    /// Bookmarks are sent now and then.
    pub bookmarks: bool,
    /// It ends by itself after this time.
    pub lasts: Duration,
}

struct Watch {
    server: Server,
    client: String,
    wanted: Wanted,
    after: u64,
    changed: Subscription,
    epoch: u64,
    ends: Instant,
    bookmark: Option<Instant>,
    /// It has not read anything yet.
    fresh: bool,
    over: bool,
}

/// What there is to do next.
enum Next {
    Send(Vec<u8>),
    Wait(Instant),
    End,
}

/// The lines of a watch.
pub fn lines(
    server: &Server,
    client: &str,
    wanted: Wanted,
    course: WatchOptions,
) -> impl Stream<Item = Bytes> + Send + use<> {
    let now = Instant::now();
    let mut first = Vec::new();
    for stored in &course.first {
        wanted.write(&mut first, "ADDED", stored);
    }
    if course.marks_beginning {
        first.extend_from_slice(&wanted.bookmark(course.after, true));
    }
    let (changed, epoch) = {
        let state = server.lock();
        (state.store.kind_changed(wanted.resource), state.epoch)
    };
    let watch = Watch {
        server: server.clone(),
        client: client.to_owned(),
        wanted,
        after: course.after,
        changed,
        epoch,
        ends: now + course.lasts,
        bookmark: course
            .bookmarks
            .then(|| next_bookmark(now, now + course.lasts)),
        fresh: true,
        over: false,
    };
    let first = (!first.is_empty()).then(|| Bytes::from(first));
    futures::stream::unfold((watch, first), |(mut watch, first)| async move {
        let bytes = match first {
            Some(first) => first,
            None => watch.next().await?,
        };
        Some((bytes, (watch, None)))
    })
}

/// About every minute, and once more before a watch ends, so that the next one begins where this
/// one was.
fn next_bookmark(now: Instant, ends: Instant) -> Instant {
    let last = ends - LAST_BOOKMARK_LEAD;
    if now < last {
        last.min(now + BOOKMARK_INTERVAL)
    } else {
        now + BOOKMARK_INTERVAL
    }
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.look() {
                Next::End => return None,
                Next::Send(bytes) => return Some(bytes.into()),
                Next::Wait(until) => {
                    tokio::select! {
                        biased;
                        () = self.changed.changed() => {}
                        () = sleep_until(until) => {}
                    }
                }
            }
        }
    }

    fn look(&mut self) -> Next {
        let now = Instant::now();
        let state = self.server.lock();
        if let Some(until) = state.quiet.stopped(&self.client, now) {
            return Next::Wait(until);
        }
        if self.over || self.epoch != state.epoch || now >= self.ends {
            return Next::End;
        }
        self.changed.forget();
        if let Some(until) = state.quiet.silent(&self.client, self.wanted.resource, now) {
            return Next::Wait(until.min(self.ends));
        }
        if self.after < state.store.lost(self.wanted.resource)
            || (self.fresh && self.after < state.store.forgotten())
        {
            self.over = true;
            let gone = ApiErrorWithDetails::expired(self.after, state.store.forgotten()).status();
            return Next::Send(format!("{}\n", json!({"type": "ERROR", "object": gone})).into());
        }
        self.fresh = false;
        let mut out = Vec::new();
        let late = state.quiet.late(&self.client, self.wanted.resource, now);
        // Younger changes are not sent yet.
        let visible_until = late.map(|(by, _)| state.clock.elapsed().saturating_sub(by));
        let mut waits = late.map(|(_, until)| until);
        for logged in state.store.since(self.wanted.resource, self.after) {
            if let (Some(visible_until), Some((_, until))) = (visible_until, late)
                && logged.at > visible_until
            {
                waits = Some(until.min(now + (logged.at - visible_until)));
                break;
            }
            self.wanted.tell(&mut out, logged);
            self.after = logged.revision;
            if out.len() > PIECE_BYTES {
                return Next::Send(out);
            }
        }
        // Nothing else has happened to this kind until now, or until then.
        let known = visible_until.map_or(state.store.revision(), |at| state.store.revision_at(at));
        self.after = self.after.max(known);
        if !out.is_empty() {
            return Next::Send(out);
        }
        match self.bookmark {
            Some(due) if now >= due => {
                self.bookmark = Some(next_bookmark(now, self.ends));
                Next::Send(self.wanted.bookmark(self.after, false).to_vec())
            }
            due => Next::Wait(
                [due, waits]
                    .into_iter()
                    .flatten()
                    .fold(self.ends, Instant::min),
            ),
        }
    }
}

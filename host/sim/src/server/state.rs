//! The data behind the server's one lock.

use std::collections::VecDeque;
use std::time::Duration;

use super::ids::Ids;
use super::quiet::Quiet;
use super::store::Store;
use crate::clock::Clock;
use crate::object::Key;

/// Everything that a write may change.
pub struct State {
    /// The time of day of stamps.
    pub clock: Clock,
    /// UIDs and names.
    pub ids: Ids,
    /// Objects.
    pub store: Store,
    /// Events by the time of their end, and when that is.
    pub events: VecDeque<(Duration, Key)>,
    /// Watches of an earlier one end.
    pub epoch: u64,
    /// What keeps clients from hearing.
    pub quiet: Quiet,
}

/// How long an Event is kept, as a real server does without `--event-ttl`.
const EVENTS_LAST: Duration = Duration::from_secs(3600);

impl State {
    /// Adds an Event and removes expired ones.
    pub fn note_event(&mut self, key: &Key) {
        let now = self.clock.elapsed();
        self.events.push_back((now + EVENTS_LAST, key.clone()));
        while self.events.front().is_some_and(|(ends, _)| *ends <= now) {
            if let Some((_, key)) = self.events.pop_front() {
                self.store.remove(&key, now);
            }
        }
    }
}

//! The server and the data behind its one lock.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::client::fault_gate::FaultGate;
use super::client::quiet::Quiet;
use super::ids::Ids;
use super::store::Store;
use crate::clock::Clock;
use crate::object::Key;

/// The server. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    state: Mutex<ServerState>,
    fault_gate: FaultGate,
}

impl Server {
    /// A server with this state, and a gate that lets everything pass.
    pub(super) fn holding(state: ServerState) -> Server {
        Server(Arc::new(Inner {
            state: Mutex::new(state),
            fault_gate: FaultGate::default(),
        }))
    }

    /// The state, for as long as no other caller may see it.
    pub(super) fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is between clients and the server.
    pub(super) fn fault_gate(&self) -> &FaultGate {
        &self.0.fault_gate
    }
}

/// Everything that a write may change.
pub struct ServerState {
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

impl ServerState {
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

//! Rules that need a memory. They are checked against the server's state when something is carried
//! out, not when it was requested, and not against what the daemon can know.
//!
//! An excuse is a time: each constant here says how long the daemon may not know better, and why.

pub(super) mod canaries;
pub(super) mod disruption;
mod foreign;
mod leaders;
mod limits;
pub(super) mod nodes;
mod pods;
pub(super) mod proof;
mod purchases;
mod requests;
mod rest;
pub(super) mod vain;
mod versions;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::interceptor::Interceptor;
use longshore_simcluster::faults::writes;
use longshore_simcluster::object::{Change, Event};
use longshore_simcluster::server::{Moment, RequestInfo, resources};

/// The rules, and what they remember.
pub(super) struct Judges {
    /// What processes do, and the world in which they do it.
    pub interceptor: Arc<Interceptor>,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// The last revision that was looked at.
    seen: u64,
    disruption: disruption::Disruption,
    leaders: leaders::Leaders,
    purchases: purchases::Purchases,
    nodes: nodes::Nodes,
    proof: proof::Proof,
    requests: requests::Requests,
    rest: rest::Rest,
    vain: vain::Vain,
}

impl Judges {
    /// Nothing has happened yet.
    pub fn new(interceptor: Arc<Interceptor>) -> Self {
        Judges {
            interceptor,
            memory: Mutex::default(),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on nothing is expected to happen, or everything again.
    pub fn rest(&self, rests: bool) {
        self.catch_up(None);
        self.memory().rest.begin(&self.interceptor, rests);
    }

    /// A process is about to have a request carried out, or has had it.
    pub fn carried_out(&self, asked: &RequestInfo, moment: Moment<'_>) {
        if !asked.client.starts_with("daemon#") || !writes(asked) {
            return;
        }
        let interceptor = &self.interceptor;
        match moment {
            Moment::Before(body) => {
                self.catch_up(None);
                let body: Value = serde_json::from_slice(body).unwrap_or_default();
                let mut memory = self.memory();
                memory.leaders.write(interceptor, asked);
                versions::write(interceptor, asked, &body);
                pods::write(interceptor, asked, &body, &memory.proof);
                proof::write(interceptor, asked);
                foreign::write(interceptor, asked, &body);
                memory.disruption.write(interceptor, asked, &body);
            }
            Moment::After(_) => {
                self.catch_up(Some(asked));
                self.memory().rest.write(interceptor, asked);
            }
        }
    }

    /// Folds the changes. `by` is the request that has brought it about; nothing where it was
    /// no process of the daemon.
    pub fn catch_up(&self, by: Option<&RequestInfo>) {
        let mut memory = self.memory();
        for change in self.interceptor.server.changes(memory.seen) {
            memory.seen = change.revision;
            memory.on_change(&self.interceptor, &change, by);
        }
    }

    /// A minute is over.
    pub fn minute(&self) {
        self.catch_up(None);
        let mut memory = self.memory();
        memory.requests.minute(&self.interceptor);
        memory.disruption.minute(&self.interceptor);
    }

    /// An instance is about to be ended by a process of the daemon.
    pub fn end(&self, client: &str, provider_id: &str) {
        self.catch_up(None);
        let Memory { proof, nodes, .. } = &mut *self.memory();
        proof.end(&self.interceptor, nodes, client, provider_id);
    }

    /// For how long a claim has been gone, by its UID; nothing if it never was there, or still is.
    pub fn gone_for(&self, uid: &str) -> Option<Duration> {
        self.catch_up(None);
        self.memory().proof.gone_for(&self.interceptor, uid)
    }

    /// How many claims of a launch group went within a time.
    #[cfg(feature = "aws")]
    pub fn members_gone_within(&self, token: &str, time: Duration) -> usize {
        self.catch_up(None);
        let now = self.interceptor.clock.elapsed();
        self.memory().proof.members_gone_since(token, now, time)
    }
}

impl Memory {
    fn on_change(&mut self, interceptor: &Interceptor, change: &Change, by: Option<&RequestInfo>) {
        self.requests.changed();
        self.rest.on_change(interceptor, change, by);
        match change.key.resource {
            resources::LEASE => self.leaders.lease(interceptor, change),
            resources::POD => {
                self.purchases.pod(interceptor, change);
                self.vain.pod(interceptor, change);
            }
            resources::NODE => {
                self.nodes.on_change(interceptor, change, by);
                self.disruption.node(interceptor, change);
                self.vain.node(interceptor, change);
            }
            resources::NODE_CLAIM => {
                self.disruption.claim(interceptor, change);
                canaries::claim(interceptor, change, by);
                self.purchases
                    .claim(interceptor, change, (by, &self.disruption));
                self.vain.claim(interceptor, change, by);
                self.proof.claim(interceptor, change);
                if change.event != Event::Deleted {
                    limits::hold(interceptor, change, by);
                }
            }
            resources::NODE_POOL => self.vain.pool(interceptor, change),
            _ => {}
        }
    }
}

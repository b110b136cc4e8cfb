//! Rules that need a memory. They are checked against the server's state when something is carried
//! out, not when it was requested, and not against what the daemon can know.
//!
//! An excuse is a time: each constant here says how long the daemon may not know better, and why.

pub(super) mod disruption;
mod foreign;
pub(super) mod leaders;
mod limits;
pub(super) mod nodes;
pub(super) mod pods;
pub(super) mod proof;
mod purchases;
mod requests;
mod rest;
mod vain;
mod versions;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::interceptor::Interceptor;
use crate::faults::writes;
use crate::object::{Change, Event};
use crate::server::{Moment, RequestInfo, resources};

/// What rules remember.
#[derive(Default)]
pub(super) struct Judges(Mutex<Memory>);

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
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on nothing is expected to happen, or everything again.
    pub fn rest(&self, interceptor: &Interceptor, rests: bool) {
        catch_up(interceptor, None);
        self.memory().rest.begin(interceptor, rests);
    }
}

/// A process is about to have a request carried out, or has had it.
pub(super) fn carried_out(interceptor: &Interceptor, asked: &RequestInfo, moment: Moment<'_>) {
    if !asked.client.starts_with("daemon#") || !writes(asked) {
        return;
    }
    match moment {
        Moment::Before(body) => {
            catch_up(interceptor, None);
            let body: Value = serde_json::from_slice(body).unwrap_or_default();
            leaders::write(interceptor, asked);
            versions::write(interceptor, asked, &body);
            pods::write(interceptor, asked, &body);
            proof::write(interceptor, asked);
            foreign::write(interceptor, asked, &body);
            let mut memory = interceptor.judges.memory();
            memory.disruption.write(interceptor, asked, &body);
        }
        Moment::After(_) => {
            catch_up(interceptor, Some(asked));
            interceptor.judges.memory().rest.write(interceptor, asked);
        }
    }
}

/// Folds the changes. `by` is the request that has brought it about; nothing where it was
/// no process of the daemon.
pub(super) fn catch_up(interceptor: &Interceptor, by: Option<&RequestInfo>) {
    let mut memory = interceptor.judges.memory();
    for change in interceptor.server.changes(memory.seen) {
        memory.seen = change.revision;
        memory.on_change(interceptor, &change, by);
    }
}

/// A minute is over.
pub(super) fn minute(interceptor: &Interceptor) {
    catch_up(interceptor, None);
    let mut memory = interceptor.judges.memory();
    memory.requests.minute(interceptor);
    memory.disruption.minute(interceptor);
}

/// When the disruption taint came to a node.
pub(super) fn tainted(interceptor: &Interceptor, node: &str) -> Option<Duration> {
    interceptor.judges.memory().nodes.tainted(node)
}

/// How long ago the end of a claim's time was moved last; nothing if it never was.
fn moved(interceptor: &Interceptor, claim: &Value) -> Option<Duration> {
    let moved = interceptor.judges.memory().proof.moved(claim);
    moved.map(|at| interceptor.clock.elapsed() - at)
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
            }
            resources::NODE_CLAIM => {
                self.disruption.claim(interceptor, change);
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

//! Rules that need a memory. They are held against the server's truth at the moment when something is carried out, not
//! when it was asked for, and not against what the daemon can know.
//!
//! An excuse is a time: each constant here says for how long the daemon may not know better, and why.

pub(super) mod leaders;
mod limits;
mod nodes;
pub(super) mod pods;
pub(super) mod proof;
mod purchases;
mod requests;
mod rest;
mod versions;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::desk::Desk;
use crate::faults::writes;
use crate::object::{Change, Event};
use crate::server::{Asked, Moment, resources};

/// What rules remember.
#[derive(Default)]
pub(super) struct Judges(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    /// The last revision that was looked at.
    seen: u64,
    leaders: leaders::Leaders,
    purchases: purchases::Purchases,
    nodes: nodes::Nodes,
    proof: proof::Proof,
    requests: requests::Requests,
    rest: rest::Rest,
}

impl Judges {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on nothing is expected to happen, or everything again.
    pub fn rest(&self, desk: &Desk, rests: bool) {
        catch_up(desk, None);
        self.memory().rest.begin(desk, rests);
    }
}

/// A process is about to have a request carried out, or has had it.
pub(super) fn carried_out(desk: &Desk, asked: &Asked, moment: Moment<'_>) {
    if !asked.who.starts_with("daemon#") || !writes(asked) {
        return;
    }
    match moment {
        Moment::Before(body) => {
            catch_up(desk, None);
            let body: Value = serde_json::from_slice(body).unwrap_or_default();
            leaders::write(desk, asked);
            versions::write(desk, asked, &body);
            pods::write(desk, asked, &body);
            proof::write(desk, asked);
        }
        Moment::After(_) => {
            catch_up(desk, Some(asked));
            desk.judges.memory().rest.write(desk, asked);
        }
    }
}

/// Takes in what has changed. `by` is the request that has brought it about; nothing where it was no process of the
/// daemon.
pub(super) fn catch_up(desk: &Desk, by: Option<&Asked>) {
    let mut memory = desk.judges.memory();
    for change in desk.server.changes(memory.seen) {
        memory.seen = change.revision;
        memory.saw(desk, &change, by);
    }
}

/// A minute is over.
pub(super) fn minute(desk: &Desk) {
    catch_up(desk, None);
    desk.judges.memory().requests.minute(desk);
}

/// When the disruption taint came to a node.
pub(super) fn tainted(desk: &Desk, node: &str) -> Option<Duration> {
    desk.judges.memory().nodes.tainted(node)
}

/// How long ago the end of a claim's time was moved last; nothing if it never was.
fn moved(desk: &Desk, claim: &Value) -> Option<Duration> {
    let moved = desk.judges.memory().proof.moved(claim);
    moved.map(|at| desk.clock.elapsed() - at)
}

impl Memory {
    fn saw(&mut self, desk: &Desk, change: &Change, by: Option<&Asked>) {
        self.requests.changed();
        self.rest.saw(desk, change, by);
        match change.key.resource {
            resources::LEASE => self.leaders.lease(desk, change),
            resources::POD => self.purchases.pod(desk, change),
            resources::NODE => self.nodes.saw(desk, change, by),
            resources::NODE_CLAIM => {
                self.purchases.claim(desk, change, by);
                self.proof.claim(desk, change);
                if change.event != Event::Deleted {
                    limits::hold(desk, change, by);
                }
            }
            _ => {}
        }
    }
}

//! The gate between a client and the server: faults and request counts.
//!
//! The fault policy sees every request of every client in order of arrival and answers with a
//! [`Verdict`]. Calls of actors through the methods of [`Server`](crate::server::Server) do not pass
//! here.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::object::Resource;

/// After this time a client gives up on a request that is not answered.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// A request of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestInfo {
    pub client: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: &'static str,
    /// The kind, nothing for a path that is none of a kind.
    pub resource: Option<Resource>,
    /// Such as `status`, or empty.
    pub subresource: String,
    /// Of the path, or empty.
    pub namespace: String,
    /// Of the path, or empty.
    pub name: String,
    /// How many requests came before it, of all clients.
    pub number: u64,
}

/// What becomes of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is answered.
    Go,
    /// It is refused, and nothing is done.
    Refuse {
        /// HTTP status, as 500.
        code: u16,
        /// As `InternalError`.
        reason: &'static str,
        /// Seconds of a `Retry-After`.
        retry_after: Option<u32>,
    },
    /// It is carried out, and answered with this all the same.
    RefuseAfter {
        /// HTTP status, as 504.
        code: u16,
        /// As `Timeout`.
        reason: &'static str,
    },
    /// Nothing is done; the client hears nothing and gives up after [`CLIENT_TIMEOUT`].
    TimeOutBefore,
    /// It is carried out, but the client hears nothing and gives up after [`CLIENT_TIMEOUT`].
    TimeOutAfter,
    /// It arrives later.
    Delay(Duration),
    /// The client's future never ends, and nothing is done.
    Kill,
    /// A list from version 0 is answered as of an older revision, as the server's cache may do;
    /// anything else is answered as it is now.
    Stale(u64),
}

/// Decides on requests.
pub type FaultPolicy = Box<dyn FnMut(&RequestInfo) -> Verdict + Send>;

/// A moment of a request that the server carries out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment<'a> {
    /// Nothing has been done yet; the request's body.
    Before(&'a [u8]),
    /// It has been done, with this code.
    After(u16),
}

/// Hears of requests when they are carried out: later than a [`FaultPolicy`] where a request was
/// held up on its way.
pub type Witness = Box<dyn FnMut(&RequestInfo, Moment<'_>) + Send>;

/// The gate of a server.
#[derive(Default)]
pub struct FaultGate {
    fault_policy: Mutex<Option<FaultPolicy>>,
    witness: Mutex<Option<Witness>>,
    counts: Mutex<Counts>,
}

/// How many requests there were, by caller, verb and kind with subresource (`pods/status`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub total: u64,
    /// By caller, verb and kind.
    pub by: BTreeMap<(String, &'static str, String), u64>,
}

impl FaultGate {
    /// Replaces the fault policy.
    pub fn set(&self, judge: Option<FaultPolicy>) {
        *self
            .fault_policy
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = judge;
    }

    /// Replaces the witness of carried-out requests.
    pub fn set_witness(&self, witness: Option<Witness>) {
        *self.witness.lock().unwrap_or_else(PoisonError::into_inner) = witness;
    }

    /// Tells the witness of a request that is carried out.
    pub(super) fn tell(&self, asked: &RequestInfo, moment: Moment<'_>) {
        if let Some(witness) = self
            .witness
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
        {
            witness(asked, moment);
        }
    }

    /// What was asked until now.
    pub fn counts(&self) -> Counts {
        self.counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Counts a request, and asks what becomes of it.
    pub(super) fn judge(&self, asked: &mut RequestInfo) -> Verdict {
        {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            asked.number = counts.total;
            counts.total += 1;
            let mut kind = asked
                .resource
                .map_or("", |resource| resource.plural)
                .to_owned();
            if !asked.subresource.is_empty() {
                kind = format!("{kind}/{}", asked.subresource);
            }
            *counts
                .by
                .entry((asked.client.clone(), asked.verb, kind))
                .or_default() += 1;
        }
        let mut judge = self
            .fault_policy
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        judge.as_mut().map_or(Verdict::Go, |judge| judge(asked))
    }
}

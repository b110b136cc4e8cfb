//! Nodes that have joined or not, until the annotation of their NodePool says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use crate::process::lock::lock;

/// NodeClaims that are known to be counted at most.
const MAX_COUNTED: usize = 10_000;

/// How registrations of a NodePool's nodes ended that its annotation [`UNJOINED`](longshore_core::model::purchases::UNJOINED) does not say yet.
#[derive(Default)]
pub struct Registrations {
    ended: Mutex<BTreeMap<String, Ended>>,
    /// NodeClaims that have been counted as failures, by UID: each has many steps while it goes.
    counted: Mutex<BTreeSet<String>>,
}

/// Registrations in order, as far as they matter: failures after the last success.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Ended {
    pub(super) joined: bool,
    pub(super) failed_since: u32,
}

impl Registrations {
    /// Notes that a node of the NodePool has joined: earlier failures no longer count.
    pub fn joined(&self, pool: &str) {
        let joined = Ended {
            joined: true,
            failed_since: 0,
        };
        lock(&self.ended).insert(pool.to_owned(), joined);
    }

    /// The node of a NodeClaim has not joined in time. It may be said several times.
    pub fn failed(&self, pool: &str, uid: &str) {
        let mut counted = lock(&self.counted);
        if counted.len() >= MAX_COUNTED {
            counted.clear();
        }
        if !counted.insert(uid.to_owned()) {
            return;
        }
        drop(counted);
        let mut all = lock(&self.ended);
        let ended = all.entry(pool.to_owned()).or_default();
        ended.failed_since = ended.failed_since.saturating_add(1);
    }

    /// What the annotation of a NodePool does not say yet.
    pub(super) fn of(&self, pool: &str) -> Ended {
        lock(&self.ended).get(pool).copied().unwrap_or_default()
    }

    /// What was so when it was written counts no longer.
    pub(super) fn written(&self, pool: &str, written: Ended) {
        let mut all = lock(&self.ended);
        if let Some(ended) = all.get_mut(pool) {
            if *ended == written {
                all.remove(pool);
            } else if !ended.joined || written.joined {
                ended.joined = false;
                ended.failed_since = ended.failed_since.saturating_sub(written.failed_since);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_while_it_is_written_is_written_next() {
        let all = Registrations::default();
        all.failed("p", "1");
        let seen = all.of("p");
        all.failed("p", "2");
        all.failed("p", "2");
        all.written("p", seen);
        assert_eq!(all.of("p").failed_since, 1, "once for each NodeClaim");
        all.written("p", all.of("p"));
        assert_eq!(all.of("p"), Ended::default());
        all.failed("p", "3");
        let seen = all.of("p");
        all.joined("p");
        all.written("p", seen);
        assert!(all.of("p").joined, "it joined since");
    }
}

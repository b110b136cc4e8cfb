//! What the loop does from time to time, and when each is due.

use std::time::Duration;

use tokio::time::Instant;

use crate::process::backoff::back_off;

/// How often garbage is looked for.
const GARBAGE_INTERVAL: Duration = Duration::from_secs(120);
/// NodePools are counted again at most this often.
const POOL_COUNT_INTERVAL: Duration = Duration::from_secs(1);
/// The status for others is written anew at most this often.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(500);
/// It is written anew at least this often: ages in it grow.
const REPUBLISH_INTERVAL: Duration = Duration::from_secs(10);

/// The status for others.
pub(super) struct Publishing {
    last: Instant,
    changed: bool,
}

impl Publishing {
    pub(super) fn new(now: Instant) -> Self {
        Publishing {
            last: now,
            changed: true,
        }
    }

    /// What it says is out of date.
    pub(super) fn note_change(&mut self) {
        self.changed = true;
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        let is_due = now >= self.last + PUBLISH_INTERVAL;
        (is_due && self.changed) || now >= self.last + REPUBLISH_INTERVAL
    }

    /// When it is due, if something has changed.
    pub(super) fn next(&self) -> Option<Instant> {
        self.changed.then(|| self.last + PUBLISH_INTERVAL)
    }

    pub(super) fn done(&mut self, now: Instant) {
        (self.changed, self.last) = (false, now);
    }
}

/// Passes that look for garbage, one at a time.
pub(super) struct GarbagePasses {
    last: Instant,
    is_running: bool,
}

impl GarbagePasses {
    pub(super) fn new(now: Instant) -> Self {
        GarbagePasses {
            last: now,
            is_running: false,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.is_running
    }

    /// When the next is due; nothing while one runs.
    pub(super) fn next(&self) -> Option<Instant> {
        (!self.is_running).then(|| self.last + GARBAGE_INTERVAL)
    }

    pub(super) fn begin(&mut self, now: Instant) {
        (self.is_running, self.last) = (true, now);
    }

    pub(super) fn ended(&mut self) {
        self.is_running = false;
    }
}

/// Counts of the nodes of NodePools.
pub(super) struct PoolCounts {
    last: Instant,
    changed: bool,
}

impl PoolCounts {
    pub(super) fn new(now: Instant) -> Self {
        PoolCounts {
            last: now,
            changed: true,
        }
    }

    pub(super) fn note_change(&mut self) {
        self.changed = true;
    }

    /// When they are due, if something has changed.
    pub(super) fn next(&self) -> Option<Instant> {
        self.changed.then(|| self.last + POOL_COUNT_INTERVAL)
    }

    /// Whether they are due; the caller counts then.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let is_due = self.next().is_some_and(|at| at <= now);
        if is_due {
            (self.changed, self.last) = (false, now);
        }
        is_due
    }
}

/// NodeClaims that could not be created: their pods are planned again.
#[derive(Default)]
pub(super) struct FailedWrites {
    /// How many rounds could create none, one after the other.
    in_a_row: u32,
    again: Option<Instant>,
}

impl FailedWrites {
    /// So many NodeClaims of a round were created, and so many could not be. The wait grows where
    /// nothing can be created.
    pub(super) fn note(&mut self, created: usize, failed: usize, now: Instant) {
        self.in_a_row = match created {
            0 => self.in_a_row + 1,
            _ => 0,
        };
        if failed > 0 {
            self.again = Some(now + back_off(self.in_a_row));
        }
    }

    /// When the pods are planned again.
    pub(super) fn next(&self) -> Option<Instant> {
        self.again
    }

    /// Whether that is due; once for each.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        self.again.take_if(|at| *at <= now).is_some()
    }
}

//! The clock of a world: tokio's, which tests pause and which then jumps from one timer to the
//! next.

use k8s_openapi::jiff::Timestamp;
use tokio::time::{Duration, Instant};

/// Tells the time of a world. Cheap to copy; all copies agree.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: Instant,
    base: Timestamp,
}

impl Clock {
    /// A clock that shows `base` now. Inside a runtime only.
    pub fn starting_at(base: Timestamp) -> Self {
        Clock {
            began: Instant::now(),
            base,
        }
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        self.base
            .checked_add(self.elapsed())
            .unwrap_or(Timestamp::MAX)
    }

    /// Since the world began.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

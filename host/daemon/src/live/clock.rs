//! The time of day. A simulation sets it and lets it jump; everything else takes the machine's.

use longshore_api::crd::Timestamp;
use tokio::time::Instant;

/// Tells the time of day. Cheap to copy; all copies agree.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// The time that was shown at a moment; the machine's clock if nothing.
    set: Option<(Timestamp, Instant)>,
}

impl Clock {
    /// The machine's.
    pub fn system() -> Self {
        Clock::default()
    }

    /// Shows `base` now, and goes on with the runtime's clock, which tests can pause.
    pub fn starting_at(base: Timestamp) -> Self {
        Clock { set: Some((base, Instant::now())) }
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        match self.set {
            None => Timestamp::now(),
            Some((base, since)) => base.checked_add(since.elapsed()).unwrap_or(Timestamp::MAX),
        }
    }
}

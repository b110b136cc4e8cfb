//! The time of day. A simulation sets it and lets it jump; everything else takes the machine's.

use std::time::Duration;

use longshore_api::crd::Timestamp;
use tokio::time::Instant;

/// Most jumps that a clock can be given.
const JUMPS: usize = 4;

/// Tells the time of day. Cheap to copy; all copies agree.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// The time that was shown at a moment; the machine's clock if nothing.
    set: Option<(Timestamp, Instant)>,
    /// From when on it shows so many seconds more.
    jumps: [Option<(Instant, i64)>; JUMPS],
}

impl Clock {
    /// The machine's.
    pub fn system() -> Self {
        Clock::default()
    }

    /// Shows `base` now, and goes on with the runtime's clock, which tests can pause.
    pub fn starting_at(base: Timestamp) -> Self {
        Clock { set: Some((base, Instant::now())), ..Clock::default() }
    }

    /// From `at` on shows so many seconds more, or fewer, as a clock does that is set anew. Of more than four jumps only
    /// the first four are made.
    #[must_use]
    pub fn jumping(mut self, at: Instant, seconds: i64) -> Self {
        if let Some(free) = self.jumps.iter_mut().find(|jump| jump.is_none()) {
            *free = Some((at, seconds));
        }
        self
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        let shown = match self.set {
            None => Timestamp::now(),
            Some((base, since)) => base.checked_add(since.elapsed()).unwrap_or(Timestamp::MAX),
        };
        let made = self.jumps.iter().flatten().filter(|(at, _)| *at <= Instant::now());
        let jumped: i64 = made.map(|(_, seconds)| seconds).sum();
        let far = Duration::from_secs(jumped.unsigned_abs());
        let shifted = if jumped < 0 { shown.checked_sub(far) } else { shown.checked_add(far) };
        shifted.unwrap_or(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_anew_jumps_and_all_copies_with_it() {
        let base: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let minute = Duration::from_secs(60);
        let begun = Instant::now();
        let clock = Clock::starting_at(base).jumping(begun + minute, 3600).jumping(begun + minute * 2, -3700);
        let copy = clock;
        let mut shown = Vec::new();
        for _ in 0..3 {
            assert_eq!(copy.now(), clock.now());
            shown.push(clock.now().to_string());
            tokio::time::sleep(minute).await;
        }
        assert_eq!(shown, ["2026-01-01T00:00:00Z", "2026-01-01T01:01:00Z", "2026-01-01T00:00:20Z"]);
    }
}

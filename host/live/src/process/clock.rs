//! The time of day, taken from the API server and advanced by this process.
//!
//! Stuck pods, expired claims and old taints are judged by timestamps that the API server and its
//! clients wrote. A machine whose clock is an hour ahead would end all of them at once. So the
//! `Date` header of the server's answers counts ([`Clock::learn`]). Between answers a monotonic
//! clock advances the time. The machine's own clock is used until the first answer, and as long as
//! it agrees with the server's, because a `Date` has whole seconds only.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::jiff::fmt::rfc2822;
use longshore_api::crd::Timestamp;
use tokio::time::Instant;

use super::lock::lock;

/// Most jumps that a machine's clock can be given.
const MAX_JUMPS: usize = 4;
/// An answer that took longer says nothing of the time now.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(2);
/// So much may be between this clock and the second that an answer names: clocks drift, and servers
/// differ a little.
const MAX_DISAGREEMENT: Duration = Duration::from_secs(2);

/// Tells the time of day. Cheap to clone; all clones agree.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    machine: Machine,
    /// A time and when it was.
    kept: Arc<Mutex<Option<(Timestamp, Instant)>>>,
    /// When the API server was heard last.
    answered: Arc<Mutex<Option<(Timestamp, Instant)>>>,
}

/// The clock of a machine. A simulation sets it and lets it jump.
#[derive(Clone, Copy, Debug, Default)]
struct Machine {
    /// The time that was shown at a moment; the system's clock if nothing.
    set: Option<(Timestamp, Instant)>,
    /// From when on it is this many seconds ahead.
    jumps: [Option<(Instant, i64)>; MAX_JUMPS],
}

impl Clock {
    /// The machine's, until a server is heard.
    pub fn system() -> Self {
        Clock::default()
    }

    /// Shows `base` now, and goes on with the runtime's clock, which tests can pause.
    pub fn starting_at(base: Timestamp) -> Self {
        Clock {
            machine: Machine {
                set: Some((base, Instant::now())),
                ..Machine::default()
            },
            ..Clock::default()
        }
    }

    /// From `at` on the machine's clock is this many seconds ahead or behind, as after setting it.
    /// Of more than four jumps only the first four are made.
    #[must_use]
    pub fn jumping(mut self, at: Instant, seconds: i64) -> Self {
        if let Some(free) = self.machine.jumps.iter_mut().find(|jump| jump.is_none()) {
            *free = Some((at, seconds));
        }
        self
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        let kept = *lock(&self.kept);
        kept.map_or_else(
            || self.machine.now(),
            |(time, at)| shifted(time, at.elapsed(), true),
        )
    }

    /// The API server has answered, or a watch has brought something.
    pub fn answered(&self) {
        *lock(&self.answered) = Some((self.now(), Instant::now()));
    }

    /// When the API server was heard last, and how long ago that is; nothing before its first answer.
    pub fn last_answer(&self) -> Option<(Timestamp, Duration)> {
        let answered = *lock(&self.answered);
        answered.map(|(time, at)| (time, at.elapsed()))
    }

    /// Takes in the `Date` of an answer of the API server, which was given at some moment of the
    /// `took` before now. Returns by how many seconds this clock was ahead (fewer than 0: behind)
    /// where it was wrong and has been set.
    pub fn learn(&self, date: &str, took: Duration) -> Option<i64> {
        if took > MAX_ANSWER_TIME {
            return None;
        }
        let date: Timestamp = rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
        let earliest = shifted(date, MAX_DISAGREEMENT, false);
        let latest = shifted(date, Duration::from_secs(1) + took + MAX_DISAGREEMENT, true);
        let shown = self.now();
        let agrees = (earliest..=latest).contains(&shown);
        let mut kept = lock(&self.kept);
        if agrees {
            kept.get_or_insert((shown, Instant::now()));
            return None;
        }
        // In the middle of the second.
        *kept = Some((
            shifted(date, Duration::from_millis(500), true),
            Instant::now(),
        ));
        Some(shown.as_second() - date.as_second())
    }
}

impl Machine {
    fn now(&self) -> Timestamp {
        let shown = match self.set {
            None => Timestamp::now(),
            Some((base, since)) => shifted(base, since.elapsed(), true),
        };
        let made = self
            .jumps
            .iter()
            .flatten()
            .filter(|(at, _)| *at <= Instant::now());
        let jumped: i64 = made.map(|(_, seconds)| seconds).sum();
        shifted(
            shown,
            Duration::from_secs(jumped.unsigned_abs()),
            jumped >= 0,
        )
    }
}

/// So much later or earlier; the same where there is no such time.
fn shifted(time: Timestamp, by: Duration, later: bool) -> Timestamp {
    let moved = if later {
        time.checked_add(by)
    } else {
        time.checked_sub(by)
    };
    moved.unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const BRIEF_DELAY: Duration = Duration::from_millis(20);

    fn base() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_anew_jumps_and_all_copies_with_it() {
        let begun = Instant::now();
        let clock = Clock::starting_at(base())
            .jumping(begun + MINUTE, 3600)
            .jumping(begun + MINUTE * 2, -3700);
        let copy = clock.clone();
        let mut shown = Vec::new();
        for _ in 0..3 {
            assert_eq!(copy.now(), clock.now());
            shown.push(clock.now().to_string());
            tokio::time::sleep(MINUTE).await;
        }
        assert_eq!(
            shown,
            [
                "2026-01-01T00:00:00Z",
                "2026-01-01T01:01:00Z",
                "2026-01-01T00:00:20Z"
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn once_the_server_was_heard_the_machines_clock_may_jump() {
        let clock = Clock::starting_at(base()).jumping(Instant::now() + MINUTE, 3600);
        assert_eq!(
            clock.learn("Thu, 01 Jan 2026 00:00:00 GMT", BRIEF_DELAY),
            None
        );
        tokio::time::sleep(MINUTE * 2).await;
        assert_eq!(clock.now().to_string(), "2026-01-01T00:02:00Z");
        assert_eq!(
            clock.learn("Thu, 01 Jan 2026 00:02:00 GMT", BRIEF_DELAY),
            None
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_differs_from_the_servers_is_set_to_it_and_all_copies_with_it() {
        let clock = Clock::starting_at(base());
        let copy = clock.clone();
        assert_eq!(
            clock.learn("Wed, 31 Dec 2025 23:00:00 GMT", BRIEF_DELAY),
            Some(3600)
        );
        assert_eq!(copy.now().to_string(), "2025-12-31T23:00:00.5Z");
        tokio::time::sleep(MINUTE).await;
        assert_eq!(clock.now().to_string(), "2025-12-31T23:01:00.5Z");
        for (date, took, behind) in [
            // Within two seconds of the one named.
            ("Wed, 31 Dec 2025 23:00:58 GMT", BRIEF_DELAY, None),
            ("Wed, 31 Dec 2025 23:01:02 GMT", BRIEF_DELAY, None),
            // Too late to say anything, and no date.
            ("Wed, 31 Dec 2025 23:30:00 GMT", MAX_ANSWER_TIME * 2, None),
            ("yesterday", BRIEF_DELAY, None),
            ("Wed, 31 Dec 2025 23:01:10 GMT", BRIEF_DELAY, Some(-10)),
        ] {
            assert_eq!(clock.learn(date, took), behind, "{date}");
        }
        assert_eq!(copy.now().to_string(), "2025-12-31T23:01:10.5Z");
    }
}

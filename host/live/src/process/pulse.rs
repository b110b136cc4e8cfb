//! Liveness of the main loop for `/healthz`: when it last ran, and how long the current round has
//! taken.
//!
//! An unreachable API server does not make the process unhealthy, because a restart would not help.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::lock::lock;

/// The loop wakes at least this often.
pub const WAKE_INTERVAL: Duration = Duration::from_secs(5);
/// Time without a beat after which the loop counts as hung.
const MAX_SILENCE: Duration = Duration::from_secs(30);
/// A round may take twice its limit and this much more.
const ROUND_MARGIN: Duration = Duration::from_secs(60);

/// Written by the loop, read by the probe.
pub struct Pulse {
    heard: Mutex<Heard>,
}

struct Heard {
    beat: Instant,
    /// When the round that is not decided yet was due, and its limit.
    round: Option<(Instant, Duration)>,
}

impl Pulse {
    /// The first beat is now.
    pub fn new(now: Instant) -> Self {
        Pulse {
            heard: Mutex::new(Heard {
                beat: now,
                round: None,
            }),
        }
    }

    /// The loop turns.
    pub fn beat(&self, now: Instant) {
        lock(&self.heard).beat = now;
    }

    /// A round is due and may take `limit`. One that is not decided yet counts from when it was due
    /// itself.
    pub fn due(&self, now: Instant, limit: Duration) {
        lock(&self.heard).round.get_or_insert((now, limit));
    }

    /// The round is decided.
    pub fn decided(&self) {
        lock(&self.heard).round = None;
    }

    /// Whether the loop is alive.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check(&self, now: Instant) -> Result<(), String> {
        let heard = lock(&self.heard);
        let silent = now.saturating_duration_since(heard.beat);
        if silent > MAX_SILENCE {
            return Err(format!(
                "the main loop has not run for {} s",
                silent.as_secs()
            ));
        }
        if let Some((due, limit)) = heard.round {
            let age = now.saturating_duration_since(due);
            if age > 2 * limit + ROUND_MARGIN {
                return Err(format!(
                    "a round that may take {} s is not decided after {} s",
                    limit.as_secs(),
                    age.as_secs()
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_does_not_turn_is_unhealthy() {
        let pulse = Pulse::new(Instant::now());
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(pulse.check(Instant::now()), Ok(()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(
            pulse.check(Instant::now()),
            Err("the main loop has not run for 31 s".into())
        );
        pulse.beat(Instant::now());
        assert_eq!(pulse.check(Instant::now()), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_that_is_never_decided_is_unhealthy() {
        let pulse = Pulse::new(Instant::now());
        let turns = async |seconds: u64| {
            for _ in 0..seconds {
                tokio::time::advance(Duration::from_secs(1)).await;
                pulse.beat(Instant::now());
            }
            pulse.check(Instant::now())
        };
        pulse.due(Instant::now(), LIMIT);
        assert_eq!(turns(80).await, Ok(()));
        pulse.due(Instant::now(), LIMIT);
        assert_eq!(
            turns(1).await,
            Err("a round that may take 10 s is not decided after 81 s".into())
        );
        pulse.decided();
        assert_eq!(turns(100).await, Ok(()));
        pulse.due(Instant::now(), LIMIT);
        assert_eq!(
            turns(10).await,
            Ok(()),
            "the next one is not to blame for the last"
        );
    }
}

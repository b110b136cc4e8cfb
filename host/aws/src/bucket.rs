//! A bucket of tokens: how long a call waits before it is sent.
//!
//! EC2 throttles each action by itself, so each action has its own bucket. Waiting here costs
//! nothing; a call that EC2 refuses costs a token there and a retry here. Times are arguments: since
//! a moment that the caller fixes.

use std::time::Duration;

use crate::calls::Rate;

/// A bucket.
#[derive(Clone, Debug)]
pub struct Bucket {
    rate: Rate,
    /// Below zero: calls that have been promised a token which is still to come.
    tokens: f64,
    at: Duration,
}

impl Bucket {
    /// A full bucket.
    pub fn new(rate: Rate) -> Self {
        Bucket {
            rate,
            tokens: rate.burst,
            at: Duration::ZERO,
        }
    }

    /// Takes a token, and says how long the call waits for it.
    pub fn take(&mut self, now: Duration) -> Duration {
        self.fill(now);
        self.tokens -= 1.0;
        match self.tokens < 0.0 {
            true => Duration::from_secs_f64(-self.tokens / self.rate.per_second),
            false => Duration::ZERO,
        }
    }

    /// A token was taken for a call that is not sent.
    pub fn give_back(&mut self, now: Duration) {
        self.fill(now);
        self.tokens = (self.tokens + 1.0).min(self.rate.burst);
    }

    /// The service refused: the tokens that were left here were not left there.
    pub fn refused(&mut self, now: Duration) {
        self.fill(now);
        self.tokens = self.tokens.min(0.0);
    }

    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.tokens = (self.tokens + passed * self.rate.per_second).min(self.rate.burst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate {
        burst: 2.0,
        per_second: 4.0,
    };

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn calls_beyond_the_burst_wait_in_turn() {
        let mut bucket = Bucket::new(RATE);
        let waits: Vec<u128> = (0..4).map(|_| bucket.take(at(0)).as_millis()).collect();
        assert_eq!(waits, [0, 0, 250, 500]);
        assert_eq!(
            bucket.take(at(250)),
            at(500),
            "one has come, two are promised"
        );
        assert_eq!(bucket.take(at(10_000)), at(0));
        assert_eq!(
            bucket.take(at(10_000)),
            at(0),
            "it holds no more than the burst"
        );
        assert_eq!(bucket.take(at(10_000)), at(250));
    }

    #[test]
    fn a_token_that_is_not_used_serves_another_call() {
        let mut bucket = Bucket::new(RATE);
        bucket.give_back(at(0));
        let waits = |bucket: &mut Bucket| bucket.take(at(0)).as_millis();
        assert_eq!([waits(&mut bucket), waits(&mut bucket)], [0, 0]);
        bucket.give_back(at(0));
        assert_eq!([waits(&mut bucket), waits(&mut bucket)], [0, 250]);
    }

    #[test]
    fn a_refusal_empties_the_bucket() {
        let mut bucket = Bucket::new(RATE);
        bucket.refused(at(0));
        assert_eq!(bucket.take(at(0)), at(250));
        assert_eq!(bucket.take(at(0)), at(500));
    }

    #[test]
    fn time_that_goes_back_gives_no_token() {
        let mut bucket = Bucket::new(RATE);
        let _ = [bucket.take(at(1000)), bucket.take(at(1000))];
        assert_eq!(bucket.take(at(0)), at(250));
    }
}

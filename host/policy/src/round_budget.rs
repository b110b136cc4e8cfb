//! What a policy may use in one round: fuel, time and log messages of all its calls together. The limits
//! of one call are in `engine`.

use std::time::Duration;

/// How long all policies may take together in a round at most, by the clock. Without a limit, one that
/// answers just within the limit of a call for each of 25 NodePools holds a round up until the process
/// counts as hung.
pub const ROUND_TIME: Duration = Duration::from_secs(5);
/// However many there are, a version has this much of it.
const LEAST_SHARE: Duration = Duration::from_secs(1);
/// Fuel of a version in a round: less than a second of arithmetic, and four times what CPython burns on
/// 20 different questions about 8 000 offerings each (5 900 a row).
const ROUND_FUEL: u64 = 4_000_000_000;

/// Log messages of a version that are kept from a round, and their bytes: four calls' worth.
const ROUND_MESSAGES: u32 = 400;
const ROUND_LOG: usize = 64 << 10;

/// What a version may still use in a round, whatever it is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RoundBudget {
    pub fuel: u64,
    pub time: Duration,
    pub messages: u32,
    pub log: usize,
}

impl RoundBudget {
    /// No limit beside those of each call: outside of rounds.
    pub const NONE: RoundBudget = RoundBudget {
        fuel: u64::MAX,
        time: Duration::MAX,
        messages: u32::MAX,
        log: usize::MAX,
    };

    /// The part of each version where `places` share the time of a round.
    pub fn share(time: Duration, places: usize) -> Self {
        let places = u32::try_from(places).unwrap_or(u32::MAX).max(1);
        RoundBudget {
            fuel: ROUND_FUEL,
            time: (time / places).max(LEAST_SHARE),
            messages: ROUND_MESSAGES,
            log: ROUND_LOG,
        }
    }
}

/// How long all scorers may take in a round that plans for so long: half of it, and never more than
/// [`ROUND_TIME`].
pub(crate) fn round_time(planning: Option<Duration>) -> Duration {
    planning.map_or(ROUND_TIME, |planning| ROUND_TIME.min(planning / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_share_half_of_what_a_round_plans_for_and_each_has_a_second() {
        let shares = |planning: f64, places| {
            let time = round_time(Some(Duration::from_secs_f64(planning)));
            RoundBudget::share(time, places).time.as_secs_f64()
        };
        assert_eq!(shares(10.0, 1), 5.0);
        assert_eq!(shares(3600.0, 1), 5.0);
        assert_eq!(shares(6.0, 1), 3.0);
        assert_eq!(shares(6.0, 2), 1.5);
        assert_eq!(shares(6.0, 25), 1.0);
        assert_eq!(shares(0.1, 1), 1.0);
    }
}

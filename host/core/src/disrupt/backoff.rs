//! How long a NodePool is left alone whose commands of disruption fail.
//!
//! A command fails if what it buys first does not become a node: the cloud refuses it, it is given up,
//! or it is not initialised in time. Nothing is bought to replace nodes of the NodePool for a while
//! then, twice as long each time. Afterwards one command at a time is tried, with twice the time, until
//! one succeeds. Other NodePools go on, and so does what buys nothing.

use crate::model::{Failures, NodePool};

/// How long the first failure is waited for, seconds.
const FIRST_PAUSE_SECONDS: i64 = 5 * 60;
/// The longest wait, seconds.
const MAX_PAUSE_SECONDS: i64 = 3600;
/// How long a command may take to get its replacements initialised, seconds.
const COMMAND_TIME_LIMIT_SECONDS: i64 = 10 * 60;

/// How long nothing is bought after so many failures, seconds.
pub fn pause(count: u32) -> i64 {
    doubled(FIRST_PAUSE_SECONDS, count.saturating_sub(1))
}

/// How long a command on nodes of a NodePool may take, seconds: longer where such commands failed,
/// because its nodes may only be slow.
pub fn time_limit(failures: Option<Failures>) -> i64 {
    doubled(
        COMMAND_TIME_LIMIT_SECONDS,
        failures.map_or(0, |of| of.count),
    )
}

fn doubled(first: i64, times: u32) -> i64 {
    (first << times.min(8)).min(MAX_PAUSE_SECONDS)
}

/// Failures with one more, of a command that began at `began` and failed at `now`, seconds since 1970.
/// Nothing where the last one was noted after this command had begun: they fail together.
pub fn one_more(before: Option<Failures>, began: i64, now: i64) -> Option<Failures> {
    let count = match before {
        Some(known) if known.until - pause(known.count) >= began => return None,
        Some(known) => known.count.saturating_add(1),
        None => 1,
    };
    let until = now.saturating_add(pause(count));
    Some(Failures { count, until })
}

/// Whether failures are something that [`one_more`] may have said.
pub fn is_plausible(failures: Failures) -> bool {
    failures.count > 0
}

/// Until when nothing is bought to replace nodes of a NodePool, seconds since 1970.
pub fn waits(pool: &NodePool, now: i64) -> Option<i64> {
    let until = pool.failures?.until;
    // A clock that was wrong by more than the longest wait is not believed.
    (now < until && until - now <= MAX_PAUSE_SECONDS).then_some(until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_waited_for_twice_as_long_and_an_hour_at_most() {
        let mut now = 1_000_000;
        let mut known = None;
        let waits = (0..7).map(|_| {
            let began = now;
            now += 600;
            known = one_more(known, began, now);
            let until = known.unwrap().until;
            let wait = until - now;
            now = until;
            wait / 60
        });
        assert_eq!(waits.collect::<Vec<_>>(), [5, 10, 20, 40, 60, 60, 60]);
    }

    #[test]
    fn commands_that_fail_together_are_one_failure() {
        let first = one_more(None, 1_000, 1_600);
        assert_eq!(
            first,
            Some(Failures {
                count: 1,
                until: 1_900
            })
        );
        assert_eq!(one_more(first, 1_010, 1_610), None, "it had begun before");
        assert_eq!(
            one_more(first, 1_900, 2_500),
            Some(Failures {
                count: 2,
                until: 3_100
            })
        );
    }

    #[test]
    fn nodes_that_are_slow_get_more_time_after_each_failure() {
        let of = |count| time_limit(Some(Failures { count, until: 0 }));
        assert_eq!(
            [time_limit(None), of(1), of(2), of(9)],
            [600, 1200, 2400, 3600]
        );
    }
}

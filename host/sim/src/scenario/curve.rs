//! The number of replicas over time: a constant plus shapes.

use std::f64::consts::TAU;
use std::time::Duration;

use longshore_simcluster::keyed_rng::KeyedRng;

/// Seconds from the beginning of 1970, a Thursday, to a Monday: weeks begin there.
const MONDAY: i64 = 4 * DAY;
const DAY: i64 = 86_400;

/// A load over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What is there without any shape.
    pub base: f64,
    /// What is added.
    pub parts: Vec<Part>,
    /// Share by which each ten minutes differ from what they should be, at most.
    pub noise: f64,
}

/// Something that is added to a load.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Rises and falls: nothing half a period from its peak, `add` at the peak.
    Wave {
        /// The period.
        every: Duration,
        /// Its peak, after the beginning of a period: of the day, or of the week from Monday on,
        /// UTC.
        peak: Duration,
        /// At the peak.
        add: f64,
        /// Factor on Saturdays and Sundays.
        weekends: f64,
    },
    /// Grows from nothing to `add`, and stays.
    Ramp {
        /// When it begins, since the scenario's beginning.
        at: Duration,
        /// How long it takes.
        over: Duration,
        /// In the end; may be below zero.
        add: f64,
    },
    /// Is there for a while.
    Burst {
        /// When it begins, since the scenario's beginning.
        at: Duration,
        /// How long it lasts.
        length: Duration,
        /// Meanwhile.
        add: f64,
        /// It comes again.
        every: Option<Duration>,
    },
}

impl Curve {
    /// Replicas at a time after the beginning, which was at `begins` (seconds since 1970); `about`
    /// names the load.
    pub fn at(&self, time: Duration, begins: i64, chance: KeyedRng, about: &str) -> u32 {
        let sum = self.base
            + self
                .parts
                .iter()
                .map(|part| part.at(time, begins))
                .sum::<f64>();
        let slot = time.as_secs() / 600;
        let noise = if self.noise > 0.0 {
            self.noise * (2.0 * chance.unit("load", &format!("{about}/{slot}")) - 1.0)
        } else {
            0.0
        };
        // Rounded, at least 0, and a cluster with a million pods is none of ours.
        (sum * (1.0 + noise)).round().clamp(0.0, 1e6) as u32
    }
}

impl Part {
    fn at(&self, time: Duration, begins: i64) -> f64 {
        match self {
            Part::Wave {
                every,
                peak,
                add,
                weekends,
            } => {
                let now = begins - MONDAY + time.as_secs() as i64;
                let period = every.as_secs_f64().max(1.0);
                let phase = (now as f64 - peak.as_secs_f64()) / period;
                let weekend = now.div_euclid(DAY).rem_euclid(7) >= 5;
                add * 0.5 * (1.0 + (TAU * phase).cos()) * if weekend { *weekends } else { 1.0 }
            }
            Part::Ramp { at, over, add } => match time.checked_sub(*at) {
                None => 0.0,
                Some(since) if since < *over => add * since.as_secs_f64() / over.as_secs_f64(),
                Some(_) => *add,
            },
            Part::Burst {
                at,
                length,
                add,
                every,
            } => match time.checked_sub(*at) {
                None => 0.0,
                Some(since) => {
                    let every = every.map_or(f64::INFINITY, |every| every.as_secs_f64());
                    if since.as_secs_f64() % every < length.as_secs_f64() {
                        *add
                    } else {
                        0.0
                    }
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const HOUR: u64 = 3600;
    /// 2026-01-05, a Monday.
    const START_SECONDS: i64 = 1_767_571_200;

    fn every(hours: u64, curve: &Curve, expected: Expect) {
        let at = |n| {
            curve
                .at(
                    Duration::from_secs(n * hours * HOUR),
                    START_SECONDS,
                    KeyedRng(1),
                    "web",
                )
                .to_string()
        };
        expected.assert_eq(&(0..16).map(at).collect::<Vec<_>>().join(" "));
    }

    fn hours(n: u64) -> Duration {
        Duration::from_secs(n * HOUR)
    }

    #[test]
    fn a_daily_wave_has_its_peak_where_it_was_asked_for_and_is_lower_at_weekends() {
        let wave = Part::Wave {
            every: hours(24),
            peak: hours(14),
            add: 40.0,
            weekends: 0.25,
        };
        let mut curve = Curve {
            base: 10.0,
            parts: vec![wave],
            noise: 0.0,
        };
        every(
            2,
            &curve,
            expect!["13 10 13 20 30 40 47 50 47 40 30 20 13 10 13 20"],
        );
        // Noon of each day, from Monday on.
        every(
            12,
            &curve,
            expect!["13 47 13 47 13 47 13 47 13 47 11 19 11 19 13 47"],
        );
        curve.noise = 0.1;
        every(
            2,
            &curve,
            expect!["13 11 13 21 33 42 47 49 45 36 28 21 12 9 12 21"],
        );
    }

    #[test]
    fn ramps_stay_and_bursts_come_again() {
        let ramp = Part::Ramp {
            at: hours(1),
            over: hours(4),
            add: 8.0,
        };
        every(
            1,
            &Curve {
                base: 2.0,
                parts: vec![ramp],
                noise: 0.0,
            },
            expect!["2 2 4 6 8 10 10 10 10 10 10 10 10 10 10 10"],
        );
        let burst = Part::Burst {
            at: hours(2),
            length: hours(2),
            add: 5.0,
            every: Some(hours(6)),
        };
        every(
            1,
            &Curve {
                base: 1.0,
                parts: vec![burst],
                noise: 0.0,
            },
            expect!["1 1 6 6 1 1 1 1 6 6 1 1 1 1 6 6"],
        );
        let less = Part::Ramp {
            at: hours(3),
            over: Duration::ZERO,
            add: -9.0,
        };
        every(
            1,
            &Curve {
                base: 4.0,
                parts: vec![less],
                noise: 0.0,
            },
            expect!["4 4 4 0 0 0 0 0 0 0 0 0 0 0 0 0"],
        );
    }
}

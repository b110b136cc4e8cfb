//! Schedules of disruption budgets: the five fields of cron and its shorthands, in UTC.
//!
//! The meaning is that of the parser that Karpenter uses (robfig/cron v3): lists, ranges, steps, names
//! of months and days, `?` for `*`. If both days are restricted, either will do. Sunday is 0 and not 7.
//! There is no sixth field and no time zone.

/// A schedule in cron's five fields, UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Neither kind of day is restricted, or only one.
    both_days: bool,
}

/// Why a text is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// Too few or too many fields.
    #[error("a schedule has five fields (minute, hour, day, month, weekday), this one has {0}")]
    Fields(usize),
    /// A word after `@` that stands for no schedule.
    #[error("{0:?} is no shorthand: @yearly, @monthly, @weekly, @daily and @hourly are")]
    Shorthand(String),
    /// A field that makes no sense.
    #[error("{0:?} is not in {1}..={2}")]
    Value(String, u32, u32),
    /// A time zone.
    #[error("a schedule is in UTC and names no time zone, this one begins with {0:?}")]
    Zone(String),
}

const DAY: i64 = 86_400;
/// A schedule that fires in none of so many years after this one is taken for one that never fires.
const MAX_YEARS: i64 = 5;
const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    /// Reads a schedule.
    ///
    /// # Errors
    /// The text is not one.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let text = text.trim();
        let long = match text.strip_prefix('@') {
            None => text,
            Some("yearly" | "annually") => "0 0 1 1 *",
            Some("monthly") => "0 0 1 * *",
            Some("weekly") => "0 0 * * 0",
            Some("daily" | "midnight") => "0 0 * * *",
            Some("hourly") => "0 * * * *",
            Some(other) => return Err(CronError::Shorthand(format!("@{other}"))),
        };
        let fields: Vec<&str> = long.split_whitespace().collect();
        if let Some(zone) = fields.first().filter(|text| text.contains("TZ=")) {
            return Err(CronError::Zone((*zone).to_owned()));
        }
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(CronError::Fields(fields.len()));
        };
        let (days, any_day) = field(day, 1, 31, &[])?;
        let (weekdays, any_weekday) = field(weekday, 0, 6, &WEEKDAYS)?;
        Ok(Schedule {
            minutes: field(minute, 0, 59, &[])?.0,
            hours: field(hour, 0, 23, &[])?.0,
            days,
            months: field(month, 1, 12, &MONTHS)?.0,
            weekdays,
            both_days: any_day || any_weekday,
        })
    }

    /// The first second after `time` (seconds since 1970) at which it fires, if ever.
    pub fn next(&self, time: i64) -> Option<i64> {
        let first = time.div_euclid(60) * 60 + 60;
        let mut day = first.div_euclid(DAY);
        let mut minute = first.rem_euclid(DAY) / 60;
        let last = date(day).0 + MAX_YEARS;
        while date(day).0 <= last {
            if self.fires_on(day)
                && let Some(at) = (minute..24 * 60).find(|&at| self.fires_at(at))
            {
                return Some(day * DAY + at * 60);
            }
            (day, minute) = (day + 1, 0);
        }
        None
    }

    /// Whether it fired within `duration` seconds before `now`, `now` included. One that never fires
    /// is active always, as in Karpenter.
    pub fn is_active(&self, now: i64, duration: i64) -> bool {
        self.next(now.saturating_sub(duration))
            .is_none_or(|next| next <= now)
    }

    /// When the window of `duration` seconds that is open at `now` closes: `duration` after the last
    /// time it fired. Nothing if none is open, or if it never fires.
    pub fn ends(&self, now: i64, duration: i64) -> Option<i64> {
        // A window may be opened again before it closes: the last opening counts. A schedule that
        // fires often is looked for near at hand.
        let backwards = [3_600, DAY, 31 * DAY, 366 * DAY, i64::MAX].map(|back| back.min(duration));
        let fired = |back: &i64| self.next(now.saturating_sub(*back)).filter(|at| *at <= now);
        let mut last = backwards.iter().find_map(fired)?;
        while let Some(next) = self.next(last).filter(|at| *at <= now) {
            last = next;
        }
        Some(last.saturating_add(duration))
    }

    fn fires_on(&self, day: i64) -> bool {
        let (_, month, of_month) = date(day);
        let weekday = (day + 4).rem_euclid(7) as u32;
        let (by_day, by_weekday) = (has(self.days, of_month), has(self.weekdays, weekday));
        let day = if self.both_days {
            by_day && by_weekday
        } else {
            by_day || by_weekday
        };
        has(self.months, month) && day
    }

    fn fires_at(&self, minute: i64) -> bool {
        has(self.hours, (minute / 60) as u32) && has(self.minutes, (minute % 60) as u32)
    }
}

fn has(bits: u64, at: u32) -> bool {
    bits & (1 << at) != 0
}

/// Year, month (1 to 12) and day of the month of a day since 1970, Gregorian.
pub fn date(day: i64) -> (i64, u32, u32) {
    // Years that begin in March, so that the leap day comes last.
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    (
        400 * era + year + i64::from(month >= 10),
        (if month < 10 { month + 3 } else { month - 9 }) as u32,
        of_month as u32,
    )
}

/// The values of a field, and whether it is not restricted.
fn field(text: &str, low: u32, high: u32, names: &[&str]) -> Result<(u64, bool), CronError> {
    let wrong = || CronError::Value(text.to_owned(), low, high);
    let one = |text: &str| -> Result<u32, CronError> {
        let named = names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text));
        match named {
            Some(at) => Ok(at as u32 + u32::from(low == 1)),
            None => text.parse().map_err(|_| wrong()),
        }
    };
    let (mut bits, mut any) = (0, false);
    // Nothing between two commas is no part.
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let mut halves = part.split('/');
        let (range, step) = (halves.next().unwrap_or_default(), halves.next());
        if halves.next().is_some() {
            return Err(wrong());
        }
        let step = step.map(|step| step.parse::<u32>().map_err(|_| wrong()));
        let step = step.transpose()?;
        let ends: Vec<&str> = range.split('-').collect();
        let (first, last) = match ends.as_slice() {
            // Whatever a star is the beginning of is a star.
            ["*" | "?", ..] => (low, high),
            [first] if step.is_some() => (one(first)?, high),
            [only] => (one(only)?, one(only)?),
            [first, last] => (one(first)?, one(last)?),
            _ => return Err(wrong()),
        };
        any |= matches!(ends[0], "*" | "?") && step.is_none_or(|step| step == 1);
        let step = step.unwrap_or(1);
        if step == 0 || first < low || last > high || first > last {
            return Err(wrong());
        }
        (first..=last)
            .step_by(step as usize)
            .for_each(|value| bits |= 1 << value);
    }
    Ok((bits, any))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-24T17:00:00Z, a Tuesday.
    const NOW: i64 = 1_795_539_600;

    fn next(text: &str) -> i64 {
        (Schedule::parse(text).unwrap().next(NOW).unwrap() - NOW) / 60
    }

    #[test]
    fn the_next_time_is_found() {
        assert_eq!(next("* * * * *"), 1);
        assert_eq!(next("30 17 * * *"), 30);
        assert_eq!(next("0 17 * * *"), 24 * 60, "strictly after");
        assert_eq!(next("@daily"), 7 * 60);
        assert_eq!(next("*/20 18-20 * * mon-fri"), 60);
        assert_eq!(next("0 9 * * sat"), (3 * 24 + 16) * 60);
        assert_eq!(next("0 0 1 1 ?"), (37 * 24 + 7) * 60);
        assert_eq!(next("0 0 * * 0"), (4 * 24 + 7) * 60, "Sunday is 0");
        assert_eq!(
            next("0 0 * * 1/2"),
            7 * 60,
            "Wednesday; Sunday is none of them"
        );
        assert_eq!(next("0 12 * * 5/2"), (2 * 24 + 19) * 60, "Friday alone");
        assert_eq!(next("0,,30 * * * *,"), 30, "an empty part is none");
        assert_eq!(next("0 0 *-3 * fri"), (2 * 24 + 7) * 60, "still a star");
        assert_eq!(next("0 0 25 * sat"), 7 * 60, "either day will do");
    }

    #[test]
    fn the_leap_day_comes_and_the_thirtieth_of_february_does_not() {
        let leap = Schedule::parse("0 0 29 2 *").unwrap().next(NOW).unwrap();
        assert_eq!(date(leap.div_euclid(DAY)), (2028, 2, 29));
        let never = Schedule::parse("0 0 30 2 *").unwrap();
        assert_eq!(never.next(NOW), None);
        assert!(never.is_active(NOW, 3600), "what never opens never closes");
    }

    #[test]
    fn a_window_ends_its_duration_after_it_was_last_opened() {
        let ends = |text: &str, hours: i64| {
            let ends = Schedule::parse(text).unwrap().ends(NOW, hours * 3600);
            ends.map(|end| (end - NOW) / 60)
        };
        assert_eq!(ends("0 9 * * mon-fri", 10), Some(2 * 60));
        assert_eq!(ends("0 9 * * mon-fri", 8), None);
        assert_eq!(
            ends("* * * * *", 24),
            Some(24 * 60),
            "opened again each minute"
        );
        assert_eq!(ends("0 17 * * *", 1), Some(60), "opened just now");
        assert_eq!(ends("0 0 30 2 *", 1), None, "it never opens");
        assert_eq!(ends("0 0 1 1 *", 24 * 365), Some((37 * 24 + 7) * 60));
    }

    #[test]
    fn a_window_is_open_from_its_start_for_its_duration() {
        let nine = Schedule::parse("0 9 * * *").unwrap();
        let at = |hour: i64, minute: i64| NOW - 17 * 3600 + hour * 3600 + minute * 60;
        let open = |hour, minute| nine.is_active(at(hour, minute), 8 * 3600);
        assert_eq!(
            [open(8, 59), open(9, 0), open(16, 59), open(17, 0)],
            [false, true, true, false]
        );
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        for text in [
            "",
            "* * * *",
            "@never",
            "60 * * * *",
            "5-1 * * * *",
            "*/0 * * * *",
            "a * * * *",
            "* * 0 * *",
            "0 0 * * 7",
            "0 0 * * 1-7",
            "0 0 * * fri-7",
            "0 0 0 * * *",
            "@daily x",
            "TZ=Europe/Berlin 0 0 * * *",
            "CRON_TZ=UTC 0 0 * * *",
            "1-2-3 * * * *",
            "*/2/2 * * * *",
            "-5 * * * *",
        ] {
            assert!(Schedule::parse(text).is_err(), "{text:?}");
        }
        assert_eq!(
            Schedule::parse("60 * * * *").unwrap_err().to_string(),
            "\"60\" is not in 0..=59"
        );
    }
}

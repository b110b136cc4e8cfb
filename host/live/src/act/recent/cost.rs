//! What all nodes cost: now, an hour ago and a day ago.

use std::collections::VecDeque;
use std::time::Duration;

use super::{DAY, HOUR};
use crate::observe::state::cost::Cost;
use crate::status::parts;

/// How often the cost is written down.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(60);

/// Numbers of the last hour, one a minute, and of the last day, one an hour, with some to spare.
const MINUTES_KEPT: usize = 64;
const HOURS_KEPT: usize = 26;
/// A number stands for a time so near, in seconds.
const NEAR_HOUR_SECONDS: i64 = 300;
const NEAR_DAY_SECONDS: i64 = 1_900;
/// A requested core that costs so much more is worth a sentence, as a share.
const NOTABLE_RISE: f64 = 0.25;

/// Costs as they were, each with its time in seconds since 1970.
#[derive(Default)]
pub struct Costs {
    minutes: VecDeque<(i64, Cost)>,
    hours: VecDeque<(i64, Cost)>,
}

impl Costs {
    /// Writes down what all nodes cost.
    pub fn note(&mut self, at: i64, cost: Cost) {
        push(&mut self.minutes, MINUTES_KEPT, (at, cost));
        let last = self.hours.back();
        // A clock that was set back begins anew.
        if last.is_none_or(|(last, _)| at >= last + HOUR || at < *last) {
            push(&mut self.hours, HOURS_KEPT, (at, cost));
        }
    }

    fn last(&self) -> Option<&(i64, Cost)> {
        self.minutes.back()
    }

    /// The cost so many seconds before the last one.
    fn before(&self, seconds: i64, near: i64) -> Option<Cost> {
        let at = self.last()?.0 - seconds;
        let all = self.minutes.iter().chain(&self.hours);
        let nearest = all.min_by_key(|(of, _)| (of - at).abs())?;
        ((nearest.0 - at).abs() <= near).then_some(nearest.1)
    }

    fn hour_ago(&self) -> Option<Cost> {
        self.before(HOUR, NEAR_HOUR_SECONDS)
    }

    fn day_ago(&self) -> Option<Cost> {
        self.before(DAY, NEAR_DAY_SECONDS)
    }

    /// For the status, where something is known and there are nodes.
    pub fn status(&self, since: String) -> Option<parts::Cost> {
        let (_, now) = self.last().filter(|(_, cost)| cost.nodes > 0)?;
        let beside = |before: Cost| parts::CostBefore {
            usd_per_hour: before.usd,
            change: change(before.usd, now.usd),
            usd_per_core: before.per_core(),
            change_per_core: change_of(before.per_core(), now.per_core()),
        };
        Some(parts::Cost {
            usd_per_hour: now.usd,
            nodes: now.nodes,
            unpriced: now.unpriced,
            cores: now.cores,
            usd_per_core: now.per_core(),
            hour_ago: self.hour_ago().map(beside),
            day_ago: self.day_ago().map(beside),
            since,
        })
    }

    /// A sentence where a requested core costs much more than a day ago; or than an hour ago, if
    /// something was changed since then: `latest` is when that was, and what.
    pub fn warning(&self, latest: Option<(i64, String)>) -> Option<String> {
        let (at, now) = self.last()?;
        let rise = |before: Option<Cost>| {
            let rise = change_of(before?.per_core(), now.per_core())?;
            (rise > 100.0 * NOTABLE_RISE).then_some((rise, before?.per_core()?))
        };
        let changed = latest.filter(|(changed, _)| *changed > at - HOUR - NEAR_HOUR_SECONDS);
        let of_hour = rise(self.hour_ago()).filter(|_| changed.is_some());
        let (ago, (rise, before)) = match of_hour {
            Some(rise) => ("an hour ago", rise),
            None => ("a day ago", rise(self.day_ago())?),
        };
        let per_core = now.per_core()?;
        let changed = changed.map(|(_, what)| format!("; changed since: {what}"));
        Some(format!(
            "a requested core costs {per_core:.4} USD/h, {rise:.0} % more than {ago} ({before:.4}){}",
            changed.unwrap_or_default()
        ))
    }
}

fn push(all: &mut VecDeque<(i64, Cost)>, most: usize, one: (i64, Cost)) {
    if all.len() == most {
        all.pop_front();
    }
    all.push_back(one);
}

/// The change from one cost to the other, in percent. `None` where there was no cost before.
fn change(before: f64, now: f64) -> Option<f64> {
    (before > 0.0).then(|| 100.0 * (now / before - 1.0))
}

fn change_of(before: Option<f64>, now: Option<f64>) -> Option<f64> {
    change(before?, now?)
}

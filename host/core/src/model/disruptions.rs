//! What a NodePool remembers of its nodes that were disrupted: an annotation, so that a process that
//! takes over knows it as well. Its size is bounded: a number for each step of five minutes of a day.

use std::collections::BTreeMap;

/// Annotation of NodePools with [`Disruptions`].
pub const DISRUPTIONS: &str = "longshore.dev/disruptions";

/// Nodes are counted together that are disrupted within so many seconds.
const STEP_SECONDS: i64 = 300;
/// An hour, in seconds.
pub const HOUR_SECONDS: i64 = 3600;
/// A day, in seconds: what is older is forgotten, but for the time of the last.
pub const DAY_SECONDS: i64 = 86_400;

/// Nodes that commands of disruption took from a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disruptions {
    /// When the last command did, seconds since 1970; nothing for never.
    last: Option<i64>,
    /// That command: it is counted once, however often it is carried on.
    command: Box<str>,
    /// How many nodes, by step of time.
    steps: BTreeMap<i64, u32>,
}

impl Disruptions {
    /// Reads the annotation, empty for none; nothing if it makes no sense.
    pub fn read(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Disruptions::default());
        }
        let (head, steps) = text.split_once(';')?;
        let (last, command) = head.split_once(',')?;
        let step = |text: &str| {
            let (step, nodes) = text.split_once(':')?;
            Some((step.parse().ok()?, nodes.parse().ok()?))
        };
        let steps = steps.split(',').filter(|text| !text.is_empty());
        Some(Disruptions {
            last: Some(last.parse().ok()?),
            command: command.into(),
            steps: steps.map(step).collect::<Option<_>>()?,
        })
    }

    /// The annotation: time and command of the last, then `step:nodes` for each step.
    pub fn write(&self) -> String {
        let Some(last) = self.last else {
            return String::new();
        };
        let steps = self.steps.iter();
        let steps: Vec<String> = steps.map(|(at, nodes)| format!("{at}:{nodes}")).collect();
        format!("{last},{};{}", self.command, steps.join(","))
    }

    /// With nodes that a command takes at `now`, seconds since 1970; nothing if it is known already.
    pub fn with(&self, command: &str, nodes: u32, now: i64) -> Option<Self> {
        if *self.command == *command {
            return None;
        }
        let mut all = self.clone();
        (all.last, all.command) = (Some(now), command.into());
        let known = all.steps.entry(now.div_euclid(STEP_SECONDS)).or_default();
        *known = known.saturating_add(nodes);
        // Times to come are of a clock that was wrong.
        all.steps.retain(|step, _| {
            let begins = step.saturating_mul(STEP_SECONDS);
            begins <= now && begins.saturating_add(STEP_SECONDS) > now - DAY_SECONDS
        });
        Some(all)
    }

    /// How many nodes were disrupted within so many seconds before `now`. A step that began before counts
    /// whole.
    pub fn within(&self, seconds: i64, now: i64) -> u32 {
        let first = (now - seconds).div_euclid(STEP_SECONDS);
        let steps = self.steps.range(first..=now.div_euclid(STEP_SECONDS));
        steps.fold(0, |sum, (_, nodes)| sum.saturating_add(*nodes))
    }

    /// Seconds since the last was disrupted; nothing if none ever was.
    pub fn since_last(&self, now: i64) -> Option<i64> {
        self.last.map(|last| (now - last).max(0))
    }

    /// Whether this was written after another one of the same NodePool.
    pub fn is_after(&self, other: &Disruptions) -> bool {
        self.last > other.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_764_220_200;

    fn counted(all: &Disruptions, now: i64) -> (u32, u32, Option<i64>) {
        let within = |seconds| all.within(seconds, now);
        (
            within(HOUR_SECONDS),
            within(DAY_SECONDS),
            all.since_last(now),
        )
    }

    #[test]
    fn nodes_are_counted_for_an_hour_and_a_day_and_the_last_time_stays() {
        let none = Disruptions::read("").unwrap();
        assert_eq!(counted(&none, NOW), (0, 0, None));
        let one = none.with("a", 2, NOW).unwrap();
        let two = one.with("b", 1, NOW + 1800).unwrap();
        let two = Disruptions::read(&two.write()).unwrap();
        assert_eq!(counted(&two, NOW + 1800), (3, 3, Some(0)));
        assert_eq!(counted(&two, NOW + 3600), (3, 3, Some(1800)));
        // Five minutes more than an hour at most.
        assert_eq!(counted(&two, NOW + 3600 + 300), (1, 3, Some(2100)));
        assert_eq!(counted(&two, NOW + 2 * DAY_SECONDS).1, 0);
        let later = two.with("c", 1, NOW + 3 * DAY_SECONDS).unwrap();
        assert_eq!(counted(&later, NOW + 3 * DAY_SECONDS), (1, 1, Some(0)));
    }

    #[test]
    fn a_command_that_is_carried_on_is_counted_once() {
        let one = Disruptions::default().with("a", 2, NOW).unwrap();
        let again = Disruptions::read(&one.write()).unwrap();
        assert_eq!(again.with("a", 2, NOW + 5), None);
        assert!(again.with("b", 1, NOW + 5).unwrap().is_after(&one));
    }

    #[test]
    fn a_node_each_minute_for_days_is_no_long_text() {
        let mut all = Disruptions::default();
        for minute in 0..3 * 1440 {
            let (name, at) = (format!("command-{minute}"), NOW + 60 * minute);
            all = all.with(&name, 1, at).unwrap();
        }
        assert!(all.write().len() < 4096, "{}", all.write().len());
        let end = NOW + 60 * (3 * 1440 - 1);
        assert_eq!(all.within(HOUR_SECONDS, end), 65, "thirteen steps of five");
    }

    #[test]
    fn what_makes_no_sense_is_not_known_and_times_to_come_are_forgotten() {
        for text in ["x", "1", "1,a", "y,a;", "1,a;1:x", "1,a;1", ";", ","] {
            assert_eq!(Disruptions::read(text), None, "{text}");
        }
        let ahead = Disruptions::read(&format!("{},a;{}:7", NOW + 9_999, i64::MAX)).unwrap();
        assert_eq!(ahead.since_last(NOW), Some(0));
        assert_eq!(ahead.within(DAY_SECONDS, NOW), 0);
        let next = ahead.with("b", 1, NOW).unwrap();
        assert_eq!(next.within(DAY_SECONDS, NOW), 1);
    }
}

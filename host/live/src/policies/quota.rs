//! Which notices become Events: nothing that a component does by itself fills etcd.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use longshore_policy::Level;

use super::notice::{Notice, NoticeKind};

/// How long no second Event of a kind is made of what one policy does by itself.
const EVENT_INTERVAL: Duration = Duration::from_secs(600);

/// When Events were last made, by policy and kind.
#[derive(Default)]
pub struct EventQuota {
    last: BTreeMap<(String, NoticeKind), Instant>,
}

impl EventQuota {
    /// Whether a notice becomes an Event. Of messages only errors do; the log has all.
    pub fn is_due(&mut self, notice: &Notice, now: Instant) -> bool {
        if notice.kind == NoticeKind::PolicySaid && notice.level != Some(Level::Error) {
            return false;
        }
        if !notice.kind.is_of_component() {
            return true;
        }
        self.last
            .retain(|_, at| now.saturating_duration_since(*at) < EVENT_INTERVAL);
        let key = (notice.name.clone(), notice.kind);
        let is_due = !self.last.contains_key(&key);
        if is_due {
            self.last.insert(key, now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(kind: NoticeKind, name: &str, level: Option<Level>) -> Notice {
        Notice {
            kind,
            name: name.into(),
            message: "words".into(),
            hint: String::new(),
            at_start: false,
            level,
        }
    }

    #[test]
    fn of_messages_one_error_for_each_policy_in_ten_minutes_is_an_event() {
        let mut quota = EventQuota::default();
        let begun = Instant::now();
        let mut due = |name: &str, level, seconds| {
            let said = notice(NoticeKind::PolicySaid, name, Some(level));
            quota.is_due(&said, begun + Duration::from_secs(seconds))
        };
        for level in [Level::Debug, Level::Info, Level::Warn] {
            assert!(!due("cost", level, 0));
        }
        assert!(due("cost", Level::Error, 0));
        assert!(due("carbon", Level::Error, 1), "another policy");
        assert!((1..600).all(|second| !due("cost", Level::Error, second)));
        assert!(due("cost", Level::Error, 600));
    }

    #[test]
    fn a_policy_that_flips_its_failures_makes_few_events_and_files_as_many_as_they_change() {
        let mut quota = EventQuota::default();
        let now = Instant::now();
        let mut count = |kind| {
            let notice = notice(kind, "cost", None);
            (0..100).filter(|_| quota.is_due(&notice, now)).count()
        };
        assert_eq!(
            (
                count(NoticeKind::PolicyFailing),
                count(NoticeKind::PolicyRecovered)
            ),
            (1, 1)
        );
        assert_eq!(
            count(NoticeKind::PolicyRefused),
            100,
            "each changed file is refused with an Event"
        );
    }
}

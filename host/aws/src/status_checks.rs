//! Status checks of instances: what EC2 says of their health by itself.
//!
//! EC2 checks each instance and the machine below it, and plans events such as a retirement. A check
//! that has failed for two minutes, or an event, ends the node. Checks of volumes are ignored: the
//! node has conditions for those. [`unhealthy`] decides, a function of what EC2 says and the time.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::ApiError;
use crate::provider::Ec2;
use crate::records::{Filters, StatusFacts};
use crate::wire;

/// Why an instance is unhealthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// Its own check fails: the instance does not answer.
    Instance,
    /// The check of the machine below it fails.
    System,
    /// EC2 plans to stop, reboot or retire it, or maintains its machine.
    Event,
}

impl Category {
    /// The word of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Category::Instance => "instance_status",
            Category::System => "system_status",
            Category::Event => "event_status",
        }
    }

    /// Whether pods may leave the node in order. A node whose check fails runs none.
    pub fn may_drain(self) -> bool {
        self == Category::Event
    }
}

/// An instance that is unhealthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhealthy {
    /// Its ID.
    pub instance: String,
    /// Why. A check comes before an event.
    pub category: Category,
    /// What EC2 says, in words.
    pub what: String,
}

/// How long a check may fail, in seconds.
const FAILED_CHECK_GRACE_SECONDS: i64 = 120;

/// Codes of events that end an instance, or its pods with it.
const EVENTS: [&str; 5] = [
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
];

/// What is asked for. Filters of one request are joined by and, so each has its own.
pub fn queries() -> [Filters; 3] {
    let query = |name: &str, values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        vec![(name.to_owned(), values)]
    };
    [
        query("instance-status.status", &["impaired"]),
        query("system-status.status", &["impaired"]),
        query("event.code", &EVENTS),
    ]
}

/// Instances that are unhealthy at `now`, in seconds since 1970: each once, by ID.
pub fn unhealthy(facts: &[StatusFacts], now: i64) -> Vec<Unhealthy> {
    let mut all: BTreeMap<&str, Unhealthy> = BTreeMap::new();
    for one in facts {
        let Some((category, what)) = judge(one, now) else {
            continue;
        };
        let found = Unhealthy {
            instance: one.id.clone(),
            category,
            what,
        };
        let known = all.entry(&one.id).or_insert_with(|| found.clone());
        if found.category < known.category {
            *known = found;
        }
    }
    all.into_values().collect()
}

fn judge(one: &StatusFacts, now: i64) -> Option<(Category, String)> {
    let failed = |since: Option<i64>| {
        since
            .map(|since| now - since)
            .filter(|for_| *for_ >= FAILED_CHECK_GRACE_SECONDS)
    };
    if let Some(seconds) = failed(one.instance_failed) {
        let what = format!("its status check has failed for {seconds} s");
        return Some((Category::Instance, what));
    }
    if let Some(seconds) = failed(one.system_failed) {
        let what = format!("the status check of its machine has failed for {seconds} s");
        return Some((Category::System, what));
    }
    let planned = |(code, said): &&(String, String)| {
        // EC2 describes an event for a week after it is over, and says so in front.
        let over = said.starts_with("[Completed]") || said.starts_with("[Canceled]");
        EVENTS.contains(&&**code) && !over
    };
    let (code, _) = one.events.iter().find(planned)?;
    Some((Category::Event, format!("the event {code} is planned")))
}

/// What is unhealthy, from one look to the next: each instance is counted once for each category
/// until it has recovered.
#[derive(Clone, Debug, Default)]
pub struct Episodes {
    known: BTreeSet<(String, Category)>,
}

impl Episodes {
    /// Those that were not unhealthy at the last look.
    pub fn begun<'a>(&mut self, found: &'a [Unhealthy]) -> Vec<&'a Unhealthy> {
        let key = |one: &Unhealthy| (one.instance.clone(), one.category);
        let new = found.iter().filter(|one| !self.known.contains(&key(one)));
        let new = new.collect();
        self.known = found.iter().map(key).collect();
        new
    }
}

impl Ec2 {
    /// Instances of the account that are unhealthy now; those of other clusters among them.
    ///
    /// # Errors
    /// A call failed, whatever the others said.
    pub async fn unhealthy_instances(&self) -> Result<Vec<Unhealthy>, ApiError> {
        let clients = &self.inner().clients;
        let [instances, systems, events] = queries();
        let (instances, systems, events) = tokio::try_join!(
            wire::status::find(clients, &instances),
            wire::status::find(clients, &systems),
            wire::status::find(clients, &events),
        )?;
        let all = [instances, systems, events].concat();
        Ok(unhealthy(&all, self.now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 10_000;

    fn facts(id: &str) -> StatusFacts {
        StatusFacts {
            id: id.to_owned(),
            ..StatusFacts::default()
        }
    }

    fn event(code: &str, said: &str) -> Vec<(String, String)> {
        vec![(code.to_owned(), said.to_owned())]
    }

    fn shown(all: &[StatusFacts]) -> String {
        let line =
            |one: Unhealthy| format!("{} {}: {}\n", one.instance, one.category.as_str(), one.what);
        unhealthy(all, NOW).into_iter().map(line).collect()
    }

    #[test]
    fn checks_are_tolerated_for_two_minutes_and_events_not_at_all() {
        let all = [
            StatusFacts {
                instance_failed: Some(NOW - 119),
                ..facts("i-early")
            },
            StatusFacts {
                instance_failed: Some(NOW - 120),
                ..facts("i-instance")
            },
            StatusFacts {
                system_failed: Some(NOW - 3600),
                ..facts("i-system")
            },
            StatusFacts {
                events: event(
                    "instance-retirement",
                    "The instance is running on degraded hardware",
                ),
                ..facts("i-retired")
            },
            StatusFacts {
                events: event("system-reboot", "[Completed] Scheduled reboot"),
                ..facts("i-over")
            },
            StatusFacts {
                events: event("instance-stop", "[Canceled] Scheduled stop"),
                ..facts("i-canceled")
            },
            StatusFacts {
                events: event("something-new", ""),
                ..facts("i-unknown")
            },
        ];
        expect_test::expect![[r#"
            i-instance instance_status: its status check has failed for 120 s
            i-retired event_status: the event instance-retirement is planned
            i-system system_status: the status check of its machine has failed for 3600 s
        "#]]
        .assert_eq(&shown(&all));
    }

    #[test]
    fn an_instance_that_several_queries_find_is_one_and_its_check_comes_first() {
        let all = [
            StatusFacts {
                events: event("instance-stop", ""),
                ..facts("i-1")
            },
            StatusFacts {
                system_failed: Some(0),
                instance_failed: Some(0),
                events: event("instance-stop", ""),
                ..facts("i-1")
            },
        ];
        expect_test::expect![[r#"
            i-1 instance_status: its status check has failed for 10000 s
        "#]]
        .assert_eq(&shown(&all));
    }

    #[test]
    fn an_instance_is_counted_once_until_it_recovers() {
        let sick = unhealthy(
            &[StatusFacts {
                system_failed: Some(0),
                ..facts("i-1")
            }],
            NOW,
        );
        let mut episodes = Episodes::default();
        assert_eq!(episodes.begun(&sick).len(), 1);
        assert_eq!(episodes.begun(&sick).len(), 0);
        assert_eq!(episodes.begun(&[]).len(), 0);
        assert_eq!(episodes.begun(&sick).len(), 1, "it recovered in between");
    }
}

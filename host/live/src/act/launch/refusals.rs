//! Actions that others refuse again and again: NodeClaims that the API server does not let be created,
//! launches that the cloud refuses. They are in `longshore status`; Events and the log tell of them
//! when they begin, and every ten minutes.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use longshore_api::crd::Timestamp;
use tokio::time::Instant;

use crate::observe::node_claim::rfc3339;
use crate::process::lock::lock;
use crate::status::parts;

/// How often a refusal that lasts is reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(600);
/// A refusal is over after this long without another one. Waits between attempts are shorter.
const REFUSAL_MEMORY: Duration = Duration::from_secs(900);
/// Pods that get an Event.
pub const MAX_EVENT_PODS: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    /// The API server refuses to create NodeClaims.
    Creation,
    /// The cloud refuses to launch instances.
    Launch,
}

impl Refused {
    /// The reason of its Event.
    pub fn reason(self) -> &'static str {
        match self {
            Refused::Creation => "NodeClaimCreationFailed",
            Refused::Launch => "LaunchFailed",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Refused::Creation => "creating NodeClaims",
            Refused::Launch => "launching instances",
        }
    }
}

/// What is refused, for each NodePool.
#[derive(Default)]
pub struct Refusals(Mutex<BTreeMap<(Refused, String), Refusal>>);

struct Refusal {
    why: String,
    times: u64,
    since: Timestamp,
    last: Instant,
    reported: Instant,
}

impl Refusals {
    /// It was refused. Says whether to tell of it now.
    pub fn note(&self, what: Refused, pool: &str, why: &str, time: Timestamp) -> bool {
        let now = Instant::now();
        let mut all = lock(&self.0);
        let key = (what, pool.to_owned());
        let known = all
            .get_mut(&key)
            .filter(|known| now < known.last + REFUSAL_MEMORY);
        let Some(known) = known else {
            let begun = Refusal {
                why: why.to_owned(),
                times: 1,
                since: time,
                last: now,
                reported: now,
            };
            all.insert(key, begun);
            return true;
        };
        known.times += 1;
        known.last = now;
        why.clone_into(&mut known.why);
        let tells = now >= known.reported + REPORT_INTERVAL;
        if tells {
            known.reported = now;
        }
        tells
    }

    /// A request of this kind for a NodePool succeeded: its refusal is over.
    pub fn done(&self, what: Refused, pool: &str) {
        lock(&self.0).remove(&(what, pool.to_owned()));
    }

    /// A line of the status for each: what, for which NodePool, how often, since when and why.
    pub fn lines(&self) -> Vec<parts::Refusal> {
        let now = Instant::now();
        let mut all = lock(&self.0);
        all.retain(|_, known| now < known.last + REFUSAL_MEMORY);
        let line = |((what, pool), known): (&(Refused, String), &Refusal)| parts::Refusal {
            what: what.words().to_owned(),
            node_pool: pool.clone(),
            times: known.times,
            since: rfc3339(known.since),
            why: known.why.clone(),
        };
        all.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_told_of_when_it_begins_and_every_ten_minutes_until_it_is_over() {
        let refusals = Refusals::default();
        let time: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let note = || refusals.note(Refused::Launch, "web", "unauthorized", time);
        let mut reported = Vec::new();
        for minute in 0..25 {
            if note() {
                reported.push(minute);
            }
            tokio::time::advance(Duration::from_secs(60)).await;
        }
        assert_eq!(reported, [0, 10, 20]);
        let [line] = &refusals.lines()[..] else {
            panic!("one line")
        };
        assert_eq!(line.times, 25);
        assert_eq!(line.since, "2026-01-01T00:00:00Z");
        refusals.done(Refused::Launch, "web");
        assert!(refusals.lines().is_empty());
        assert!(note(), "it begins anew");
        tokio::time::advance(REFUSAL_MEMORY).await;
        assert!(refusals.lines().is_empty() && note());
    }
}

//! Freshness of the watches, and own writes that they have not brought back yet.
//!
//! No round is made while a watch lags behind an own write, is silent for 90 s, fails, or has to be
//! listed again. The answer of a write is folded into the state at once, so that no plan forgets it
//! meanwhile. Older versions of the same object that a watch brings later are ignored.
//!
//! Versions of objects are numbers that grow over all objects of a kind (Kubernetes promises that
//! since 1.35). A version that is no number says nothing here.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use longshore_api::kinds::ObjectKind;

/// What plans depend on most: a picture of these that is old buys twice.
const WATCHED: [ObjectKind; 3] = [ObjectKind::NodeClaim, ObjectKind::Node, ObjectKind::Pod];
/// A watch that has not brought an own write for so long is behind. An API server that is busy
/// takes up to 2.5 s.
const MAX_OWN_WRITE_LAG: Duration = Duration::from_secs(5);
/// The API server sends a bookmark every minute to a watch on which nothing happens; this leaves it
/// half as much again.
const MAX_WATCH_SILENCE: Duration = Duration::from_secs(90);
/// A watch on which something was heard this recently needs no proof before a purchase.
const RECENT_ENOUGH_TO_BUY: Duration = Duration::from_secs(5);
/// A watch has caught up this long after its silence ended.
const CATCH_UP_TIME: Duration = Duration::from_secs(1);

/// Something that this process has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnWrite {
    /// What kind of object.
    pub kind: ObjectKind,
    /// Its name, or `namespace/name`.
    pub name: String,
    /// `metadata.resourceVersion` that the write has left.
    pub version: u64,
    /// The object as it is now, as JSON; kept for NodeClaims alone.
    pub object: Option<Box<str>>,
}

/// An own write that its watch has not brought yet.
#[derive(Clone, Debug)]
struct Unseen {
    version: u64,
    since: Instant,
    object: Option<Box<str>>,
}

/// What was heard of the watch of one kind, and when.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    /// When the watch last brought anything.
    at: Option<Instant>,
    /// When the first event after a silence came. More of what happened meanwhile may follow it.
    resumed: Option<Instant>,
    /// The newest version that the watch has brought.
    version: u64,
    /// When the list that was read last, or is being read, began.
    list_began: Option<Instant>,
}

/// Why nothing may be planned now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stale {
    /// A watch has not brought what this process wrote.
    Behind {
        kind: ObjectKind,
        /// The written object, `name` or `namespace/name`.
        name: String,
    },
    /// Nothing was heard of a watch.
    Silent { kind: ObjectKind },
    /// The kind has to be listed again.
    Relisting { kind: ObjectKind },
}

impl std::fmt::Display for Stale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stale::Behind { kind, name } => {
                write!(
                    f,
                    "the watch of {} is behind: it has not brought {name} as it was written",
                    kind.at().plural
                )
            }
            Stale::Silent { kind } => {
                write!(
                    f,
                    "the watch of {} was silent for {} s, bookmarks included",
                    kind.at().plural,
                    MAX_WATCH_SILENCE.as_secs()
                )
            }
            Stale::Relisting { kind } => write!(f, "{} are being listed again", kind.at().plural),
        }
    }
}

/// All watches.
#[derive(Default)]
pub struct Freshness {
    heard: BTreeMap<ObjectKind, Heard>,
    unseen: BTreeMap<(ObjectKind, String), Unseen>,
    /// Kinds that are to be listed again, and whether that list has begun.
    relisting: BTreeMap<ObjectKind, bool>,
}

impl Freshness {
    /// A watch or a list brought something.
    pub fn heard(&mut self, kind: ObjectKind, now: Instant) {
        let heard = self.heard.entry(kind).or_default();
        if heard.at.is_none_or(|at| now >= at + RECENT_ENOUGH_TO_BUY) {
            heard.resumed = Some(now);
        }
        heard.at = Some(now);
    }

    /// A list begins. Whatever was wanted of one, this is it.
    pub fn list_begins(&mut self, kind: ObjectKind, now: Instant) {
        self.heard.entry(kind).or_default().list_began = Some(now);
        if let Some(begun) = self.relisting.get_mut(&kind) {
            *begun = true;
        }
    }

    /// Notes that a list is complete. It settles the request for one if it began after that.
    pub fn listed(&mut self, kind: ObjectKind) {
        // One that was under way when another was asked for does not count.
        if self.relisting.get(&kind) == Some(&true) {
            self.relisting.remove(&kind);
        }
    }

    /// A kind is to be listed again before anything is planned.
    pub fn relist(&mut self, kind: ObjectKind) {
        self.relisting.insert(kind, false);
    }

    /// Whether the last list of a kind began at `since` or later.
    pub fn was_listed_since(&self, kind: ObjectKind, since: Instant) -> bool {
        self.heard
            .get(&kind)
            .and_then(|heard| heard.list_began)
            .is_some_and(|began| began >= since)
    }

    /// A watch has brought everything up to a version, by a bookmark or a list.
    pub fn reached(&mut self, kind: ObjectKind, version: u64) {
        let heard = self.heard.entry(kind).or_default();
        // A list of an older version: the server was set back, and what was written is not there
        // any more.
        let set_back = version < heard.version;
        heard.version = version;
        self.unseen
            .retain(|(of, _), unseen| *of != kind || (unseen.version > version && !set_back));
    }

    /// This process wrote something. Says whether that is news to the watch.
    pub fn wrote(&mut self, write: &OwnWrite, now: Instant) -> bool {
        if self
            .heard
            .get(&write.kind)
            .is_some_and(|heard| heard.version >= write.version)
        {
            return false;
        }
        let unseen = Unseen {
            version: write.version,
            since: now,
            object: write.object.clone(),
        };
        let key = (write.kind, write.name.clone());
        match self.unseen.get(&key) {
            Some(known) if known.version >= write.version => false,
            Some(known) => {
                // It waits for as long as the first of them does.
                let since = known.since;
                self.unseen.insert(key, Unseen { since, ..unseen });
                true
            }
            None => {
                self.unseen.insert(key, unseen);
                true
            }
        }
    }

    /// A watch brings an object of this version. Says whether anything of its kind is awaited, so
    /// that its name matters.
    pub fn brought(&mut self, kind: ObjectKind, version: u64) -> bool {
        if let Some(heard) = self.heard.get_mut(&kind) {
            heard.version = heard.version.max(version);
        }
        self.unseen.keys().any(|(of, _)| *of == kind)
    }

    /// Whether an object that a watch brings is from before what this process wrote last. If not,
    /// the watch need not bring it. Objects that were not kept are taken in all the same: the state
    /// has nothing newer.
    pub fn is_older_than_own(&mut self, kind: ObjectKind, name: &str, version: u64) -> bool {
        let key = (kind, name.to_owned());
        match self.unseen.get(&key) {
            Some(unseen) if version < unseen.version => unseen.object.is_some(),
            Some(_) => {
                self.unseen.remove(&key);
                false
            }
            None => false,
        }
    }

    /// Written objects of a kind that no list can have yet; they exist all the same.
    pub fn unseen(&self, kind: ObjectKind) -> Vec<Box<str>> {
        let of = self.unseen.iter().filter(|((of, _), _)| *of == kind);
        of.filter_map(|(_, unseen)| unseen.object.clone()).collect()
    }

    /// Whether something was heard of a watch a moment ago, and it has caught up with what came
    /// before that.
    pub fn is_recent(&self, kind: ObjectKind, now: Instant) -> bool {
        let times = self
            .heard
            .get(&kind)
            .and_then(|heard| heard.at.zip(heard.resumed));
        times.is_some_and(|(at, resumed)| {
            now < at + RECENT_ENOUGH_TO_BUY && now >= resumed + CATCH_UP_TIME
        })
    }

    /// Why nothing may be planned, if so.
    pub fn stale(&self, now: Instant) -> Option<Stale> {
        if let Some((&kind, _)) = self.relisting.first_key_value() {
            return Some(Stale::Relisting { kind });
        }
        let behind = self
            .unseen
            .iter()
            .find(|(_, unseen)| now >= unseen.since + MAX_OWN_WRITE_LAG);
        if let Some(((kind, name), _)) = behind {
            return Some(Stale::Behind {
                kind: *kind,
                name: name.clone(),
            });
        }
        let silent = |kind: &ObjectKind| {
            self.heard
                .get(kind)
                .and_then(|heard| heard.at)
                .is_some_and(|at| now >= at + MAX_WATCH_SILENCE)
        };
        WATCHED
            .into_iter()
            .find(silent)
            .map(|kind| Stale::Silent { kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn claim(name: &str, version: u64) -> OwnWrite {
        OwnWrite {
            kind: ObjectKind::NodeClaim,
            name: name.into(),
            version,
            object: Some(format!("{name}@{version}").into()),
        }
    }

    #[test]
    fn an_own_write_is_awaited_for_a_while_and_then_the_watch_is_behind() {
        let now = Instant::now();
        let mut freshness = Freshness::default();
        freshness.heard(ObjectKind::NodeClaim, now);
        freshness.reached(ObjectKind::NodeClaim, 10);
        assert!(
            !freshness.wrote(&claim("old", 10), now),
            "the watch was faster than the answer"
        );
        assert!(freshness.wrote(&claim("a", 11), now));
        assert!(freshness.wrote(&claim("a", 13), now + seconds(4)));
        assert_eq!(freshness.stale(now + seconds(4)), None);
        let behind = Stale::Behind {
            kind: ObjectKind::NodeClaim,
            name: "a".into(),
        };
        assert_eq!(
            freshness.stale(now + seconds(5)),
            Some(behind),
            "since the first of the two writes"
        );
        assert!(freshness.is_older_than_own(ObjectKind::NodeClaim, "a", 11));
        assert!(!freshness.is_older_than_own(ObjectKind::NodeClaim, "a", 13));
        assert_eq!(freshness.stale(now + seconds(5)), None);
    }

    #[test]
    fn a_bookmark_or_a_list_tells_that_nothing_is_missing() {
        let now = Instant::now();
        let mut freshness = Freshness::default();
        freshness.wrote(&claim("a", 11), now);
        freshness.wrote(&claim("b", 15), now);
        freshness.reached(ObjectKind::Pod, 20);
        freshness.reached(ObjectKind::NodeClaim, 12);
        assert_eq!(
            freshness.unseen(ObjectKind::NodeClaim),
            [Box::from("b@15")],
            "versions of pods say nothing of NodeClaims"
        );
        freshness.reached(ObjectKind::NodeClaim, 7);
        assert!(
            freshness.unseen(ObjectKind::NodeClaim).is_empty(),
            "the server was set back to before it"
        );
    }

    #[test]
    fn a_watch_without_even_a_bookmark_for_a_minute_and_a_half_is_silent() {
        let now = Instant::now();
        let mut freshness = Freshness::default();
        for kind in ObjectKind::ALL {
            freshness.heard(kind, now);
        }
        assert_eq!(freshness.stale(now + seconds(89)), None);
        freshness.heard(ObjectKind::Pod, now + seconds(60));
        freshness.heard(ObjectKind::NodeClaim, now + seconds(60));
        assert_eq!(
            freshness.stale(now + seconds(90)),
            Some(Stale::Silent {
                kind: ObjectKind::Node
            })
        );
        freshness.heard(ObjectKind::Node, now + seconds(90));
        assert_eq!(
            freshness.stale(now + seconds(90)),
            None,
            "others, as of services, may be silent"
        );
        assert!(
            !freshness.is_recent(ObjectKind::Node, now + seconds(90)),
            "more of what it has missed may follow"
        );
        assert!(
            freshness.is_recent(ObjectKind::Node, now + seconds(94))
                && !freshness.is_recent(ObjectKind::Pod, now + seconds(94))
        );
    }

    #[test]
    fn a_kind_that_is_to_be_listed_again_is_waited_for() {
        let now = Instant::now();
        let mut freshness = Freshness::default();
        freshness.relist(ObjectKind::Node);
        freshness.listed(ObjectKind::Node);
        assert_eq!(
            freshness.stale(now),
            Some(Stale::Relisting {
                kind: ObjectKind::Node
            }),
            "that one began before"
        );
        freshness.list_begins(ObjectKind::Node, now + seconds(1));
        freshness.listed(ObjectKind::Node);
        assert_eq!(freshness.stale(now + seconds(1)), None);
        assert!(freshness.was_listed_since(ObjectKind::Node, now + seconds(1)));
        assert!(!freshness.was_listed_since(ObjectKind::Node, now + seconds(2)));
    }
}

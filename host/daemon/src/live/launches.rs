//! Whether a NodeClaim without a provider ID may own an instance.
//!
//! The answer of a launch can be lost, and a list of a cloud can lack what runs. A claim whose
//! launch may have succeeded is therefore let go only when the lists have lacked an instance for it
//! for [`UNLISTED`]. A claim whose launches were all refused, or that this process never tried to
//! launch, needs no such wait. That knowledge is kept in memory and holds for one term of
//! leadership; without it the claim waits.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use longshore_cloud::CloudError;
use tokio::time::Instant;

use super::lock::lock;

/// So long do lists have to lack an instance before there is none: longer than clouds are known to
/// list only a part.
pub const UNLISTED: Duration = Duration::from_secs(6 * 60);

/// What is known of launches in this term of leadership.
#[derive(Default)]
pub struct Launches(Mutex<Term>);

#[derive(Default)]
struct Term {
    /// When the term began.
    since: Option<Instant>,
    /// Claims that a launch was asked for, by UID.
    asked: BTreeMap<String, LaunchOutcome>,
    /// Since when the lists lack an instance, by the claim's UID.
    unlisted: BTreeMap<String, Instant>,
}

/// What came of the launches of one claim.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LaunchOutcome {
    /// All were refused.
    Refused,
    /// One has not been answered, or was answered by an error that says nothing.
    Unknown,
}

impl Term {
    fn is(&mut self, since: Instant) {
        if self.since != Some(since) {
            *self = Term {
                since: Some(since),
                ..Term::default()
            };
        }
    }
}

impl Launches {
    /// A launch is about to be asked for. `since` is when this process began to lead.
    pub fn ask(&self, uid: &str, since: Instant) -> Pending {
        let mut term = lock(&self.0);
        term.is(since);
        Pending(
            term.asked
                .insert(uid.to_owned(), LaunchOutcome::Unknown)
                .is_none_or(|before| before == LaunchOutcome::Refused),
        )
    }

    /// A launch was refused.
    pub fn refused(&self, uid: &str, pending: Pending, error: &CloudError) {
        let says_so = match error {
            CloudError::InsufficientCapacity(_)
            | CloudError::NodeClassNotReady(_)
            | CloudError::Throttled(_)
            | CloudError::Unauthorized(_)
            | CloudError::Invalid(_) => true,
            CloudError::NotFound(_) | CloudError::Other(_) => false,
        };
        if pending.0 && says_so {
            lock(&self.0)
                .asked
                .insert(uid.to_owned(), LaunchOutcome::Refused);
        }
    }

    /// A list of the cloud lacks an instance for a claim. Returns how much longer lists have to
    /// lack it before the claim may be let go; nothing if that is long enough. `young` says that
    /// the claim was made in this term.
    pub fn unlisted(
        &self,
        uid: &str,
        young: bool,
        since: Instant,
        now: Instant,
    ) -> Option<Duration> {
        let mut term = lock(&self.0);
        term.is(since);
        let never = match term.asked.get(uid) {
            None => young,
            Some(asked) => young && *asked == LaunchOutcome::Refused,
        };
        if never {
            return None;
        }
        let first = *term.unlisted.entry(uid.to_owned()).or_insert(now);
        Some(UNLISTED.saturating_sub(now.duration_since(first))).filter(|left| !left.is_zero())
    }

    /// Forgets a claim: its instance is known, or it is let go.
    pub fn forget(&self, uid: &str) {
        let mut term = lock(&self.0);
        term.asked.remove(uid);
        term.unlisted.remove(uid);
    }
}

/// A launch that is being asked for: whether all launches before it were refused.
pub struct Pending(bool);

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(launches: &Launches, since: Instant, error: &CloudError) {
        let pending = launches.ask("u", since);
        launches.refused("u", pending, error);
    }

    #[test]
    fn a_claim_waits_unless_no_launch_can_have_succeeded() {
        let since = Instant::now();
        let full = || CloudError::Invalid("no such image".into());
        let lost = || CloudError::Other("connection reset".into());
        let launches = Launches::default();
        assert_eq!(
            launches.unlisted("u", true, since, since),
            None,
            "never asked for"
        );
        assert_eq!(
            launches.unlisted("old", false, since, since),
            Some(UNLISTED),
            "another process may have asked"
        );
        refused(&launches, since, &full());
        assert_eq!(launches.unlisted("u", true, since, since), None, "refused");
        refused(&launches, since, &lost());
        refused(&launches, since, &full());
        assert_eq!(
            launches.unlisted("u", true, since, since),
            Some(UNLISTED),
            "the second one may have succeeded"
        );
    }

    #[test]
    fn lists_have_to_lack_it_for_long_and_from_the_start_in_every_term() {
        let since = Instant::now();
        let minutes = |minutes: u64| since + Duration::from_secs(60 * minutes);
        let launches = Launches::default();
        drop(launches.ask("u", since));
        assert_eq!(
            launches.unlisted("u", true, since, minutes(1)),
            Some(UNLISTED)
        );
        assert_eq!(
            launches.unlisted("u", true, since, minutes(6)),
            Some(Duration::from_secs(60))
        );
        assert_eq!(launches.unlisted("u", true, since, minutes(7)), None);
        assert_eq!(
            launches.unlisted("u", false, minutes(8), minutes(9)),
            Some(UNLISTED),
            "a new term"
        );
    }
}

//! Whether a NodeClaim without a provider ID may own an instance.
//!
//! The answer of a launch can be lost, and a cloud's list can lack a running instance. So a claim
//! whose launch may have succeeded is released only after lists have lacked its instance for
//! [`MAX_LISTING_DELAY`]. A claim without a launch, or with refused launches alone, is released at
//! once. Only the process that wrote the claim or its finalizer knows that, in memory and for one
//! term of leadership. Without that knowledge the claim waits.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use longshore_cloud::CloudError;
use tokio::time::Instant;

use crate::process::lock::lock;

/// So long do lists have to lack an instance before there is none: longer than clouds are known to
/// list only a part.
pub const MAX_LISTING_DELAY: Duration = Duration::from_secs(6 * 60);

/// What is known of launches in this term of leadership.
#[derive(Default)]
pub struct Launches(Mutex<Term>);

#[derive(Default)]
struct Term {
    /// When this replica was elected. `None` before.
    since: Option<Instant>,
    /// Whether no launch can have succeeded, by the claim's UID.
    sure: BTreeMap<String, bool>,
    /// Since when the lists lack an instance, by the claim's UID.
    unlisted: BTreeMap<String, Instant>,
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

/// A launch that is being asked for: whether no launch before it can have succeeded.
pub struct Pending(bool);

impl Launches {
    /// This process has written a claim, or its finalizer: nothing was launched for it before.
    /// `since` is when the process began to lead.
    pub fn made(&self, uid: &str, since: Instant) {
        let mut term = lock(&self.0);
        term.is(since);
        term.sure.entry(uid.to_owned()).or_insert(true);
    }

    /// A launch is about to be asked for.
    pub fn ask(&self, uid: &str, since: Instant) -> Pending {
        let mut term = lock(&self.0);
        term.is(since);
        Pending(term.sure.insert(uid.to_owned(), false).unwrap_or(false))
    }

    /// Notes that a launch has failed, and whether an instance may exist all the same.
    pub fn failed(&self, uid: &str, pending: Pending, error: &CloudError) {
        let refused = match error {
            CloudError::InsufficientCapacity(_)
            | CloudError::NodeClassNotReady(_)
            | CloudError::Throttled(_)
            | CloudError::Unauthorized(_)
            | CloudError::Invalid(_) => true,
            CloudError::NotFound(_) | CloudError::Other(_) => false,
        };
        if refused {
            self.none_made(uid, pending);
        }
    }

    /// A launch has made nothing, and never will.
    pub fn none_made(&self, uid: &str, pending: Pending) {
        if pending.0 {
            lock(&self.0).sure.insert(uid.to_owned(), true);
        }
    }

    /// Whether no launch of a claim can have made an instance: nothing has to be asked of the cloud.
    pub fn is_none_made(&self, uid: &str, since: Instant) -> bool {
        let mut term = lock(&self.0);
        term.is(since);
        term.sure.get(uid) == Some(&true)
    }

    /// A list of the cloud lacks an instance for a claim. Returns how much longer lists have to lack
    /// it before the claim may be released; nothing if that is long enough.
    pub fn unlisted(&self, uid: &str, since: Instant, now: Instant) -> Option<Duration> {
        let mut term = lock(&self.0);
        term.is(since);
        if term.sure.get(uid) == Some(&true) {
            return None;
        }
        let first = *term.unlisted.entry(uid.to_owned()).or_insert(now);
        Some(MAX_LISTING_DELAY.saturating_sub(now.duration_since(first)))
            .filter(|left| !left.is_zero())
    }

    /// Forgets a claim: its instance is known, or it is released.
    pub fn forget(&self, uid: &str) {
        let mut term = lock(&self.0);
        term.sure.remove(uid);
        term.unlisted.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(launches: &Launches, since: Instant, error: &CloudError) {
        let pending = launches.ask("u", since);
        launches.failed("u", pending, error);
    }

    #[test]
    fn a_claim_waits_unless_no_launch_can_have_succeeded() {
        let since = Instant::now();
        let refused = || CloudError::Invalid("no such image".into());
        let lost = || CloudError::Other("connection reset".into());
        let launches = Launches::default();
        assert_eq!(
            launches.unlisted("old", since, since),
            Some(MAX_LISTING_DELAY),
            "another process may have asked"
        );
        launches.made("u", since);
        assert!(launches.is_none_made("u", since));
        assert_eq!(
            launches.unlisted("u", since, since),
            None,
            "never asked for"
        );
        fails(&launches, since, &refused());
        assert_eq!(launches.unlisted("u", since, since), None, "refused");
        fails(&launches, since, &lost());
        fails(&launches, since, &refused());
        assert_eq!(
            launches.unlisted("u", since, since),
            Some(MAX_LISTING_DELAY),
            "the second one may have succeeded"
        );
        assert!(!launches.is_none_made("u", since));
    }

    #[test]
    fn lists_have_to_lack_it_for_long_and_from_the_start_in_every_term() {
        let since = Instant::now();
        let minutes = |minutes: u64| since + Duration::from_secs(60 * minutes);
        let launches = Launches::default();
        launches.made("u", since);
        let _ = launches.ask("u", since);
        assert_eq!(
            launches.unlisted("u", since, minutes(1)),
            Some(MAX_LISTING_DELAY)
        );
        assert_eq!(
            launches.unlisted("u", since, minutes(6)),
            Some(Duration::from_secs(60))
        );
        assert_eq!(launches.unlisted("u", since, minutes(7)), None);
        assert_eq!(
            launches.unlisted("u", minutes(8), minutes(9)),
            Some(MAX_LISTING_DELAY),
            "a new term"
        );
    }
}

//! Backoff of launches after the cloud refused one.
//!
//! A refusal that concerns the account or the node class (throttled, unauthorized) delays all
//! launches of that class. Any other refusal delays its own NodeClaim. The backoff is kept in
//! memory only; a new process tries once more.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use longshore_cloud::{CloudError, Launch};
use tokio::time::Instant;

use crate::process::backoff::back_off;
use crate::process::lock::lock;

/// What is held up: the node class, by kind and name, or a NodeClaim, by UID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Class(String, String),
    Claim(String),
}

#[derive(Clone, Copy)]
struct Pause {
    until: Instant,
    failures: u32,
}

/// Which launches have to wait.
#[derive(Default)]
pub struct LaunchBackoff(Mutex<BTreeMap<Scope, Pause>>);

/// How long an expired backoff is kept.
const EXPIRED_MEMORY: Duration = Duration::from_secs(10 * 60);

impl LaunchBackoff {
    /// How much longer a launch has to wait, if it has to.
    pub fn left(&self, launch: &Launch, now: Instant) -> Option<Duration> {
        let pauses = lock(&self.0);
        let until = scopes(launch)
            .iter()
            .filter_map(|scope| pauses.get(scope))
            .map(|pause| pause.until)
            .max()?;
        Some(until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// A launch that was asked for at `asked` has failed. Returns how long it has to wait.
    pub fn failed(
        &self,
        launch: &Launch,
        error: &CloudError,
        asked: Instant,
        now: Instant,
    ) -> Duration {
        let mut pauses = lock(&self.0);
        pauses.retain(|_, pause| now < pause.until + EXPIRED_MEMORY);
        let [class, claim] = scopes(launch);
        let scope = match error {
            CloudError::Throttled(_) | CloudError::Unauthorized(_) => class,
            _ => claim,
        };
        let pause = pauses.entry(scope).or_insert(Pause {
            until: asked,
            failures: 0,
        });
        // Only the first of several concurrent launches counts, because they fail for the same
        // reason.
        if asked >= pause.until {
            pause.failures += 1;
            pause.until = now + back_off(pause.failures);
        }
        pause.until.saturating_duration_since(now).max(back_off(1))
    }

    /// A launch has succeeded: its class is well.
    pub fn succeeded(&self, launch: &Launch) {
        let mut pauses = lock(&self.0);
        scopes(launch)
            .iter()
            .for_each(|scope| _ = pauses.remove(scope));
    }
}

fn scopes(launch: &Launch) -> [Scope; 2] {
    [
        Scope::Class(launch.class_kind.clone(), launch.class_name.clone()),
        Scope::Claim(launch.uid.clone()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(uid: &str, class: &str) -> Launch {
        Launch {
            uid: uid.into(),
            class_kind: "KWOKNodeClass".into(),
            class_name: class.into(),
            ..Launch::default()
        }
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_cloud_that_throttles_holds_up_its_class_and_each_time_longer() {
        let now = Instant::now();
        let backoff = LaunchBackoff::default();
        let throttled = CloudError::Throttled("slow down".into());
        for uid in ["a", "b", "c"] {
            assert_eq!(
                backoff.failed(&launch(uid, "web"), &throttled, now, now),
                seconds(1),
                "all were under way"
            );
        }
        assert_eq!(backoff.left(&launch("d", "web"), now), Some(seconds(1)));
        assert_eq!(backoff.left(&launch("d", "db"), now), None, "another class");
        let now = now + seconds(1);
        assert_eq!(backoff.left(&launch("d", "web"), now), None);
        assert_eq!(
            backoff.failed(&launch("d", "web"), &throttled, now, now),
            seconds(2)
        );
        backoff.succeeded(&launch("d", "web"));
        assert_eq!(backoff.left(&launch("e", "web"), now), None);
    }

    #[test]
    fn an_error_of_a_launch_holds_up_that_launch_alone_and_a_minute_at_most() {
        let mut now = Instant::now();
        let backoff = LaunchBackoff::default();
        let other = CloudError::Other("no network".into());
        let waits = (0..8).map(|_| {
            let wait = backoff.failed(&launch("a", "web"), &other, now, now);
            now += wait;
            wait.as_secs()
        });
        assert_eq!(waits.collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.left(&launch("b", "web"), now - seconds(1)), None);
    }
}

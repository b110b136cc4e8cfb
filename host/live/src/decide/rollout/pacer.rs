//! How long kube-scheduler needs to hear of nominations.
//!
//! Nominations and nodes reach it by two watches. If a node registers before its nominations
//! arrive, other pods take its room.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Assumed time of kube-scheduler per nomination: it looks at every pending pod for each.
const SCHEDULER_TIME_PER_NOMINATION: Duration = Duration::from_millis(2);
/// Assumed time of kube-scheduler until it hears of the first nomination.
const SCHEDULER_TIME_FOR_FIRST: Duration = Duration::from_millis(300);

/// Nominations on their way to kube-scheduler.
#[derive(Default)]
pub struct Pacer {
    /// Nominations that are being written, and the claim whose node waits for them.
    writing: BTreeMap<String, String>,
    /// How many of them each claim waits for.
    awaited: BTreeMap<String, usize>,
    /// When kube-scheduler has heard of all that were written.
    heard: Option<Instant>,
}

impl Pacer {
    /// The nomination of a pod is being written; a claim's node waits for it.
    pub fn begins(&mut self, pod: &str, claim: &str) {
        if self
            .writing
            .insert(pod.to_owned(), claim.to_owned())
            .is_none()
        {
            *self.awaited.entry(claim.to_owned()).or_default() += 1;
        }
    }

    /// The nomination of a pod was written, or refused. Returns the claim that waits for no other.
    pub fn written(&mut self, pod: &str, now: Instant) -> Option<String> {
        let claim = self.writing.remove(pod)?;
        self.heard = Some(
            self.heard
                .unwrap_or(now)
                .max(now + SCHEDULER_TIME_FOR_FIRST)
                + SCHEDULER_TIME_PER_NOMINATION,
        );
        let left = self.awaited.get_mut(&claim)?;
        *left -= 1;
        if *left > 0 {
            return None;
        }
        self.awaited.remove(&claim);
        Some(claim)
    }

    /// Whether nominations of a claim's node are still being written.
    pub fn is_writing(&self, claim: &str) -> bool {
        self.awaited.contains_key(claim)
    }

    /// How much longer the registration of a node should wait.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.heard?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_waits_until_its_nominations_are_written_and_then_for_kube_scheduler() {
        let now = Instant::now();
        let mut pacer = Pacer::default();
        assert_eq!(pacer.written("a", now), None, "no claim waits for it");
        assert_eq!(pacer.left(now), None);
        pacer.begins("a", "n");
        pacer.begins("b", "n");
        pacer.begins("b", "n");
        pacer.begins("c", "m");
        assert_eq!(pacer.written("a", now), None);
        assert_eq!(pacer.written("c", now), Some("m".to_owned()));
        assert!(pacer.is_writing("n") && !pacer.is_writing("m"));
        assert_eq!(pacer.written("b", now), Some("n".to_owned()));
        assert!(!pacer.is_writing("n"));
        assert_eq!(
            pacer.left(now),
            Some(SCHEDULER_TIME_FOR_FIRST + 3 * SCHEDULER_TIME_PER_NOMINATION)
        );
        assert_eq!(
            pacer.left(now + SCHEDULER_TIME_FOR_FIRST + 3 * SCHEDULER_TIME_PER_NOMINATION),
            None
        );
    }
}

//! Writes `status.lastPodEventTime` of claims when pods are bound to their nodes or leave.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// So long after the first pod, with the time of the last: while nodes fill up, kube-apiserver has
/// other things to do.
const WRITE_DELAY: Duration = Duration::from_secs(10);

/// Nodes whose pods have changed.
#[derive(Debug, Default)]
pub struct LastPodEvents {
    /// When pods of a node changed last. Its claim says so up to [`WRITE_DELAY`] afterwards.
    last: BTreeMap<String, Instant>,
    /// When it is due, and the time to write.
    of: BTreeMap<String, (Instant, String)>,
    /// The first of those dates.
    first: Option<Instant>,
}

impl LastPodEvents {
    /// A pod was bound to a node or left it at `time`.
    pub fn note(&mut self, node: String, time: String, now: Instant) {
        let due = now + WRITE_DELAY;
        self.last.insert(node.clone(), now);
        self.of
            .entry(node)
            .or_insert_with(|| (due, String::new()))
            .1 = time;
        self.first = Some(self.first.map_or(due, |first| first.min(due)));
    }

    /// A node is gone: no claim is updated.
    pub fn forget(&mut self, node: &str) {
        self.of.remove(node);
        self.last.remove(node);
    }

    /// When pods of a node changed last, as this process has seen it.
    pub fn last(&self, node: &str) -> Option<Instant> {
        self.last.get(node).copied()
    }

    /// Number of nodes whose claims are to be updated.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// When the next claim is due.
    pub fn next(&self) -> Option<Instant> {
        self.first
    }

    /// Nodes whose claims are due now, with the time to write. They are forgotten.
    pub fn due(&mut self, now: Instant) -> Vec<(String, String)> {
        if self.first.is_none_or(|first| first > now) {
            return Vec::new();
        }
        let due = self.of.extract_if(.., |_, (due, _)| *due <= now);
        let due = due.map(|(node, (_, time))| (node, time)).collect();
        self.first = self.of.values().map(|(due, _)| *due).min();
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due_text(events: &mut LastPodEvents, now: Instant) -> String {
        let due: Vec<String> = events
            .due(now)
            .into_iter()
            .map(|(node, time)| format!("{node} at {time}"))
            .collect();
        due.join(", ")
    }

    #[test]
    fn many_pods_are_one_write_with_the_time_of_the_last() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut events = LastPodEvents::default();
        assert_eq!(events.next(), None);
        events.note("a".into(), "0 s".into(), start);
        events.note("b".into(), "1 s".into(), start + second);
        events.note("a".into(), "9 s".into(), start + 9 * second);
        assert_eq!(events.next(), Some(start + WRITE_DELAY));
        assert_eq!(due_text(&mut events, start + 9 * second), "");
        assert_eq!(due_text(&mut events, start + WRITE_DELAY), "a at 9 s");
        assert_eq!(events.last("a"), Some(start + 9 * second));
        assert_eq!(events.next(), Some(start + second + WRITE_DELAY));
        assert_eq!(due_text(&mut events, start + 20 * second), "b at 1 s");
        assert_eq!(
            (events.next(), due_text(&mut events, start + 99 * second)),
            (None, String::new())
        );
        events.forget("a");
        assert_eq!(events.last("a"), None);
    }
}

//! One queue of due events for all actors. Ties are in the order of insertion.

use std::collections::BTreeMap;
use std::time::Duration;

/// Things to do by time since the world began.
#[derive(Debug)]
pub struct EventQueue<W> {
    due: BTreeMap<(Duration, u64), (W, bool)>,
    /// What is asked for once however often it is asked for.
    once: BTreeMap<W, (Duration, u64)>,
    asked: u64,
}

impl<W> Default for EventQueue<W> {
    fn default() -> Self {
        EventQueue {
            due: BTreeMap::new(),
            once: BTreeMap::new(),
            asked: 0,
        }
    }
}

impl<W: Ord + Clone> EventQueue<W> {
    /// Asks for something at a time.
    pub fn at(&mut self, time: Duration, work: W) {
        self.asked += 1;
        self.due.insert((time, self.asked), (work, false));
    }

    /// Asks for something at a time, unless it has been asked for in this way, is due no later, and
    /// is not done yet.
    pub fn once(&mut self, time: Duration, work: W) {
        match self.once.get(&work) {
            Some(place) if place.0 <= time => return,
            Some(place) => drop(self.due.remove(place)),
            None => {}
        }
        self.asked += 1;
        self.once.insert(work.clone(), (time, self.asked));
        self.due.insert((time, self.asked), (work, true));
    }

    /// When the next thing is due.
    pub fn next(&self) -> Option<Duration> {
        self.due.first_key_value().map(|((time, _), _)| *time)
    }

    /// The next thing that is due by now.
    pub fn take(&mut self, now: Duration) -> Option<W> {
        let entry = self.due.first_entry().filter(|e| e.key().0 <= now)?;
        let (work, once) = entry.remove();
        if once {
            self.once.remove(&work);
        }
        Some(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_in_order_of_time_and_then_of_asking() {
        let mut agenda = EventQueue::default();
        let at = Duration::from_secs;
        agenda.at(at(2), "c");
        agenda.at(at(1), "b");
        agenda.at(at(1), "a");
        agenda.once(at(3), "once");
        agenda.once(at(1), "once");
        agenda.once(at(2), "once");
        let taken: Vec<&str> = std::iter::from_fn(|| agenda.take(at(1))).collect();
        assert_eq!(taken, ["b", "a", "once"]);
        agenda.once(at(2), "once");
        assert_eq!(agenda.next(), Some(at(2)));
        assert_eq!(
            std::iter::from_fn(|| agenda.take(at(9))).collect::<Vec<_>>(),
            ["c", "once"]
        );
    }
}

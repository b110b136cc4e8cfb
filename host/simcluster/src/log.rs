//! The log of a world, line by line, for people and for comparing runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Clock;

/// A log that all parts of a world write into. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<(Duration, String)>>>);

impl Log {
    /// Adds a line.
    pub fn say(&self, clock: Clock, line: String) {
        self.lines_mut().push((clock.elapsed(), line));
    }

    /// All lines with the time since the world began.
    pub fn lines(&self) -> Vec<(Duration, String)> {
        self.lines_mut().clone()
    }

    /// Lines after the first `seen`.
    pub fn since(&self, seen: usize) -> Vec<(Duration, String)> {
        self.lines_mut()
            .get(seen..)
            .map(<[_]>::to_vec)
            .unwrap_or_default()
    }

    /// All lines as text, each with its time (`00:01:30.250 node-1 is ready`).
    pub fn text(&self) -> String {
        let lines = self.lines_mut();
        lines
            .iter()
            .map(|(at, line)| format!("{} {line}\n", clock_text(*at)))
            .collect()
    }

    fn lines_mut(&self) -> std::sync::MutexGuard<'_, Vec<(Duration, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `hh:mm:ss.mmm`.
pub fn clock_text(at: Duration) -> String {
    let seconds = at.as_secs();
    format!(
        "{:02}:{:02}:{:02}.{:03}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        at.subsec_millis()
    )
}

//! How long each object has been suspected of being garbage.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Between the first sighting and the one that counts; passes are as far apart.
pub const MIN_PASS_INTERVAL: Duration = Duration::from_secs(120);
/// Sightings from before a longer pause, in which another replica led, say nothing.
const SIGHTING_LIFETIME: Duration = Duration::from_secs(360);

/// Suspects, and since when they are in every pass.
#[derive(Default)]
pub struct Sightings {
    since: BTreeMap<String, Instant>,
    last: Option<Instant>,
}

impl Sightings {
    /// Notes the suspects of a pass. Returns those that are suspect for an interval.
    pub fn seen<'a>(
        &mut self,
        suspects: impl Iterator<Item = &'a str>,
        now: Instant,
    ) -> Vec<String> {
        if self
            .last
            .is_some_and(|last| now.duration_since(last) > SIGHTING_LIFETIME)
        {
            self.since.clear();
        }
        self.last = Some(now);
        let before = std::mem::take(&mut self.since);
        self.since = suspects
            .map(|id| (id.to_owned(), before.get(id).copied().unwrap_or(now)))
            .collect();
        let due = self
            .since
            .iter()
            .filter(|(_, since)| now.duration_since(**since) >= MIN_PASS_INTERVAL);
        due.map(|(id, _)| id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_suspect_twice_an_interval_apart_is_due() {
        let start = Instant::now();
        let mut sightings = Sightings::default();
        let mut pass = |at: u64, ids: &[&str]| {
            sightings
                .seen(ids.iter().copied(), start + Duration::from_secs(at))
                .join(" ")
        };
        assert_eq!(pass(0, &["a", "b"]), "");
        assert_eq!(pass(60, &["a", "b"]), "", "too soon");
        assert_eq!(pass(120, &["a", "c"]), "a");
        assert_eq!(pass(240, &["a", "b", "c"]), "a c", "b was well in between");
        assert_eq!(pass(700, &["a", "b", "c"]), "", "nobody looked for long");
    }
}

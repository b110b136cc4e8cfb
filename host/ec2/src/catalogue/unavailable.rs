//! Offerings that lately had no capacity.
//!
//! EC2 answers a launch with "insufficient capacity" and says nothing when it is over, so an
//! offering is left out until a given second. Times are arguments: this module has no clock. Each
//! change gives the type a new sequence number, so that readers notice it.

use rustc_hash::FxHashMap;

/// What had no capacity, within one instance type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Short {
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: Box<str>,
    /// The zone.
    pub zone: Box<str>,
    /// The reservation, for `reserved`.
    pub reservation: Option<Box<str>>,
}

/// Everything that lately had no capacity.
#[derive(Clone, Debug, Default)]
pub struct Unavailable {
    by_type: FxHashMap<Box<str>, Entry>,
    sequence: u64,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    sequence: u64,
    /// With the second since 1970 until which each is left out.
    short: Vec<(Short, i64)>,
}

impl Unavailable {
    /// Leaves an offering out until a second since 1970. Marked again, it stays out for longer.
    pub fn mark(&mut self, instance_type: &str, short: Short, until: i64) {
        self.sequence += 1;
        let entry = self.by_type.entry(instance_type.into()).or_default();
        entry.sequence += 1;
        match entry.short.iter_mut().find(|(other, _)| *other == short) {
            Some((_, end)) => *end = until.max(*end),
            None => entry.short.push((short, until)),
        }
    }

    /// Lets everything back in whose time is over at `now`.
    pub fn expire(&mut self, now: i64) {
        for entry in self.by_type.values_mut() {
            let before = entry.short.len();
            entry.short.retain(|(_, until)| *until > now);
            if entry.short.len() != before {
                entry.sequence += 1;
                self.sequence += 1;
            }
        }
    }

    /// Whether an offering is left out.
    pub fn contains(
        &self,
        instance_type: &str,
        capacity_type: &str,
        zone: &str,
        reservation: Option<&str>,
    ) -> bool {
        self.of(instance_type).any(|short| {
            &*short.capacity_type == capacity_type
                && &*short.zone == zone
                && short.reservation.as_deref() == reservation
        })
    }

    /// What is left out of a type.
    pub fn of(&self, instance_type: &str) -> impl Iterator<Item = &Short> {
        let entry = self.by_type.get(instance_type);
        entry
            .into_iter()
            .flat_map(|entry| entry.short.iter().map(|(short, _)| short))
    }

    /// Grows with every change of a type.
    pub fn sequence_of(&self, instance_type: &str) -> u64 {
        self.by_type
            .get(instance_type)
            .map_or(0, |entry| entry.sequence)
    }

    /// Grows with every change.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_comes_back_after_its_time_and_each_change_is_numbered() {
        let spot = Short {
            capacity_type: "spot".into(),
            zone: "a".into(),
            reservation: None,
        };
        let mut all = Unavailable::default();
        let out = |all: &Unavailable| all.contains("m5.large", "spot", "a", None);
        all.mark("m5.large", spot.clone(), 100);
        all.mark("m5.large", spot, 50);
        assert!(out(&all), "marked");
        assert!(!all.contains("m5.large", "on-demand", "a", None));
        assert!(!all.contains("m5.xlarge", "spot", "a", None));
        assert_eq!(
            (all.sequence_of("m5.large"), all.sequence_of("m5.xlarge")),
            (2, 0)
        );
        all.expire(99);
        assert!(out(&all), "the longer time holds");
        assert_eq!(all.sequence(), 2, "nothing changed");
        all.expire(100);
        assert!(!out(&all), "its time is over");
        assert_eq!((all.sequence_of("m5.large"), all.sequence()), (3, 3));
    }
}

//! Offerings that lately had no capacity.
//!
//! EC2 answers a launch with "insufficient capacity" and says nothing when it is over, so an
//! offering is left out until a given second. Times are arguments: this module has no clock. Each
//! change gives the type a new sequence number, so that readers notice it.
//!
//! An answer concerns more or less than one offering:
//!
//! - a type in a zone, for one capacity type, and there possibly one reservation, one placement
//!   group or one partition of it ([`Short`]);
//! - a subnet without addresses: a zone is out for a NodeClass if all its subnets there are;
//! - a capacity type, if the account may not buy it at all.

use rustc_hash::FxHashMap;

/// What had no capacity, within one instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Short {
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: Box<str>,
    /// The zone's name.
    pub zone: Box<str>,
    /// The reservation, for `reserved`.
    pub reservation: Option<Box<str>>,
    /// The placement group. Launches outside of it are not concerned.
    pub group: Option<Box<str>>,
    /// The partition of the placement group, from 1; 0 for all of them.
    pub partition: i64,
}

/// An offering that may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: &'a str,
    /// The zone's name.
    pub zone: &'a str,
    /// The reservation, for `reserved`.
    pub reservation: Option<&'a str>,
    /// The placement group that it is launched in.
    pub group: Option<&'a str>,
    /// The partition of the placement group, from 1; 0 without partitions.
    pub partition: i64,
}

/// Everything that lately had no capacity. Numbers beside what is left out are the seconds since
/// 1970 until which it is.
#[derive(Clone, Debug, Default)]
pub struct Unavailable {
    by_type: FxHashMap<Box<str>, Entry>,
    subnets: FxHashMap<Box<str>, i64>,
    capacity_types: FxHashMap<Box<str>, i64>,
    /// Grows with every change that concerns all types.
    shared: u64,
    sequence: u64,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    sequence: u64,
    short: Vec<(Short, i64)>,
}

impl Short {
    /// Whether this leaves an offering out.
    fn concerns(&self, wanted: &Wanted<'_>) -> bool {
        let in_group = match &self.group {
            None => true,
            Some(group) => {
                Some(&**group) == wanted.group
                    && (self.partition == 0 || self.partition == wanted.partition)
            }
        };
        in_group
            && *self.capacity_type == *wanted.capacity_type
            && *self.zone == *wanted.zone
            && self.reservation.as_deref() == wanted.reservation
    }
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

    /// Leaves a subnet out: it has no free address.
    pub fn mark_subnet(&mut self, subnet: &str, until: i64) {
        extend(&mut self.subnets, subnet, until);
        self.shared += 1;
        self.sequence += 1;
    }

    /// Leaves a capacity type out, of all types in all zones: the account may not buy it.
    pub fn mark_capacity_type(&mut self, capacity_type: &str, until: i64) {
        extend(&mut self.capacity_types, capacity_type, until);
        self.shared += 1;
        self.sequence += 1;
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
        for all in [&mut self.subnets, &mut self.capacity_types] {
            let before = all.len();
            all.retain(|_, until| *until > now);
            if all.len() != before {
                self.shared += 1;
                self.sequence += 1;
            }
        }
    }

    /// Whether an offering of a type is left out. Subnets are asked for apart.
    pub fn contains(&self, instance_type: &str, wanted: &Wanted<'_>) -> bool {
        self.has_no(wanted.capacity_type)
            || self.of(instance_type).any(|short| short.concerns(wanted))
    }

    /// Whether a capacity type is left out altogether.
    pub fn has_no(&self, capacity_type: &str) -> bool {
        self.capacity_types.contains_key(capacity_type)
    }

    /// Whether any subnet is left out.
    pub fn any_subnet(&self) -> bool {
        !self.subnets.is_empty()
    }

    /// Whether a subnet is left out.
    pub fn is_full(&self, subnet: &str) -> bool {
        self.subnets.contains_key(subnet)
    }

    /// What is left out of a type.
    pub fn of(&self, instance_type: &str) -> impl Iterator<Item = &Short> {
        let entry = self.by_type.get(instance_type);
        entry
            .into_iter()
            .flat_map(|entry| entry.short.iter().map(|(short, _)| short))
    }

    /// Grows with every change that concerns a type.
    pub fn sequence_of(&self, instance_type: &str) -> u64 {
        let own = self.by_type.get(instance_type);
        self.shared + own.map_or(0, |entry| entry.sequence)
    }

    /// Grows with every change.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

fn extend(all: &mut FxHashMap<Box<str>, i64>, key: &str, until: i64) {
    let end = all.entry(key.into()).or_insert(until);
    *end = until.max(*end);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPOT: Wanted<'_> = Wanted {
        capacity_type: "spot",
        zone: "a",
        reservation: None,
        group: None,
        partition: 0,
    };

    fn spot() -> Short {
        Short {
            capacity_type: "spot".into(),
            zone: "a".into(),
            ..Short::default()
        }
    }

    #[test]
    fn what_is_short_comes_back_after_its_time_and_each_change_is_numbered() {
        let mut all = Unavailable::default();
        let out = |all: &Unavailable| all.contains("m5.large", &SPOT);
        all.mark("m5.large", spot(), 100);
        all.mark("m5.large", spot(), 50);
        assert!(out(&all), "marked");
        let on_demand = Wanted {
            capacity_type: "on-demand",
            ..SPOT
        };
        assert!(!all.contains("m5.large", &on_demand));
        assert!(!all.contains("m5.xlarge", &SPOT));
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

    #[test]
    fn what_is_short_in_a_placement_group_is_not_short_outside() {
        let within = |group, partition| Wanted {
            group: Some(group),
            partition,
            ..SPOT
        };
        let short = |group: &str, partition| Short {
            group: Some(group.into()),
            partition,
            ..spot()
        };
        let mut all = Unavailable::default();
        all.mark("m5.large", short("pg-1", 0), 100);
        all.mark("m5.large", short("pg-2", 3), 100);
        let out = |all: &Unavailable, wanted| all.contains("m5.large", &wanted);
        assert!(out(&all, within("pg-1", 0)) && out(&all, within("pg-1", 7)));
        assert!(out(&all, within("pg-2", 3)) && !out(&all, within("pg-2", 2)));
        assert!(!out(&all, within("pg-3", 0)) && !out(&all, SPOT));
        // What is short everywhere is short in a group as well.
        all.mark("m5.large", spot(), 100);
        assert!(out(&all, within("pg-3", 0)) && out(&all, SPOT));
    }

    #[test]
    fn a_subnet_and_a_capacity_type_concern_every_type() {
        let mut all = Unavailable::default();
        all.mark_subnet("subnet-1", 100);
        all.mark_subnet("subnet-1", 50);
        all.mark_capacity_type("spot", 60);
        assert!(all.is_full("subnet-1") && !all.is_full("subnet-2"));
        assert!(all.contains("m5.large", &SPOT));
        assert_eq!((all.sequence_of("m5.large"), all.sequence()), (3, 3));
        all.expire(60);
        assert!(all.is_full("subnet-1") && !all.contains("m5.large", &SPOT));
        all.expire(100);
        assert!(!all.is_full("subnet-1"));
        assert_eq!((all.sequence_of("m5.large"), all.sequence()), (5, 5));
    }
}

//! Which subnet of a zone an instance goes to: the one with the most addresses left, those of
//! launches in flight taken off.
//!
//! EC2 counts an address once the instance exists, and describes the subnet a little later. A launch
//! reserves the addresses that it may need in each subnet that it names, and gives back what it did
//! not use. A fresh description replaces the count.

use std::collections::HashMap;

use crate::records::SubnetFacts;

/// Free addresses by subnet.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    by_subnet: HashMap<String, Count>,
    /// Which description a count comes from.
    described: u64,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    free: i64,
    described: u64,
}

/// What a launch reserved: subnet, addresses of one instance, for how many instances, and which
/// description they were taken from.
pub type Reserved = Vec<(String, i64, i64, u64)>;

impl Addresses {
    /// Takes over a description of subnets.
    pub fn describe(&mut self, subnets: &[SubnetFacts]) {
        self.described += 1;
        for subnet in subnets {
            let count = Count {
                free: subnet.free,
                described: self.described,
            };
            self.by_subnet.insert(subnet.id.clone(), count);
        }
    }

    /// Free addresses of a subnet; nothing for one that was never described.
    pub fn free(&self, subnet: &str) -> Option<i64> {
        self.by_subnet.get(subnet).map(|count| count.free)
    }

    /// The subnet of `all` with the most free addresses; the first of equals. One that was never
    /// described counts as empty.
    pub fn widest<'a>(&self, all: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        let mut best: Option<(&str, i64)> = None;
        for id in all {
            let free = self.free(id).unwrap_or(0);
            if best.is_none_or(|(_, most)| free > most) {
                best = Some((id, free));
            }
        }
        best.map(|(id, _)| id)
    }

    /// Takes addresses for so many `instances` off each subnet: subnets and addresses of one
    /// instance. Each may be where all of them go.
    pub fn reserve(
        &mut self,
        instances: usize,
        subnets: impl Iterator<Item = (String, i64)>,
    ) -> Reserved {
        let instances = i64::try_from(instances).unwrap_or(i64::MAX);
        let mut taken = Reserved::new();
        for (id, each) in subnets {
            if let Some(count) = self.by_subnet.get_mut(&id) {
                count.free = count.free.saturating_sub(each.saturating_mul(instances));
                taken.push((id, each, instances, count.described));
            }
        }
        taken
    }

    /// Gives back what a launch did not use: all but those of its instances, whose subnets are
    /// `used`. What has been described since is right already.
    pub fn release(&mut self, reserved: Reserved, used: &[String]) {
        for (id, each, instances, described) in reserved {
            let here = used.iter().filter(|own| **own == id).count();
            let unused = instances.saturating_sub(i64::try_from(here).unwrap_or(i64::MAX));
            if let Some(count) = self.by_subnet.get_mut(&id)
                && count.described == described
            {
                let back = each.saturating_mul(unused);
                count.free = count.free.saturating_add(back);
            }
        }
    }

    /// EC2 says that a subnet has none.
    pub fn exhausted(&mut self, subnet: &str) {
        if let Some(count) = self.by_subnet.get_mut(subnet) {
            count.free = count.free.min(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(free: &[(&str, i64)]) -> Vec<SubnetFacts> {
        let subnet = |(id, free): &(&str, i64)| SubnetFacts {
            id: (*id).to_owned(),
            free: *free,
            ..SubnetFacts::default()
        };
        free.iter().map(subnet).collect()
    }

    #[test]
    fn the_widest_subnet_is_taken_and_launches_in_flight_count() {
        let mut all = Addresses::default();
        all.describe(&described(&[("a", 10), ("b", 12), ("c", 12)]));
        let widest = |all: &Addresses| all.widest(["a", "b", "c"].into_iter()).unwrap().to_owned();
        assert_eq!(widest(&all), "b", "the first of equals");
        let taken = all.reserve(
            1,
            [("b".to_owned(), 5), ("unknown".to_owned(), 5)].into_iter(),
        );
        assert_eq!(widest(&all), "c");
        all.release(taken, &[]);
        assert_eq!(widest(&all), "b", "given back");
        let taken = all.reserve(1, [("b".to_owned(), 5), ("c".to_owned(), 5)].into_iter());
        all.release(taken, &["b".to_owned()]);
        assert_eq!(
            (all.free("b"), all.free("c")),
            (Some(7), Some(12)),
            "b was used"
        );
        let taken = all.reserve(3, [("b".to_owned(), 2), ("c".to_owned(), 2)].into_iter());
        assert_eq!((all.free("b"), all.free("c")), (Some(1), Some(6)));
        all.release(taken, &["c", "b", "c"].map(str::to_owned));
        assert_eq!(
            (all.free("b"), all.free("c")),
            (Some(5), Some(8)),
            "three instances in two subnets"
        );
    }

    #[test]
    fn a_fresh_description_is_not_corrected() {
        let mut all = Addresses::default();
        all.describe(&described(&[("a", 10)]));
        let taken = all.reserve(1, [("a".to_owned(), 4)].into_iter());
        all.describe(&described(&[("a", 9)]));
        all.release(taken, &[]);
        assert_eq!(all.free("a"), Some(9));
        all.exhausted("a");
        assert_eq!(all.free("a"), Some(0));
    }

    #[test]
    fn without_subnets_there_is_none() {
        assert_eq!(Addresses::default().widest(std::iter::empty()), None);
        assert_eq!(Addresses::default().widest(["x"].into_iter()), Some("x"));
    }
}

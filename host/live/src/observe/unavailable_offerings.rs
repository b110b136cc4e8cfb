//! Offerings whose launch failed for lack of capacity. They are hidden from the planner for a
//! while, so that the cloud is not asked for the same again and again, and pods get the next best
//! offering at once.
//!
//! They are kept in memory only: a new process asks once more and is refused again. Each round's
//! record has the offerings that were hidden from it (`journal/round.rs`), so that it can be
//! planned again. EC2's provider remembers more, for as long (`ec2/src/catalogue/unavailable.rs`).

use std::collections::BTreeMap;
use std::sync::Mutex;

use longshore_cloud::{OfferingName, UNAVAILABLE_SECONDS};
use longshore_core::model::{Catalogue, OfferingId, Symbol, Symbols};

use crate::process::lock::lock;
use crate::status::parts::WithoutCapacity;
use longshore_report::messages::time_of_day;

/// What is short. One for the process.
#[derive(Default)]
pub struct UnavailableOfferings(Mutex<Shortages>);

#[derive(Default)]
struct Shortages {
    /// When each becomes available again, in seconds since 1970.
    until: BTreeMap<OfferingName, i64>,
    /// The last filtered catalogue: its number, the removed rows, and the result.
    made: Option<(u64, Vec<(OfferingId, i64)>, Catalogue)>,
}

/// What is short, in numbers and a few words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Number of offerings without capacity.
    pub offerings: usize,
    /// How many by capacity type and zone.
    pub by_place: BTreeMap<(String, String), usize>,
    /// When the first is asked for again, seconds since 1970.
    pub first: i64,
    pub last: i64,
    /// A few of them, `TYPE/ZONE/CAPACITY-TYPE`.
    pub some: Vec<String>,
}

/// Most offerings that are named.
const MAX_NAMED_OFFERINGS: usize = 10;

impl UnavailableOfferings {
    fn known(&self) -> std::sync::MutexGuard<'_, Shortages> {
        lock(&self.0)
    }

    /// Marks offerings as unavailable at `now` (seconds since 1970). Returns how many of them were
    /// available before.
    pub fn note(&self, offerings: &[OfferingName], now: i64) -> usize {
        let mut known = self.known();
        let until = now.saturating_add(UNAVAILABLE_SECONDS);
        let news = |offering: &&OfferingName| {
            known
                .until
                .insert((*offering).clone(), until)
                .is_none_or(|old| old <= now)
        };
        offerings.iter().filter(news).count()
    }

    /// The catalogue without what is short at `now`. `names` has its texts.
    pub fn without_unavailable(
        &self,
        catalogue: &Catalogue,
        names: &Symbols,
        now: i64,
    ) -> Catalogue {
        let mut known = self.known();
        known.forget(now);
        if known.until.is_empty() {
            known.made = None;
            return catalogue.clone();
        }
        let short = known.rows(catalogue, names);
        if let Some((number, rows, made)) = &known.made
            && *number == catalogue.number()
            && *rows == short
        {
            return made.clone();
        }
        let made = catalogue.without_capacity(&short);
        known.made = Some((catalogue.number(), short, made.clone()));
        made
    }

    /// What is short at `now`.
    pub fn summary(&self, now: i64) -> Summary {
        let mut known = self.known();
        known.forget(now);
        let mut summary = Summary {
            offerings: known.until.len(),
            first: known.until.values().copied().min().unwrap_or_default(),
            last: known.until.values().copied().max().unwrap_or_default(),
            ..Summary::default()
        };
        for OfferingName {
            instance_type,
            zone,
            capacity_type,
        } in known.until.keys()
        {
            *summary
                .by_place
                .entry((capacity_type.clone(), zone.clone()))
                .or_default() += 1;
            if summary.some.len() < MAX_NAMED_OFFERINGS {
                summary
                    .some
                    .push(format!("{instance_type}/{zone}/{capacity_type}"));
            }
        }
        summary
    }
}

impl Summary {
    /// For `longshore status`, where something is short.
    pub fn status(&self) -> Option<WithoutCapacity> {
        let time = |second| format!("{} UTC", time_of_day(second));
        (self.offerings > 0).then(|| WithoutCapacity {
            offerings: self.offerings,
            asked_again_from: time(self.first),
            asked_again_until: time(self.last),
            some: self.some.clone(),
        })
    }
}

impl Shortages {
    /// Drops expired entries.
    fn forget(&mut self, now: i64) {
        self.until.retain(|_, until| *until > now);
    }

    fn rows(&self, catalogue: &Catalogue, names: &Symbols) -> Vec<(OfferingId, i64)> {
        let mut by_type: BTreeMap<&str, Vec<(&str, &str, i64)>> = BTreeMap::new();
        for (name, until) in &self.until {
            by_type.entry(&name.instance_type).or_default().push((
                &name.zone,
                &name.capacity_type,
                *until,
            ));
        }
        let text = |sym: Option<Symbol>| sym.map_or("", |sym| names.text(sym));
        let of_type = |kind: &longshore_core::model::InstanceType| {
            let short = by_type
                .get(names.text(kind.name))
                .map_or(&[][..], Vec::as_slice);
            let until = |row: u32| {
                let offering = catalogue.offering(OfferingId(row));
                let (zone, capacity_type) = (text(offering.zone), text(offering.capacity_type));
                let found = short
                    .iter()
                    .find(|(z, c, _)| (*z, *c) == (zone, capacity_type))?;
                Some((OfferingId(row), found.2))
            };
            let rows = if short.is_empty() {
                0..0
            } else {
                kind.offerings.clone()
            };
            rows.filter_map(until).collect::<Vec<_>>()
        };
        catalogue.types().iter().flat_map(of_type).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(instance_type: &str, zone: &str, capacity_type: &str) -> OfferingName {
        let [instance_type, zone, capacity_type] =
            [instance_type, zone, capacity_type].map(str::to_owned);
        OfferingName {
            instance_type,
            zone,
            capacity_type,
        }
    }

    fn some() -> (Catalogue, Symbols) {
        let mut names = Symbols::default();
        let catalogue = longshore_kwok::catalogue::built_in(&mut names);
        (catalogue, names)
    }

    fn available(catalogue: &Catalogue) -> usize {
        catalogue
            .offerings()
            .iter()
            .filter(|offering| offering.available)
            .count()
    }

    #[test]
    fn what_could_not_be_had_is_not_offered_for_three_minutes() {
        let (catalogue, names) = some();
        let kind = names.text(catalogue.types()[0].name).to_owned();
        let shortages = UnavailableOfferings::default();
        let spot = name(&kind, "test-zone-a", "spot");
        assert_eq!(
            shortages.note(&[spot.clone(), name("gone", "test-zone-a", "spot")], 1000),
            2
        );
        assert_eq!(
            shortages.note(std::slice::from_ref(&spot), 1060),
            0,
            "no news, but later"
        );
        let left = shortages.without_unavailable(&catalogue, &names, 1100);
        assert_eq!(available(&left) + 1, available(&catalogue));
        assert_eq!(
            left.short()
                .iter()
                .map(|(_, until)| *until)
                .collect::<Vec<_>>(),
            [1240]
        );
        let again = shortages.without_unavailable(&catalogue, &names, 1100);
        assert_eq!(again.number(), left.number(), "made once");
        let summary = shortages.summary(1100);
        assert_eq!(
            (summary.offerings, summary.first, summary.last),
            (2, 1180, 1240)
        );
        assert_eq!(
            shortages
                .without_unavailable(&catalogue, &names, 1239)
                .number(),
            left.number()
        );
        assert_eq!(
            shortages
                .without_unavailable(&catalogue, &names, 1240)
                .number(),
            catalogue.number(),
            "offered again"
        );
        assert_eq!(shortages.summary(1240), Summary::default());
    }
}

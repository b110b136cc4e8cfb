//! Signals as columns of offerings.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Columns, Fixed};
use crate::signals::Signal;

/// Columns that are kept: as many as policies of a chain may read.
const MAX_KEPT: usize = 8;

/// Columns that were made last, by the values that they are made of and what stands for the unknown.
#[derive(Debug, Default)]
pub(crate) struct JoinedCache(Mutex<Vec<Joined>>);

#[derive(Debug)]
struct Joined {
    keys: Arc<[Arc<str>]>,
    values: Arc<[f64]>,
    otherwise: u64,
    column: Arc<[f64]>,
}

/// What is kept is no part of what columns are.
impl PartialEq for JoinedCache {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Columns {
    /// A signal as a column: the first that it has of `type/zone/capacity-type`, `type/zone`, `type`,
    /// zone and region, else `otherwise`.
    pub fn joined(&self, signal: Option<&Signal>, otherwise: f64) -> Arc<[f64]> {
        let Some(signal) = signal else {
            return std::iter::repeat_n(otherwise, self.count()).collect();
        };
        let cache = &self.fixed.joined.0;
        let mut kept = cache.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = |of: &Joined| {
            Arc::ptr_eq(&of.keys, &signal.keys)
                && Arc::ptr_eq(&of.values, &signal.values)
                && of.otherwise == otherwise.to_bits()
        };
        if let Some(known) = kept.iter().find(|of| is_known(of)) {
            return known.column.clone();
        }
        let column = self.fixed.join(signal, otherwise);
        kept.insert(
            0,
            Joined {
                keys: signal.keys.clone(),
                values: signal.values.clone(),
                otherwise: otherwise.to_bits(),
                column: column.clone(),
            },
        );
        kept.truncate(MAX_KEPT);
        column
    }
}

impl Fixed {
    fn join(&self, signal: &Signal, otherwise: f64) -> Arc<[f64]> {
        let places = self.zone_names.iter().map(|zone| {
            let known = signal.get(zone).or_else(|| signal.get(region(zone)));
            known.filter(|_| !zone.is_empty())
        });
        let places: Vec<Option<f64>> = places.collect();
        let types = self.instance_type_names.iter();
        let types: Vec<Option<f64>> = types.map(|name| signal.get(name)).collect();
        // Most tables have one kind of key; only types that have longer ones are looked up row by row.
        let mut longer: BTreeMap<&str, HashMap<&str, f64>> = BTreeMap::new();
        for (key, value) in signal.iter() {
            if let Some((name, rest)) = key.split_once('/') {
                longer.entry(name).or_default().insert(rest, value);
            }
        }
        let longer = self
            .instance_type_names
            .iter()
            .map(|name| longer.get(&**name));
        let longer: Vec<Option<&HashMap<&str, f64>>> = longer.collect();
        let mut key = String::new();
        let rows = self.instance_types.iter().zip(self.zones.iter());
        let rows = rows.zip(self.capacity_types.iter());
        let of_row = |((&of, &zone), &kind): ((&u32, &u32), &u32)| {
            let (of, zone) = (of as usize, zone as usize);
            let long = longer[of].and_then(|known| {
                key.clear();
                key.push_str(&self.zone_names[zone]);
                let end = key.len();
                key.push('/');
                key.push_str(&self.capacity_type_names[kind as usize]);
                let full = known.get(key.as_str());
                full.or_else(|| known.get(&key[..end])).copied()
            });
            long.or(types[of]).or(places[zone]).unwrap_or(otherwise)
        };
        rows.map(of_row).collect()
    }
}

/// The region of an AWS zone: `us-east-1a` is in `us-east-1`, `us-west-2-lax-1a` in `us-west-2`. A name
/// of another form is its own.
fn region(zone: &str) -> &str {
    let mut dashes = zone.match_indices('-').map(|(at, _)| at);
    let Some(number) = dashes.nth(1).map(|at| at + 1) else {
        return zone;
    };
    let digits = zone[number..].bytes().take_while(u8::is_ascii_digit);
    &zone[..number + digits.count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed() -> Fixed {
        let table = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
        Fixed {
            instance_type_names: table(&["m7g.large", "c7i.large"]),
            instance_types: [0, 0, 0, 1, 1].into(),
            zone_names: table(&["us-east-1a", "us-east-1b", ""]),
            zones: [0, 1, 1, 0, 2].into(),
            capacity_type_names: table(&["spot", "on-demand"]),
            capacity_types: [0, 0, 1, 0, 0].into(),
            ..Fixed::default()
        }
    }

    #[test]
    fn the_most_exact_key_counts() {
        let join = |rows: &[(&str, f64)]| {
            let rows = rows.iter().map(|(key, value)| ((*key).to_owned(), *value));
            fixed().join(&Signal::new(0.0, rows), -1.0).to_vec()
        };
        assert_eq!(
            join(&[
                ("m7g.large/us-east-1b/spot", 5.0),
                ("m7g.large/us-east-1b", 4.0),
                ("m7g.large", 3.0),
                ("us-east-1a", 2.0),
                ("us-east-1", 1.0),
            ]),
            [3.0, 5.0, 4.0, 2.0, -1.0]
        );
        assert_eq!(
            join(&[("us-east-1", 1.0)]),
            [1.0, 1.0, 1.0, 1.0, -1.0],
            "an offering without a zone is in no region"
        );
        assert_eq!(region("us-west-2-lax-1a"), "us-west-2");
        assert_eq!(region("rack-7"), "rack-7");
    }

    #[test]
    fn a_column_is_made_once_for_a_table() {
        let mut columns = Columns::empty();
        columns.fixed = Arc::new(fixed());
        let one = Signal::new(0.0, [("m7g.large".to_owned(), 3.0)]);
        let made = |signal: &Signal, otherwise| columns.joined(Some(signal), otherwise);
        let first = made(&one, f64::NAN);
        assert!(Arc::ptr_eq(&first, &made(&one, f64::NAN)));
        assert!(!Arc::ptr_eq(&first, &made(&one, 0.0)));
        let other = Signal::new(0.0, [("m7g.large".to_owned(), 4.0)]);
        assert_eq!(made(&other, 0.0)[0], 4.0);
    }
}

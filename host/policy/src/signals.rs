//! Signals: named tables of numbers with a time, fetched by the daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::call::answer::SignalUse;

/// A named table of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// When it was fetched, in seconds since 1970.
    pub time: f64,
    pub(crate) keys: Arc<[Arc<str>]>,
    pub(crate) values: Arc<[f64]>,
}

impl Signal {
    /// A table; keys are sorted here, and values that are not finite are left out.
    pub fn new(time: f64, rows: impl IntoIterator<Item = (String, f64)>) -> Self {
        let rows: BTreeMap<String, f64> = rows
            .into_iter()
            .filter(|(_, value)| value.is_finite())
            .collect();
        Signal {
            time,
            keys: rows.keys().map(|key| key.as_str().into()).collect(),
            values: rows.into_values().collect(),
        }
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.keys.len()
    }

    /// Its rows, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.keys
            .iter()
            .map(|key| &**key)
            .zip(self.values.iter().copied())
    }

    /// The value under `key`.
    pub fn get(&self, key: &str) -> Option<f64> {
        self.keys
            .binary_search_by(|have| (**have).cmp(key))
            .ok()
            .map(|at| self.values[at])
    }
}

/// All signals by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signals {
    /// Tables by the name of their signal.
    pub tables: BTreeMap<String, Signal>,
}

impl Signals {
    /// The table of that name.
    pub fn get(&self, name: &str) -> Option<&Signal> {
        self.tables.get(name)
    }
}

/// The signals that a policy declares, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeclaredSignals(BTreeMap<String, Declared>);

#[derive(Clone, Copy, Debug)]
struct Declared {
    required: bool,
    /// Seconds; 0 for any age.
    max_age: f64,
    /// Whether the operator lets the policy read it.
    granted: bool,
}

impl DeclaredSignals {
    /// What a policy says that it reads, and what of that it may; all if nothing is said.
    pub fn of(uses: &[SignalUse], granted: Option<&BTreeSet<String>>) -> Self {
        let declared = |of: &SignalUse| Declared {
            required: of.required,
            max_age: of.max_age,
            granted: granted.is_none_or(|names| names.contains(&of.name)),
        };
        let all = uses.iter().map(|of| (of.name.clone(), declared(of)));
        DeclaredSignals(all.collect())
    }

    /// Whether the policy may read a signal.
    pub fn may_read(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|declared| declared.granted)
    }

    /// A signal as the policy sees it at `now`: none if it may not read it, or it is too old.
    pub fn get<'a>(&self, name: &str, signals: &'a Signals, now: f64) -> Option<&'a Signal> {
        let declared = self.0.get(name).filter(|declared| declared.granted)?;
        let signal = signals.get(name)?;
        declared.too_old(signal, now).is_none().then_some(signal)
    }

    /// Why the policy cannot answer at `now`: a signal that it requires is not there, or too old.
    pub fn lacks(&self, signals: &Signals, now: f64) -> Option<String> {
        let mut required = self.0.iter().filter(|(_, declared)| declared.required);
        required.find_map(|(name, declared)| {
            let requires = format!("it requires the signal {name}, which");
            if !declared.granted {
                return Some(format!("{requires} `signals` of its entry does not have"));
            }
            let Some(signal) = signals.get(name) else {
                return Some(format!("{requires} is not there"));
            };
            let age = declared.too_old(signal, now)?;
            let most = declared.max_age;
            Some(format!("{requires} is {age:.0} s old, more than {most} s"))
        })
    }
}

impl Declared {
    /// The age of a signal if it is more than it may be. A time of 0 says nothing: that of a file which
    /// is given to `plan`.
    fn too_old(&self, signal: &Signal, now: f64) -> Option<f64> {
        let age = now - signal.time;
        let is_old = self.max_age > 0.0 && signal.time != 0.0 && age > self.max_age;
        is_old.then_some(age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(required: bool, max_age: f64, granted: bool) -> DeclaredSignals {
        let of = SignalUse {
            name: "carbon".to_owned(),
            required,
            max_age,
        };
        let none = BTreeSet::new();
        DeclaredSignals::of(&[of], (!granted).then_some(&none))
    }

    fn carbon(time: f64) -> Signals {
        let signal = Signal::new(time, [("us-east-1a".to_owned(), 379.5)]);
        Signals {
            tables: [("carbon".to_owned(), signal)].into(),
        }
    }

    #[test]
    fn a_signal_that_is_too_old_is_absent_and_any_age_is_any_age() {
        let sees = |max_age: f64, time: f64| {
            let declared = declared(false, max_age, true);
            assert_eq!(declared.lacks(&carbon(time), 10_000.0), None);
            declared.get("carbon", &carbon(time), 10_000.0).is_some()
        };
        assert!(sees(3_600.0, 6_400.0), "as old as it may be");
        assert!(!sees(3_600.0, 6_399.0));
        assert!(sees(0.0, 1.0));
        assert!(sees(3_600.0, 20_000.0), "from a clock that is ahead");
        assert!(sees(3_600.0, 0.0), "of a file, whose time is not known");
    }

    #[test]
    fn a_signal_that_is_required_and_is_not_to_be_had_is_named_with_its_age() {
        let lacks =
            |declared: &DeclaredSignals, signals: &Signals| declared.lacks(signals, 10_000.0);
        let required = declared(true, 3_600.0, true);
        assert_eq!(lacks(&required, &carbon(6_400.0)), None);
        assert_eq!(
            lacks(&required, &carbon(2_699.6)).unwrap(),
            "it requires the signal carbon, which is 7300 s old, more than 3600 s"
        );
        assert_eq!(
            lacks(&required, &Signals::default()).unwrap(),
            "it requires the signal carbon, which is not there"
        );
        let withheld = declared(true, 0.0, false);
        assert_eq!(
            lacks(&withheld, &carbon(9_999.0)).unwrap(),
            "it requires the signal carbon, which `signals` of its entry does not have"
        );
        assert!(withheld.get("carbon", &carbon(9_999.0), 10_000.0).is_none());
    }
}

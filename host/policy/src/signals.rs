//! Signals: named tables of numbers with a time, fetched by the daemon.

use std::collections::BTreeMap;
use std::sync::Arc;

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

//! Named tables of numbers that the host fetches, stamped with their time.

#[cfg(not(target_arch = "wasm32"))]
use crate::testing as host;
#[cfg(target_arch = "wasm32")]
use host_signals as host;

#[cfg(target_arch = "wasm32")]
mod host_signals {
    use crate::bindings::plugin::longshore::policy::signals;

    pub fn signal_keys(name: &str) -> Vec<String> {
        signals::keys(name)
    }

    pub fn signal_values(name: &str) -> Vec<f64> {
        signals::values(name)
    }

    pub fn signal_time(name: &str) -> f64 {
        signals::time(name)
    }
}

/// A table; sorted by key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signal {
    /// When it was fetched, in seconds since 1970.
    pub time: f64,
    keys: Vec<String>,
    values: Vec<f64>,
}

/// The table of that name, if the host has it.
pub fn get(name: &str) -> Option<Signal> {
    let time = host::signal_time(name);
    (!time.is_nan()).then(|| Signal {
        time,
        keys: host::signal_keys(name),
        values: host::signal_values(name),
    })
}

impl Signal {
    /// All values, in the order of their keys.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The value under `key`.
    pub fn value(&self, key: &str) -> Option<f64> {
        let at = self
            .keys
            .binary_search_by(|have| have.as_str().cmp(key))
            .ok()?;
        self.values.get(at).copied()
    }
}

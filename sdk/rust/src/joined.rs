//! Signals as columns of offerings.

#[cfg(target_arch = "wasm32")]
use crate::bindings::plugin::longshore::policy::joined as host;
#[cfg(not(target_arch = "wasm32"))]
use crate::testing::joined as host;

/// For each offering, the first that the table has of `type/zone/capacity-type`, `type/zone`, `type`,
/// zone and region; else nothing.
pub fn column(signal: &str) -> Vec<Option<f64>> {
    let known = |value: f64| (!value.is_nan()).then_some(value);
    host::column(signal, f64::NAN)
        .into_iter()
        .map(known)
        .collect()
}

/// The same with a number for what is not known: faster.
pub fn column_or(signal: &str, otherwise: f64) -> Vec<f64> {
    host::column(signal, otherwise)
}

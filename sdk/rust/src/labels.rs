//! Labels of offerings: what an instance type pins to one value, zone and capacity type. Static.

#[cfg(target_arch = "wasm32")]
use crate::bindings::plugin::longshore::policy::labels as host;
#[cfg(not(target_arch = "wasm32"))]
use crate::testing::labels as host;

/// All keys that any offering has, sorted.
pub fn keys() -> Vec<String> {
    host::keys()
}

/// Table: the values of a label; the empty string for none.
pub fn values(key: &str) -> Vec<String> {
    host::values(key)
}

/// Index into [`values`] of the same key, for each offering.
pub fn rows(key: &str) -> Vec<u32> {
    host::rows(key)
}

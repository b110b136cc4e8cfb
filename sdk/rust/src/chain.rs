//! What the policies before this one say of offerings.

#[cfg(target_arch = "wasm32")]
use crate::bindings::plugin::longshore::policy::chain as host;
#[cfg(not(target_arch = "wasm32"))]
use crate::testing as host;

/// What each offering costs by the policy before this one, in USD per hour; the list price for the
/// first. Infinite where it is excluded, which it stays whatever is answered.
pub fn costs() -> Vec<f64> {
    host::costs()
}

//! The NodePool that nodes are wanted for.

#[cfg(target_arch = "wasm32")]
use crate::bindings::plugin::longshore::policy::node_pool as host;
#[cfg(not(target_arch = "wasm32"))]
use crate::testing::node_pool as host;

/// Its name.
pub fn name() -> String {
    host::name()
}

/// Labels of its nodes, by key.
pub fn labels() -> Vec<(String, String)> {
    host::labels()
}

/// Annotations of its nodes, by key.
pub fn annotations() -> Vec<(String, String)> {
    host::annotations()
}

/// Its weight; 0 without one.
pub fn weight() -> u32 {
    host::weight()
}

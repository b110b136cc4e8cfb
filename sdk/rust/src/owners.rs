//! Controllers of pods that would move with their nodes, a row for each.

#[cfg(target_arch = "wasm32")]
use crate::bindings::consolidation::longshore::consolidation::owners as host;
#[cfg(not(target_arch = "wasm32"))]
use crate::testing::owners as host;

/// Namespace, kind and name.
pub fn names() -> Vec<String> {
    host::names()
}

/// Pods that run, or are about to.
pub fn pods() -> Vec<u32> {
    host::pods()
}

/// Those of them that started within the last hour.
pub fn young_pods() -> Vec<u32> {
    host::young_pods()
}

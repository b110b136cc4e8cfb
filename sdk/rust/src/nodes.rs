//! The nodes that NodePools own, as columns: row i is the same node in each. For policies of
//! consolidation. wit/consolidation@0.1.0/consolidation.wit has the contract.

#[cfg(target_arch = "wasm32")]
use crate::bindings::consolidation::longshore::consolidation::nodes as host;
#[cfg(not(target_arch = "wasm32"))]
use crate::testing::nodes as host;

/// How many nodes there are.
pub fn count() -> u32 {
    host::count()
}

/// Names of nodes.
pub fn names() -> Vec<String> {
    host::names()
}

/// Table: names of the NodePools that own a node.
pub fn node_pool_names() -> Vec<String> {
    host::node_pool_names()
}

/// Index into [`node_pool_names`].
pub fn node_pools() -> Vec<u32> {
    host::node_pools()
}

/// Row of `offerings`; 4294967295 if it is no longer offered.
pub fn offerings() -> Vec<u32> {
    host::offerings()
}

/// Effective cost, USD per hour; NaN if it is no longer offered.
pub fn costs() -> Vec<f64> {
    host::costs()
}

/// Seconds since the node was made; NaN if that is not known.
pub fn ages() -> Vec<f64> {
    host::ages()
}

/// What pods can have of a resource: cores, bytes or devices.
pub fn allocatable(key: &str) -> Vec<f64> {
    host::allocatable(key)
}

/// What its pods and daemons request of it.
pub fn requested(key: &str) -> Vec<f64> {
    host::requested(key)
}

/// Pods that would move if the node went.
pub fn pods() -> Vec<u32> {
    host::pods()
}

/// Pods, daemons included, that may not be evicted now.
pub fn blocked_pods() -> Vec<u32> {
    host::blocked_pods()
}

/// Pods that would move and are the only running one of their controller.
pub fn single_pods() -> Vec<u32> {
    host::single_pods()
}

/// Pods that would move and that no controller owns.
pub fn bare_pods() -> Vec<u32> {
    host::bare_pods()
}

/// Pods that would move and that no PodDisruptionBudget selects.
pub fn unprotected_pods() -> Vec<u32> {
    host::unprotected_pods()
}

/// The fewest evictions that a budget of its pods allows now; 4294967295 without one.
pub fn allowed_disruptions() -> Vec<u32> {
    host::allowed_disruptions()
}

/// Seconds since the last of its pods has started; infinity without one.
pub fn youngest_pod_ages() -> Vec<f64> {
    host::youngest_pod_ages()
}

/// The sum of the eviction costs of its pods, 1 for an ordinary pod.
pub fn disruption_costs() -> Vec<f64> {
    host::disruption_costs()
}

/// The longest termination grace of its pods that would move, in seconds; NaN if it is not known.
pub fn longest_grace() -> Vec<f64> {
    host::longest_grace()
}

/// Table: values of a label; the empty string for nodes without it.
pub fn label_values(key: &str) -> Vec<String> {
    host::label_values(key)
}

/// Index into [`label_values`] of the same key.
pub fn labels(key: &str) -> Vec<u32> {
    host::labels(key)
}

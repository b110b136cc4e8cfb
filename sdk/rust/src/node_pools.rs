//! NodePools, by the rows of [`nodes::node_pool_names`](crate::nodes::node_pool_names).

#[cfg(target_arch = "wasm32")]
use crate::bindings::consolidation::longshore::consolidation::node_pools as host;
#[cfg(not(target_arch = "wasm32"))]
use crate::testing::node_pools as host;

/// Effective cost of their nodes, USD per hour.
pub fn costs() -> Vec<f64> {
    host::costs()
}

/// Disruption cost of their nodes.
pub fn disruption_costs() -> Vec<f64> {
    host::disruption_costs()
}

/// Nodes that the budgets let go now for a reason; 4294967295 without a budget.
pub fn allowed(key: &str) -> Vec<u32> {
    host::allowed(key)
}

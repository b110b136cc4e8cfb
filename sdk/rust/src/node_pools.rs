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

/// Nodes disrupted within the last hour; 4294967295 if that is not known.
pub fn disrupted_hour() -> Vec<u32> {
    host::disrupted_hour()
}

/// Nodes disrupted within the last day; 4294967295 if that is not known.
pub fn disrupted_day() -> Vec<u32> {
    host::disrupted_day()
}

/// Seconds since a node was last disrupted; NaN if that is not known.
pub fn since_disruption() -> Vec<f64> {
    host::since_disruption()
}

/// Nodes that the budgets let go now for a reason; 4294967295 without a budget.
pub fn allowed(key: &str) -> Vec<u32> {
    host::allowed(key)
}

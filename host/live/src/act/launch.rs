//! From a plan to a node: NodeClaims, launches, registration.

pub(crate) mod boot_turns;
pub(crate) mod create_claims;
pub(crate) mod first_boots;
pub(crate) mod launch_backoff;
pub(crate) mod launch_groups;
pub(crate) mod launch_request;
pub(crate) mod launches;
pub(crate) mod lifecycle;
pub(crate) mod memory;
pub(crate) mod node_capacity;
pub(crate) mod outcomes;
pub(crate) mod refusals;
pub(crate) mod registration_health;
pub(crate) mod static_pools;
pub(crate) mod useless_purchase_writes;

//! From a plan to a node: NodeClaims, launches, registration.

pub(in crate::live) mod create_claims;
pub(in crate::live) mod first_boots;
pub(in crate::live) mod launch_backoff;
pub(in crate::live) mod launch_groups;
pub(in crate::live) mod launch_request;
pub(in crate::live) mod launches;
pub(crate) mod lifecycle;
pub(in crate::live) mod node_capacity;
pub(in crate::live) mod outcomes;
pub(in crate::live) mod refusals;
pub(in crate::live) mod static_pools;
pub(in crate::live) mod useless_purchase_writes;

//! What is there: watches, the state that they are folded into, and what can be bought.

pub mod definitions;
pub(crate) mod freshness;
#[doc(hidden)]
pub mod fuzz;
pub mod node;
pub mod node_claim;
pub mod node_classes;
pub(crate) mod offers;
pub(crate) mod overlays;
pub(crate) mod plan_index;
pub(crate) mod planned_pods;
pub(crate) mod pod_latency;
pub(crate) mod protection;
pub(crate) mod server_pods;
pub mod state;
pub(crate) mod unavailable_offerings;
pub mod watch;

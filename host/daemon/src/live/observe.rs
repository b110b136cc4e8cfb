//! What is there: watches, the state that they are folded into, and what can be bought.

pub(crate) mod definitions;
pub(in crate::live) mod freshness;
#[doc(hidden)]
pub mod fuzz;
pub(crate) mod node;
pub(crate) mod node_claim;
pub mod node_classes;
pub(in crate::live) mod offers;
pub(in crate::live) mod overlays;
pub(in crate::live) mod plan_index;
pub(in crate::live) mod planned_pods;
pub(in crate::live) mod pod_latency;
pub(in crate::live) mod protection;
pub(in crate::live) mod server_pods;
pub(crate) mod state;
pub(in crate::live) mod unavailable_offerings;
pub(crate) mod watch;

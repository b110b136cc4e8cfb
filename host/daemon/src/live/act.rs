//! How decisions become objects and instances, and how these end.

pub mod canary_map;
pub(crate) mod claim_conditions;
pub(in crate::live) mod claim_writes;
pub(in crate::live) mod cloud;
pub(in crate::live) mod context;
pub(crate) mod disruption;
pub(in crate::live) mod end;
pub(in crate::live) mod events;
pub(in crate::live) mod guard;
pub(in crate::live) mod instrumented;
pub(in crate::live) mod last_pod_event;
pub(in crate::live) mod launch;
mod nominations;
pub mod overlay_status;
pub(crate) mod pools;
pub(in crate::live) mod recent;
pub(crate) mod repair;
pub(in crate::live) mod work_queue;

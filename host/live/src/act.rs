//! How decisions become objects and instances, and how these end.

pub mod canary_config_map;
pub(crate) mod catch_panics;
pub mod claim_conditions;
pub(crate) mod claim_writes;
pub(crate) mod cloud;
pub(crate) mod cloud_gate;
pub(crate) mod context;
pub(crate) mod disruption;
pub(crate) mod end;
pub(crate) mod events;
pub(crate) mod last_pod_event;
pub(crate) mod launch;
mod nominations;
pub mod overlay_status;
pub mod pools;
pub(crate) mod recent;
pub mod repair;
pub(crate) mod work_queue;

//! The custom resources as Rust types: NodePool, NodeClaim, NodeOverlay, CapacityBuffer and
//! KWOKNodeClass.
//!
//! These are the wire types, as the API server stores them. [`definition`] generates the
//! definitions that a cluster installs (`deploy/crds`) from them, so that field, schema and rule
//! are in one place. Optional fields may be absent and are omitted when empty, so that an object
//! that was read can be written back.
//!
//! Absent on purpose: a client, decisions, and checks that the API server makes from the schema. An
//! object with a value outside a closed list (an unknown operator, for instance) cannot be read at
//! all; watches handle such objects with kube's `DeserializeGuard`.

#![allow(
    clippy::duplicated_attributes,
    reason = "each printed column names its type to kube's derive"
)]

pub mod admission;
mod buffer;
mod condition;
mod defaults;
pub mod definition;
pub mod duration;
pub mod hash;
mod kwok;
mod nodeclaim;
mod nodepool;
mod overlay;
mod quantities;
mod requirement;
mod schema;
mod taint;

pub use buffer::{
    CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus, PodTemplateRef, ScalableRef,
};
pub use condition::{Condition, ConditionStatus, condition, readable, set_condition};
pub use kwok::{KWOKNodeClass, KWOKNodeClassFields, KWOKNodeClassSpec, KWOKNodeClassStatus};
pub use nodeclaim::{NodeClaim, NodeClaimSpec, NodeClaimStatus, ResourceRequests};
pub use nodepool::{
    Budget, ConsolidationPolicy, Disruption, DisruptionReason, NodeClaimTemplate,
    NodeClaimTemplateSpec, NodePool, NodePoolSpec, NodePoolStatus, TemplateMetadata,
};
pub use overlay::{NodeOverlay, NodeOverlaySpec, NodeOverlayStatus, OverlayRequirement};
pub use quantities::{Quantities, Quantity};
pub use requirement::{NodeClassRef, Operator, Requirement};
pub use schema::plain_conditions;
pub use taint::{Taint, TaintEffect};

/// A moment, to the second, as Kubernetes writes it.
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
/// The type inside a [`Time`].
pub use k8s_openapi::jiff::Timestamp;

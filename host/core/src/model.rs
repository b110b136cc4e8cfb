//! The records that every decision is made on: small, interned, parsed once at the boundary.
//!
//! The code that builds them (manifest reader, watches) has validated them: quantities are integers
//! in the unit of their resource, operators are one of eight, times are seconds. The solver
//! validates nothing again.

pub mod catalogue;
pub mod catalogue_index;
pub mod cluster_objects;
pub mod conditions;
pub mod disruptions;
pub mod excess;
pub mod fields;
pub mod node;
pub mod overlay;
pub mod own_values;
pub mod pod;
pub mod pool;
pub mod purchases;
pub mod records;
pub mod requirement;
pub mod resources;
pub mod storage;
pub mod sweep;
pub mod symbols;

pub use catalogue::{
    Catalogue, Estimates, InstanceType, Offering, OfferingId, TypeId, TypeOverlay,
};
pub use cluster_objects::{
    BetaLabel, ClusterObjects, DaemonSet, MinValuesPolicy, PodDisruptionBudget, PreferencePolicy,
    Settings, Workload,
};
pub use excess::{Excess, Part};
pub use node::{DueRepair, NodeClaim, NodeRecord, RepairAction, Taint, TaintEffect, UnhealthyNode};
pub use overlay::{NodeOverlay, PriceChange};
pub use pod::{
    HostPort, LabelSelector, NodeInclusion, Pod, PodShape, PodTerm, SelectorOp, SelectorRule,
    ShapeId, Shapes, Spread, Toleration,
};
pub use pool::{
    Budget, ConsolidationPolicy, Failures, MoveCost, NodeClass, NodeClassKind, NodeClassRef,
    NodePool,
};
pub use records::Records;
pub use requirement::{Op, Requirement};
pub use resources::{ResourceId, Resources};
pub use symbols::{Labels, Symbol, Symbols};

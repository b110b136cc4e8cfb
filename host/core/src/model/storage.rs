//! Volumes, as far as they decide where a pod may run.

use super::requirement::Requirement;
use super::symbols::Symbol;

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeClaim {
    /// `metadata.namespace`.
    pub namespace: Symbol,
    /// `metadata.name`.
    pub name: Symbol,
    /// `spec.volumeName`.
    pub volume: Option<Symbol>,
    /// `spec.storageClassName` (or the beta annotation); `None` if absent, the empty string if
    /// empty.
    pub class: Option<Symbol>,
    /// Phase Lost.
    pub lost: bool,
    /// Annotation `pv.kubernetes.io/bind-completed` is there, or phase is Bound.
    pub bound: bool,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}

/// A PersistentVolume.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// `metadata.name`.
    pub name: Symbol,
    /// `spec.nodeAffinity.required`: one of the terms must hold; empty for no restriction.
    pub node_affinity: Vec<Vec<Requirement>>,
    /// The CSI driver, in-tree drivers translated to the CSI one; `None` for drivers without
    /// limits.
    pub driver: Option<Symbol>,
    /// `local` or `hostPath`: a hostname in its affinity does not bind it to a node that still
    /// exists.
    pub local: bool,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}

/// A StorageClass.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageClass {
    /// `metadata.name`.
    pub name: Symbol,
    /// `provisioner`, in-tree ones translated to the CSI driver.
    pub provisioner: Symbol,
    /// `allowedTopologies` as alternatives; empty for no restriction.
    pub topologies: Vec<Vec<Requirement>>,
    /// `volumeBindingMode: WaitForFirstConsumer`.
    pub wait_for_consumer: bool,
    /// Annotation `storageclass.kubernetes.io/is-default-class` is true.
    pub default: bool,
}

/// A CSINode: how many volumes of each driver one node takes.
#[derive(Clone, Debug, PartialEq)]
pub struct CsiNode {
    /// The node.
    pub name: Symbol,
    /// Drivers and their `allocatable.count`; `None` where the driver gives none (unlimited).
    pub drivers: Vec<(Symbol, Option<u32>)>,
}

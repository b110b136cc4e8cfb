//! Volumes, as far as they decide where a pod may run.

use super::names::Sym;
use super::requirement::Requirement;

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeClaim {
    /// `metadata.namespace`.
    pub namespace: Sym,
    /// `metadata.name`.
    pub name: Sym,
    /// `spec.volumeName`.
    pub volume: Option<Sym>,
    /// `spec.storageClassName` (or the beta annotation); `None` if absent, the empty string if empty.
    pub class: Option<Sym>,
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
    pub name: Sym,
    /// `spec.nodeAffinity.required`: one of the terms must hold; empty for no restriction.
    pub node_affinity: Vec<Vec<Requirement>>,
    /// The CSI driver, in-tree drivers translated to the CSI one; `None` for drivers without limits.
    pub driver: Option<Sym>,
    /// `local` or `hostPath`: a hostname in its affinity does not bind it to a node that still exists.
    pub local: bool,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}

/// A StorageClass.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageClass {
    /// `metadata.name`.
    pub name: Sym,
    /// `provisioner`, in-tree ones translated to the CSI driver.
    pub provisioner: Sym,
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
    pub name: Sym,
    /// Drivers and their `allocatable.count`; `None` where the driver gives none (unlimited).
    pub drivers: Vec<(Sym, Option<u32>)>,
}

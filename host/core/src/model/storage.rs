//! Volumes, as far as they decide where a pod may run.

use super::pod::LabelSelector;
use super::requirement::Requirement;
use super::symbols::{Labels, Symbol};

/// Access modes of a volume, a bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AccessModes(pub u8);

impl AccessModes {
    /// Names of the modes in Kubernetes, by bit.
    pub const NAMES: [&str; 4] = [
        "ReadWriteOnce",
        "ReadOnlyMany",
        "ReadWriteMany",
        "ReadWriteOncePod",
    ];

    /// The modes of some names; unknown ones are left out.
    pub fn named<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let bit = |name: &str| Self::NAMES.iter().position(|known| *known == name);
        AccessModes(names.filter_map(bit).fold(0, |all, bit| all | 1 << bit))
    }

    /// Whether only one pod at a time may use the volume.
    pub fn one_pod(self) -> bool {
        self.0 & 0b1000 != 0
    }

    /// Whether all of these are there.
    pub fn include(self, other: AccessModes) -> bool {
        self.0 & other.0 == other.0
    }
}

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
    /// `status.phase` is Lost: its volume is gone.
    pub lost: bool,
    /// Annotation `pv.kubernetes.io/bind-completed` is there, or phase is Bound.
    pub bound: bool,
    /// Annotation `volume.kubernetes.io/selected-node`: the node for which the volume is to be made.
    /// Until it is bound, kube-scheduler places its pod on no other.
    pub selected_node: Option<Symbol>,
    /// `spec.accessModes`.
    pub modes: AccessModes,
    /// `spec.resources.requests.storage`, bytes.
    pub storage: i64,
    /// `spec.volumeMode: Block`.
    pub block: bool,
    /// `spec.selector`: only such volumes will do.
    pub selector: Option<LabelSelector>,
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
    /// `local` or `hostPath`: it is on one node, by hostname.
    pub local: bool,
    /// `metadata.labels`: zone and region restrict where its pods may run, and the selectors of
    /// claims read all of them.
    pub labels: Labels,
    /// `spec.csi.volumeHandle`: volumes of one driver and handle are one.
    pub handle: Option<Symbol>,
    /// `spec.storageClassName`.
    pub class: Option<Symbol>,
    /// `spec.claimRef`: namespace and name.
    pub claim: Option<(Symbol, Symbol)>,
    /// Phase Available, Pending or none yet: a claim may be bound to it.
    pub available: bool,
    /// Phase Released or Failed: the claim that it was bound to is gone, and a new one of the same
    /// name does not get it.
    pub released: bool,
    /// `spec.accessModes`.
    pub modes: AccessModes,
    /// `spec.capacity.storage`, bytes.
    pub storage: i64,
    /// `spec.volumeMode: Block`.
    pub block: bool,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}

/// A StorageClass of `storage.k8s.io/v1`, as far as it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageClass {
    /// `metadata.name`.
    pub name: Symbol,
    /// `provisioner`, in-tree ones translated to the CSI driver.
    pub provisioner: Symbol,
    /// `allowedTopologies` as alternatives, labels as written; empty for no restriction.
    pub topologies: Vec<Vec<Requirement>>,
    /// `volumeBindingMode: WaitForFirstConsumer`.
    pub wait_for_consumer: bool,
    /// Annotation `storageclass.kubernetes.io/is-default-class` is true.
    pub default: bool,
    /// `metadata.creationTimestamp`, seconds since 1970 (0 if absent).
    pub created: i64,
}

/// A CSIDriver whose volumes need room that CSIStorageCapacity objects say (`spec.storageCapacity`).
#[derive(Clone, Debug, PartialEq)]
pub struct CsiDriver {
    /// `metadata.name`.
    pub name: Symbol,
    /// `spec.storageCapacity`.
    pub counts_capacity: bool,
}

/// A CSIStorageCapacity.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageCapacity {
    /// `metadata.namespace`.
    pub namespace: Symbol,
    /// `metadata.name`.
    pub name: Symbol,
    /// `storageClassName`.
    pub class: Symbol,
    /// `nodeTopology`: nodes that can reach it. An absent one selects none.
    pub topology: LabelSelector,
    /// The largest volume that can be made there, bytes: `maximumVolumeSize`, else `capacity`.
    pub largest: i64,
}

/// A VolumeAttachment of `storage.k8s.io/v1`, as far as it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeAttachment {
    /// `metadata.name`.
    pub name: Symbol,
    /// `spec.attacher`: the CSI driver.
    pub driver: Symbol,
    /// `spec.nodeName`.
    pub node: Symbol,
    /// `spec.source.persistentVolumeName`.
    pub volume: Option<Symbol>,
}

/// A CSINode: how many volumes of each driver one node takes.
#[derive(Clone, Debug, PartialEq)]
pub struct CsiNode {
    /// The node.
    pub name: Symbol,
    /// Drivers and their `allocatable.count`; `None` where the driver gives none (unlimited).
    pub drivers: Vec<(Symbol, Option<u32>)>,
}

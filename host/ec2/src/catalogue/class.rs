//! What of an EC2NodeClass decides which instance types it can launch and what pods get of them.

pub(crate) mod expressions;
pub(crate) mod kubelet;
mod of_object;
pub(crate) mod read_kubelet;

use std::borrow::Cow;

use super::amount::Amount;
use super::discovered::ImageSet;

use crate::expression::Expression;
use crate::nodeclass::Ami;
pub use crate::nodeclass::AmiFamily as Family;
pub use expressions::{Expressions, Reservable, Unresolved};
pub use kubelet::{Kubelet, Reserved, Threshold};

/// Field, reason and hint of a NodeClass that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassFault {
    /// `spec.kubelet.maxPods`.
    pub field: String,
    /// What is wrong with it.
    pub what: String,
    /// What can be done about it.
    pub hint: Cow<'static, str>,
}

fn fault(
    field: impl Into<String>,
    what: impl Into<String>,
    hint: impl Into<Cow<'static, str>>,
) -> ClassFault {
    ClassFault {
        field: field.into(),
        what: what.into(),
        hint: hint.into(),
    }
}

/// The part of an EC2NodeClass that the catalogue is computed from.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// `metadata.name`.
    pub name: Box<str>,
    /// The family of its images.
    pub family: Family,
    /// Zones of the status's subnets.
    pub subnets: Vec<ClassZone>,
    /// The status's subnets: zone and id.
    pub subnet_ids: Vec<(Box<str>, Box<str>)>,
    /// The images of the status, in its order: a node boots the first that fits its type.
    pub amis: Vec<Ami>,
    /// Stands for their set.
    pub images: ImageSet,
    /// Settings of the kubelet.
    pub kubelet: Kubelet,
    /// Those that are expressions (gate NodeClassCEL); they replace what `kubelet` says.
    pub expressions: Expressions,
    /// How many pods nodeadm reserves memory for, if user data says (`maxPodsExpression`).
    pub memory_pods: Option<Expression>,
    /// What local disks become.
    pub local_disks_as_storage: bool,
    /// Block devices, in the order written.
    pub block_devices: Vec<BlockDevice>,
    /// `spec.networkInterfaces`; empty for the default layout.
    pub network_interfaces: Vec<Interface>,
    /// `spec.connectionTracking` is set.
    pub connection_tracking: bool,
    /// `spec.cpuOptions.nestedVirtualization` is enabled.
    pub nested_virtualization: bool,
    /// `spec.enclaveOptions.enabled`.
    pub enclaves: bool,
    /// Capacity reservations of the status.
    pub reservations: Vec<Reservation>,
    /// `spec.placementGroupSelector`.
    pub placement_group: Option<GroupSelector>,
}

/// A zone that a NodeClass has a subnet in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassZone {
    /// `us-east-1a`.
    pub zone: Box<str>,
    /// `use1-az1`; empty if unknown.
    pub id: Box<str>,
}

impl Family {
    /// The value of `node.kubernetes.io/windows-build`, for Windows.
    pub fn windows_build(self) -> Option<&'static str> {
        match self {
            Family::Windows2019 => Some("10.0.17763"),
            Family::Windows2022 => Some("10.0.20348"),
            Family::Windows2025 => Some("10.0.26100"),
            _ => None,
        }
    }

    /// Whether the number of pods follows from network interfaces; otherwise it is 110.
    pub(super) fn pods_by_interfaces(self) -> bool {
        !self.is_windows()
    }

    /// Whether the kubelet obeys `podsPerCore`.
    pub(super) fn pods_per_core(self) -> bool {
        self != Family::Bottlerocket
    }

    /// Whether the default of `kubeReserved.memory` follows from the pods that interfaces allow,
    /// whatever `maxPods` says.
    pub(super) fn memory_by_interfaces(self) -> bool {
        matches!(self, Family::AL2 | Family::AL2023 | Family::Custom)
    }

    /// The device that holds images, logs and writable layers, and its default size.
    pub(super) fn storage_device(self) -> Option<(&'static str, Amount)> {
        match self {
            Family::AL2 | Family::AL2023 => Some(("/dev/xvda", Amount::binary(20 << 30))),
            Family::Bottlerocket => Some(("/dev/xvdb", Amount::binary(20 << 30))),
            Family::Windows2019 | Family::Windows2022 | Family::Windows2025 => {
                Some(("/dev/sda1", Amount::binary(50 << 30)))
            }
            Family::Custom => None,
        }
    }
}

/// A mapping of a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// `/dev/xvda`.
    pub name: Box<str>,
    /// Its size, unless a snapshot says it.
    pub size: Option<Amount>,
    /// `rootVolume`.
    pub root: bool,
}

/// A network interface to launch with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Index of its network card.
    pub card: i64,
    /// Its index on the instance.
    pub device: i64,
    /// Carries RDMA only and takes no IP address.
    pub efa_only: bool,
}

/// A capacity reservation that the NodeClass selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// `cr-…`.
    pub id: Box<str>,
    /// The zone whose instances it is for.
    pub zone: Box<str>,
    /// The instance type that it is for.
    pub instance_type: Box<str>,
    /// `default` or `capacity-block`.
    pub kind: Box<str>,
    /// Whether EC2 may take its instances back.
    pub interruptible: bool,
    /// It ends soon: nothing is launched into it.
    pub expiring: bool,
}

/// How a NodeClass names its placement group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupSelector {
    /// `pg-…`.
    Id(Box<str>),
    /// The group's name.
    Name(Box<str>),
}

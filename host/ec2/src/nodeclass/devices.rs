//! Disks and network interfaces of nodes.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// A disk of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDeviceMapping {
    /// The device's name, such as `/dev/xvda`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The EBS volume behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ebs: Option<BlockDevice>,
    /// Whether the kubelet keeps its files on it, so that its size is the node's ephemeral storage.
    /// At most one disk of a class is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(schema_with = "schema::boolean")]
    pub root_volume: bool,
}

/// An EBS volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.snapshotID) || has(self.volumeSize)")
    .message("a volume needs a volumeSize or a snapshotID"))]
#[x_kube(validation = Rule::new("!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')")
    .message("a volumeInitializationRate needs a snapshotID"))]
pub struct BlockDevice {
    /// Whether the volume is deleted with the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    /// Whether the volume is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// I/O operations per second, for volume types that let one choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<i64>,
    /// The KMS key that the volume is encrypted with: ID, alias or ARN.
    #[serde(rename = "kmsKeyID", default, skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    /// The snapshot that the volume starts from.
    #[serde(
        rename = "snapshotID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub snapshot_id: Option<String>,
    /// Throughput in MiB per second, for volume types that let one choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<i64>,
    /// How fast the snapshot is read into the volume, in MiB per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 300))]
    pub volume_initialization_rate: Option<i32>,
    /// How large the volume is: a number with Gi, G, Ti or T.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::volume_size")]
    pub volume_size: Option<VolumeSize>,
    /// The kind of volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<VolumeType>,
}

/// The size of a volume as it was written, such as `20Gi`. Read it with
/// [`longshore_api::quantity`].
pub type VolumeSize = longshore_api::crd::Quantity;

/// A kind of EBS volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VolumeType {
    /// Magnetic, of the first generation.
    Standard,
    /// Provisioned IOPS.
    Io1,
    /// Provisioned IOPS, of the second generation.
    Io2,
    /// General purpose, of the second generation.
    Gp2,
    /// Magnetic, seldom read.
    Sc1,
    /// Magnetic, read in sequence.
    St1,
    /// General purpose, of the third generation.
    Gp3,
}

impl VolumeType {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            VolumeType::Standard => "standard",
            VolumeType::Io1 => "io1",
            VolumeType::Io2 => "io2",
            VolumeType::Gp2 => "gp2",
            VolumeType::Sc1 => "sc1",
            VolumeType::St1 => "st1",
            VolumeType::Gp3 => "gp3",
        }
    }
}

/// A network interface of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterface {
    /// The device's index on its card, from 0.
    #[schemars(range(min = 0))]
    pub device_index: i32,
    /// What it carries.
    pub interface_type: InterfaceType,
    /// The network card, from 0.
    #[schemars(range(min = 0))]
    pub network_card_index: i32,
}

/// What a network interface carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceType {
    /// IP.
    Interface,
    /// Elastic Fabric Adapter alone, without an IP address.
    EfaOnly,
}

impl InterfaceType {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            InterfaceType::Interface => "interface",
            InterfaceType::EfaOnly => "efa-only",
        }
    }
}

//! Records of CreateLaunchTemplate, as EC2's API names their fields. What is `None` or empty is not
//! sent.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// The parameters of CreateLaunchTemplate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaunchTemplate {
    /// The template's name, which follows from its data.
    #[serde(rename = "LaunchTemplateName")]
    pub name: String,
    /// What instances are launched with.
    #[serde(rename = "LaunchTemplateData")]
    pub data: TemplateData,
    /// Tags of the template itself.
    #[serde(rename = "TagSpecifications")]
    pub tags: Vec<TagSpecification>,
}

/// What instances are launched with.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TemplateData {
    /// Disks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub block_device_mappings: Vec<BlockDeviceMapping>,
    /// Which capacity reservations are used.
    #[serde(
        rename = "CapacityReservationSpecification",
        skip_serializing_if = "Option::is_none"
    )]
    pub capacity_reservation: Option<CapacityReservation>,
    /// Settings of the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
    /// Nitro Enclaves.
    pub enclave_options: Enabled,
    /// The role of the instance.
    #[serde(rename = "IamInstanceProfile", skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<IamInstanceProfile>,
    /// The image's ID.
    pub image_id: String,
    /// The market, where it is neither on-demand nor spot.
    #[serde(
        rename = "InstanceMarketOptions",
        skip_serializing_if = "Option::is_none"
    )]
    pub market_options: Option<MarketOptions>,
    /// The instance metadata service.
    pub metadata_options: MetadataOptions,
    /// Detailed monitoring.
    pub monitoring: Enabled,
    /// Network interfaces, at least one.
    pub network_interfaces: Vec<NetworkInterface>,
    /// Tenancy and placement group.
    pub placement: Placement,
    /// Tags of what is made with the instance.
    #[serde(rename = "TagSpecifications")]
    pub tags: Vec<TagSpecification>,
    /// User data in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user_data: String,
}

impl TemplateData {
    /// The name of a template with this data: a prefix and a decimal number of 64 bits, as Karpenter
    /// writes it. The number is the start of a SHA-256 of the data as JSON.
    pub(super) fn name(&self) -> String {
        // Plain structs, lists, texts and numbers always serialize.
        let text = serde_json::to_string(self).unwrap_or_default();
        let digest = Sha256::digest(text.as_bytes());
        let number = digest
            .iter()
            .take(8)
            .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        format!("karpenter.k8s.aws/{number}")
    }
}

/// User data as EC2 takes it.
pub(super) fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct BlockDeviceMapping {
    /// The device's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The EBS volume behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ebs: Option<Ebs>,
}

/// An EBS volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Ebs {
    /// Whether it ends with the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    /// Whether it is encrypted; as the account's default says if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// I/O operations per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<i64>,
    /// The key that it is encrypted with; the account's default if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    /// The snapshot that it starts from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// MiB per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<i64>,
    /// MiB per second at which the snapshot is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_initialization_rate: Option<i32>,
    /// GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_size: Option<i64>,
    /// `gp3`, `io2` and the like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<&'static str>,
}

/// Which capacity reservations an instance uses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CapacityReservation {
    /// `capacity-reservations-only` or `none`.
    #[serde(rename = "CapacityReservationPreference")]
    pub preference: &'static str,
    /// The one that it uses.
    #[serde(
        rename = "CapacityReservationTarget",
        skip_serializing_if = "Option::is_none"
    )]
    pub target: Option<CapacityReservationTarget>,
}

/// The capacity reservation of an instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CapacityReservationTarget {
    /// The reservation's ID.
    #[serde(rename = "CapacityReservationId")]
    pub id: String,
}

/// Settings of the processor.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CpuOptions {
    /// `enabled` or `disabled`.
    pub nested_virtualization: &'static str,
}

/// Something that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Enabled {
    /// Whether it is on.
    pub enabled: bool,
}

/// The instance profile, which carries the role.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct IamInstanceProfile {
    /// The profile's name.
    pub name: String,
}

/// The market of an instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct MarketOptions {
    /// `capacity-block` or `interruptible-capacity-reservation`.
    pub market_type: &'static str,
}

/// The instance metadata service.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct MetadataOptions {
    /// `enabled` or `disabled`.
    pub http_endpoint: &'static str,
    /// `enabled` or `disabled`; not known in the isolated regions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_protocol_ipv6: Option<&'static str>,
    /// How many hops an answer may take: 1 keeps it from pods.
    pub http_put_response_hop_limit: i64,
    /// `required` or `optional`.
    pub http_tokens: &'static str,
    /// `disabled`: tags of Kubernetes have characters that the service does not allow.
    pub instance_metadata_tags: &'static str,
}

/// A network interface of an instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NetworkInterface {
    /// Whether it gets a public IPv4 address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub associate_public_ip_address: Option<bool>,
    /// When idle connections are forgotten.
    #[serde(
        rename = "ConnectionTrackingSpecification",
        skip_serializing_if = "Option::is_none"
    )]
    pub connection_tracking: Option<ConnectionTracking>,
    /// Its index on the card.
    pub device_index: i32,
    /// Security groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// `interface`, `efa` or `efa-only`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface_type: Option<&'static str>,
    /// How many prefixes of IPv4 addresses it gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4_prefix_count: Option<i32>,
    /// How many IPv6 addresses it gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6_address_count: Option<i32>,
    /// How many prefixes of IPv6 addresses it gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6_prefix_count: Option<i32>,
    /// The network card that it is on; the default card if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_card_index: Option<i32>,
    /// Whether its first IPv6 address stays for the life of the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_ipv6: Option<bool>,
}

/// When idle connections are forgotten, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ConnectionTracking {
    /// TCP connections that are established.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_established_timeout: Option<i32>,
    /// UDP flows with more than one exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp_stream_timeout: Option<i32>,
    /// Other UDP flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp_timeout: Option<i32>,
}

/// Where an instance runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Placement {
    /// The placement group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_id: Option<String>,
    /// Its partition, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_number: Option<i32>,
    /// `default` or `dedicated`.
    pub tenancy: &'static str,
}

/// Tags of a kind of resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TagSpecification {
    /// The kind, such as `network-interface`.
    pub resource_type: &'static str,
    /// Tags by key.
    pub tags: Vec<Tag>,
}

impl TagSpecification {
    /// The same tags for a kind of resource.
    pub(super) fn new(resource_type: &'static str, tags: &BTreeMap<String, String>) -> Self {
        let tag = |(key, value): (&String, &String)| Tag {
            key: key.clone(),
            value: value.clone(),
        };
        TagSpecification {
            resource_type,
            tags: tags.iter().map(tag).collect(),
        }
    }
}

/// A tag of a resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Tag {
    /// Key of the tag.
    pub key: String,
    /// Value of the tag; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
}

//! EC2NodeClass (`karpenter.k8s.aws/v1`) as of Karpenter 1.15.1: how nodes are made on EC2.
//!
//! These are the wire types, as the API server stores them, and the source of the definition in
//! `deploy/crds`. Absent and empty differ: the drift hash counts them differently, so optional
//! lists, maps and texts are `Option`s and there are methods that read both alike. Unknown fields
//! are passed over here, so that a newer object can still be read. [`read()`] reports them.
//!
//! Rules that the API server makes from the schema are not repeated here.

#![allow(
    clippy::duplicated_attributes,
    reason = "each printed column names its type to kube's derive"
)]

mod devices;
pub mod due;
mod options;
mod read;
mod schema;
mod selectors;
mod status;

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use longshore_api::crd::admission::Admission;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use devices::{
    BlockDevice, BlockDeviceMapping, InterfaceType, NetworkInterface, VolumeSize, VolumeType,
};
pub use options::{
    ConnectionTracking, CpuOptions, EnclaveOptions, HttpTokens, InstanceStorePolicy,
    MetadataOptions, Switch,
};
pub use read::{give_spec, of_document, of_documents, read};
pub use selectors::{
    Alias, AmiFamily, AmiSelectorTerm, CapacityReservationSelectorTerm, MatchCriteria,
    PlacementGroupSelector, SecurityGroupSelectorTerm, SubnetSelectorTerm,
};
pub use status::{
    Ami, AmiRequirement, CapacityReservation, EC2NodeClassStatus, ReservationState,
    ReservationType, SecurityGroup, Subnet, unreadable,
};

/// The finalizer of EC2NodeClasses.
pub const FINALIZER: &str = "karpenter.k8s.aws/termination";

/// API group of EC2NodeClasses, and the domain of their labels and annotations.
pub const GROUP: &str = "karpenter.k8s.aws";

/// What an EC2NodeClass asks for.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "karpenter.k8s.aws",
    version = "v1",
    kind = "EC2NodeClass",
    plural = "ec2nodeclasses",
    shortname = "ec2nc",
    shortname = "ec2ncs",
    category = "karpenter",
    status = "EC2NodeClassStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "How nodes are made on EC2: images, networks, disks, rights and the kubelet's settings.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Role",
        type_ = "string",
        json_path = ".spec.role",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(has(self.role) && !has(self.instanceProfile)) || (!has(self.role) && has(self.instanceProfile))")
    .message("give a role or an instanceProfile, and not both"))]
#[x_kube(validation = family_of("al2", "AL2"))]
#[x_kube(validation = family_of("al2023", "AL2023"))]
#[x_kube(validation = family_of("bottlerocket", "Bottlerocket"))]
#[x_kube(validation = family_of("windows2019", "Windows2019"))]
#[x_kube(validation = family_of("windows2022", "Windows2022"))]
#[x_kube(validation = family_of("windows2025", "Windows2025"))]
#[x_kube(validation = Rule::new("self.amiSelectorTerms.exists(x, has(x.alias)) ? true : has(self.amiFamily)")
    .message("without an alias in amiSelectorTerms, give an amiFamily"))]
pub struct EC2NodeClassSpec {
    /// Which subnets nodes may be in. A subnet that one of the terms selects will do.
    #[schemars(schema_with = "schema::subnet_terms")]
    pub subnet_selector_terms: Vec<SubnetSelectorTerm>,
    /// Which security groups nodes get: all that the terms select.
    #[schemars(schema_with = "schema::security_group_terms")]
    pub security_group_selector_terms: Vec<SecurityGroupSelectorTerm>,
    /// Which capacity reservations nodes may use. Without terms, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::capacity_reservation_terms")]
    pub capacity_reservation_selector_terms: Option<Vec<CapacityReservationSelectorTerm>>,
    /// Which placement group nodes are in. Without it, in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_group_selector: Option<PlacementGroupSelector>,
    /// Whether nodes get a public IPv4 address. Without it, the subnet says.
    #[serde(
        rename = "associatePublicIPAddress",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub associate_public_ip_address: Option<bool>,
    /// How many prefixes the primary network interface gets when a node starts. Without it, the
    /// VPC CNI assigns them.
    #[serde(
        rename = "ipPrefixCount",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 0))]
    pub ip_prefix_count: Option<i32>,
    /// Network interfaces beside the usual one. Without them, an instance gets one interface, or
    /// those that its pods' devices need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::network_interfaces")]
    pub network_interfaces: Option<Vec<NetworkInterface>>,
    /// Which images nodes start from.
    #[schemars(schema_with = "schema::ami_terms")]
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// The family of the images: it decides the form of user data, default disks and overhead.
    /// Without it, the alias in `amiSelectorTerms` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<AmiFamily>,
    /// What nodes run when they boot, beside what makes them join: a script, a MIME archive, TOML
    /// or a NodeConfig, as the family takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// The IAM role of nodes. An instance profile is made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self != ''").message("a role has a name"))]
    pub role: Option<String>,
    /// Name of an existing instance profile for the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self != ''").message("an instance profile has a name"))]
    pub instance_profile: Option<String>,
    /// Tags of everything that is made on EC2 for the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.all(k, k != '')").message("a tag has a key"))]
    #[x_kube(validation = Rule::new("self.all(k, k !='eks:eks-cluster-name')")
        .message("the tag eks:eks-cluster-name is set by the autoscaler"))]
    #[x_kube(validation = Rule::new("self.all(k, !k.startsWith('kubernetes.io/cluster') )")
        .message("tags that start with kubernetes.io/cluster are set by the autoscaler"))]
    #[x_kube(validation = Rule::new("self.all(k, k != 'karpenter.sh/nodepool')")
        .message("the tag karpenter.sh/nodepool is set by the autoscaler"))]
    #[x_kube(validation = Rule::new("self.all(k, k !='karpenter.sh/nodeclaim')")
        .message("the tag karpenter.sh/nodeclaim is set by the autoscaler"))]
    #[x_kube(validation = Rule::new("self.all(k, k !='karpenter.k8s.aws/ec2nodeclass')")
        .message("the tag karpenter.k8s.aws/ec2nodeclass is set by the autoscaler"))]
    pub tags: Option<BTreeMap<String, String>>,
    /// Settings of the kubelet: fields of KubeletConfiguration (`kubelet.config.k8s.io/v1beta1`).
    /// The API server takes any field. The autoscaler checks them and says on the condition
    /// ValidationSucceeded what is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kubelet")]
    pub kubelet: Option<Map<String, Value>>,
    /// Disks of nodes. Without them, those that the family of images has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50))]
    #[x_kube(validation = Rule::new("self.filter(x, has(x.rootVolume)?x.rootVolume==true:false).size() <= 1")
        .message("only one disk can be the root volume"))]
    pub block_device_mappings: Option<Vec<BlockDeviceMapping>>,
    /// What becomes of the disks that an instance brings along. Without it, they stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_store_policy: Option<InstanceStorePolicy>,
    /// Whether EC2 measures nodes every minute instead of every five.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
    /// How a node's instance metadata can be reached.
    #[serde(default)]
    #[schemars(extend("default" = {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    }))]
    pub metadata_options: MetadataOptions,
    /// When connections that are idle are forgotten by the network interface. Without it, EC2's
    /// defaults hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_tracking: Option<ConnectionTracking>,
    /// Settings of the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
    /// Settings of Nitro Enclaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enclave_options: Option<EnclaveOptions>,
    /// EC2's `Context` of fleets, as Amazon gives it out. Seldom needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// A rule: a class with an alias of this family has no other `amiFamily`, except `Custom`.
fn family_of(alias: &str, family: &str) -> kube::core::Rule {
    let rule = format!(
        "!has(self.amiFamily) || (self.amiSelectorTerms.exists(x, has(x.alias) && \
         x.alias.find('^[^@]+') == '{alias}') ? (self.amiFamily == 'Custom' || self.amiFamily == \
         '{family}') : true)"
    );
    let message = format!("with an alias of {alias}, amiFamily is {family} or Custom");
    kube::core::Rule::new(rule).message(message.as_str())
}

impl EC2NodeClassSpec {
    /// The alias among the image terms, if it can be read. A class with an alias has no other term.
    pub fn alias(&self) -> Option<Alias<'_>> {
        self.ami_selector_terms
            .iter()
            .find_map(|term| Alias::parse(term.alias.as_deref()?))
    }

    /// The family of the images: `amiFamily`, else the alias', else Custom.
    pub fn family(&self) -> AmiFamily {
        self.ami_family
            .or_else(|| self.alias().map(|alias| alias.family))
            .unwrap_or(AmiFamily::Custom)
    }

    /// The kubelet's settings, however few.
    pub fn kubelet(&self) -> &Map<String, Value> {
        static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        self.kubelet.as_ref().unwrap_or(&NONE)
    }

    /// The tags, however few.
    pub fn tags(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.tags.as_ref().unwrap_or(&NONE)
    }

    /// The disks, however few. None means that the family's defaults hold.
    pub fn block_device_mappings(&self) -> &[BlockDeviceMapping] {
        self.block_device_mappings.as_deref().unwrap_or_default()
    }

    /// The extra network interfaces, however few.
    pub fn network_interfaces(&self) -> &[NetworkInterface] {
        self.network_interfaces.as_deref().unwrap_or_default()
    }

    /// The terms that select capacity reservations, however few.
    pub fn capacity_reservation_selector_terms(&self) -> &[CapacityReservationSelectorTerm] {
        self.capacity_reservation_selector_terms
            .as_deref()
            .unwrap_or_default()
    }

    /// Whether instances are started with Nitro Enclaves on.
    pub fn enclaves(&self) -> bool {
        self.enclave_options
            .as_ref()
            .is_some_and(|options| options.enabled)
    }
}

/// The definition that a cluster installs, `deploy/crds/karpenter.k8s.aws_ec2nodeclasses.yaml`.
pub fn definition() -> longshore_api::crd::definition::Definition {
    // Upstream's lets an object without a spec through; nothing can be launched from one. It is read
    // as one that selects nothing (`give_spec`).
    longshore_api::crd::definition::Definition::of::<EC2NodeClass>().with_optional_spec()
}

/// What the API server makes of an EC2NodeClass.
pub fn admission() -> &'static Admission {
    static ADMISSION: std::sync::LazyLock<Admission> =
        std::sync::LazyLock::new(|| Admission::of(&definition()));
    &ADMISSION
}

#[cfg(test)]
mod tests;

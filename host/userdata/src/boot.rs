//! What user data is rendered from: the cluster, the image and the node's own settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A family of images: the form of their user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Family {
    /// Amazon Linux 2.
    AL2,
    /// Amazon Linux 2023.
    AL2023,
    /// Bottlerocket: settings in TOML.
    Bottlerocket,
    /// Images of one's own: nothing is added to user data.
    Custom,
    /// Windows Server 2019 Core.
    Windows2019,
    /// Windows Server 2022 Core.
    Windows2022,
    /// Windows Server 2025 Core.
    Windows2025,
}

/// A term that selects images, as far as it says which version of Bottlerocket boots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ImageTerm {
    /// A family and version, such as `bottlerocket@v1.20.1`.
    pub alias: Option<String>,
    /// The image's name, possibly with wildcards.
    pub name: Option<String>,
    /// The image's ID.
    pub id: Option<String>,
}

/// An image that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Image {
    /// Its ID, such as `ami-0a1`.
    pub id: String,
    /// Its name, as far as it is known: Bottlerocket's has the version.
    pub name: Option<String>,
}

/// What a node must know to join its cluster. A text that is empty is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Cluster {
    /// The cluster's name.
    pub name: String,
    /// The API server's URL.
    pub endpoint: String,
    /// The cluster's CA certificate, PEM in base64.
    #[serde(rename = "caBundle", alias = "CABundle")]
    pub ca_bundle: String,
    /// The CIDR block of Services. AL2023 cannot boot without it.
    #[serde(alias = "CIDR")]
    pub cidr: String,
    /// The address of the cluster's DNS. An IPv6 address means an IPv6 cluster.
    #[serde(rename = "kubeDNSIP", alias = "KubeDNSIP")]
    pub kube_dns_ip: String,
}

/// A taint of a node, as Kubernetes writes it. A type of this crate, because bootstrap policies
/// compile it for wasm32 without any other of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Key of the taint, such as `example.com/gpu`.
    pub key: String,
    /// Value of the taint; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// What it does to pods that do not tolerate it.
    pub effect: String,
    /// When it was added, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<String>,
}

/// Everything that user data is rendered from.
#[derive(Clone, Debug)]
pub struct Boot {
    /// The cluster to join.
    pub cluster: Cluster,
    /// The family of the image.
    pub family: Family,
    /// The terms that selected the image: Bottlerocket's version is found in them.
    pub image_terms: Vec<ImageTerm>,
    /// The images that the terms found.
    pub images: Vec<Image>,
    /// Labels that the node gives itself.
    pub labels: BTreeMap<String, String>,
    /// Taints that the node starts with, startup taints included.
    pub taints: Vec<Taint>,
    /// `spec.kubelet` of the NodeClass, valid.
    pub kubelet: Map<String, Value>,
    /// The user's own data.
    pub user_data: Option<String>,
    /// Whether the instance's own disks become one for the kubelet (RAID0).
    pub raid0: bool,
}

//! User data: what a node runs when it boots, so that it joins its cluster.
//!
//! [`render`] is a function of a [`Boot`]: the cluster, the family of images, labels, taints, the
//! kubelet's settings, and the user's own data, which is merged in. The text is Karpenter's of
//! 1.15.1, byte for byte, except where Karpenter's order is random: maps in arguments of the kubelet
//! are sorted here. [`resolve`] adds first what Karpenter adds to every launch: the DNS address,
//! `maxPods`, the taint `karpenter.sh/unregistered` and the label `do-not-sync-taints`.
//!
//! No text is longer than [`MOST_BYTES`], EC2's limit.
//!
//! A crate of its own with few dependencies: the host renders with it, and the first-party
//! bootstrap policies render with the same code, compiled for wasm32.

mod arguments;
mod bottlerocket;
pub mod duration;
mod kubelet;
pub mod mime;
mod nodeadm;
mod resolve;
mod shell;
mod toml_text;
mod yaml_text;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use resolve::{DO_NOT_SYNC_TAINTS, UNREGISTERED, resolve};

/// Most bytes of user data: EC2's limit, which counts them before they are encoded in base64.
pub const MOST_BYTES: usize = 16 << 10;

/// A family of images: the form of their user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Family {
    /// Amazon Linux 2.
    AL2,
    /// Amazon Linux 2023.
    AL2023,
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
    pub id: String,
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

/// A taint of a node, as Kubernetes writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    pub key: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// What it does to pods that do not tolerate it.
    pub effect: String,
    /// When it was added.
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

/// Why there is no user data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {what}")]
pub struct Fault {
    /// The field of the input, such as `userData` or `cluster.cidr`.
    pub field: String,
    /// What is wrong with it.
    pub what: String,
    pub hint: &'static str,
}

impl Fault {
    fn new(field: &str, what: impl Into<String>, hint: &'static str) -> Self {
        Self {
            field: field.to_owned(),
            what: what.into(),
            hint,
        }
    }

    fn user_data(what: impl Into<String>, hint: &'static str) -> Self {
        Self::new("userData", what, hint)
    }
}

/// What of the user's own data does not reach the node, in sentences.
pub fn left_out(family: Family, user_data: &str) -> Vec<String> {
    match family {
        Family::Bottlerocket => bottlerocket::left_out(user_data),
        _ => Vec::new(),
    }
}

/// The first document of a YAML text: all that nodeadm reads of a NodeConfig.
pub fn first_document(text: &str) -> &str {
    let all = yaml_text::documents(text);
    all.first().copied().unwrap_or_default()
}

/// The user data of a node, before it is encoded in base64. Fails on user data that cannot be
/// merged, if the family needs something that is not known, and on a text that EC2 would refuse
/// for its length.
pub fn render(boot: &Boot) -> Result<String, Fault> {
    let text = merged(boot)?;
    if text.len() > MOST_BYTES {
        let theirs = boot.user_data.as_ref().map_or(0, String::len);
        return Err(Fault::user_data(
            format!(
                "makes a text of {} bytes ({theirs} are yours); EC2 takes at most {MOST_BYTES}",
                text.len()
            ),
            "shorten it, or let a short script fetch the rest",
        ));
    }
    Ok(text)
}

/// The user data of a node, however long it is; see [`render`].
///
/// # Errors
/// User data that cannot be merged, and what the family needs and is not known.
pub fn merged(boot: &Boot) -> Result<String, Fault> {
    match boot.family {
        Family::AL2 => shell::al2(boot),
        Family::AL2023 => nodeadm::al2023(boot),
        Family::Bottlerocket => bottlerocket::render(boot),
        Family::Custom => Ok(boot.user_data.clone().unwrap_or_default()),
        Family::Windows2019 | Family::Windows2022 | Family::Windows2025 => shell::windows(boot),
    }
}

/// Labels as `--node-labels` takes them, sorted.
fn label_list(labels: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    pairs.join(",")
}

/// Foreign text, shortened for a message and without control characters.
fn quoted(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    let shown = text.chars().take(MAX_CHARS);
    let mut out: String = shown
        .flat_map(|c| match c.is_control() {
            true => c.escape_debug().collect::<Vec<char>>(),
            false => vec![c],
        })
        .collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        out.push('…');
    }
    format!("`{out}`")
}

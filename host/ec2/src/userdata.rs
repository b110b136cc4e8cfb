//! User data: what a node runs when it boots, so that it joins its cluster.
//!
//! [`render`] is a function of a [`Boot`]: the cluster, the family of images, labels, taints, the
//! kubelet's settings, and the user's own data, which is merged in. The text is Karpenter's of
//! 1.15.1, byte for byte, except where Karpenter's order is random: maps in arguments of the kubelet
//! are sorted here. [`resolve`] adds first what Karpenter adds to every launch: the DNS address,
//! `maxPods`, the taint `karpenter.sh/unregistered` and the label `do-not-sync-taints`.
//!
//! The size limit of EC2 (16 KiB) is not checked here.

mod arguments;
mod bottlerocket;
mod kubelet;
mod mime;
mod nodeadm;
mod nodes;
mod resolve;
mod shell;
mod toml_text;
mod yaml_text;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::nodeclass::{Ami, AmiFamily, AmiSelectorTerm};

pub use nodes::{Rendered, nodes};
pub use resolve::{DO_NOT_SYNC_TAINTS, UNREGISTERED, resolve};

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
    /// The key.
    pub key: String,
    /// The value.
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
    pub family: AmiFamily,
    /// The terms that selected the image: Bottlerocket's version is found in them.
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// The images that the terms found.
    pub amis: Vec<Ami>,
    /// Labels that the node gives itself.
    pub labels: BTreeMap<String, String>,
    /// Taints that the node starts with, startup taints included.
    pub taints: Vec<Taint>,
    /// `spec.kubelet` of the NodeClass, valid ([`crate::validation::kubelet`]).
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
    /// What can be done.
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

/// The user data of a node, before it is encoded in base64. Fails on user data that cannot be
/// merged, and if the family needs something that is not known.
pub fn render(boot: &Boot) -> Result<String, Fault> {
    match boot.family {
        AmiFamily::AL2 => shell::al2(boot),
        AmiFamily::AL2023 => nodeadm::al2023(boot),
        AmiFamily::Bottlerocket => bottlerocket::render(boot),
        AmiFamily::Custom => Ok(boot.user_data.clone().unwrap_or_default()),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            shell::windows(boot)
        }
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

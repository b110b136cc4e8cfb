//! What the first-party bootstrap policies share: the host's own renderer of user data
//! (`longshore-userdata`), fed from what the host tells a policy.

use std::collections::BTreeMap;

use longshore_sdk::bootstrap::{Kind, Taint, cluster, machines};
use longshore_userdata as userdata;
use serde::Deserialize;
use serde_json::{Map, Value};

pub use userdata::{Boot, Family, render};

/// The NodeClass, as far as user data depends on it. Other fields are passed over: the host has
/// checked them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeClass {
    pub metadata: Metadata,
    pub spec: Spec,
    pub status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Metadata {
    pub name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    pub ami_family: Option<Family>,
    pub ami_selector_terms: Vec<userdata::ImageTerm>,
    pub kubelet: Option<Map<String, Value>>,
    pub user_data: Option<String>,
    pub instance_store_policy: Option<String>,
    pub tags: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    pub amis: Vec<userdata::Image>,
}

/// All machines of the request, read once.
pub struct Machines {
    pub node_class: NodeClass,
    /// Pods by machine; `None` where it is not known.
    pub pods: Vec<Option<i64>>,
    cluster: userdata::Cluster,
}

impl NodeClass {
    /// The family of images: the one named, else the alias', else Custom.
    pub fn family(&self) -> Family {
        let of_alias = |term: &userdata::ImageTerm| {
            Some(match term.alias.as_deref()?.split_once('@')?.0 {
                "al2" => Family::AL2,
                "al2023" => Family::AL2023,
                "bottlerocket" => Family::Bottlerocket,
                "windows2019" => Family::Windows2019,
                "windows2022" => Family::Windows2022,
                "windows2025" => Family::Windows2025,
                _ => return None,
            })
        };
        let named = self.spec.ami_family;
        let alias = || self.spec.ami_selector_terms.iter().find_map(of_alias);
        named.or_else(alias).unwrap_or(Family::Custom)
    }
}

impl Machines {
    /// Asks the host.
    pub fn pull() -> Result<Self, String> {
        let node_class = serde_json::from_str(&machines::node_class())
            .map_err(|error| format!("the NodeClass cannot be read: {error}"))?;
        let first = |list: Vec<String>| list.into_iter().next().unwrap_or_default();
        let pods = machines::capacity("pods").into_iter();
        Ok(Machines {
            node_class,
            pods: pods
                .map(|pods| (pods >= 0.0).then_some(pods as i64))
                .collect(),
            cluster: userdata::Cluster {
                name: cluster::name(),
                endpoint: cluster::endpoint(),
                ca_bundle: cluster::certificate_authority(),
                cidr: first(cluster::service_ranges()),
                kube_dns_ip: first(cluster::dns_addresses()),
            },
        })
    }

    /// What the node of a kind on a machine boots with. Labels and taints are the kind's: the host
    /// has added its own.
    pub fn boot(&self, kind: &Kind, machine: u32) -> Boot {
        let spec = &self.node_class.spec;
        let mut kubelet = spec.kubelet.clone().unwrap_or_default();
        let address = &self.cluster.kube_dns_ip;
        let servers = kubelet.get("clusterDNS").and_then(Value::as_array);
        if servers.is_none_or(Vec::is_empty) && !address.is_empty() {
            kubelet.insert("clusterDNS".to_owned(), vec![address.as_str()].into());
        }
        let pods = self.pods.get(machine as usize).copied().flatten();
        if let Some(pods) = pods
            && !kubelet.get("maxPods").is_some_and(Value::is_number)
        {
            kubelet.insert("maxPods".to_owned(), pods.into());
        }
        let taints = kind.taints.iter().chain(&kind.startup_taints);
        Boot {
            cluster: self.cluster.clone(),
            family: self.node_class.family(),
            image_terms: spec.ami_selector_terms.clone(),
            images: self.node_class.status.amis.clone(),
            labels: kind.labels.iter().cloned().collect(),
            taints: taints.map(taint).collect(),
            kubelet,
            user_data: spec.user_data.clone(),
            raid0: spec.instance_store_policy.is_some(),
        }
    }
}

fn taint(taint: &Taint) -> userdata::Taint {
    userdata::Taint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: taint.effect.clone(),
        time_added: Some(taint.time_added.clone()).filter(|time| !time.is_empty()),
    }
}

/// The text of a boot, or why there is none.
pub fn text(boot: &Boot) -> Result<Vec<u8>, String> {
    let text = render(boot).map_err(|fault| format!("{fault}; {}", fault.hint))?;
    Ok(text.into_bytes())
}

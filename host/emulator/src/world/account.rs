//! What an account has before anything is launched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pools::Rule;
use crate::policies::Policy;

/// Tags, by key.
pub type Tags = BTreeMap<String, String>;

/// How the account behaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Settings {
    /// Least and most lag of a read.
    pub lag_milliseconds: (i64, i64),
    /// Least and most time from launch to `running`.
    pub start_milliseconds: (i64, i64),
    /// Least and most time from `running` until the kubelet registers.
    pub boot_milliseconds: (i64, i64),
    /// Least and most time from `shutting-down` to `terminated`.
    pub stop_milliseconds: (i64, i64),
    /// How long until EC2 knows an instance profile as IAM has it.
    pub profile_milliseconds: i64,
    /// Whether EC2's rate limits hold.
    pub throttle: bool,
    /// Whether state changes of instances are put into the queue.
    pub state_changes: bool,
    /// The share of received messages that is received once more.
    pub duplicate_share: f64,
    /// vCPUs that may run on demand; `None`: no limit.
    pub on_demand_vcpus: Option<i64>,
    /// vCPUs that may run on spot; `None`: no limit.
    pub spot_vcpus: Option<i64>,
    /// Whether the log of calls has the bodies of replies.
    pub log_replies: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            lag_milliseconds: (0, 2_000),
            start_milliseconds: (2_000, 8_000),
            boot_milliseconds: (15_000, 40_000),
            stop_milliseconds: (10_000, 40_000),
            profile_milliseconds: 6_000,
            throttle: true,
            state_changes: true,
            duplicate_share: 0.01,
            on_demand_vcpus: None,
            spot_vcpus: None,
            log_replies: false,
        }
    }
}

/// An EKS cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)]
pub struct Cluster {
    pub name: String,
    pub version: String,
    pub endpoint: String,
    pub ca_bundle: String,
    pub cidr: String,
}

impl Default for Cluster {
    fn default() -> Self {
        Cluster {
            name: "demo".to_owned(),
            version: "1.36".to_owned(),
            endpoint: "https://demo.eks.example".to_owned(),
            ca_bundle: "Y2EtYnVuZGxl".to_owned(),
            cidr: "10.100.0.0/16".to_owned(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Subnet {
    pub id: String,
    pub zone: String,
    pub cidr: String,
    /// Addresses that are left.
    pub free_addresses: u32,
    #[serde(default)]
    pub tags: Tags,
    /// Numbers of addresses in use, within the block.
    #[serde(skip)]
    pub(crate) used: BTreeSet<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs)]
pub struct SecurityGroup {
    pub id: String,
    pub name: String,
    #[serde(default)]
    pub tags: Tags,
}

/// A machine image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Image {
    pub id: String,
    pub name: String,
    /// `x86_64`, `arm64`.
    pub architecture: String,
    /// `amazon`, `self`, or an account.
    #[serde(default = "amazon")]
    pub owner: String,
    #[serde(default = "created")]
    pub created: String,
    #[serde(default)]
    pub deprecated: Option<String>,
    #[serde(default)]
    pub tags: Tags,
    /// SSM parameters that have its id.
    #[serde(default)]
    pub parameters: Vec<String>,
}

fn amazon() -> String {
    "amazon".to_owned()
}

fn created() -> String {
    "2026-10-01T00:00:00.000Z".to_owned()
}

/// A capacity reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Reservation {
    pub id: String,
    pub instance_type: String,
    pub zone: String,
    pub total: u32,
    pub available: u32,
    /// `default`, `capacity-block`.
    #[serde(default = "default_kind")]
    pub kind: String,
    /// `open`, `targeted`.
    #[serde(default = "targeted")]
    pub criteria: String,
    #[serde(default)]
    pub interruptible: bool,
    #[serde(default)]
    pub end: Option<String>,
    #[serde(default)]
    pub owner: Option<String>,
    #[serde(default)]
    pub tags: Tags,
}

fn default_kind() -> String {
    "default".to_owned()
}

fn targeted() -> String {
    "targeted".to_owned()
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[allow(missing_docs)]
pub struct PlacementGroup {
    pub group_id: String,
    #[serde(default)]
    pub group_name: String,
    pub strategy: String,
    #[serde(default)]
    pub partition_count: Option<i64>,
    #[serde(default)]
    pub spread_level: Option<String>,
}

/// An error that answers for overrides of some types and zones, as `oracle-aws` has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Refuse {
    #[serde(default)]
    pub instance_type: Option<String>,
    #[serde(default)]
    pub zone: Option<String>,
    pub code: String,
    #[serde(default)]
    pub message: String,
}

/// An instance type: what EC2 describes, and what it costs.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct InstanceType {
    pub name: String,
    /// The record of DescribeInstanceTypes.
    pub record: Arc<Value>,
    pub vcpus: i64,
    pub architectures: Vec<String>,
    /// Zones that offer it.
    pub zones: BTreeSet<String>,
    /// USD per hour.
    pub on_demand: Option<f64>,
    /// USD per hour, by zone.
    pub spot: BTreeMap<String, f64>,
}

#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Account {
    pub id: String,
    pub region: String,
    /// Zone ids by zone.
    pub zones: BTreeMap<String, String>,
    pub types: BTreeMap<String, InstanceType>,
    pub vpc: String,
    pub subnets: BTreeMap<String, Subnet>,
    pub groups: BTreeMap<String, SecurityGroup>,
    pub images: BTreeMap<String, Image>,
    pub reservations: BTreeMap<String, Reservation>,
    pub placement_groups: Vec<PlacementGroup>,
    pub roles: BTreeSet<String>,
    /// Policies of the caller. Without any, everything is allowed.
    pub policies: Vec<Policy>,
    /// Instance profiles that are there from the beginning, with their roles.
    pub profiles: BTreeMap<String, String>,
    /// Parameters of SSM beside those of images.
    pub parameters: BTreeMap<String, String>,
    pub queue: String,
    pub cluster: Cluster,
    pub capacity: Vec<Rule>,
    pub refuse: Vec<Refuse>,
    pub fleet_error: Option<Refuse>,
    pub settings: Settings,
}

impl Account {
    /// `arn:aws:service:region:account:rest`.
    pub fn arn(&self, service: &str, rest: &str) -> String {
        let partition = match &self.region {
            region if region.starts_with("cn-") => "aws-cn",
            region if region.starts_with("us-gov-") => "aws-us-gov",
            _ => "aws",
        };
        let region = if service == "iam" || service == "sts" {
            ""
        } else {
            &self.region
        };
        format!("arn:{partition}:{service}:{region}:{}:{rest}", self.id)
    }

    /// The zone with a name or an id.
    pub fn zone(&self, name_or_id: &str) -> Option<&str> {
        let found = self
            .zones
            .iter()
            .find(|(zone, id)| *zone == name_or_id || *id == name_or_id);
        found.map(|(zone, _)| &**zone)
    }
}

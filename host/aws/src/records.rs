//! What AWS is asked for and what it answered, as plain data: everything that decisions are made
//! from. No type of the SDK.

use std::collections::{BTreeMap, BTreeSet};

/// Tags by key.
pub type Tags = BTreeMap<String, String>;

/// Filters of a request: names are joined by and, values of a name by or.
pub type Filters = Vec<(String, Vec<String>)>;

/// A request for images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageQuery {
    /// Owners; none for all.
    pub owners: Vec<String>,
    /// Filters.
    pub filters: Filters,
}

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubnetFacts {
    /// Its ID.
    pub id: String,
    /// Its zone, such as `us-east-1a`.
    pub zone: String,
    /// The zone's ID, such as `use1-az1`; empty if unknown.
    pub zone_id: String,
    /// Its VPC.
    pub vpc: String,
    /// IPv4 addresses that are free.
    pub free: i64,
}

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFacts {
    /// Its ID.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its VPC.
    pub vpc: String,
}

/// A capacity reservation that is active.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservationFacts {
    /// Its ID.
    pub id: String,
    /// The account that owns it.
    pub owner: String,
    /// The instance type that it is for.
    pub instance_type: String,
    /// Its zone.
    pub zone: String,
    /// Instances that are left in it.
    pub available: i64,
    /// When it ends, seconds since 1970; nothing for no end.
    pub end: Option<i64>,
    /// `open` or `targeted`.
    pub criteria: String,
    /// `default` or `capacity-block`.
    pub kind: String,
    /// Whether its owner may take it back.
    pub interruptible: bool,
}

/// A placement group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementFacts {
    /// Its ID.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `cluster`, `spread` or `partition`.
    pub strategy: String,
    /// Its partitions; 0 unless the strategy is `partition`.
    pub partitions: i64,
    /// `pending`, `available`, `deleting` or `deleted`.
    pub state: String,
}

/// An instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceFacts {
    /// Its ID.
    pub id: String,
    /// `pending`, `running`, `shutting-down`, `terminated`, `stopping` or `stopped`.
    pub state: String,
    /// Its type.
    pub instance_type: String,
    /// Its zone.
    pub zone: String,
    /// The zone's ID; empty if unknown.
    pub zone_id: String,
    /// The image that it started from.
    pub image: String,
    /// The subnet of its primary interface.
    pub subnet: String,
    /// The security groups of its primary interface.
    pub groups: BTreeSet<String>,
    /// Its tags.
    pub tags: Tags,
    /// Whether it is a spot instance.
    pub spot: bool,
    /// The reservation that it was launched into; nothing if it only happens to use an open one.
    pub reservation: Option<String>,
    /// `capacity-block` or `interruptible-capacity-reservation` for those.
    pub lifecycle: String,
    /// `default` or `dedicated`.
    pub tenancy: String,
    /// The placement group; empty for none.
    pub placement_group: String,
    /// Its partition there, from 1; 0 for none.
    pub partition: i32,
    /// The name of its instance profile; empty for none.
    pub profile: String,
    /// When it was launched, seconds since 1970.
    pub launched: i64,
}

impl InstanceFacts {
    /// Whether it is over with it: EC2 describes it for an hour more.
    pub fn is_gone(&self) -> bool {
        self.state == "terminated"
    }

    /// Whether it is ending.
    pub fn ends(&self) -> bool {
        self.state == "shutting-down"
    }
}

/// A launch template as far as it is found again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateFacts {
    /// Its ID.
    pub id: String,
    /// Its name.
    pub name: String,
}

/// The cluster as EKS describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    /// The API server's URL.
    pub endpoint: String,
    /// The CA certificate, PEM in base64.
    pub ca_bundle: String,
    /// The CIDR block of Services, of IPv4 if there is one.
    pub cidr: String,
    /// The version of Kubernetes, such as `1.35`.
    pub version: String,
    /// The cluster's ARN.
    pub arn: String,
}

/// An instance profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileFacts {
    /// Its name.
    pub name: String,
    /// Its path.
    pub path: String,
    /// The names of its roles: none or one.
    pub roles: Vec<String>,
    /// Its tags; a list of profiles has none.
    pub tags: Tags,
}

/// Where types are offered, and at which spot price.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpotPrice {
    /// The type.
    pub instance_type: String,
    /// The zone.
    pub zone: String,
    /// USD per hour.
    pub price: f64,
    /// When it was set, seconds since 1970.
    pub at: i64,
}

/// What EC2 says of the health of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusFacts {
    /// Its ID.
    pub id: String,
    /// Since when the check of the instance fails, seconds since 1970; nothing if it does not.
    pub instance_failed: Option<i64>,
    /// Since when the check of the machine below it fails, seconds since 1970.
    pub system_failed: Option<i64>,
    /// Events that are planned or were carried out lately: code and description.
    pub events: Vec<(String, String)>,
}

/// A shift of traffic away from a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShiftFacts {
    /// ID of the zone, such as `use1-az1`.
    pub zone_id: String,
    /// Whether it is in force.
    pub applied: bool,
    /// When it ends, seconds since 1970; nothing if it does not say.
    pub expires: Option<i64>,
}

/// How likely a request for spot instances is to succeed in a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneScore {
    /// ID of the zone, such as `use1-az1`.
    pub zone_id: String,
    /// From 1 (unlikely) to 10.
    pub score: i32,
}

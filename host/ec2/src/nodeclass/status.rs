//! What is known of an EC2NodeClass: what its selectors found, and its conditions.

use longshore_api::crd::{Condition, Operator, Time, readable};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::schema;
use super::selectors::MatchCriteria;

/// What is known of an EC2NodeClass. What cannot be read of it is passed over: a newer controller may
/// have written it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassStatus {
    /// Subnets that were found, those with the most free addresses first.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub subnets: Vec<Subnet>,
    /// Security groups that were found, by ID.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub security_groups: Vec<SecurityGroup>,
    /// Images that were found, the newest first. A node starts from the first that fits it.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub amis: Vec<Ami>,
    /// Capacity reservations that were found, by ID.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub capacity_reservations: Vec<CapacityReservation>,
    /// The instance profile of nodes.
    #[serde(
        default,
        deserialize_with = "text",
        skip_serializing_if = "Option::is_none"
    )]
    pub instance_profile: Option<String>,
    /// Statements about the class.
    #[serde(
        default,
        deserialize_with = "readable",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(schema_with = "longshore_api::crd::plain_conditions")]
    pub conditions: Vec<Condition>,
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(value.as_str().map(str::to_owned))
}

/// Fields of the status of an EC2NodeClass, as JSON, that are passed over, and why.
pub fn unreadable(class: &Value) -> Vec<(String, String)> {
    let Some(status) = class.get("status").filter(|status| !status.is_null()) else {
        return Vec::new();
    };
    if !status.is_object() {
        return vec![("status".to_owned(), "is not an object".to_owned())];
    }
    let mut found = Vec::new();
    items::<Subnet>(status, "subnets", &mut found);
    items::<SecurityGroup>(status, "securityGroups", &mut found);
    items::<Ami>(status, "amis", &mut found);
    items::<CapacityReservation>(status, "capacityReservations", &mut found);
    items::<Condition>(status, "conditions", &mut found);
    let profile = &status["instanceProfile"];
    if !profile.is_string() && !profile.is_null() {
        found.push((
            "status.instanceProfile".to_owned(),
            "is not a text".to_owned(),
        ));
    }
    found
}

/// Items of a list of a status that cannot be read.
fn items<T: DeserializeOwned>(status: &Value, name: &str, found: &mut Vec<(String, String)>) {
    match &status[name] {
        Value::Null => {}
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                if let Err(why) = T::deserialize(item) {
                    found.push((format!("status.{name}[{at}]"), why.to_string()));
                }
            }
        }
        _ => found.push((format!("status.{name}"), "is not a list".to_owned())),
    }
}

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subnet {
    /// The subnet's ID.
    pub id: String,
    /// The zone's name, such as `us-east-1a`.
    pub zone: String,
    /// The zone's ID, such as `use1-az1`: the same zone for every account.
    #[serde(rename = "zoneID", default, skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
}

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecurityGroup {
    /// The security group's ID.
    pub id: String,
    /// The security group's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ami {
    /// The image's ID.
    pub id: String,
    /// Whether its owner advises against it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(schema_with = "schema::boolean")]
    pub deprecated: bool,
    /// The image's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What an instance type must be to start from it.
    pub requirements: Vec<AmiRequirement>,
}

/// A requirement of an image on the labels of instance types.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AmiRequirement {
    /// The label's key.
    pub key: String,
    /// How the label's value relates to `values`.
    #[schemars(schema_with = "schema::text")]
    pub operator: Operator,
    /// Values to compare with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// A capacity reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservation {
    /// The zone that it is in.
    pub availability_zone: String,
    /// When it ends; nothing for a reservation that has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub end_time: Option<Time>,
    /// The reservation's ID.
    #[schemars(regex(pattern = "^cr-[0-9a-z]+$"))]
    pub id: String,
    /// Which instances it takes.
    pub instance_match_criteria: MatchCriteria,
    /// The instance type that it is for.
    pub instance_type: String,
    /// Whether its owner can take it back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(schema_with = "schema::boolean")]
    pub interruptible: bool,
    /// The account that owns it.
    #[serde(rename = "ownerID")]
    #[schemars(regex(pattern = "^[0-9]{12}$"))]
    pub owner_id: String,
    /// What kind of reservation it is.
    #[serde(default)]
    pub reservation_type: ReservationType,
    /// Whether nodes can still be launched into it.
    #[serde(default)]
    pub state: ReservationState,
}

/// A kind of capacity reservation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReservationType {
    /// On demand.
    #[default]
    Default,
    /// A capacity block: for machine learning, for a time that is fixed when it is bought.
    CapacityBlock,
}

impl ReservationType {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ReservationType::Default => "default",
            ReservationType::CapacityBlock => "capacity-block",
        }
    }
}

/// Whether a capacity reservation can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReservationState {
    /// It can.
    #[default]
    Active,
    /// It ends soon: a capacity block within 40 minutes.
    Expiring,
}

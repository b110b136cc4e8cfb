//! Terms that select subnets, security groups, capacity reservations, placement groups and images.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// Selects subnets: all its fields must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubnetSelectorTerm {
    /// Tags that a subnet must have. The value `*` stands for any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::selector_tags")]
    pub tags: Option<BTreeMap<String, String>>,
    /// The subnet's ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "subnet-[0-9a-z]+"))]
    pub id: Option<String>,
}

/// Selects security groups: all its fields must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecurityGroupSelectorTerm {
    /// Tags that a security group must have. The value `*` stands for any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::selector_tags")]
    pub tags: Option<BTreeMap<String, String>>,
    /// The security group's ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "sg-[0-9a-z]+"))]
    pub id: Option<String>,
    /// The security group's name. It is the name field, and not the tag `Name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Selects capacity reservations: all its fields must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservationSelectorTerm {
    /// Tags that a reservation must have. The value `*` stands for any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::selector_tags")]
    pub tags: Option<BTreeMap<String, String>>,
    /// The reservation's ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^cr-[0-9a-z]+$"))]
    pub id: Option<String>,
    /// The account that owns the reservation.
    #[serde(rename = "ownerID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[0-9]{12}$"))]
    pub owner_id: Option<String>,
    /// Which instances the reservation takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_match_criteria: Option<MatchCriteria>,
}

/// Which instances a capacity reservation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MatchCriteria {
    /// All that fit.
    Open,
    /// Those that name it.
    Targeted,
}

/// Selects a placement group, by name or by ID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new("has(self.name) || has(self.id)")
    .message("give the placement group's name or id"))]
#[x_kube(validation = Rule::new("!(has(self.name) && has(self.id))")
    .message("give the placement group's name or its id, and not both"))]
pub struct PlacementGroupSelector {
    /// The placement group's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    /// The placement group's ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^pg-[0-9a-z]+$"))]
    pub id: Option<String>,
}

/// Selects images: all its fields must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AmiSelectorTerm {
    /// A family and version of images that Amazon publishes, such as `al2023@latest` or
    /// `bottlerocket@v1.20.1`. It must be the only term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 30))]
    #[x_kube(validation = Rule::new("self.matches('^[a-zA-Z0-9]+@.+$')")
        .message("an alias is a family, @ and a version, such as al2023@latest"))]
    #[x_kube(validation = Rule::new("self.split('@')[0] in ['al2','al2023','bottlerocket','windows2019','windows2022','windows2025']")
        .message("an alias' family is al2, al2023, bottlerocket, windows2019, windows2022 or windows2025"))]
    #[x_kube(validation = Rule::new("self.split('@')[0] in ['windows2019','windows2022','windows2025'] ? self.split('@')[1] == 'latest' : true")
        .message("an alias of Windows has no version but latest"))]
    pub alias: Option<String>,
    /// Tags that an image must have. The value `*` stands for any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::selector_tags")]
    pub tags: Option<BTreeMap<String, String>>,
    /// The image's ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "ami-[0-9a-z]+"))]
    pub id: Option<String>,
    /// The image's name, possibly with wildcards. It is the name field, and not the tag `Name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The account that owns the image, or `self`, `amazon` or `aws-marketplace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Name or ARN of an SSM parameter that holds the image's ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssm_parameter: Option<String>,
}

/// What makes images alike: the form of their user data, default disks, overhead.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum AmiFamily {
    /// Amazon Linux 2.
    AL2,
    /// Amazon Linux 2023.
    AL2023,
    /// Bottlerocket.
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

impl AmiFamily {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            AmiFamily::AL2 => "AL2",
            AmiFamily::AL2023 => "AL2023",
            AmiFamily::Bottlerocket => "Bottlerocket",
            AmiFamily::Custom => "Custom",
            AmiFamily::Windows2019 => "Windows2019",
            AmiFamily::Windows2022 => "Windows2022",
            AmiFamily::Windows2025 => "Windows2025",
        }
    }

    /// Whether nodes of the family run Windows.
    pub fn is_windows(self) -> bool {
        matches!(
            self,
            AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025
        )
    }
}

/// An alias taken apart: `al2023@v20240807` is family AL2023, version `v20240807`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias<'a> {
    /// The family of images.
    pub family: AmiFamily,
    /// The version, or `latest`.
    pub version: &'a str,
}

impl<'a> Alias<'a> {
    /// Takes an alias apart; `None` if the schema would refuse it for its form or family.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (family, version) = text.split_once('@')?;
        let family = match family {
            "al2" => AmiFamily::AL2,
            "al2023" => AmiFamily::AL2023,
            "bottlerocket" => AmiFamily::Bottlerocket,
            "windows2019" => AmiFamily::Windows2019,
            "windows2022" => AmiFamily::Windows2022,
            "windows2025" => AmiFamily::Windows2025,
            _ => return None,
        };
        (!version.is_empty()).then_some(Self { family, version })
    }

    /// Whether the alias moves on to newer images by itself.
    pub fn is_latest(&self) -> bool {
        self.version == "latest"
    }
}

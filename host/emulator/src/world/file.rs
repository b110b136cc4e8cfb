//! Reads an account from a world file, or makes one up.
//!
//! The format is that of [`longshore_ec2::catalogue::world`], which checks it. This module takes
//! what only an endpoint needs: whole records of instance types, free addresses, refusals, and the
//! key `account`. What the file leaves out is made up, so that a NodeClass of Karpenter's
//! documentation finds subnets, groups and images with the tag `karpenter.sh/discovery`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use longshore_api::manifests::{Diagnostics, documents};
use longshore_ec2::catalogue::Region;
use longshore_ec2::catalogue::world;
use serde::Deserialize;
use serde_json::Value;

use super::account::{
    Account, Cluster, Image, InstanceType, PlacementGroup, Refuse, Reservation, SecurityGroup,
    Settings, Subnet, Tags,
};
use super::pools::Rule;
use crate::policies::Policy;

/// Why a world file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The file does not describe a region.
    #[error("{}", list(.0))]
    Region(Diagnostics),
    /// What only the emulator reads cannot be read.
    #[error("{file}: {what}; see host/emulator/README.md for the key `account`")]
    Account {
        file: String,
        /// Field and fault.
        what: String,
    },
}

fn list(problems: &Diagnostics) -> String {
    let lines = problems.list.iter().map(ToString::to_string);
    lines.collect::<Vec<_>>().join("\n")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    instance_types: Value,
    #[serde(default)]
    node_class: Value,
    #[serde(default)]
    cluster: Cluster,
    #[serde(default)]
    free_addresses: BTreeMap<String, u32>,
    #[serde(default)]
    free_reservations: BTreeMap<String, u32>,
    #[serde(default)]
    placement_groups: Vec<PlacementGroup>,
    #[serde(default)]
    unavailable: Vec<Short>,
    #[serde(default)]
    refuse: Vec<Refuse>,
    #[serde(default)]
    fleet_error: Option<Refuse>,
    #[serde(default)]
    account: WireAccount,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Short {
    instance_type: String,
    zone: String,
    capacity_type: String,
    #[serde(default)]
    reservation: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct WireAccount {
    id: Option<String>,
    vpc: Option<String>,
    queue: Option<String>,
    subnets: Option<Vec<Subnet>>,
    security_groups: Option<Vec<SecurityGroup>>,
    images: Option<Vec<Image>>,
    reservations: Vec<Reservation>,
    roles: Option<BTreeSet<String>>,
    policies: Vec<Policy>,
    instance_profiles: BTreeMap<String, String>,
    parameters: BTreeMap<String, String>,
    capacity: Vec<Rule>,
    settings: Settings,
}

const SMALL: &str = include_str!("../../data/small.json");

impl Account {
    /// Reads a world file: name for messages, content, and optionally a file of instance types that
    /// takes the place of those in the world.
    ///
    /// # Errors
    /// What [`world::read`] refuses, and an `account` that cannot be read.
    pub fn read(
        file: &str,
        bytes: &[u8],
        types: Option<(&str, &[u8])>,
    ) -> Result<(Account, Diagnostics), WorldError> {
        let (world, problems) = world::read(file, bytes, types).map_err(WorldError::Region)?;
        let wrong = |what: String| WorldError::Account {
            file: file.to_owned(),
            what,
        };
        let (found, _) = documents(file, bytes);
        let text = found.first().map_or("{}", |document| document.text());
        let mut wire: Wire = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
        let records = match types {
            Some((_, bytes)) => serde_json::from_slice(bytes).map_err(|e| wrong(e.to_string()))?,
            None => std::mem::take(&mut wire.instance_types),
        };
        let types = instance_types(&world.region, records);
        Ok((account(&world.region, types, wire), problems))
    }

    /// us-east-1 with a few instance types and three zones.
    pub fn default_region() -> Account {
        let read = Account::read("built-in", SMALL.as_bytes(), None);
        read.expect("a test reads the built-in world").0
    }
}

/// Records come as a list, by name, or as the call's answer.
fn instance_types(region: &Region, records: Value) -> BTreeMap<String, InstanceType> {
    let records: Vec<Value> = match records {
        Value::Array(list) => list,
        Value::Object(mut map) => match map.remove("InstanceTypes") {
            Some(Value::Array(list)) => list,
            _ => map.into_iter().map(|(_, record)| record).collect(),
        },
        _ => Vec::new(),
    };
    let named = |record: Value| {
        let name = record["InstanceType"].as_str()?.to_owned();
        let at = region.find(&name)?;
        let spot = region.zones().iter().enumerate();
        let spot =
            spot.filter_map(|(zone, own)| Some((own.name.to_string(), region.spot(at, zone)?)));
        let facts = &region.types()[at];
        let one = InstanceType {
            record: Arc::new(record),
            vcpus: facts.vcpus,
            architectures: facts
                .architectures
                .iter()
                .map(ToString::to_string)
                .collect(),
            zones: offered(region, at),
            on_demand: region.on_demand(at),
            spot: if facts.usage.spot {
                spot.collect()
            } else {
                BTreeMap::new()
            },
            name: name.clone(),
        };
        Some((name, one))
    };
    records.into_iter().filter_map(named).collect()
}

fn offered(region: &Region, at: usize) -> BTreeSet<String> {
    let zones = region.offered_in(at).iter();
    let name = |zone: usize| region.zones().get(zone).map(|zone| zone.name.to_string());
    zones.filter_map(name).collect()
}

fn account(region: &Region, types: BTreeMap<String, InstanceType>, wire: Wire) -> Account {
    let zones: BTreeMap<String, String> = region
        .zones()
        .iter()
        .map(|zone| (zone.name.to_string(), zone.id.to_string()))
        .collect();
    let (own, status) = (wire.account, &wire.node_class["status"]);
    let tags = discovery(&wire.cluster.name);
    let mut subnets = own
        .subnets
        .unwrap_or_else(|| subnets(&zones, status, &tags));
    for subnet in &mut subnets {
        let free = wire.free_addresses.get(&subnet.id);
        subnet.free_addresses = free.copied().unwrap_or(subnet.free_addresses);
    }
    let groups = own.security_groups.unwrap_or_else(|| groups(status, &tags));
    let images = own
        .images
        .unwrap_or_else(|| images(status, &wire.cluster.version));
    let mut capacity = own.capacity;
    capacity.extend(
        wire.unavailable
            .iter()
            .filter(|one| one.reservation.is_none())
            .map(short),
    );
    let mut reservations = own.reservations;
    reservations.extend(known_reservations(status));
    for one in &mut reservations {
        let free = wire.free_reservations.get(&one.id).copied();
        let gone = wire
            .unavailable
            .iter()
            .any(|s| s.reservation.as_ref() == Some(&one.id));
        one.available = if gone {
            0
        } else {
            free.unwrap_or(one.available)
        };
        one.total = one.total.max(one.available);
    }
    let role = wire.node_class["spec"]["role"].as_str().map(str::to_owned);
    let role = role.unwrap_or_else(|| format!("KarpenterNodeRole-{}", wire.cluster.name));
    let mut profiles = own.instance_profiles;
    if let Some(profile) = status["instanceProfile"].as_str() {
        profiles
            .entry(profile.to_owned())
            .or_insert_with(|| role.clone());
    }
    Account {
        id: own.id.unwrap_or_else(|| "123456789012".to_owned()),
        region: region.name().to_owned(),
        zones,
        types,
        vpc: own
            .vpc
            .unwrap_or_else(|| "vpc-0a1b2c3d4e5f60718".to_owned()),
        subnets: subnets
            .into_iter()
            .map(|one| (one.id.clone(), one))
            .collect(),
        groups: groups
            .into_iter()
            .map(|one| (one.id.clone(), one))
            .collect(),
        images: images
            .into_iter()
            .map(|one| (one.id.clone(), one))
            .collect(),
        reservations: reservations
            .into_iter()
            .map(|one| (one.id.clone(), one))
            .collect(),
        placement_groups: wire.placement_groups,
        roles: own.roles.unwrap_or_else(|| BTreeSet::from([role])),
        policies: own.policies,
        profiles,
        parameters: own.parameters,
        queue: own.queue.unwrap_or_else(|| wire.cluster.name.clone()),
        cluster: wire.cluster,
        capacity,
        refuse: wire.refuse,
        fleet_error: wire.fleet_error,
        settings: own.settings,
    }
}

fn discovery(cluster: &str) -> Tags {
    Tags::from([("karpenter.sh/discovery".to_owned(), cluster.to_owned())])
}

fn short(one: &Short) -> Rule {
    Rule {
        instance_type: Some(one.instance_type.clone()),
        zone: Some(one.zone.clone()),
        capacity_type: Some(one.capacity_type.clone()),
        free: Some(0),
        ..Rule::default()
    }
}

/// Addresses of a /19 less those that AWS keeps.
const SUBNET_ADDRESSES: u32 = 8192 - 5;

fn subnets(zones: &BTreeMap<String, String>, status: &Value, tags: &Tags) -> Vec<Subnet> {
    let known = status["subnets"].as_array().into_iter().flatten();
    let known = known.filter_map(|one| Some((one["id"].as_str()?, one["zone"].as_str()?)));
    let mut pairs: Vec<(String, String)> = known
        .map(|(id, zone)| (id.to_owned(), zone.to_owned()))
        .collect();
    if pairs.is_empty() {
        let made = zones.keys().enumerate();
        pairs = made
            .map(|(at, zone)| (format!("subnet-{:017x}", at + 1), zone.clone()))
            .collect();
    }
    let subnet = |(at, (id, zone)): (usize, (String, String))| Subnet {
        id,
        zone,
        cidr: format!("10.{}.{}.0/19", at / 8, at % 8 * 32),
        free_addresses: SUBNET_ADDRESSES,
        tags: tags.clone(),
        used: BTreeSet::new(),
    };
    pairs.into_iter().enumerate().map(subnet).collect()
}

fn groups(status: &Value, tags: &Tags) -> Vec<SecurityGroup> {
    let known = status["securityGroups"].as_array().into_iter().flatten();
    let group = |one: &Value| {
        let id = one["id"].as_str()?.to_owned();
        let name = one["name"].as_str().unwrap_or(&id).to_owned();
        let tags = tags.clone();
        Some(SecurityGroup { id, name, tags })
    };
    let found: Vec<SecurityGroup> = known.filter_map(group).collect();
    match found.is_empty() {
        false => found,
        true => vec![SecurityGroup {
            id: "sg-00000000000000001".to_owned(),
            name: "nodes".to_owned(),
            tags: tags.clone(),
        }],
    }
}

fn images(status: &Value, version: &str) -> Vec<Image> {
    let known = status["amis"].as_array().into_iter().flatten();
    let image = |one: &Value| {
        let id = one["id"].as_str()?.to_owned();
        let arm = one["requirements"].to_string().contains("\"arm64\"");
        let name = one["name"].as_str().unwrap_or(&id).to_owned();
        Some(made(
            &id,
            &name,
            if arm { "arm64" } else { "x86_64" },
            Vec::new(),
        ))
    };
    let mut found: Vec<Image> = known.filter_map(image).collect();
    found.extend(eks_images(version));
    found
}

fn made(id: &str, name: &str, architecture: &str, parameters: Vec<String>) -> Image {
    Image {
        id: id.to_owned(),
        name: name.to_owned(),
        architecture: architecture.to_owned(),
        owner: "amazon".to_owned(),
        created: "2026-10-01T00:00:00.000Z".to_owned(),
        deprecated: Some("2028-10-01T00:00:00.000Z".to_owned()),
        tags: Tags::new(),
        parameters,
    }
}

/// Images of AL2023, Bottlerocket and Windows for a version of Kubernetes, with the parameters of
/// SSM that name them.
fn eks_images(v: &str) -> Vec<Image> {
    let mut all = Vec::new();
    let mut add = |name: String, architecture: &str, parameters: Vec<String>| {
        let id = format!("ami-{:017x}", 0x0a00 + all.len());
        all.push(made(&id, &name, architecture, parameters));
    };
    let (release, bottle) = ("v20261001", "1.50.0");
    for (arch, variants) in [
        ("x86_64", &["standard", "nvidia", "neuron"][..]),
        ("arm64", &["standard", "nvidia"]),
    ] {
        for variant in variants {
            let name = format!("amazon-eks-node-al2023-{arch}-{variant}-{v}-{release}");
            let path =
                format!("/aws/service/eks/optimized-ami/{v}/amazon-linux-2023/{arch}/{variant}");
            let ids = ["recommended", &*name].map(|at| format!("{path}/{at}/image_id"));
            add(name, arch, ids.to_vec());
        }
        for variant in ["", "-nvidia"] {
            let path = format!("/aws/service/bottlerocket/aws-k8s-{v}{variant}/{arch}");
            let ids = ["latest", bottle].map(|at| format!("{path}/{at}/image_id"));
            let name = format!("bottlerocket-aws-k8s-{v}{variant}-{arch}-v{bottle}");
            add(name, arch, ids.to_vec());
        }
    }
    for year in ["2019", "2022", "2025"] {
        let name = format!("Windows_Server-{year}-English-Core-EKS_Optimized-{v}");
        let path = format!("/aws/service/ami-windows-latest/{name}/image_id");
        add(format!("{name}-2026.10.01"), "x86_64", vec![path]);
    }
    all
}

/// Reservations that a NodeClass's status names; their size is made up.
fn known_reservations(status: &Value) -> Vec<Reservation> {
    let known = status["capacityReservations"]
        .as_array()
        .into_iter()
        .flatten();
    let text = |one: &Value, name: &str| one[name].as_str().map(str::to_owned);
    let reservation = |one: &Value| {
        Some(Reservation {
            id: text(one, "id")?,
            instance_type: text(one, "instanceType")?,
            zone: text(one, "availabilityZone")?,
            total: 10,
            available: 10,
            kind: text(one, "reservationType").unwrap_or_else(|| "default".to_owned()),
            criteria: text(one, "instanceMatchCriteria").unwrap_or_else(|| "targeted".to_owned()),
            interruptible: one["interruptible"].as_bool().unwrap_or(false),
            end: text(one, "endTime"),
            owner: text(one, "ownerID"),
            tags: Tags::new(),
        })
    };
    known.filter_map(reservation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_world_can_be_read() {
        let (account, problems) = Account::read("built-in", SMALL.as_bytes(), None).unwrap();
        assert!(problems.is_empty(), "{}", list(&problems));
        assert_eq!((account.zones.len(), account.subnets.len()), (3, 3));
        assert!(account.types.len() >= 12);
        assert!(
            account
                .types
                .values()
                .all(|one| one.on_demand.is_some() && !one.spot.is_empty())
        );
    }

    #[test]
    fn keys_of_the_account_are_checked() {
        let wrong = SMALL.replacen('{', "{\"account\": {\"subnet\": []},", 1);
        let error = Account::read("world.json", wrong.as_bytes(), None)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("world.json: unknown field `subnet`"),
            "{error}"
        );
    }
}

//! Reads a region from one file, in the format of `oracle-aws`: region, zones, NodeClass, instance
//! types, and optionally prices, reservations and what has no capacity.
//!
//! The same file serves several commands, so keys that only launches and the emulator read are
//! accepted and passed over. Any other unknown key is a fault.

use std::collections::BTreeMap;

use longshore_api::manifests::{Diagnostic, Diagnostics, Document, documents};
use longshore_userdata::Cluster;
use serde::Deserialize;
use serde_json::Value;

use crate::facts;
use crate::nodeclass::{EC2NodeClass, of_document};
use crate::validation;

use super::class::{Class, ClassZone};
use super::region::{Group, MAX_ZONES, Region, Zone};
use super::unavailable::Short;

/// A region as a file describes it.
#[derive(Clone, Debug)]
pub struct World {
    /// Its types, zones and prices.
    pub region: Region,
    /// Its NodeClass, if it has one. A status without subnets stands for one subnet per zone.
    pub class: Option<Class>,
    /// The object that `class` was read from.
    pub object: Option<EC2NodeClass>,
    /// The cluster that nodes join.
    pub cluster: Option<Cluster>,
    /// The API server's version, such as `1.35`; empty if it is not known.
    pub kubernetes: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "a world: region, zones, …")]
struct Wire {
    region: String,
    zones: BTreeMap<String, String>,
    #[serde(default)]
    offered_in: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    node_class: Option<Value>,
    #[serde(default)]
    instance_types: Option<Value>,
    #[serde(default)]
    prices: WirePrices,
    #[serde(default)]
    placement_groups: Vec<WireGroup>,
    #[serde(default)]
    free_reservations: BTreeMap<String, u32>,
    #[serde(default)]
    unavailable: Vec<WireShort>,
    #[serde(default, rename = "account")]
    _account: Option<Value>,
    #[serde(default)]
    cluster: Option<WireCluster>,
    #[serde(default, rename = "nodeClaim")]
    _node_claim: Option<Value>,
    #[serde(default, rename = "freeAddresses")]
    _free_addresses: Option<Value>,
    #[serde(default, rename = "refuse")]
    _refuse: Option<Value>,
    #[serde(default, rename = "fleetError")]
    _fleet_error: Option<Value>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a cluster: name, …")]
struct WireCluster {
    name: String,
    version: String,
    endpoint: String,
    #[serde(alias = "CABundle")]
    ca_bundle: String,
    #[serde(alias = "CIDR")]
    cidr: String,
    #[serde(rename = "kubeDNSIP", alias = "KubeDNSIP")]
    kube_dns_ip: String,
}

impl WireCluster {
    fn cluster(self) -> Cluster {
        Cluster {
            name: self.name,
            endpoint: self.endpoint,
            ca_bundle: self.ca_bundle,
            cidr: self.cidr,
            kube_dns_ip: self.kube_dns_ip,
        }
    }
}

/// A table that is given is the whole truth: what it lacks has no price.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "prices: onDemand, spot")]
struct WirePrices {
    #[serde(default)]
    on_demand: Option<BTreeMap<String, f64>>,
    #[serde(default)]
    spot: Option<BTreeMap<String, BTreeMap<String, f64>>>,
}

/// What DescribePlacementGroups answers; other fields are passed over.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", expecting = "a placement group")]
struct WireGroup {
    group_id: String,
    #[serde(default)]
    group_name: String,
    strategy: String,
    #[serde(default)]
    partition_count: Option<i64>,
    #[serde(default, rename = "State")]
    _state: Option<String>,
    #[serde(default, rename = "GroupArn")]
    _group_arn: Option<String>,
    #[serde(default, rename = "Tags")]
    _tags: Option<Value>,
    #[serde(default, rename = "SpreadLevel")]
    _spread_level: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an offering")]
struct WireShort {
    instance_type: String,
    zone: String,
    capacity_type: String,
    #[serde(default)]
    reservation: Option<String>,
}

/// Most partitions that EC2 gives a placement group.
const MAX_PARTITIONS: i64 = 7;

/// Reads a world. `types` is a file of instance types (name and content) that takes the place of
/// those in the world.
///
/// # Errors
/// Everything that makes it unusable: no or several documents, an unknown key, a NodeClass that
/// cannot be used, no usable type. Types that cannot be read are reported beside the world.
pub fn read(
    source: &str,
    bytes: &[u8],
    types: Option<(&str, &[u8])>,
) -> Result<(World, Diagnostics), Diagnostics> {
    let (found, mut problems) = documents(source, bytes);
    if !problems.list.is_empty() {
        return Err(problems);
    }
    let [document] = found.as_slice() else {
        problems.push(Diagnostic {
            what: format!("has {} documents where one is expected", found.len()),
            hint: "a world is one object: region, zones, nodeClass, instanceTypes".to_owned(),
            ..whole(source)
        });
        return Err(problems);
    };
    let one = |problem| {
        let mut all = Diagnostics::default();
        all.push(problem);
        all
    };
    let wire: Wire = document.read().map_err(one)?;
    if wire.zones.is_empty() || wire.zones.len() > MAX_ZONES {
        let what = format!("has {} zones", wire.zones.len());
        let hint = "name 1 to 64 zones with their ids";
        return Err(one(document.refuse("zones", what, hint)));
    }
    let (facts, mut problems) = match (types, &wire.instance_types) {
        (Some((name, bytes)), _) => facts::read(name, bytes),
        (None, Some(inline)) => {
            let (facts, mut problems) = facts::read(source, inline.to_string().as_bytes());
            // Its lines are not those of the world; items are counted.
            problems
                .list
                .iter_mut()
                .for_each(|problem| problem.location.line = None);
            (facts, problems)
        }
        (None, None) => {
            let what = "is missing";
            let hint = "add it, or give a file with --instance-types";
            return Err(one(document.refuse("instanceTypes", what, hint)));
        }
    };
    if facts.is_empty() {
        return Err(problems);
    }
    let zones = wire.zones.iter().map(|(name, id)| Zone {
        name: (**name).into(),
        id: (**id).into(),
    });
    let mut region = Region::new(&wire.region, zones.collect(), facts);
    let refuse = |(field, what, hint): (String, String, &str)| document.refuse(&field, what, hint);
    fill(&mut region, &wire).map_err(|fault| one(refuse(fault)))?;
    let class = wire
        .node_class
        .as_ref()
        .map(|object| node_class(object, document))
        .transpose()
        .map_err(|problem| one(*problem))?;
    let (object, mut class) = class.unzip();
    if let Some(class) = &mut class
        && class.subnets.is_empty()
    {
        class.subnets = every_zone(&region);
    }
    for (name, zones) in &wire.offered_in {
        let unknown = zones.iter().find(|zone| region.zone(zone).is_none());
        if let Some(zone) = unknown {
            let what = format!("names the zone `{zone}`, which is not in `zones`");
            problems.push(document.refuse(&format!("offeredIn.{name}"), what, "add or correct it"));
        }
    }
    let world = World {
        region,
        class,
        object,
        kubernetes: wire.cluster.clone().unwrap_or_default().version,
        cluster: wire.cluster.map(WireCluster::cluster),
    };
    Ok((world, problems))
}

/// The NodeClass of a world, checked as one of a manifest is.
fn node_class(object: &Value, world: &Document) -> Result<(EC2NodeClass, Class), Box<Diagnostic>> {
    let refuse = |field: &str, what: String, hint: String| {
        let field = format!("nodeClass.{field}");
        Box::new(world.refuse(field.trim_end_matches('.'), what, hint))
    };
    let (found, _) = documents("", object.to_string().as_bytes());
    let Some(document) = found.first() else {
        return Err(refuse(
            "",
            "is empty".to_owned(),
            "give an EC2NodeClass".to_owned(),
        ));
    };
    let object = of_document(document).map_err(|p| refuse(&p.field, p.what, p.hint))?;
    if let Some(fault) = validation::kubelet(object.spec.kubelet())
        .into_iter()
        .next()
    {
        let field = format!("spec.kubelet.{}", fault.field);
        return Err(refuse(&field, fault.what, fault.hint));
    }
    let class = Class::of(&object);
    let class = class.map_err(|fault| refuse(&fault.field, fault.what, fault.hint.into_owned()))?;
    Ok((object, class))
}

/// One subnet per zone.
pub fn every_zone(region: &Region) -> Vec<ClassZone> {
    let zone = |zone: &Zone| ClassZone {
        zone: zone.name.clone(),
        id: zone.id.clone(),
    };
    region.zones().iter().map(zone).collect()
}

fn whole(source: &str) -> Diagnostic {
    Diagnostic {
        location: longshore_api::manifests::Location {
            source: source.to_owned(),
            ..Default::default()
        },
        ..Diagnostic::default()
    }
}

fn fill(region: &mut Region, wire: &Wire) -> Result<(), (String, String, &'static str)> {
    for (name, zones) in &wire.offered_in {
        region.offer(name, zones.iter().map(String::as_str));
    }
    let price = |field: String, price: f64| match price.is_finite() && price >= 0.0 {
        true => Ok(()),
        false => Err((
            field,
            format!("{price} is not a price"),
            "give USD per hour",
        )),
    };
    if let Some(prices) = &wire.prices.on_demand {
        for (name, of) in prices {
            price(format!("prices.onDemand[{name}]"), *of)?;
        }
        region.replace_on_demand(|name| prices.get(name).copied());
    }
    if let Some(prices) = &wire.prices.spot {
        for (name, zones) in prices {
            for (zone, of) in zones {
                price(format!("prices.spot[{name}][{zone}]"), *of)?;
            }
        }
        region.replace_spot(|name, zone| prices.get(name)?.get(zone).copied());
    }
    for (id, count) in &wire.free_reservations {
        region.set_free(id, *count);
    }
    let mut groups = Vec::new();
    for (index, group) in wire.placement_groups.iter().enumerate() {
        let partitions = match &*group.strategy {
            "partition" => group.partition_count.unwrap_or(MAX_PARTITIONS),
            _ => 0,
        };
        if !(0..=MAX_PARTITIONS).contains(&partitions) {
            let field = format!("placementGroups[{index}].PartitionCount");
            let what = format!("{partitions} is not a number of partitions");
            return Err((field, what, "EC2 allows 1 to 7"));
        }
        groups.push(Group {
            id: (*group.group_id).into(),
            name: (*group.group_name).into(),
            strategy: (*group.strategy).into(),
            partitions,
        });
    }
    region.groups = groups.into();
    region.change_unavailable(|unavailable| {
        for short in &wire.unavailable {
            let reservation = short.reservation.as_deref();
            let reserved = short.capacity_type == "reserved";
            let entry = Short {
                capacity_type: (*short.capacity_type).into(),
                zone: (*short.zone).into(),
                reservation: reservation.filter(|_| reserved).map(Into::into),
                ..Short::default()
            };
            unavailable.mark(&short.instance_type, entry, i64::MAX);
        }
    });
    Ok(())
}

//! What the region sells: types, zones that offer them, spot prices, placement scores.

use std::collections::BTreeMap;

use serde_json::Value;

use super::filters::Filters;
use super::paging::Page;
use crate::action::{Context, Found};
use crate::wire::{Refusal, Scope, Xml, element, items, text};
use crate::world::account::{InstanceType, Tags};
use crate::world::{CapacityType, World};

pub(super) fn types(world: &World, scope: &Scope) -> Found {
    let wanted = scope.texts("InstanceType");
    let filters = Filters::read(
        scope,
        &[
            "instance-type",
            "processor-info.supported-architecture",
            "supported-virtualization-type",
            "supported-usage-class",
            "bare-metal",
            "current-generation",
            "hypervisor",
        ],
    )?;
    if let Some(unknown) = wanted
        .iter()
        .find(|name| !world.account.types.contains_key(**name))
    {
        let message = format!("The following supplied instance types do not exist: [{unknown}]");
        return Err(Refusal::new("InvalidInstanceType", message));
    }
    if wanted.len() > 100 {
        let message = "At most 100 instance types can be described in one request";
        return Err(Refusal::new("InvalidParameterValue", message));
    }
    let page = Page::read(scope, 100, 5, 100)?;
    let none = Tags::new();
    let rows = world.account.types.iter().filter(|(name, one)| {
        (wanted.is_empty() || wanted.contains(&name.as_str()))
            && filters.fit(&none, |field| of_type(one, field))
    });
    let rows = rows.map(|(name, one)| (name.as_str(), one));
    Ok(page.cut("instanceTypeSet", rows, |one| record("", &one.record)))
}

fn of_type<'a>(one: &'a InstanceType, field: &str) -> Vec<&'a str> {
    let record = &one.record;
    let list = |value: &'a Value| -> Vec<&'a str> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    };
    let flag = |value: &Value| match value.as_bool() {
        Some(true) => vec!["true"],
        Some(false) => vec!["false"],
        None => vec![],
    };
    match field {
        "instance-type" => vec![&one.name],
        "processor-info.supported-architecture" => {
            one.architectures.iter().map(String::as_str).collect()
        }
        // Records that were made slim do not say; every type of today is hvm.
        "supported-virtualization-type" => match &record["SupportedVirtualizationTypes"] {
            Value::Array(_) => list(&record["SupportedVirtualizationTypes"]),
            _ => vec!["hvm"],
        },
        "supported-usage-class" => list(&record["SupportedUsageClasses"]),
        "bare-metal" => flag(&record["BareMetal"]),
        "current-generation" => flag(&record["CurrentGeneration"]),
        _ => record["Hypervisor"].as_str().into_iter().collect(),
    }
}

/// A record of the API as elements. Names begin small on the wire; these are the exceptions.
fn record(parent: &str, value: &Value) -> Vec<Xml> {
    let fields = value.as_object().into_iter().flatten();
    fields
        .map(|(name, value)| field(parent, name, value))
        .collect()
}

fn field(parent: &str, name: &str, value: &Value) -> Xml {
    let wire = match name {
        "EbsCards" => "ebsCardSet".to_owned(),
        "Workloads" => "workloadSet".to_owned(),
        name => small(name),
    };
    match value {
        Value::Array(list) => {
            // This one list of EC2 has `member` where all others have `item`.
            let accelerators = parent == "InferenceAcceleratorInfo";
            let entry = if accelerators { "member" } else { "item" };
            element(
                wire,
                list.iter().map(|one| match one {
                    Value::Object(_) => element(entry, record(name, one)),
                    plain => text(entry, scalar(plain)),
                }),
            )
        }
        Value::Object(_) => element(wire, record(name, value)),
        plain => text(wire, scalar(plain)),
    }
}

fn small(name: &str) -> String {
    let mut chars = name.chars();
    let first = chars.next().map(|c| c.to_ascii_lowercase());
    first.into_iter().chain(chars).collect()
}

fn scalar(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) fn offerings(world: &World, scope: &Scope) -> Found {
    let kinds = ["region", "availability-zone", "availability-zone-id"];
    let kind = scope.one_of("LocationType", &kinds)?.unwrap_or("region");
    let filters = Filters::read(scope, &["instance-type", "location"])?;
    let page = Page::read(scope, 1000, 5, 1000)?;
    let account = &world.account;
    let mut rows = BTreeMap::new();
    for one in account.types.values() {
        let places: Vec<&str> = match kind {
            "region" => vec![&account.region],
            "availability-zone" => one.zones.iter().map(String::as_str).collect(),
            _ => one
                .zones
                .iter()
                .filter_map(|zone| Some(account.zones.get(zone)?.as_str()))
                .collect(),
        };
        for place in places {
            rows.insert(format!("{}/{place}", one.name), (one.name.as_str(), place));
        }
    }
    let none = Tags::new();
    let rows = rows.iter().filter(|(_, (name, place))| {
        filters.fit(&none, |field| {
            vec![if field == "location" { *place } else { *name }]
        })
    });
    let rows = rows.map(|(key, row)| (key.as_str(), row));
    Ok(page.cut("instanceTypeOfferingSet", rows, |(name, place)| {
        vec![
            text("instanceType", name),
            text("locationType", kind),
            text("location", place),
        ]
    }))
}

pub(super) fn zones(world: &World, scope: &Scope) -> Found {
    let names = scope.texts("ZoneName");
    let ids = scope.texts("ZoneId");
    let filters = Filters::read(
        scope,
        &["zone-name", "zone-id", "state", "zone-type", "region-name"],
    )?;
    let _ = scope.flag("AllAvailabilityZones")?;
    let account = &world.account;
    let none = Tags::new();
    let rows = account.zones.iter().filter(|(name, id)| {
        (names.is_empty() || names.contains(&name.as_str()))
            && (ids.is_empty() || ids.contains(&id.as_str()))
            && filters.fit(&none, |field| {
                vec![match field {
                    "zone-name" => name.as_str(),
                    "zone-id" => id.as_str(),
                    "state" => "available",
                    "region-name" => account.region.as_str(),
                    _ => "availability-zone",
                }]
            })
    });
    Ok(vec![items(
        "availabilityZoneInfo",
        rows.map(|(name, id)| {
            vec![
                text("zoneName", name),
                text("zoneId", id),
                text("zoneState", "available"),
                text("zoneType", "availability-zone"),
                text("regionName", &account.region),
                text("groupName", &account.region),
                text("networkBorderGroup", &account.region),
                text("optInStatus", "opt-in-not-required"),
            ]
        }),
    )])
}

pub(super) fn spot_prices(world: &World, context: &Context, scope: &Scope) -> Found {
    let wanted = scope.texts("InstanceType");
    let products = scope.texts("ProductDescription");
    let zone = scope.get("AvailabilityZone");
    let filters = Filters::read(
        scope,
        &["instance-type", "availability-zone", "product-description"],
    )?;
    for name in ["StartTime", "EndTime"] {
        let wrong = scope
            .get(name)
            .filter(|text| crate::time::Time::parse(text).is_none());
        if let Some(value) = wrong {
            let message = format!("Value ({value}) for parameter {name} is invalid.");
            return Err(Refusal::new("InvalidParameterValue", message));
        }
    }
    let page = Page::read(scope, 1000, 1, 2000)?;
    let product = "Linux/UNIX";
    let sold = products.is_empty() || products.contains(&product);
    let (mut rows, none) = (BTreeMap::new(), Tags::new());
    for one in world.account.types.values().filter(|_| sold) {
        for (place, price) in one
            .spot
            .iter()
            .filter(|(place, _)| one.zones.contains(*place))
        {
            let own = |field: &str| {
                vec![match field {
                    "instance-type" => one.name.as_str(),
                    "availability-zone" => place.as_str(),
                    _ => product,
                }]
            };
            let fits = (wanted.is_empty() || wanted.contains(&one.name.as_str()))
                && zone.is_none_or(|zone| zone == place)
                && filters.fit(&none, own);
            if fits {
                rows.insert(format!("{}/{place}", one.name), (&one.name, place, price));
            }
        }
    }
    let rows = rows.iter().map(|(key, row)| (key.as_str(), row));
    let mut answer = page.cut("spotPriceHistorySet", rows, |(name, place, price)| {
        vec![
            text("instanceType", name),
            text("productDescription", product),
            text("spotPrice", format!("{price:.6}")),
            text("timestamp", context.now.plus(-crate::time::HOUR).iso()),
            text("availabilityZone", place),
        ]
    });
    if answer.len() == 1 {
        // The last page of this call has an empty token.
        answer.push(text("nextToken", ""));
    }
    Ok(answer)
}

/// Scores of 1 to 10 from the depth of pools.
pub(super) fn scores(world: &World, context: &Context, scope: &Scope) -> Found {
    let types = scope.texts("InstanceType");
    let target: u32 = scope.parse("TargetCapacity")?.ok_or_else(|| {
        Refusal::new(
            "MissingParameter",
            "The request must contain the parameter TargetCapacity",
        )
    })?;
    let _ = scope.one_of("TargetCapacityUnitType", &["units", "vcpu", "memory-mib"])?;
    let by_zone = scope.flag("SingleAvailabilityZone")?;
    let regions = scope.texts("RegionName");
    let page = Page::read(scope, 1000, 10, 1000)?;
    if types.len() < 3 {
        let message = "At least 3 instance types must be given.";
        return Err(Refusal::new("InvalidParameterValue", message));
    }
    let account = &world.account;
    if let Some(unknown) = types
        .iter()
        .find(|name| !account.types.contains_key(**name))
    {
        let message = format!("The instance type {unknown} does not exist");
        return Err(Refusal::new("InvalidInstanceType", message));
    }
    let here = regions.is_empty() || regions.contains(&account.region.as_str());
    let zones: Vec<_> = account.zones.iter().filter(|_| here).collect();
    // A large target spreads over more pools than a small one needs.
    let large = u8::from(target > 100) + u8::from(target > 1000);
    let score = |zone: &String| {
        let depth = |name: &&str| {
            let offered = account
                .types
                .get(*name)
                .is_some_and(|one| one.zones.contains(zone));
            let key = ((*name).to_owned(), zone.clone(), CapacityType::Spot);
            if offered {
                world.pools.depth(&key, context.now)
            } else {
                0
            }
        };
        types
            .iter()
            .map(depth)
            .max()
            .unwrap_or(0)
            .saturating_sub(large)
            .max(1)
    };
    let mut rows = BTreeMap::new();
    match by_zone {
        true => rows.extend(
            zones
                .iter()
                .map(|(zone, id)| (id.as_str(), (Some(*id), score(zone)))),
        ),
        false => rows.extend(
            zones
                .iter()
                .map(|(zone, _)| score(zone))
                .max()
                .map(|s| ("", (None, s))),
        ),
    }
    let rows = rows.iter().map(|(key, row)| (*key, row));
    Ok(page.cut("spotPlacementScoreSet", rows, |(id, score)| {
        let mut all = vec![text("region", &account.region)];
        all.extend(id.map(|id| text("availabilityZoneId", id)));
        all.push(text("score", score));
        all
    }))
}

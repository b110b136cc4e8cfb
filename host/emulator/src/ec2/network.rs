//! What the account has: subnets, security groups, its VPC, images, reservations, placement groups.

use std::collections::BTreeMap;

use super::filters::Filters;
use super::paging::Page;
use super::tags::tag_set;
use crate::action::Found;
use crate::time::Time;
use crate::wire::{Refusal, Scope, element, flag, items, text};
use crate::world::World;
use crate::world::account::Tags;

/// Ids that a request names must all exist.
fn known<T>(ids: &[&str], all: &BTreeMap<String, T>, code: &str) -> Result<(), Refusal> {
    match ids.iter().find(|id| !all.contains_key(**id)) {
        None => Ok(()),
        Some(id) => Err(Refusal::new(code, format!("The ID '{id}' does not exist"))),
    }
}

fn chosen(ids: &[&str], id: &str) -> bool {
    ids.is_empty() || ids.contains(&id)
}

pub(super) fn subnets(world: &World, scope: &Scope) -> Found {
    let account = &world.account;
    let ids = scope.texts("SubnetId");
    let filters = Filters::read(
        scope,
        &[
            "tag",
            "subnet-id",
            "vpc-id",
            "availability-zone",
            "availability-zone-id",
            "state",
        ],
    )?;
    known(&ids, &account.subnets, "InvalidSubnetID.NotFound")?;
    let page = Page::read(scope, 500, 5, 1000)?;
    let zone_id = |zone: &String| account.zones.get(zone).map_or("", String::as_str);
    let rows = account.subnets.iter().filter(|(id, one)| {
        chosen(&ids, id)
            && filters.fit(&one.tags, |field| {
                vec![match field {
                    "subnet-id" => id.as_str(),
                    "vpc-id" => account.vpc.as_str(),
                    "availability-zone" => one.zone.as_str(),
                    "availability-zone-id" => zone_id(&one.zone),
                    _ => "available",
                }]
            })
    });
    let rows = rows.map(|(id, one)| (id.as_str(), one));
    Ok(page.cut("subnetSet", rows, |one| {
        let mut all = vec![
            text("subnetId", &one.id),
            text(
                "subnetArn",
                account.arn("ec2", &format!("subnet/{}", one.id)),
            ),
            text("state", "available"),
            text("ownerId", &account.id),
            text("vpcId", &account.vpc),
            text("cidrBlock", &one.cidr),
            text("availableIpAddressCount", one.free_addresses),
            text("availabilityZone", &one.zone),
            text("availabilityZoneId", zone_id(&one.zone)),
            flag("defaultForAz", false),
            flag("mapPublicIpOnLaunch", false),
            flag("assignIpv6AddressOnCreation", false),
        ];
        all.extend(tag_set(&one.tags));
        all
    }))
}

pub(super) fn groups(world: &World, scope: &Scope) -> Found {
    let account = &world.account;
    let ids = scope.texts("GroupId");
    let filters = Filters::read(scope, &["tag", "group-id", "group-name", "vpc-id"])?;
    known(&ids, &account.groups, "InvalidGroup.NotFound")?;
    let page = Page::read(scope, 500, 5, 1000)?;
    let rows = account.groups.iter().filter(|(id, one)| {
        chosen(&ids, id)
            && filters.fit(&one.tags, |field| {
                vec![match field {
                    "group-id" => id.as_str(),
                    "group-name" => one.name.as_str(),
                    _ => account.vpc.as_str(),
                }]
            })
    });
    let rows = rows.map(|(id, one)| (id.as_str(), one));
    Ok(page.cut("securityGroupInfo", rows, |one| {
        let mut all = vec![
            text("ownerId", &account.id),
            text("groupId", &one.id),
            text("groupName", &one.name),
            text("groupDescription", &one.name),
            text("vpcId", &account.vpc),
            items("ipPermissions", []),
            items("ipPermissionsEgress", []),
        ];
        all.extend(tag_set(&one.tags));
        all
    }))
}

pub(super) fn vpcs(world: &World, scope: &Scope) -> Found {
    let account = &world.account;
    let ids = scope.texts("VpcId");
    let filters = Filters::read(scope, &["tag", "vpc-id", "is-default", "isDefault"])?;
    let page = Page::read(scope, 500, 5, 1000)?;
    known(
        &ids,
        &BTreeMap::from([(account.vpc.clone(), ())]),
        "InvalidVpcID.NotFound",
    )?;
    let none = Tags::new();
    let fits = filters.fit(&none, |field| match field {
        "vpc-id" => vec![account.vpc.as_str()],
        _ => vec!["false"],
    });
    let rows = fits.then_some((account.vpc.as_str(), ())).into_iter();
    Ok(page.cut("vpcSet", rows, |()| {
        vec![
            text("vpcId", &account.vpc),
            text("ownerId", &account.id),
            text("state", "available"),
            text("cidrBlock", "10.0.0.0/8"),
            text("instanceTenancy", "default"),
            flag("isDefault", false),
        ]
    }))
}

/// The account of Amazon's images.
const AMAZON: &str = "137112412989";

pub(super) fn images(world: &World, scope: &Scope) -> Found {
    let account = &world.account;
    let ids = scope.texts("ImageId");
    let owners = scope.texts("Owner");
    let _ = scope.flag("IncludeDeprecated")?;
    let filters = Filters::read(
        scope,
        &[
            "tag",
            "image-id",
            "name",
            "architecture",
            "state",
            "owner-alias",
            "owner-id",
        ],
    )?;
    known(&ids, &account.images, "InvalidAMIID.NotFound")?;
    let page = Page::read(scope, 1000, 1, 1000)?;
    let owner = |own: &str| match own {
        "amazon" => AMAZON.to_owned(),
        "self" => account.id.clone(),
        other => other.to_owned(),
    };
    let rows = account.images.iter().filter(|(id, one)| {
        let number = owner(&one.owner);
        let owned = |wanted: &&str| *wanted == one.owner || *wanted == number;
        let alias = if one.owner == "amazon" { "amazon" } else { "" };
        chosen(&ids, id)
            && (owners.is_empty() || owners.iter().any(owned))
            && filters.fit(&one.tags, |field| {
                vec![match field {
                    "image-id" => id.as_str(),
                    "name" => one.name.as_str(),
                    "architecture" => one.architecture.as_str(),
                    "owner-alias" => alias,
                    "owner-id" => match &*one.owner {
                        "amazon" => AMAZON,
                        "self" => account.id.as_str(),
                        other => other,
                    },
                    _ => "available",
                }]
            })
    });
    let rows = rows.map(|(id, one)| (id.as_str(), one));
    Ok(page.cut("imagesSet", rows, |one| {
        let mut all = vec![
            text("imageId", &one.id),
            text("name", &one.name),
            text("imageLocation", format!("{}/{}", one.owner, one.name)),
            text("imageState", "available"),
            text("imageOwnerId", owner(&one.owner)),
            flag("isPublic", one.owner == "amazon"),
            text("architecture", &one.architecture),
            text("imageType", "machine"),
            text("creationDate", &one.created),
            text("rootDeviceType", "ebs"),
            text("rootDeviceName", "/dev/xvda"),
            text("virtualizationType", "hvm"),
            text("hypervisor", "xen"),
            flag("enaSupport", true),
        ];
        let windows = one.name.starts_with("Windows");
        all.push(text(
            "platformDetails",
            if windows { "Windows" } else { "Linux/UNIX" },
        ));
        all.extend(windows.then(|| text("platform", "Windows")));
        all.extend((one.owner == "amazon").then(|| text("imageOwnerAlias", "amazon")));
        all.extend(
            one.deprecated
                .as_ref()
                .map(|time| text("deprecationTime", time)),
        );
        all.extend(tag_set(&one.tags));
        all
    }))
}

pub(super) fn reservations(world: &World, scope: &Scope) -> Found {
    let account = &world.account;
    let ids = scope.texts("CapacityReservationId");
    let filters = Filters::read(
        scope,
        &[
            "tag",
            "state",
            "owner-id",
            "instance-type",
            "instance-match-criteria",
            "availability-zone",
        ],
    )?;
    known(
        &ids,
        &account.reservations,
        "InvalidCapacityReservationId.NotFound",
    )?;
    if !ids.is_empty() && scope.get("MaxResults").is_some() {
        let message = "MaxResults cannot be used together with ids";
        return Err(Refusal::new("InvalidParameterCombination", message));
    }
    let page = Page::read(scope, 1000, 1, 1000)?;
    let ended = |end: &Option<String>| {
        let end = end.as_deref().and_then(Time::parse);
        end.is_some_and(|end| end <= world.now)
    };
    let state = |end: &Option<String>| if ended(end) { "expired" } else { "active" };
    let rows = account.reservations.iter().filter(|(id, one)| {
        chosen(&ids, id)
            && filters.fit(&one.tags, |field| {
                vec![match field {
                    "state" => state(&one.end),
                    "owner-id" => one.owner.as_deref().unwrap_or(&account.id),
                    "instance-type" => one.instance_type.as_str(),
                    "instance-match-criteria" => one.criteria.as_str(),
                    _ => one.zone.as_str(),
                }]
            })
    });
    let rows = rows.map(|(id, one)| (id.as_str(), one));
    Ok(page.cut("capacityReservationSet", rows, |one| {
        let arn = account.arn("ec2", &format!("capacity-reservation/{}", one.id));
        let zone_id = account.zones.get(&one.zone).map_or("", String::as_str);
        let limited = one.end.is_some();
        let mut all = vec![
            text("capacityReservationId", &one.id),
            text("ownerId", one.owner.as_ref().unwrap_or(&account.id)),
            text("capacityReservationArn", arn),
            text("availabilityZone", &one.zone),
            text("availabilityZoneId", zone_id),
            text("instanceType", &one.instance_type),
            text("instancePlatform", "Linux/UNIX"),
            text("tenancy", "default"),
            text("totalInstanceCount", one.total),
            text("availableInstanceCount", one.available),
            flag("ebsOptimized", false),
            flag("ephemeralStorage", false),
            text("state", state(&one.end)),
            text("endDateType", if limited { "limited" } else { "unlimited" }),
            text("instanceMatchCriteria", &one.criteria),
            text("createDate", Time(1_760_000_000_000).iso()),
            text("reservationType", &one.kind),
            flag("interruptible", one.interruptible),
        ];
        all.extend(one.end.as_ref().map(|end| text("endDate", end)));
        all.extend(tag_set(&one.tags));
        all
    }))
}

pub(super) fn placement_groups(world: &World, scope: &Scope) -> Found {
    let account = &world.account;
    let (names, ids) = (scope.texts("GroupName"), scope.texts("GroupId"));
    let filters = Filters::read(scope, &["tag", "group-name", "state", "strategy"])?;
    let all = &account.placement_groups;
    let missing = names
        .iter()
        .find(|name| all.iter().all(|one| one.group_name != **name));
    let missing = missing.or_else(|| {
        ids.iter()
            .find(|id| all.iter().all(|one| one.group_id != **id))
    });
    if let Some(name) = missing {
        let message = format!("The placement group '{name}' is unknown.");
        return Err(Refusal::new("InvalidPlacementGroup.Unknown", message));
    }
    let none = Tags::new();
    let rows = all.iter().filter(|one| {
        chosen(&names, &one.group_name)
            && chosen(&ids, &one.group_id)
            && filters.fit(&none, |field| {
                vec![match field {
                    "group-name" => one.group_name.as_str(),
                    "strategy" => one.strategy.as_str(),
                    _ => "available",
                }]
            })
    });
    let entries = rows.map(|one| {
        let arn = account.arn("ec2", &format!("placement-group/{}", one.group_name));
        let mut all = vec![
            text("groupName", &one.group_name),
            text("groupId", &one.group_id),
            text("groupArn", arn),
            text("state", "available"),
            text("strategy", &one.strategy),
        ];
        all.extend(
            one.partition_count
                .map(|count| text("partitionCount", count)),
        );
        all.extend(
            one.spread_level
                .as_ref()
                .map(|level| text("spreadLevel", level)),
        );
        all
    });
    Ok(vec![element(
        "placementGroupSet",
        entries.map(|one| element("item", one)),
    )])
}

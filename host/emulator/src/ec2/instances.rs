//! DescribeInstances, TerminateInstances, tags.

use std::collections::BTreeMap;

use super::filters::Filters;
use super::paging::Page;
use super::tags::{few_tags, tag_allowed, tag_set};
use crate::action::{Context, Found};
use crate::wire::{Refusal, Scope, Xml, element, flag, items, text};
use crate::world::{CapacityType, Instance, InstanceState, USER, World};

const FILTERS: [&str; 13] = [
    "tag",
    "instance-id",
    "instance-state-name",
    "instance-type",
    "availability-zone",
    "subnet-id",
    "vpc-id",
    "image-id",
    "instance-lifecycle",
    "client-token",
    "private-ip-address",
    "capacity-reservation-id",
    "reservation-id",
];

fn not_found(id: &str) -> Refusal {
    let message = format!("The instance ID '{id}' does not exist");
    Refusal::new("InvalidInstanceID.NotFound", message)
}

fn well_formed(id: &str) -> Result<(), Refusal> {
    let hex = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    match id.strip_prefix("i-").is_some_and(hex) {
        true => Ok(()),
        false => Err(Refusal::new(
            "InvalidInstanceID.Malformed",
            format!("Invalid id: \"{id}\""),
        )),
    }
}

pub(super) fn describe(world: &World, context: &Context, scope: &Scope) -> Found {
    let ids = scope.texts("InstanceId");
    let filters = Filters::read(scope, &FILTERS)?;
    if !ids.is_empty() && scope.get("MaxResults").is_some() {
        let message = "The parameter instancesSet cannot be used with the parameter maxResults";
        return Err(Refusal::new("InvalidParameterCombination", message));
    }
    let page = Page::read(
        scope,
        if ids.is_empty() { 1000 } else { usize::MAX },
        5,
        1000,
    )?;
    for id in &ids {
        well_formed(id)?;
        world
            .instances
            .get_at(id, context.as_of)
            .ok_or_else(|| not_found(id))?;
    }
    let vpc = &world.account.vpc;
    let rows = world.instances.iter_at(context.as_of).filter(|(id, one)| {
        (ids.is_empty() || ids.contains(id))
            && filters.fit(&one.tags, |field| match field {
                "instance-id" => vec![one.id.as_str()],
                "instance-state-name" => vec![one.state.name()],
                "instance-type" => vec![one.instance_type.as_str()],
                "availability-zone" => vec![one.zone.as_str()],
                "subnet-id" => vec![one.subnet.as_str()],
                "vpc-id" => vec![vpc.as_str()],
                "image-id" => vec![one.image.as_str()],
                "instance-lifecycle" => lifecycle(one).into_iter().collect(),
                "client-token" => vec![one.client_token.as_str()],
                "private-ip-address" => vec![one.address.as_str()],
                "capacity-reservation-id" => one.reservation.as_deref().into_iter().collect(),
                _ => vec![one.launch.as_str()],
            })
    });
    Ok(page.cut("reservationSet", rows, |one| {
        vec![
            text("reservationId", &one.launch),
            text("ownerId", &world.account.id),
            items("groupSet", []),
            items("instancesSet", [shown(world, one)]),
        ]
    }))
}

fn lifecycle(one: &Instance) -> Option<&str> {
    match one.capacity_type {
        CapacityType::Spot => Some("spot"),
        _ => one.market.as_deref(),
    }
}

/// `code` and `name` of a state.
pub(super) fn state(name: &'static str, state: InstanceState) -> Xml {
    element(
        name,
        [text("code", state.code()), text("name", state.name())],
    )
}

fn shown(world: &World, one: &Instance) -> Vec<Xml> {
    let account = &world.account;
    let lives = one.state.lives();
    let groups = || {
        items(
            "groupSet",
            one.groups.iter().filter(|_| lives).map(|id| {
                let name = account.groups.get(id).map_or("", |group| &group.name);
                vec![text("groupId", id), text("groupName", name)]
            }),
        )
    };
    let mut placement = vec![
        text("availabilityZone", &one.zone),
        text("availabilityZoneId", &one.zone_id),
        text("tenancy", &one.tenancy),
    ];
    if let Some(name) = &one.placement_group {
        let mut all = account.placement_groups.iter();
        let group = all.find(|group| group.group_id == *name || group.group_name == *name);
        let (id, label) = group.map_or((name, name), |group| (&group.group_id, &group.group_name));
        placement.extend([text("groupName", label), text("groupId", id)]);
        placement.extend(
            one.partition
                .map(|partition| text("partitionNumber", partition)),
        );
    }
    let mut all = vec![
        text("instanceId", &one.id),
        text("imageId", &one.image),
        state("instanceState", one.state),
        text(
            "privateDnsName",
            if lives {
                one.dns_name(&account.region)
            } else {
                String::new()
            },
        ),
        text("dnsName", ""),
        text("reason", one.reason.map_or("", |(_, said)| said)),
        text("amiLaunchIndex", 0),
        items("productCodes", []),
        text("instanceType", &one.instance_type),
        text("launchTime", one.launched.iso()),
        element("placement", placement),
        element(
            "monitoring",
            [text(
                "state",
                if one.monitoring {
                    "enabled"
                } else {
                    "disabled"
                },
            )],
        ),
        text("architecture", &one.architecture),
        text("rootDeviceType", "ebs"),
        text("rootDeviceName", "/dev/xvda"),
        text("virtualizationType", "hvm"),
        text("clientToken", &one.client_token),
        text("hypervisor", "xen"),
        flag("ebsOptimized", false),
        flag("enaSupport", true),
        groups(),
    ];
    if lives {
        all.extend([
            text("subnetId", &one.subnet),
            text("vpcId", &account.vpc),
            text("privateIpAddress", &one.address),
            flag("sourceDestCheck", true),
            items(
                "networkInterfaceSet",
                one.interfaces.iter().map(|interface| {
                    vec![
                        text("networkInterfaceId", &interface.id),
                        text("subnetId", &one.subnet),
                        text("vpcId", &account.vpc),
                        text("ownerId", &account.id),
                        text("status", "in-use"),
                        text("interfaceType", &interface.kind),
                        text("privateIpAddress", &one.address),
                        groups(),
                        element(
                            "attachment",
                            [
                                text("deviceIndex", interface.device),
                                text("networkCardIndex", interface.card),
                                text("status", "attached"),
                                flag("deleteOnTermination", true),
                            ],
                        ),
                    ]
                }),
            ),
        ]);
    }
    all.extend(lifecycle(one).map(|lifecycle| text("instanceLifecycle", lifecycle)));
    all.extend(
        one.spot_request
            .as_ref()
            .map(|id| text("spotInstanceRequestId", id)),
    );
    all.extend(
        one.reservation
            .as_ref()
            .map(|id| text("capacityReservationId", id)),
    );
    let mut specification = Vec::new();
    specification.extend(
        one.preference
            .as_ref()
            .map(|said| text("capacityReservationPreference", said)),
    );
    specification.extend(one.reservation.as_ref().map(|id| {
        element(
            "capacityReservationTarget",
            [text("capacityReservationId", id)],
        )
    }));
    if !specification.is_empty() {
        all.push(element("capacityReservationSpecification", specification));
    }
    if let Some(name) = &one.profile {
        let profile = world.profiles.get(name);
        let path = profile.map_or("/", |profile| &profile.path);
        let arn = account.arn("iam", &format!("instance-profile{path}{name}"));
        let id = profile.map_or("", |profile| &profile.id);
        all.push(element(
            "iamInstanceProfile",
            [text("arn", arn), text("id", id)],
        ));
    }
    if let Some((code, message)) = one.reason {
        all.push(element(
            "stateReason",
            [text("code", code), text("message", message)],
        ));
    }
    let option = |name: &str, usual: &str| {
        one.metadata
            .get(name)
            .cloned()
            .unwrap_or_else(|| usual.to_owned())
    };
    all.push(element(
        "metadataOptions",
        [
            text("state", "applied"),
            text("httpTokens", option("HttpTokens", "optional")),
            text(
                "httpPutResponseHopLimit",
                option("HttpPutResponseHopLimit", "1"),
            ),
            text("httpEndpoint", option("HttpEndpoint", "enabled")),
            text("httpProtocolIpv6", option("HttpProtocolIpv6", "disabled")),
            text(
                "instanceMetadataTags",
                option("InstanceMetadataTags", "disabled"),
            ),
        ],
    ));
    all.extend(tag_set(&one.tags));
    all
}

/// Instances that a request names, as the world is now.
pub(super) fn ids(world: &World, scope: &Scope) -> Result<Vec<String>, Refusal> {
    let ids = scope.texts("InstanceId");
    if ids.is_empty() {
        let message = "The request must contain the parameter InstanceId";
        return Err(Refusal::new("MissingParameter", message));
    }
    for id in &ids {
        well_formed(id)?;
        world.instances.get(id).ok_or_else(|| not_found(id))?;
    }
    Ok(ids.into_iter().map(str::to_owned).collect())
}

pub(super) fn terminate(world: &mut World, context: &Context, ids: &[String]) -> Vec<Xml> {
    let mut entries = Vec::new();
    for id in ids {
        let before = world
            .instances
            .get(id)
            .map_or(InstanceState::Terminated, |one| one.state);
        world.shut_down(context.now, id, USER);
        let after = world
            .instances
            .get(id)
            .map_or(InstanceState::Terminated, |one| one.state);
        entries.push(vec![
            text("instanceId", id),
            state("currentState", after),
            state("previousState", before),
        ]);
    }
    vec![items("instancesSet", entries)]
}

/// Starts instances anew: their state stays, and their kubelets have another boot ID.
pub(super) fn reboot(world: &mut World, context: &Context, ids: &[String]) -> Found {
    for id in ids {
        if let Some(one) = world.instances.get(id).filter(|one| !one.state.lives()) {
            let state = one.state.name();
            let message = format!("The instance '{id}' is {state} and cannot be rebooted");
            return Err(Refusal::new("IncorrectState", message));
        }
    }
    for id in ids {
        let count = |one: &mut Instance| one.reboots += 1;
        world.instances.change(context.now, id, count);
    }
    Ok(vec![flag("return", true)])
}

/// Tags of some resources that a request changes.
pub(super) struct TagChange {
    resources: Vec<String>,
    /// `None` removes the tag, whatever its value; the flag says that the value must be equal.
    tags: BTreeMap<String, Option<String>>,
    create: bool,
}

pub(super) fn tag_change(
    world: &World,
    context: &Context,
    scope: &Scope,
) -> Result<TagChange, Refusal> {
    let resources = scope.texts("ResourceId");
    if resources.is_empty() {
        let message = "The request must contain the parameter resourceIdSet";
        return Err(Refusal::new("MissingParameter", message));
    }
    let mut tags = BTreeMap::new();
    for tag in scope.list("Tag") {
        let (key, value) = (tag.need("Key")?, tag.get("Value"));
        if context.action == "CreateTags" {
            tag_allowed(key, value.unwrap_or_default())?;
        }
        if tags
            .insert(key.to_owned(), value.map(str::to_owned))
            .is_some()
        {
            let message = format!("Duplicate tag key '{key}' specified.");
            return Err(Refusal::new("InvalidParameterValue", message));
        }
    }
    for id in &resources {
        let known = match id.split_once('-') {
            Some(("i", _)) => world.instances.get(id).is_some(),
            Some(("lt", _)) => world.templates.get(id).is_some(),
            _ => {
                let message = format!(
                    "The resource {id} cannot be tagged here: the emulator tags \
                                       instances and launch templates"
                );
                return Err(Refusal::new("InvalidID", message));
            }
        };
        if !known {
            return Err(match id.starts_with("i-") {
                true => not_found(id),
                false => Refusal::new(
                    "InvalidLaunchTemplateId.NotFound",
                    format!(
                        "The specified launch template, with template ID {id}, does not exist."
                    ),
                ),
            });
        }
    }
    if context.action == "CreateTags" {
        for id in &resources {
            let own = match id.starts_with("i-") {
                true => world.instances.get(id).map(|one| &one.tags),
                false => world.templates.get(id).map(|one| &one.tags),
            };
            let new = tags
                .keys()
                .filter(|key| own.is_none_or(|own| !own.contains_key(*key)));
            few_tags(new.count() + own.map_or(0, BTreeMap::len))?;
        }
    }
    Ok(TagChange {
        resources: resources.into_iter().map(str::to_owned).collect(),
        tags,
        create: context.action == "CreateTags",
    })
}

pub(super) fn change_tags(world: &mut World, context: &Context, change: TagChange) -> Vec<Xml> {
    for id in &change.resources {
        let apply = |own: &mut BTreeMap<String, String>| {
            for (key, value) in &change.tags {
                match (change.create, value) {
                    (true, value) => {
                        own.insert(key.clone(), value.clone().unwrap_or_default());
                    }
                    (false, Some(value)) if own.get(key) != Some(value) => {}
                    (false, _) => drop(own.remove(key)),
                }
            }
        };
        match id.starts_with("i-") {
            true => world
                .instances
                .change(context.now, id, |one| apply(&mut one.tags)),
            false => super::templates::retag(world, context, id, apply),
        }
    }
    vec![flag("return", true)]
}

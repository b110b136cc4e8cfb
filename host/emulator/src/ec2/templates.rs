//! Launch templates, with one version each.

use std::collections::BTreeMap;

use super::filters::Filters;
use super::paging::Page;
use super::tags::{tag_set, tags_for};
use crate::action::{Context, Found};
use crate::wire::{Params, Refusal, Scope, Xml, element, flag, text};
use crate::world::World;
use crate::world::account::Tags;
use crate::world::template::Template;

/// What `LaunchTemplateData` may have, without numbers of lists.
const FIELDS: &str = "
BlockDeviceMapping.DeviceName BlockDeviceMapping.Ebs.DeleteOnTermination
BlockDeviceMapping.Ebs.Encrypted BlockDeviceMapping.Ebs.Iops BlockDeviceMapping.Ebs.KmsKeyId
BlockDeviceMapping.Ebs.SnapshotId BlockDeviceMapping.Ebs.Throughput
BlockDeviceMapping.Ebs.VolumeInitializationRate BlockDeviceMapping.Ebs.VolumeSize
BlockDeviceMapping.Ebs.VolumeType BlockDeviceMapping.NoDevice BlockDeviceMapping.VirtualName
CapacityReservationSpecification.CapacityReservationPreference
CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId
CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationResourceGroupArn
CpuOptions.AmdSevSnp CpuOptions.CoreCount CpuOptions.NestedVirtualization
CpuOptions.ThreadsPerCore CreditSpecification.CpuCredits DisableApiStop DisableApiTermination
EbsOptimized EnclaveOptions.Enabled HibernationOptions.Configured IamInstanceProfile.Arn
IamInstanceProfile.Name ImageId InstanceInitiatedShutdownBehavior InstanceMarketOptions.MarketType
InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior
InstanceMarketOptions.SpotOptions.MaxPrice InstanceMarketOptions.SpotOptions.SpotInstanceType
InstanceType KeyName MaintenanceOptions.AutoRecovery MetadataOptions.HttpEndpoint
MetadataOptions.HttpProtocolIpv6 MetadataOptions.HttpPutResponseHopLimit MetadataOptions.HttpTokens
MetadataOptions.InstanceMetadataTags Monitoring.Enabled
NetworkInterface.AssociatePublicIpAddress
NetworkInterface.ConnectionTrackingSpecification.TcpEstablishedTimeout
NetworkInterface.ConnectionTrackingSpecification.UdpStreamTimeout
NetworkInterface.ConnectionTrackingSpecification.UdpTimeout NetworkInterface.DeleteOnTermination
NetworkInterface.Description NetworkInterface.DeviceIndex NetworkInterface.InterfaceType
NetworkInterface.Ipv4PrefixCount NetworkInterface.Ipv6AddressCount NetworkInterface.Ipv6PrefixCount
NetworkInterface.NetworkCardIndex NetworkInterface.PrimaryIpv6
NetworkInterface.SecondaryPrivateIpAddressCount NetworkInterface.SecurityGroupId
NetworkInterface.SubnetId NetworkPerformanceOptions.BandwidthWeighting Placement.AvailabilityZone
Placement.GroupId Placement.GroupName Placement.PartitionNumber Placement.Tenancy
PrivateDnsNameOptions.EnableResourceNameDnsAAAARecord
PrivateDnsNameOptions.EnableResourceNameDnsARecord PrivateDnsNameOptions.HostnameType
SecurityGroupId TagSpecification.ResourceType TagSpecification.Tag.Key TagSpecification.Tag.Value
UserData
";

/// Bytes of user data, decoded, that EC2 takes.
const MAX_USER_DATA: usize = 16_384;

/// Reads CreateLaunchTemplate.
pub fn read(world: &World, context: &Context, scope: &Scope) -> Result<Template, Refusal> {
    let name = scope.need("LaunchTemplateName")?.to_owned();
    let legal = |c: char| c.is_ascii_alphanumeric() || "-()./_".contains(c);
    if !(3..=128).contains(&name.len()) || !name.chars().all(legal) {
        let message = format!("Invalid launch template name: {name}");
        return Err(Refusal::new(
            "InvalidLaunchTemplateName.MalformedException",
            message,
        ));
    }
    let data = scope.under("LaunchTemplateData").take_all();
    if data.is_empty() {
        return Err(Refusal::new(
            "MissingParameter",
            "The request must contain the parameter LaunchTemplateData",
        ));
    }
    for field in data.keys() {
        let numbers = |part: &&str| part.parse::<u64>().is_err();
        let plain = field
            .split('.')
            .filter(numbers)
            .collect::<Vec<_>>()
            .join(".");
        if !FIELDS.split_whitespace().any(|known| known == plain) {
            let message = format!(
                "The parameter LaunchTemplateData.{field} is not recognized, or not emulated"
            );
            return Err(Refusal::new("UnknownParameter", message));
        }
    }
    user_data(data.get("UserData").map(String::as_str))?;
    let whole = Params::from(data.clone());
    for resource in ["instance", "volume", "network-interface"] {
        tags_for(&whole.root(), "TagSpecification", resource)?;
    }
    if world.templates.iter().any(|(_, one)| one.name == name) {
        let message = format!("Launch template name already in use: {name}");
        return Err(Refusal::new(
            "InvalidLaunchTemplateName.AlreadyExistsException",
            message,
        ));
    }
    Ok(Template {
        id: String::new(),
        name,
        created: context.now,
        tags: tags_for(scope, "TagSpecification", "launch-template")?,
        description: scope.get("VersionDescription").map(str::to_owned),
        data,
    })
}

/// User data has to be base64 and not too long.
pub(super) fn user_data(given: Option<&str>) -> Result<(), Refusal> {
    use base64::Engine as _;
    let Some(given) = given else {
        return Ok(());
    };
    let Ok(decoded) = base64::engine::general_purpose::STANDARD.decode(given) else {
        let message = "Invalid BASE64 encoding of user data.";
        return Err(Refusal::new("InvalidUserData.Malformed", message));
    };
    match decoded.len() > MAX_USER_DATA {
        true => Err(Refusal::new(
            "InvalidParameterValue",
            format!("User data is limited to {MAX_USER_DATA} bytes"),
        )),
        false => Ok(()),
    }
}

/// Keeps a template that was read.
pub fn create(world: &mut World, context: &Context, mut template: Template) -> Vec<Xml> {
    template.id = world.id("lt");
    let answer = vec![element("launchTemplate", shown(world, &template))];
    let id = template.id.clone();
    world.templates.put(context.now, &id, template);
    answer
}

fn shown(world: &World, one: &Template) -> Vec<Xml> {
    let mut all = vec![
        text("launchTemplateId", &one.id),
        text("launchTemplateName", &one.name),
        text("createTime", one.created.iso()),
        text("createdBy", world.account.arn("iam", "user/emulator")),
        text("defaultVersionNumber", 1),
        text("latestVersionNumber", 1),
    ];
    all.extend(tag_set(&one.tags));
    all
}

fn no_name(name: &str) -> Refusal {
    let message = format!(
        "At least one of the launch templates specified in the request does not exist: {name}"
    );
    Refusal::new("InvalidLaunchTemplateName.NotFoundException", message)
}

fn no_id(id: &str) -> Refusal {
    let message = format!("The specified launch template, with template ID {id}, does not exist.");
    Refusal::new("InvalidLaunchTemplateId.NotFound", message)
}

/// The id of the template that a request names, as the world is now.
pub fn named(world: &World, scope: &Scope) -> Result<String, Refusal> {
    match (
        scope.get("LaunchTemplateId"),
        scope.get("LaunchTemplateName"),
    ) {
        (Some(id), None) => match world.templates.get(id) {
            Some(_) => Ok(id.to_owned()),
            None => Err(no_id(id)),
        },
        (None, Some(name)) => {
            let mut all = world.templates.iter();
            let found = all.find(|(_, one)| one.name == name);
            found
                .map(|(id, _)| id.to_owned())
                .ok_or_else(|| no_name(name))
        }
        _ => Err(Refusal::new(
            "InvalidParameterCombination",
            "Exactly one of LaunchTemplateId and LaunchTemplateName must be given",
        )),
    }
}

/// Ends a template.
pub fn delete(world: &mut World, context: &Context, id: &str) -> Vec<Xml> {
    let inside = world.templates.get(id).map(|one| shown(world, one));
    world.templates.remove(context.now, id);
    vec![element("launchTemplate", inside.unwrap_or_default())]
}

/// DescribeLaunchTemplates.
pub fn describe(world: &World, context: &Context, scope: &Scope) -> Found {
    let (ids, names) = (
        scope.texts("LaunchTemplateId"),
        scope.texts("LaunchTemplateName"),
    );
    let filters = Filters::read(scope, &["tag", "launch-template-name", "create-time"])?;
    let page = Page::read(scope, 200, 1, 200)?;
    for id in &ids {
        world
            .templates
            .get_at(id, context.as_of)
            .ok_or_else(|| no_id(id))?;
    }
    for name in &names {
        let mut all = world.templates.iter_at(context.as_of);
        all.find(|(_, one)| one.name == **name)
            .ok_or_else(|| no_name(name))?;
    }
    let rows = world.templates.iter_at(context.as_of).filter(|(id, one)| {
        (ids.is_empty() || ids.contains(id))
            && (names.is_empty() || names.contains(&one.name.as_str()))
            && filters.fit(&one.tags, |field| match field {
                "launch-template-name" => vec![one.name.as_str()],
                _ => vec![],
            })
    });
    Ok(page.cut("launchTemplates", rows, |one| shown(world, one)))
}

/// DescribeLaunchTemplateVersions.
pub fn versions(world: &World, context: &Context, scope: &Scope) -> Found {
    let wanted = scope.texts("LaunchTemplateVersion");
    let page = Page::read(scope, 200, 1, 200)?;
    let id = named(world, scope)?;
    let one = world
        .templates
        .get_at(&id, context.as_of)
        .ok_or_else(|| no_id(&id))?;
    let only = |version: &&str| ["1", "$Latest", "$Default"].contains(version);
    if let Some(wrong) = wanted.iter().find(|version| !only(version)) {
        let message = format!("The launch template version {wrong} does not exist");
        return Err(Refusal::new(
            "InvalidLaunchTemplateId.VersionNotFound",
            message,
        ));
    }
    Ok(page.cut(
        "launchTemplateVersionSet",
        [("1", one)].into_iter(),
        |one| {
            let mut all = vec![
                text("launchTemplateId", &one.id),
                text("launchTemplateName", &one.name),
                text("versionNumber", 1),
                text("createTime", one.created.iso()),
                text("createdBy", world.account.arn("iam", "user/emulator")),
                flag("defaultVersion", true),
                element("launchTemplateData", echo("", &one.data)),
            ];
            all.extend(
                one.description
                    .as_ref()
                    .map(|said| text("versionDescription", said)),
            );
            all
        },
    ))
}

/// Data as a reply has it: names begin small, and lists are `…Set` with an `item` for each entry.
fn echo(parent: &str, data: &BTreeMap<String, String>) -> Vec<Xml> {
    let mut groups: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    for (name, value) in data {
        let (first, rest) = name.split_once('.').unwrap_or((name, ""));
        groups
            .entry(first)
            .or_default()
            .insert(rest.to_owned(), value.clone());
    }
    let one = |(name, inside): (&str, BTreeMap<String, String>)| {
        let mut chars = name.chars();
        let first = chars.next().map(|c| c.to_ascii_lowercase());
        let small: String = first.into_iter().chain(chars).collect();
        let listed = inside.keys().all(|key| {
            key.split('.')
                .next()
                .is_some_and(|number| number.parse::<u64>().is_ok())
        });
        match inside.get("") {
            Some(value) => text(small, value),
            None if listed => list(parent, name, small, &inside),
            None => element(small, echo(name, &inside)),
        }
    };
    groups.into_iter().map(one).collect()
}

fn list(parent: &str, name: &str, small: String, inside: &BTreeMap<String, String>) -> Xml {
    let mut entries: BTreeMap<u64, BTreeMap<String, String>> = BTreeMap::new();
    for (key, value) in inside {
        let (number, rest) = key.split_once('.').unwrap_or((key, ""));
        let entry = entries.entry(number.parse().unwrap_or(0)).or_default();
        entry.insert(rest.to_owned(), value.clone());
    }
    if (parent, name) == ("NetworkInterface", "SecurityGroupId") {
        let ids = entries.values().filter_map(|entry| entry.get(""));
        return element("groupSet", ids.map(|id| text("groupId", id)));
    }
    let entry = |entry: &BTreeMap<String, String>| match entry.get("") {
        Some(value) => text("item", value),
        None => element("item", echo(name, entry)),
    };
    element(format!("{small}Set"), entries.values().map(entry))
}

/// The tags of a template, for CreateTags.
pub fn retag(world: &mut World, context: &Context, id: &str, change: impl FnOnce(&mut Tags)) {
    world
        .templates
        .change(context.now, id, |one| change(&mut one.tags));
}

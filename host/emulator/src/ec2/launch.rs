//! One instance from a template and an override.

use std::sync::Arc;

use super::tags::tags_for;
use crate::action::Context;
use crate::time::Time;
use crate::wire::{Params, Refusal, Scope};
use crate::world::account::Tags;
use crate::world::instance::Interface;
use crate::world::{CapacityType, Instance, InstanceState, World};

/// Where and as what an instance is launched.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub instance_type: String,
    pub zone: String,
    pub subnet: String,
    pub image: String,
    pub capacity_type: CapacityType,
    pub reservation: Option<String>,
    pub market: Option<String>,
}

/// What all instances of one purchase share.
pub struct Purchase<'a> {
    pub tags: &'a Tags,
    pub token: &'a str,
    /// `r-…`.
    pub launch: String,
}

/// Checks what a template names. The code is EC2's for what is missing.
pub fn check(world: &World, context: &Context, data: &Scope) -> Result<(), Refusal> {
    let account = &world.account;
    let of_interfaces = data.list("NetworkInterface");
    let mut of_interfaces = of_interfaces.iter();
    if !data.texts("SecurityGroupId").is_empty() && of_interfaces.any(|one| !one.is_empty()) {
        let message = "Network interfaces and an instance-level security groups may not be specified \
                       on the same request";
        return Err(Refusal::new("InvalidParameterCombination", message));
    }
    if let Some(image) = data.get("ImageId") {
        image_known(world, image)?;
    }
    let groups = group_ids(data);
    if let Some(id) = groups.iter().find(|id| !account.groups.contains_key(**id)) {
        let message = format!("The security group '{id}' does not exist");
        return Err(Refusal::new("InvalidGroup.NotFound", message));
    }
    let profile = data.under("IamInstanceProfile");
    let name = profile.get("Name");
    let name = name.or_else(|| profile.get("Arn").and_then(|arn| arn.rsplit('/').next()));
    if let Some(name) = name {
        // EC2 hears of what IAM has a while later.
        let delay = account.settings.profile_milliseconds;
        let heard = Time(context.now.0.saturating_sub(delay));
        match world.profiles.get_at(name, heard) {
            None => {
                let message = format!(
                    "Value ({name}) for parameter iamInstanceProfile.name is \
                                       invalid. Invalid IAM Instance Profile name"
                );
                return Err(Refusal::new("InvalidParameterValue", message));
            }
            Some(one) if one.role.is_none() => {
                let message =
                    format!("IAM Instance Profile \"{name}\" has no associated IAM Roles");
                return Err(Refusal::new("InvalidParameterValue", message));
            }
            Some(_) => {}
        }
    }
    let group = data.under("Placement");
    let wanted = group.get("GroupId").or_else(|| group.get("GroupName"));
    let known = |name: &str| {
        let mut all = account.placement_groups.iter();
        all.any(|one| one.group_id == name || one.group_name == name)
    };
    match wanted {
        Some(name) if !known(name) => Err(Refusal::new(
            "InvalidPlacementGroup.Unknown",
            format!("The placement group '{name}' is unknown."),
        )),
        _ => Ok(()),
    }
}

/// An image must exist.
pub fn image_known(world: &World, image: &str) -> Result<(), Refusal> {
    let digits = image.strip_prefix("ami-").unwrap_or_default();
    let is_hex = |c: char| c.is_ascii_hexdigit();
    if digits.is_empty() || !digits.chars().all(is_hex) {
        let message = format!("Invalid id: \"{image}\" (expecting \"ami-...\")");
        return Err(Refusal::new("InvalidAMIID.Malformed", message));
    }
    match world.account.images.contains_key(image) {
        true => Ok(()),
        false => Err(Refusal::new(
            "InvalidAMIID.NotFound",
            format!("The image id '[{image}]' does not exist"),
        )),
    }
}

/// A type must run an image's architecture.
pub fn runs(world: &World, instance_type: &str, image: &str) -> Result<(), Refusal> {
    let account = &world.account;
    let (Some(one), Some(image)) = (account.types.get(instance_type), account.images.get(image))
    else {
        return Ok(());
    };
    if one.architectures.contains(&image.architecture) {
        return Ok(());
    }
    let message = format!(
        "The architecture '{}' of the specified instance type does not match the architecture \
         '{}' of the specified AMI.",
        one.architectures.join(","),
        image.architecture
    );
    Err(Refusal::new("InvalidParameterValue", message))
}

fn group_ids<'a>(data: &Scope<'a>) -> Vec<&'a str> {
    let of_interfaces = data.list("NetworkInterface");
    let of_interfaces = of_interfaces
        .iter()
        .flat_map(|one| one.texts("SecurityGroupId"));
    let mut ids = data.texts("SecurityGroupId");
    ids.extend(of_interfaces);
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Addresses that interfaces of a template take of a subnet.
pub fn addresses(data: &Scope) -> Result<u32, Refusal> {
    let interfaces = data.list("NetworkInterface");
    let each = interfaces.iter().map(|one| {
        let count = |name: &str| one.parse::<u32>(name).map(|count| count.unwrap_or(0));
        let efa_only = one.get("InterfaceType") == Some("efa-only");
        let own = u32::from(!efa_only);
        let prefixes = count("Ipv4PrefixCount")?.saturating_mul(16);
        Ok(own + count("SecondaryPrivateIpAddressCount")?.saturating_add(prefixes))
    });
    let sum: Result<u32, Refusal> = each.sum();
    Ok(sum?.max(1))
}

/// Launches one instance. Capacity, addresses and names were checked; what they held is taken.
pub fn launch(
    world: &mut World,
    context: &Context,
    data: &Params,
    place: &Place,
    purchase: &Purchase,
) -> Result<String, Refusal> {
    let scope = data.root();
    let needed = addresses(&scope)?;
    let subnet = world.account.subnets.get_mut(&place.subnet);
    let address = subnet.and_then(|subnet| subnet.take(needed));
    let address = address.ok_or_else(|| no_addresses(&place.subnet))?;
    let key = (
        place.instance_type.clone(),
        place.zone.clone(),
        place.capacity_type,
    );
    let vcpus = world
        .account
        .types
        .get(&place.instance_type)
        .map_or(0, |one| one.vcpus);
    let pool_rule = match place.capacity_type {
        CapacityType::Reserved => usize::MAX,
        _ => world.pools.take(&key, vcpus, context.now),
    };
    let held = place.reservation.as_ref();
    if let Some(held) = held.and_then(|id| world.account.reservations.get_mut(id)) {
        held.available = held.available.saturating_sub(1);
    }
    let id = world.id("i");
    let spot = place.capacity_type == CapacityType::Spot;
    let spot_request = spot.then(|| format!("sir-{}", world.chance.hex(8)));
    let placement = scope.under("Placement");
    let mut tags = tags_for(&scope, "TagSpecification", "instance")?;
    tags.extend(purchase.tags.clone());
    let image = world.account.images.get(&place.image);
    let instance = Instance {
        id: id.clone(),
        launch: purchase.launch.clone(),
        launched: context.now,
        state: InstanceState::Pending,
        reason: None,
        image: place.image.clone(),
        instance_type: place.instance_type.clone(),
        architecture: image.map_or("x86_64", |one| &one.architecture).to_owned(),
        zone: place.zone.clone(),
        zone_id: world
            .account
            .zones
            .get(&place.zone)
            .cloned()
            .unwrap_or_default(),
        subnet: place.subnet.clone(),
        address,
        groups: group_ids(&scope).into_iter().map(str::to_owned).collect(),
        interfaces: interfaces(world, &scope)?,
        tags,
        capacity_type: place.capacity_type,
        spot_request,
        reservation: place.reservation.clone(),
        market: place.market.clone(),
        preference: scope
            .get("CapacityReservationSpecification.CapacityReservationPreference")
            .map(str::to_owned),
        placement_group: placement
            .get("GroupId")
            .or_else(|| placement.get("GroupName"))
            .map(str::to_owned),
        partition: placement.parse("PartitionNumber")?,
        tenancy: placement.get("Tenancy").unwrap_or("default").to_owned(),
        profile: scope.get("IamInstanceProfile.Name").map(str::to_owned),
        metadata: scope.under("MetadataOptions").take_all(),
        monitoring: scope.get("Monitoring.Enabled") == Some("true"),
        client_token: purchase.token.to_owned(),
        user_data: Arc::from(scope.get("UserData").unwrap_or_default()),
        vcpus,
        pool_rule,
        instance_impaired: None,
        system_impaired: None,
        planned: Vec::new(),
        reboots: 0,
    };
    world.instances.put(context.now, &id, instance);
    world.launched(context.now, &id);
    Ok(id)
}

fn interfaces(world: &mut World, data: &Scope) -> Result<Vec<Interface>, Refusal> {
    let mut all = Vec::new();
    for one in data.list("NetworkInterface") {
        let count = |name: &str| one.parse::<u32>(name).map(|count| count.unwrap_or(0));
        let kind = one.get("InterfaceType").unwrap_or("interface").to_owned();
        let prefixes = count("Ipv4PrefixCount")?;
        let own = u32::from(kind != "efa-only");
        all.push(Interface {
            id: world.id("eni"),
            device: count("DeviceIndex")?,
            card: count("NetworkCardIndex")?,
            addresses: own + count("SecondaryPrivateIpAddressCount")? + prefixes * 16,
            prefixes,
            kind,
        });
    }
    if all.is_empty() {
        all.push(Interface {
            id: world.id("eni"),
            kind: "interface".to_owned(),
            device: 0,
            card: 0,
            prefixes: 0,
            addresses: 1,
        });
    }
    Ok(all)
}

/// The error of a subnet without enough addresses.
pub fn no_addresses(subnet: &str) -> Refusal {
    let message = format!(
        "There are not enough free addresses in subnet '{subnet}' to satisfy the requested number \
         of instances."
    );
    Refusal::new("InsufficientFreeAddressesInSubnet", message)
}

/// RunInstances, which launches nothing here: everything that it names is checked.
pub fn dry_run(world: &World, context: &Context, scope: &Scope) -> Result<(), Refusal> {
    for name in ["MinCount", "MaxCount"] {
        scope.need(name)?;
        scope.parse::<u32>(name)?;
    }
    let template = scope.under("LaunchTemplate");
    let data = match template.is_empty() {
        true => Params::default(),
        false => {
            let _ = template.get("Version");
            let id = super::templates::named(world, &template)?;
            world
                .templates
                .get(&id)
                .map(|one| one.params())
                .unwrap_or_default()
        }
    };
    check(world, context, &data.root())?;
    check(world, context, scope)?;
    super::templates::user_data(scope.get("UserData"))?;
    for resource in ["instance", "volume", "network-interface"] {
        tags_for(scope, "TagSpecification", resource)?;
    }
    // Everything else that a request may have is a template's, too.
    for name in [
        "NetworkInterface",
        "TagSpecification",
        "MetadataOptions",
        "Placement",
        "BlockDeviceMapping",
    ] {
        scope.under(name).take_all();
    }
    for name in ["UserData", "EbsOptimized", "Monitoring.Enabled", "KeyName"] {
        let _ = scope.get(name);
    }
    let image = scope.get("ImageId").or_else(|| data.root().get("ImageId"));
    let image = image.ok_or_else(|| {
        Refusal::new(
            "MissingParameter",
            "The request must contain the parameter ImageId",
        )
    })?;
    let kind = scope
        .get("InstanceType")
        .or_else(|| data.root().get("InstanceType"));
    let kind = kind.unwrap_or("m1.small");
    if !world.account.types.contains_key(kind) {
        let message = format!("Invalid value '{kind}' for InstanceType.");
        return Err(Refusal::new("InvalidParameterValue", message));
    }
    runs(world, kind, image)?;
    let subnet = scope
        .get("SubnetId")
        .or_else(|| scope.get("NetworkInterface.1.SubnetId"));
    match subnet {
        Some(id) if !world.account.subnets.contains_key(id) => Err(Refusal::new(
            "InvalidSubnetID.NotFound",
            format!("The subnet ID '{id}' does not exist"),
        )),
        _ => Ok(()),
    }
}

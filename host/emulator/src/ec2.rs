//! EC2.

mod catalogue;
mod filters;
mod fleet;
mod instances;
mod launch;
mod network;
mod paging;
mod status;
pub(crate) mod templates;

use std::collections::BTreeMap;

use crate::handle::{Answer, Context, ec2_reply};
use crate::wire::{Params, Refusal, Scope, Xml, items, text};
use crate::world::World;

/// The inside of a reply.
type Found = Result<Vec<Xml>, Refusal>;

pub(crate) fn answer(
    world: &mut World,
    context: &Context,
    params: &Params,
    request_id: &str,
) -> Result<Answer, Refusal> {
    let scope = params.root();
    let _ = (scope.get("Action"), scope.get("Version"));
    let token = scope.get("ClientToken").filter(|token| !token.is_empty());
    let dry = scope.flag("DryRun")?;
    if let Some(token) = token.filter(|_| !dry) {
        if token.len() > 64 {
            let message = "A client token has at most 64 characters.";
            return Err(Refusal::new("InvalidParameterValue", message));
        }
        let key = (context.action.clone(), token.to_owned());
        if let Some((before, reply)) = world.tokens.get(&key) {
            return match before == params.all() {
                true => Ok(Answer::Again(reply.clone())),
                false => Err(Refusal::new(
                    "IdempotentParameterMismatch",
                    format!("The client token {token} was used with other parameters."),
                )),
            };
        }
    }
    let found = act(world, context, &scope, params, dry)?;
    if let Some(token) = token.filter(|_| !dry) {
        let reply = ec2_reply(&context.action, found, request_id);
        let key = (context.action.clone(), token.to_owned());
        world
            .tokens
            .insert(key, (params.all().clone(), reply.clone()));
        return Ok(Answer::Again(reply));
    }
    Ok(Answer::Xml(found))
}

fn act(world: &mut World, context: &Context, scope: &Scope, params: &Params, dry: bool) -> Found {
    // What changes the world is checked whole before it begins.
    let end = |found: Vec<Xml>| checked(params, dry).map(|()| found);
    match &*context.action {
        "DescribeInstanceTypes" => catalogue::types(world, scope).and_then(end),
        "DescribeInstanceTypeOfferings" => catalogue::offerings(world, scope).and_then(end),
        "DescribeAvailabilityZones" => catalogue::zones(world, scope).and_then(end),
        "DescribeSpotPriceHistory" => catalogue::spot_prices(world, context, scope).and_then(end),
        "GetSpotPlacementScores" => catalogue::scores(world, context, scope).and_then(end),
        "DescribeSubnets" => network::subnets(world, scope).and_then(end),
        "DescribeSecurityGroups" => network::groups(world, scope).and_then(end),
        "DescribeVpcs" => network::vpcs(world, scope).and_then(end),
        "DescribeImages" => network::images(world, scope).and_then(end),
        "DescribeCapacityReservations" => network::reservations(world, scope).and_then(end),
        "DescribePlacementGroups" => network::placement_groups(world, scope).and_then(end),
        "DescribeLaunchTemplates" => templates::describe(world, context, scope).and_then(end),
        "DescribeLaunchTemplateVersions" => {
            templates::versions(world, context, scope).and_then(end)
        }
        "DescribeInstances" => instances::describe(world, context, scope).and_then(end),
        "DescribeInstanceStatus" => status::describe(world, context, scope).and_then(end),
        "CreateLaunchTemplate" => {
            let template = templates::read(world, context, scope)?;
            checked(params, dry)?;
            Ok(templates::create(world, context, template))
        }
        "DeleteLaunchTemplate" => {
            let id = templates::named(world, scope)?;
            checked(params, dry)?;
            Ok(templates::delete(world, context, &id))
        }
        "CreateFleet" => {
            let wanted = fleet::read(world, scope)?;
            checked(params, dry)?;
            fleet::create(world, context, wanted)
        }
        "RunInstances" => {
            launch::dry_run(world, context, scope)?;
            checked(params, dry)?;
            Err(Refusal::new(
                "UnsupportedOperation",
                "The emulator has RunInstances with DryRun alone; CreateFleet launches instances.",
            ))
        }
        "TerminateInstances" => {
            let ids = instances::ids(world, scope)?;
            checked(params, dry)?;
            world.buckets_for_terminate(ids.len(), context)?;
            Ok(instances::terminate(world, context, &ids))
        }
        "RebootInstances" => {
            let ids = instances::ids(world, scope)?;
            checked(params, dry)?;
            instances::reboot(world, context, &ids)
        }
        "CreateTags" | "DeleteTags" => {
            let change = instances::tag_change(world, context, scope)?;
            checked(params, dry)?;
            Ok(instances::change_tags(world, context, change))
        }
        other => {
            let message = format!("The action {other} is not valid for this web service.");
            Err(Refusal::new("InvalidAction", message))
        }
    }
}

/// Refuses parameters that nothing has read, and dry runs.
fn checked(params: &Params, dry: bool) -> Result<(), Refusal> {
    if let Some(name) = params.unread() {
        let message = format!("The parameter {name} is not recognized, or not emulated");
        return Err(Refusal::new("UnknownParameter", message));
    }
    match dry {
        true => Err(Refusal::new(
            "DryRunOperation",
            "Request would have succeeded, but DryRun flag is set.",
        )),
        false => Ok(()),
    }
}

impl World {
    fn buckets_for_terminate(&mut self, count: usize, context: &Context) -> Result<(), Refusal> {
        match self.account.settings.throttle {
            true => self.buckets.terminate(count, context.now),
            false => Ok(()),
        }
    }
}

/// `tagSet`; nothing without tags.
fn tag_set(tags: &BTreeMap<String, String>) -> Option<Xml> {
    let tag = |(key, value): (&String, &String)| vec![text("key", key), text("value", value)];
    (!tags.is_empty()).then(|| items("tagSet", tags.iter().map(tag)))
}

/// Tags for one type of resource among `TagSpecification.N`.
fn tags_for(
    scope: &Scope,
    list: &str,
    resource: &str,
) -> Result<BTreeMap<String, String>, Refusal> {
    let mut tags = BTreeMap::new();
    for specification in scope.list(list) {
        let wanted = specification.get("ResourceType") == Some(resource);
        for tag in specification.list("Tag") {
            let pair = (tag.get("Key"), tag.get("Value").unwrap_or_default());
            let (Some(key), value, true) = (pair.0, pair.1, wanted) else {
                continue;
            };
            tag_allowed(key, value)?;
            if tags.insert(key.to_owned(), value.to_owned()).is_some() {
                let message = format!("Duplicate tag key '{key}' specified.");
                return Err(Refusal::new("InvalidParameterValue", message));
            }
        }
    }
    few_tags(tags.len())?;
    Ok(tags)
}

/// Most tags of a resource.
const TAGS: usize = 50;

/// A resource may have so many tags.
fn few_tags(count: usize) -> Result<(), Refusal> {
    match count > TAGS {
        true => Err(Refusal::new(
            "TagLimitExceeded",
            format!("More than {TAGS} tags specified"),
        )),
        false => Ok(()),
    }
}

/// Keys have up to 127 characters and are not AWS's own, values up to 256.
fn tag_allowed(key: &str, value: &str) -> Result<(), Refusal> {
    let refused = |message: String| Err(Refusal::new("InvalidParameterValue", message));
    if key.to_ascii_lowercase().starts_with("aws:") {
        return refused(format!(
            "Tag keys starting with 'aws:' are reserved for internal use: {key}"
        ));
    }
    if key.is_empty() || key.chars().count() > 127 {
        return refused(format!(
            "Tag key exceeds the maximum length of 127 characters: '{key}'"
        ));
    }
    if value.chars().count() > 256 {
        return refused(format!(
            "Tag value exceeds the maximum length of 256 characters: '{value}'"
        ));
    }
    Ok(())
}

//! EC2.

mod catalogue;
mod filters;
mod fleet;
mod instances;
mod launch;
mod network;
mod paging;
mod status;
mod tags;
mod templates;

use crate::action::{Answer, Context, Found};
use crate::wire::{Params, Refusal, Reply, Scope, Service, Xml, document, element, text};
use crate::world::World;

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
        let reply = reply(&context.action, found, request_id);
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
            let wanted = fleet::request::read(world, scope)?;
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

/// A reply of EC2.
pub(crate) fn reply(action: &str, inside: Vec<Xml>, request_id: &str) -> Reply {
    let inside = [text("requestId", request_id)].into_iter().chain(inside);
    let root = element(format!("{action}Response"), inside);
    let body = document(&root, Service::Ec2.namespace());
    Reply::new(200, "text/xml;charset=UTF-8", body)
}

//! What a call has to be allowed by the account's policies, and its refusal.
//!
//! As the services' authorization reference has it, for the calls that are emulated. A launch is
//! asked for as CreateFleet and as RunInstances, for each thing that it uses and each that it makes;
//! tags of what is made are CreateTags with the action that makes it; an instance profile is
//! `iam:PassRole` on its role. So one call asks for several things, and the first that is not allowed
//! refuses it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::policies::{Asked, allow};
use crate::wire::{Call, Params, Refusal, Request, Scope, Service};
use crate::world::World;
use crate::world::account::Tags;

/// Refuses a call that the account's policies do not allow. Without policies everything is allowed.
pub fn check(
    world: &World,
    call: &Call,
    params: &Params,
    request: &Request,
) -> Result<(), Refusal> {
    let policies = &world.account.policies;
    if policies.is_empty() {
        return Ok(());
    }
    // What is read here must be read by the action as well.
    let params = Params::from(params.all().clone());
    let mut all = asked(world, call, &params, request);
    for one in &mut all {
        let region = vec![world.account.region.clone()];
        one.context.insert("aws:RequestedRegion".to_owned(), region);
    }
    match all.iter().find(|one| !allow(policies, one)) {
        None => Ok(()),
        Some(denied) => Err(refusal(world, call.service, denied)),
    }
}

fn refusal(world: &World, service: Service, denied: &Asked) -> Refusal {
    let (action, resource) = (&denied.action, &denied.resource);
    let user = world.account.arn("sts", "assumed-role/controller/session");
    let message = format!(
        "User: {user} is not authorized to perform: {action} on resource: {resource} because no \
         identity-based policy allows the {action} action"
    );
    match service {
        Service::Ec2 => Refusal::new(
            "UnauthorizedOperation",
            format!("You are not authorized to perform this operation. {message}"),
        ),
        Service::Iam | Service::Sqs | Service::Sts => Refusal::new("AccessDenied", message),
        Service::Eks | Service::ZonalShift => {
            Refusal::new("AccessDeniedException", message).status(403)
        }
        Service::Ssm | Service::Pricing => Refusal::new("AccessDeniedException", message),
    }
}

fn asked(world: &World, call: &Call, params: &Params, request: &Request) -> Vec<Asked> {
    let account = &world.account;
    let action = format!("{}:{}", call.service.name(), call.action);
    let body = || serde_json::from_slice::<Value>(&request.body).unwrap_or_default();
    let named = |resource: String| vec![Asked::of(action.as_str(), resource)];
    match call.service {
        Service::Ec2 => of_ec2(world, &call.action, &params.root()),
        Service::Iam => of_iam(world, &call.action, &params.root()),
        // The caller's own identity needs no right.
        Service::Sts => Vec::new(),
        Service::Sqs => {
            let body = body();
            let url = body["QueueUrl"].as_str().unwrap_or_default();
            let name = body["QueueName"]
                .as_str()
                .or_else(|| url.rsplit('/').next());
            // One right for one message and for ten.
            let action = action.trim_end_matches("Batch");
            vec![Asked::of(
                action,
                account.arn("sqs", name.unwrap_or_default()),
            )]
        }
        Service::Ssm => {
            let body = body();
            let name = body["Name"].as_str().unwrap_or_default();
            let own = account.arn("ssm", &format!("parameter{name}"));
            let public = own.replace(&format!(":{}:", account.id), "::");
            named(if name.starts_with("/aws/service/") {
                public
            } else {
                own
            })
        }
        Service::Pricing => named("*".to_owned()),
        Service::Eks => {
            let name = request.path.trim_start_matches("/clusters/");
            named(account.arn("eks", &format!("cluster/{name}")))
        }
        Service::ZonalShift => {
            let arn = request.path.trim_start_matches("/managedresources/");
            let arn = percent_encoding::percent_decode_str(arn).decode_utf8_lossy();
            let key = "arc-zonal-shift:ResourceIdentifier";
            // The resource is none of this service's.
            vec![Asked::of(action, "*").with(key, arn)]
        }
    }
}

fn of_ec2(world: &World, action: &str, scope: &Scope) -> Vec<Asked> {
    let account = &world.account;
    let own = |kind: &str, id: &str| account.arn("ec2", &format!("{kind}/{id}"));
    let name = format!("ec2:{action}");
    match action {
        "CreateLaunchTemplate" => {
            let tags = tags_of(scope, "TagSpecification", "launch-template");
            making(&name, action, &own("launch-template", "*"), &tags)
        }
        "DeleteLaunchTemplate" => {
            let template = template(world, scope);
            let (id, tags) = template.unwrap_or_default();
            vec![on_tagged(
                Asked::of(name, own("launch-template", &id)),
                &tags,
            )]
        }
        "CreateFleet" | "RunInstances" => launch(world, action, scope),
        "TerminateInstances" | "RebootInstances" => {
            let ids = scope.texts("InstanceId").into_iter();
            let one = |id| {
                on_tagged(
                    Asked::of(name.clone(), own("instance", id)),
                    &instance(world, id),
                )
            };
            ids.map(one).collect()
        }
        "CreateTags" | "DeleteTags" => {
            let tags: Tags = pairs(&scope.list("Tag"));
            let ids = scope.texts("ResourceId").into_iter();
            let one = |id: &str| {
                let (kind, had) = match world.templates.get(id) {
                    Some(template) => ("launch-template", template.tags.clone()),
                    None => ("instance", instance(world, id)),
                };
                let asked = Asked::of(name.clone(), own(kind, id));
                requesting(on_tagged(asked, &had), &tags)
            };
            ids.map(one).collect()
        }
        _ => vec![Asked::of(name, "*")],
    }
}

/// A launch, by a fleet or by itself.
fn launch(world: &World, action: &str, scope: &Scope) -> Vec<Asked> {
    let account = &world.account;
    let own = |kind: &str, id: &str| account.arn("ec2", &format!("{kind}/{id}"));
    // Images and snapshots may be anybody's.
    let public = |kind: &str, id: &str| own(kind, id).replace(&format!(":{}:", account.id), "::");
    // Fleets launch instances in the caller's name.
    let actions: BTreeSet<&str> = [action, "RunInstances"].into();
    let mut all = Vec::new();
    let mut use_of = |resource: String, tags: Option<&Tags>| {
        for action in &actions {
            let asked = Asked::of(format!("ec2:{action}"), resource.clone());
            all.push(match tags {
                Some(tags) => on_tagged(asked, tags),
                None => asked,
            });
        }
    };
    let mut made: BTreeMap<&str, Tags> = BTreeMap::new();
    let mut profiles = BTreeSet::new();
    let kinds = [
        "instance",
        "volume",
        "network-interface",
        "spot-instances-request",
    ];
    let (configs, specification) = match action {
        "CreateFleet" => (
            scope.list("LaunchTemplateConfigs"),
            "LaunchTemplateSpecification",
        ),
        _ => (vec![scope.clone()], "LaunchTemplate"),
    };
    let target = scope.under("TargetCapacitySpecification");
    let spot = target.get("DefaultTargetCapacityType") == Some("spot");
    for config in &configs {
        let found = template(world, &config.under(specification));
        let params = found.as_ref().and_then(|(id, _)| world.templates.get(id));
        let params = params.map(|one| one.params()).unwrap_or_default();
        if let Some((id, tags)) = &found {
            use_of(own("launch-template", id), Some(tags));
        }
        for data in [&params.root(), scope] {
            let mut images: BTreeSet<&str> = data.get("ImageId").into_iter().collect();
            let mut subnets: BTreeSet<&str> = data.get("SubnetId").into_iter().collect();
            let mut groups: BTreeSet<&str> = data.texts("SecurityGroupId").into_iter().collect();
            for one in data.list("NetworkInterface") {
                groups.extend(one.texts("SecurityGroupId"));
                subnets.extend(one.get("SubnetId"));
            }
            for one in config.list("Overrides") {
                images.extend(one.get("ImageId"));
                subnets.extend(one.get("SubnetId"));
            }
            images
                .iter()
                .for_each(|id| use_of(public("image", id), None));
            subnets
                .iter()
                .for_each(|id| use_of(own("subnet", id), None));
            groups
                .iter()
                .for_each(|id| use_of(own("security-group", id), None));
            let placement = data.under("Placement");
            if let Some(group) = placement
                .get("GroupId")
                .or_else(|| placement.get("GroupName"))
            {
                use_of(own("placement-group", group), None);
            }
            let reservation = data.under("CapacityReservationSpecification");
            let reservation = reservation.under("CapacityReservationTarget");
            if let Some(id) = reservation.get("CapacityReservationId") {
                use_of(own("capacity-reservation", id), None);
            }
            profiles.extend(data.get("IamInstanceProfile.Name").map(str::to_owned));
            for kind in kinds {
                let tags = tags_of(data, "TagSpecification", kind);
                made.entry(kind).or_default().extend(tags);
            }
        }
    }
    if action == "CreateFleet" {
        let tags = tags_of(scope, "TagSpecification", "fleet");
        all.extend(making("ec2:CreateFleet", action, &own("fleet", "*"), &tags));
    }
    for (kind, tags) in made {
        if kind == "spot-instances-request" && !spot {
            continue;
        }
        all.extend(making("ec2:RunInstances", action, &own(kind, "*"), &tags));
    }
    for name in profiles {
        let role = world.profiles.get(&name).and_then(|one| one.role.clone());
        all.extend(role.map(|role| pass(world, &role)));
    }
    all
}

fn pass(world: &World, role: &str) -> Asked {
    let role = world.account.arn("iam", &format!("role/{role}"));
    Asked::of("iam:PassRole", role).with("iam:PassedToService", "ec2.amazonaws.com")
}

/// Something is made with tags: the action itself, and CreateTags if there are any.
fn making(name: &str, action: &str, resource: &str, tags: &Tags) -> Vec<Asked> {
    let mut all = vec![requesting(Asked::of(name, resource), tags)];
    if !tags.is_empty() {
        let tagging = Asked::of("ec2:CreateTags", resource).with("ec2:CreateAction", action);
        all.push(requesting(tagging, tags));
    }
    all
}

fn of_iam(world: &World, action: &str, scope: &Scope) -> Vec<Asked> {
    let account = &world.account;
    let name = format!("iam:{action}");
    let profile = scope.get("InstanceProfileName").unwrap_or_default();
    let found = world.profiles.get(profile);
    let path = match found {
        Some(one) => one.path.clone(),
        None => scope.get("Path").unwrap_or("/").to_owned(),
    };
    let own = account.arn("iam", &format!("instance-profile{path}{profile}"));
    let had = found.map(|one| one.tags.clone()).unwrap_or_default();
    let tags = pairs(&scope.list("Tags.member"));
    match action {
        "CreateInstanceProfile" => {
            let mut all = vec![requesting(Asked::of(name, own.clone()), &tags)];
            if !tags.is_empty() {
                // The tags that it is made with count as those that it has.
                let tagging = Asked::of("iam:TagInstanceProfile", own);
                all.push(requesting(on_tagged(tagging, &tags), &tags));
            }
            all
        }
        "TagInstanceProfile" => vec![requesting(on_tagged(Asked::of(name, own), &had), &tags)],
        "AddRoleToInstanceProfile" => {
            let role = scope.get("RoleName").unwrap_or_default();
            vec![on_tagged(Asked::of(name, own), &had), pass(world, role)]
        }
        "ListInstanceProfiles" => {
            let path = scope.get("PathPrefix").unwrap_or("/");
            vec![Asked::of(
                name,
                account.arn("iam", &format!("instance-profile{path}")),
            )]
        }
        "GetRole" => {
            let role = scope.get("RoleName").unwrap_or_default();
            vec![Asked::of(name, account.arn("iam", &format!("role/{role}")))]
        }
        _ => vec![on_tagged(Asked::of(name, own), &had)],
    }
}

/// ID and tags of the template that is named.
fn template(world: &World, scope: &Scope) -> Option<(String, Tags)> {
    let (id, name) = (
        scope.get("LaunchTemplateId"),
        scope.get("LaunchTemplateName"),
    );
    let mut all = world.templates.iter();
    let found = all.find(|(own, one)| id == Some(*own) || name == Some(&*one.name));
    found.map(|(id, one)| (id.to_owned(), one.tags.clone()))
}

fn instance(world: &World, id: &str) -> Tags {
    let found = world.instances.get(id);
    found.map(|one| one.tags.clone()).unwrap_or_default()
}

fn on_tagged(mut asked: Asked, tags: &Tags) -> Asked {
    for (key, value) in tags {
        asked = asked.with(format!("aws:ResourceTag/{key}"), value);
    }
    asked
}

fn requesting(mut asked: Asked, tags: &Tags) -> Asked {
    for (key, value) in tags {
        asked = asked.with(format!("aws:RequestTag/{key}"), value);
    }
    if !tags.is_empty() {
        let keys = tags.keys().cloned().collect();
        asked.context.insert("aws:TagKeys".to_owned(), keys);
    }
    asked
}

/// Tags for one type of resource.
fn tags_of(scope: &Scope, list: &str, kind: &str) -> Tags {
    let all = scope.list(list);
    let own = all
        .iter()
        .filter(|one| one.get("ResourceType") == Some(kind));
    own.flat_map(|one| pairs(&one.list("Tag"))).collect()
}

fn pairs(tags: &[Scope]) -> Tags {
    let mut pairs = Tags::new();
    for tag in tags {
        if let Some(key) = tag.get("Key") {
            let value = tag.get("Value").unwrap_or_default();
            pairs.insert(key.to_owned(), value.to_owned());
        }
    }
    pairs
}

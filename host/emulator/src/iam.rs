//! IAM: instance profiles and roles.

use crate::action::Context;
use crate::time::Time;
use crate::wire::{Params, Refusal, Scope, Xml, element, flag, text};
use crate::world::World;
use crate::world::account::Tags;
use crate::world::profile::Profile;

pub(crate) fn answer(
    world: &mut World,
    context: &Context,
    params: &Params,
) -> Result<Vec<Xml>, Refusal> {
    let scope = params.root();
    let name = || scope.need("InstanceProfileName");
    let answer = match &*context.action {
        "CreateInstanceProfile" => create(world, context, &scope)?,
        "GetInstanceProfile" => {
            let found = world.profiles.get_at(name()?, context.as_of).cloned();
            let found = found.ok_or_else(|| missing("Instance Profile", name().unwrap_or("")))?;
            vec![element("InstanceProfile", profile(world, name()?, &found))]
        }
        "ListInstanceProfiles" => list(world, context, &scope)?,
        "TagInstanceProfile" => {
            let tags = tags(&scope)?;
            change(world, context, name()?, |one| {
                one.tags.extend(tags);
                Ok(())
            })?
        }
        "AddRoleToInstanceProfile" => {
            let role = scope.need("RoleName")?.to_owned();
            if !world.account.roles.contains(&role) {
                return Err(missing_role(&role));
            }
            change(world, context, name()?, |one| add_role(one, role))?
        }
        "RemoveRoleFromInstanceProfile" => {
            let role = scope.need("RoleName")?;
            change(world, context, name()?, |one| {
                match one.role.as_deref() == Some(role) {
                    true => {
                        one.role = None;
                        Ok(())
                    }
                    false => Err(missing_role(role)),
                }
            })?
        }
        "DeleteInstanceProfile" => {
            let name = name()?;
            let found = world.profiles.get(name);
            let found = found.ok_or_else(|| missing("Instance Profile", name))?;
            if found.role.is_some() {
                let message =
                    "Cannot delete entity, must remove roles from instance profile first.";
                return Err(Refusal::new("DeleteConflict", message));
            }
            world.profiles.remove(context.now, name);
            Vec::new()
        }
        "GetRole" => {
            let name = scope.need("RoleName")?;
            if !world.account.roles.contains(name) {
                return Err(missing_role(name));
            }
            vec![element("Role", role(world, name))]
        }
        other => return Err(invalid_action(other, "2010-05-08")),
    };
    let _ = (params.root().get("Action"), params.root().get("Version"));
    match params.unread() {
        None => Ok(answer),
        Some(name) => Err(Refusal::new(
            "InvalidInput",
            format!("The parameter {name} is not known or not emulated"),
        )),
    }
}

pub(crate) fn invalid_action(action: &str, version: &str) -> Refusal {
    let message = format!("Could not find operation {action} for version {version}");
    Refusal::new("InvalidAction", message)
}

fn missing(kind: &str, name: &str) -> Refusal {
    Refusal::new("NoSuchEntity", format!("{kind} {name} cannot be found."))
}

fn missing_role(name: &str) -> Refusal {
    let message = format!("The role with name {name} cannot be found.");
    Refusal::new("NoSuchEntity", message)
}

/// Tags of a request: letters, digits, spaces and `_.:/=+-@`.
fn tags(scope: &Scope) -> Result<Tags, Refusal> {
    let legal = |c: char| c.is_alphanumeric() || c.is_whitespace() || "_.:/=+-@".contains(c);
    let mut all = Tags::new();
    for tag in scope.list("Tags.member") {
        let (key, value) = (tag.need("Key")?, tag.get("Value").unwrap_or_default());
        let short = (1..=128).contains(&key.chars().count()) && value.chars().count() <= 256;
        if !short || !key.chars().chain(value.chars()).all(legal) {
            let message = format!(
                "Tag {key}={value} failed to satisfy constraint: keys have 1 to 128 and values up to \
                 256 letters, digits, spaces and _.:/=+-@"
            );
            return Err(Refusal::new("ValidationError", message));
        }
        if all.insert(key.to_owned(), value.to_owned()).is_some() {
            let message =
                "Duplicate tag keys found. Please note that Tag keys are case insensitive.";
            return Err(Refusal::new("InvalidInput", message));
        }
    }
    match all.len() > 50 {
        true => Err(Refusal::new(
            "LimitExceeded",
            "Cannot exceed quota for TagsPerInstanceProfile: 50",
        )),
        false => Ok(all),
    }
}

fn create(world: &mut World, context: &Context, scope: &Scope) -> Result<Vec<Xml>, Refusal> {
    let name = scope.need("InstanceProfileName")?;
    let path = scope.get("Path").unwrap_or("/").to_owned();
    let legal = |c: char| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c);
    if name.len() > 128 || !name.chars().all(legal) {
        let message = "The specified value for instanceProfileName is invalid.";
        return Err(Refusal::new("ValidationError", message));
    }
    if !path.starts_with('/') || !path.ends_with('/') || path.len() > 512 {
        let message = "The specified value for path is invalid.";
        return Err(Refusal::new("ValidationError", message));
    }
    if world.profiles.get(name).is_some() {
        let message = format!("Instance Profile {name} already exists.");
        return Err(Refusal::new("EntityAlreadyExists", message));
    }
    let one = Profile {
        id: format!("AIPA{}", world.chance.letters(17)),
        path,
        created: context.now,
        role: None,
        tags: tags(scope)?,
    };
    world.profiles.put(context.now, name, one.clone());
    Ok(vec![element("InstanceProfile", profile(world, name, &one))])
}

fn add_role(one: &mut Profile, role: String) -> Result<(), Refusal> {
    if one.role.is_some() {
        let message = "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1";
        return Err(Refusal::new("LimitExceeded", message));
    }
    one.role = Some(role);
    Ok(())
}

fn change(
    world: &mut World,
    context: &Context,
    name: &str,
    change: impl FnOnce(&mut Profile) -> Result<(), Refusal>,
) -> Result<Vec<Xml>, Refusal> {
    let found = world
        .profiles
        .get(name)
        .ok_or_else(|| missing("Instance Profile", name))?;
    let mut one = (**found).clone();
    change(&mut one)?;
    world.profiles.put(context.now, name, one);
    Ok(Vec::new())
}

fn list(world: &mut World, context: &Context, scope: &Scope) -> Result<Vec<Xml>, Refusal> {
    let prefix = scope.get("PathPrefix").unwrap_or("/");
    let most: usize = scope.parse("MaxItems")?.unwrap_or(100);
    let after = scope.get("Marker").unwrap_or("");
    let all = world.profiles.iter_at(context.as_of);
    let mut all = all.filter(|(name, one)| one.path.starts_with(prefix) && *name > after);
    let page: Vec<_> = all.by_ref().take(most.clamp(1, 1000)).collect();
    let more = all.next().is_some();
    // A list has no tags.
    let entries = page.iter().map(|(name, one)| {
        let untagged = Profile {
            tags: Tags::new(),
            ..(***one).clone()
        };
        element("member", profile(world, name, &untagged))
    });
    let mut answer = vec![
        element("InstanceProfiles", entries),
        flag("IsTruncated", more),
    ];
    if let (true, Some((last, _))) = (more, page.last()) {
        answer.push(text("Marker", last));
    }
    Ok(answer)
}

fn profile(world: &World, name: &str, one: &Profile) -> Vec<Xml> {
    let path = &one.path;
    let roles = one
        .role
        .iter()
        .map(|name| element("member", role(world, name)));
    let mut all = vec![
        text("Path", path),
        text("InstanceProfileName", name),
        text("InstanceProfileId", &one.id),
        text(
            "Arn",
            world
                .account
                .arn("iam", &format!("instance-profile{path}{name}")),
        ),
        text("CreateDate", one.created.iso()),
        element("Roles", roles),
    ];
    if !one.tags.is_empty() {
        let tag = |(key, value)| element("member", [text("Key", key), text("Value", value)]);
        all.push(element("Tags", one.tags.iter().map(tag)));
    }
    all
}

fn role(world: &World, name: &str) -> Vec<Xml> {
    let policy = "%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%5D%7D";
    vec![
        text("Path", "/"),
        text("RoleName", name),
        text("RoleId", "AROAEMULATOR00000000"),
        text("Arn", world.account.arn("iam", &format!("role/{name}"))),
        text("CreateDate", Time(1_760_000_000_000).iso()),
        text("AssumeRolePolicyDocument", policy),
    ]
}

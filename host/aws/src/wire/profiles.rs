//! Instance profiles.

use aws_sdk_iam::types::{InstanceProfile, Tag};

use crate::calls::Call;
use crate::clients::{Clients, pages};
use crate::error::{ApiError, Class};
use crate::records::{ProfileFacts, Tags};

/// A profile by name; nothing if there is none.
///
/// # Errors
/// The call failed.
pub async fn get(clients: &Clients, name: &str) -> Result<Option<ProfileFacts>, ApiError> {
    let request = clients
        .iam
        .get_instance_profile()
        .instance_profile_name(name);
    match clients.send(Call::GetInstanceProfile, request.send()).await {
        Ok(out) => Ok(out.instance_profile().map(facts)),
        Err(error) if error.class == Class::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes a profile without a role. One that is there already will do.
///
/// # Errors
/// The call failed.
pub async fn create(clients: &Clients, name: &str, path: &str, all: &Tags) -> Result<(), ApiError> {
    let request = clients
        .iam
        .create_instance_profile()
        .instance_profile_name(name);
    let request = request.path(path).set_tags(Some(tags(all)));
    match clients
        .send(Call::CreateInstanceProfile, request.send())
        .await
    {
        Err(error) if error.class == Class::AsWished => Ok(()),
        result => result.map(drop),
    }
}

/// Sets the tags of a profile.
///
/// # Errors
/// The call failed.
pub async fn tag(clients: &Clients, name: &str, all: &Tags) -> Result<(), ApiError> {
    let request = clients
        .iam
        .tag_instance_profile()
        .instance_profile_name(name);
    let request = request.set_tags(Some(tags(all)));
    clients
        .send(Call::TagInstanceProfile, request.send())
        .await
        .map(drop)
}

/// Adds a role, without its path, to a profile.
///
/// # Errors
/// The call failed; with [`Class::NotFound`] if profile or role does not exist.
pub async fn add_role(clients: &Clients, name: &str, role: &str) -> Result<(), ApiError> {
    let request = clients.iam.add_role_to_instance_profile();
    let request = request.instance_profile_name(name).role_name(role);
    clients
        .send(Call::AddRoleToInstanceProfile, request.send())
        .await
        .map(drop)
}

/// Takes a role from a profile. If it has none, that will do.
///
/// # Errors
/// The call failed.
pub async fn remove_role(clients: &Clients, name: &str, role: &str) -> Result<(), ApiError> {
    let request = clients.iam.remove_role_from_instance_profile();
    let request = request.instance_profile_name(name).role_name(role);
    match clients
        .send(Call::RemoveRoleFromInstanceProfile, request.send())
        .await
    {
        Err(error) if error.class == Class::NotFound => Ok(()),
        result => result.map(drop),
    }
}

/// Deletes a profile without a role. One that is gone will do.
///
/// # Errors
/// The call failed.
pub async fn delete(clients: &Clients, name: &str) -> Result<(), ApiError> {
    let request = clients
        .iam
        .delete_instance_profile()
        .instance_profile_name(name);
    match clients
        .send(Call::DeleteInstanceProfile, request.send())
        .await
    {
        Err(error) if error.class == Class::NotFound => Ok(()),
        result => result.map(drop),
    }
}

/// Profiles below a path.
///
/// # Errors
/// A page failed.
pub async fn list(clients: &Clients, path: &str) -> Result<Vec<ProfileFacts>, ApiError> {
    let found = pages(Call::ListInstanceProfiles, |marker| async move {
        let request = clients.iam.list_instance_profiles().path_prefix(path);
        let request = request.set_marker(marker);
        let out = clients
            .send(Call::ListInstanceProfiles, request.send())
            .await?;
        let rows: Vec<ProfileFacts> = out.instance_profiles().iter().map(facts).collect();
        Ok((
            rows,
            out.marker()
                .filter(|_| out.is_truncated())
                .map(str::to_owned),
        ))
    })
    .await?;
    // moto's answer is not filtered, and what is deleted must be ours.
    Ok(found
        .into_iter()
        .filter(|one| one.path.starts_with(path))
        .collect())
}

fn facts(one: &InstanceProfile) -> ProfileFacts {
    ProfileFacts {
        name: one.instance_profile_name().to_owned(),
        path: one.path().to_owned(),
        roles: one
            .roles()
            .iter()
            .map(|role| role.role_name().to_owned())
            .collect(),
        tags: one
            .tags()
            .iter()
            .map(|tag| (tag.key().to_owned(), tag.value().to_owned()))
            .collect(),
    }
}

fn tags(all: &Tags) -> Vec<Tag> {
    let tag = |(key, value): (&String, &String)| Tag::builder().key(key).value(value).build().ok();
    all.iter().filter_map(tag).collect()
}

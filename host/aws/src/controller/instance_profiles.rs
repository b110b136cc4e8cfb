//! Instance profiles: made for the roles of classes, and deleted when nothing uses them.

use std::collections::BTreeSet;

use longshore_ec2::nodeclass::EC2NodeClass;
use longshore_ec2::tags;

use super::Steps;
use crate::error::{ApiError, Class};
use crate::nodeclass::ProfileFault;
use crate::profiles::{self, Step};
use crate::records::{Filters, InstanceFacts, ProfileFacts, Tags};
use crate::wire;

impl Steps {
    /// The profile of a class, made for its role if need be.
    pub(super) async fn profile(&self, class: &EC2NodeClass) -> Result<String, ProfileFault> {
        if let Some(name) = &class.spec.instance_profile {
            return Ok(name.clone());
        }
        let inner = self.provider.inner();
        let (clients, cluster) = (&inner.clients, &inner.settings.cluster.name);
        let role = class.spec.role.clone().unwrap_or_default();
        let uid = class.metadata.uid.clone().unwrap_or_default();
        let region = clients.region();
        let name = profiles::name(region, cluster, &uid, &role);
        let path = profiles::path(region, cluster, &uid);
        let tags = profiles::tags(class, region, cluster);
        // One that Karpenter made for the class has another name, and stays.
        let own = class
            .status
            .as_ref()
            .and_then(|own| own.instance_profile.clone());
        if let Some(own) = own.filter(|own| *own != name)
            && let Some(found) = wire::profiles::get(clients, &own).await?
            && found.path == path
            && profiles::step(Some(&found), &role) == Step::Done
        {
            self.tag_profile(&found, &tags).await;
            return Ok(own);
        }
        let mut found = wire::profiles::get(clients, &name).await?;
        let before = found.clone();
        // Create, add; or remove, add: never more than two steps.
        for _ in 0..3 {
            match profiles::step(found.as_ref(), &role) {
                Step::Done => break,
                Step::Create => {
                    wire::profiles::create(clients, &name, &path, &tags).await?;
                    found = Some(ProfileFacts {
                        name: name.clone(),
                        path: path.clone(),
                        ..ProfileFacts::default()
                    });
                }
                Step::Remove(other) => {
                    wire::profiles::remove_role(clients, &name, &other).await?;
                    found.iter_mut().for_each(|found| found.roles.clear());
                }
                Step::Add => {
                    let added =
                        wire::profiles::add_role(clients, &name, profiles::role_name(&role));
                    match added.await {
                        Ok(()) => break,
                        // A profile that was just made may not be there yet for IAM itself; it is
                        // looked at again. A role that does not exist is the user's to correct.
                        // Both have the same code, so the profile is asked for.
                        Err(error)
                            if error.class == Class::NotFound && !names(&error.message, &name) =>
                        {
                            if wire::profiles::get(clients, &name).await?.is_none() {
                                return Err(error.into());
                            }
                            // Without a role it is of no use to anybody.
                            let _ = wire::profiles::delete(clients, &name).await;
                            return Err(ProfileFault::NoRole(role));
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        if let Some(before) = before {
            self.tag_profile(&before, &tags).await;
        }
        Ok(name)
    }

    /// Brings the tags of a profile up to date: those of the class may have changed. Without the
    /// right to do so the profile serves.
    async fn tag_profile(&self, found: &ProfileFacts, tags: &Tags) {
        if tags
            .iter()
            .all(|(key, value)| found.tags.get(key) == Some(value))
        {
            return;
        }
        let clients = &self.provider.inner().clients;
        if let Err(error) = wire::profiles::tag(clients, &found.name, tags).await {
            tracing::info!(
                profile = found.name,
                error = error.with_hint(),
                "tagging instance profile failed"
            );
        }
    }

    pub(super) async fn delete_profile(&self, profile: &ProfileFacts) -> Result<(), ApiError> {
        let clients = &self.provider.inner().clients;
        for role in &profile.roles {
            wire::profiles::remove_role(clients, &profile.name, role).await?;
        }
        wire::profiles::delete(clients, &profile.name).await
    }

    /// Deletes profiles of the cluster that neither a class nor an instance uses. An instance whose
    /// profile is deleted has no rights any more.
    pub(super) async fn sweep_profiles(
        &self,
        classes: &[EC2NodeClass],
        known: BTreeSet<String>,
    ) -> Result<(), ApiError> {
        let inner = self.provider.inner();
        let cluster = &inner.settings.cluster.name;
        let path = profiles::path_of_cluster(inner.clients.region(), cluster);
        let found = wire::profiles::list(&inner.clients, &path).await?;
        if found.is_empty() {
            return Ok(());
        }
        // Instances first: one that is launched meanwhile has the profile of a class.
        let query: Filters = vec![(format!("tag:{}", tags::CLUSTER), vec![cluster.clone()])];
        let instances = wire::instances::find(&inner.clients, &query).await?;
        let living = instances
            .iter()
            .filter(|one: &&InstanceFacts| !one.is_gone());
        let mut used: BTreeSet<String> = living.map(|one| one.profile.clone()).collect();
        used.extend(classes.iter().filter_map(|class| {
            class
                .status
                .as_ref()
                .and_then(|status| status.instance_profile.clone())
        }));
        used.extend(known);
        for profile in profiles::left_over(&found, &used) {
            tracing::info!(profile = profile.name, "deleted unused instance profile");
            self.delete_profile(profile).await?;
        }
        Ok(())
    }
}

/// Whether a message names a thing, as a word of its own.
fn names(message: &str, name: &str) -> bool {
    message.split_whitespace().any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_a_profile_as_a_word() {
        let missing = "Instance Profile role-demo_12 cannot be found.";
        assert!(names(missing, "role-demo_12") && !names(missing, "demo_1"));
        assert!(!names(
            "The role with name node cannot be found.",
            "role-demo_12"
        ));
    }
}

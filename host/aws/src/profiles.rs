//! Instance profiles that are made for roles: names, paths, and which are left over.

use std::collections::BTreeSet;

use longshore_ec2::nodeclass::EC2NodeClass;
use longshore_ec2::tags;
use sha2::{Digest as _, Sha256};

use crate::records::{ProfileFacts, Tags};

/// The region as a tag of instance profiles.
const REGION_TAG: &str = "topology.kubernetes.io/region";

/// Where profiles of a class are: profiles of others have other paths.
pub fn path(region: &str, cluster: &str, class_uid: &str) -> String {
    format!("{}{class_uid}/", path_of_cluster(region, cluster))
}

/// Where profiles of all classes of a cluster are.
pub fn path_of_cluster(region: &str, cluster: &str) -> String {
    format!("/karpenter/{region}/{cluster}/")
}

/// The name of the profile of a class and its role. The same role gives the same name, so that a
/// profile whose name was never written into the status is found again and not made twice.
pub fn name(region: &str, cluster: &str, class_uid: &str, role: &str) -> String {
    let mut digest = Sha256::new();
    for part in [region, class_uid, role] {
        digest.update(part.as_bytes());
        digest.update([0]);
    }
    let digest = digest.finalize();
    let number = digest
        .iter()
        .take(8)
        .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    // IAM takes 128 characters; the number has at most 20.
    let cluster: String = cluster.chars().filter(is_legal).take(100).collect();
    format!("{cluster}_{number}")
}

fn is_legal(c: &char) -> bool {
    c.is_ascii_alphanumeric() || "_+=,.@-".contains(*c)
}

/// The name of a role without its path, as IAM's calls want it.
pub fn role_name(role: &str) -> &str {
    role.rsplit('/').next().unwrap_or(role)
}

/// Tags of a profile.
pub fn tags(object: &EC2NodeClass, region: &str, cluster: &str) -> Tags {
    let mut tags = tags::of_class(object, cluster);
    tags.insert(REGION_TAG.to_owned(), region.to_owned());
    tags
}

/// What is to be done so that a profile has its role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make the profile, then add the role.
    Create,
    /// Take a role away that is another one.
    Remove(String),
    /// Add the role.
    Add,
    /// Nothing.
    Done,
}

/// The next step for a profile that was found, or was not.
pub fn step(found: Option<&ProfileFacts>, role: &str) -> Step {
    let Some(found) = found else {
        return Step::Create;
    };
    match found.roles.first() {
        None => Step::Add,
        Some(own) if own == role_name(role) => Step::Done,
        Some(own) => Step::Remove(own.clone()),
    }
}

/// Profiles of the cluster that nothing uses: neither the status of a class nor a NodeClaim names
/// them.
pub fn left_over<'a>(found: &'a [ProfileFacts], used: &BTreeSet<String>) -> Vec<&'a ProfileFacts> {
    found
        .iter()
        .filter(|one| !used.contains(&one.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_named_by_class_and_role_and_is_legal() {
        let of = |role| name("us-east-1", "my/cluster", "uid-1", role);
        assert_eq!(of("node"), of("node"));
        assert_ne!(of("node"), of("other"));
        assert_ne!(of("node"), name("us-east-1", "my/cluster", "uid-2", "node"));
        assert!(of("node").starts_with("mycluster_") && of("node").chars().all(|c| is_legal(&c)));
        assert!(name("r", &"c".repeat(300), "u", "n").len() <= 128);
        assert_eq!(path("eu-west-1", "c", "u"), "/karpenter/eu-west-1/c/u/");
    }

    #[test]
    fn a_profile_gets_its_role_step_by_step() {
        let found = |roles: &[&str]| ProfileFacts {
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            ..ProfileFacts::default()
        };
        assert_eq!(step(None, "node"), Step::Create);
        assert_eq!(step(Some(&found(&[])), "node"), Step::Add);
        assert_eq!(
            step(Some(&found(&["old"])), "node"),
            Step::Remove("old".into())
        );
        // A role is given with its path, and IAM answers without.
        assert_eq!(step(Some(&found(&["node"])), "team/a/node"), Step::Done);
    }

    #[test]
    fn what_nothing_names_is_left_over() {
        let one = |name: &str| ProfileFacts {
            name: name.into(),
            ..ProfileFacts::default()
        };
        let found = [one("a"), one("b")];
        let used = BTreeSet::from(["a".to_owned()]);
        assert_eq!(left_over(&found, &used), [&found[1]]);
    }
}

//! Groups of NodeClaims that are launched together.
//!
//! The group is an annotation of each member, written with the create: a process that is killed
//! anywhere leaves it behind, and the next one asks with the same token.

use std::collections::BTreeMap;

use longshore_api::crd::NodeClaim;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::claims::{NewNodeClaim, PODS};

/// Annotation of the members of a group: `TOKEN/INDEX/SIZE`.
pub const GROUP: &str = "longshore.dev/launch-group";

/// What a NodeClaim says of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// The idempotency token of the launch.
    pub token: &'a str,
    /// Its number, from 0.
    pub index: usize,
    /// How many members there were to be.
    pub size: usize,
}

/// The group of a NodeClaim; nothing if it is in none, or if what it says cannot be read.
pub fn member(claim: &NodeClaim) -> Option<Member<'_>> {
    let text = claim.metadata.annotations.as_ref()?.get(GROUP)?;
    let mut parts = text.split('/');
    let (token, index, size) = (parts.next()?, parts.next()?, parts.next()?);
    let (index, size) = (index.parse().ok()?, size.parse().ok()?);
    let fits = !token.is_empty() && index < size && parts.next().is_none();
    fits.then_some(Member { token, index, size })
}

/// Writes groups of up to `most` members into NodeClaims that will be created. Those are in a group
/// that differ by name, planned pods and amounts requested alone.
pub fn divide(wanted: &mut [NewNodeClaim], most: usize) {
    if most < 2 {
        return;
    }
    let mut alike: BTreeMap<[u8; 32], Vec<usize>> = BTreeMap::new();
    for (at, want) in wanted.iter().enumerate() {
        alike.entry(kind(&want.object)).or_default().push(at);
    }
    for group in alike.values().flat_map(|all| all.chunks(most)) {
        if group.len() < 2 {
            continue;
        }
        let mut names: Vec<&str> = group.iter().map(|&at| &*wanted[at].name).collect();
        names.sort_unstable();
        let token = token(&names);
        for (index, &at) in group.iter().enumerate() {
            let text = format!("{token}/{index}/{}", group.len());
            wanted[at].object["metadata"]["annotations"][GROUP] = text.into();
        }
    }
}

/// A token of 40 letters, of names of NodeClaims. Names follow from their round, so no other set has
/// the same.
fn token(names: &[&str]) -> String {
    let mut digest = Sha256::new();
    for name in names {
        digest.update(name.as_bytes());
        digest.update([0]);
    }
    let digest = digest.finalize();
    let hex = digest.iter().take(20).map(|byte| format!("{byte:02x}"));
    hex.collect()
}

/// What members of a group have in common. Of requests only the resources are: each of the instance
/// types has room for any member.
fn kind(object: &Value) -> [u8; 32] {
    let mut own = object.clone();
    if let Some(metadata) = own["metadata"].as_object_mut() {
        metadata.remove("name");
    }
    if let Some(annotations) = own["metadata"]["annotations"].as_object_mut() {
        annotations.remove(PODS);
    }
    let requests = &mut own["spec"]["resources"]["requests"];
    if let Some(requests) = requests.as_object_mut() {
        requests
            .values_mut()
            .for_each(|amount| *amount = json!(null));
    }
    Sha256::digest(own.to_string().as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(name: &str, cpu: &str, kind: &str) -> NewNodeClaim {
        NewNodeClaim {
            name: name.to_owned(),
            pool: "default".to_owned(),
            object: json!({
                "metadata": {"name": name, "annotations": {PODS: format!("default/{name}")}},
                "spec": {
                    "requirements": [{"key": "t", "operator": "In", "values": [kind]}],
                    "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
                    "resources": {"requests": {"cpu": cpu}},
                },
            }),
            pods: Vec::new(),
            summary: String::new(),
            min_values_relaxed: false,
        }
    }

    fn groups(wanted: &[NewNodeClaim]) -> Vec<Option<(String, usize, usize)>> {
        let of = |want: &NewNodeClaim| {
            let claim: NodeClaim = serde_json::from_value(want.object.clone()).unwrap();
            member(&claim).map(|own| (own.token.to_owned(), own.index, own.size))
        };
        wanted.iter().map(of).collect()
    }

    #[test]
    fn nodeclaims_that_are_alike_are_in_groups_of_a_size() {
        let mut wanted: Vec<NewNodeClaim> =
            [("a", "1"), ("b", "2"), ("c", "1"), ("d", "1"), ("e", "1")]
                .map(|(name, cpu)| new(name, cpu, "m5.large"))
                .into();
        wanted.insert(2, new("x", "1", "r5.large"));
        let mut none = wanted.clone();
        divide(&mut none, 1);
        assert_eq!(none, wanted, "a cloud that makes instances one by one");
        divide(&mut wanted, 2);
        let all = groups(&wanted);
        let places: Vec<_> = all
            .iter()
            .map(|own| own.as_ref().map(|own| (own.1, own.2)))
            .collect();
        let (first, second) = (Some((0, 2)), Some((1, 2)));
        assert_eq!(places, [first, second, None, first, second, None]);
        let tokens: Vec<&str> = all.iter().flatten().map(|own| &*own.0).collect();
        assert_eq!((tokens[0], tokens[2]), (tokens[1], tokens[3]));
        assert_ne!(tokens[0], tokens[2]);
        assert_eq!(tokens[0].len(), 40);
    }

    #[test]
    fn what_is_no_group_is_none() {
        for text in [
            "", "t", "t/1", "t/2/2", "t/0/1/2", "/0/1", "t/x/1", "t/-1/2",
        ] {
            let mut own = new("a", "1", "m5.large");
            own.object["metadata"]["annotations"][GROUP] = text.into();
            assert_eq!(groups(&[own]), [None], "{text:?}");
        }
    }
}

//! What to write when the version of the hash changes: annotations of an EC2NodeClass and of the
//! NodeClaims made from it.
//!
//! Hashes of two versions cannot be compared. So a new version must not make nodes drift, and must
//! not make nodes current that have drifted. A NodeClaim that has not drifted gets the class's hash
//! of today. One that has drifted gets the new version alone: its hash is of the old version and
//! differs from the class's, so it stays drifted.
//!
//! NodeClaims are written before the NodeClass. The NodeClass keeps the old version until all are
//! done, so a process that is killed in between starts again with the same answer.
//!
//! The drift of NodeClaims in `host/aws` calls [`differ`], its NodeClass controller [`migrate`].
//! `live/src/act/pools.rs` does the same for NodePools.

use std::collections::BTreeMap;

use super::VERSION;

/// Annotation with the hash, of EC2NodeClasses and NodeClaims.
pub const HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
/// Annotation with its version.
pub const HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";

/// The hash of an object as its annotations have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotated<'a> {
    /// [`HASH`].
    pub hash: Option<&'a str>,
    /// [`HASH_VERSION`].
    pub version: Option<&'a str>,
}

impl<'a> Annotated<'a> {
    /// A hash of today's version.
    pub fn of(hash: &'a str) -> Self {
        Annotated {
            hash: Some(hash),
            version: Some(VERSION),
        }
    }

    /// From an object's annotations.
    pub fn read(annotations: &'a BTreeMap<String, String>) -> Self {
        let text = |key: &str| annotations.get(key).map(String::as_str);
        Annotated {
            hash: text(HASH),
            version: text(HASH_VERSION),
        }
    }
}

/// A NodeClaim of the NodeClass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim<'a> {
    /// The NodeClaim's name.
    pub name: &'a str,
    /// Its annotations.
    pub annotated: Annotated<'a>,
    /// Whether it has the condition Drifted, whatever the condition's status.
    pub drifted: bool,
}

/// Annotations to write on one object; `None` leaves one as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// [`HASH`].
    pub hash: Option<String>,
    /// [`HASH_VERSION`].
    pub version: Option<&'static str>,
}

/// Annotations to write, in this order: all NodeClaims, then the NodeClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migration {
    /// By name of the NodeClaim, in the order given.
    pub claims: Vec<(String, Write)>,
    /// On the NodeClass; `None` if it has them already.
    pub class: Option<Write>,
}

/// What to write so that a NodeClass with the hash `now` (see [`super::nodeclass_hash`]) and its
/// NodeClaims have version [`VERSION`].
pub fn migrate<'a>(
    class: Annotated<'_>,
    now: &str,
    claims: impl IntoIterator<Item = Claim<'a>>,
) -> Migration {
    let old = claims.into_iter();
    let old = old.filter(|claim| claim.annotated.version != Some(VERSION));
    let write = |claim: Claim<'_>| {
        let hash = (!has_drifted(class, &claim)).then(|| now.to_owned());
        let version = Some(VERSION);
        (claim.name.to_owned(), Write { hash, version })
    };
    let current = class.hash == Some(now) && class.version == Some(VERSION);
    Migration {
        claims: old.map(write).collect(),
        class: (!current).then(|| Write {
            hash: Some(now.to_owned()),
            version: Some(VERSION),
        }),
    }
}

/// Whether a NodeClaim has drifted from its NodeClass, as far as annotations of one version say so
/// before the condition does.
fn has_drifted(class: Annotated<'_>, claim: &Claim<'_>) -> bool {
    claim.drifted || differ(class, claim.annotated) == Some(true)
}

/// Whether a NodeClaim's hash differs from its NodeClass's: drift, reason NodeClassDrift. `None`
/// where they cannot be compared: one of them has no hash, or they have different versions.
pub fn differ(class: Annotated<'_>, claim: Annotated<'_>) -> Option<bool> {
    let version = class.version?;
    let comparable = claim.version == Some(version);
    Some(class.hash? != claim.hash?).filter(|_| comparable)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use expect_test::{Expect, expect};

    use super::*;

    fn of<'a>(hash: &'a str, version: &'a str) -> Annotated<'a> {
        let set = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        Annotated {
            hash: set(hash),
            version: set(version),
        }
    }

    /// Name, hash, version and whether the condition is there.
    type Row<'a> = (&'a str, &'a str, &'a str, bool);

    fn check(class: (&str, &str), claims: &[Row<'_>], expected: Expect) {
        let class = of(class.0, class.1);
        let claims = claims.iter().map(|(name, hash, version, drifted)| Claim {
            name,
            annotated: of(hash, version),
            drifted: *drifted,
        });
        let all = migrate(class, "600", claims);
        let mut out = String::new();
        for (name, write) in all
            .claims
            .into_iter()
            .chain(all.class.map(|write| ("class".to_owned(), write)))
        {
            let hash = write.hash.unwrap_or("as it is".to_owned());
            let version = write.version.unwrap_or("as it is");
            let _ = writeln!(out, "{name}: hash {hash}, version {version}");
        }
        expected.assert_eq(&out);
    }

    #[test]
    fn a_new_version_makes_no_node_drift_and_none_current() {
        check(
            ("500", "v5"),
            &[
                ("current", "500", "v5", false),
                ("drifted", "499", "v5", true),
                ("drifted-without-condition-yet", "499", "v5", false),
                ("other-drift", "500", "v5", true),
                ("done-before-a-restart", "600", "v6", false),
                ("older", "400", "v4", false),
                ("without-annotations", "", "", false),
                ("without-hash", "", "v5", false),
            ],
            expect![[r#"
                current: hash 600, version v6
                drifted: hash as it is, version v6
                drifted-without-condition-yet: hash as it is, version v6
                other-drift: hash as it is, version v6
                older: hash 600, version v6
                without-annotations: hash 600, version v6
                without-hash: hash 600, version v6
                class: hash 600, version v6
            "#]],
        );
    }

    #[test]
    fn a_nodeclaim_without_drift_equals_its_class_afterwards_and_one_with_drift_does_not() {
        let class = of("500", "v5");
        for (hash, drifted) in [("500", false), ("499", true)] {
            let claim = Claim {
                name: "a",
                annotated: of(hash, "v5"),
                drifted,
            };
            let all = migrate(class, "600", [claim]);
            let after = all.claims[0].1.hash.as_deref().unwrap_or(hash);
            let found = differ(of("600", VERSION), of(after, VERSION));
            assert_eq!(found, Some(drifted));
        }
    }

    #[test]
    fn an_edited_class_gets_its_hash_and_leaves_nodeclaims_alone() {
        check(
            ("599", "v6"),
            &[("a", "599", "v6", false), ("b", "598", "v6", true)],
            expect![[r#"
                class: hash 600, version v6
            "#]],
        );
        check(("600", "v6"), &[("a", "600", "v6", false)], expect![[""]]);
        check(
            ("", ""),
            &[],
            expect![[r#"
            class: hash 600, version v6
        "#]],
        );
    }

    #[test]
    fn hashes_of_two_versions_cannot_be_compared() {
        assert_eq!(differ(of("1", "v6"), of("2", "v6")), Some(true));
        assert_eq!(differ(of("1", "v6"), of("1", "v6")), Some(false));
        assert_eq!(differ(of("1", "v6"), of("2", "v5")), None);
        assert_eq!(differ(of("1", ""), of("2", "")), None);
        assert_eq!(differ(of("1", "v6"), of("", "v6")), None);
    }
}

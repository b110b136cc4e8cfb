//! Drift by changed user data.
//!
//! A bootstrap policy is replaced, or its settings change, and the same NodeClass boots other nodes
//! than before. Nodes that run are left alone, because a policy that is tried out must not replace
//! a cluster. A NodeClass asks for the contrary with the annotation [`DRIFTS`].
//!
//! A NodeClaim carries the digest of the user data that it was launched with. The caller renders
//! what it would be launched with today, from its own labels, taints and instance type.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

/// Annotation of EC2NodeClasses: `true` if nodes drift when their user data changes.
pub const DRIFTS: &str = "longshore.dev/bootstrap-drift";
/// Annotation of NodeClaims: [`digest`] of the user data that it was launched with.
pub const DIGEST: &str = "longshore.dev/bootstrap-digest";
/// The drift reason.
pub const REASON: &str = "BootstrapDrift";

/// Whether a node has drifted from its user data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drift {
    /// The NodeClass does not ask for it.
    NotAsked,
    /// The NodeClass has the annotation with another value than `true` and `false`: it does not
    /// ask.
    NotUnderstood(String),
    /// Nothing says what the NodeClaim was launched with.
    Unknown,
    /// It would be launched with the same today.
    Current,
    /// It would be launched with something else today, reason [`REASON`].
    Drifted,
}

/// The digest of user data before it is encoded: 32 hex digits, half a SHA-256.
pub fn digest(user_data: &str) -> String {
    let digest = Sha256::digest(user_data.as_bytes());
    digest.iter().take(16).map(|b| format!("{b:02x}")).collect()
}

/// Whether a NodeClass with these annotations asks for it.
pub fn is_asked(node_class: &BTreeMap<String, String>) -> bool {
    node_class.get(DRIFTS).is_some_and(|asks| asks == "true")
}

/// Whether a NodeClaim has drifted, by the annotations of its NodeClass and its own. `today` renders
/// the user data that it would be launched with; it is called only if the answer matters.
pub fn drift(
    node_class: &BTreeMap<String, String>,
    claim: &BTreeMap<String, String>,
    today: impl FnOnce() -> Option<String>,
) -> Drift {
    match node_class.get(DRIFTS).map(String::as_str) {
        None | Some("false") => return Drift::NotAsked,
        Some(_) if is_asked(node_class) => {}
        Some(other) => return Drift::NotUnderstood(other.to_owned()),
    }
    let Some((launched, today)) = claim.get(DIGEST).and_then(|of| Some((of, today()?))) else {
        return Drift::Unknown;
    };
    match digest(&today) == *launched {
        true => Drift::Current,
        false => Drift::Drifted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(key: &str, value: &str) -> BTreeMap<String, String> {
        [(key.to_owned(), value.to_owned())].into()
    }

    #[test]
    fn changed_user_data_is_drift_if_the_nodeclass_asks() {
        let launched = one(DIGEST, &digest("#!/bin/sh\nold\n"));
        let of = |class: &BTreeMap<String, String>, claim, today: &str| {
            drift(class, claim, || Some(today.to_owned()))
        };
        let asks = one(DRIFTS, "true");
        assert_eq!(of(&asks, &launched, "#!/bin/sh\nnew\n"), Drift::Drifted);
        assert_eq!(of(&asks, &launched, "#!/bin/sh\nold\n"), Drift::Current);
        assert_eq!(of(&asks, &BTreeMap::new(), "new"), Drift::Unknown);
        assert_eq!(drift(&asks, &launched, || None), Drift::Unknown);
    }

    #[test]
    fn without_the_annotation_nothing_drifts_and_nothing_is_rendered() {
        let launched = one(DIGEST, &digest("old"));
        let never = || unreachable!("the answer does not matter");
        assert_eq!(drift(&BTreeMap::new(), &launched, never), Drift::NotAsked);
        let no = one(DRIFTS, "false");
        assert_eq!(drift(&no, &launched, never), Drift::NotAsked);
        let odd = one(DRIFTS, "yes");
        let odd = drift(&odd, &launched, never);
        assert_eq!(odd, Drift::NotUnderstood("yes".to_owned()));
        assert_eq!(
            drift(&one(DRIFTS, "true"), &BTreeMap::new(), never),
            Drift::Unknown
        );
    }

    #[test]
    fn a_digest_has_32_hex_digits() {
        assert_eq!(digest(""), "e3b0c44298fc1c149afbf4c8996fb924");
        assert_ne!(digest("a"), digest("a\n"));
    }
}

//! A next version of a policy, and what is seen of it.

use std::collections::BTreeMap;

use longshore_policy::{CanaryFault, CanarySeen, LoadedPolicy, Obeyed};

use crate::canary::{Facts, Fault, Terms};

/// Annotation of a NodeClaim with the next version of a policy whose user data its node boots with.
pub const BOOTS: &str = "longshore.dev/bootstrap-canary";

/// A policy whose next version is loaded.
#[derive(Clone)]
pub struct CanarySlot {
    /// The policy's name in the configuration.
    pub policy: String,
    /// Its place among the enforced ones.
    pub(super) place: usize,
    pub(super) loaded: LoadedPolicy,
    /// The next version, and the one that it is compared with.
    pub version: String,
    pub old: String,
    /// Whether it says what nodes boot with.
    pub boots: bool,
    /// NodePools that the policy is for; `None` for all.
    pub nodepools: Option<Vec<String>>,
    /// Steps, `hold` and limits of its roll-out.
    pub terms: Terms,
}

/// For which NodePools versions are obeyed, by policy: the version with them.
pub type ObeyedVersions = BTreeMap<String, (String, Obeyed)>;

/// What was seen of a version: the policy, the version and the facts.
pub type Sighting = (String, String, Facts);

impl CanarySlot {
    /// Whether the policy is for a NodePool.
    pub fn serves(&self, node_pool: &str) -> bool {
        let names = self.nodepools.as_ref();
        names.is_none_or(|names| names.iter().any(|name| name == node_pool))
    }

    /// What a NodeClaim is marked with that it decided.
    pub fn mark(&self) -> String {
        format!("{}@{}", self.policy, self.version)
    }
}

/// What a round or a look showed.
pub(super) fn facts_of(seen: CanarySeen) -> Option<Facts> {
    let fault = seen.fault.map(|fault| match fault {
        CanaryFault::NoAnswer(error) => Fault::NoAnswer(error),
        CanaryFault::TwoAnswers(about) => Fault::TwoAnswers(about),
        CanaryFault::Discount(what) => Fault::Discount(what),
    });
    let facts = Facts {
        asked: seen.asked > 0,
        fault,
        ..Facts::default()
    };
    (facts != Facts::default()).then_some(facts)
}

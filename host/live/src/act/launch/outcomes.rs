//! How launches went, for the canaries of policies: which NodePool, which next versions decided the
//! NodeClaim, and whether a node came of it.

use std::sync::Mutex;

use longshore_api::crd::NodeClaim;

use crate::observe::node_claim::pool_of;
use crate::process::lock::lock;

/// Annotation of a NodeClaim with the next versions of policies that decided it.
pub const CANARIES: &str = "longshore.dev/policy-canary";
/// The most outcomes that are kept until they are taken.
const MAX_REMEMBERED: usize = 1000;

/// A NodePool, and the annotation of a NodeClaim of it.
pub type Decided = (String, Option<String>);

/// Outcomes since last taken.
#[derive(Default)]
pub struct Outcomes(Mutex<Vec<(Decided, bool)>>);

impl Outcomes {
    /// Notes how the launch of a NodeClaim ended.
    pub fn note(&self, claim: &NodeClaim, good: bool) {
        let annotations = claim.metadata.annotations.as_ref();
        let canaries = annotations.and_then(|all| all.get(CANARIES)).cloned();
        let mut all = lock(&self.0);
        if all.len() < MAX_REMEMBERED {
            all.push(((pool_of(claim).to_owned(), canaries), good));
        }
    }

    /// All since last taken.
    pub fn take(&self) -> Vec<(Decided, bool)> {
        std::mem::take(&mut lock(&self.0))
    }
}

//! How launches went, for the canaries of policies: which NodePool, which next versions decided the
//! NodeClaim, and whether a node came of it.

use std::sync::Mutex;

use longshore_api::crd::NodeClaim;

use super::boot_turns::mark_of;
use crate::observe::node_claim::pool_of;
use crate::process::lock::lock;

/// Annotation of a NodeClaim with the next versions of policies that decided it.
pub const CANARIES: &str = "longshore.dev/policy-canary";
/// The most outcomes that are kept until they are taken.
const MAX_REMEMBERED: usize = 1000;

/// A NodePool, and the marks of a NodeClaim of it.
pub type Decided = (String, Vec<String>);

/// Next versions that decided a NodeClaim, or that its node boots with.
pub fn marks(claim: &NodeClaim) -> impl Iterator<Item = &str> {
    let annotations = claim.metadata.annotations.as_ref();
    let decided = annotations.and_then(|all| all.get(CANARIES));
    let decided = decided.into_iter().flat_map(|marks| marks.split(','));
    decided.chain(mark_of(claim))
}

/// Outcomes since last taken.
#[derive(Default)]
pub struct Outcomes(Mutex<Vec<(Decided, bool)>>);

impl Outcomes {
    /// Notes how the launch of a NodeClaim ended.
    pub fn note(&self, claim: &NodeClaim, good: bool) {
        let mut all = lock(&self.0);
        if all.len() < MAX_REMEMBERED {
            let marks = marks(claim).map(str::to_owned).collect();
            all.push(((pool_of(claim).to_owned(), marks), good));
        }
    }

    /// All since last taken.
    pub fn take(&self) -> Vec<(Decided, bool)> {
        std::mem::take(&mut lock(&self.0))
    }
}

//! What was bought for which pods, and what must not be bought again without asking.

use std::collections::HashSet;

use super::due::FailedWrites;
use crate::act::launch::useless_purchase_writes::ToRemember;
use crate::observe::plan_index::PlanIndex;

/// Purchases of this process, and those of others as far as NodeClaims name their pods.
#[derive(Default)]
pub(super) struct Purchases {
    /// Pending pods that have a NodeClaim. Buying again first lists unbound pods.
    pub(super) bought: HashSet<String>,
    /// Which claim each pod is planned for.
    pub(super) plans: PlanIndex,
    /// This process has asked the server which pods wait, since it leads.
    pub(super) proven: bool,
    /// NodeClaims that could not be created.
    pub(super) failed: FailedWrites,
    /// What NodePools are to remember of purchases that did not help.
    pub(super) to_remember: ToRemember,
}

impl Purchases {
    /// Of these pods those to list before claims are created for them: nodes were bought for them
    /// before. All, where the watch of pods has been silent, or another leader may have bought for
    /// them.
    pub(super) fn doubtful(&self, waiting: &[String], watch_is_recent: bool) -> Vec<String> {
        let unsure = !self.proven || !watch_is_recent;
        let again = |pod: &&String| unsure || self.bought.contains(*pod);
        waiting.iter().filter(again).cloned().collect()
    }
}

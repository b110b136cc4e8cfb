//! What launches leave for later steps of this process. Without it, all goes on from the cluster.

use std::sync::Arc;

use longshore_api::crd::NodeClaim;
use tokio::time::Instant;

use super::boot_turns::FirstBoots;
use super::launch_backoff::LaunchBackoff;
use super::launch_groups::members::LaunchGroups;
use super::launches::Launches;
use super::outcomes::Outcomes;
use super::refusals::Refusals;
use super::registration_health::RegistrationHealth;
use super::useless_purchase_writes::registrations::Registrations;
use crate::observe::unavailable_offerings::UnavailableOfferings;

#[derive(Default)]
pub struct LaunchMemory {
    pub health: RegistrationHealth,
    /// How launches went, for canaries of policies.
    pub outcomes: Outcomes,
    /// Whose nodes boot with the next version of a policy.
    pub first_boots: FirstBoots,
    /// Nodes that have joined or not, for their NodePools to remember.
    pub registrations: Registrations,
    /// Offerings that are unavailable now.
    pub unavailable: Arc<UnavailableOfferings>,
    /// Launches that wait, for the cloud has refused them.
    pub backoff: LaunchBackoff,
    /// What others refuse again and again.
    pub refusals: Refusals,
    /// Launches that may have made an instance that no claim names yet.
    pub launches: Launches,
    /// NodeClaims that are launched together.
    pub groups: LaunchGroups,
}

impl LaunchMemory {
    /// Whether no launch of a NodeClaim can have made an instance, in the term that began `since`.
    pub fn is_unlaunched(&self, claim: &NodeClaim, since: Instant) -> bool {
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        self.launches.is_none_made(uid, since)
    }

    /// The launch of a NodeClaim has failed: canaries of policies count it.
    pub fn failed(&self, claim: &NodeClaim, since: Instant) {
        self.outcomes.note(claim, false);
        if self.is_unlaunched(claim, since) {
            self.first_boots.not_launched(claim);
        }
    }
}

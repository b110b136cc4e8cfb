//! What a NodeClaim says of itself: its NodePool, its instance, its conditions, and when its pods
//! must go. Nothing here asks or writes anything.

use longshore_core::model::conditions::{INITIALIZED, LAUNCHED, REGISTERED};
use std::time::Duration;

use longshore_api::crd::{ConditionStatus, NodeClaim, NodeClaimStatus, Timestamp, condition};
use longshore_api::labels;

/// When a claim's pods go whatever they say.
pub const TERMINATION_TIME: &str = "karpenter.sh/nodeclaim-termination-timestamp";

/// When a NodeClaim's pods go whatever they say; nothing if they may stay as long as they want.
pub fn termination_time(claim: &NodeClaim) -> Option<Timestamp> {
    let annotations = claim.metadata.annotations.as_ref()?;
    annotations.get(TERMINATION_TIME)?.parse().ok()
}

/// How long a node may take to join before its NodeClaim is given up.
pub const REGISTRATION_LIMIT: Duration = Duration::from_secs(15 * 60);

/// How long a node that has joined may take to be ready for pods before its NodeClaim is given up,
/// unless pods run on it.
pub const NEVER_READY_LIMIT: Duration = Duration::from_secs(60 * 60);

/// Whether a NodeClaim that goes had its time to join and to become ready, and has not. Asked of what
/// the API server stores: the answer to the deletion may be lost, and the process that asked for it
/// may be gone.
pub fn has_failed_to_join(claim: &NodeClaim) -> bool {
    let (Some(status), Some(deleted)) = (&claim.status, &claim.metadata.deletion_timestamp) else {
        return false;
    };
    let registered =
        condition(&status.conditions, REGISTERED).filter(|_| is_true(status, LAUNCHED));
    registered.is_some_and(|own| {
        let waited = deleted.0.as_second() - own.last_transition_time.0.as_second();
        let waited = Duration::from_secs(waited.max(0) as u64);
        match own.status {
            ConditionStatus::True => !is_true(status, INITIALIZED) && waited >= NEVER_READY_LIMIT,
            _ => waited >= REGISTRATION_LIMIT,
        }
    })
}

/// A time as Kubernetes writes it, to the second.
pub fn rfc3339(at: longshore_api::crd::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Whether a condition is True.
pub fn is_true(status: &NodeClaimStatus, what: &str) -> bool {
    condition(&status.conditions, what).is_some_and(|c| c.status == ConditionStatus::True)
}

/// The provider ID of a claim, empty before it was launched.
pub fn provider_id(claim: &NodeClaim) -> &str {
    let status = claim.status.as_ref();
    status.map_or("", |status| status.provider_id.as_str())
}

/// The NodePool of a claim, empty for none.
pub fn pool_of(claim: &NodeClaim) -> &str {
    claim
        .metadata
        .labels
        .as_ref()
        .and_then(|l| l.get(labels::NODEPOOL))
        .map_or("", String::as_str)
}

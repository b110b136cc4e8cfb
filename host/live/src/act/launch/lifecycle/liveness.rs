//! How long a NodeClaim may take for each of its steps, and how long it may live.

use std::time::Duration;

use longshore_api::crd::{NodeClaim, NodeClaimStatus, Timestamp, condition, duration};

use crate::observe::node_claim::{NEVER_READY_LIMIT, REGISTRATION_LIMIT, is_true};
use crate::process::mutants::mutant;
use longshore_core::model::conditions::{INITIALIZED, LAUNCHED, REGISTERED};

pub(super) const LAUNCH_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Why a claim is given up whose node never joined.
pub(super) const REGISTRATION_TIMEOUT: &str = "registration_timeout";

/// How often it is looked at whether pods still run on such a node.
const LATE_NODE_POLL: Duration = Duration::from_secs(5 * 60);

/// Why a claim has had its time, if so.
pub(super) fn liveness_expired(
    now: Timestamp,
    claim: &NodeClaim,
    status: &NodeClaimStatus,
) -> Option<&'static str> {
    if !is_true(status, LAUNCHED) && time_in(now, claim, status, LAUNCHED) >= LAUNCH_LIMIT {
        return Some("launch_timeout");
    }
    if mutant("waits-for-ever") {
        return None;
    }
    if !is_true(status, REGISTERED) && time_in(now, claim, status, REGISTERED) >= REGISTRATION_LIMIT
    {
        return Some(REGISTRATION_TIMEOUT);
    }
    None
}

pub(super) fn time_in(
    now: Timestamp,
    claim: &NodeClaim,
    status: &NodeClaimStatus,
    what: &str,
) -> Duration {
    let since = condition(&status.conditions, what).map(|c| c.last_transition_time.0);
    let since = since
        .or(claim.metadata.creation_timestamp.as_ref().map(|t| t.0))
        .unwrap_or(now);
    seconds(now.as_second() - since.as_second())
}

pub(super) fn liveness_in(now: Timestamp, claim: &NodeClaim) -> Option<Duration> {
    let status = claim.status.as_ref()?;
    let (what, limit) = if !is_true(status, LAUNCHED) {
        (LAUNCHED, LAUNCH_LIMIT)
    } else if !is_true(status, REGISTERED) {
        (REGISTERED, REGISTRATION_LIMIT)
    } else if !is_true(status, INITIALIZED) {
        let left = NEVER_READY_LIMIT.saturating_sub(time_in(now, claim, status, REGISTERED));
        return Some(match left {
            Duration::ZERO => LATE_NODE_POLL,
            left => left + Duration::from_secs(1),
        });
    } else {
        return None;
    };
    Some(limit.saturating_sub(time_in(now, claim, status, what)) + Duration::from_secs(1))
}

/// How long a claim may still live; nothing if for ever.
pub(super) fn expires_in(now: Timestamp, claim: &NodeClaim) -> Option<Duration> {
    let after = duration::lifetime(&claim.spec.expire_after).ok()?.after()?;
    let created = claim.metadata.creation_timestamp.as_ref()?.0.as_second();
    Some(seconds(
        created.saturating_add(after.as_secs() as i64) - now.as_second(),
    ))
}

pub(super) fn seconds(n: i64) -> Duration {
    Duration::from_secs(n.max(0) as u64)
}

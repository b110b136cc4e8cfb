//! Pods whose node is on its way: on which NodeClaims, and what those wait for.

use std::collections::{BTreeMap, BTreeSet};

use longshore_api::crd::{NodeClaim, NodeClaimStatus, Timestamp, condition};

use crate::observe::node_claim::{is_true, pool_of, rfc3339};
use crate::observe::planned_pods::planned_pods;
use crate::observe::state::ClusterState;
use crate::status::parts;
use longshore_core::model::conditions::{INITIALIZED, LAUNCHED, REGISTERED};

const MAX_LINES: usize = 20;
/// Most names in one line.
const MAX_NAMES_PER_LINE: usize = 3;

/// NodeClaims of a NodePool that wait for the same thing.
#[derive(Default)]
struct Coming<'c> {
    claims: Vec<&'c str>,
    pods: usize,
    since: Option<Timestamp>,
}

/// A line for each NodePool and thing that is waited for, and the pods that wait so, `namespace/name`.
pub fn coming(state: &ClusterState) -> (Vec<parts::Coming>, BTreeSet<&str>) {
    let mut all: BTreeMap<(&str, String), Coming<'_>> = BTreeMap::new();
    let mut pods = BTreeSet::new();
    for (name, claim) in &state.claims {
        if claim.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let planned = planned_pods(claim).map(|planned| planned.pod);
        let waiting: Vec<&str> = planned.filter(|pod| state.pods.waits(pod)).collect();
        if waiting.is_empty() {
            continue;
        }
        let coming = all.entry((pool_of(claim), stage(claim))).or_default();
        coming.claims.push(name);
        coming.pods += waiting.len();
        let made = claim.metadata.creation_timestamp.as_ref().map(|at| at.0);
        coming.since = coming.since.into_iter().chain(made).min();
        pods.extend(waiting);
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by_key(|(_, coming)| std::cmp::Reverse(coming.pods));
    let line = |((pool, waits_for), coming): ((&str, String), Coming<'_>)| {
        let some = coming.claims.iter().take(MAX_NAMES_PER_LINE);
        parts::Coming {
            node_pool: pool.to_owned(),
            waits_for,
            node_claims: coming.claims.len(),
            pods: coming.pods,
            since: coming.since.map(rfc3339),
            some: some.map(|name| (*name).to_owned()).collect(),
        }
    };
    (all.into_iter().take(MAX_LINES).map(line).collect(), pods)
}

/// What a NodeClaim with pods that wait has reached, and why it is no further.
fn stage(claim: &NodeClaim) -> String {
    let none = NodeClaimStatus::default();
    let status = claim.status.as_ref().unwrap_or(&none);
    let why = |kind: &str| {
        let known = condition(&status.conditions, kind);
        let message = known.map_or("", |known| known.message.as_str());
        match message.is_empty() {
            true => String::new(),
            false => format!(": {message}"),
        }
    };
    match () {
        () if !is_true(status, LAUNCHED) => format!("not launched{}", why(LAUNCHED)),
        () if !is_true(status, REGISTERED) => {
            format!("launched, not registered{}", why(REGISTERED))
        }
        () if !is_true(status, INITIALIZED) => {
            format!("registered, not initialized{}", why(INITIALIZED))
        }
        () => "the node is ready, kube-scheduler has not bound them yet".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stage_of(conditions: Value) -> String {
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "a"},
            "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []},
            "status": {"conditions": conditions},
        });
        stage(&serde_json::from_value(claim).unwrap())
    }

    #[test]
    fn a_claim_says_what_it_waits_for() {
        let of = |kind: &str, status: &str, message: &str| {
            json!({
                "type": kind, "status": status, "reason": "R", "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let launched = of("Launched", "True", "");
        let unauthorized = of("Launched", "Unknown", "unauthorized: ec2:CreateFleet");
        assert_eq!(stage_of(json!([])), "not launched");
        assert_eq!(
            stage_of(json!([unauthorized])),
            "not launched: unauthorized: ec2:CreateFleet"
        );
        let absent = of("Registered", "Unknown", "its node has not joined yet");
        assert_eq!(
            stage_of(json!([launched, absent])),
            "launched, not registered: its node has not joined yet"
        );
        let registered = of("Registered", "True", "");
        let startup = of("Initialized", "Unknown", "startup taint a/b is there");
        assert_eq!(
            stage_of(json!([launched, registered, startup])),
            "registered, not initialized: startup taint a/b is there"
        );
    }
}

//! Nodes whose end takes long: since when, and what it waits for.

use std::time::Duration;

use longshore_api::crd::{ConditionStatus, NodeClaim, condition};

use crate::act::context::Context;
use crate::observe::node_claim::{pool_of, rfc3339};
use crate::observe::state::ClusterState;
use crate::status::parts::{Draining, DrainingNode};
use longshore_core::model::conditions::{DRAINED, VOLUMES_DETACHED};

/// A drain is said after so long: pods take a while to end.
const USUAL_DRAIN: Duration = Duration::from_secs(300);
const MAX_LINES: usize = 10;
/// Most pods that are named in one line.
const MAX_NAMES_PER_LINE: usize = 2;

/// Nodes that have been draining for long, those that began first before the others, and how many
/// there are.
pub fn draining(state: &ClusterState, ctx: &Context) -> Option<Draining> {
    let now = ctx.now();
    let mut all: Vec<_> = state
        .claims
        .values()
        .filter_map(|claim| {
            let since = claim.metadata.deletion_timestamp.as_ref()?.0;
            (since + USUAL_DRAIN <= now).then_some((since, &**claim))
        })
        .collect();
    if all.is_empty() {
        return None;
    }
    let count = all.len();
    all.sort_by_key(|(since, claim)| (*since, claim.metadata.name.as_deref()));
    let lines = all.into_iter().take(MAX_LINES).map(|(since, claim)| {
        let node = claim
            .status
            .as_ref()
            .map_or("", |status| status.node_name.as_str());
        let refusing = ctx.memory.end.drains.refusing(node, now);
        let some = refusing.iter().take(MAX_NAMES_PER_LINE);
        let some: Vec<String> = some.map(|(pod, why)| format!("{pod}: {why}")).collect();
        DrainingNode {
            node_claim: claim.metadata.name.clone(),
            node: node.to_owned(),
            node_pool: pool_of(claim).to_owned(),
            since: rfc3339(since),
            waits_for: waits_for(claim),
            refusing: refusing.len(),
            some,
        }
    });
    Some(Draining {
        nodes: count,
        lines: lines.collect(),
    })
}

/// The step that its end has reached, as its conditions say.
fn waits_for(claim: &NodeClaim) -> String {
    let conditions = claim.status.as_ref().map(|status| &status.conditions);
    let conditions = conditions.map_or(&[][..], Vec::as_slice);
    let open = |kind: &str| {
        let known = condition(conditions, kind)?;
        (known.status != ConditionStatus::True).then_some(known.message.as_str())
    };
    match (open(DRAINED), open(VOLUMES_DETACHED)) {
        (Some(left), _) if !left.is_empty() => left.to_owned(),
        (Some(_), _) => "its pods leave".to_owned(),
        (None, Some(volumes)) => format!("its volumes are detached: {volumes}"),
        (None, None) => "the end of its instance".to_owned(),
    }
}

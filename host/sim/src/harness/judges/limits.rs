//! NodePools stay within their limits, counting written claims and purchases.

use longshore_core::model::{Resources, Symbols};
use serde_json::Value;

use super::disruption;
use crate::harness::interceptor::Interceptor;
use longshore_simcluster::actors::scheduler::amounts;
use longshore_simcluster::fields;
use longshore_simcluster::object::{Change, Event};
use longshore_simcluster::server::{RequestInfo, resources};

const POOL: &str = "karpenter.sh/nodepool";

/// A claim was made or changed by a process of the daemon: claims that stay, together, are within
/// the limits. Terminating claims do not count, as in Karpenter, and neither do claims with a
/// terminating Node.
pub(super) fn hold(interceptor: &Interceptor, change: &Change, by: Option<&RequestInfo>) {
    let claim = &*change.object;
    let grows =
        change.event == Event::Added || by.is_some_and(|asked| asked.subresource == "status");
    let stays = !fields::deleting(claim) && !disruption::replaced_in_place(claim);
    let Some(name) = fields::label(claim, POOL).filter(|_| by.is_some() && grows && stays) else {
        return;
    };
    let Some(pool) = interceptor
        .server
        .get(&fields::key(resources::NODE_POOL, "", name))
    else {
        return;
    };
    let Some(limits) = pool
        .pointer("/spec/limits")
        .and_then(Value::as_object)
        .filter(|limits| !limits.is_empty())
    else {
        return;
    };
    let nodes = interceptor.server.list(resources::NODE);
    let going: Vec<&str> = nodes
        .iter()
        .filter(|node| fields::deleting(node))
        .map(|node| fields::text(node, "/spec/providerID"))
        .collect();
    // What replaces a drifted or unhealthy node counts in its place.
    let goes = |claim: &Value| {
        fields::deleting(claim)
            || disruption::replaced_in_place(claim)
            || going.contains(&fields::text(claim, "/status/providerID"))
    };
    let claims = interceptor.server.list(resources::NODE_CLAIM);
    let own = claims
        .iter()
        .filter(|claim| fields::label(claim, POOL) == Some(name) && !goes(claim));
    let mut names = Symbols::default();
    let (mut count, mut bought) = (0, Resources::default());
    for claim in own {
        count += 1;
        bought.add(&amounts(
            claim.pointer("/status/capacity").unwrap_or(&Value::Null),
            &mut names,
        ));
    }
    let nodes = limits
        .get("nodes")
        .and_then(|n| n.as_i64().or_else(|| n.as_str()?.parse().ok()));
    if nodes.is_some_and(|limit| count > limit) {
        interceptor.violated(format!(
            "NodePool {name} has {count} claims with {}, over its limit",
            fields::name(claim)
        ));
    }
    let limits = amounts(
        pool.pointer("/spec/limits").unwrap_or(&Value::Null),
        &mut names,
    );
    for (resource, limit) in limits
        .iter()
        .filter(|(resource, _)| resource.name(&names) != "nodes")
    {
        let has = bought.get(resource);
        if has > limit {
            let what = resource.name(&names);
            let last = fields::name(claim);
            interceptor.violated(format!(
                "NodePool {name} has {has} of {what} with {last}, over its limit of {limit}"
            ));
        }
    }
}

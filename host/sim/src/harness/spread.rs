//! Whether kube-scheduler may still bind a spread pod where it is planned, given where other pods
//! of its group are.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::interceptor::Interceptor;
use longshore_simcluster::fields;
use longshore_simcluster::server::resources;

/// Whether a spread pod is one too many in the domain of a claim's node, once all expected pods
/// have arrived: those with a nomination, and those `planned` for a claim whose node has not
/// registered. Any other may go here too: kube-scheduler chooses among the nodes that are there.
pub(super) fn one_too_many(
    interceptor: &Interceptor,
    pod: &Value,
    claim: &Value,
    planned: &BTreeMap<String, Vec<String>>,
) -> bool {
    let nodes = interceptor.server.list(resources::NODE);
    let called = |name: &str| nodes.iter().find(|node| fields::name(node) == name);
    let node_of = |claim: &Value| {
        interceptor
            .cloud
            .runs_for(fields::uid(claim))
            .and_then(|name| called(&name))
    };
    let Some(own) = node_of(claim) else {
        return false;
    };
    let pods = interceptor.server.list(resources::POD);
    let rules = fields::items(pod, "/spec/topologySpreadConstraints");
    rules
        .iter()
        .filter(|rule| rule["whenUnsatisfiable"] == "DoNotSchedule")
        .any(|rule| {
            let domain = |node: &Arc<Value>| {
                fields::label(node, rule["topologyKey"].as_str()?).map(str::to_owned)
            };
            let Some(here) = domain(own) else {
                return false;
            };
            let mut counts: BTreeMap<String, i64> = nodes
                .iter()
                .filter_map(domain)
                .map(|domain| (domain, 0))
                .collect();
            let mut anywhere = 0;
            for other in pods
                .iter()
                .filter(|other| is_counted(pod, other, &rule["labelSelector"]["matchLabels"]))
            {
                let [on, nominated] = ["/spec/nodeName", "/status/nominatedNodeName"]
                    .map(|path| fields::text(other, path));
                let full = format!(
                    "{}/{}",
                    fields::text(other, "/metadata/namespace"),
                    fields::name(other)
                );
                let newest = || {
                    let claims = planned.iter().filter(|(_, pods)| pods.contains(&full));
                    claims
                        .filter_map(|(claim, _)| {
                            let key = fields::key(resources::NODE_CLAIM, "", claim);
                            interceptor.server.get(&key)
                        })
                        .max_by_key(|claim| fields::time(claim, "/metadata/creationTimestamp"))
                        .filter(|claim| fields::condition(claim, "Registered") != "True")
                };
                let node = match [on, nominated].into_iter().find(|name| !name.is_empty()) {
                    // Wherever it is nominated to now: what is asked is what if it came here.
                    _ if fields::uid(other) == fields::uid(pod) => Some(own),
                    Some(name) => called(name),
                    None => newest().and_then(|claim| node_of(&claim)),
                };
                match node
                    .and_then(domain)
                    .and_then(|domain| counts.get_mut(&domain))
                {
                    Some(count) => *count += 1,
                    None => anywhere += 1,
                }
            }
            let least = counts.values().copied().min().unwrap_or(0);
            counts[&here] + anywhere - least > rule["maxSkew"].as_i64().unwrap_or(1)
        })
}

/// Whether a constraint of a pod counts another one.
fn is_counted(pod: &Value, other: &Value, labels: &Value) -> bool {
    let same =
        fields::text(pod, "/metadata/namespace") == fields::text(other, "/metadata/namespace");
    let mut labels = labels.as_object().into_iter().flatten();
    let selected = labels.all(|(key, value)| fields::label(other, key) == value.as_str());
    same && selected && !fields::ended(other) && !fields::deleting(other)
}

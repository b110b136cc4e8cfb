//! Nodes are disrupted within the budgets of their NodePools, and go only once what replaces them is
//! there.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::Value;

use super::{nodes, proof};
use crate::fields;
use crate::harness::interceptor::Interceptor;
use crate::object::{Change, Event};
use crate::server::{RequestInfo, resources};

/// Annotations of commands, as the daemon writes them down.
const COMMAND: &str = "longshore.dev/disruption";
const DETAILS: &str = "longshore.dev/disruption-command";
const REPLACES: &str = "longshore.dev/replaces";
const POOL: &str = "karpenter.sh/nodepool";
const INITIALIZED: &str = "karpenter.sh/initialized";
const HOLDS: &str = "karpenter.sh/do-not-disrupt";
/// How long a watch may be silent before nothing is decided; see `purchases`.
const SILENT: Duration = Duration::from_secs(95);

/// Nodes that went a moment ago: the daemon may still count them.
#[derive(Default)]
pub(super) struct Disruption {
    gone: BTreeMap<String, VecDeque<Duration>>,
}

impl Disruption {
    /// A Node came, changed or went.
    pub fn node(&mut self, interceptor: &Interceptor, change: &Change) {
        let initialized = fields::label(&change.object, INITIALIZED) == Some("true");
        if change.event == Event::Deleted && initialized {
            let pool = fields::label(&change.object, POOL).unwrap_or_default();
            let gone = self.gone.entry(pool.to_owned()).or_default();
            gone.push_back(interceptor.clock.elapsed());
        }
    }

    fn gone(&mut self, interceptor: &Interceptor, pool: &str) -> usize {
        let Some(gone) = self.gone.get_mut(pool) else {
            return 0;
        };
        let now = interceptor.clock.elapsed();
        while gone.front().is_some_and(|at| *at + SILENT < now) {
            gone.pop_front();
        }
        gone.len()
    }

    /// A process is about to write.
    pub fn write(&mut self, interceptor: &Interceptor, asked: &RequestInfo, body: &Value) {
        if asked.resource != Some(resources::NODE_CLAIM) || !asked.subresource.is_empty() {
            return;
        }
        let key = fields::key(resources::NODE_CLAIM, "", &asked.name);
        let claim = interceptor.server.get(&key);
        match (asked.verb, claim) {
            ("patch", Some(claim)) => {
                let command = &body["metadata"]["annotations"][COMMAND];
                if command.is_string() && fields::annotation(&claim, COMMAND).is_none() {
                    let details = details(body);
                    self.marked(interceptor, &claim, &details["reason"]);
                }
            }
            ("create", _) if body["metadata"]["annotations"][REPLACES].is_string() => {
                let id = body["metadata"]["annotations"][REPLACES].as_str();
                let claims = interceptor.server.list(resources::NODE_CLAIM);
                if !claims
                    .iter()
                    .any(|of| fields::annotation(of, COMMAND) == id)
                {
                    let name = fields::name(body);
                    interceptor.violated(format!("{name} replaces nothing"));
                }
            }
            _ => {}
        }
    }

    /// A claim becomes a candidate that goes.
    fn marked(&mut self, interceptor: &Interceptor, claim: &Value, reason: &Value) {
        let (name, pool) = (
            fields::name(claim),
            fields::label(claim, POOL).unwrap_or_default(),
        );
        let claims = interceptor.server.list(resources::NODE_CLAIM);
        let nodes = interceptor.server.list(resources::NODE);
        // A claim whose Node is gone is waited for, and disturbs no pod any more. A Node that was
        // never initialized is no part of what budgets are about, and repair may take it.
        let counts_itself = |of: &Value| {
            let id = fields::text(of, "/status/providerID");
            nodes.iter().any(|node| {
                fields::text(node, "/spec/providerID") == id
                    && fields::label(node, INITIALIZED) == Some("true")
            })
        };
        let ours = |of: &&std::sync::Arc<Value>| {
            let going = fields::annotation(of, COMMAND).is_some() && counts_itself(of);
            going && fields::label(of, POOL) == Some(pool)
        };
        let is_counted = counts_itself(claim);
        let going = claims.iter().filter(ours).count() + usize::from(is_counted);
        let counts = |node: &&std::sync::Arc<Value>| {
            let initialized = fields::label(node, INITIALIZED) == Some("true");
            initialized && fields::label(node, POOL) == Some(pool)
        };
        let base = nodes.iter().filter(counts).count() + self.gone(interceptor, pool);
        let key = fields::key(resources::NODE_POOL, "", pool);
        if let Some(pool) = interceptor.server.get(&key) {
            let budgets = fields::items(&pool, "/spec/disruption/budgets");
            let limits = budgets.iter().map(|budget| most(budget, base));
            if let Some(most) = limits.min().filter(|most| is_counted && going > *most) {
                interceptor.violated(format!(
                    "{name} is disrupted as number {going} of its NodePool, and {most} may be"
                ));
            }
        }
        let node = proof::node_of(interceptor, fields::text(claim, "/status/providerID"));
        if reason == "Unhealthy" {
            // The policies of the cloud bound the drain, so that no pod holds a node that it names.
            if !node.is_some_and(|node| is_unhealthy(&node)) {
                interceptor.violated(format!("{name} is repaired, and its node is well"));
            }
            return;
        }
        let pods = node.map(|node| interceptor.server.pods_on(fields::name(&node)));
        for pod in pods.into_iter().flatten() {
            let held = fields::annotation(&pod, HOLDS) == Some("true");
            let since = fields::time(&pod, "/status/startTime").map(|at| at.as_second());
            let known = since.is_some_and(|since| {
                interceptor.clock.now().as_second() - since > SILENT.as_secs() as i64
            });
            if held && known && !fields::ended(&pod) && !fields::deleting(&pod) {
                let pod = fields::name(&pod);
                interceptor.violated(format!("{name} is disrupted, and pod {pod} must not be"));
            }
        }
    }
}

/// What an object says of its command.
fn details(object: &Value) -> Value {
    let details = object["metadata"]["annotations"][DETAILS].as_str();
    serde_json::from_str(details.unwrap_or_default()).unwrap_or_default()
}

/// Whether the policies of the cloud have a node repaired, whatever for how long.
fn is_unhealthy(node: &Value) -> bool {
    fields::condition(node, "Ready") != "True"
        || fields::condition(node, "RebootRequired") == "True"
}

/// How many of so many nodes a budget lets go.
fn most(budget: &Value, nodes: usize) -> usize {
    let text = budget["nodes"].as_str().unwrap_or_default();
    match text.strip_suffix('%') {
        Some(share) => (nodes * share.parse::<usize>().unwrap_or(0)).div_ceil(100),
        None => text.parse().unwrap_or(0),
    }
}

/// A candidate is deleted for no other reason: what replaces it is there, and no pod goes to its node any more.
pub(super) fn deleted(interceptor: &Interceptor, claim: &Value) {
    let name = fields::name(claim);
    let details = details(claim);
    let replacements = details["replacements"].as_array();
    for replacement in replacements.into_iter().flatten().filter_map(Value::as_str) {
        let key = fields::key(resources::NODE_CLAIM, "", replacement);
        let there = interceptor.server.get(&key).is_some_and(|claim| {
            !fields::deleting(&claim) && fields::condition(&claim, "Initialized") == "True"
        });
        if !there {
            interceptor.violated(format!(
                "{name} is deleted before its replacement {replacement} is initialized"
            ));
        }
    }
    let id = fields::text(claim, "/status/providerID");
    for node in interceptor.server.list(resources::NODE) {
        let mine = fields::text(&node, "/spec/providerID") == id;
        if mine && !nodes::has_taint(&node, nodes::DISRUPTED) {
            interceptor.violated(format!("{name} is deleted while its node is open to pods"));
        }
    }
}

/// Whether a claim is in a command that has not come to its end.
pub(in crate::harness) fn under_way(claim: &Value) -> bool {
    fields::annotation(claim, COMMAND).is_some()
}

/// Whether a claim is replaced because it has drifted or its node is unhealthy: then what replaces it
/// counts in its place.
pub(super) fn replaced_in_place(claim: &Value) -> bool {
    let reason = &details(claim)["reason"];
    reason == "Drifted" || reason == "Unhealthy"
}

/// Whether a claim was bought by a command.
pub(super) fn replaces(claim: &Value) -> bool {
    fields::annotation(claim, REPLACES).is_some()
}

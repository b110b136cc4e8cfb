//! What a daemon must never do, looked at when it does it.
//!
//! The referee reads the server as it is and trusts nothing that the daemon says. What a daemon cannot have seen yet is
//! not held against it: pods that came in the last seconds, and double planning while watches are disturbed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use longshore_cloud::Launch;
use serde_json::Value;

use super::desk::Desk;
use crate::actors::fields;
use crate::object::Key;
use crate::server::{Asked, resources};

/// A pod that started less than this before may not be known yet (a stale list is up to six seconds old).
const FRESH: i64 = 10;
/// After this long a pod that goes is not waited for, beyond its grace period.
const STUCK: i64 = 55;
const TERMINATION_TIME: &str = "karpenter.sh/nodeclaim-termination-timestamp";
const DISRUPTED: &str = "karpenter.sh/disrupted";

/// A write to the API server, about to be answered.
pub(super) fn write(desk: &Desk, asked: &Asked) {
    let Some(resource) = asked.resource else { return };
    if resource != resources::LEASE && resource != resources::EVENT {
        leads(desk, &asked.who, &format!("{} {} {}", asked.verb, resource.plural, asked.name));
    }
    if resource != resources::POD {
        return;
    }
    let key = fields::key(resource, &asked.namespace, &asked.name);
    match (asked.verb, asked.subresource.as_str()) {
        ("delete", _) => deletes_pod(desk, &key),
        ("create", "eviction") => evicts(desk, &key),
        _ => {}
    }
}

/// A launch is asked for.
pub(super) fn launch(desk: &Desk, who: &str, launch: &Launch) {
    leads(desk, who, &format!("launch {}", launch.name));
    let claim = desk.server.get(&fields::key(resources::NODE_CLAIM, "", &launch.name));
    match claim {
        Some(claim) if fields::uid(&claim) == launch.uid => {}
        Some(_) => desk.violated(format!("{}: launched with a token that is not its claim's", launch.name)),
        // An old list may show a claim that is gone.
        None if launch.name.is_empty() || desk.sees() => {
            desk.violated(format!("launch without a claim on the server ({})", launch.uid));
        }
        None => {}
    }
}

/// An instance is ended: whoever is on it must have left.
pub(super) fn end(desk: &Desk, who: &str, provider_id: &str) {
    leads(desk, who, &format!("end {provider_id}"));
    let Some(node) = node_of(desk, provider_id) else { return };
    let claim = claim_of(desk, provider_id);
    let over = claim.as_deref().is_none_or(|claim| terminates(claim).is_some_and(|at| at <= now(desk)));
    if over || fields::condition(&node, "Ready") != "True" {
        return;
    }
    let left = pods_on(desk, fields::name(&node)).find(|pod| !fields::deleting(pod) && counts(desk, pod));
    if let Some(pod) = left {
        desk.violated(format!("{provider_id} is ended while {} runs on it", fields::name(&pod)));
    }
}

/// What became of the rounds of a process, as it counts them itself.
pub(super) struct Rounds<F> {
    count: F,
    /// Rejected and replaced, when they were looked at last.
    seen: Mutex<(u64, u64)>,
}

impl<F: Fn(&str) -> u64> Rounds<F> {
    pub fn new(count: F) -> Self {
        Rounds { count, seen: Mutex::default() }
    }

    /// Looks whether plans have broken rules since it was looked at last.
    pub fn look(&self, desk: &Desk, who: &str) {
        let now = ((self.count)("rejected"), (self.count)("replaced"));
        let before = std::mem::replace(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner), now);
        if before != now {
            desk.violated(format!("{who}: plans that break a rule: {} rejected, {} replaced", now.0, now.1));
        }
    }

    /// Looks now and then, for ever.
    pub async fn watch(&self, desk: &Desk, who: &str) {
        loop {
            tokio::time::sleep(Duration::from_secs(60)).await;
            self.look(desk, who);
        }
    }
}

fn leads(desk: &Desk, who: &str, what: &str) {
    if !desk.elects {
        return;
    }
    let holder = holder(desk);
    if holder != who {
        desk.violated(format!("{who} does not lead ({holder:?} does) and does: {what}"));
    }
}

/// Who holds the Lease, empty for nobody.
pub(super) fn holder(desk: &Desk) -> String {
    let lease = desk.server.get(&fields::key(resources::LEASE, "kube-system", "karpenter-leader-election"));
    lease.as_deref().map_or("", |lease| fields::text(lease, "/spec/holderIdentity")).to_owned()
}

/// Only pods whose node's time is over are deleted; all others are asked to leave.
fn deletes_pod(desk: &Desk, key: &Key) {
    let Some(pod) = desk.server.get(key) else { return };
    let node = desk.server.get(&fields::key(resources::NODE, "", fields::text(&pod, "/spec/nodeName")));
    let claim = node.as_deref().and_then(|node| claim_of(desk, fields::text(node, "/spec/providerID")));
    let grace = fields::number(&pod, "/spec/terminationGracePeriodSeconds").unwrap_or(30);
    let ends = claim.as_deref().and_then(terminates);
    if ends.is_none_or(|ends| now(desk) + grace < ends) {
        desk.violated(format!("pod {} is deleted without asking its disruption budget", key.name));
    }
}

/// Who leaves first: others before daemons, and those before critical pods.
fn evicts(desk: &Desk, key: &Key) {
    let Some(pod) = desk.server.get(key) else { return };
    let tier = tier(&pod);
    let earlier = pods_on(desk, fields::text(&pod, "/spec/nodeName"))
        .find(|other| self::tier(other) < tier && counts(desk, other) && !stuck(desk, other));
    if let Some(earlier) = earlier {
        let name = fields::name(&earlier);
        desk.violated(format!("pod {} is evicted before {name}, whose turn it is", key.name));
    }
}

fn tier(pod: &Value) -> u8 {
    let class = fields::text(pod, "/spec/priorityClassName");
    let critical = matches!(class, "system-cluster-critical" | "system-node-critical");
    u8::from(critical) * 2 + u8::from(is_daemon(pod))
}

fn is_daemon(pod: &Value) -> bool {
    fields::items(pod, "/metadata/ownerReferences").iter().any(|owner| owner["kind"] == "DaemonSet")
}

/// Whether a drain has to wait for a pod, and can have known of it.
fn counts(desk: &Desk, pod: &Value) -> bool {
    let tolerates = fields::items(pod, "/spec/tolerations").iter().any(|t| {
        let (key, effect) = (fields::text(t, "/key"), fields::text(t, "/effect"));
        let matches = key == DISRUPTED || (key.is_empty() && t["operator"] == "Exists");
        matches && (effect.is_empty() || effect == "NoSchedule")
    });
    let known = fields::time(pod, "/status/startTime").is_some_and(|at| now(desk) - at.as_second() > FRESH);
    known && !tolerates && !fields::ended(pod)
}

fn stuck(desk: &Desk, pod: &Value) -> bool {
    fields::time(pod, "/metadata/deletionTimestamp").is_some_and(|at| now(desk) > at.as_second() + STUCK)
}

fn pods_on(desk: &Desk, node: &str) -> impl Iterator<Item = std::sync::Arc<Value>> + use<> {
    desk.server.pods_on(node).into_iter()
}

fn node_of(desk: &Desk, provider_id: &str) -> Option<std::sync::Arc<Value>> {
    let nodes = desk.server.list(resources::NODE);
    nodes.into_iter().find(|node| fields::text(node, "/spec/providerID") == provider_id)
}

fn claim_of(desk: &Desk, provider_id: &str) -> Option<std::sync::Arc<Value>> {
    let claims = desk.server.list(resources::NODE_CLAIM);
    claims.into_iter().find(|claim| fields::text(claim, "/status/providerID") == provider_id)
}

fn terminates(claim: &Value) -> Option<i64> {
    fields::annotation(claim, TERMINATION_TIME)?.parse::<k8s_openapi::jiff::Timestamp>().ok().map(|at| at.as_second())
}

fn now(desk: &Desk) -> i64 {
    desk.clock.now().as_second()
}

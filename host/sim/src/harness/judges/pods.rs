//! Evictions: no pod that must be left alone, each with its own grace period, in order.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::nodes::DISRUPTED;
use super::proof::Proof;
use crate::harness::interceptor::Interceptor;
use longshore_simcluster::faults::MAX_REQUEST_DELAY;
use longshore_simcluster::fields;
use longshore_simcluster::object::Key;
use longshore_simcluster::server::{RequestInfo, resources};

/// The sender of an eviction may not know a pod that was bound less than this time before its
/// arrival. Requests are in flight for [`MAX_REQUEST_DELAY`] at most, and a drain runs every
/// second, on watches that are as late as a request at most. Seconds.
const UNSEEN_POD_SECONDS: i64 = MAX_REQUEST_DELAY.as_secs() as i64 + 4;
/// After this long a pod that goes is not waited for, beyond its grace period: a minute, and clocks
/// in whole seconds.
const STUCK_POD_SECONDS: i64 = 59;
/// The termination time of a claim may move (a repair does not wait) while a deletion is in flight,
/// and until the watch has brought it to the sender.
const MAX_NEWS_DELAY: Duration = MAX_REQUEST_DELAY.saturating_mul(2);
const TERMINATION_TIME: &str = "karpenter.sh/nodeclaim-termination-timestamp";
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A write is about to be carried out.
pub(super) fn write(interceptor: &Interceptor, asked: &RequestInfo, body: &Value, proof: &Proof) {
    if asked.resource != Some(resources::POD) {
        return;
    }
    let key = fields::key(resources::POD, &asked.namespace, &asked.name);
    let Some(pod) = interceptor.server.get(&key) else {
        return;
    };
    match (asked.verb, asked.subresource.as_str()) {
        ("delete", _) if is_meant(&pod, body, "/preconditions/uid") => {
            deletes(
                interceptor,
                &key,
                &pod,
                fields::number(body, "/gracePeriodSeconds"),
                proof,
            );
        }
        ("create", "eviction") if is_meant(&pod, body, "/deleteOptions/preconditions/uid") => {
            evicts(
                interceptor,
                &key,
                &pod,
                fields::number(body, "/deleteOptions/gracePeriodSeconds"),
            );
        }
        _ => {}
    }
}

/// Whether a deletion by UID is of this pod; it is refused otherwise.
fn is_meant(pod: &Value, body: &Value, path: &str) -> bool {
    let wanted = fields::text(body, path);
    wanted.is_empty() || wanted == fields::uid(pod)
}

/// A pod is deleted only if its node's time ends before its own grace period would, and it gets all
/// of that time. All other pods are evicted.
fn deletes(interceptor: &Interceptor, key: &Key, pod: &Value, grace: Option<i64>, proof: &Proof) {
    let node = interceptor.server.get(&fields::key(
        resources::NODE,
        "",
        fields::text(pod, "/spec/nodeName"),
    ));
    let claim = node
        .as_deref()
        .and_then(|node| claim_of(interceptor, fields::text(node, "/spec/providerID")));
    let own = own_grace(pod);
    let name = &key.name;
    let Some(ends) = claim
        .as_deref()
        .and_then(terminates)
        .filter(|ends| now(interceptor) + own >= *ends)
    else {
        return interceptor.violated(format!(
            "pod {name} is deleted without asking its disruption budget"
        ));
    };
    // What was right when it was sent is as much too long as the request was under way, and as
    // clocks are whole.
    let late = MAX_REQUEST_DELAY.as_secs() as i64 + 1;
    let left = ends - now(interceptor);
    let (least, mut most) = (left.max(1), (left + late).clamp(1, own.max(1)));
    if claim.as_deref().is_some_and(|claim| {
        proof
            .moved(interceptor, claim)
            .is_some_and(|ago| ago <= MAX_NEWS_DELAY)
    }) {
        most = own.max(1);
    }
    let grace = grace.unwrap_or(own);
    if grace < least.min(own.max(1)) - 1 || grace > most {
        interceptor.violated(format!(
            "pod {name} is deleted with {grace} s of grace: its own are {own}, {least} s are left"
        ));
    }
}

/// No pod is evicted that must be left alone, out of turn, or with less time than it asks for.
fn evicts(interceptor: &Interceptor, key: &Key, pod: &Value, grace: Option<i64>) {
    let (name, own) = (&key.name, own_grace(pod));
    if is_held(interceptor, pod) && !fields::deleting(pod) {
        interceptor.violated(format!(
            "pod {name} is evicted in spite of {DO_NOT_DISRUPT}"
        ));
    }
    if grace.is_some_and(|grace| grace < own) {
        interceptor.violated(format!(
            "pod {name} is evicted with {grace:?} s of grace instead of its own {own}"
        ));
    }
    let tier = tier(pod);
    let known =
        |pod: &Value| bound(pod).is_some_and(|at| now(interceptor) - at > UNSEEN_POD_SECONDS);
    let earlier = on_node(interceptor, fields::text(pod, "/spec/nodeName"))
        .into_iter()
        .find(|other| self::tier(other) < tier && counts(interceptor, other) && known(other));
    if let Some(earlier) = earlier {
        interceptor.violated(format!(
            "pod {name} is evicted before {}, whose turn it is",
            fields::name(&earlier)
        ));
    }
}

fn tier(pod: &Value) -> u8 {
    let class = fields::text(pod, "/spec/priorityClassName");
    let critical = matches!(class, "system-cluster-critical" | "system-node-critical");
    u8::from(critical) * 2 + u8::from(owned_by(pod, "DaemonSet"))
}

fn owned_by(pod: &Value, kind: &str) -> bool {
    fields::items(pod, "/metadata/ownerReferences")
        .iter()
        .any(|owner| owner["kind"] == kind)
}

fn own_grace(pod: &Value) -> i64 {
    fields::number(pod, "/spec/terminationGracePeriodSeconds").unwrap_or(30)
}

/// Whether its owner wants it left alone now: for ever, or for a while after its start.
fn is_held(interceptor: &Interceptor, pod: &Value) -> bool {
    match fields::annotation(pod, DO_NOT_DISRUPT) {
        None | Some("false") => false,
        Some("true") => true,
        Some(text) => fields::duration(text).is_some_and(|held| {
            let started = fields::time(pod, "/status/startTime")
                .map_or(now(interceptor), |at| at.as_second());
            now(interceptor) < started + held.as_secs() as i64
        }),
    }
}

/// When it was put on its node.
fn bound(pod: &Value) -> Option<i64> {
    let scheduled = fields::items(pod, "/status/conditions")
        .iter()
        .find(|c| c["type"] == "PodScheduled")?;
    fields::time(scheduled, "/lastTransitionTime").map(|at| at.as_second())
}

/// Whether a drain has to wait for a pod.
pub(super) fn counts(interceptor: &Interceptor, pod: &Value) -> bool {
    let tolerates = fields::items(pod, "/spec/tolerations").iter().any(|t| {
        let (key, effect) = (fields::text(t, "/key"), fields::text(t, "/effect"));
        let matches = key == DISRUPTED || (key.is_empty() && t["operator"] == "Exists");
        matches && (effect.is_empty() || effect == "NoSchedule")
    });
    let is_static = fields::annotation(pod, MIRROR).is_some() || owned_by(pod, "Node");
    !tolerates && !is_static && !fields::ended(pod) && !is_stuck(interceptor, pod)
}

fn is_stuck(interceptor: &Interceptor, pod: &Value) -> bool {
    fields::time(pod, "/metadata/deletionTimestamp")
        .is_some_and(|at| now(interceptor) > at.as_second() + STUCK_POD_SECONDS)
}

/// Pods on a node.
pub(super) fn on_node(interceptor: &Interceptor, node: &str) -> Vec<Arc<Value>> {
    interceptor.server.pods_on(node)
}

fn claim_of(interceptor: &Interceptor, provider_id: &str) -> Option<Arc<Value>> {
    let claims = interceptor.server.list(resources::NODE_CLAIM);
    claims
        .into_iter()
        .find(|claim| fields::text(claim, "/status/providerID") == provider_id)
}

/// When a claim's time is over.
pub(super) fn terminates(claim: &Value) -> Option<i64> {
    fields::annotation(claim, TERMINATION_TIME)?
        .parse::<k8s_openapi::jiff::Timestamp>()
        .ok()
        .map(|at| at.as_second())
}

/// Seconds since 1970.
pub(super) fn now(interceptor: &Interceptor) -> i64 {
    interceptor.clock.now().as_second()
}

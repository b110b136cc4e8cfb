//! Nothing is released without proof: an instance ends empty and on the order of its claim, a claim
//! for one of a few reasons, and orphaned instances only slowly.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::disruption;
use super::nodes::{self, Nodes};
use super::pods;
use crate::harness::foreign;
use crate::harness::interceptor::Interceptor;
use longshore_simcluster::fields;
use longshore_simcluster::object::{Change, Event};
use longshore_simcluster::server::{RequestInfo, resources};

const REGISTERED: &str = "karpenter.sh/registered";
const POOL: &str = "karpenter.sh/nodepool";
/// Annotation of claims that are launched together.
const GROUP: &str = "longshore.dev/launch-group";
/// A node lives at least this long after the taint that keeps kube-scheduler away from it, for
/// kube-scheduler may not have seen it yet.
const MIN_TAINT_AGE: Duration = Duration::from_secs(5);
/// Shortest time without an owner before an instance counts as leaked: two passes see it, two
/// minutes apart, and each takes the time of a call.
const MIN_LEAK_AGE: Duration = Duration::from_secs(110);
/// Leaked instances are collected every two minutes; terminations within one interval belong to one
/// pass.
const PASS_TIME: Duration = Duration::from_secs(60);
/// Tolerance between the daemon's clock and the server's, in seconds: the server sends whole
/// seconds.
const MAX_CLOCK_SKEW_SECONDS: i64 = 3;
/// Nodes that have been unhealthy for less, seconds, may not be known to be: a request's time on
/// the way and a watch's.
const MAX_NEWS_SECONDS: i64 = 15;

/// What is remembered of what was given back.
#[derive(Default)]
pub(super) struct Proof {
    /// When claims went, by UID.
    gone: BTreeMap<String, Duration>,
    /// When claims of launch groups went, and the token.
    gone_members: Vec<(Duration, String)>,
    /// When the time of claims is over, and when that was written, by UID.
    ends: BTreeMap<String, (i64, Duration)>,
    /// Times at which leaked instances were terminated.
    swept: VecDeque<Duration>,
}

impl Proof {
    pub fn claim(&mut self, interceptor: &Interceptor, change: &Change) {
        let uid = fields::uid(&change.object);
        if change.event == Event::Deleted {
            self.gone
                .insert(uid.to_owned(), interceptor.clock.elapsed());
            self.ends.remove(uid);
            let group = fields::annotation(&change.object, GROUP);
            if let Some(token) = group.and_then(|text| text.split('/').next()) {
                let now = interceptor.clock.elapsed();
                self.gone_members.push((now, token.to_owned()));
            }
        } else if let Some(ends) = pods::terminates(&change.object)
            && self.ends.get(uid).is_none_or(|known| known.0 != ends)
        {
            self.ends
                .insert(uid.to_owned(), (ends, interceptor.clock.elapsed()));
        }
    }

    /// How long ago the end of a claim's time was moved last; nothing if it never was.
    pub fn moved(&self, interceptor: &Interceptor, claim: &Value) -> Option<Duration> {
        let moved = self.ends.get(fields::uid(claim)).map(|known| known.1);
        moved.map(|at| interceptor.clock.elapsed() - at)
    }

    /// For how long a claim has been gone, by its UID; nothing if it never was there, or still is.
    pub fn gone_for(&self, interceptor: &Interceptor, uid: &str) -> Option<Duration> {
        let gone = self.gone.get(uid).copied();
        gone.map(|at| interceptor.clock.elapsed() - at)
    }

    /// How many claims of a launch group went within a time that ends now.
    #[cfg(feature = "aws")]
    pub fn members_gone_since(&self, token: &str, now: Duration, time: Duration) -> usize {
        let gone = self.gone_members.iter();
        gone.filter(|(at, own)| own == token && *at + time >= now)
            .count()
    }

    /// An instance is about to be ended by a process of the daemon.
    pub fn end(
        &mut self,
        interceptor: &Interceptor,
        nodes: &Nodes,
        client: &str,
        provider_id: &str,
    ) {
        if provider_id.starts_with(foreign::SCHEME) {
            interceptor.violated(format!("{client} ends {provider_id} of another provider"));
        }
        if !interceptor.cloud.runs(provider_id) {
            return;
        }
        let Some(claim) = owner(interceptor, provider_id) else {
            return self.sweeps(interceptor, nodes, client, provider_id);
        };
        let name = fields::name(&claim);
        if !fields::deleting(&claim) {
            return interceptor.violated(format!(
                "{provider_id} is ended, and nobody has deleted its claim {name}"
            ));
        }
        let over = pods::terminates(&claim).is_some_and(|at| at <= pods::now(interceptor));
        if !over {
            is_empty(interceptor, nodes, provider_id);
        }
    }

    /// An instance that no claim owns is ended: after some time, without pods, and few of them in a
    /// pass.
    fn sweeps(
        &mut self,
        interceptor: &Interceptor,
        nodes: &Nodes,
        client: &str,
        provider_id: &str,
    ) {
        is_empty(interceptor, nodes, provider_id);
        let ledger = interceptor.cloud.ledger();
        let Some(entry) = ledger
            .running()
            .find(|entry| entry.provider_id == provider_id)
        else {
            return;
        };
        let now = interceptor.clock.elapsed();
        let since = self
            .gone
            .get(&entry.claim_uid)
            .copied()
            .unwrap_or(entry.start)
            .max(entry.start);
        if since + MIN_LEAK_AGE > now {
            let lost = (now - since).as_secs();
            interceptor.violated(format!(
                "{client} ends {provider_id}, which nobody has owned for {lost} s alone"
            ));
        }
        self.swept.push_back(now);
        while self.swept.front().is_some_and(|at| *at + PASS_TIME < now) {
            self.swept.pop_front();
        }
        let (running, swept) = (ledger.running().count(), self.swept.len());
        if swept > 5.max((running + swept).div_ceil(20)) {
            interceptor.violated(format!(
                "{client} ends {provider_id}, the {swept}th that nobody owns in a minute, of {running}"
            ));
        }
    }
}

/// Whether a claim is in a launch group.
pub(crate) fn in_group(claim: &Value, token: &str) -> bool {
    let own = fields::annotation(claim, GROUP).and_then(|text| text.split('/').next());
    !token.is_empty() && own == Some(token)
}

/// The node of an instance, if it has registered, is closed to pods for long enough and has none
/// that a drain waits for.
fn is_empty(interceptor: &Interceptor, nodes: &Nodes, provider_id: &str) {
    let Some(node) = nodes::node_of(interceptor, provider_id) else {
        return;
    };
    let name = fields::name(&node);
    if let Some(pod) = pods::on_node(interceptor, name)
        .iter()
        .find(|pod| pods::counts(interceptor, pod))
    {
        return interceptor.violated(format!(
            "{provider_id} is ended while {} runs on it",
            fields::name(pod)
        ));
    }
    if fields::label(&node, REGISTERED) != Some("true") {
        return;
    }
    match nodes
        .tainted(name)
        .map(|at| interceptor.clock.elapsed() - at)
    {
        None => interceptor.violated(format!(
            "{provider_id} is ended without closing {name} to pods"
        )),
        Some(closed) if closed < MIN_TAINT_AGE => {
            let closed = closed.as_secs_f64();
            interceptor.violated(format!(
                "{provider_id} is ended {closed:.1} s after {name} was closed to pods"
            ));
        }
        Some(_) => {}
    }
}

/// A write is about to be carried out.
pub(super) fn write(interceptor: &Interceptor, asked: &RequestInfo) {
    if (asked.verb, asked.resource) == ("delete", Some(resources::NODE_CLAIM)) {
        deletes(interceptor, asked);
    }
}

/// Whether the NodePool of a claim is static and has more claims that stay than replicas.
fn is_excess(interceptor: &Interceptor, claim: &Value) -> bool {
    let pool = fields::label(claim, POOL).unwrap_or_default();
    let key = fields::key(resources::NODE_POOL, "", pool);
    let Some(pool) = interceptor.server.get(&key) else {
        return false;
    };
    let claims = interceptor.server.list(resources::NODE_CLAIM);
    let stays = |other: &&Arc<Value>| {
        fields::label(other, POOL) == fields::label(claim, POOL)
            && !fields::deleting(other)
            && !disruption::under_way(other)
    };
    let staying = claims.iter().filter(stays).count() as i64;
    fields::number(&pool, "/spec/replicas").is_some_and(|replicas| staying > replicas)
}

/// How long a node may take to get ready for pods before its claim goes, seconds.
const NEVER_READY_LIMIT: i64 = 3600;

/// Whether a node without pods has had its time to get ready for them.
fn never_got_ready(interceptor: &Interceptor, claim: &Value, node: &Value) -> bool {
    let joined = fields::items(claim, "/status/conditions")
        .iter()
        .find(|condition| condition["type"] == "Registered");
    let joined = joined.and_then(|condition| fields::time(condition, "/lastTransitionTime"));
    let limit = NEVER_READY_LIMIT - MAX_CLOCK_SKEW_SECONDS;
    let had_time = joined.is_some_and(|at| at.as_second() + limit <= pods::now(interceptor));
    had_time
        && fields::condition(claim, "Initialized") != "True"
        && !disruption::has_pods(interceptor, node)
}

/// A claim is deleted by the daemon: its time is over, it never got a node or one that got ready, its
/// node is going or is unhealthy, its instance is gone or goes, its static NodePool has too many, or it
/// was bought for nodes that stay after all.
fn deletes(interceptor: &Interceptor, asked: &RequestInfo) {
    let Some(claim) = interceptor
        .server
        .get(&fields::key(resources::NODE_CLAIM, "", &asked.name))
    else {
        return;
    };
    let id = fields::text(&claim, "/status/providerID");
    if fields::deleting(&claim)
        || fields::condition(&claim, "Registered") != "True"
        || !interceptor.cloud.runs(id)
        || interceptor.cloud.warned(id)
    {
        return;
    }
    let created =
        fields::time(&claim, "/metadata/creationTimestamp").map_or(0, |at| at.as_second());
    let after = fields::duration(fields::text(&claim, "/spec/expireAfter"));
    if after.is_some_and(|after| {
        created + after.as_secs() as i64 <= pods::now(interceptor) + MAX_CLOCK_SKEW_SECONDS
    }) {
        return;
    }
    // A Node that is gone takes its claim with it.
    let Some(node) = nodes::node_of(interceptor, id).filter(|node| !fields::deleting(node)) else {
        return;
    };
    let (client, name) = (&asked.client, &asked.name);
    let is_well = unhealthy_for(interceptor, &node).is_none();
    if disruption::under_way(&claim) {
        // An unhealthy node may be repaired at once, or go by its command.
        if is_well {
            disruption::deleted(interceptor, &claim);
        }
        return;
    }
    if is_well && is_excess(interceptor, &claim) {
        return;
    }
    if disruption::is_unused(interceptor, &claim, &node)
        || never_got_ready(interceptor, &claim, &node)
    {
        return;
    }
    if is_well {
        return interceptor.violated(format!(
            "{client} deletes claim {name}, whose node {} is well",
            fields::name(&node)
        ));
    }
    let pool = fields::label(&claim, POOL);
    let nodes = interceptor.server.list(resources::NODE);
    let scope: Vec<_> = nodes
        .iter()
        .filter(|node| fields::label(node, POOL) == pool)
        .collect();
    let sick = scope
        .iter()
        .filter(|node| {
            unhealthy_for(interceptor, node).is_some_and(|since| since >= MAX_NEWS_SECONDS)
        })
        .count();
    if sick > scope.len().div_ceil(5) {
        let all = scope.len();
        interceptor.violated(format!(
            "{client} repairs {}, and {sick} of {all} nodes are unhealthy",
            fields::name(&node)
        ));
    }
}

/// For how long, seconds, a node has not been ready.
fn unhealthy_for(interceptor: &Interceptor, node: &Value) -> Option<i64> {
    let ready = fields::items(node, "/status/conditions")
        .iter()
        .find(|c| c["type"] == "Ready");
    let ready = ready.filter(|c| c["status"] != "True")?;
    Some(
        fields::time(ready, "/lastTransitionTime")
            .map_or(0, |at| pods::now(interceptor) - at.as_second()),
    )
}

/// The claim of an instance: by the claim's provider ID, or by the token of the launch. Of a launch
/// group any claim that leaves and never named its instance may be meant.
fn owner(interceptor: &Interceptor, provider_id: &str) -> Option<Arc<Value>> {
    let ledger = interceptor.cloud.ledger();
    let entry = ledger
        .entries
        .iter()
        .find(|entry| entry.provider_id == provider_id);
    let uid = entry.map_or("", |entry| entry.claim_uid.as_str());
    let group = entry.map_or("", |entry| entry.group.as_str());
    let claims = interceptor.server.list(resources::NODE_CLAIM);
    let owns = |claim: &&Arc<Value>| {
        fields::text(claim, "/status/providerID") == provider_id || fields::uid(claim) == uid
    };
    let may_own = |claim: &&Arc<Value>| {
        let without = fields::text(claim, "/status/providerID").is_empty();
        without && fields::deleting(claim) && in_group(claim, group)
    };
    let own = claims.iter().find(owns);
    own.or_else(|| claims.iter().find(may_own)).cloned()
}

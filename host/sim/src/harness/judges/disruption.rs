//! Nodes are disrupted within the budgets of their NodePools, and go only once what replaces them is
//! there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use longshore_core::model::purchases::{UNJOINED, Unjoined};
use serde_json::Value;

use super::nodes;
use crate::harness::interceptor::Interceptor;
use longshore_simcluster::fields;
use longshore_simcluster::object::{Change, Event};
use longshore_simcluster::server::{RequestInfo, resources};

/// Annotations of commands, as the daemon writes them down.
pub(super) const COMMAND: &str = "longshore.dev/disruption";
const DETAILS: &str = "longshore.dev/disruption-command";
const REPLACES: &str = "longshore.dev/replaces";
const POOL: &str = "karpenter.sh/nodepool";
const INITIALIZED: &str = "karpenter.sh/initialized";
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
const MOVES: &str = "longshore.dev/moves";
const FAILURES: &str = "longshore.dev/disruption-failures";
const HASH: &str = "karpenter.sh/nodepool-hash";
/// How long a watch may be silent before nothing is decided; see `purchases`.
const MAX_WATCH_SILENCE: Duration = Duration::from_secs(95);
/// So long a replacement that no command has any more may be there unused: ten minutes, as its command
/// would have given it, and until a process leads and trusts its watches again.
const MAX_LEFT_OVER_TIME: Duration = Duration::from_secs(1200);
/// A node that is not initialised so long after its NodeClaim was made counts in budgets: ten minutes,
/// and what a watch may be late.
const LATE_NODE_SECONDS: i64 = 600 + MAX_WATCH_SILENCE.as_secs() as i64;
/// A look that had begun when a command failed may begin another one, seconds.
const MAX_LOOK_SECONDS: i64 = 60;
/// Clocks of machines, and how long marks of a command outlive its failure, seconds.
const MAX_CLOCK_SKEW_SECONDS: i64 = 15;
/// The first pause of a NodePool after a failure, and the longest one, seconds.
const PAUSES: (i64, i64) = (300, 3600);

/// The history of commands.
#[derive(Default)]
pub(super) struct Disruption {
    /// Nodes that went a moment ago: the daemon may still count them.
    gone: BTreeMap<String, VecDeque<Duration>>,
    /// Claims that are in a command, by name.
    marked: BTreeMap<String, Marked>,
    /// What was bought for each command, by the name of the NodeClaim.
    bought: BTreeMap<String, BTreeMap<String, Bought>>,
    /// What was bought for each claim, ever.
    replacements: BTreeMap<String, BTreeSet<String>>,
    /// Commands that were taken back, by NodePool that they bought from, since one that was not.
    failed: BTreeMap<String, Failed>,
    /// Since when replacements are there that no command has.
    left_over: BTreeMap<String, Duration>,
}

/// A NodeClaim that was bought for a command.
#[derive(Default)]
struct Bought {
    pool: String,
    /// Its node became ready.
    is_ready: bool,
    /// When it was first seen to go, seconds since 1970.
    ended: Option<i64>,
}

/// A claim in a command.
struct Marked {
    id: String,
    /// The NodePools that it buys from.
    pools: BTreeSet<String>,
    /// When the command was decided, seconds since 1970.
    began: i64,
}

/// Commands that failed one after the other.
struct Failed {
    count: u32,
    /// When the pause of the last one began at the earliest, seconds since 1970.
    since: i64,
    /// When the last one was noted at the latest, seconds since 1970.
    noted: i64,
    /// What the nodes of the NodePool were made of.
    template: String,
}

impl Disruption {
    /// A NodeClaim came, changed or went.
    pub fn claim(&mut self, interceptor: &Interceptor, change: &Change) {
        let (claim, name) = (&change.object, fields::name(&change.object));
        if let Some(id) =
            fields::annotation(claim, REPLACES).filter(|_| change.event == Event::Added)
        {
            let pool = fields::label(claim, POOL).unwrap_or_default().to_owned();
            let all = self.bought.entry(id.to_owned()).or_default();
            let bought = Bought {
                pool,
                ..Bought::default()
            };
            all.insert(name.to_owned(), bought);
            for candidate in self.candidates(id) {
                let all = self.replacements.entry(candidate).or_default();
                all.insert(name.to_owned());
            }
        }
        if let Some(id) = fields::annotation(claim, REPLACES)
            && let Some(bought) = self.bought.get_mut(id).and_then(|all| all.get_mut(name))
        {
            bought.is_ready |= fields::condition(claim, "Initialized") == "True";
            if change.event == Event::Deleted || fields::deleting(claim) {
                let now = interceptor.clock.now().as_second();
                bought.ended.get_or_insert(now);
            }
        }
        let id = fields::annotation(claim, COMMAND);
        if change.event == Event::Deleted || fields::deleting(claim) {
            let was = self.marked.remove(name);
            for pool in was
                .filter(|_| has_all(interceptor, claim))
                .iter()
                .flat_map(|was| &was.pools)
            {
                self.failed.remove(pool);
            }
            if change.event == Event::Deleted {
                self.replacements.remove(name);
            }
            return;
        }
        let Some(id) = id else {
            if let Some(was) = self.marked.remove(name) {
                self.taken_back(interceptor, &was);
            }
            return;
        };
        let marked = Marked {
            id: id.to_owned(),
            pools: bought_from(claim, &details(claim)),
            began: details(claim)["began"].as_i64().unwrap_or(0),
        };
        self.marked.insert(name.to_owned(), marked);
    }

    /// Names of the candidates of a command.
    fn candidates(&self, id: &str) -> Vec<String> {
        let all = self.marked.iter().filter(|(_, marked)| marked.id == id);
        all.map(|(name, _)| name.clone()).collect()
    }

    /// A candidate stays after all. If something was bought for it, that was in vain: NodePools are
    /// to blame whose nodes did not become ready, or all if all did.
    fn taken_back(&mut self, interceptor: &Interceptor, was: &Marked) {
        let Some(bought) = self.bought.get(&was.id) else {
            return;
        };
        let are_all_ready = bought.values().all(|bought| bought.is_ready);
        let blamed = bought.values().filter(|of| are_all_ready || !of.is_ready);
        let blamed: BTreeSet<&String> = blamed.map(|bought| &bought.pool).collect();
        let now = interceptor.clock.now().as_second();
        for pool in blamed {
            // The failure is written before the mark goes, and a refused write may keep the mark for
            // long: the pause begins once all that was bought from the NodePool is gone.
            let of_pool = bought.values().filter(|bought| bought.pool == *pool);
            let ended = of_pool.map(|bought| bought.ended.unwrap_or(now));
            let template = template(interceptor, pool);
            let before = self.failed.get(pool);
            let before = before.filter(|failed| failed.template == template);
            if before.is_some_and(|failed| failed.noted >= was.began) {
                continue;
            }
            let failed = Failed {
                count: before.map_or(0, |failed| failed.count) + 1,
                since: ended.max().unwrap_or(now),
                noted: now,
                template,
            };
            self.failed.insert(pool.clone(), failed);
        }
    }

    /// A command begins that buys from NodePools whose last nodes were in vain: not before the pause
    /// is over. It begins with the failure, which is written before the last mark goes.
    fn again(&self, interceptor: &Interceptor, claim: &Value, details: &Value) {
        if interceptor.clocks_differ() {
            return;
        }
        for pool in bought_from(claim, details) {
            let Some(failed) = self.failed.get(&pool) else {
                continue;
            };
            let since = interceptor.clock.now().as_second() - failed.since;
            let pause = (PAUSES.0 << (failed.count - 1).min(8)).min(PAUSES.1);
            if (MAX_LOOK_SECONDS..pause - MAX_CLOCK_SKEW_SECONDS).contains(&since)
                && failed.template == template(interceptor, &pool)
            {
                interceptor.violated(format!(
                    "{} is replaced from {pool} {since} s after failure {} in a row of its NodePool",
                    fields::name(claim),
                    failed.count
                ));
            }
        }
    }

    /// A replacement is created: for pods of its command, and for none of its nodes was another one
    /// bought before that is still there for no pod.
    pub fn replacement(&self, interceptor: &Interceptor, claim: &Value) {
        let (name, id) = (fields::name(claim), fields::annotation(claim, REPLACES));
        let Some(id) = id else { return };
        for candidate in self.candidates(id) {
            for other in self.replacements.get(&candidate).into_iter().flatten() {
                let key = fields::key(resources::NODE_CLAIM, "", other);
                let Some(there) = interceptor.server.get(&key).filter(|_| other != name) else {
                    continue;
                };
                let of = fields::annotation(&there, REPLACES);
                if of.is_some_and(|of| of != id) && !fields::deleting(&there) {
                    interceptor.violated(format!(
                        "{name} is bought for {candidate} though {other} was bought for it before"
                    ));
                }
            }
        }
        let claims = interceptor.server.list(resources::NODE_CLAIM);
        let own: Vec<_> = claims
            .iter()
            .filter(|of| fields::annotation(of, COMMAND) == Some(id))
            .collect();
        // Of candidates that are gone it is not known where their pods were to go.
        let wanted = own
            .first()
            .and_then(|of| details(of)["candidates"].as_u64());
        let are_all_there = wanted.is_some_and(|wanted| own.len() as u64 >= wanted);
        let said = own.iter().filter_map(|of| fields::annotation(of, MOVES));
        let moves: Vec<&str> = said.collect();
        if are_all_there && !moves.iter().any(|of| of.contains(name)) {
            let moves = moves.join(" and ");
            interceptor.violated(format!(
                "{name} is bought, and no pod moves to it: the moves are \"{moves}\""
            ));
        }
    }

    /// A minute is over: what was bought by commands that are no more is used, or gone.
    pub fn minute(&mut self, interceptor: &Interceptor) {
        let now = interceptor.clock.elapsed();
        let claims = interceptor.server.list(resources::NODE_CLAIM);
        let commands: BTreeSet<&str> = claims
            .iter()
            .filter_map(|claim| fields::annotation(claim, COMMAND))
            .collect();
        let is_left_over = |claim: &&Arc<Value>| {
            let id = fields::annotation(claim, REPLACES);
            let is = |condition| fields::condition(claim, condition) == "True";
            id.is_some_and(|id| !commands.contains(id))
                && !fields::deleting(claim)
                && !is("Initialized")
                && !is("Rebooting")
        };
        let left_over = claims.iter().filter(is_left_over);
        let names: BTreeSet<String> = left_over.map(|of| fields::name(of).to_owned()).collect();
        self.left_over.retain(|name, _| names.contains(name));
        for name in names {
            let since = *self.left_over.entry(name.clone()).or_insert(now);
            let is_new = now < since + MAX_LEFT_OVER_TIME + Duration::from_secs(60);
            if now >= since + MAX_LEFT_OVER_TIME && is_new {
                interceptor.violated(format!(
                    "{name} replaces nothing since {} s, and is kept",
                    (now - since).as_secs()
                ));
            }
        }
    }

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
        while gone.front().is_some_and(|at| *at + MAX_WATCH_SILENCE < now) {
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
                    self.again(interceptor, &claim, &details);
                    self.begins(interceptor, &claim, &details["reason"]);
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
    fn begins(&mut self, interceptor: &Interceptor, claim: &Value, reason: &Value) {
        let (name, pool) = (
            fields::name(claim),
            fields::label(claim, POOL).unwrap_or_default(),
        );
        let claims = interceptor.server.list(resources::NODE_CLAIM);
        let nodes = interceptor.server.list(resources::NODE);
        // A claim whose Node is gone is waited for, and disturbs no pod any more. A Node that was
        // never initialized is no part of what budgets are about, and repair may take it. Neither is one
        // whose instance is ending.
        let ends = |of: &Value| fields::condition(of, "InstanceTerminating") == "True";
        let counts_itself = |of: &Value| {
            let id = fields::text(of, "/status/providerID");
            nodes.iter().any(|node| {
                fields::text(node, "/spec/providerID") == id
                    && fields::label(node, INITIALIZED) == Some("true")
                    && !ends(of)
            })
        };
        let ours = |of: &&Arc<Value>| {
            let going = fields::annotation(of, COMMAND).is_some() && counts_itself(of);
            going && fields::label(of, POOL) == Some(pool)
        };
        let is_counted = counts_itself(claim);
        let late = match reason == "Unhealthy" || interceptor.clocks_differ() {
            true => 0,
            false => late(interceptor, pool, &claims, &nodes),
        };
        let going = claims.iter().filter(ours).count() + usize::from(is_counted) + late;
        let counts = |node: &&Arc<Value>| {
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
        let node = nodes::node_of(interceptor, fields::text(claim, "/status/providerID"));
        if reason == "Unhealthy" {
            // The policies of the cloud bound the drain, so that no pod holds a node that it names.
            if !node.is_some_and(|node| is_unhealthy(&node)) {
                interceptor.violated(format!("{name} is repaired, and its node is well"));
            }
            return;
        }
        let pods = node.map(|node| interceptor.server.pods_on(fields::name(&node)));
        for pod in pods.into_iter().flatten() {
            let held = fields::annotation(&pod, DO_NOT_DISRUPT) == Some("true");
            let since = fields::time(&pod, "/status/startTime").map(|at| at.as_second());
            let known = since.is_some_and(|since| {
                interceptor.clock.now().as_second() - since > MAX_WATCH_SILENCE.as_secs() as i64
            });
            if held && known && !fields::ended(&pod) && !fields::deleting(&pod) {
                let pod = fields::name(&pod);
                interceptor.violated(format!("{name} is disrupted, and pod {pod} must not be"));
            }
        }
    }
}

/// Nodes of a NodePool that should have become ready, for themselves.
fn late(
    interceptor: &Interceptor,
    pool: &str,
    claims: &[Arc<Value>],
    nodes: &[Arc<Value>],
) -> usize {
    let now = interceptor.clock.now().as_second();
    let is_late = |claim: &&Arc<Value>| {
        let id = fields::text(claim, "/status/providerID");
        let own = nodes
            .iter()
            .find(|node| fields::text(node, "/spec/providerID") == id);
        let waits = own.is_some_and(|node| {
            fields::label(node, INITIALIZED) != Some("true") && !fields::deleting(node)
        });
        let replaces = fields::annotation(claim, REPLACES).is_some_and(|id| {
            let mut all = claims.iter();
            all.any(|of| fields::annotation(of, COMMAND) == Some(id))
        });
        let created = fields::time(claim, "/metadata/creationTimestamp");
        fields::label(claim, POOL) == Some(pool)
            && waits
            && !replaces
            && !fields::deleting(claim)
            && fields::annotation(claim, COMMAND).is_none()
            && fields::condition(claim, "Rebooting") != "True"
            && created.is_some_and(|at| now - at.as_second() > LATE_NODE_SECONDS)
    };
    claims.iter().filter(is_late).count()
}

/// What the nodes of a NodePool are made of.
fn template(interceptor: &Interceptor, pool: &str) -> String {
    let pool = interceptor
        .server
        .get(&fields::key(resources::NODE_POOL, "", pool));
    let hash = pool
        .as_ref()
        .and_then(|pool| fields::annotation(pool, HASH));
    hash.unwrap_or_default().to_owned()
}

/// Whether all that a candidate's command has bought is ready, and something was.
fn has_all(interceptor: &Interceptor, candidate: &Value) -> bool {
    let details = details(candidate);
    let names = details["replacements"].as_array();
    let names: Vec<&str> = names
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let ready = |name: &&str| {
        let key = fields::key(resources::NODE_CLAIM, "", name);
        let claim = interceptor.server.get(&key);
        claim.is_some_and(|claim| fields::condition(&claim, "Initialized") == "True")
    };
    !names.is_empty() && names.iter().all(ready)
}

/// The NodePools that the command of a candidate buys from: for static NodePools their own.
fn bought_from(candidate: &Value, details: &Value) -> BTreeSet<String> {
    let texts = |of: &str| -> BTreeSet<String> {
        let all = details[of].as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    match (texts("replacements").is_empty(), texts("pools")) {
        (true, _) => BTreeSet::new(),
        (false, pools) if pools.is_empty() => {
            let own = fields::label(candidate, POOL);
            own.map(str::to_owned).into_iter().collect()
        }
        (false, pools) => pools,
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
pub(crate) fn under_way(claim: &Value) -> bool {
    fields::annotation(claim, COMMAND).is_some()
}

/// Whether a claim is replaced because it has drifted or its node is unhealthy: then what replaces it
/// counts in its place.
pub(super) fn replaced_in_place(claim: &Value) -> bool {
    let reason = &details(claim)["reason"];
    reason == "Drifted" || reason == "Unhealthy"
}

/// Whether a NodePool whose commands have failed, or whose nodes never joined, may buy again since a
/// moment ago, or still waits for it.
pub(super) fn backs_off(interceptor: &Interceptor, moment: Duration) -> bool {
    let pools = interceptor.server.list(resources::NODE_POOL);
    let of_commands = |pool: &Value| {
        let known: Value = serde_json::from_str(fields::annotation(pool, FAILURES)?).ok()?;
        known["until"].as_i64()
    };
    let of_nodes = |pool: &Value| Some(Unjoined::read(fields::annotation(pool, UNJOINED)?)?.until);
    let until = |pool: &Arc<Value>| [of_commands(pool), of_nodes(pool)];
    let now = interceptor.clock.now().as_second();
    let mut all = pools.iter().flat_map(until).flatten();
    all.any(|until| until + moment.as_secs() as i64 >= now)
}

/// Whether a claim was bought by a command that is not over, or has not become a node, and no pod uses
/// its node.
pub(super) fn is_unused(interceptor: &Interceptor, claim: &Value, node: &Value) -> bool {
    let Some(id) = fields::annotation(claim, REPLACES) else {
        return false;
    };
    let claims = interceptor.server.list(resources::NODE_CLAIM);
    let mut all = claims.iter();
    let is_over = !all.any(|of| fields::annotation(of, COMMAND) == Some(id));
    let is_ready = fields::condition(claim, "Initialized") == "True";
    let is_kept = is_over && is_ready;
    !is_kept && !has_pods(interceptor, node)
}

/// Whether pods run on a node that would have to find another.
pub(super) fn has_pods(interceptor: &Interceptor, node: &Value) -> bool {
    let uses = |pod: &Arc<Value>| {
        let daemon = fields::controller(pod).is_some_and(|owner| owner["kind"] == "DaemonSet");
        !daemon && !fields::ended(pod) && !fields::deleting(pod)
    };
    let pods = interceptor.server.pods_on(fields::name(node));
    pods.iter().any(uses)
}

/// Whether a claim was bought by a command.
pub(super) fn replaces(claim: &Value) -> bool {
    fields::annotation(claim, REPLACES).is_some()
}

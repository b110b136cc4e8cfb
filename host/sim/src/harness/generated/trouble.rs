//! Faults of scenarios of the kind `safe`: silent or late watches, processes that are stopped and
//! continued or terminated, a cloud whose lists lack instances, claims restored from a backup.

use std::time::Duration;

use serde_json::Value;

use crate::harness::Harness;
use crate::harness::interceptor::Watches;
use longshore_simcluster::faults::unit;
use longshore_simcluster::fields;
use longshore_simcluster::server::{Subresource, resources};

/// Something that goes wrong, and for how long. A lot picks one of the processes that are there
/// then.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// Watches say nothing, not even bookmarks, and then all at once.
    Silent(Watches, Duration),
    /// Watches are late by this much.
    Late(Watches, Duration, Duration),
    /// A process is stopped (SIGSTOP) and later continues its work in progress.
    Freeze(u64, Duration),
    /// A process is terminated (SIGTERM).
    Terminate(u64),
    /// NodeClaims come back from a backup, with UIDs of their own.
    Restore,
    /// The cloud lists this share of its instances and says nothing of the others.
    PartialLists(f64, Duration),
    /// The cloud refuses all calls: too many.
    Throttled(Duration),
    /// The cloud ends no instance.
    NothingEnds(Duration),
    /// The API server refuses all that the leader asks but its Lease, which it cannot renew either
    /// for a minute longer.
    Overloaded(Duration),
    /// The network of this share of the nodes, drawn by a lot, fails: they are not ready, and their
    /// instances run.
    Sick(f64, u64),
    /// Nodes become ready again after a network failure.
    Well,
    /// Owners of pods with do-not-disrupt release them when their node has waited for long.
    LetGo,
}

/// After so long, seconds, pods that must not be disrupted no longer hold their node.
const MAX_HELD_SECONDS: i64 = 300;

impl Trouble {
    /// Lets it happen.
    pub fn happen(&self, harness: &Harness) {
        match self {
            Trouble::Silent(watches, length) => harness.silence(*watches, *length),
            Trouble::Late(watches, by, length) => harness.delay_watches(*watches, *by, *length),
            Trouble::Freeze(lot, length) => drop(harness.freeze(*lot, *length)),
            Trouble::Terminate(lot) => drop(harness.terminate(*lot)),
            Trouble::Restore => harness.world.server.restore(resources::NODE_CLAIM),
            Trouble::PartialLists(share, length) => harness.list_partially(*share, *length),
            Trouble::Throttled(length) => harness.throttle(*length),
            Trouble::NothingEnds(length) => harness.keep_instances(*length),
            Trouble::Overloaded(length) => harness.overload(*length),
            Trouble::Sick(share, lot) => sicken(harness, *share, *lot),
            Trouble::Well => heal(harness),
            Trouble::LetGo => unnominate_all(harness),
        }
    }
}

const SICK: &str = "NetworkPluginNotReady";

fn sicken(harness: &Harness, share: f64, lot: u64) {
    for (number, node) in harness
        .world
        .server
        .list(resources::NODE)
        .iter()
        .enumerate()
    {
        if fields::condition(node, "Ready") == "True" && unit(lot, number as u64) < share {
            say_ready(harness, node, "False", SICK);
        }
    }
}

fn heal(harness: &Harness) {
    for node in harness.world.server.list(resources::NODE) {
        let ready = fields::items(&node, "/status/conditions")
            .iter()
            .find(|c| c["type"] == "Ready");
        if ready.is_some_and(|c| c["reason"] == SICK) {
            say_ready(harness, &node, "True", "KubeletReady");
        }
    }
}

fn say_ready(harness: &Harness, node: &Value, status: &str, reason: &str) {
    let world = &harness.world;
    let (key, now) = (fields::key_of(resources::NODE, node), world.clock.now());
    let done = world.server.update(&key, Subresource::Status, &mut |node| {
        fields::set_condition(node, "Ready", status, reason, "", now);
    });
    if done.is_ok() {
        world.log.say(
            world.clock,
            format!("{}: Ready is {status}, {reason}", key.name),
        );
    }
}

fn unnominate_all(harness: &Harness) {
    let world = &harness.world;
    let now = world.clock.now().as_second();
    let since = |node: &serde_json::Value| {
        fields::time(node, "/metadata/deletionTimestamp").map(|at| at.as_second())
    };
    for node in world.server.list(resources::NODE) {
        if since(&node).is_none_or(|at| now - at < MAX_HELD_SECONDS) {
            continue;
        }
        for pod in world.server.pods_on(fields::name(&node)) {
            let held = fields::annotation(&pod, "karpenter.sh/do-not-disrupt").is_some();
            if held && !fields::deleting(&pod) && !fields::ended(&pod) {
                world.log.say(
                    world.clock,
                    format!(
                        "{} is let go from {}",
                        fields::name(&pod),
                        fields::name(&node)
                    ),
                );
                world.delete(
                    "Pod",
                    fields::text(&pod, "/metadata/namespace"),
                    fields::name(&pod),
                );
            }
        }
    }
}

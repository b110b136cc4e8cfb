//! Rules on a cluster some time after the last fault.

use std::collections::BTreeSet;

use serde_json::Value;

use super::foreign::is_foreign;
use super::judges::{disruption, nodes as node_rules};
use longshore_simcluster::fields;
use longshore_simcluster::server::resources;
use longshore_simcluster::world::World;

/// Everything that is not as it must be, a line each; empty if all is well.
pub(super) fn unsettled(world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    for pod in world.pods() {
        // A daemon was late on its node, and kube-scheduler had given its room to others. In real
        // clusters such daemons have a priority and preempt; this cluster has no preemption.
        let squeezed = fields::text(&pod, "/spec/nodeName").is_empty()
            && fields::controller(&pod).is_some_and(|owner| owner["kind"] == "DaemonSet");
        if !squeezed && !fields::ended(&pod) && (!fields::ready(&pod) || fields::deleting(&pod)) {
            wrong.push(format!("pod {} {}", fields::name(&pod), state_of(&pod)));
        }
    }
    let mut claims = world.server.list(resources::NODE_CLAIM);
    let mut nodes = world.server.list(resources::NODE);
    claims.retain(|claim| !is_foreign(claim));
    nodes.retain(|node| !is_foreign(node));
    let ledger = world.cloud.ledger();
    let running: BTreeSet<&str> = ledger
        .running()
        .map(|entry| entry.provider_id.as_str())
        .collect();
    let mut owned = BTreeSet::new();
    for claim in &claims {
        let (name, id) = (
            fields::name(claim),
            fields::text(claim, "/status/providerID"),
        );
        owned.insert(id);
        if fields::deleting(claim) {
            wrong.push(format!("claim {name} is being deleted"));
        } else if disruption::under_way(claim) {
            wrong.push(format!("claim {name} is being disrupted"));
        } else if !running.contains(id) {
            wrong.push(format!("claim {name} has no instance ({id:?})"));
        } else if fields::condition(claim, "Ready") != "True" {
            wrong.push(format!("claim {name} is not ready"));
        }
    }
    let goes = claims.iter().any(|claim| disruption::under_way(claim));
    for node in &nodes {
        let name = fields::name(node);
        if !owned.contains(fields::text(node, "/spec/providerID")) {
            wrong.push(format!("{name} has no claim"));
        } else if node_rules::has_taint(node, node_rules::DISRUPTED) {
            wrong.push(format!("{name} is closed to pods"));
        } else if node_rules::has_taint(node, node_rules::GOES_LATER) && !goes {
            wrong.push(format!("{name} is marked to go, and no node goes"));
        } else if fields::deleting(node) || fields::condition(node, "Ready") != "True" {
            wrong.push(format!("{name} is not ready, or going"));
        }
    }
    let uids: BTreeSet<&str> = claims.iter().map(|claim| fields::uid(claim)).collect();
    // A claim that a backup has brought back has another UID than the one that its instance was
    // made for.
    let leaked = ledger.leaked(|uid| uids.contains(uid)).into_iter();
    for entry in leaked.filter(|entry| !owned.contains(&*entry.provider_id)) {
        wrong.push(format!(
            "{} ({}) is leaked: its claim {} is gone",
            entry.node, entry.provider_id, entry.claim
        ));
    }
    for uid in ledger.bought_twice() {
        wrong.push(format!("two instances were made for claim {uid}"));
    }
    if let Some(elsewhere) = world.cloud.elsewhere() {
        wrong.extend(elsewhere.unsettled());
    }
    wrong
}

fn state_of(pod: &Value) -> String {
    let waits = fields::items(pod, "/status/conditions")
        .iter()
        .find(|c| c["type"] == "PodScheduled");
    let why = waits.map_or("", |c| fields::text(c, "/message"));
    let node = fields::text(pod, "/spec/nodeName");
    let going = if fields::deleting(pod) { ", going" } else { "" };
    if node.is_empty() {
        format!("waits{going}: {why}")
    } else {
        format!("is not ready on {node}{going}")
    }
}

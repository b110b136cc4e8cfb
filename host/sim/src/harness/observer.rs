//! What must hold of what comes of the daemon's doings, looked at change by change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use longshore_core::model::{Names, Resources};
use serde_json::Value;

use super::desk::Desk;
use super::spread::one_too_many;
use crate::actors::fields;
use crate::actors::scheduler::{amounts, requests};
use crate::object::{Change, Event};
use crate::server::resources;

/// Pods that a claim was made for, as the daemon writes them down.
const PODS: &str = "longshore.dev/planned-pods";
/// The second that a claim was planned at, and a number.
const ROUND: &str = "longshore.dev/round";
/// A registered node has so long to take its pods, seconds; a little less than the daemon gives it.
const TAKES: i64 = 25;

/// Who sees knows after so long that a pod is gone.
const NEWS: Duration = Duration::from_secs(20);

/// What is remembered of what was seen.
#[derive(Default)]
struct Seen {
    /// Pods that a claim was made for, by the claim's name.
    planned: BTreeMap<String, Vec<String>>,
    /// When pods went, by `namespace/name`.
    gone: BTreeMap<String, Duration>,
}

/// Reads every change, for ever.
pub(super) async fn observe(desk: Arc<Desk>) {
    let mut seen = 0;
    let mut memory = Seen::default();
    loop {
        for change in desk.server.changes(seen) {
            seen = change.revision;
            saw(&desk, &change, &mut memory);
        }
        desk.server.changed(seen).await;
    }
}

fn saw(desk: &Desk, change: &Change, memory: &mut Seen) {
    let object = &change.object;
    let gone = change.event == Event::Deleted;
    match change.key.resource {
        resources::POD if gone => {
            let name = format!("{}/{}", change.key.namespace, change.key.name);
            memory.gone.insert(name, desk.clock.elapsed());
        }
        resources::NODE_CLAIM if change.event == Event::Added => {
            let pods: Vec<String> = pods_of(object).map(str::to_owned).collect();
            planned_twice(desk, object, &pods, &memory.planned);
            planned_for_nobody(desk, object, &pods, &memory.gone);
            memory.planned.insert(fields::name(object).to_owned(), pods);
        }
        resources::NODE_CLAIM if gone => {
            memory.planned.remove(fields::name(object));
            if let Some(node) = desk.cloud.runs_for(fields::uid(object)) {
                desk.violated(format!("claim {} is gone and {node} runs", fields::name(object)));
            }
        }
        resources::NODE if gone && fields::label(object, "karpenter.sh/registered").is_some() => {
            let id = fields::text(object, "/spec/providerID");
            if desk.cloud.runs(id) {
                desk.violated(format!("{} is gone and its instance runs", fields::name(object)));
            }
        }
        _ => {}
    }
}

fn pods_of(claim: &Value) -> impl Iterator<Item = &str> {
    let list = fields::annotation(claim, PODS).unwrap_or_default();
    list.split(',').filter(|pod| !pod.is_empty()).map(|pod| pod.split('~').next().unwrap_or(pod))
}

/// Nothing is bought for pods that went long ago.
fn planned_for_nobody(desk: &Desk, claim: &Value, pods: &[String], gone: &BTreeMap<String, Duration>) {
    let now = desk.clock.elapsed();
    let dead = |pod: &&String| {
        let there = pod.split_once('/').and_then(|(n, p)| desk.server.get(&fields::key(resources::POD, n, p)));
        there.is_none() && gone.get(*pod).is_some_and(|at| *at + NEWS < now)
    };
    if let (Some(pod), true) = (pods.iter().find(dead), desk.sees()) {
        desk.violated(format!("{} is made for pod {pod}, which is gone", fields::name(claim)));
    }
}

/// Nothing is bought for a pod that another claim was made for and still can take.
fn planned_twice(desk: &Desk, claim: &Value, pods: &[String], planned: &BTreeMap<String, Vec<String>>) {
    // One whose request was held up was planned by what was true then.
    let round = fields::annotation(claim, ROUND).and_then(|round| round.split('-').next()?.parse::<i64>().ok());
    let late = round.is_some_and(|planned| desk.clock.now().as_second() - planned > 1);
    if late || !desk.sees() {
        return;
    }
    for (name, theirs) in planned {
        let Some(pod) = pods.iter().find(|pod| theirs.contains(pod)) else { continue };
        let Some(other) = desk.server.get(&fields::key(resources::NODE_CLAIM, "", name)) else { continue };
        let Some((namespace, plain)) = pod.split_once('/') else { continue };
        let Some(waiting) = desk.server.get(&fields::key(resources::POD, namespace, plain)) else { continue };
        let second = |object: &Value, path| fields::time(object, path).map(|at| at.as_second());
        let born = |object| second(object, "/metadata/creationTimestamp");
        let registered = fields::items(&other, "/status/conditions").iter().find(|c| c["type"] == "Registered");
        let since = registered.filter(|c| c["status"] == "True").and_then(|c| second(c, "/lastTransitionTime"));
        let late = since.is_some_and(|since| desk.clock.now().as_second() - since > TAKES);
        let waits = fields::text(&waiting, "/spec/nodeName").is_empty() && born(&waiting) <= born(&other);
        let may = || has_room(desk, &other, theirs) && !one_too_many(desk, &waiting, &other, planned);
        if waits && !late && !fields::deleting(&other) && may() {
            desk.violated(format!("pod {pod} is planned for {} while {name} is on its way", fields::name(claim)));
        }
    }
}

/// Whether a claim's node still has room for all that wait for it, the claim's pods and those that were told of it since:
/// others may have taken their places.
fn has_room(desk: &Desk, claim: &Value, planned: &[String]) -> bool {
    // The claim may not say so yet: a node is open before the answer to the patch that opened it has come. One whose
    // instance was taken back takes nobody any more.
    let Some(name) = desk.cloud.runs_for(fields::uid(claim)) else {
        return fields::text(claim, "/status/providerID").is_empty();
    };
    let Some(node) = desk.server.get(&fields::key(resources::NODE, "", &name)) else { return true };
    let mut names = Names::default();
    let room = amounts(node.pointer("/status/allocatable").unwrap_or(&Value::Null), &mut names);
    let mut wanted = Resources::default();
    for pod in desk.server.list(resources::POD) {
        let on = fields::text(&pod, "/spec/nodeName");
        let full = || format!("{}/{}", fields::text(&pod, "/metadata/namespace"), fields::name(&pod));
        let promised = || fields::text(&pod, "/status/nominatedNodeName") == name || planned.contains(&full());
        if on == name && !fields::ended(&pod) || on.is_empty() && promised() {
            wanted.add(&requests(&pod["spec"], &mut names));
        }
    }
    wanted.fits(&room)
}

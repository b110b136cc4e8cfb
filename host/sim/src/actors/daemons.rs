//! DaemonSets: one pod on every node that lets it in.
//!
//! As in Kubernetes its pods are bound by kube-scheduler, each told its node by a node affinity on the name. Absent:
//! roll-outs other than `OnDelete` for a changed template (pods keep the template they were made with).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Desk, fields, selector, template};
use crate::object::{Change, Event, Key};
use crate::server::resources;

/// Taints that daemons tolerate whatever their template says, with the effect.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// A node has come, gone, or changed what it lets in.
pub fn wake(desk: &mut Desk, change: &Change, before: Option<&Value>) {
    let same = |b: &Value| {
        let after = &change.object;
        change.event == Event::Modified
            && b["metadata"]["labels"] == after["metadata"]["labels"]
            && b["spec"]["taints"] == after["spec"]["taints"]
    };
    if before.is_some_and(same) {
        return;
    }
    let all: Vec<Key> = desk.view.all(resources::DAEMON_SET).map(|(key, _)| key).collect();
    all.into_iter().for_each(|key| desk.reconcile(key));
}

/// Makes and deletes pods node by node.
pub fn reconcile(desk: &mut Desk, key: &Key, set: &Value) {
    let mut pods: BTreeMap<String, Vec<(Key, Arc<Value>)>> = BTreeMap::new();
    for (key, pod) in desk.view.controlled(resources::POD, fields::uid(set)) {
        pods.entry(target(&pod).to_owned()).or_default().push((key, pod));
    }
    let tolerations = tolerations(&set["spec"]["template"]);
    let nodes: Vec<(String, Fate)> = desk
        .view
        .all(resources::NODE)
        .map(|(key, node)| (key.name.to_string(), fate(set, &tolerations, node)))
        .collect();
    let mut wanted = 0;
    if !fields::deleting(set) {
        for (node, fate) in &nodes {
            wanted += i64::from(*fate == Fate::Runs);
            let here = pods.get(node).map_or(&[][..], Vec::as_slice);
            on_node(desk, key, set, &tolerations, node, *fate, here);
        }
        // A pod that waits for a node that has gone since waits for nothing.
        let known: BTreeSet<&str> = nodes.iter().map(|(name, _)| name.as_str()).collect();
        let lost = pods.iter().filter(|(node, _)| !known.contains(node.as_str())).flat_map(|(_, pods)| pods);
        for (key, _) in lost.filter(|(_, p)| fields::text(p, "/spec/nodeName").is_empty() && !fields::deleting(p)) {
            desk.delete(key);
        }
    }
    let running = || pods.values().flatten().filter(|(_, p)| !fields::ended(p) && !fields::deleting(p));
    let ready = running().filter(|(_, p)| fields::ready(p)).count() as i64;
    desk.set_status(
        key,
        &[
            ("desiredNumberScheduled", json!(wanted)),
            ("currentNumberScheduled", json!(running().count())),
            ("updatedNumberScheduled", json!(running().count())),
            ("numberMisscheduled", json!(0)),
            ("numberReady", json!(ready)),
            ("numberAvailable", json!(ready)),
            ("observedGeneration", set["metadata"]["generation"].clone()),
        ],
    );
}

/// What becomes of a daemon on a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// There is one.
    Runs,
    /// One that is there may stay, none is made.
    Stays,
    /// There is none.
    Goes,
}

fn fate(set: &Value, tolerations: &[Value], node: &Value) -> Fate {
    if !selector::admits(&set["spec"]["template"]["spec"], node) {
        return Fate::Goes;
    }
    let kept_out = |effect: &str| {
        let taints = fields::items(node, "/spec/taints").iter().filter(|t| t["effect"] == effect);
        taints.into_iter().any(|taint| !tolerations.iter().any(|t| selector::tolerates(t, taint)))
    };
    match (kept_out("NoExecute"), kept_out("NoSchedule")) {
        (true, _) => Fate::Goes,
        (false, true) => Fate::Stays,
        (false, false) => Fate::Runs,
    }
}

fn on_node(
    desk: &mut Desk,
    key: &Key,
    set: &Value,
    tolerations: &[Value],
    node: &str,
    fate: Fate,
    here: &[(Key, Arc<Value>)],
) {
    let (ended, live): (Vec<_>, Vec<_>) = here.iter().partition(|(_, p)| fields::ended(p));
    for (key, _) in ended.iter().filter(|(_, p)| !fields::deleting(p)) {
        desk.delete(key);
    }
    // One that is on its way out is waited for.
    let keep = usize::from(fate != Fate::Goes);
    if fate == Fate::Runs && live.is_empty() && ended.is_empty() {
        let name = desk.name(&format!("{}-", key.name));
        let pod = pod(set, tolerations, node, &name);
        desk.create(resources::POD, pod);
    }
    for (key, _) in live.iter().filter(|(_, p)| !fields::deleting(p)).skip(keep) {
        desk.delete(key);
    }
}

fn tolerations(template: &Value) -> Vec<Value> {
    let own = fields::items(template, "/spec/tolerations").iter().cloned();
    let more = TOLERATED.map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect}));
    let network = (template["spec"]["hostNetwork"] == true).then(
        || json!({"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"}),
    );
    own.chain(more).chain(network).collect()
}

/// The pod for a node: every required node affinity term names it.
fn pod(set: &Value, tolerations: &[Value], node: &str, name: &str) -> Value {
    let mut pod = template::pod(&set["spec"]["template"], resources::DAEMON_SET, set, name);
    let spec = fields::map_at(&mut pod, "spec");
    spec["tolerations"] = tolerations.into();
    let named = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    let affinity = fields::map_at(fields::map_at(spec, "affinity"), "nodeAffinity");
    let required = fields::map_at(affinity, "requiredDuringSchedulingIgnoredDuringExecution");
    match required.get_mut("nodeSelectorTerms").and_then(Value::as_array_mut) {
        Some(terms) => terms.iter_mut().for_each(|term| term["matchFields"] = named.clone()),
        None => required["nodeSelectorTerms"] = json!([{"matchFields": named}]),
    }
    pod
}

/// The node that a daemon's pod is on, or meant for.
fn target(pod: &Value) -> &str {
    match fields::text(pod, "/spec/nodeName") {
        "" => fields::text(
            pod,
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0",
        ),
        node => node,
    }
}

//! DaemonSets: one pod on every node that admits it.
//!
//! As in Kubernetes, kube-scheduler binds the pods; each has a node affinity for the name of its
//! node. Absent: roll-outs other than `OnDelete` for a changed template (pods keep their template).

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::template;
use crate::actors::context::ActorContext;
use crate::actors::selector;
use crate::actors::view::Member;
use crate::fields;
use crate::object::{Change, Event, Key};
use crate::server::resources;

/// Taints that all daemons tolerate, with the effect.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// A node was added, removed, or changed what it admits.
pub fn wake(ctx: &mut ActorContext, change: &Change, before: Option<&Value>) {
    let same = |b: &Value| {
        let after = &change.object;
        change.event == Event::Modified
            && b["metadata"]["labels"] == after["metadata"]["labels"]
            && b["spec"]["taints"] == after["spec"]["taints"]
    };
    if before.is_some_and(same) {
        return;
    }
    let all: Vec<Key> = ctx
        .view
        .all(resources::DAEMON_SET)
        .map(|(key, _)| key)
        .collect();
    all.into_iter().for_each(|key| ctx.reconcile(key));
}

/// What was found out about nodes, by DaemonSet: every start of a pod asks for all of them again.
#[derive(Default)]
pub struct Daemons(FxHashMap<Key, DaemonTargets>);

/// Of one DaemonSet.
#[derive(Default)]
struct DaemonTargets {
    /// UID and generation that it was found out for.
    of: (String, Option<i64>),
    /// By name of the node, with the version of it.
    nodes: FxHashMap<Arc<str>, (Arc<Value>, DaemonTarget)>,
}

impl DaemonTargets {
    /// What becomes of a daemon on each node, by name.
    fn fates(
        &mut self,
        ctx: &ActorContext,
        set: &Value,
        tolerations: &[Value],
    ) -> Vec<(Arc<str>, DaemonTarget)> {
        let (uid, generation) = (
            fields::uid(set),
            fields::number(set, "/metadata/generation"),
        );
        if self.of.0 != uid || self.of.1 != generation {
            *self = DaemonTargets {
                of: (uid.to_owned(), generation),
                nodes: FxHashMap::default(),
            };
        }
        let mut fates = Vec::new();
        for (key, node) in ctx.view.all(resources::NODE) {
            let fate = match self.nodes.get(&key.name) {
                Some((seen, fate)) if Arc::ptr_eq(seen, node) => *fate,
                _ => {
                    let fate = target_on(set, tolerations, node);
                    self.nodes.insert(key.name.clone(), (node.clone(), fate));
                    fate
                }
            };
            fates.push((key.name, fate));
        }
        if self.nodes.len() > 2 * fates.len() + 16 {
            self.nodes
                .retain(|name, _| fates.binary_search_by(|(other, _)| other.cmp(name)).is_ok());
        }
        fates
    }
}

impl Daemons {
    /// Makes and deletes pods node by node.
    pub fn reconcile(&mut self, ctx: &mut ActorContext, key: &Key) {
        let Some(set) = ctx.view.get(key).cloned() else {
            return drop(self.0.remove(key));
        };
        let tolerations = tolerations(&set["spec"]["template"]);
        let nodes = self
            .0
            .entry(key.clone())
            .or_default()
            .fates(ctx, &set, &tolerations);
        let wanted = nodes
            .iter()
            .filter(|(_, fate)| *fate == DaemonTarget::Runs)
            .count() as i64;
        let mut running = 0;
        let mut ready = 0;
        let mut steps = Vec::new();
        {
            let mut pods: BTreeMap<&str, Vec<(&Key, &Member)>> = BTreeMap::new();
            for (key, member) in ctx.view.members(resources::POD, fields::uid(&set)) {
                pods.entry(&*member.target).or_default().push((key, member));
                running += i64::from(member.active);
                ready += i64::from(member.active && member.ready);
            }
            for (node, fate) in &nodes {
                let here = pods.remove(&**node).unwrap_or_default();
                on_node(node, *fate, &here, &mut steps);
            }
            // A pod that waits for a node that has gone since waits for nothing.
            let waits = |m: &Member| {
                fields::text(&m.object, "/spec/nodeName").is_empty() && !fields::deleting(&m.object)
            };
            let lost = pods.values().flatten().filter(|(_, m)| waits(m));
            steps.extend(lost.map(|(key, _)| Step::Delete((*key).clone())));
        }
        let deleting = fields::deleting(&set);
        for step in steps.into_iter().filter(|_| !deleting) {
            match step {
                Step::Delete(pod) => ctx.delete(&pod),
                Step::Make(node) => {
                    let name = ctx.name(&format!("{}-", key.name));
                    let pod = pod(&set, &tolerations, &node, &name);
                    ctx.create(resources::POD, pod);
                }
            }
        }
        ctx.set_status(
            key,
            &[
                (
                    "desiredNumberScheduled",
                    json!(if deleting { 0 } else { wanted }),
                ),
                ("currentNumberScheduled", json!(running)),
                ("updatedNumberScheduled", json!(running)),
                ("numberMisscheduled", json!(0)),
                ("numberReady", json!(ready)),
                ("numberAvailable", json!(ready)),
                ("observedGeneration", set["metadata"]["generation"].clone()),
            ],
        );
    }
}

/// What is done for one DaemonSet.
enum Step {
    /// A pod goes.
    Delete(Key),
    /// One is made for a node.
    Make(Arc<str>),
}

/// What becomes of a daemon on a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DaemonTarget {
    Runs,
    /// One that is there may stay, none is made.
    Stays,
    Goes,
}

fn target_on(set: &Value, tolerations: &[Value], node: &Value) -> DaemonTarget {
    if !selector::admits(&set["spec"]["template"]["spec"], node) {
        return DaemonTarget::Goes;
    }
    let kept_out = |effect: &str| {
        let taints = fields::items(node, "/spec/taints")
            .iter()
            .filter(|t| t["effect"] == effect);
        taints
            .into_iter()
            .any(|taint| !tolerations.iter().any(|t| selector::tolerates(t, taint)))
    };
    match (kept_out("NoExecute"), kept_out("NoSchedule")) {
        (true, _) => DaemonTarget::Goes,
        (false, true) => DaemonTarget::Stays,
        (false, false) => DaemonTarget::Runs,
    }
}

fn on_node(node: &Arc<str>, fate: DaemonTarget, here: &[(&Key, &Member)], steps: &mut Vec<Step>) {
    let ended = |m: &Member| fields::ended(&m.object);
    let stays = |m: &Member| !fields::deleting(&m.object);
    let over = here
        .iter()
        .filter(|(_, m)| !m.active && ended(m) && stays(m));
    steps.extend(over.map(|(key, _)| Step::Delete((*key).clone())));
    // A terminating pod is awaited.
    let keep = usize::from(fate != DaemonTarget::Goes);
    let surplus = here.iter().filter(|(_, m)| m.active).skip(keep);
    if fate == DaemonTarget::Runs && here.is_empty() {
        steps.push(Step::Make(node.clone()));
    } else {
        steps.extend(surplus.map(|(key, _)| Step::Delete((*key).clone())));
    }
}

fn tolerations(template: &Value) -> Vec<Value> {
    let own = fields::items(template, "/spec/tolerations").iter().cloned();
    let more =
        TOLERATED.map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect}));
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
    match required
        .get_mut("nodeSelectorTerms")
        .and_then(Value::as_array_mut)
    {
        Some(terms) => terms
            .iter_mut()
            .for_each(|term| term["matchFields"] = named.clone()),
        None => required["nodeSelectorTerms"] = json!([{"matchFields": named}]),
    }
    pod
}

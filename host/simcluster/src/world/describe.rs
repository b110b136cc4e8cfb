//! Describes a cluster in a few lines.

use std::collections::BTreeMap;
use std::fmt::Write;

use longshore_api::quantity::Quantity;
use serde_json::Value;

use super::World;
use crate::fields;
use crate::server::resources;

/// Nodes with their pods, pods that wait, cost.
pub(super) fn describe(world: &World) -> String {
    let pods = world.pods();
    let mut on: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    let mut waiting: Vec<&Value> = Vec::new();
    for pod in &pods {
        match fields::text(pod, "/spec/nodeName") {
            "" => waiting.push(pod),
            node => on.entry(node).or_default().push(pod),
        }
    }
    let mut nodes = world.server.list(resources::NODE);
    // node-10 comes after node-9.
    nodes.sort_by_key(|n| (fields::name(n).len(), fields::name(n).to_owned()));
    let mut text = String::new();
    for node in &nodes {
        let here = on.remove(fields::name(node)).unwrap_or_default();
        let _ = writeln!(text, "{}", node_line(node, &here));
        list(&mut text, &here);
    }
    for (node, here) in on {
        let _ = writeln!(text, "{node} (no such node)");
        list(&mut text, &here);
    }
    if !waiting.is_empty() {
        let _ = writeln!(text, "pending");
        for pod in waiting {
            let why = fields::items(pod, "/status/conditions")
                .iter()
                .find(|c| c["type"] == "PodScheduled");
            let why = why.map_or("", |c| fields::text(c, "/message"));
            let _ = writeln!(text, "{}", format!("  {} {why}", pod_name(pod)).trim_end());
        }
    }
    let _ = writeln!(text, "{:.4} USD/h", world.cloud.cost_per_hour());
    text
}

fn list(text: &mut String, pods: &[&Value]) {
    for pod in pods {
        let _ = writeln!(text, "  {}{}", pod_name(pod), pod_state(pod));
    }
}

fn pod_name(pod: &Value) -> String {
    match fields::text(pod, "/metadata/namespace") {
        "default" => fields::name(pod).to_owned(),
        namespace => format!("{namespace}/{}", fields::name(pod)),
    }
}

fn pod_state(pod: &Value) -> String {
    if fields::deleting(pod) {
        return " leaving".to_owned();
    }
    match fields::text(pod, "/status/phase") {
        "Running" if fields::ready(pod) => String::new(),
        "Running" => " not ready".to_owned(),
        "" | "Pending" => " starting".to_owned(),
        ended => format!(" {}", ended.to_lowercase()),
    }
}

fn node_line(node: &Value, pods: &[&Value]) -> String {
    let labels = [
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "karpenter.sh/capacity-type",
    ];
    let mut words: Vec<String> = vec![fields::name(node).to_owned()];
    words.extend(
        labels
            .iter()
            .filter_map(|l| fields::label(node, l))
            .map(str::to_owned),
    );
    let used: i64 = pods
        .iter()
        .filter(|p| !fields::ended(p))
        .map(|p| cpu(p))
        .sum();
    let has = fields::text(node, "/status/allocatable/cpu");
    let has = Quantity::parse(has)
        .ok()
        .and_then(|q| q.milli().ok())
        .unwrap_or(0);
    words.push(format!("cpu {}/{}", cores(used), cores(has)));
    if fields::condition(node, "Ready") != "True" {
        words.push(
            if fields::condition(node, "Ready") == "Unknown" {
                "unreachable"
            } else {
                "not ready"
            }
            .to_owned(),
        );
    }
    if fields::deleting(node) {
        words.push("leaving".to_owned());
    }
    let taints = fields::items(node, "/spec/taints").iter();
    let shown = taints.filter(|t| !fields::text(t, "/key").starts_with("node.kubernetes.io/"));
    words.extend(
        shown.map(|t| format!("{}:{}", fields::text(t, "/key"), fields::text(t, "/effect"))),
    );
    words.join(" ")
}

/// Thousandths of a core that the containers of a pod ask for.
fn cpu(pod: &Value) -> i64 {
    let asked = fields::items(pod, "/spec/containers")
        .iter()
        .map(|c| fields::text(c, "/resources/requests/cpu"));
    asked
        .filter_map(|text| Quantity::parse(text).ok()?.milli().ok())
        .sum()
}

fn cores(milli: i64) -> String {
    let text = format!("{:.3}", milli as f64 / 1000.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

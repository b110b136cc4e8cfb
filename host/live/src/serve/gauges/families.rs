//! Every gauge of the cluster's state: name, help text, number of rows, and how to write one.

use std::collections::BTreeMap;

use longshore_api::crd::{Condition, Time, Timestamp};
use longshore_api::{labels, quantity};
use longshore_core::model::{ResourceId, Resources};

use super::line::Lines;
use crate::metrics::resource_type;
use crate::observe::pod_latency::{self, PodTimes};
use crate::observe::state::{MetricsSnapshot, NodeTotals, OfferingRow, Phase, PodRow};

/// Gauges of one name.
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub rows: fn(&MetricsSnapshot) -> usize,
    pub write: fn(&MetricsSnapshot, usize, &mut Lines<'_>),
}

const fn family(
    name: &'static str,
    help: &'static str,
    rows: fn(&MetricsSnapshot) -> usize,
    write: fn(&MetricsSnapshot, usize, &mut Lines<'_>),
) -> Family {
    Family {
        name,
        help,
        rows,
        write,
    }
}

/// All of them, in the order in which they are written.
pub const FAMILIES: [Family; 33] = [
    family(
        "karpenter_nodes_allocatable",
        "Allocatable resources of a Node.",
        nodes,
        |p, at, out| {
            let node = &p.nodes[at];
            resources(p, node, written(&node.view.allocatable), out);
        },
    ),
    family(
        "karpenter_nodes_system_overhead",
        "Capacity minus allocatable of a Node.",
        nodes,
        |p, at, out| {
            let view = &p.nodes[at].view;
            let allocatable =
                |name: &str| view.allocatable.get(name).map_or(0.0, |text| number(text));
            let kept = written(&view.capacity).map(|(name, has)| (name, has - allocatable(name)));
            resources(p, &p.nodes[at], kept, out);
        },
    ),
    family(
        "karpenter_nodes_total_pod_requests",
        "Requests of the pods on a Node, including daemons.",
        nodes,
        |p, at, out| {
            resources(p, &p.nodes[at], amounts(p, &p.nodes[at].pods.requests), out);
        },
    ),
    family(
        "karpenter_nodes_total_pod_limits",
        "Limits of the pods on a Node, including daemons.",
        nodes,
        |p, at, out| {
            resources(p, &p.nodes[at], amounts(p, &p.nodes[at].pods.limits), out);
        },
    ),
    family(
        "karpenter_nodes_total_daemon_requests",
        "Requests of the daemons on a Node.",
        nodes,
        |p, at, out| {
            resources(
                p,
                &p.nodes[at],
                amounts(p, &p.nodes[at].daemons.requests),
                out,
            );
        },
    ),
    family(
        "karpenter_nodes_total_daemon_limits",
        "Limits of the daemons on a node.",
        nodes,
        |p, at, out| {
            resources(
                p,
                &p.nodes[at],
                amounts(p, &p.nodes[at].daemons.limits),
                out,
            );
        },
    ),
    family(
        "karpenter_nodes_current_lifetime_seconds",
        "Age of a node.",
        nodes,
        |p, at, out| {
            let node = &p.nodes[at];
            if let Some(age) = node.view.created.as_ref().map(|at| since(p, at)) {
                out.put(of_node(p, node), age);
            }
        },
    ),
    family(
        "karpenter_cluster_utilization_percent",
        "Pod requests in percent of allocatable, over all Nodes.",
        one,
        utilization,
    ),
    family(
        "karpenter_nodepools_cost_total",
        "USD per hour of what a NodePool has launched.",
        one,
        |p, _, out| {
            p.costs
                .iter()
                .for_each(|(pool, cost)| out.put([("nodepool", pool.as_str())], *cost));
        },
    ),
    family(
        "karpenter_pods_state",
        "1 for each pod; its state is in the labels.",
        pods,
        state_of_pod,
    ),
    family(
        "karpenter_pods_unbound_time_seconds",
        "Age of a pod without a node.",
        pods,
        |p, at, out| {
            let pod = &p.pods[at];
            unbound(pod, is_unstarted(pod).then(|| age(p, pod)), out);
        },
    ),
    family(
        "karpenter_pods_unstarted_time_seconds",
        "Age of a pod that does not run yet.",
        pods,
        |p, at, out| {
            let pod = &p.pods[at];
            unstarted(pod, is_unstarted(pod).then(|| age(p, pod)), out);
        },
    ),
    family(
        "karpenter_pods_provisioning_unbound_time_seconds",
        "For how long a round has had a place for a pod without a node.",
        pods,
        |p, at, out| unbound(&p.pods[at], of_decision(p, at, |d| d.placed), out),
    ),
    family(
        "karpenter_pods_provisioning_unstarted_time_seconds",
        "For how long a round has had a place for a pod that does not run yet.",
        pods,
        |p, at, out| unstarted(&p.pods[at], of_decision(p, at, |d| d.placed), out),
    ),
    family(
        "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
        "For how long a pod waits that no round has decided about.",
        pods,
        |p, at, out| {
            let pod = &p.pods[at];
            let undecided = of_decision(p, at, |d| d.decided.is_none().then_some(d.seen));
            unstarted(pod, undecided.filter(|_| pod.node.is_none()), out);
        },
    ),
    family(
        "karpenter_scheduler_queue_depth",
        "Pending pods that no node was planned for.",
        one,
        |p, _, out| out.put([("controller", "provisioner")], p.queue as f64),
    ),
    family(
        "karpenter_scheduler_unfinished_work_seconds",
        "For how long a round is deciding.",
        one,
        |p, _, out| {
            out.put(
                [("controller", "provisioner")],
                p.deciding.map_or(0.0, |span| span.as_secs_f64()),
            )
        },
    ),
    family(
        "operator_nodeclaim_status_condition_count",
        "1 for each condition of a NodeClaim.",
        claims,
        |p, at, out| conditions(of_claim(p, at), out, |_| 1.0),
    ),
    family(
        "operator_nodeclaim_status_condition_current_status_seconds",
        "For how long a condition of a NodeClaim has been so.",
        claims,
        |p, at, out| conditions(of_claim(p, at), out, |c| since(p, &c.last_transition_time)),
    ),
    family(
        "operator_nodepool_status_condition_count",
        "1 for each condition of a NodePool.",
        pools,
        |p, at, out| conditions(of_pool(p, at), out, |_| 1.0),
    ),
    family(
        "operator_nodepool_status_condition_current_status_seconds",
        "For how long a condition of a NodePool has been so.",
        pools,
        |p, at, out| conditions(of_pool(p, at), out, |c| since(p, &c.last_transition_time)),
    ),
    family(
        "operator_node_status_condition_count",
        "1 for each condition of a Node.",
        nodes,
        |p, at, out| conditions(of_view(p, at), out, |_| 1.0),
    ),
    family(
        "operator_node_status_condition_current_status_seconds",
        "For how long a condition of a Node has been so.",
        nodes,
        |p, at, out| conditions(of_view(p, at), out, |c| since(p, &c.last_transition_time)),
    ),
    family(
        "operator_nodeclaim_termination_current_time_seconds",
        "Seconds since the deletion of a NodeClaim was requested.",
        claims,
        |p, at, out| {
            let meta = &p.claims[at].metadata;
            ending(
                p,
                meta.name.as_deref(),
                meta.deletion_timestamp.as_ref(),
                out,
            );
        },
    ),
    family(
        "operator_nodepool_termination_current_time_seconds",
        "Seconds since the deletion of a NodePool was requested.",
        pools,
        |p, at, out| {
            let meta = &p.pools[at].metadata;
            ending(
                p,
                meta.name.as_deref(),
                meta.deletion_timestamp.as_ref(),
                out,
            );
        },
    ),
    family(
        "operator_node_termination_current_time_seconds",
        "Seconds since the deletion of a Node was requested.",
        nodes,
        |p, at, out| {
            let view = &p.nodes[at].view;
            ending(p, Some(&view.name), view.deletion.as_ref(), out);
        },
    ),
    family(
        "operator_ec2nodeclass_status_condition_count",
        "1 for each condition of an EC2NodeClass.",
        classes,
        |p, at, out| conditions(of_class(p, at), out, |_| 1.0),
    ),
    family(
        "operator_ec2nodeclass_status_condition_current_status_seconds",
        "For how long a condition of an EC2NodeClass has been so.",
        classes,
        |p, at, out| conditions(of_class(p, at), out, |c| since(p, &c.last_transition_time)),
    ),
    family(
        "operator_ec2nodeclass_termination_current_time_seconds",
        "Seconds since the deletion of an EC2NodeClass was requested.",
        classes,
        |p, at, out| {
            let class = &p.classes[at];
            ending(p, Some(&class.name), class.deletion.as_ref(), out);
        },
    ),
    family(
        "karpenter_cloudprovider_instance_type_cpu_cores",
        "Cores of an instance type.",
        types,
        |p, at, out| {
            let of = &p.types.0[at];
            out.put([("instance_type", &*of.name)], of.cores);
        },
    ),
    family(
        "karpenter_cloudprovider_instance_type_memory_bytes",
        "Memory of an instance type.",
        types,
        |p, at, out| {
            let of = &p.types.0[at];
            out.put([("instance_type", &*of.name)], of.bytes);
        },
    ),
    family(
        "karpenter_cloudprovider_instance_type_offering_available",
        "1 for an offering that any NodeClass can be launched with, 0 for others.",
        types,
        |p, at, out| offerings(p, at, out, |one| f64::from(u8::from(one.available))),
    ),
    family(
        "karpenter_cloudprovider_instance_type_offering_price_estimate",
        "USD per hour of an offering, after NodeOverlays.",
        types,
        |p, at, out| offerings(p, at, out, |one| one.price),
    ),
];

fn classes(p: &MetricsSnapshot) -> usize {
    p.classes.len()
}

fn types(p: &MetricsSnapshot) -> usize {
    p.types.0.len()
}

/// A line for each offering of an instance type.
fn offerings(
    p: &MetricsSnapshot,
    at: usize,
    out: &mut Lines<'_>,
    value: impl Fn(&OfferingRow) -> f64,
) {
    let of = &p.types.0[at];
    for one in &of.offerings {
        let labels = [
            ("instance_type", &*of.name),
            ("capacity_type", &*one.capacity_type),
            ("zone", &*one.zone),
        ];
        out.put(labels, value(one));
    }
}

fn nodes(p: &MetricsSnapshot) -> usize {
    p.nodes.len()
}

fn pods(p: &MetricsSnapshot) -> usize {
    p.pods.len()
}

fn claims(p: &MetricsSnapshot) -> usize {
    p.claims.len()
}

fn pools(p: &MetricsSnapshot) -> usize {
    p.pools.len()
}

fn one(_: &MetricsSnapshot) -> usize {
    1
}

/// A line for each resource of a node.
fn resources<'a>(
    p: &MetricsSnapshot,
    node: &NodeTotals,
    amounts: impl Iterator<Item = (&'a str, f64)>,
    out: &mut Lines<'_>,
) {
    for (resource, amount) in amounts {
        out.put(
            of_node(p, node).chain([("resource_type", &*resource_type(resource))]),
            amount,
        );
    }
}

/// The labels that identify a node.
fn of_node<'a>(
    p: &'a MetricsSnapshot,
    node: &'a NodeTotals,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let view = &*node.view;
    let label = |key: &str| view.labels.get(key).map_or("", String::as_str);
    let own = [
        ("node_name", view.name.as_str()),
        ("nodepool", label(labels::NODEPOOL)),
        ("managed", truth(node.managed)),
    ];
    own.into_iter().chain(
        p.keys
            .iter()
            .map(move |(key, name)| (name.as_str(), label(key))),
    )
}

fn of_pod(pod: &PodRow) -> [(&str, &str); 2] {
    let (namespace, name) = pod.name.split_once('/').unwrap_or(("", &pod.name));
    [("namespace", namespace), ("name", name)]
}

/// Seconds since a time in the decision about a pod that does not run yet.
fn of_decision(
    p: &MetricsSnapshot,
    at: usize,
    time: impl Fn(&PodTimes) -> Option<Timestamp>,
) -> Option<f64> {
    let pod = Some(&p.pods[at]).filter(|pod| is_unstarted(pod))?;
    time(p.pod_latency.get(&pod.name)?).map(|at| pod_latency::seconds(at, p.now))
}

fn is_unstarted(pod: &PodRow) -> bool {
    matches!(pod.phase, Phase::Pending | Phase::Unknown)
}

/// A line with seconds, if any, of a pod that does not run yet.
fn unstarted(pod: &PodRow, seconds: Option<f64>, out: &mut Lines<'_>) {
    seconds
        .into_iter()
        .for_each(|seconds| out.put(of_pod(pod), seconds));
}

/// The same where it has no node either.
fn unbound(pod: &PodRow, seconds: Option<f64>, out: &mut Lines<'_>) {
    if let Some(seconds) = seconds.filter(|_| pod.node.is_none()) {
        out.put(
            of_pod(pod)
                .into_iter()
                .chain([("dynamic_resources", truth(pod.dynamic))]),
            seconds,
        );
    }
}

fn state_of_pod(p: &MetricsSnapshot, at: usize, out: &mut Lines<'_>) {
    let pod = &p.pods[at];
    let name = pod.node.as_deref().unwrap_or_default();
    let node = p
        .nodes
        .binary_search_by(|node| node.view.name.as_str().cmp(name))
        .ok()
        .map(|at| &p.nodes[at]);
    let label = |key: &str| {
        node.and_then(|node| node.view.labels.get(key))
            .map_or("", String::as_str)
    };
    let owner = p.owners.get(pod.owner as usize).map_or("", String::as_str);
    let [namespace, own] = of_pod(pod);
    let labels = [
        own,
        namespace,
        ("owner", owner),
        ("node", name),
        ("scheduled", truth(pod.node.is_some())),
        ("nodepool", label(labels::NODEPOOL)),
        ("zone", label(labels::ZONE)),
        ("arch", label(labels::ARCH)),
        ("capacity_type", label(labels::CAPACITY_TYPE)),
        ("instance_type", label(labels::INSTANCE_TYPE)),
        ("phase", pod.phase.text()),
        ("ready", truth(pod.ready)),
        ("managed", truth(node.is_some_and(|node| node.managed))),
    ];
    out.put(labels, 1.0);
}

fn utilization(p: &MetricsSnapshot, _: usize, out: &mut Lines<'_>) {
    let mut there: BTreeMap<&str, f64> = BTreeMap::new();
    let mut asked: BTreeMap<&str, f64> = BTreeMap::new();
    for node in &p.nodes {
        written(&node.view.allocatable)
            .for_each(|(name, amount)| *there.entry(name).or_default() += amount);
        amounts(p, &node.pods.requests)
            .for_each(|(name, amount)| *asked.entry(name).or_default() += amount);
    }
    for (resource, there) in there.into_iter().filter(|(_, there)| *there > 0.0) {
        let share = 100.0 * asked.get(resource).copied().unwrap_or(0.0) / there;
        out.put([("resource_type", &*resource_type(resource))], share);
    }
}

/// An object and how it is.
type Conditions<'a> = (Option<&'a str>, &'a [Condition]);

fn of_claim(p: &MetricsSnapshot, at: usize) -> Conditions<'_> {
    let claim = &p.claims[at];
    (
        claim.metadata.name.as_deref(),
        claim
            .status
            .as_ref()
            .map_or(&[], |status| &status.conditions),
    )
}

fn of_pool(p: &MetricsSnapshot, at: usize) -> Conditions<'_> {
    let pool = &p.pools[at];
    (
        pool.metadata.name.as_deref(),
        pool.status
            .as_ref()
            .map_or(&[], |status| &status.conditions),
    )
}

fn of_class(p: &MetricsSnapshot, at: usize) -> Conditions<'_> {
    let class = &p.classes[at];
    (Some(&class.name), &class.conditions)
}

fn of_view(p: &MetricsSnapshot, at: usize) -> Conditions<'_> {
    let view = &p.nodes[at].view;
    (Some(&view.name), &view.conditions)
}

fn conditions((name, all): Conditions<'_>, out: &mut Lines<'_>, value: impl Fn(&Condition) -> f64) {
    for c in all {
        let labels = [
            ("name", name.unwrap_or_default()),
            ("type", &c.type_),
            ("status", c.status.text()),
            ("reason", &c.reason),
        ];
        out.put(labels, value(c));
    }
}

fn ending(p: &MetricsSnapshot, name: Option<&str>, since_when: Option<&Time>, out: &mut Lines<'_>) {
    if let Some(at) = since_when {
        out.put([("name", name.unwrap_or_default())], since(p, at));
    }
}

/// Seconds since a time, never less than none.
fn since(p: &MetricsSnapshot, at: &Time) -> f64 {
    (p.now.as_second() - at.0.as_second()).max(0) as f64
}

fn age(p: &MetricsSnapshot, pod: &PodRow) -> f64 {
    (p.now.as_second() - pod.created).max(0) as f64
}

fn truth(yes: bool) -> &'static str {
    if yes { "true" } else { "false" }
}

/// Amounts as they are written in a node's status, in their own unit.
fn written(all: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, f64)> {
    all.iter().map(|(name, text)| (name.as_str(), number(text)))
}

fn number(text: &str) -> f64 {
    quantity::Quantity::parse(text)
        .and_then(|q| q.milli())
        .unwrap_or(0) as f64
        / 1000.0
}

/// Amounts that were added up, in their own unit: cores of `cpu`.
fn amounts<'a>(p: &'a MetricsSnapshot, all: &'a Resources) -> impl Iterator<Item = (&'a str, f64)> {
    all.iter().map(|(resource, amount)| {
        let other = |name| p.others.get(&name).map_or("other", String::as_str);
        let unit = if resource == ResourceId::Cpu {
            1000.0
        } else {
            1.0
        };
        (
            resource.known_name().unwrap_or_else(other),
            amount as f64 / unit,
        )
    })
}

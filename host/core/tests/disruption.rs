//! Disruption on small clusters: rules one by one, then what the search finds against every subset.
#![allow(missing_docs)]

use std::sync::Arc;

use longshore_api::manifests::Reader;
use longshore_core::disrupt::budgets::Budgets;
use longshore_core::disrupt::costs::{MoveCost, price_of};
use longshore_core::disrupt::methods::{self, Options, Round};
use longshore_core::disrupt::paper::{self, Serial};
use longshore_core::disrupt::proposals::{self, Proposal, To};
use longshore_core::disrupt::verdicts::{self, Method, Stays};
use longshore_core::ids::NodeIx;
use longshore_core::model::ClusterObjects;
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;
use serde_json::{Value, json};

const TIME: &str = "2026-11-24T12:00:00Z";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Types `c1`, `c2`, `c4` and `c8` with so many cores, 4 GiB a core, at a dollar a core in two zones,
/// on demand; `spot` of 4 cores for half of it.
fn types() -> Value {
    let one = |name: &str, cores: u32, price: f64, capacity: &str| {
        let offering = |zone: &str| {
            json!({"Price": price, "Available": true, "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity]},
                {"key": ZONE, "operator": "In", "values": [zone]}]})
        };
        json!({"name": name, "architecture": "amd64", "operatingSystems": ["linux"],
            "resources": {"cpu": cores.to_string(), "memory": format!("{}Gi", 4 * cores), "pods": "110",
                "ephemeral-storage": "20Gi"},
            "offerings": [offering("a"), offering("b")]})
    };
    json!([
        one("c1", 1, 1.0, "on-demand"),
        one("c2", 2, 2.0, "on-demand"),
        one("c4", 4, 4.0, "on-demand"),
        one("c8", 8, 8.0, "on-demand"),
        one("s4", 4, 2.0, "spot"),
    ])
}

fn pool() -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default", "uid": "pool"},
        "spec": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s",
                "budgets": [{"nodes": "100%"}]},
            "template": {"spec": {"expireAfter": "Never",
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}}}})
}

/// A node with its NodeClaim.
fn node(name: &str, kind: &str, zone: &str) -> Vec<Value> {
    let cores: u32 = kind[1..].parse().unwrap();
    let capacity = if kind.starts_with('s') {
        "spot"
    } else {
        "on-demand"
    };
    let labels = json!({"karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true", "karpenter.sh/capacity-type": capacity, ZONE: zone,
        "kubernetes.io/hostname": name, "node.kubernetes.io/instance-type": kind,
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"});
    let amounts =
        json!({"cpu": cores.to_string(), "memory": format!("{}Gi", 4 * cores), "pods": "110"});
    let is = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": TIME, "reason": kind, "message": ""});
    let conditions: Vec<Value> = [
        "Launched",
        "Registered",
        "Initialized",
        "Consolidatable",
        "Ready",
    ]
    .map(is)
    .to_vec();
    vec![
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": format!("claim-{name}"), "uid": format!("c-{name}"), "labels": labels,
                "creationTimestamp": TIME},
            "spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": []},
            "status": {"providerID": format!("kwok://{name}"), "nodeName": name, "capacity": amounts,
                "allocatable": amounts, "conditions": conditions}}),
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": format!("n-{name}"), "labels": labels, "creationTimestamp": TIME},
            "spec": {"providerID": format!("kwok://{name}")},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [is("Ready")]}}),
    ]
}

fn pod(name: &str, app: &str, milli: u32, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("p-{name}"), "labels": {"app": app},
            "creationTimestamp": TIME,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app,
                "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "app",
            "resources": {"requests": {"cpu": format!("{milli}m"), "memory": "64Mi"}}}]},
        "status": {"phase": "Running", "startTime": TIME}})
}

fn objects(items: &[Value]) -> ClusterObjects {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let mut reader = Reader::new();
    reader.read("cluster.json", list.as_bytes());
    let (mut objects, problems) = reader.finish();
    assert!(problems.list.is_empty(), "{problems}");
    let bytes = types().to_string();
    let (catalogue, problems) =
        longshore_kwok::catalogue::parse("types.json", bytes.as_bytes(), &mut objects.names);
    assert!(problems.list.is_empty(), "{problems}");
    objects.catalogue = catalogue;
    objects.now = longshore_api::time::timestamp(TIME).unwrap();
    objects
}

fn snapshot(items: &[Value]) -> Snapshot {
    Snapshot::new(Arc::new(objects(items)))
}

fn round(snapshot: &Snapshot) -> Round {
    let options = Options {
        move_cost: Some(MoveCost::Amount(0.01)),
        explain: true,
        ..Options::default()
    };
    methods::round(snapshot, &ByPrice, options, Stop::never())
}

fn names(snapshot: &Snapshot, proposal: &Proposal) -> Vec<String> {
    let name = |node: &NodeIx| {
        snapshot
            .world
            .names
            .text(snapshot.nodes[node.0 as usize].name)
    };
    proposal
        .nodes
        .iter()
        .map(|node| name(node).to_owned())
        .collect()
}

fn cost(snapshot: &Snapshot) -> f64 {
    snapshot
        .nodes
        .iter()
        .filter_map(|node| price_of(snapshot, node))
        .sum()
}

/// Two nodes of 4 cores, a pod of less than a core on each.
fn two() -> Vec<Value> {
    let mut items = vec![pool()];
    items.extend(node("one", "c4", "a"));
    items.extend(node("two", "c4", "a"));
    items.push(pod("web-1", "web", 900, "one"));
    items.push(pod("web-2", "web", 900, "two"));
    items
}

#[test]
fn two_nodes_become_one_that_is_cheaper() {
    let snapshot = snapshot(&two());
    let round = round(&snapshot);
    let now = round.now();
    proposals::check(&snapshot, &now).unwrap();
    let (after, carried) = paper::carry_out(&snapshot, &now, &mut Serial::default());
    let after = Snapshot::new(Arc::new(after));
    assert_eq!(
        (cost(&snapshot), cost(&after)),
        (8.0, 2.0),
        "both pods fit a node of 2 cores"
    );
    assert_eq!(carried.moved.len(), 2);
    assert!(round.lower_bound.unwrap() <= 2.0 + 0.02 + 0.015 + 1e-9);
    assert!(super_round_is_empty(&after));
}

fn super_round_is_empty(snapshot: &Snapshot) -> bool {
    round(snapshot).proposals.is_empty()
}

#[test]
fn an_empty_node_goes_whatever_moves_cost() {
    let mut items = vec![pool()];
    items.extend(node("empty", "c4", "a"));
    let snapshot = snapshot(&items);
    let options = Options {
        move_cost: Some(MoveCost::Amount(1e6)),
        ..Options::default()
    };
    let now = methods::round(&snapshot, &ByPrice, options, Stop::never()).now();
    assert_eq!((now.len(), now[0].method), (1, Method::Emptiness));
    proposals::check(&snapshot, &now).unwrap();
}

#[test]
fn what_moves_cost_is_threshold_and_hysteresis() {
    let snapshot = snapshot(&two());
    let at = |amount| {
        let options = Options {
            move_cost: Some(MoveCost::Amount(amount)),
            ..Options::default()
        };
        methods::round(&snapshot, &ByPrice, options, Stop::never())
            .now()
            .len()
    };
    assert_eq!(
        [at(3.9), at(4.1)].map(|proposals| proposals > 0),
        [true, false],
        "one pod for one node"
    );
}

/// Why consolidation leaves node `one`, after a change of the objects.
fn refusal(method: Method, change: impl FnOnce(&mut Vec<Value>)) -> Option<Stays> {
    let mut items = two();
    change(&mut items);
    let snapshot = snapshot(&items);
    let candidates = verdicts::candidates(&snapshot, &Budgets::new(&snapshot.world));
    let one = snapshot
        .nodes
        .iter()
        .position(|n| snapshot.world.names.text(n.name) == "one");
    let found = candidates[one.unwrap()].refusal(method).cloned();
    if found.is_some() {
        let proposed = round(&snapshot).now();
        let mine =
            |proposal: &&Proposal| proposal.method == method || proposal.reason == method.reason();
        let nodes: Vec<String> = proposed
            .iter()
            .filter(mine)
            .flat_map(|p| names(&snapshot, p))
            .collect();
        assert!(
            !nodes.contains(&"one".to_owned()),
            "{found:?} and proposed all the same"
        );
    }
    found
}

fn of<'v>(items: &'v mut [Value], kind: &str, name: &str) -> &'v mut Value {
    let is = |item: &&mut Value| item["kind"] == kind && item["metadata"]["name"] == name;
    items.iter_mut().find(is).unwrap()
}

#[test]
fn each_rule_keeps_a_node() {
    use Method::{Drift, Emptiness, MultiNode};
    let multi = |change: &dyn Fn(&mut Vec<Value>)| refusal(MultiNode, |items| change(items));
    assert_eq!(multi(&|_| ()), None);
    assert_eq!(refusal(Emptiness, |_| ()), Some(Stays::NotEmpty(1)));
    assert_eq!(refusal(Drift, |_| ()), Some(Stays::NotDrifted));
    let annotate = |kind: &'static str, name: &'static str, value: &'static str| {
        move |items: &mut Vec<Value>| {
            of(items, kind, name)["metadata"]["annotations"] =
                json!({"karpenter.sh/do-not-disrupt": value});
        }
    };
    assert_eq!(
        multi(&annotate("Node", "one", "true")),
        Some(Stays::DoNotDisrupt)
    );
    assert_eq!(
        multi(&annotate("NodeClaim", "claim-one", "true")),
        Some(Stays::DoNotDisrupt)
    );
    assert_eq!(
        multi(&annotate("Node", "one", "yes")),
        None,
        "only true counts"
    );
    assert!(matches!(
        multi(&annotate("Pod", "web-1", "true")),
        Some(Stays::PodDoNotDisrupt(_, None))
    ));
    assert!(matches!(
        multi(&annotate("Pod", "web-1", "1h")),
        Some(Stays::PodDoNotDisrupt(_, Some(_)))
    ));
    let pool = |key: &'static str, value: Value| {
        move |items: &mut Vec<Value>| {
            of(items, "NodePool", "default")["spec"]["disruption"][key] = value.clone();
        }
    };
    assert_eq!(
        multi(&pool("consolidateAfter", json!("Never"))),
        Some(Stays::ConsolidationOff)
    );
    assert_eq!(
        multi(&pool("consolidationPolicy", json!("WhenEmpty"))),
        Some(Stays::OnlyWhenEmpty)
    );
    let none = json!([{"nodes": "100%"}, {"nodes": "0", "reasons": ["Underutilized"]}]);
    assert_eq!(
        multi(&pool("budgets", none.clone())),
        Some(Stays::NodePoolBudget(1))
    );
    assert_eq!(
        refusal(Emptiness, pool("budgets", none)),
        Some(Stays::NotEmpty(1))
    );
    let window = |schedule: &str| json!([{"nodes": "0", "schedule": schedule, "duration": "2h"}]);
    assert_eq!(
        multi(&pool("budgets", window("0 11 * * *"))),
        Some(Stays::NodePoolBudget(0))
    );
    assert_eq!(
        multi(&pool("budgets", window("0 9 * * *"))),
        None,
        "its window is over"
    );
    let condition = |items: &mut Vec<Value>| {
        let conditions = &mut of(items, "NodeClaim", "claim-one")["status"]["conditions"];
        conditions
            .as_array_mut()
            .unwrap()
            .retain(|c| c["type"] != "Consolidatable");
    };
    assert_eq!(multi(&condition), Some(Stays::NotConsolidatable));
    let nominated = |items: &mut Vec<Value>| {
        let mut waiting = pod("new", "new", 100, "");
        waiting["spec"].as_object_mut().unwrap().remove("nodeName");
        waiting["status"] = json!({"phase": "Pending", "nominatedNodeName": "one"});
        items.push(waiting);
    };
    assert!(matches!(multi(&nominated), Some(Stays::Nominated(_))));
    let unknown = |items: &mut Vec<Value>| {
        for kind in [("Node", "one"), ("NodeClaim", "claim-one")] {
            of(items, kind.0, kind.1)["metadata"]["labels"]["node.kubernetes.io/instance-type"] =
                json!("gone");
        }
    };
    assert_eq!(multi(&unknown), Some(Stays::UnknownOffering));
}

fn budget(name: &str, allowed: i32) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 2}})
}

#[test]
fn pod_disruption_budgets_keep_a_node() {
    let with = |budgets: Vec<Value>| refusal(Method::MultiNode, |items| items.extend(budgets));
    assert_eq!(with(vec![budget("pdb", 1)]), None);
    assert!(matches!(
        with(vec![budget("pdb", 0)]),
        Some(Stays::PodBudget(_, 0))
    ));
    let two = vec![budget("a", 1), budget("b", 1)];
    assert!(matches!(with(two), Some(Stays::SeveralPodBudgets(_))));
}

#[test]
fn a_budget_bounds_how_many_nodes_go_and_the_next_round_goes_on() {
    let mut items = vec![pool()];
    items[0]["spec"]["disruption"]["budgets"] = json!([{"nodes": "25%"}]);
    for at in 0..8 {
        items.extend(node(&format!("n{at}"), "c4", ["a", "b"][at % 2]));
        items.push(pod(&format!("web-{at}"), "web", 500, &format!("n{at}")));
    }
    let mut current = snapshot(&items);
    let mut serial = Serial::default();
    let mut rounds = 0;
    loop {
        let now = round(&current).now();
        if now.is_empty() {
            break;
        }
        let nodes: usize = now.iter().map(|proposal| proposal.nodes.len()).sum();
        let most = current.nodes.len().div_ceil(4);
        assert!(nodes <= most, "{nodes} of {} nodes go", current.nodes.len());
        proposals::check(&current, &now).unwrap();
        current = Snapshot::new(Arc::new(paper::carry_out(&current, &now, &mut serial).0));
        rounds += 1;
        assert!(rounds < 30, "it ends");
    }
    assert!(
        rounds > 2 && cost(&current) <= 5.0,
        "{rounds} rounds, {} USD/h",
        cost(&current)
    );
}

#[test]
fn a_drifted_node_is_replaced_whatever_it_costs_and_consolidation_waits() {
    let mut items = two();
    let conditions = &mut of(&mut items, "NodeClaim", "claim-one")["status"]["conditions"];
    let drifted = json!({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted", "message": "",
        "lastTransitionTime": TIME});
    conditions.as_array_mut().unwrap().push(drifted);
    let snapshot = snapshot(&items);
    let now = round(&snapshot).now();
    proposals::check(&snapshot, &now).unwrap();
    assert_eq!(now.len(), 1);
    assert_eq!(
        (now[0].method, names(&snapshot, &now[0])),
        (Method::Drift, vec!["one".to_owned()])
    );
}

#[test]
fn spot_nodes_alone_are_not_replaced_by_a_spot_node_without_the_gate() {
    let mut items = vec![pool()];
    items[0]["spec"]["template"]["spec"]["requirements"] = json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]);
    let many = node("one", "s4", "a")
        .into_iter()
        .chain(node("two", "s4", "a"));
    items.extend(many);
    // Neither holds both, and a third spot node would be no cheaper than the two.
    items.push(pod("web-1", "web", 3000, "one"));
    items.push(pod("web-2", "web", 3000, "two"));
    let now = round(&snapshot(&items)).now();
    assert!(now.is_empty(), "{now:?}");
}

#[test]
fn pods_that_must_spread_keep_their_zone() {
    let mut items = vec![pool()];
    for (at, zone) in ["a", "b", "a", "b"].into_iter().enumerate() {
        items.extend(node(&format!("n{at}"), "c4", zone));
        let mut web = pod(&format!("web-{at}"), "web", 400, &format!("n{at}"));
        web["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]);
        items.push(web);
    }
    let snapshot = snapshot(&items);
    let now = round(&snapshot).now();
    proposals::check(&snapshot, &now).unwrap();
    let after = Snapshot::new(Arc::new(
        paper::carry_out(&snapshot, &now, &mut Serial::default()).0,
    ));
    let zone = after.world.names.get(ZONE).unwrap();
    let mut pods: Vec<(String, usize)> = Vec::new();
    for node in &after.nodes {
        let zone = after
            .world
            .names
            .text(node.labels.get(zone).unwrap())
            .to_owned();
        match pods.iter_mut().find(|(known, _)| *known == zone) {
            Some((_, count)) => *count += node.pods.len(),
            None => pods.push((zone, node.pods.len())),
        }
    }
    pods.sort();
    assert_eq!(pods, [("a".to_owned(), 2), ("b".to_owned(), 2)]);
    assert!(cost(&after) <= 2.0, "{}", cost(&after));
}

#[test]
fn the_check_finds_what_is_wrong() {
    let snapshot = snapshot(&two());
    let good = round(&snapshot).now();
    let wrong = |change: &dyn Fn(&mut Vec<Proposal>)| {
        let mut all = good.clone();
        change(&mut all);
        proposals::check(&snapshot, &all)
            .err()
            .map(|found| found[0].invariant)
    };
    use longshore_core::check::Invariant;
    assert_eq!(wrong(&|_| ()), None);
    let accounting = Some(Invariant::Accounting);
    assert_eq!(
        wrong(&|all| _ = all[0].moves.pop()),
        accounting,
        "a pod without a place"
    );
    assert_eq!(
        wrong(&|all| all[0].moves[0].to = To::Node(NodeIx(0))),
        accounting,
        "onto a node that goes"
    );
    assert_eq!(
        wrong(&|all| all.push(all[0].clone())),
        accounting,
        "a node goes twice"
    );
    let price = |all: &mut Vec<Proposal>| {
        let catalogue = &snapshot.world.catalogue;
        let dear = catalogue
            .offerings()
            .iter()
            .position(|o| o.price == 8.0)
            .unwrap();
        let offering = longshore_core::model::OfferingId(dear as u32);
        let replacement = &mut all[0].replacements[0];
        (replacement.claim.offering, replacement.claim.price) = (offering, 8.0);
        replacement.claim.types = vec![catalogue.offering(offering).instance_type];
    };
    assert_eq!(wrong(&price), Some(Invariant::Price));
}

/// Numbers from a seed.
struct Rng(u64);

impl Rng {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }
}

/// The most that can be saved without buying anything, by trying every subset and every place.
fn most_saved(nodes: &[(u32, Vec<u32>)], move_cost: f64) -> f64 {
    fn place(free: &mut [i64], pods: &[u32]) -> bool {
        let Some((&pod, rest)) = pods.split_first() else {
            return true;
        };
        for at in 0..free.len() {
            if free[at] >= i64::from(pod) {
                free[at] -= i64::from(pod);
                if place(free, rest) {
                    return true;
                }
                free[at] += i64::from(pod);
            }
        }
        false
    }
    let mut best = 0.0f64;
    for subset in 1u32..1 << nodes.len() {
        let goes = |at: usize| subset & (1 << at) != 0;
        let mut pods: Vec<u32> = Vec::new();
        let (mut free, mut saved) = (Vec::new(), 0.0);
        for (at, (cores, own)) in nodes.iter().enumerate() {
            if goes(at) {
                pods.extend(own);
                saved += f64::from(*cores) + 0.015 - move_cost * own.len() as f64;
            } else {
                free.push(
                    i64::from(*cores) * 1000 - own.iter().map(|&p| i64::from(p)).sum::<i64>(),
                );
            }
        }
        pods.sort_unstable_by(|a, b| b.cmp(a));
        if saved > best && place(&mut free, &pods) {
            best = saved;
        }
    }
    best
}

#[test]
fn on_small_clusters_the_best_set_of_nodes_is_found_nearly_always() {
    let (mut best, mut all) = (0, 0);
    for seed in 1..=1000u64 {
        let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let count = 3 + rng.below(4) as usize;
        let mut items = vec![pool()];
        // Nothing can be bought: the limit is used up.
        items[0]["spec"]["limits"] = json!({"cpu": "0"});
        let mut nodes: Vec<(u32, Vec<u32>)> = Vec::new();
        for at in 0..count {
            let cores = [2, 4, 8][rng.below(3) as usize];
            items.extend(node(&format!("n{at}"), &format!("c{cores}"), "a"));
            let mut own = Vec::new();
            for number in 0..rng.below(5) {
                let milli = [250, 500, 1000, 1500][rng.below(4) as usize];
                if own.iter().sum::<u32>() + milli <= cores * 1000 {
                    own.push(milli);
                    items.push(pod(
                        &format!("p{at}-{number}"),
                        &format!("app{milli}"),
                        milli,
                        &format!("n{at}"),
                    ));
                }
            }
            nodes.push((cores, own));
        }
        let snapshot = snapshot(&items);
        let empty: f64 = nodes
            .iter()
            .filter(|n| n.1.is_empty())
            .map(|n| f64::from(n.0) + 0.015)
            .sum();
        nodes.retain(|n| !n.1.is_empty());
        let now = round(&snapshot).now();
        proposals::check(&snapshot, &now).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong:?}"));
        assert!(
            now.iter().all(|proposal| proposal.replacements.is_empty()),
            "seed {seed}"
        );
        let found: f64 = now.iter().map(|proposal| proposal.gain).sum::<f64>() - empty;
        let possible = most_saved(&nodes, 0.01);
        assert!(
            found <= possible + 1e-6,
            "seed {seed}: {found} of {possible}"
        );
        all += 1;
        best += u32::from(found >= possible - 1e-6);
    }
    assert!(best * 100 >= all * 99, "{best} of {all}");
}

#[test]
fn the_order_of_the_objects_does_not_matter() {
    let mut items = vec![pool()];
    for at in 0..12 {
        items.extend(node(
            &format!("n{at:02}"),
            ["c4", "c2", "c8"][at % 3],
            ["a", "b"][at % 2],
        ));
        for number in 0..at % 4 {
            let milli = 250 * (1 + number as u32);
            items.push(pod(
                &format!("p{at}-{number}"),
                &format!("app{number}"),
                milli,
                &format!("n{at:02}"),
            ));
        }
    }
    let told = |items: &[Value]| {
        let snapshot = snapshot(items);
        let mut all: Vec<(Vec<String>, usize, String)> = round(&snapshot)
            .now()
            .iter()
            .map(|p| {
                (
                    names(&snapshot, p),
                    p.moves.len(),
                    format!("{:.6}", p.savings),
                )
            })
            .collect();
        all.sort();
        all
    };
    let there = told(&items);
    items.reverse();
    assert!(!there.is_empty());
    assert_eq!(there, told(&items));
}

/// Two drifted nodes of a static NodePool: `two` for longer.
fn two_static(more: &[(&str, Value)]) -> Vec<Value> {
    let mut items = two();
    let spec = &mut items[0]["spec"];
    spec["replicas"] = json!(2);
    for (key, value) in more {
        spec[*key] = value.clone();
    }
    for (name, since) in [("claim-one", TIME), ("claim-two", "2026-11-24T11:00:00Z")] {
        let drifted = json!({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted", "message": "",
            "lastTransitionTime": since});
        let conditions = &mut of(&mut items, "NodeClaim", name)["status"]["conditions"];
        conditions.as_array_mut().unwrap().push(drifted);
    }
    items
}

fn replaced(items: &[Value]) -> String {
    let snapshot = snapshot(items);
    let round = round(&snapshot);
    assert!(round.proposals.is_empty(), "{:?}", round.proposals);
    let name = |node: &NodeIx| {
        snapshot
            .world
            .names
            .text(snapshot.nodes[node.0 as usize].name)
    };
    round
        .static_drift
        .iter()
        .map(name)
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn drifted_nodes_of_a_static_pool_are_replaced_within_budget_and_node_limit() {
    let budget = |nodes: &str| {
        let disruption = json!({"consolidateAfter": "0s", "budgets": [{"nodes": nodes}]});
        replaced(&two_static(&[("disruption", disruption)]))
    };
    assert_eq!(
        replaced(&two_static(&[])),
        "two one",
        "the longest drifted first"
    );
    assert_eq!(budget("1"), "two");
    assert_eq!(budget("0"), "");
    let limit = |nodes: &str| replaced(&two_static(&[("limits", json!({"nodes": nodes}))]));
    assert_eq!(limit("4"), "two one");
    assert_eq!(limit("3"), "two");
    assert_eq!(limit("2"), "", "a replacement has no room");
}

#[test]
fn a_static_pool_with_more_nodes_than_replicas_replaces_none() {
    assert_eq!(replaced(&two_static(&[("replicas", json!(1))])), "");
    let mut items = two_static(&[]);
    of(&mut items, "NodeClaim", "claim-two")["metadata"]["annotations"] =
        json!({"karpenter.sh/do-not-disrupt": "true"});
    assert_eq!(replaced(&items), "one");
}

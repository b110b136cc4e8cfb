//! Rules that keep a node, one by one, and what the check finds.

use longshore_core::check::Invariant;
use longshore_core::disrupt::budgets::Budgets;
use longshore_core::disrupt::checked::without_refused;
use longshore_core::disrupt::costs::MoveCost;
use longshore_core::disrupt::methods::RoundOptions;
use longshore_core::disrupt::proposals::{self, Proposal, To};
use longshore_core::disrupt::verdicts::{self, Method, Stays};
use longshore_core::ids::NodeIx;
use longshore_core::policy::ByPrice;
use longshore_core::stop::Stop;
use serde_json::{Value, json};

use super::{TIME, name, names, node, of, pod, pool, round, snapshot, two};

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
fn a_budget_that_lets_unhealthy_pods_go_keeps_ready_ones() {
    let with = |policy: &str, ready: &str| {
        refusal(Method::MultiNode, |items| {
            let mut budget = budget("pdb", 0);
            budget["spec"]["unhealthyPodEvictionPolicy"] = json!(policy);
            items.push(budget);
            of(items, "Pod", "web-1")["status"]["conditions"] =
                json!([{"type": "Ready", "status": ready}]);
        })
    };
    assert_eq!(with("AlwaysAllow", "False"), None);
    assert!(matches!(
        with("AlwaysAllow", "True"),
        Some(Stays::PodBudget(_, 0))
    ));
    assert!(matches!(
        with("IfHealthyBudget", "False"),
        Some(Stays::PodBudget(_, 0))
    ));
}

#[test]
fn a_node_that_may_drain_for_so_long_drifts_whatever_its_pods_say() {
    let with = |method, grace: Option<&str>| {
        refusal(method, |items| {
            let claim = of(items, "NodeClaim", "claim-one");
            let drifted = json!({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted",
                "message": "", "lastTransitionTime": TIME});
            claim["status"]["conditions"]
                .as_array_mut()
                .unwrap()
                .push(drifted);
            claim["spec"]["terminationGracePeriod"] = json!(grace);
            of(items, "Pod", "web-1")["metadata"]["annotations"] =
                json!({"karpenter.sh/do-not-disrupt": "true"});
        })
    };
    let held = |found: Option<Stays>| matches!(found, Some(Stays::PodDoNotDisrupt(..)));
    assert!(held(with(Method::Drift, None)));
    assert_eq!(with(Method::Drift, Some("1h")), None);
    assert!(held(with(Method::MultiNode, Some("1h"))));
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

/// A drifted node of zone `a` with this pod, beside two empty nodes of zone `b`.
fn held_by(pod: Value, others: Vec<Value>) -> Vec<Value> {
    let mut items = vec![pool()];
    for (name, zone) in [("drifted", "a"), ("empty-1", "b"), ("empty-2", "b")] {
        items.extend(node(name, "c4", zone));
    }
    let drifted = json!({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted", "message": "",
        "lastTransitionTime": TIME});
    let conditions = &mut of(&mut items, "NodeClaim", "claim-drifted")["status"]["conditions"];
    conditions.as_array_mut().unwrap().push(drifted);
    items.push(pod);
    items.extend(others);
    items
}

/// Nodes that go, in order, and whether what was found kept every rule at once.
fn gone(items: &[Value]) -> (Vec<String>, bool) {
    let snapshot = snapshot(items);
    let found = round(&snapshot);
    let kept_all = proposals::check(&snapshot, &found.now()).is_ok();
    let options = RoundOptions {
        move_cost: Some(MoveCost::Amount(0.01)),
        ..RoundOptions::default()
    };
    let checked = without_refused(&snapshot, &ByPrice, options, Stop::never(), found);
    proposals::check(&snapshot, &checked.now()).unwrap();
    let now = checked.now();
    let mut nodes: Vec<String> = now.iter().flat_map(|of| names(&snapshot, of)).collect();
    nodes.sort();
    (nodes, kept_all)
}

/// Rules of placement are asked when a pod is bound. What it was bound by may have gone since.
#[test]
fn a_pod_that_its_place_no_longer_suits_keeps_its_node_and_no_other() {
    let terms = |kind: &str, apps: &[&str]| {
        let term = |app: &&str| {
            json!({"topologyKey": "topology.kubernetes.io/zone",
                "labelSelector": {"matchLabels": {"app": app}}})
        };
        let terms: Vec<Value> = apps.iter().map(term).collect();
        json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    };
    let with = |affinity: Value| {
        let mut one = pod("follower", "follower", 500, "drifted");
        one["spec"]["affinity"] = affinity;
        one
    };
    let empty = ["empty-1", "empty-2"].map(str::to_owned).to_vec();
    // The pod that it followed has gone.
    let lonely = held_by(with(terms("podAffinity", &["leader"])), Vec::new());
    assert_eq!(gone(&lonely), (empty.clone(), true));
    // Two pods met one term each: kube-scheduler counts those alone that meet both.
    let two = [pod("x", "x", 100, "drifted"), pod("y", "y", 100, "drifted")];
    let torn = held_by(with(terms("podAffinity", &["x", "y"])), two.to_vec());
    assert_eq!(gone(&torn), (empty.clone(), true));
    // Another that it avoids came into its zone, or one that avoids it.
    let mut other = pod("other", "other", 100, "drifted");
    let avoids = held_by(
        with(terms("podAntiAffinity", &["other"])),
        vec![other.clone()],
    );
    assert_eq!(gone(&avoids), (empty.clone(), true));
    other["spec"]["affinity"] = terms("podAntiAffinity", &["follower"]);
    let avoided = held_by(with(json!({})), vec![other]);
    assert_eq!(gone(&avoided), (empty, true));
    // One that is the first of its kind, or has its partner, moves.
    let all = ["drifted", "empty-1", "empty-2"]
        .map(str::to_owned)
        .to_vec();
    let first = held_by(with(terms("podAffinity", &["follower"])), Vec::new());
    assert_eq!(gone(&first), (all.clone(), true));
    let leader = pod("leader", "leader", 100, "drifted");
    let paired = held_by(with(terms("podAffinity", &["leader"])), vec![leader]);
    assert_eq!(gone(&paired), (all, true));
}

/// What a search must not find is found by hand here: nodes whose proposals the check refuses.
#[test]
fn what_the_check_refuses_stays_with_the_rule_and_the_rest_goes() {
    let items = held_by(pod("web", "web", 500, "drifted"), Vec::new());
    let snapshot = snapshot(&items);
    let mut found = round(&snapshot);
    for (proposal, _) in &mut found.proposals {
        // Its pod gets lost.
        proposal.moves.clear();
        proposal.replacements.clear();
    }
    let options = RoundOptions::default();
    let checked = without_refused(&snapshot, &ByPrice, options, Stop::never(), found);
    proposals::check(&snapshot, &checked.now()).unwrap();
    let refused: Vec<String> = checked
        .refused
        .iter()
        .flat_map(|of| of.nodes.iter().map(|&node| name(&snapshot, node)))
        .collect();
    assert_eq!(refused, ["drifted"]);
    let now = checked.now();
    let mut gone: Vec<String> = now.iter().flat_map(|of| names(&snapshot, of)).collect();
    gone.sort();
    assert_eq!(gone, ["empty-1", "empty-2"]);
    let stays = checked.stays.iter().map(|(node, why)| {
        let why = matches!(why, Stays::BreaksRule(why) if why.contains("has no place"));
        (name(&snapshot, *node), why)
    });
    assert_eq!(stays.collect::<Vec<_>>(), [("drifted".to_owned(), true)]);
}

#[test]
fn a_node_that_several_node_claims_call_theirs_stays() {
    let mut items = vec![pool()];
    items.extend(node("one", "c4", "a"));
    items.extend(node("two", "c4", "a"));
    let mut copy = items[1].clone();
    copy["metadata"] = json!({"name": "copy", "uid": "copy", "labels": copy["metadata"]["labels"],
        "creationTimestamp": TIME});
    items.push(copy);
    assert_eq!(gone(&items), (vec!["two".to_owned()], true));
}

//! What a round proposes for small clusters.

use std::sync::Arc;

use longshore_core::disrupt::costs::MoveCost;
use longshore_core::disrupt::methods::{self, RoundOptions};
use longshore_core::disrupt::paper::{self, Serial};
use longshore_core::disrupt::proposals;
use longshore_core::disrupt::verdicts::Method;
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;
use serde_json::{Value, json};

use super::{TIME, ZONE, cost, names, node, of, pod, pool, round, snapshot, two};

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
    let options = RoundOptions {
        move_cost: Some(MoveCost::Amount(1e6)),
        ..RoundOptions::default()
    };
    let now = methods::round(&snapshot, &ByPrice, options, Stop::never()).now();
    assert_eq!((now.len(), now[0].method), (1, Method::Emptiness));
    proposals::check(&snapshot, &now).unwrap();
}

#[test]
fn what_moves_cost_is_threshold_and_hysteresis() {
    let snapshot = snapshot(&two());
    let at = |amount| {
        let options = RoundOptions {
            move_cost: Some(MoveCost::Amount(amount)),
            ..RoundOptions::default()
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

#[test]
fn what_a_node_pool_says_of_moves_counts_before_what_is_configured() {
    let proposed = |annotation: &str, configured: f64| {
        let mut items = two();
        items[0]["metadata"]["annotations"] = json!({"longshore.dev/move-cost": annotation});
        let options = RoundOptions {
            move_cost: Some(MoveCost::Amount(configured)),
            ..RoundOptions::default()
        };
        let snapshot = snapshot(&items);
        let now = methods::round(&snapshot, &ByPrice, options, Stop::never()).now();
        !now.is_empty()
    };
    // One node of 4 USD per hour for one pod; a pod costs 4 USD per hour.
    assert!(proposed("3.9", 100.0) && !proposed("4.1", 0.0));
    assert!(proposed("99%", 100.0) && !proposed("101%", 0.0));
}

#[test]
fn balanced_takes_a_node_whose_replacement_costs_half() {
    let replaced = |priority: i64| {
        let mut items = vec![pool()];
        items[0]["spec"]["disruption"]["consolidationPolicy"] = json!("Balanced");
        items.extend(node("only", "c2", "a"));
        let mut pod = pod("web", "web", 900, "only");
        pod["spec"]["priority"] = json!(priority);
        items.push(pod);
        let snapshot = snapshot(&items);
        let options = RoundOptions::default();
        let round = methods::round(&snapshot, &ByPrice, options, Stop::never());
        round.now().len()
    };
    assert_eq!(replaced(0), 1, "half of its price for its only pod");
    assert_eq!(replaced(1 << 20), 0, "the pod is worth a little more");
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
fn a_drifted_node_that_was_cheap_for_what_it_holds_is_replaced_all_the_same() {
    let mut items = vec![pool()];
    items.extend(node("one", "s4", "a"));
    items.push(pod("web-1", "web", 3500, "one"));
    let conditions = &mut of(&mut items, "NodeClaim", "claim-one")["status"]["conditions"];
    let drifted = json!({"type": "Drifted", "status": "True", "reason": "RequirementsDrifted",
        "message": "", "lastTransitionTime": TIME});
    conditions.as_array_mut().unwrap().push(drifted);
    let snapshot = snapshot(&items);
    let round = round(&snapshot);
    let now = round.now();
    proposals::check(&snapshot, &now).unwrap();
    assert_eq!(now.len(), 1, "{:?}", round.stays);
    assert_eq!(
        (now[0].method, now[0].replacements.len()),
        (Method::Drift, 1)
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
    let proposals_of = |items: &[Value]| {
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
    let there = proposals_of(&items);
    items.reverse();
    assert!(!there.is_empty());
    assert_eq!(there, proposals_of(&items));
}

#[test]
fn a_sweep_finds_the_node_that_is_not_needed_any_more() {
    let mut items = vec![pool()];
    for (name, milli) in [("n0", 500), ("n1", 3300)] {
        items.extend(node(name, "c4", "a"));
        items.push(pod(&format!("web-{name}"), "web", milli, name));
    }
    let snapshot = snapshot(&items);
    let mut options = RoundOptions::default();
    options.effort.sweep_only = true;
    let now = methods::round(&snapshot, &ByPrice, options, Stop::never()).now();
    proposals::check(&snapshot, &now).unwrap();
    let taken: Vec<_> = now.iter().flat_map(|of| names(&snapshot, of)).collect();
    assert_eq!(taken, ["n0"]);
    assert!(now.iter().all(|proposal| proposal.replacements.is_empty()));
}

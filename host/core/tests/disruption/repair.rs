//! Repair: one unhealthy node in a round, replacement first.

use std::sync::Arc;

use longshore_core::disrupt::methods::Act;
use longshore_core::disrupt::proposals;
use longshore_core::disrupt::verdicts::{Method, Stays};
use longshore_core::ids::NodeIx;
use longshore_core::model::{DueRepair, RepairAction, UnhealthyNode};
use longshore_core::snapshot::Snapshot;
use serde_json::{Value, json};

use super::{name, names, node, objects, of, pod, pool, round, types};

/// Five full nodes, `n1` to `n5`.
fn five() -> Vec<Value> {
    let mut items = vec![pool()];
    for at in 1..=5 {
        let name = format!("n{at}");
        items.extend(node(&name, "c4", "a"));
        items.push(pod(&format!("p{at}"), "web", 3500, &name));
    }
    items
}

const REPLACE: DueRepair = DueRepair {
    action: RepairAction::Replace,
    score: 1.0,
    grace: None,
};

/// What a round does about unhealthy nodes, and why those stay that it leaves.
fn repaired(items: &[Value], unhealthy: &[(&str, Option<DueRepair>)]) -> String {
    let mut world = objects(items, &types());
    for (node, due) in unhealthy {
        let node = world.names.intern(node);
        let condition = world.names.intern("Ready=False");
        world.unhealthy.push(UnhealthyNode {
            node,
            condition,
            due: *due,
        });
    }
    let snapshot = Snapshot::new(Arc::new(world));
    let round = round(&snapshot);
    let now = round.now();
    proposals::check(&snapshot, &now).unwrap();
    let mut words: Vec<String> = Vec::new();
    for proposal in now.iter().filter(|of| of.method == Method::Repair) {
        words.push(format!(
            "{} by {}",
            names(&snapshot, proposal).join("+"),
            proposal.replacements.len()
        ));
    }
    for single in &round.singles {
        words.push(format!(
            "{}: {:?}",
            name(&snapshot, single.node),
            single.act
        ));
        assert!(single.act != Act::ReplaceStatic || single.method == Method::Repair);
    }
    for (at, candidate) in round.candidates.iter().enumerate() {
        match candidate.refusal(Method::Repair) {
            None | Some(Stays::Healthy) => {}
            Some(why) => words.push(format!("{}: {why:?}", name(&snapshot, NodeIx(at as u32)))),
        }
    }
    words.join(", ")
}

#[test]
fn the_most_urgent_node_is_replaced_and_others_wait_for_the_next_round() {
    let urgent = DueRepair {
        score: 2.0,
        ..REPLACE
    };
    let mut ten = five();
    for at in 6..=10 {
        ten.extend(node(&format!("n{at}"), "c4", "a"));
    }
    // The others are empty and have room.
    let found = repaired(&ten, &[("n1", Some(REPLACE)), ("n2", Some(urgent))]);
    assert_eq!(found, "n2 by 0");
    assert_eq!(repaired(&five(), &[("n3", Some(REPLACE))]), "n3 by 1");
    assert_eq!(repaired(&five(), &[]), "");
}

#[test]
fn where_more_than_a_fifth_is_unhealthy_none_is_repaired() {
    let two = [("n1", Some(REPLACE)), ("n2", None)];
    let found = repaired(&five(), &two);
    assert!(found.contains("n1: TooManyUnhealthy(2, 5)"), "{found}");
    assert!(found.contains("n2: Tolerated("), "{found}");
}

#[test]
fn do_not_repair_and_budgets_are_respected_and_do_not_disrupt_of_the_node_is_not() {
    let one = [("n1", Some(REPLACE))];
    let annotated = |key: &str| {
        let mut items = five();
        of(&mut items, "Node", "n1")["metadata"]["annotations"] = json!({key: "true"});
        repaired(&items, &one)
    };
    assert_eq!(annotated("karpenter.sh/do-not-repair"), "n1: DoNotRepair");
    assert_eq!(annotated("karpenter.sh/do-not-disrupt"), "n1 by 1");
    let mut items = five();
    items[0]["spec"]["disruption"]["budgets"] =
        json!([{"nodes": "100%"}, {"nodes": "0", "reasons": ["Unhealthy"]}]);
    assert_eq!(repaired(&items, &one), "n1: NodePoolBudget(1)");
    // A node that has never been initialised needs none.
    for kind in ["Node", "NodeClaim"] {
        let name = if kind == "Node" { "n1" } else { "claim-n1" };
        let labels = &mut of(&mut items, kind, name)["metadata"]["labels"];
        labels["karpenter.sh/initialized"] = json!("false");
    }
    assert_eq!(repaired(&items, &one), "n1 by 1");
}

#[test]
fn nothing_is_bought_for_pods_that_were_only_to_move_to_the_node() {
    let mut items = five();
    items.extend(node("n6", "c4", "a"));
    for kind in ["Node", "NodeClaim"] {
        let name = if kind == "Node" { "n6" } else { "claim-n6" };
        let labels = &mut of(&mut items, kind, name)["metadata"]["labels"];
        labels["karpenter.sh/initialized"] = json!("false");
    }
    of(&mut items, "NodeClaim", "claim-n1")["metadata"]["annotations"] = json!({
        "longshore.dev/disruption": "d1", "longshore.dev/moves": "n6=default/p1"});
    // The command waits, then its node drains.
    assert_eq!(repaired(&items, &[("n6", Some(REPLACE))]), "n6 by 0");
    of(&mut items, "NodeClaim", "claim-n1")["metadata"]["deletionTimestamp"] = json!(super::TIME);
    let pod = of(&mut items, "Pod", "p1");
    pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    assert_eq!(repaired(&items, &[("n6", Some(REPLACE))]), "n6 by 0");
}

#[test]
fn pods_are_in_the_way_only_where_nothing_bounds_the_drain() {
    let mut items = five();
    let pod = of(&mut items, "Pod", "p1");
    pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    let found = repaired(&items, &[("n1", Some(REPLACE))]);
    assert!(found.starts_with("n1: PodDoNotDisrupt("), "{found}");
    let bounded = DueRepair {
        grace: Some(60),
        ..REPLACE
    };
    assert_eq!(repaired(&items, &[("n1", Some(bounded))]), "n1 by 1");
}

#[test]
fn a_machine_is_started_anew_where_its_cloud_says_so() {
    let reboot = DueRepair {
        action: RepairAction::Reboot,
        ..REPLACE
    };
    assert_eq!(repaired(&five(), &[("n1", Some(reboot))]), "n1: Reboot");
}

#[test]
fn a_node_of_a_static_pool_is_replaced_by_its_pool() {
    let mut items = five();
    items[0]["spec"]["replicas"] = json!(5);
    let one = [("n1", Some(REPLACE))];
    assert_eq!(repaired(&items, &one), "n1: ReplaceStatic");
}

//! Drifted nodes of static NodePools.

use longshore_core::check::Invariant;
use longshore_core::disrupt::methods::{self, RoundOptions, TerminateFirst};
use longshore_core::disrupt::proposals::{self, Proposal};
use longshore_core::disrupt::verdicts::Method;
use longshore_core::policy::ByPrice;
use longshore_core::stop::Stop;
use serde_json::{Value, json};

use super::{TIME, name, names, of, round, snapshot, two};

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

/// Nodes that may be replaced now, in order, then those that stay and why.
fn replaced(items: &[Value]) -> String {
    let snapshot = snapshot(items);
    let round = round(&snapshot);
    let now = round.now();
    proposals::check(&snapshot, &now).unwrap();
    let later = round.proposals.len() - now.len();
    let mut words: Vec<String> = Vec::new();
    for proposal in now {
        assert_eq!(proposal.method, Method::StaticDrift);
        words.extend(names(&snapshot, &proposal));
    }
    words.extend((later > 0).then(|| format!("{later} later")));
    let stays = round.stays.iter();
    words.extend(stays.map(|(node, why)| format!("{}: {why:?}", name(&snapshot, *node))));
    words.join(", ")
}

#[test]
fn drifted_nodes_of_a_static_pool_are_replaced_within_budget_and_node_limit() {
    let budget = |nodes: &str| {
        let disruption = json!({"consolidateAfter": "0s", "budgets": [{"nodes": nodes}]});
        replaced(&two_static(&[("disruption", disruption)]))
    };
    assert_eq!(
        replaced(&two_static(&[])),
        "two, one",
        "the longest drifted first"
    );
    assert_eq!(budget("1"), "two, 1 later");
    assert_eq!(budget("0"), "");
    let limit = |nodes: &str| replaced(&two_static(&[("limits", json!({"nodes": nodes}))]));
    assert_eq!(limit("4"), "two, one");
    assert_eq!(limit("3"), "two, one: StaticAtLimit");
    assert_eq!(limit("2"), "two: StaticAtLimit, one: StaticAtLimit");
}

#[test]
fn a_static_pool_is_scaled_before_its_nodes_are_replaced() {
    let scales = "two: StaticScales, one: StaticScales";
    for replicas in [1, 3] {
        assert_eq!(
            replaced(&two_static(&[("replicas", json!(replicas))])),
            scales
        );
    }
    let mut items = two_static(&[]);
    items[0]["metadata"]["deletionTimestamp"] = json!(TIME);
    assert_eq!(replaced(&items), scales);
}

#[test]
fn what_forbids_disruption_keeps_a_node_of_a_static_pool() {
    let mut items = two_static(&[]);
    of(&mut items, "NodeClaim", "claim-two")["metadata"]["annotations"] =
        json!({"karpenter.sh/do-not-disrupt": "true"});
    assert_eq!(replaced(&items), "one");
}

#[test]
fn the_check_finds_what_is_wrong_with_static_drift() {
    let wrong = |items: &[Value], change: &dyn Fn(&mut Proposal)| {
        let good = round(&snapshot(&two_static(&[]))).now();
        let mut all = good.clone();
        all.iter_mut().for_each(change);
        let found = proposals::check(&snapshot(items), &all).err();
        found.map(|found| (found[0].invariant, found[0].detail.clone()))
    };
    let none = |_: &mut Proposal| ();
    let detail = |found: Option<(Invariant, String)>| found.map_or(String::new(), |found| found.1);
    let items = two_static(&[]);
    assert_eq!(wrong(&items, &none), None);
    assert_eq!(
        detail(wrong(&items, &|proposal| proposal.method = Method::Drift)),
        "has no place though its node goes"
    );
    assert_eq!(
        detail(wrong(&two_static(&[("replicas", json!(3))]), &none)),
        "2 NodeClaims for 3 replicas, and nodes are replaced"
    );
    let limit = two_static(&[("limits", json!({"nodes": "3"}))]);
    assert_eq!(
        wrong(&limit, &none),
        Some((
            Invariant::Limits,
            "2 NodeClaims and 2 replacements beyond its limit".into()
        ))
    );
    let mut fresh = two_static(&[]);
    let conditions = &mut of(&mut fresh, "NodeClaim", "claim-one")["status"]["conditions"];
    conditions.as_array_mut().unwrap().pop();
    assert_eq!(detail(wrong(&fresh, &none)), "it has not drifted");
}

/// What goes first leaves pods without a place until its replacement is ready.
#[test]
fn nothing_goes_first_while_a_node_of_the_pool_is_on_its_way() {
    let limit = |items: &mut Vec<Value>| {
        items[0]["spec"]["limits"] = json!({"nodes": "2"});
    };
    let first = |items: &[Value]| {
        let snapshot = snapshot(items);
        let options = RoundOptions {
            terminate_first: TerminateFirst {
                drift: true,
                repair: true,
            },
            ..RoundOptions::default()
        };
        let round = methods::round(&snapshot, &ByPrice, options, Stop::never());
        let singles = round.singles.iter();
        singles
            .map(|single| name(&snapshot, single.node))
            .collect::<Vec<_>>()
    };
    let mut items = two_static(&[]);
    limit(&mut items);
    assert_eq!(
        first(&items),
        ["two", "one"],
        "as many as the budget allows"
    );
    let claim = of(&mut items, "NodeClaim", "claim-two");
    let conditions = claim["status"]["conditions"].as_array_mut().unwrap();
    conditions.retain(|of| of["type"] != "Initialized" && of["type"] != "Drifted");
    let labels = &mut of(&mut items, "Node", "two")["metadata"]["labels"];
    labels
        .as_object_mut()
        .unwrap()
        .remove("karpenter.sh/initialized");
    assert_eq!(first(&items), [""; 0], "two is not ready yet");
}

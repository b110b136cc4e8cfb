//! Consolidation policies: those that mean harm leave the rules of NodePools as the floor, and
//! those of our own do what they say.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use crate::common::{HOST, load, says};
use longshore_api::manifests::Reader;
use longshore_core::disrupt::consolidation::DisruptionPolicies;
use longshore_core::disrupt::methods::{self, Explain, Round, RoundOptions, Verdict};
use longshore_core::disrupt::verdicts::Stays;
use longshore_core::model::ClusterObjects;
use longshore_core::model::disruptions::Disruptions;
use longshore_core::policy::{ByPrice, Policies};
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;
use longshore_policy::{Assignment, LoadedPolicy, Report, WasmPolicies};

static JUDGE: LazyLock<PathBuf> =
    LazyLock::new(|| longshore_xtask::guests::build_hostile_judge().unwrap());

fn judge(mode: &str) -> LoadedPolicy {
    HOST.load(&JUDGE, Some(&format!("mode = '{mode}'")))
        .unwrap()
}

fn serve(policy: LoadedPolicy) -> WasmPolicies {
    crate::common::serve(policy)
}

/// Two half-empty nodes of NodePool `default`, two hours old: `one` with a pod of ReplicaSet web,
/// `two` with another one and the only pod of ReplicaSet db. A budget allows one eviction of web.
fn snapshot() -> Snapshot {
    snapshot_where(|_| {})
}

/// The same, changed.
fn snapshot_where(change: impl FnOnce(&mut ClusterObjects)) -> Snapshot {
    let read = |path: &str| std::fs::read(path).unwrap();
    let mut reader = Reader::new();
    reader.read("half-empty.json", &read("tests/data/half-empty.json"));
    let (mut objects, problems) = reader.finish();
    assert!(problems.list.is_empty(), "{problems}");
    let types = read("../daemon/tests/data/types.json");
    let (catalogue, problems) =
        longshore_kwok::catalogue::parse("types.json", &types, &mut objects.names);
    assert!(problems.list.is_empty(), "{problems}");
    objects.catalogue = catalogue;
    objects.now = longshore_api::time::timestamp("2026-11-24T02:00:00Z").unwrap();
    change(&mut objects);
    Snapshot::new(Arc::new(objects))
}

fn round(policies: &dyn DisruptionPolicies) -> Round {
    round_of(&snapshot(), policies)
}

fn round_of(snapshot: &Snapshot, policies: &dyn DisruptionPolicies) -> Round {
    let options = RoundOptions {
        explain: Explain::All,
        ..RoundOptions::default()
    };
    methods::round(snapshot, policies, options, Stop::never())
}

fn failures(policies: &WasmPolicies) -> Vec<String> {
    let reports = policies.reports().into_iter();
    let failed = reports.filter(|report| matches!(report, Report::Failed { .. }));
    failed.map(|report| report.to_string()).collect()
}

/// Every way to fail, and the words that the report must have.
const MODES: [(&str, &str); 13] = [
    ("weigh-traps", "weigh: "),
    (
        "weigh-nan",
        "weigh: the weight of node 0 is NaN; expected 0 to 1000000, or infinity",
    ),
    (
        "weigh-negative",
        "weigh: the weight of node 0 is -1; expected 0 to 1000000, or infinity",
    ),
    ("weigh-short", "weigh: 1 weights for 2 nodes"),
    ("weigh-loops", "weigh: ran out of fuel after "),
    ("approves-twice", "decide: 2 decisions for 1 proposals"),
    ("none", "decide: 0 decisions for 1 proposals"),
    ("traps", "out of ideas"),
    (
        "nan",
        "decide: the priority of proposal 0 is NaN; expected -1000000000 to 1000000000",
    ),
    (
        "minus-infinity",
        "decide: the priority of proposal 0 is -inf; expected -1000000000 to 1000000000",
    ),
    (
        "far",
        "expected 0, or seconds since 1970 at most a day ahead",
    ),
    ("error", "decide: no idea"),
    ("loops", "decide: ran out of fuel after "),
];

#[test]
fn whatever_fails_is_reported_and_the_rules_of_node_pools_are_the_floor() {
    let floor = round(&ByPrice);
    assert!(!floor.now().is_empty(), "there is something to decide");
    for (mode, expected) in MODES {
        let policies = serve(judge(mode));
        let found = round(&policies);
        let without = |round: &Round| {
            let mut all = round.now();
            all.iter_mut().for_each(|proposal| proposal.decision = None);
            all
        };
        assert_eq!(without(&found), without(&floor), "{mode}");
        let failed = failures(&policies);
        assert_eq!(failed.len(), 1, "{mode}: {failed:?}");
        assert!(says(&failed[0], expected), "{mode}: {failed:?}");
        let end = "; the rules of NodePools alone count for the rest of the round";
        assert!(failed[0].ends_with(end), "{mode}: {failed:?}");
        let tally = policies.tallies()[0];
        assert!(
            tally.by_rules > 0 && tally.failures == 1,
            "{mode}: {tally:?}"
        );
    }
}

#[test]
fn one_that_rejects_all_keeps_all_and_says_so() {
    let policies = serve(judge("rejects"));
    let found = round(&policies);
    assert!(found.now().is_empty());
    assert_eq!(failures(&policies), [""; 0]);
    let refused = found.proposals.iter().all(|(_, v)| *v == Verdict::Refused);
    assert!(refused && !found.proposals.is_empty());
    let kept = found.stays.iter().filter(|(_, why)| {
        matches!(why, Stays::Policy { by, why, .. } if &**by == "judge" && &**why == "I like none of them")
    });
    assert_eq!(kept.count(), 2, "both nodes: {:?}", found.stays);
    assert!(policies.tallies()[0].declined > 0);
}

#[test]
fn what_is_put_off_waits_and_what_is_approved_goes() {
    let policies = serve(judge("later"));
    let found = round(&policies);
    assert!(found.now().is_empty());
    assert!(matches!(found.proposals[0].1, Verdict::Deferred));
    assert!(policies.tallies()[0].deferred > 0);

    let policies = serve(judge("approves"));
    let found = round(&policies);
    assert_eq!(found.now().len(), round(&ByPrice).now().len());
    let decision = found.now()[0].decision.clone().unwrap();
    assert_eq!((&*decision.reason, decision.priority), ("fine", 1.0));
}

#[test]
fn weights_keep_nodes_from_the_search() {
    let never = round(&serve(judge("weigh-never")));
    assert!(never.proposals.is_empty());
    let by_policy = |stays: &Stays| matches!(stays, Stays::Policy { .. });
    let refused = never.candidates.iter().map(|candidate| {
        let refusals = candidate.refusals.iter().flatten();
        refusals.filter(|stays| by_policy(stays)).count()
    });
    assert_eq!(refused.collect::<Vec<_>>(), [2, 2], "multi and single");

    let dear = round(&serve(judge("weigh-dear")));
    assert!(dear.now().is_empty());
    let kept = dear.stays.iter().filter(|(_, stays)| by_policy(stays));
    assert_eq!(kept.count(), 2, "{:?}", dear.stays);
}

#[test]
fn control_characters_of_a_reason_do_not_reach_a_terminal() {
    let found = round(&serve(judge("escape-codes")));
    let decision = found.proposals[0].0.decision.clone().unwrap();
    assert_eq!(&*decision.reason, "[2Jgone again");
}

#[test]
fn the_last_good_version_answers_before_the_rules_do() {
    let policies = serve(judge("rejects"));
    round(&policies);
    policies.replace(0, judge("traps"));
    assert!(
        round(&policies).now().is_empty(),
        "the last good one rejects"
    );
    let failed = failures(&policies);
    assert!(
        failed[0].ends_with("its last good version answers for the rest of the round"),
        "{failed:?}"
    );
    // Proposals, then nodes alone.
    assert_eq!(policies.tallies()[0].by_last_good, 2);
}

#[test]
fn a_policy_of_other_node_pools_has_no_say() {
    let of = |pool: &str| {
        HOST.policies(vec![Assignment {
            policy: judge("rejects"),
            node_pools: vec![pool.into()],
        }])
    };
    assert!(!round(&of("batch")).now().is_empty());
    assert!(round(&of("default")).now().is_empty());
}

#[test]
fn a_scorer_and_a_consolidation_policy_serve_beside_each_other() {
    let assign = |policy| Assignment {
        policy,
        node_pools: vec![],
    };
    let scorer = load("price", "[[discounts]]\npercent = 50");
    let policies = HOST.policies(vec![assign(judge("rejects")), assign(scorer)]);
    let snapshot = snapshot();
    let pool = snapshot.world.names.get("default").unwrap();
    let cost = policies
        .score(&snapshot.world.catalogue, &snapshot.world.names, pool)
        .cost[0];
    assert_eq!(cost, snapshot.world.catalogue.offerings()[0].price * 0.5);
    assert!(round(&policies).now().is_empty());
}

#[test]
fn a_policy_sees_the_columns_of_the_cluster() {
    let found = round(&serve(judge("tells")));
    let proposal = &found.proposals[0].0;
    let said = &proposal.decision.as_ref().unwrap().reason;
    // Reasons are cut; the beginning is enough.
    assert!(
        said.starts_with(
            "[\"one\", \"two\"] in [\"default\"]; cpu [0.5, 1.0] of [4.0, 4.0]; pods [1, 2] \
             single [0, 1]; [\"shop/ReplicaSet/db\", \"shop/ReplicaSet/web\"] [1, 2] [0, 0]; saves ["
        ),
        "{said}"
    );
}

#[test]
fn what_a_node_pool_remembers_of_disruptions_is_told_and_what_cannot_be_read_is_unknown() {
    let now = snapshot().world.now;
    let before = |seconds: i64, nodes: u32| format!("{}:{nodes}", (now - seconds) / 300);
    let known = format!("{},a;{},{}", now - 60, before(60, 2), before(7200, 5));
    for (annotation, disrupted) in [
        ("", "[0] [0] [inf]"),
        (&*known, "[2] [7] [60.0]"),
        ("yesterday", "[4294967295] [4294967295] [NaN]"),
    ] {
        let snapshot = snapshot_where(|world| {
            let pools = world.pools.iter_mut();
            pools.for_each(|pool| pool.disruptions = Disruptions::read(annotation));
        });
        let found = round_of(&snapshot, &serve(judge("tells-unknown")));
        let said = &found.proposals[0].0.decision.as_ref().unwrap().reason;
        let expected = format!("grace [30.0, 30.0]; disrupted {disrupted}");
        assert_eq!(**said, expected, "{annotation:?}");
    }
}

#[test]
fn business_hours_put_off_and_cautious_refuses() {
    let days = "days = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']";
    let always = format!("[[windows]]\n{days}\nfrom = '00:00'\nto = '12:00'");
    let found = round(&serve(load("business-hours", &always)));
    let (proposal, verdict) = &found.proposals[0];
    assert_eq!(*verdict, Verdict::Deferred);
    let until = longshore_api::time::timestamp("2026-11-24T12:00:00Z").unwrap();
    assert_eq!(proposal.decision.as_ref().unwrap().not_before, until as f64);

    let dear = round(&serve(load("cautious", "least-savings-per-pod = 10.0")));
    assert!(dear.now().is_empty(), "its weights keep the search away");
    let few = round(&serve(load("cautious", "most-pods-per-owner = 1")));
    assert!(
        few.now().iter().all(|proposal| proposal.moves.len() < 3),
        "not both pods of web"
    );
    let cheap = round(&serve(load("cautious", "")));
    assert_eq!(cheap.now().len(), round(&ByPrice).now().len());
}

#[test]
fn pdb_aware_weighs_single_replicas_and_pods_without_budget() {
    let kept = round(&serve(load("pdb-aware", "keep-single-pods = true")));
    let snapshot = snapshot();
    let name = |node: &longshore_core::ids::NodeIx| {
        let symbol = snapshot.nodes[node.0 as usize].name;
        snapshot.world.names.text(symbol).to_owned()
    };
    let goes: Vec<String> = kept
        .now()
        .iter()
        .flat_map(|of| &of.nodes)
        .map(name)
        .collect();
    assert_eq!(goes, ["one"], "`two` has the only pod of db");
    let dear = round(&serve(load("pdb-aware", "unprotected-pod-cost = 100.0")));
    let goes: Vec<String> = dear
        .now()
        .iter()
        .flat_map(|of| &of.nodes)
        .map(name)
        .collect();
    assert_eq!(goes, ["one"], "no budget selects the pod of db");
}

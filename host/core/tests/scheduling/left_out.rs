//! Plans that break a rule lose the pods that break it, and no other pod.

use std::sync::Arc;

use longshore_core::check::{Invariant, Violation};
use longshore_core::model::Settings;
use longshore_core::plan::{Effort, Plan, PodIx, Unfit};
use longshore_core::planner::{self, PlanOptions, Rejected};
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use serde_json::{Value, json};

use crate::{any, pod, pods, world};

fn snapshot() -> Snapshot {
    let rule = json!({
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}},
    });
    let spread = json!({"topologySpreadConstraints": [rule]});
    let mut objects: Vec<Value> = pods(6, "web", "900m", "1Gi", &spread);
    objects.extend([pod("plain", "other", "500m", "1Gi", &json!({})), any()]);
    Snapshot::new(Arc::new(world(&objects, Settings::default())))
}

fn plan(snapshot: &Snapshot) -> Plan {
    let options = PlanOptions {
        effort: Effort::None,
        seed: 1,
    };
    planner::plan(snapshot, &ByPrice, options).unwrap()
}

/// What the check would say of a plan that places pods it is made to dislike.
fn rejected(plan: Plan, pods: Vec<PodIx>) -> Box<Rejected> {
    let violations = vec![Violation {
        invariant: Invariant::Spread,
        at: Some("claim 0".into()),
        pod: None,
        pods,
        claims: vec![0],
        detail: "skew 2 over zone, maxSkew 1".into(),
    }];
    Box::new(Rejected { plan, violations })
}

fn placed(plan: &Plan) -> Vec<PodIx> {
    plan.claims
        .iter()
        .flat_map(|claim| &claim.pods)
        .copied()
        .collect()
}

fn left_out(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let breaks = |unfit: &Unfit| matches!(unfit, Unfit::BreaksPlan { .. });
    let left = plan
        .unplaced
        .iter()
        .filter(|left| breaks(&left.refusals[0].unfit));
    let name = |pod: PodIx| snapshot.world.pods[pod.0 as usize].name.to_string();
    left.map(|left| name(left.pod)).collect()
}

#[test]
fn the_pods_that_break_a_plan_are_left_out_and_the_rest_is_planned() {
    let snapshot = snapshot();
    let dislikes = snapshot.pending[2].pod;
    let mut times = 0;
    let outcome = planner::leaving_out(&snapshot, Effort::None, &mut |of| {
        times += 1;
        let plan = plan(of);
        match placed(&plan).contains(&dislikes) {
            true => Err(rejected(plan, vec![dislikes])),
            false => Ok(plan),
        }
    });
    let plan = outcome.unwrap();
    assert_eq!((times, plan.left_out.len(), placed(&plan).len()), (2, 1, 6));
    assert_eq!(left_out(&snapshot, &plan), ["web3"]);
}

#[test]
fn in_the_end_all_pods_with_such_rules_are_left_out_and_others_have_their_nodes() {
    let snapshot = snapshot();
    let mut times = 0;
    let outcome = planner::leaving_out(&snapshot, Effort::None, &mut |of| {
        times += 1;
        let plan = plan(of);
        let web = |pod: &PodIx| &*of.world.pods[pod.0 as usize].name != "plain";
        match placed(&plan).into_iter().find(web) {
            // Another one each time.
            Some(pod) => Err(rejected(plan, vec![pod])),
            None => Ok(plan),
        }
    });
    let plan = outcome.unwrap();
    assert_eq!((times, placed(&plan).len()), (5, 1), "bounded");
    assert_eq!(left_out(&snapshot, &plan).len(), 6);
}

#[test]
fn a_violation_without_a_pod_costs_the_claims_that_it_names() {
    let snapshot = snapshot();
    let mut times = 0;
    let outcome = planner::leaving_out(&snapshot, Effort::None, &mut |of| {
        times += 1;
        let plan = plan(of);
        match plan.claims.is_empty() || times > 1 {
            true => Ok(plan),
            false => Err(rejected(plan, Vec::new())),
        }
    });
    let plan = outcome.unwrap();
    assert_eq!(times, 2, "the pods of claim 0 are left out at once");
    assert!(!left_out(&snapshot, &plan).is_empty());
    assert_eq!(placed(&plan).len() + left_out(&snapshot, &plan).len(), 7);
}

#[test]
fn a_plan_that_is_always_refused_is_tried_a_few_times_and_rejected() {
    let snapshot = snapshot();
    let mut times = 0;
    let outcome = planner::leaving_out(&snapshot, Effort::None, &mut |of| {
        times += 1;
        Err(rejected(plan(of), Vec::new()))
    });
    let rejected = outcome.unwrap_err();
    assert!(rejected.plan.claims.is_empty(), "at last nothing is bought");
    assert!(times <= 7, "{times}");
}

#[test]
fn pods_that_the_planner_panics_for_are_left_out_and_the_rest_is_planned() {
    let mut objects: Vec<Value> = (0..9)
        .map(|n| {
            let app = format!("app{n}");
            pod(&app, &app, "500m", "1Gi", &json!({}))
        })
        .collect();
    objects.push(any());
    let snapshot = Snapshot::new(Arc::new(world(&objects, Settings::default())));
    for bad in [vec!["app4"], vec!["app0", "app8"]] {
        let mut times = 0;
        let outcome = planner::leaving_out(&snapshot, Effort::None, &mut |of| {
            times += 1;
            let plan = plan(of);
            let name = |pod: &PodIx| &*of.world.pods[pod.0 as usize].name;
            assert!(!placed(&plan).iter().any(|pod| bad.contains(&name(pod))));
            Ok(plan)
        });
        let plan = outcome.unwrap();
        let left = left_out(&snapshot, &plan);
        assert!(
            bad.iter().all(|name| left.iter().any(|left| left == name)),
            "{left:?}"
        );
        assert_eq!(placed(&plan).len() + left.len(), 9);
        assert!(times < 12, "{times} plans");
    }
}

#[test]
#[should_panic(expected = "whatever it plans for")]
fn a_planner_that_panics_without_pods_is_not_tried_for_ever() {
    let snapshot = snapshot();
    let _ = planner::leaving_out(&snapshot, Effort::None, &mut |_| panic!("always"));
}

#[test]
fn a_plan_whose_sums_alone_are_wrong_is_carried_out_and_said() {
    let snapshot = snapshot();
    let outcome = planner::leaving_out(&snapshot, Effort::None, &mut |of| {
        let mut rejected = rejected(plan(of), Vec::new());
        rejected.violations[0].invariant = Invariant::Totals;
        Err(rejected)
    });
    let plan = outcome.unwrap();
    assert_eq!((plan.left_out.len(), placed(&plan).len()), (1, 7));
}

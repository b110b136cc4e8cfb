//! A plan that is stopped is the one that a lesser effort gives.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use longshore_core::model::Settings;
use longshore_core::plan::{Effort, Plan};
use longshore_core::planner::{self, PlanOptions};
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;
use serde_json::json;

use super::{any, node, pods, world};

fn spreading() -> Snapshot {
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }]});
    let mut objects = vec![any(), node("n", "a", "2", "8Gi")];
    objects.extend(pods(30, "spread", "700m", "1Gi", &spread));
    objects.extend(pods(40, "plain", "300m", "2Gi", &json!({})));
    Snapshot::new(Arc::new(world(&objects, Settings::default())))
}

/// Wherever the signal comes, the answer is the first-fit one or the finished one, and it says
/// which.
#[test]
fn a_plan_that_is_stopped_is_that_of_no_effort() {
    let snapshot = spreading();
    let options = |effort| PlanOptions { effort, seed: 1 };
    let none = planner::plan(&snapshot, &ByPrice, options(Effort::None)).unwrap();
    let full = planner::plan(&snapshot, &ByPrice, options(Effort::Normal)).unwrap();
    assert!(full.cost < none.cost && full.cut_short.is_none() && none.cut_short.is_none());
    let asked = AtomicUsize::new(0);
    let stopped_at = |at: usize| {
        asked.store(0, Ordering::Relaxed);
        let raised = || asked.fetch_add(1, Ordering::Relaxed) >= at;
        planner::plan_until(
            &snapshot,
            &ByPrice,
            options(Effort::Normal),
            Stop::when(&raised),
        )
        .unwrap()
    };
    assert_eq!(stopped_at(usize::MAX), full);
    let all = asked.load(Ordering::Relaxed);
    let cut_short = Plan {
        cut_short: Some(Effort::None),
        ..none.clone()
    };
    for at in (0..all).step_by(all.div_ceil(40)) {
        assert_eq!(
            stopped_at(at),
            cut_short,
            "stopped at question {at} of {all}"
        );
    }
}

/// Effort `thorough` makes the plan of `quick` first, and falls back to it once that is done.
#[test]
fn a_thorough_plan_that_is_stopped_is_that_of_quick() {
    let snapshot = spreading();
    let asked = AtomicUsize::new(0);
    let until = |effort, at: usize| {
        asked.store(0, Ordering::Relaxed);
        let raised = || asked.fetch_add(1, Ordering::Relaxed) >= at;
        let options = PlanOptions { effort, seed: 1 };
        planner::plan_until(&snapshot, &ByPrice, options, Stop::when(&raised)).unwrap()
    };
    let quick = until(Effort::Quick, usize::MAX);
    let for_quick = asked.load(Ordering::Relaxed);
    let none = until(Effort::None, usize::MAX);
    let cut_short = |effort, plan: &Plan| Plan {
        cut_short: Some(effort),
        ..plan.clone()
    };
    let full = until(Effort::Thorough, usize::MAX);
    let all = asked.load(Ordering::Relaxed);
    assert!(full.cost <= quick.cost && quick.cost < none.cost && full.cut_short.is_none());
    for at in [0, for_quick / 2] {
        assert_eq!(until(Effort::Thorough, at), cut_short(Effort::None, &none));
    }
    for at in [for_quick + 1, (for_quick + all) / 2] {
        assert_eq!(
            until(Effort::Thorough, at),
            cut_short(Effort::Quick, &quick)
        );
    }
}

/// Without effort there is nothing to stop.
#[test]
fn a_plan_of_no_effort_is_not_cut_short() {
    let snapshot = spreading();
    let options = PlanOptions {
        effort: Effort::None,
        seed: 1,
    };
    let stopped = planner::plan_until(&snapshot, &ByPrice, options, Stop::when(&|| true)).unwrap();
    assert_eq!(
        stopped,
        planner::plan(&snapshot, &ByPrice, options).unwrap()
    );
}

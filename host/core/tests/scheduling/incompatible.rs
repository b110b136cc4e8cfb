//! NodePools without compatible instance types are reported, whatever the pod.

use std::fmt::Write as _;
use std::sync::Arc;

use longshore_core::model::{MinValuesPolicy, Settings};
use longshore_core::plan::{Effort, Unfit};
use longshore_core::planner::{self, PlanOptions};
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use serde_json::{Value, json};

use super::{any, pod, pool, world};

fn notes_of(objects: &[Value], settings: Settings) -> String {
    let snapshot = Snapshot::new(Arc::new(world(objects, settings)));
    let plan = planner::plan(
        &snapshot,
        &ByPrice,
        PlanOptions {
            effort: Effort::Normal,
            seed: 1,
        },
    )
    .unwrap();
    let text = |sym| snapshot.world.names.text(sym);
    let mut out = String::new();
    for incompatible in &plan.incompatible_pools {
        let pool = text(snapshot.world.pools[incompatible.pool.0 as usize].name);
        let key = incompatible.requirement.map_or("nothing alone", text);
        let why = match &incompatible.unfit {
            Unfit::Types(left) => format!(
                "{} labels, {} offerings of {}",
                left.labels, left.offerings, left.all
            ),
            Unfit::MinValues { .. } => "minValues".to_owned(),
            other => format!("{other:?}"),
        };
        let _ = writeln!(out, "{pool}: {why}; {key}");
    }
    out
}

fn needs(name: &str, requirements: Value) -> Value {
    pool(name, requirements, &json!({}))
}

#[test]
fn a_nodepool_that_admits_no_type_says_which_requirement_is_too_much() {
    let rule = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let (arch, zone) = ("kubernetes.io/arch", "topology.kubernetes.io/zone");
    let size = "node.kubernetes.io/instance-type";
    let objects = [
        any(),
        needs("arch", json!([rule(arch, &["riscv"])])),
        needs("zone", json!([rule(zone, &["d"])])),
        needs(
            "both",
            json!([rule(arch, &["arm64"]), rule(size, &["x1.amd64"])]),
        ),
        needs(
            "many",
            json!([{"key": arch, "operator": "Exists", "minValues": 3}]),
        ),
        pod("a", "p", "1", "1Gi", &json!({})),
    ];
    let expected = "zone: 0 labels, 8 offerings of 8; topology.kubernetes.io/zone\n\
                    many: minValues; kubernetes.io/arch\n\
                    both: 8 labels, 0 offerings of 8; nothing alone\n\
                    arch: 8 labels, 0 offerings of 8; kubernetes.io/arch\n";
    assert_eq!(notes_of(&objects, Settings::default()), expected);
    let relaxed = Settings {
        min_values: MinValuesPolicy::BestEffort,
        ..Settings::default()
    };
    assert!(!notes_of(&objects, relaxed).contains("many"));
}

#[test]
fn without_a_pod_that_asks_nothing_is_said() {
    assert_eq!(
        notes_of(
            &[needs(
                "arch",
                json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["riscv"]}])
            )],
            Settings::default()
        ),
        ""
    );
}

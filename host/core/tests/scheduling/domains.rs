//! Which domains a spread constraint counts: generated cases against kube-scheduler as its
//! documentation has it, and what is said of a pod that is left over.

mod generate;
mod model;

use std::sync::Arc;

use expect_test::expect;
use longshore_core::explain;
use longshore_core::model::{ClusterObjects, OfferingId, Settings};
use longshore_core::plan::{Effort, Plan};
use longshore_core::planner::{self, PlanOptions};
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;
use serde_json::{Value, json};

use super::{node, plan, pods, pool, render, running, world};
use generate::{Case, KINDS};

const ZONE: &str = "topology.kubernetes.io/zone";
const CASES: u64 = 320;

#[test]
fn no_pod_is_left_over_that_kube_scheduler_would_take() {
    let (mut lacking, mut simulated) = ([0; KINDS], Played::default());
    for seed in 0..CASES {
        let case = Case::new(seed);
        lacking[case.kind] += usize::from(case.lacks_somewhere());
        simulated.play(&case, seed);
    }
    let Played { faults, left_over } = simulated;
    assert!(faults.is_empty(), "\n{faults}");
    assert!(
        lacking.iter().all(|&n| n >= 30),
        "a zone offers nothing for such pods in too few cases: {lacking:?}"
    );
    assert!(
        left_over > 20,
        "only {left_over} plans leave anybody over: the model is hardly asked about them"
    );
}

/// kube-scheduler passes over nodes that lack any of the topology keys that a pod must be spread
/// over.
#[test]
fn nodes_without_one_of_the_topology_keys_count_for_none() {
    let (mut outside, mut without, mut simulated) = (0, 0, Played::default());
    for seed in 0..CASES {
        let case = Case::with_racks(seed);
        outside += usize::from(case.has_pods_outside_racks());
        without += usize::from(case.has_zone_without_racks());
        simulated.play(&case, seed);
    }
    let Played { faults, left_over } = simulated;
    assert!(faults.is_empty(), "\n{faults}");
    assert!(
        outside >= 30 && without >= 30,
        "too few cases have nodes that are passed over: {outside}, {without}"
    );
    assert!(
        left_over > 20,
        "only {left_over} plans leave anybody over: the model is hardly asked about them"
    );
}

/// What has come of cases so far.
#[derive(Default)]
struct Played {
    faults: String,
    left_over: usize,
}

impl Played {
    /// Plans a case, and has the model judge it.
    fn play(&mut self, case: &Case, seed: u64) {
        let snapshot = Snapshot::new(Arc::new(case.world()));
        for effort in [Effort::None, Effort::Normal] {
            let plan = planner::plan(&snapshot, &ByPrice, PlanOptions { effort, seed })
                .unwrap_or_else(|rejected| {
                    panic!(
                        "seed {seed}:\n{}\n{:#?}",
                        render(&snapshot, &rejected.plan),
                        rejected.violations
                    );
                });
            self.left_over += usize::from(!plan.unplaced.is_empty());
            let replaced: Vec<String> = plan
                .rejected_candidates
                .iter()
                .map(ToString::to_string)
                .collect();
            for fault in judge(case, &snapshot, &plan)
                .err()
                .into_iter()
                .chain(replaced)
            {
                self.faults += &format!(
                    "seed {seed} {effort:?}: {fault}\n{}",
                    render(&snapshot, &plan)
                );
            }
        }
    }
}

/// Plays a plan with the model: each of its pods can be bound where the plan has it, in some order,
/// and then none of those left over could be bound to any node, there or to be bought.
fn judge(case: &Case, snapshot: &Snapshot, plan: &Plan) -> Result<(), String> {
    let world = &snapshot.world;
    let name = |pod: &longshore_core::plan::PodIx| &*world.pods[pod.0 as usize].name;
    let mut cluster = model::Cluster {
        nodes: case.existing(),
    };
    let mut wanted: Vec<(usize, &str)> = Vec::new();
    for claim in &plan.claims {
        let offering = world.catalogue.offering(claim.offering);
        let text = |sym| world.names.text(sym);
        let of_type = text(world.catalogue.instance_type(offering.instance_type).name);
        let at = (
            offering.zone.map_or("", text),
            offering.capacity_type.map_or("", text),
        );
        cluster
            .nodes
            .push(case.bought(text(world.pools[claim.pool.0 as usize].name), of_type, at));
        wanted.extend(
            claim
                .pods
                .iter()
                .map(|pod| (cluster.nodes.len() - 1, name(pod))),
        );
    }
    for placement in &plan.on_existing_nodes {
        let node = world
            .names
            .text(snapshot.nodes[placement.node.0 as usize].name);
        let at = cluster
            .nodes
            .iter()
            .position(|n| n.name == node)
            .ok_or("a node that does not exist")?;
        wanted.extend(placement.pods.iter().map(|pod| (at, name(pod))));
    }
    loop {
        let before = wanted.len();
        wanted.retain(|&(node, pod)| !cluster.bind(&case.pod(pod), node));
        if wanted.is_empty() {
            break;
        }
        if wanted.len() == before {
            return Err(format!("kube-scheduler refuses {wanted:?}"));
        }
    }
    for left in &plan.unplaced {
        let pod = case.pod(name(&left.pod));
        if let Some(node) = (0..cluster.nodes.len()).find(|&node| cluster.takes(&pod, node)) {
            return Err(format!(
                "{} is left over, and {} would take it",
                pod.name, cluster.nodes[node].name
            ));
        }
        for node in case.purchases() {
            let mut grown = cluster.clone();
            grown.nodes.push(node);
            let last = grown.nodes.len() - 1;
            if grown.takes(&pod, last) {
                return Err(format!(
                    "{} is left over, and a new {:?} would take it",
                    pod.name, grown.nodes[last]
                ));
            }
        }
    }
    Ok(())
}

/// Pods of an app spread over zones, with more of their spec as `patch`.
fn spread(count: usize, patch: &Value) -> Vec<Value> {
    let rule = json!({
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    });
    let mut spec = json!({"topologySpreadConstraints": [rule]});
    super::merge(&mut spec, patch);
    pods(count, "web", "900m", "1Gi", &spec)
}

fn zonal(name: &str, zones: &[&str], patch: &Value) -> Value {
    pool(
        name,
        json!([{"key": ZONE, "operator": "In", "values": zones}]),
        patch,
    )
}

#[test]
fn a_zone_that_only_a_tainted_pool_offers_does_not_count() {
    let taint = json!({"template": {"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}});
    let mut objects = spread(4, &json!({}));
    objects.extend([
        zonal("both", &["a", "b"], &json!({})),
        zonal("tainted", &["c"], &taint),
    ]);
    expect![[r#"
        both: x2.arm64 spot a 0.0360 (6 types): web2 web4
        both: x2.arm64 spot b 0.0353 (6 types): web1 web3
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn a_full_node_that_passes_the_filter_holds_the_minimum() {
    let mut objects = spread(4, &json!({}));
    objects.extend([
        zonal("both", &["a", "b"], &json!({})),
        node("n1", "c", "200m", "1Gi"),
    ]);
    objects.push(running("other", "other", "n1", &json!({})));
    expect![[r#"
        both: x1.arm64 spot a 0.0180 (8 types): web2
        both: x1.arm64 spot b 0.0176 (8 types): web1
        left web3: both Spread topology.kubernetes.io/zone, least c with 0: NotOffered
        left web4: both Spread topology.kubernetes.io/zone, least c with 0: NotOffered
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn a_node_bought_for_others_makes_its_zone_count() {
    let taint = json!({"template": {"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}});
    let mut objects = spread(4, &json!({}));
    objects.extend([
        zonal("both", &["a", "b"], &json!({})),
        zonal("tainted", &["c"], &taint),
    ]);
    let tolerant = json!({"tolerations": [{"operator": "Exists"}], "nodeSelector": {ZONE: "c"}});
    objects.extend(pods(1, "other", "1", "1Gi", &tolerant));
    expect![[r#"
        both: x1.arm64 spot a 0.0180 (8 types): web2
        both: x1.arm64 spot b 0.0176 (8 types): web1
        tainted: x2.arm64 spot c 0.0367 (6 types): other1
        left web3: tainted taint gpu; both Spread topology.kubernetes.io/zone, least c with 0: taint gpu
        left web4: tainted taint gpu; both Spread topology.kubernetes.io/zone, least c with 0: taint gpu
    "#]]
    .assert_eq(&plan(&objects));
}

/// What is explained of a pod is what its plan says, also where domains count because the plan buys
/// nodes there.
#[test]
fn a_pod_that_a_purchase_for_others_leaves_over_is_explained() {
    let taint = json!({"template": {"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}});
    let mut objects = spread(4, &json!({}));
    objects.extend([
        zonal("both", &["a", "b"], &json!({})),
        zonal("tainted", &["c"], &taint),
    ]);
    let tolerant = json!({"tolerations": [{"operator": "Exists"}], "nodeSelector": {ZONE: "c"}});
    objects.extend(pods(1, "other", "1", "1Gi", &tolerant));
    let snapshot = Snapshot::new(Arc::new(world(&objects, Settings::default())));
    let plan = planner::plan(
        &snapshot,
        &ByPrice,
        PlanOptions {
            effort: Effort::Normal,
            seed: 1,
        },
    )
    .unwrap();
    assert_eq!(plan.unplaced.len(), 2);
    for left in &plan.unplaced {
        let why = explain::refusals(&snapshot, &ByPrice, &plan, left.pod, Stop::never());
        assert_eq!(why, left.refusals);
    }
}

#[test]
fn a_zone_whose_limit_of_zero_forbids_nodes_does_not_count() {
    let mut objects = spread(4, &json!({}));
    objects.extend([
        zonal("both", &["a", "b"], &json!({})),
        zonal("off", &["c"], &json!({"limits": {"cpu": "0"}})),
    ]);
    expect![[r#"
        both: x2.arm64 spot a 0.0360 (6 types): web2 web4
        both: x2.arm64 spot b 0.0353 (6 types): web1 web3
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn a_zone_without_capacity_for_the_moment_counts_and_is_named() {
    let mut objects = spread(4, &json!({}));
    objects.push(pool("default", json!([]), &json!({})));
    let mut world: ClusterObjects = world(&objects, Settings::default());
    let zone = world.names.get("c");
    let rows = world
        .catalogue
        .offerings()
        .iter()
        .enumerate()
        .filter(|(_, offering)| offering.zone == zone);
    let short: Vec<(OfferingId, i64)> = rows
        .map(|(row, _)| (OfferingId(row as u32), 1_793_541_800))
        .collect();
    world.catalogue = world.catalogue.without_capacity(&short);
    let snapshot = Snapshot::new(Arc::new(world));
    let plan = planner::plan(
        &snapshot,
        &ByPrice,
        PlanOptions {
            effort: Effort::Normal,
            seed: 1,
        },
    )
    .unwrap();
    expect![[r#"
        default: x1.arm64 spot a 0.0180 (8 types): web2
        default: x1.arm64 spot b 0.0176 (8 types): web1
        left web3: default Spread topology.kubernetes.io/zone, least c with 0: types 8: labels 0 resources [0, 0, 0, 0, 0] offerings 8 short 16 until 1793541800
        left web4: default Spread topology.kubernetes.io/zone, least c with 0: types 8: labels 0 resources [0, 0, 0, 0, 0] offerings 8 short 16 until 1793541800
    "#]].assert_eq(&render(&snapshot, &plan));
}

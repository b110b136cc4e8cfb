//! What refuses a pod is named with its value, what is used of it and what is wanted.

use std::sync::Arc;

use expect_test::expect;
use longshore_core::model::{Catalogue, OfferingId, Settings, Symbol, Symbols};
use longshore_core::planner::{self, PlanOptions};
use longshore_core::policy::{DISCOURAGED, Policies, PolicyCosts, Scores};
use longshore_core::snapshot::Snapshot;
use serde_json::{Value, json};

use super::{any, plan, pod, pods, pool, render, world};

/// Policies by name, each with the capacity type that it excludes.
struct Without(&'static [(&'static str, &'static str)]);

impl Policies for Without {
    fn score(&self, catalogue: &Catalogue, names: &Symbols, _: Symbol) -> Scores {
        let mut scores = Scores {
            cost: catalogue.prices().clone(),
            ..Scores::default()
        };
        for (policy, excluded) in self.0 {
            let offerings = catalogue.offerings().iter().zip(scores.cost.iter());
            let cost = offerings.map(|(offering, &cost)| {
                let kind = offering.capacity_type.map(|of| names.text(of));
                if kind == Some(excluded) {
                    f64::INFINITY
                } else {
                    cost
                }
            });
            scores.cost = cost.collect();
            scores.policies.push(PolicyCosts {
                policy: (*policy).into(),
                cost: scores.cost.clone(),
                discouraged: Arc::default(),
            });
        }
        scores
    }
}

const NO_SPOT: Without = Without(&[("no-spot", "spot")]);

fn without_spot(objects: &[Value]) -> String {
    let snapshot = Snapshot::new(Arc::new(world(objects, Settings::default())));
    let plan = planner::plan(&snapshot, &NO_SPOT, PlanOptions::default()).unwrap();
    render(&snapshot, &plan)
}

#[test]
fn a_limit_is_named_with_what_is_used_and_the_smallest_node_that_would_do() {
    let mut objects = pods(5, "web", "3500m", "1Gi", &json!({}));
    objects.push(pool("small", json!([]), &json!({"limits": {"cpu": "18"}})));
    let text = plan(&objects);
    let left = text.lines().find(|line| line.starts_with("left"));
    assert_eq!(
        left,
        Some("left web5: small limit cpu: 16000 of 18000, wants 4000")
    );
}

#[test]
fn a_limit_of_nodes_is_named_with_how_many_there_are() {
    let mut objects = pods(3, "web", "3500m", "1Gi", &json!({}));
    objects.push(pool("small", json!([]), &json!({"limits": {"nodes": "1"}})));
    let text = plan(&objects);
    let left = text.lines().find(|line| line.starts_with("left"));
    assert_eq!(left, Some("left web3: small limit nodes: 1 of 1"));
}

#[test]
fn what_a_policy_excludes_is_no_lack_of_offerings() {
    let on = |kind: &str| json!({"nodeSelector": {"karpenter.sh/capacity-type": kind}});
    let objects = [
        any(),
        pod("spot", "a", "3", "1Gi", &on("spot")),
        pod("on-demand", "b", "3", "1Gi", &on("on-demand")),
    ];
    expect![[r#"
        default: x4.arm64 on-demand b 0.1764 (4 types): on-demand
        left spot: default types 8: labels 0 resources [4, 0, 0, 0, 0] offerings 0 excluded 4 by no-spot
    "#]]
    .assert_eq(&without_spot(&objects));
}

/// Discourages a capacity type.
struct Discourages(&'static str);

impl Policies for Discourages {
    fn score(&self, catalogue: &Catalogue, names: &Symbols, _: Symbol) -> Scores {
        let is_meant = |row: u32| {
            let offering = catalogue.offering(OfferingId(row));
            offering.capacity_type.map(|of| names.text(of)) == Some(self.0)
        };
        let rows = 0..catalogue.offerings().len() as u32;
        let mut cost = catalogue.prices().to_vec();
        let discouraged: Arc<[u32]> = rows.filter(|&row| is_meant(row)).collect();
        for &row in discouraged.iter() {
            cost[row as usize] += DISCOURAGED;
        }
        let cost: Arc<[f64]> = cost.into();
        Scores {
            policies: vec![PolicyCosts {
                policy: "rather-not".into(),
                cost: cost.clone(),
                discouraged,
            }],
            cost,
            pools: Vec::new(),
        }
    }
}

#[test]
fn what_a_policy_discourages_is_bought_where_nothing_else_takes_the_pod_and_the_claim_says_so() {
    let bought = |asks: &Value| {
        let objects = [any(), pod("web", "a", "3", "1Gi", asks)];
        let snapshot = Snapshot::new(Arc::new(world(&objects, Settings::default())));
        let policy = Discourages("spot");
        let plan = planner::plan(&snapshot, &policy, PlanOptions::default()).unwrap();
        let by = plan.claims[0].discouraged_by.clone();
        (render(&snapshot, &plan), by)
    };
    let (text, by) = bought(&json!({"nodeSelector": {"karpenter.sh/capacity-type": "spot"}}));
    expect![[r#"
        default: x4.arm64 spot b 0.0706 (4 types): web
    "#]]
    .assert_eq(&text);
    assert_eq!(by.as_deref(), Some("rather-not"));
    // It may not be launched as what is discouraged either.
    let (text, by) = bought(&json!({}));
    expect![[r#"
        default: x4.arm64 on-demand b 0.1764 (4 types): web
    "#]]
    .assert_eq(&text);
    assert_eq!(by, None);
}

#[test]
fn each_policy_of_a_chain_that_excludes_some_of_the_offerings_is_named() {
    const CHAIN: Without = Without(&[("no-spot", "spot"), ("fine", ""), ("quota", "on-demand")]);
    let objects = [any(), pod("web", "a", "3", "1Gi", &json!({}))];
    let snapshot = Snapshot::new(Arc::new(world(&objects, Settings::default())));
    let plan = planner::plan(&snapshot, &CHAIN, PlanOptions::default()).unwrap();
    let text = render(&snapshot, &plan);
    assert!(text.contains(" by no-spot, quota"), "{text}");
}

#[test]
fn what_a_policy_leaves_and_has_no_capacity_is_named_beside_what_it_excludes() {
    let objects = [any(), pod("web", "a", "3", "1Gi", &json!({}))];
    let mut world = world(&objects, Settings::default());
    let kind = world.names.get("on-demand");
    let rows = world.catalogue.offerings().iter().enumerate();
    let short: Vec<(OfferingId, i64)> = rows
        .filter(|(_, offering)| offering.capacity_type == kind)
        .map(|(row, _)| (OfferingId(row as u32), 1_793_541_800))
        .collect();
    world.catalogue = world.catalogue.without_capacity(&short);
    let snapshot = Snapshot::new(Arc::new(world));
    let plan = planner::plan(&snapshot, &NO_SPOT, PlanOptions::default()).unwrap();
    expect![[r#"
        left web: default types 8: labels 0 resources [4, 0, 0, 0, 0] offerings 0 excluded 4 by no-spot short 12 until 1793541800
    "#]]
    .assert_eq(&render(&snapshot, &plan));
}

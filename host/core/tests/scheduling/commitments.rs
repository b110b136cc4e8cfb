//! Commitments: what is prepaid belongs to the policy that says so.

use std::sync::Arc;

use longshore_core::model::{Catalogue, OfferingId, Settings, Symbol, Symbols};
use longshore_core::plan::{Effort, Plan};
use longshore_core::planner::{self, PlanOptions};
use longshore_core::policy::{CommitmentPool, Draw, Policies, Scores};
use longshore_core::snapshot::Snapshot;
use serde_json::{Value, json};

use crate::{pod, pool, world};

/// One node's worth of `reserved` is left, on every offering: of one policy for both NodePools, or of
/// one for each.
struct Reserved {
    of_each: bool,
}

impl Policies for Reserved {
    fn score(&self, catalogue: &Catalogue, names: &Symbols, pool: Symbol) -> Scores {
        let is_second = names.text(pool) == "sandbox";
        let offerings = 0..catalogue.offerings().len() as u32;
        let draw = |at| Draw {
            offering: OfferingId(at),
            amount: 1.0,
            cost: 0.0,
        };
        Scores {
            policies: Vec::new(),
            cost: catalogue.prices().clone(),
            pools: vec![CommitmentPool {
                owner: u32::from(self.of_each && is_second),
                name: "reserved".into(),
                remaining: 1.0,
                draws: offerings.map(draw).collect(),
            }],
        }
    }
}

fn plan(of_each: bool, effort: Effort) -> Plan {
    let with = |name: &str| json!({"nodeSelector": {"karpenter.sh/nodepool": name}});
    let objects: [Value; 4] = [
        pool("production", json!([]), &json!({})),
        pool("sandbox", json!([]), &json!({})),
        pod("one", "web", "900m", "1Gi", &with("production")),
        pod("two", "web", "900m", "1Gi", &with("sandbox")),
    ];
    let snapshot = Snapshot::new(Arc::new(world(&objects, Settings::default())));
    let options = PlanOptions { effort, seed: 1 };
    planner::plan(&snapshot, &Reserved { of_each }, options).unwrap()
}

#[test]
fn one_policy_does_not_drain_the_commitment_of_another_of_the_same_name() {
    for effort in [Effort::None, Effort::Normal] {
        let prepaid = |of_each| {
            let claims = plan(of_each, effort).claims;
            assert_eq!(claims.len(), 2);
            let free = claims.iter().filter(|claim| claim.effective_cost == 0.0);
            free.count()
        };
        assert_eq!(prepaid(true), 2, "each has its own");
        assert_eq!(prepaid(false), 1, "NodePools of one policy share it");
    }
}

/// Every offering is in `first`, which has room for one node and is dearer, and in `second`, which has
/// room for two.
struct InTwo;

impl Policies for InTwo {
    fn score(&self, catalogue: &Catalogue, _: &Symbols, _: Symbol) -> Scores {
        let of = |name: &str, remaining: f64, share: f64| CommitmentPool {
            owner: 0,
            name: name.into(),
            remaining,
            draws: (0..catalogue.offerings().len() as u32)
                .map(|at| Draw {
                    offering: OfferingId(at),
                    amount: 1.0,
                    cost: catalogue.prices()[at as usize] * share,
                })
                .collect(),
        };
        Scores {
            policies: Vec::new(),
            cost: catalogue.prices().clone(),
            pools: vec![of("first", 1.0, 0.5), of("second", 2.0, 0.0)],
        }
    }
}

#[test]
fn of_several_commitments_the_first_that_has_enough_counts() {
    // Pods that do not share a node.
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}});
    for effort in [Effort::None, Effort::Normal] {
        for (pods, expected) in [(1, [1, 0, 0]), (2, [1, 1, 0]), (4, [1, 2, 1])] {
            let mut objects = vec![pool("production", json!([]), &json!({}))];
            let names = ["a", "b", "c", "d"].iter().take(pods);
            objects.extend(names.map(|name| pod(name, "web", "900m", "1Gi", &apart)));
            let snapshot = Snapshot::new(Arc::new(world(&objects, Settings::default())));
            let options = PlanOptions { effort, seed: 1 };
            let claims = planner::plan(&snapshot, &InTwo, options).unwrap().claims;
            let counted = |is: fn(f64) -> bool| {
                let shares = claims
                    .iter()
                    .map(|claim| claim.effective_cost / claim.price);
                shares.filter(|&share| is(share)).count()
            };
            let (first, second) = (counted(|share| share == 0.5), counted(|share| share == 0.0));
            let outside = counted(|share| share == 1.0);
            assert_eq!(
                [first, second, outside],
                expected,
                "{pods} pods, {effort:?}"
            );
        }
    }
}

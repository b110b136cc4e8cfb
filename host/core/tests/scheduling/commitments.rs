//! Commitments: what is prepaid belongs to the policy that says so.

use std::sync::Arc;

use longshore_core::model::{Catalogue, OfferingId, Settings, Symbol, Symbols};
use longshore_core::plan::{Effort, Plan};
use longshore_core::planner::{self, Options};
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
            policy: None,
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
    let options = Options { effort, seed: 1 };
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

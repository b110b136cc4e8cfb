//! Offerings of one list price, which a policy tells apart.

use std::sync::Arc;

use longshore_core::model::{Catalogue, Settings, Symbol, Symbols};
use longshore_core::plan::Effort;
use longshore_core::planner::{self, PlanOptions};
use longshore_core::policy::{ByPrice, Policies, Scores};
use longshore_core::snapshot::Snapshot;
use serde_json::json;

use crate::{any, pod, world};

/// Costs half of the price in a zone, or as a capacity type.
struct Prefers(&'static str);

impl Policies for Prefers {
    fn score(&self, catalogue: &Catalogue, names: &Symbols, _: Symbol) -> Scores {
        let cost = catalogue.offerings().iter().map(|one| {
            let values = [one.zone, one.capacity_type].into_iter().flatten();
            let mut values = values.map(|value| names.text(value));
            one.price
                * if values.any(|value| value == self.0) {
                    0.5
                } else {
                    1.0
                }
        });
        Scores {
            policies: Vec::new(),
            cost: cost.collect(),
            pools: Vec::new(),
        }
    }
}

/// What is planned where both zones and both capacity types of a type have one price, and whether it is
/// said that something else of that price costs more.
fn planned(policies: &dyn Policies, effort: Effort) -> String {
    let objects = [any(), pod("p", "web", "900m", "1Gi", &json!({}))];
    let mut world = world(&objects, Settings::default());
    let mut offerings = Vec::new();
    for zone in ["a", "b"] {
        for capacity in ["on-demand", "spot"] {
            let is = |key: &str, value| json!({"key": key, "operator": "In", "values": [value]});
            let requirements = [
                is("karpenter.sh/capacity-type", capacity),
                is("topology.kubernetes.io/zone", zone),
            ];
            offerings.push(json!({"Price": 0.05, "Available": true, "Requirements": requirements}));
        }
    }
    let resources = json!({"cpu": "2", "memory": "8Gi", "pods": "20"});
    let types = json!([{"name": "x2", "offerings": offerings, "architecture": "amd64",
        "operatingSystems": ["linux"], "resources": resources}]);
    let types = types.to_string();
    let (catalogue, problems) =
        longshore_kwok::catalogue::parse("types", types.as_bytes(), &mut world.names);
    assert!(problems.list.is_empty(), "{problems}");
    world.catalogue = catalogue;
    let snapshot = Snapshot::new(Arc::new(world));
    let plan = planner::plan(&snapshot, policies, PlanOptions { effort, seed: 1 }).unwrap();
    let claim = &plan.claims[0];
    let world = &snapshot.world;
    let offering = world.catalogue.offering(claim.offering);
    let [zone, capacity] =
        [offering.zone, offering.capacity_type].map(|value| world.names.text(value.unwrap()));
    let dearer = if claim.dearer_at_same_price {
        ", others cost more"
    } else {
        ""
    };
    format!("{capacity} {zone}{dearer}")
}

#[test]
fn a_claim_says_that_a_policy_prefers_it_among_offerings_of_equal_price() {
    for effort in [Effort::None, Effort::Normal] {
        let zone = planned(&Prefers("b"), effort);
        assert!(zone.ends_with(" b, others cost more"), "{zone}");
        let capacity_type = planned(&Prefers("spot"), effort);
        assert!(capacity_type.starts_with("spot "), "{capacity_type}");
        assert!(
            capacity_type.ends_with(", others cost more"),
            "{capacity_type}"
        );
        let by_price = planned(&ByPrice, effort);
        assert!(
            !by_price.contains("others"),
            "any of them will do: {by_price}"
        );
    }
}

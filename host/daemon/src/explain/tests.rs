//! Every explanation of every pod and node: of the clusters that are shipped, and of generated ones.

use std::sync::Arc;

use longshore_api::manifests::Reader;
use longshore_core::disrupt::methods::{self, Explain};
use longshore_core::model::{Catalogue, OfferingId, Symbol, Symbols};
use longshore_core::plan::PodIx;
use longshore_core::planner;
use longshore_core::policy::{AlikeCosts, ByPrice, CostTerm, Policies, Scores};
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;
use longshore_report::decision;
use longshore_report::pod_explanation::{ExplainInput, explain};
use serde_json::Value;

#[allow(
    clippy::duplicate_mod,
    reason = "both generators load the same random numbers"
)]
#[path = "../../tests/disruption_vectors/generate.rs"]
mod disruption;
#[path = "../../tests/differential/generate.rs"]
mod generate;

const NOW: i64 = 1_793_491_200;

fn snapshot(cluster: &[u8], types: &[u8]) -> Snapshot {
    let mut reader = Reader::new();
    reader.read("cluster", cluster);
    let (mut world, _) = reader.finish();
    let (catalogue, problems) =
        longshore_kwok::catalogue::parse("types.json", types, &mut world.names);
    assert!(problems.list.is_empty(), "{problems}");
    world.catalogue = catalogue;
    world.now = NOW;
    Snapshot::new(Arc::new(world))
}

/// Explains every pod and every node. Returns how many pods and nodes that were.
fn explain_all(of: &str, snapshot: &Snapshot) -> (usize, usize) {
    let options = planner::PlanOptions::default();
    let plan = planner::plan(snapshot, &ByPrice, options).unwrap();
    let case = ExplainInput {
        snapshot,
        policies: &ByPrice,
        options,
        plan: &plan,
        stop: Stop::never(),
    };
    let world = &*snapshot.world;
    for at in 0..world.pods.len() {
        let name = decision::pod_name(world, PodIx(at as u32));
        match explain(&case, &name) {
            Ok(explained) => assert!(explained.text.contains(&name), "{of}: {}", explained.text),
            // Of two pods with one name.
            Err(error) => assert!(
                error.to_string().contains("pods are called"),
                "{of}: {name}"
            ),
        }
    }
    let how = methods::RoundOptions {
        explain: Explain::All,
        ..methods::RoundOptions::default()
    };
    let round = methods::round(snapshot, &ByPrice, how, Stop::never());
    for node in &world.nodes {
        let name = world.names.text(node.name);
        let explained = match longshore_report::disruption::explain_going(world, name).unwrap() {
            Some(going) => going.text,
            None => longshore_report::disruption::explain(snapshot, &round, name, false)
                .map_or_else(|why| why.to_string(), |explained| explained.text),
        };
        assert!(explained.contains(name), "{of}: {explained}");
    }
    (world.pods.len(), world.nodes.len())
}

#[test]
fn every_pod_and_node_of_the_shipped_clusters_is_explained() {
    let shop = include_bytes!("../../../../examples/clusters/web-shop.json");
    let types = include_bytes!("../../../../examples/catalogues/ec2-us-east-1.json");
    let shop = explain_all("web-shop", &snapshot(shop, types));
    let small = include_bytes!("../../tests/data/small.yaml");
    let types = include_bytes!("../../tests/data/types.json");
    let small = explain_all("small", &snapshot(small, types));
    assert!(shop.0 > 20 && shop.1 > 2, "{shop:?}");
    assert!(small.0 > 3, "{small:?}");
}

#[test]
fn every_pod_and_node_of_generated_clusters_is_explained() {
    let text = |value: Value| value.to_string().into_bytes();
    let mut all = (0, 0);
    for seed in 0..200 {
        let (cluster, types) = generate::cluster(seed);
        let of = format!("cluster {seed}");
        let (pods, nodes) = explain_all(&of, &snapshot(&text(cluster), &text(types)));
        all = (all.0 + pods, all.1 + nodes);
    }
    for seed in 0..60 {
        let (cluster, types) = disruption::cluster(seed);
        let of = format!("disruption {seed}");
        let (pods, nodes) = explain_all(&of, &snapshot(&text(cluster), &text(types)));
        all = (all.0 + pods, all.1 + nodes);
    }
    assert!(all.0 > 1_000 && all.1 > 200, "{all:?}");
}

/// Two scorers of which the second answers 0 for everything, and list prices.
struct Zero(Vec<f64>);

impl Policies for Zero {
    fn score(&self, catalogue: &Catalogue, _: &Symbols, _: Symbol) -> Scores {
        Scores {
            policies: Vec::new(),
            cost: vec![0.0; catalogue.offerings().len()].into(),
            pools: Vec::new(),
        }
    }

    fn alike(&self) -> Vec<AlikeCosts> {
        let of = |node_pool: &str| AlikeCosts {
            policy: "green".into(),
            node_pool: node_pool.into(),
            offerings: 812,
            cost: 0.0,
        };
        ["arm", "web"].map(of).into()
    }

    fn terms(&self, _: &str, offering: OfferingId) -> Vec<CostTerm> {
        let term = |policy: &str, usd: f64, cost: f64| CostTerm {
            policy: policy.into(),
            usd,
            cost,
            draws: false,
            discourages: false,
        };
        let price = self.0[offering.0 as usize];
        vec![
            term("dear", 0.25, price + 0.25),
            term("green", -0.25 - price, 0.0),
        ]
    }
}

#[test]
fn a_policy_that_costs_all_offerings_alike_is_named() {
    let small = include_bytes!("../../tests/data/small.yaml");
    let types = include_bytes!("../../tests/data/types.json");
    let snapshot = snapshot(small, types);
    let options = planner::PlanOptions::default();
    let zero = Zero(snapshot.world.catalogue.prices().to_vec());
    let plan = planner::plan(&snapshot, &zero, options).unwrap();
    let case = ExplainInput {
        snapshot: &snapshot,
        policies: &zero,
        options,
        plan: &plan,
        stop: Stop::never(),
    };
    let pod = decision::pod_name(&snapshot.world, plan.claims[0].pods[0]);
    let explained = explain(&case, &pod).unwrap();
    let sentence = "Policy green costs all 812 offerings 0 USD/h for NodePool arm, web: the price \
        decides nothing.";
    assert!(explained.text.contains(sentence), "{}", explained.text);
    assert_eq!(explained.explanation["alike"][0], sentence);
    let new = &explained.explanation["outcome"]["new"];
    let price = new["claim"]["offering"]["price"].as_f64().unwrap();
    let term = |at: usize| {
        let term = &new["terms"][at];
        let number = |key: &str| term[key].as_f64();
        (term["policy"].as_str(), number("usd"), number("countsAs"))
    };
    assert_eq!(term(0), (Some("dear"), Some(0.25), Some(price + 0.25)));
    assert_eq!(
        term(1),
        (Some("green"), Some(-0.25 - price), Some(0.0)),
        "the second in the file"
    );
    // The node may have no next best.
    let next = new["claim"]["nextBest"]["price"].as_f64();
    let best = |usd: Option<f64>| usd.map_or(String::new(), |usd| format!("; next best {usd:+.4}"));
    let lines = format!(
        "  policy       dear: +0.2500 USD/h, so the node counts as {:.4} USD/h{}\n  \
        policy       green: {:+.4} USD/h, so the node counts as 0.0000 USD/h{}\n",
        price + 0.25,
        best(next.map(|_| 0.25)),
        -0.25 - price,
        best(next.map(|next| -0.25 - next))
    );
    assert!(explained.text.contains(&lines), "{}", explained.text);
    assert!(new["byPrice"]["price"].as_f64().unwrap() > 0.0, "{new}");
}

//! The same cluster gives the same plan, byte for byte: in whatever order its objects come, in a
//! debug build and in a release build, today and on another machine.

use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::expect;
use longshore_api::manifests::Reader;
use longshore_core::model::ClusterObjects;
use longshore_core::plan::{Effort, Plan, PodIx};
use longshore_core::planner::{self, PlanOptions};
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// When plans are made: 2026-11-01T00:00:00Z.
const NOW: i64 = 1_793_491_200;
const SEEDS: u64 = 50;
const SHUFFLES: u64 = 100;

#[test]
fn a_hundred_orders_of_the_same_objects_give_the_same_plan() {
    for shuffle in 0..SHUFFLES {
        let seed = shuffle % SEEDS;
        let (mut cluster, mut types) = crate::generate::cluster(seed);
        let straight = plan_in_words(&cluster, &types, seed);
        mix(
            cluster["items"]
                .as_array_mut()
                .into_iter()
                .chain(types.as_array_mut()),
            shuffle,
        );
        assert_eq!(
            plan_in_words(&cluster, &types, seed),
            straight,
            "seed {seed}, shuffle {shuffle}"
        );
    }
}

#[test]
fn plans_are_the_same_in_every_build() {
    let mut all = Sha256::new();
    for seed in 0..SEEDS {
        let (cluster, types) = crate::generate::cluster(seed);
        all.update(plan_in_words(&cluster, &types, seed));
    }
    let digest: String = all
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    // `UPDATE_EXPECT=1 cargo test --test vectors determinism` where plans were meant to change.
    expect!["195da0ec28b299e938c56017338176dbd1ed9180d43741097199320f7d48d0ec"].assert_eq(&digest);
}

/// Shuffles lists by a seed.
fn mix<'a>(lists: impl Iterator<Item = &'a mut Vec<Value>>, seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for list in lists {
        for at in (1..list.len()).rev() {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            list.swap(at, (state >> 33) as usize % (at + 1));
        }
    }
}

/// The whole plan in words, floats to the last bit.
fn plan_in_words(cluster: &Value, types: &Value, seed: u64) -> String {
    let mut reader = Reader::new();
    reader.read("cluster.json", cluster.to_string().as_bytes());
    let (mut world, _) = reader.finish();
    let (catalogue, _) = longshore_kwok::catalogue::parse(
        "types.json",
        types.to_string().as_bytes(),
        &mut world.names,
    );
    world.catalogue = catalogue;
    world.now = NOW;
    let snapshot = Snapshot::new(Arc::new(world));
    match planner::plan(
        &snapshot,
        &ByPrice,
        PlanOptions {
            effort: Effort::Normal,
            seed,
        },
    ) {
        Ok(plan) => words(&snapshot, &plan),
        Err(rejected) => panic!("seed {seed}: {:?}", rejected.violations),
    }
}

fn words(snapshot: &Snapshot, plan: &Plan) -> String {
    let world = &*snapshot.world;
    let text = |sym| world.names.text(sym);
    let mut out = String::new();
    for claim in &plan.claims {
        let types = claim
            .types
            .iter()
            .map(|&t| text(world.catalogue.instance_type(t).name));
        let requirements = claim.requirements.iter().map(|(key, values)| {
            let values: Vec<&str> = values.iter().map(|&v| text(v)).collect();
            format!("{}={}", text(*key), values.join("|"))
        });
        _ = writeln!(
            out,
            "{} {:x} {:x}: {} [{}] {}",
            text(world.pools[claim.pool.0 as usize].name),
            claim.price.to_bits(),
            claim.effective_cost.to_bits(),
            types.collect::<Vec<_>>().join(" "),
            requirements.collect::<Vec<_>>().join(" "),
            pods(world, &claim.pods)
        );
    }
    for placement in &plan.on_existing_nodes {
        let node = text(snapshot.nodes[placement.node.0 as usize].name);
        _ = writeln!(out, "{node}: {}", pods(world, &placement.pods));
    }
    for unplaced in &plan.unplaced {
        _ = writeln!(
            out,
            "left {} ({})",
            pods(world, &[unplaced.pod]),
            unplaced.refusals.len()
        );
    }
    let totals = [plan.cost, plan.effective_cost, plan.lower_bound].map(f64::to_bits);
    _ = writeln!(out, "{totals:x?}");
    out
}

fn pods(world: &ClusterObjects, pods: &[PodIx]) -> String {
    let name = |pod: &PodIx| {
        let pod = &world.pods[pod.0 as usize];
        format!(
            "{}/{}",
            world.names.text(world.shapes.get(pod.shape).namespace),
            pod.name
        )
    };
    pods.iter().map(name).collect::<Vec<_>>().join(" ")
}

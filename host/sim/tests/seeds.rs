//! The daemon in a world: it does its work, equal seeds give equal runs, and it recovers from
//! random faults.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use longshore_sim::harness::generated::{ScenarioKind, types};
use longshore_sim::harness::run::{run_scenario, run_seed};
use longshore_sim::harness::{Harness, SEEDS_TYPES, Setup, reloader};
use longshore_simcluster::world::paused;

use crate::manifests::{KWOK_POOL, ONE_CPU, one_per_node};

/// Nodes at the busiest, about.
const SMALL: u32 = 12;
const SOME: Duration = Duration::from_secs(600);

/// Pods come, their claims are deleted, their number shrinks. Returns everything that was asked and
/// done.
fn up_and_down(seed: u64) -> String {
    let setup = Setup::new(seed).expect("policies");
    let result = paused(async {
        let harness = Harness::new(setup);
        let world = &harness.world;
        world.apply(KWOK_POOL).expect("manifests");
        world.run_for(Duration::from_secs(5)).await;
        world
            .apply(&one_per_node("web", 5, ONE_CPU))
            .expect("manifests");
        world.run_for(Duration::from_secs(60)).await;
        assert_eq!(
            harness.settle(SOME).await,
            [""; 0],
            "{}",
            harness.transcript()
        );
        assert_eq!(
            (world.ready_pods(), world.cloud.ledger().running().count()),
            (5, 5),
            "{}",
            world.describe()
        );
        let claims = world
            .server
            .list(longshore_simcluster::server::resources::NODE_CLAIM);
        assert!(world.delete(
            "NodeClaim",
            "",
            longshore_simcluster::fields::name(&claims[0])
        ));
        world.run_for(Duration::from_secs(60)).await;
        assert_eq!(
            harness.settle(SOME).await,
            [""; 0],
            "{}",
            harness.transcript()
        );
        assert_eq!(
            (world.ready_pods(), world.cloud.ledger().entries.len()),
            (5, 6),
            "{}",
            world.describe()
        );
        world.scale("Deployment", "default", "web", 0);
        for claim in world
            .server
            .list(longshore_simcluster::server::resources::NODE_CLAIM)
        {
            world.delete("NodeClaim", "", longshore_simcluster::fields::name(&claim));
        }
        world.run_for(Duration::from_secs(120)).await;
        assert_eq!(
            harness.settle(SOME).await,
            [""; 0],
            "{}",
            harness.transcript()
        );
        assert_eq!(
            world.cloud.ledger().running().count(),
            0,
            "{}",
            world.describe()
        );
        assert_eq!(harness.violations(), [""; 0]);
        harness.transcript()
    });
    result.expect("a runtime")
}

#[test]
fn pods_get_nodes_and_leave_them_and_the_same_seed_tells_the_same_story() {
    let (one, again) = (up_and_down(1), up_and_down(1));
    assert_eq!(first_difference(&one, &again), None);
    assert!(one.len() > 10_000 && one != up_and_down(2));
}

/// The first line that differs, of both.
fn first_difference<'a>(one: &'a str, other: &'a str) -> Option<(&'a str, &'a str)> {
    if one == other {
        return None;
    }
    let found = one.lines().zip(other.lines()).find(|(a, b)| a != b);
    Some(found.unwrap_or(("one is longer", "")))
}

/// How many seeds CI has time for, of each kind; `LONGSHORE_SEEDS` says another number.
fn seeds(usually: u64) -> u64 {
    let said = std::env::var("LONGSHORE_SEEDS").ok();
    said.and_then(|text| text.parse().ok()).unwrap_or(usually)
}

/// Tells the first scenarios of a kind, of a smaller cluster than `longshore-sim seeds` tells, on all
/// cores. What is wrong with them.
fn failures(kind: ScenarioKind, seeds: u64) -> String {
    let types = types(SEEDS_TYPES);
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let tell = || {
        let reloader = reloader().expect("policies");
        let mut failed = String::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return failed;
            }
            let scenario = kind.scenario(seed, SMALL, types.clone());
            let result = run_scenario(&scenario, reloader.clone(), false).expect("a runtime");
            if !result.wrong.is_empty() {
                failed += &format!("seed {seed}: {:#?}\n", result.wrong);
                failed += &format!(
                    "cargo run -p longshore-sim --bin longshore-sim -- seed {seed} --size {SMALL} \
                    --kind {}\n",
                    kind.name()
                );
            }
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(tell)).collect();
        running
            .into_iter()
            .map(|one| one.join().expect("no panic"))
            .collect()
    })
}

#[test]
fn after_an_hour_of_faults_every_pod_runs_and_nothing_is_left_behind() {
    let failed = failures(ScenarioKind::Usual, seeds(60));
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn an_hour_of_faults_with_disruption_ends_well_and_breaks_no_budget() {
    let failed = failures(ScenarioKind::Disrupt, seeds(40));
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn what_is_bought_in_vain_is_bounded_and_others_get_their_nodes() {
    let failed = failures(ScenarioKind::Vain, seeds(30));
    assert!(failed.is_empty(), "{failed}");
}

/// Seed 312: three nodes never join, and the NodePool buys again ten minutes into the rest at the end.
#[test]
fn a_back_off_of_nodes_that_never_joined_may_end_while_the_daemon_rests() {
    let scenario = ScenarioKind::Disrupt.scenario(312, 12, types(SEEDS_TYPES));
    let result = run_scenario(&scenario, reloader().expect("policies"), false).expect("a runtime");
    assert_eq!(result.wrong, [""; 0]);
}

#[test]
fn a_story_with_faults_is_told_twice_in_the_same_words() {
    let types = types(SEEDS_TYPES);
    let reloader = reloader().expect("policies");
    for seed in [3, 7] {
        let transcript = || {
            run_seed(seed, SMALL, &types, reloader.clone(), true)
                .expect("a runtime")
                .transcript
        };
        assert_eq!(
            first_difference(&transcript(), &transcript()),
            None,
            "seed {seed}"
        );
    }
}

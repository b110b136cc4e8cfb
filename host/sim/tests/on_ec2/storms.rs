//! Capacity storms: four offerings of five have no capacity, others every minute.

use std::time::Duration;

use longshore_sim::harness::{Setup, reloader};
use longshore_simcluster::world::paused;
use serde_json::json;

use super::{AccountOptions, BASE, apart, harness, launches};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn in_a_storm_pods_are_placed_and_no_offering_is_asked_for_again_too_soon() {
    for seed in 1..=5 {
        storm(seed, "m5, c5, r5, t3", "spot, on-demand");
    }
}

/// Spot instances are bought where there are any. On demand the cheapest are asked for first: most
/// calls hear of offerings without capacity.
#[test]
fn in_a_storm_a_narrow_pool_waits_and_goes_on_as_soon_as_anything_fits() {
    let shortages: u64 = (1..=5).map(|seed| storm(seed, "m5", "on-demand")).sum();
    assert!(shortages > 20, "{shortages}: there was no storm");
    for seed in 1..=5 {
        // Three offerings: most of the time none of them fits.
        storm(seed, "t3", "spot");
    }
}

/// Tells it. How often an offering was said to have no capacity.
fn storm(seed: u64, families: &str, capacity: &str) -> u64 {
    let setup = Setup::with(seed, reloader().expect("policies"));
    let ended = paused(async {
        let (harness, account) = harness(setup, AccountOptions::default());
        let world = &harness.world;
        let rule = json!([{"capacity": {"shortShare": 0.8, "everySeconds": 60}}]);
        account.faults(&rule);
        let family = format!(
            "      - {{key: karpenter.k8s.aws/instance-family, operator: In, values: [{families}]}}\n\
             \x20     - {{key: karpenter.sh/capacity-type, operator: In, values: [{capacity}]}}\n"
        );
        world.apply(&format!("{BASE}{family}")).expect("manifests");
        world.run_for(MINUTE).await;
        // NodeClaims of a round share a launch: the pods come in many rounds.
        let began = world.clock.elapsed();
        world.apply(&apart("web", 2)).expect("manifests");
        for pods in 2..=20 {
            world.run_for(MINUTE / 4).await;
            world.scale("Deployment", "default", "web", 2 * pods);
        }
        let placed = world.run_until(|world| world.ready_pods() == 40, 60 * MINUTE);
        assert!(placed.await, "seed {seed}: {}", world.describe());
        let took = world.clock.elapsed() - began;
        assert_eq!(harness.settle(10 * MINUTE).await, [""; 0], "seed {seed}");
        assert_eq!(harness.violations(), [""; 0], "seed {seed}");
        // The provider counts in whole seconds.
        let faults = account.fleet_faults(Duration::from_secs(179));
        assert_eq!(faults, [""; 0], "seed {seed}");
        let stats = world.cloud.stats();
        eprintln!(
            "{families}, {capacity}, seed {seed}: 40 pods in {} s, {} CreateFleet, {} without an \
             instance, offerings {} times short",
            took.as_secs(),
            launches(&account),
            stats.failed,
            account.shortages(),
        );
        account.shortages()
    });
    ended.expect("a runtime")
}

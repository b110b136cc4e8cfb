//! Pods come, nodes come, pods go, nodes go.

use std::time::Duration;

use longshore_sim::harness::{Setup, reloader};
use longshore_simcluster::world::paused;

use super::{AccountOptions, BASE, apart, harness, state};

const SOME: Duration = Duration::from_secs(600);

fn transcript(seed: u64) -> String {
    let mut setup = Setup::with(seed, reloader().expect("policies"));
    setup.disrupts = true;
    let ended = paused(async {
        let (harness, account) = harness(setup, AccountOptions::default());
        let world = &harness.world;
        world.apply(BASE).expect("manifests");
        world.run_for(Duration::from_secs(30)).await;
        world.apply(&apart("web", 5)).expect("manifests");
        world.run_for(Duration::from_secs(60)).await;
        let settled = harness.settle(SOME).await;
        assert_eq!(settled, [""; 0], "{}", harness.transcript());
        assert_eq!(
            state(world),
            "5 pods run, 5 nodes, 5 claims, 5 instances",
            "{}",
            world.describe()
        );
        world.scale("Deployment", "default", "web", 2);
        world.run_for(SOME).await;
        assert_eq!(harness.settle(SOME).await, [""; 0]);
        assert_eq!(
            state(world),
            "2 pods run, 2 nodes, 2 claims, 2 instances",
            "{}",
            world.describe()
        );
        world.scale("Deployment", "default", "web", 0);
        world.run_for(SOME).await;
        assert_eq!(harness.settle(SOME).await, [""; 0]);
        assert_eq!(
            state(world),
            "0 pods run, 0 nodes, 0 claims, 0 instances",
            "{}",
            world.describe()
        );
        assert_eq!(harness.violations(), [""; 0], "{}", harness.transcript());
        assert_eq!(account.messages(), 0, "each message was read and deleted");
        let calls: Vec<String> = account.calls().iter().map(ToString::to_string).collect();
        harness.transcript() + &calls.join("\n")
    });
    ended.expect("a runtime")
}

#[test]
fn pods_get_instances_and_give_them_back_and_the_same_seed_gives_the_same_calls() {
    let (one, again) = (transcript(1), transcript(1));
    let differs = one.lines().zip(again.lines()).find(|(a, b)| a != b);
    assert_eq!(differs, None);
    assert_eq!(one.len(), again.len());
    assert!(one.len() > 10_000 && one != transcript(2));
}

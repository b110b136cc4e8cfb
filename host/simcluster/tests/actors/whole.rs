//! A cluster of some size, twice the same, and how fast.

use std::time::Duration;

use longshore_cloud::CloudProvider;
use longshore_simcluster::cloud::{Disturbances, LaunchFaults};
use longshore_simcluster::keyed_rng::KeyedRng;
use longshore_simcluster::world::{World, WorldOptions, paused};

use crate::cloud::{launch, register};
use crate::scene::{apply, deployment, wait, workload};

/// `nodes` nodes, ten times as many pods, and an hour in which something changes every minute.
async fn busy_hour(world: &World, nodes: u32, chance: KeyedRng) {
    for number in 0..nodes {
        let kind = if number % 2 == 0 { "spot" } else { "on-demand" };
        // The cloud may fail: then there is a node less.
        let _ = world.cloud.create(&launch(number, kind)).await;
    }
    wait(world, 60).await;
    register(world);
    apply(world, &workload("DaemonSet", "agent", "50m", "", ""));
    let per_deployment = nodes;
    for n in 0..9 {
        apply(
            world,
            &deployment(&format!("web{n}"), per_deployment, "300m"),
        );
    }
    for minute in 0..60u64 {
        let lot = chance.draw("churn", &minute.to_string());
        let name = format!("web{}", lot % 9);
        match lot / 9 % 3 {
            0 => drop(world.scale(
                "Deployment",
                "default",
                &name,
                per_deployment - (lot / 27 % 10) as u32,
            )),
            1 => apply(
                world,
                &deployment(
                    &name,
                    per_deployment,
                    if minute % 2 == 0 { "310m" } else { "290m" },
                ),
            ),
            _ => {
                let pods = world.pods();
                let pod = &pods[lot as usize % pods.len()];
                world.delete("Pod", "default", longshore_simcluster::fields::name(pod));
            }
        }
        wait(world, 60).await;
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let run = |seed| {
        paused(async {
            let mut options = WorldOptions::default();
            options.cloud.faults = LaunchFaults {
                fail: 0.1,
                lost: 0.1,
                never_ready: 0.1,
                slow: 0.1,
                never_register: 0.1,
                ..LaunchFaults::default()
            };
            options.cloud.disturbances = Disturbances {
                prices_every: Duration::from_secs(300),
                volatility: 0.1,
                interruptions: 1.0,
                capacity_outages: 2.0,
                ..Disturbances::default()
            };
            let world = World::new(seed, options);
            busy_hour(&world, 10, KeyedRng(seed)).await;
            world.transcript()
        })
        .expect("a runtime")
    };
    let (one, again, other) = (run(1), run(1), run(2));
    assert!(one == again, "seed 1 tells two stories");
    assert!(one != other);
    assert!(one.len() > 10_000);
}

/// It takes about a second, which is not asserted: that depends on what else the machine does.
#[test]
fn an_hour_of_fifty_nodes_and_five_hundred_pods_leaves_no_pod_behind() {
    let (pods, ready, writes) = paused(async {
        let world = World::new(1, WorldOptions::default());
        busy_hour(&world, 50, KeyedRng(1)).await;
        (
            world.pods().len(),
            world.ready_pods(),
            world.server.revision(),
        )
    })
    .expect("a runtime");
    assert_eq!(ready, pods);
    assert!((450..=550).contains(&pods), "{pods} pods");
    // A writer that writes what is there already would show here.
    assert!(writes < 20_000, "{writes} writes");
}

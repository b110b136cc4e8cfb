//! A process is killed at every write to the API server and every call of the cloud's API in turn.
//! Its successor ends in the same state, and nothing is bought twice or forgotten.
//!
//! The points are enumerated, not sampled: a run without a kill counts writes and calls, and each
//! of them is a point of death before and after it; calls also while in flight.

use std::fmt::Write as _;
use std::time::Duration;

use longshore_live::policies::PolicyReloader;
use longshore_sim::harness::generated::types;
use longshore_sim::harness::{Harness, Kill, Point, Setup, When, reloader};
use longshore_simcluster::cloud::LaunchFaults;
use longshore_simcluster::fields;
use longshore_simcluster::server::resources;
use longshore_simcluster::world::{World, WorldOptions, paused};

use crate::manifests::{KWOK_POOL, ONE_CPU, one_per_node};

const BUDGET: &str = "---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
";

/// What is done to a cluster while a process may die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    /// Three pods need a node each.
    ScaleUp,
    /// Two of three claims are deleted; their pods leave one at a time and get other nodes.
    Drain,
    /// Two of three launches fail at first, some for good: no capacity of what they want.
    FailedLaunch,
}

/// What a run came to.
struct End {
    points: Vec<Point>,
    /// Pods that run, nodes and claims.
    state: String,
    /// What is wrong whatever the state.
    wrong: Vec<String>,
    processes: u32,
}

fn state(world: &World) -> String {
    let count = |resource| world.server.list(resource).len();
    let (nodes, claims) = (count(resources::NODE), count(resources::NODE_CLAIM));
    let instances = world.cloud.ledger().running().count();
    format!(
        "{} pods run, {nodes} nodes, {claims} claims, {instances} instances",
        world.ready_pods()
    )
}

fn play(scene: Scene, kill: Option<Kill>, reloader: PolicyReloader) -> End {
    let mut setup = Setup {
        kill,
        ..Setup::with(1, reloader)
    };
    setup.world = WorldOptions {
        types: Some(types(4)),
        ..WorldOptions::default()
    };
    if scene == Scene::FailedLaunch {
        setup.world.cloud.faults = LaunchFaults {
            fail: 0.5,
            lost: 0.4,
            ..LaunchFaults::default()
        };
    }
    let ended = paused(async {
        let harness = Harness::new(setup);
        let world = &harness.world;
        if scene == Scene::FailedLaunch {
            // What is cheapest cannot be had at first, and the process learns it from the launch.
            world
                .cloud
                .capacity_outage("*/*/spot", Duration::from_secs(30));
        }
        world.run_for(Duration::from_millis(10)).await;
        let web = one_per_node("web", 3, ONE_CPU);
        world
            .apply(&[KWOK_POOL, &web, BUDGET].concat())
            .expect("manifests");
        world.run_for(Duration::from_secs(150)).await;
        if scene == Scene::Drain {
            for claim in world.server.list(resources::NODE_CLAIM).iter().take(2) {
                world.delete("NodeClaim", "", fields::name(claim));
            }
            world.run_for(Duration::from_secs(180)).await;
        }
        let mut wrong = harness.settle(Duration::from_secs(1800)).await;
        wrong.extend(harness.violations());
        End {
            points: harness.points(),
            state: state(world),
            wrong,
            processes: harness.processes(),
        }
    });
    ended.expect("a runtime")
}

/// Plays a scene once for each death. Says how many there were.
fn enumerate(scene: Scene) -> (usize, usize) {
    let reloader = reloader().expect("policies");
    let quiet = play(scene, None, reloader.clone());
    assert_eq!(
        (quiet.wrong.as_slice(), quiet.processes),
        ([].as_slice(), 1),
        "{scene:?} without a death"
    );
    let mut bad = String::new();
    let mut deaths = 0;
    for (at, point) in quiet.points.iter().enumerate() {
        let whens: &[When] = if point.call {
            &[When::Before, When::During, When::After]
        } else {
            &[When::Before, When::After]
        };
        for &when in whens {
            let end = play(scene, Some(Kill { point: at, when }), reloader.clone());
            deaths += 1;
            if end.processes != 2 || end.state != quiet.state || !end.wrong.is_empty() {
                let _ = writeln!(
                    bad,
                    "killed {when:?} {at}, {point}: {} processes, {} (not {}), {:?}",
                    end.processes, end.state, quiet.state, end.wrong
                );
            }
        }
    }
    assert!(bad.is_empty(), "{scene:?}:\n{bad}");
    (quiet.points.len(), deaths)
}

fn at_least(scene: Scene, points: usize) {
    let (found, deaths) = enumerate(scene);
    eprintln!("{scene:?}: {found} writes and calls, {deaths} deaths");
    assert!(
        found >= points,
        "{scene:?} has become a small scene: {found} writes and calls"
    );
}

#[test]
fn a_process_killed_at_any_point_of_a_scale_up_leaves_the_same_cluster() {
    at_least(Scene::ScaleUp, 20);
}

#[test]
fn a_process_killed_at_any_point_of_a_drain_leaves_the_same_cluster() {
    at_least(Scene::Drain, 40);
}

#[test]
fn a_process_killed_at_any_point_of_a_failed_launch_leaves_the_same_cluster() {
    at_least(Scene::FailedLaunch, 30);
}

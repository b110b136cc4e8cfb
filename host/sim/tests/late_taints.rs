//! kube-scheduler hears of a taint late: a pod that it puts on a node between the taint and the end
//! of the instance is drained like all others, every time.

use std::collections::BTreeMap;
use std::time::Duration;

use longshore_sim::harness::generated::types;
use longshore_sim::harness::{Harness, SEEDS_TYPES, Setup};
use longshore_simcluster::fields;
use longshore_simcluster::server::resources;
use longshore_simcluster::world::{World, WorldOptions, paused};
use serde_json::json;

use crate::manifests::{KWOK_POOL, one_per_node};

/// Nodes that are drained at a time.
const NODES: usize = 100;
/// How often.
const REPEATS: usize = 10;
/// kube-scheduler has seen a taint after this time.
const SCHEDULER_NEWS_DELAY: Duration = Duration::from_secs(5);

/// A pod that kube-scheduler puts on a node that is closed already.
struct Late {
    node: String,
    provider_id: String,
    due: Duration,
    name: String,
    bound: bool,
    /// It was seen to be asked to leave while its instance ran.
    asked: bool,
}

fn pod(name: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        // Nobody else places it.
        "spec": {"schedulerName": "late", "containers": [{"name": "c", "image": "x:1"}]},
    })
}

/// Notes nodes that were closed since it was looked last, and pods that were asked to leave. Those
/// are found among the changes: kubelet ends a pod that does not run yet in the moment in which it
/// is deleted.
fn look(world: &World, round: usize, seen: &mut u64, late: &mut BTreeMap<String, Late>) {
    let now = world.clock.elapsed();
    for node in world.server.list(resources::NODE) {
        let name = fields::name(&node);
        let closed = fields::items(&node, "/spec/taints")
            .iter()
            .any(|t| t["key"] == "karpenter.sh/disrupted");
        if closed && !late.contains_key(name) {
            // Every moment before kube-scheduler has heard of it has its turn.
            let share = (late.len() as f64 + 0.5) / NODES as f64;
            late.insert(
                name.to_owned(),
                Late {
                    node: name.to_owned(),
                    provider_id: fields::text(&node, "/spec/providerID").to_owned(),
                    due: now + SCHEDULER_NEWS_DELAY.mul_f64(share),
                    name: format!("late-{round}-{}", late.len()),
                    bound: false,
                    asked: false,
                },
            );
        }
    }
    for change in world.server.changes(*seen) {
        *seen = change.revision;
        let asked = change.key.resource == resources::POD && fields::deleting(&change.object);
        let one = late
            .values_mut()
            .find(|one| asked && one.bound && one.name == *change.key.name);
        if let Some(one) = one.filter(|one| world.cloud.runs(&one.provider_id)) {
            one.asked = true;
        }
    }
}

/// Deletes every claim, puts a pod on each node between its taint and its end. Returns how many
/// pods there were, and how many of them were asked to leave before the instance ended.
async fn drain_all(world: &World, round: usize) -> (usize, usize) {
    for claim in world.server.list(resources::NODE_CLAIM) {
        world.delete("NodeClaim", "", fields::name(&claim));
    }
    let (mut late, mut seen) = (BTreeMap::new(), world.server.revision());
    let end = world.clock.elapsed() + Duration::from_secs(60);
    while world.clock.elapsed() < end {
        look(world, round, &mut seen, &mut late);
        let now = world.clock.elapsed();
        for one in late.values_mut().filter(|one| !one.bound && one.due <= now) {
            world.apply_object(pod(&one.name)).expect("a pod");
            let key = fields::key(resources::POD, "default", &one.name);
            world.server.bind(&key, &one.node).expect("it is bound");
            one.bound = true;
        }
        let next = late
            .values()
            .filter(|one| !one.bound)
            .map(|one| one.due)
            .min()
            .unwrap_or(end)
            .min(end);
        let revision = world.server.revision();
        let changed = |world: &World| world.server.revision() != revision;
        world
            .run_until(
                changed,
                next.saturating_sub(world.clock.elapsed())
                    .max(Duration::from_millis(1)),
            )
            .await;
    }
    (late.len(), late.values().filter(|one| one.asked).count())
}

#[test]
fn a_pod_bound_between_a_nodes_taint_and_its_end_is_drained_every_time() {
    let mut setup = Setup::new(1).expect("policies");
    setup.keeps_requests = false;
    setup.world = WorldOptions {
        types: Some(types(SEEDS_TYPES)),
        ..WorldOptions::default()
    };
    let ended = paused(async {
        let harness = Harness::new(setup);
        let world = &harness.world;
        world
            .apply(
                &[
                    KWOK_POOL,
                    &one_per_node("web", NODES, "cpu: 500m, memory: 256Mi"),
                ]
                .concat(),
            )
            .expect("manifests");
        let (mut tries, mut drained) = (0, 0);
        for round in 0..REPEATS {
            world.run_for(Duration::from_secs(60)).await;
            assert_eq!(
                harness.settle(Duration::from_secs(600)).await,
                [""; 0],
                "round {round}"
            );
            let (more, asked) = drain_all(world, round).await;
            (tries, drained) = (tries + more, drained + asked);
        }
        (tries, drained, harness.violations())
    });
    let (tries, drained, violations) = ended.expect("a runtime");
    assert_eq!(violations, [""; 0]);
    assert_eq!((tries, drained), (NODES * REPEATS, NODES * REPEATS));
}

use longshore_simcluster::fields;
use longshore_simcluster::server::{DeleteOptions, resources};
use longshore_simcluster::world::World;

use crate::scene::{apply, deployment, node, story, wait};

fn budget(more: &str) -> String {
    format!(
        "---\n{{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {{name: web}},\n\
         spec: {{selector: {{matchLabels: {{app: web}}}}, {more}}}}}\n"
    )
}

/// Expected, desired, healthy, allowed.
fn numbers(world: &World) -> [i64; 4] {
    let budget = world
        .object("PodDisruptionBudget", "default", "web")
        .expect("it is there");
    [
        "expectedPods",
        "desiredHealthy",
        "currentHealthy",
        "disruptionsAllowed",
    ]
    .map(|f| budget["status"][f].as_i64().unwrap_or(-1))
}

#[test]
fn a_budget_allows_what_is_above_its_limit() {
    story(async |world| {
        apply(
            &world,
            &(node("n1", "64", "a") + &deployment("web", 10, "1") + &budget("maxUnavailable: 25%")),
        );
        wait(&world, 1).await;
        assert_eq!(numbers(&world), [10, 7, 0, 0]);
        wait(&world, 60).await;
        assert_eq!(numbers(&world), [10, 7, 10, 3]);
        apply(&world, &budget("maxUnavailable: null, minAvailable: 9"));
        wait(&world, 1).await;
        assert_eq!(numbers(&world), [10, 9, 10, 1]);
    });
}

#[test]
fn an_eviction_uses_up_the_budget_until_a_new_pod_is_ready() {
    story(async |world| {
        apply(
            &world,
            &(node("n1", "64", "a") + &deployment("web", 3, "1") + &budget("maxUnavailable: 1")),
        );
        wait(&world, 60).await;
        let keys: Vec<_> = world
            .pods()
            .iter()
            .map(|p| fields::key_of(resources::POD, p))
            .collect();
        let evict = |n: usize| {
            world
                .server
                .evict(&keys[n], &DeleteOptions::default())
                .map_err(|r| r.code)
        };
        assert_eq!((evict(0), evict(1)), (Ok(()), Err(429)));
        wait(&world, 1).await;
        assert_eq!((numbers(&world), evict(1)), ([3, 2, 2, 0], Err(429)));
        wait(&world, 30).await;
        assert_eq!((numbers(&world), evict(1)), ([3, 2, 3, 1], Ok(())));
    });
}

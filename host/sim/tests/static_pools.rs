//! Static NodePools in virtual time: up, down, at their limit, and without capacity.

use std::time::Duration;

use longshore_sim::harness::{Harness, Setup};
use longshore_simcluster::fields::name;
use longshore_simcluster::server::resources::NODE_CLAIM;
use longshore_simcluster::world::paused;

/// A static NodePool; without `nodes` it has no limit.
fn pool(replicas: u32, nodes: Option<u32>) -> String {
    pool_of(replicas, nodes, "a")
}

/// The same with another label of its nodes.
fn pool_of(replicas: u32, nodes: Option<u32>, team: &str) -> String {
    let limits = nodes.map_or(String::new(), |nodes| {
        format!("limits: {{nodes: '{nodes}'}}")
    });
    format!(
        "
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {{name: default}}
spec: {{}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: fixed}}
spec:
  replicas: {replicas}
  {limits}
  template:
    metadata: {{labels: {{team: {team}}}}}
    spec:
      expireAfter: Never
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
      requirements:
      - {{key: kubernetes.io/os, operator: In, values: [linux]}}
"
    )
}

fn setup(seed: u64) -> Setup {
    Setup {
        static_capacity: true,
        ..Setup::new(seed).expect("policies")
    }
}

/// Names of the claims that are there.
fn claims(harness: &Harness) -> Vec<String> {
    let all = harness.world.server.list(NODE_CLAIM);
    let mut names: Vec<String> = all.iter().map(|claim| name(claim).to_owned()).collect();
    names.sort();
    names
}

async fn apply(harness: &Harness, manifests: &str, seconds: u64) -> usize {
    harness.world.apply(manifests).expect("manifests");
    harness.world.run_for(Duration::from_secs(seconds)).await;
    assert_eq!(harness.violations(), [""; 0], "{}", harness.transcript());
    let ready = harness.world.cloud.ledger().running().count();
    assert_eq!(ready, claims(harness).len(), "{}", harness.world.describe());
    ready
}

#[test]
fn a_static_pool_follows_its_replicas_within_its_limit() {
    paused(async {
        let harness = Harness::new(setup(1));
        assert_eq!(apply(&harness, &pool(3, None), 120).await, 3);
        assert_eq!(apply(&harness, &pool(5, None), 30).await, 5);
        // The same number does nothing.
        let before = claims(&harness);
        assert_eq!(apply(&harness, &pool(5, None), 600).await, 5);
        assert_eq!(claims(&harness), before);
        assert_eq!(apply(&harness, &pool(2, None), 300).await, 2);
        assert_eq!(apply(&harness, &pool(10, Some(4)), 300).await, 4);
        assert_eq!(apply(&harness, &pool(0, Some(4)), 300).await, 0);
        assert_eq!(harness.settle(Duration::from_secs(600)).await, [""; 0]);
    })
    .expect("a runtime");
}

#[test]
fn a_claim_that_somebody_deletes_is_replaced() {
    paused(async {
        let harness = Harness::new(setup(2));
        assert_eq!(apply(&harness, &pool(2, None), 300).await, 2);
        let before = claims(&harness);
        assert!(harness.world.delete("NodeClaim", "", &before[0]));
        harness.world.run_for(Duration::from_secs(300)).await;
        let after = claims(&harness);
        assert_eq!(after.len(), 2, "{}", harness.transcript());
        assert!(after.contains(&before[1]));
        assert_eq!(harness.violations(), [""; 0]);
    })
    .expect("a runtime");
}

#[test]
fn without_the_gate_nothing_is_bought_for_a_static_pool() {
    paused(async {
        let harness = Harness::new(Setup::new(3).expect("policies"));
        assert_eq!(apply(&harness, &pool(3, None), 300).await, 0);
    })
    .expect("a runtime");
}

#[test]
fn drifted_nodes_are_replaced_one_for_one_and_never_beyond_the_limit() {
    paused(async {
        let harness = Harness::new(Setup {
            disrupts: true,
            ..setup(4)
        });
        assert_eq!(apply(&harness, &pool(4, Some(5)), 120).await, 4);
        let before = claims(&harness);
        harness
            .world
            .apply(&pool_of(4, Some(5), "b"))
            .expect("manifests");
        let mut most = 0;
        for _ in 0..200 {
            harness.world.run_for(Duration::from_secs(5)).await;
            let now = claims(&harness);
            most = most.max(now.len());
            assert!(
                now.len() >= 4,
                "a node goes before another is there: {now:?}"
            );
        }
        let after = claims(&harness);
        assert_eq!(after.len(), 4, "{}", harness.transcript());
        assert!(after.iter().all(|name| !before.contains(name)), "{after:?}");
        assert_eq!(most, 5);
        assert_eq!(harness.violations(), [""; 0]);
    })
    .expect("a runtime");
}

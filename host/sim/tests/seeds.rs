//! The daemon in a world: it does its work, the same seed tells the same story, and what chance breaks it mends.

use std::time::Duration;

use longshore_sim::harness::{Harness, Setup};
use longshore_sim::world::paused;

const BASE: &str = "
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: kubernetes.io/os, operator: In, values: [linux]}
";

fn deployment(name: &str, replicas: u32) -> String {
    format!(
        "---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers: [{{name: c, image: 'x:1', resources: {{requests: {{cpu: '1', memory: 1Gi}}}}}}]
      affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [
        {{topologyKey: kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: {name}}}}}}}]}}}}
"
    )
}

const SOME: Duration = Duration::from_secs(600);

/// Pods come, their claims are deleted, their number shrinks. Returns everything that was asked and done.
fn up_and_down(seed: u64) -> String {
    let setup = Setup::new(seed).expect("policies");
    let told = paused(async {
        let harness = Harness::new(setup);
        let world = &harness.world;
        world.apply(BASE).expect("manifests");
        world.run_for(Duration::from_secs(5)).await;
        world.apply(&deployment("web", 5)).expect("manifests");
        world.run_for(Duration::from_secs(60)).await;
        assert_eq!(harness.settle(SOME).await, [""; 0], "{}", harness.transcript());
        assert_eq!((world.ready_pods(), world.cloud.ledger().running().count()), (5, 5), "{}", world.describe());
        let claims = world.server.list(longshore_sim::server::resources::NODE_CLAIM);
        assert!(world.delete("NodeClaim", "", longshore_sim::actors::fields::name(&claims[0])));
        world.run_for(Duration::from_secs(60)).await;
        assert_eq!(harness.settle(SOME).await, [""; 0], "{}", harness.transcript());
        assert_eq!((world.ready_pods(), world.cloud.ledger().entries.len()), (5, 6), "{}", world.describe());
        world.scale("Deployment", "default", "web", 0);
        for claim in world.server.list(longshore_sim::server::resources::NODE_CLAIM) {
            world.delete("NodeClaim", "", longshore_sim::actors::fields::name(&claim));
        }
        world.run_for(Duration::from_secs(120)).await;
        assert_eq!(harness.settle(SOME).await, [""; 0], "{}", harness.transcript());
        assert_eq!(world.cloud.ledger().running().count(), 0, "{}", world.describe());
        assert_eq!(harness.violations(), [""; 0]);
        harness.transcript()
    });
    told.expect("a runtime")
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

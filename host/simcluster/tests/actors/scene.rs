//! Manifests and worlds for the scenarios.

use std::time::Duration;

use longshore_simcluster::world::{World, WorldOptions, paused};

/// Tells a scenario in a world of default options.
pub fn story(tell: impl AsyncFnOnce(World)) {
    story_with(WorldOptions::default(), tell);
}

/// Tells a scenario.
pub fn story_with(options: WorldOptions, tell: impl AsyncFnOnce(World)) {
    paused(async { tell(World::new(1, options)).await }).expect("a runtime");
}

/// Lets seconds pass.
pub async fn wait(world: &World, seconds: u64) {
    world.run_for(Duration::from_secs(seconds)).await;
}

/// Applies manifests that are right.
pub fn apply(world: &World, manifests: &str) {
    world
        .apply(manifests)
        .expect("manifests of a test are right");
}

/// A node of a machine that no cloud knows.
pub fn node(name: &str, cpu: &str, zone: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}, topology.kubernetes.io/zone: {zone}}}}}
status: {{allocatable: {{cpu: '{cpu}', memory: 64Gi, pods: '110'}}}}
"
    )
}

/// A pod without owner; `more` are further lines of its spec, in flow style.
pub fn pod(name: &str, cpu: &str, more: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec: {{containers: [{{name: c, image: 'x:1', resources: {{requests: {{cpu: '{cpu}'}}}}}}]{more}}}
"
    )
}

/// A workload with pods of one container; `more` are further fields of the workload's spec, `pods`
/// of its pods'.
pub fn workload(kind: &str, name: &str, cpu: &str, more: &str, pods: &str) -> String {
    let group = if kind == "Job" { "batch/v1" } else { "apps/v1" };
    let selector = if kind == "Job" {
        String::new()
    } else {
        format!("selector: {{matchLabels: {{app: {name}}}}},")
    };
    let restart = if kind == "Job" {
        ", restartPolicy: Never"
    } else {
        ""
    };
    format!(
        "---
apiVersion: {group}
kind: {kind}
metadata: {{name: {name}}}
spec:
  {{{selector} template: {{metadata: {{labels: {{app: {name}}}}}, spec: {{
    containers: [{{name: c, image: 'x:1', resources: {{requests: {{cpu: '{cpu}'}}}}}}]{restart}{pods}}}}}{more}}}
"
    )
}

pub fn deployment(name: &str, replicas: u32, cpu: &str) -> String {
    workload(
        "Deployment",
        name,
        cpu,
        &format!(", replicas: {replicas}"),
        "",
    )
}

//! Static NodePools.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::Value;

use super::{NodePool, Scene, deleting, is_true, name};

/// Applies a NodePool: more of its `spec`, and what follows the labels of its template.
fn pool(scene: &Scene, spec: &str, labels: &str) -> Result<()> {
    scene.node_pool(&NodePool {
        spec,
        labels,
        ..NodePool::default()
    })
}

/// Names of the claims that stay.
fn staying(scene: &Scene) -> Result<BTreeSet<String>> {
    let all = scene.all("nodeclaims")?;
    Ok(all
        .iter()
        .filter(|claim| !deleting(claim))
        .map(name)
        .collect())
}

fn has(scene: &Scene, nodes: usize) -> Result<()> {
    scene.until(90, &format!("{nodes} nodes are there"), || {
        let claims = scene.all("nodeclaims")?;
        let initialized = |claim: &Value| is_true(claim, "Initialized") && !deleting(claim);
        Ok(claims.len() == nodes
            && claims.iter().all(initialized)
            && scene.all("nodes")?.len() == nodes)
    })
}

/// SC1, SC2 and SC4.
pub fn replicas(scene: &Scene) -> Result<()> {
    pool(scene, "replicas: 2", ", annotations: {note: one}")?;
    has(scene, 2)?;
    for node in scene.all("nodes")? {
        ensure!(node["metadata"]["annotations"]["note"] == "one", "{node}");
    }
    pool(scene, "replicas: 4", ", annotations: {note: one}")?;
    has(scene, 4)?;
    scene.kubectl(&["scale", "nodepool", scene.name, "--replicas=1"])?;
    has(scene, 1)?;
    // The field is kubectl's from here on: another apply of it would be a conflict.
    scene.kubectl(&["scale", "nodepool", scene.name, "--replicas=0"])?;
    has(scene, 0)
}

/// SC3.
pub fn limit(scene: &Scene) -> Result<()> {
    pool(scene, "replicas: 6\n  limits: {nodes: '3'}", "")?;
    has(scene, 3)?;
    scene.stays(70, "3 nodes", || Ok(scene.all("nodeclaims")?.len() == 3))?;
    pool(scene, "replicas: 0", "")?;
    has(scene, 0)
}

/// SC5.
pub fn order(scene: &Scene) -> Result<()> {
    pool(scene, "replicas: 3", "")?;
    has(scene, 3)?;
    let apart = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [\
        {topologyKey: kubernetes.io/hostname, labelSelector: {}}]}}";
    scene.deployment(
        "kept",
        1,
        "100m",
        "karpenter.sh/do-not-disrupt: 'true'",
        apart,
    )?;
    scene.run(60, 1)?;
    scene.deployment("light", 1, "100m", "", apart)?;
    scene.run(60, 2)?;
    let on = |app: &str| -> Result<String> {
        let pods = scene.all("pods")?;
        let of = |pod: &&Value| pod["metadata"]["labels"]["app"] == app;
        let node = pods
            .iter()
            .find(of)
            .map(|pod| pod["spec"]["nodeName"].clone());
        Ok(node
            .unwrap_or_default()
            .as_str()
            .unwrap_or_default()
            .to_owned())
    };
    let (kept, light) = (on("kept")?, on("light")?);
    pool(scene, "replicas: 2", "")?;
    has(scene, 2)?;
    let nodes = scene.names("nodes")?;
    ensure!(nodes == BTreeSet::from([kept.clone(), light]), "{nodes:?}");
    pool(scene, "replicas: 1", "")?;
    scene.until(90, "one claim stays", || Ok(staying(scene)?.len() == 1))?;
    has(scene, 1)?;
    ensure!(scene.names("nodes")? == BTreeSet::from([kept]));
    scene.kubectl(&["delete", "deployments", "--all"])?;
    pool(scene, "replicas: 0", "")?;
    has(scene, 0)
}

/// SC7.
pub fn drifted(scene: &Scene) -> Result<()> {
    pool(scene, "replicas: 2", "")?;
    has(scene, 2)?;
    let old = staying(scene)?;
    pool(scene, "replicas: 2", ", annotations: {note: new}")?;
    scene.until(180, "both nodes are replaced", || {
        let now = staying(scene)?;
        ensure!(!now.is_empty(), "nodes go before others are there");
        Ok(now.is_disjoint(&old))
    })?;
    has(scene, 2)?;
    for node in scene.all("nodes")? {
        ensure!(node["metadata"]["annotations"]["note"] == "new", "{node}");
    }
    pool(scene, "replicas: 0", ", annotations: {note: new}")?;
    has(scene, 0)
}

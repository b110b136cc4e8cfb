//! Nodes whose NodePool has changed are replaced on a real control plane.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use longshore_xtask::control_plane::{ControlPlane, OUR_USER};
use serde_json::Value;

use super::judge::Judge;
use super::last_lines;
use super::scaling::{deployment, is_disrupted};
use crate::plane::{CLASS, Daemon, objects, running, within};

/// Most nodes of a hundred that may drift at once.
const PERCENT: usize = 10;
/// Deployments, and pods of each: three of half a core fit on a node of two.
const DEPLOYMENTS: usize = 30;
const REPLICAS: usize = 10;

/// A NodePool of nodes with two CPUs that nothing consolidates, with a label on its nodes.
fn pool(version: &str) -> String {
    format!(
        "{CLASS}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec:
  disruption:
    consolidationPolicy: WhenEmpty
    consolidateAfter: Never
    budgets: [{{nodes: {PERCENT}%}}]
  template:
    metadata: {{labels: {{version: {version}}}}}
    spec:
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
      requirements:
      - {{key: kubernetes.io/os, operator: In, values: [linux]}}
      - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
      - {{key: karpenter.kwok.sh/instance-cpu, operator: In, values: ['2']}}
"
    )
}

/// A template changes under a hundred nodes: they are replaced within the budget, replacement first,
/// and the pods that their budgets demand run throughout.
pub fn a_hundred_nodes_drift() -> Result<()> {
    let plane = ControlPlane::start("drift")?;
    plane.apply(&pool("one"))?;
    let daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    replaced(&plane).with_context(|| last_lines(Some(&daemon)))
}

fn replaced(plane: &ControlPlane) -> Result<()> {
    let apps = (0..DEPLOYMENTS).map(|at| deployment(&format!("web{at}"), REPLICAS, "", true));
    plane.apply(&apps.collect::<String>())?;
    let pods = DEPLOYMENTS * REPLICAS;
    within(600, Duration::from_secs(1), "all pods run", || {
        Ok(running(plane)? == pods)
    })?;
    let before = objects(plane, "nodes", &[])?.len();
    ensure!(before >= 95, "{before} nodes are too few");

    plane.apply(&pool("two"))?;
    let began = Timestamp::now();
    let mut least = usize::MAX;
    within(1800, Duration::from_secs(2), "all nodes are new", || {
        least = least.min(least_available(plane)?);
        is_settled(plane, "two")
    })?;
    let took = Timestamp::now().duration_since(began).as_secs();
    let after = objects(plane, "nodes", &[])?.len();
    println!("{before} nodes became {after} in {took} s; at least {least} pods of {REPLICAS} ran");
    // Each PodDisruptionBudget lets a fifth go.
    ensure!(
        least >= REPLICAS - REPLICAS / 5,
        "a Deployment had {least} pods of {REPLICAS}"
    );
    let held = BTreeMap::new();
    let judge = Judge::new(plane, &held)?;
    judge.pods_left_by_the_eviction_api(0)?;
    ensure!(
        judge.budget_holds(PERCENT)?.len() >= before,
        "fewer nodes were disrupted than there were"
    );
    judge.replacements_come_first(before)
}

/// The pods of the Deployment that has the fewest available.
fn least_available(plane: &ControlPlane) -> Result<usize> {
    let deployments = objects(plane, "deployments", &[])?;
    let available = |of: &Value| of["status"]["availableReplicas"].as_u64().unwrap_or(0) as usize;
    deployments
        .iter()
        .map(available)
        .min()
        .context("there are no Deployments")
}

/// Whether all nodes are of a version, and none is on its way out.
fn is_settled(plane: &ControlPlane, version: &str) -> Result<bool> {
    let nodes = objects(plane, "nodes", &[])?;
    Ok(!nodes.is_empty()
        && nodes.iter().all(|node| {
            node["metadata"]["labels"]["version"] == version
                && node["metadata"]["deletionTimestamp"].is_null()
                && !is_disrupted(&node["spec"])
        }))
}

impl Judge<'_> {
    /// Whenever a node was given back there were at least as many others as at first.
    fn replacements_come_first(&self, at_first: usize) -> Result<()> {
        let mut there = 0_usize;
        for request in self.recorded() {
            if request.user != OUR_USER || request.resource != "nodeclaims" || !request.changed() {
                continue;
            }
            match request.verb.as_str() {
                "create" => there += 1,
                "delete" => {
                    there = there.saturating_sub(1);
                    ensure!(
                        there >= at_first,
                        "at {}: {} was given back and {there} were left of {at_first}",
                        request.at,
                        request.object
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }
}

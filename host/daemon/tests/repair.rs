//! Repair within budgets on a real control plane: an unhealthy node is replaced first, and one whose
//! cloud asks for it is rebooted.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use longshore_xtask::control_plane::ControlPlane;
use serde_json::{Value, json};

use crate::plane::{
    Daemon, Suite, Test, deployment, names, objects, running, until, usual_pool, within,
};

const TESTS: &[Test] = &[(
    "an_unhealthy_node_is_replaced_and_another_is_rebooted",
    repaired,
)];

pub fn suite() -> Suite {
    Suite::new("repair", Some(1), TESTS, &[])
}

/// Each pod needs a node of its own.
const APART: &str = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [\
    {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}";

fn object(plane: &ControlPlane, named: &str) -> Result<Value> {
    Ok(serde_json::from_str(
        &plane.run(&["get", named, "--output", "json"])?,
    )?)
}

/// Gives a node a condition, from now on.
fn state(plane: &ControlPlane, node: &str, condition: &str, status: &str) -> Result<()> {
    let now = k8s_openapi::jiff::Timestamp::now()
        .strftime("%FT%TZ")
        .to_string();
    let condition =
        json!({"type": condition, "status": status, "reason": "Test", "lastTransitionTime": now});
    let patch = json!({"status": {"conditions": [condition]}}).to_string();
    let patch = [
        "patch",
        "node",
        node,
        "--subresource=status",
        "--type=strategic",
        "--patch",
        &patch,
    ];
    plane.run(&patch).map(drop)
}

fn condition(object: &Value, kind: &str) -> String {
    let all = object["status"]["conditions"].as_array();
    let found = all.into_iter().flatten().find(|c| c["type"] == kind);
    found.map_or_else(String::new, |c| {
        let text = |key: &str| c[key].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("status"), text("reason"))
    })
}

fn tainted(node: &Value) -> bool {
    node["spec"]["taints"]
        .to_string()
        .contains("karpenter.sh/rebooting")
}

fn repaired() -> Result<()> {
    let plane = ControlPlane::start("repair")?;
    plane.apply(&usual_pool())?;
    let gates = ["--feature-gates", "NodeRepair=true"];
    let daemon = Daemon::start(&plane.longshore_kubeconfig(), &gates)?;
    plane.apply(&deployment("web", 3, APART))?;
    until("three pods run", || Ok(running(&plane)? == 3))?;
    let said = replaced(&plane).and_then(|()| rebooted(&plane));
    said.with_context(|| daemon.log().unwrap_or_default())
}

/// The replacement is initialized before the unhealthy node goes, for long enough that a look once a
/// second finds both.
fn replaced(plane: &ControlPlane) -> Result<()> {
    let before = names(plane, "nodes")?;
    let sick = before.first().context("no node")?.clone();
    state(plane, &sick, "KWOKUnhealthy", "True")?;
    let second = Duration::from_secs(1);
    within(180, second, "both nodes are seen", || {
        let claims = objects(plane, "nodeclaims", &[])?;
        let ready = claims.iter().all(|claim| {
            let stays = claim["metadata"]["deletionTimestamp"].is_null();
            stays && condition(claim, "Initialized").starts_with("True")
        });
        Ok(ready && claims.len() == 4)
    })?;
    until("the unhealthy node is replaced", || {
        let nodes = names(plane, "nodes")?;
        Ok(!nodes.contains(&sick) && nodes.len() == 3)
    })?;
    until("three pods run", || Ok(running(plane)? == 3))
}

/// A node is started anew and keeps its place and its name.
fn rebooted(plane: &ControlPlane) -> Result<()> {
    let before = names(plane, "nodes")?;
    let node = format!("node/{}", before.first().context("no node")?);
    let sick = node.trim_start_matches("node/");
    state(plane, sick, "KWOKRebootRequired", "True")?;
    let mut fenced = false;
    let mut watch = |what: &str, holds: &dyn Fn(&Value, &Value) -> bool| {
        until(what, || {
            let node = object(plane, &node)?;
            let claims = objects(plane, "nodeclaims", &[])?;
            let claim = claims
                .iter()
                .find(|claim| claim["status"]["nodeName"] == sick);
            fenced |= tainted(&node);
            Ok(holds(&node, claim.context("its NodeClaim is gone")?))
        })
    };
    watch("a reboot is requested", &|_, claim| {
        condition(claim, "Rebooting").starts_with("True")
    })?;
    // It helps.
    state(plane, sick, "KWOKRebootRequired", "False")?;
    watch("the node has started anew", &|node, claim| {
        let boot_id = node["status"]["nodeInfo"]["bootID"]
            .as_str()
            .unwrap_or_default();
        let operation = format!(
            "kwok-{}-",
            claim["metadata"]["uid"].as_str().unwrap_or_default()
        );
        let over = condition(claim, "Rebooting") == "False RebootSucceeded";
        let ready = condition(claim, "Initialized").starts_with("True");
        boot_id.starts_with(&operation) && over && ready && !tainted(node)
    })?;
    ensure!(fenced, "kube-scheduler was not kept away");
    until("three pods run", || Ok(running(plane)? == 3))?;
    let after = names(plane, "nodes")?;
    ensure!(after == before, "{after:?} instead of {before:?}");
    let events = [
        "get",
        "events",
        "--namespace",
        "default",
        "--field-selector",
        "reason=RebootObserved",
    ];
    let events = plane.run(&[&events[..], &["--output", "name"]].concat())?;
    ensure!(!events.is_empty(), "no Event tells of the reboot");
    Ok(())
}

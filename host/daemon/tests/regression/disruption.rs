//! Specs about emptiness, drift, consolidation and budgets.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{NodePool, Scene, Spec, deleting, disrupted, is_true, name};

pub const SPECS: &[Spec] = &[
    ("without-a-budget-an-empty-node-stays", empty_and_no_budget), // TE1
    (
        "outside-its-window-an-empty-node-stays",
        empty_outside_its_window,
    ), // TE2
    ("an-empty-node-goes", empty),                                 // TE3
    (
        "drifted-empty-nodes-go-within-the-budget",
        drifted_and_empty,
    ), // DR1
    ("drifted-nodes-go-within-the-budget", drifted_within_budget), // DR3
    (
        "without-a-budget-a-drifted-node-stays",
        drifted_and_no_budget,
    ), // DR4, DR5
    ("each-change-of-the-template-drifts", templates),             // DR6 to DR9
    ("an-unready-replacement-keeps-the-node", never_initialized),  // DR13
    ("a-pdb-of-none-keeps-a-drifted-node", pods_without_budget),   // DR14
    ("several-nodes-become-fewer", several_for_fewer),             // CO1
    ("do-not-disrupt-keeps-a-node", do_not_disrupt),               // CO2
    ("pods-that-come-and-go-add-no-nodes", no_runaway),            // CH2
];

/// A NodePool with its disruption, more of its template and more requirements.
fn pool(scene: &Scene, disruption: &str, template: &str, requirements: &str) -> Result<()> {
    scene.node_pool(&NodePool {
        disruption,
        template,
        requirements,
        ..NodePool::default()
    })
}

/// Only types of so many CPUs.
fn size(cpus: u32) -> String {
    format!("- {{key: karpenter.kwok.sh/instance-cpu, operator: In, values: ['{cpus}']}}")
}

/// Each pod needs a node of its own.
const APART: &str = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [\
    {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}";

fn patch(scene: &Scene, patch: &str) -> Result<()> {
    scene
        .kubectl(&[
            "patch",
            "nodepool",
            scene.name,
            "--type=merge",
            "--patch",
            patch,
        ])
        .map(drop)
}

fn scale(scene: &Scene, name: &str, replicas: usize) -> Result<()> {
    let replicas = format!("--replicas={replicas}");
    scene
        .kubectl(&["scale", "deployment", name, &replicas])
        .map(drop)
}

fn empty(scene: &Scene) -> Result<()> {
    pool(
        scene,
        "consolidationPolicy: WhenEmpty, consolidateAfter: 10s, budgets: [{nodes: 100%}]",
        "",
        "",
    )?;
    scene.deployment("web", 1, "1", "", "")?;
    scene.run(60, 1)?;
    scale(scene, "web", 0)?;
    scene.gone(90)
}

/// A node that is empty, may be consolidated, and stays.
fn stays_empty(scene: &Scene) -> Result<()> {
    scene.deployment("web", 1, "1", "", "")?;
    scene.run(60, 1)?;
    scale(scene, "web", 0)?;
    scene.until(60, "the NodeClaim is Consolidatable", || {
        Ok(is_true(&scene.only("nodeclaims")?, "Consolidatable"))
    })?;
    scene.stays(45, "the node stays", || {
        let claim = scene.only("nodeclaims")?;
        Ok(!deleting(&claim) && !disrupted(&scene.only("nodes")?))
    })?;
    scene.clear()
}

fn empty_and_no_budget(scene: &Scene) -> Result<()> {
    pool(
        scene,
        "consolidateAfter: 0s, budgets: [{nodes: '0'}]",
        "",
        "",
    )?;
    stays_empty(scene)
}

fn empty_outside_its_window(scene: &Scene) -> Result<()> {
    // Nothing may go at any minute of any hour.
    let budget = "[{nodes: '0', schedule: '* * * * *', duration: 10m}, {nodes: 100%}]";
    pool(
        scene,
        &format!("consolidateAfter: 0s, budgets: {budget}"),
        "",
        "",
    )?;
    stays_empty(scene)
}

/// Watches nodes that are disrupted until the claims of before are gone. Returns the most at once.
fn most_at_once(scene: &Scene, before: usize, seconds: u64) -> Result<usize> {
    let old = scene.names("nodeclaims")?;
    ensure!(old.len() == before, "{} NodeClaims", old.len());
    let mut most = 0;
    scene.until(seconds, "the NodeClaims of before are gone", || {
        let nodes = scene.all("nodes")?;
        let going = nodes
            .iter()
            .filter(|node| disrupted(node) || deleting(node))
            .count();
        most = most.max(going);
        Ok(scene.names("nodeclaims")?.is_disjoint(&old))
    })?;
    Ok(most)
}

fn drifted_and_empty(scene: &Scene) -> Result<()> {
    pool(
        scene,
        "consolidateAfter: Never, budgets: [{nodes: 50%}]",
        "",
        &size(2),
    )?;
    scene.deployment("web", 3, "1", "", APART)?;
    scene.run(60, 3)?;
    scale(scene, "web", 0)?;
    scene.until(30, "pods are gone", || Ok(scene.all("pods")?.is_empty()))?;
    patch(
        scene,
        r#"{"spec":{"template":{"metadata":{"annotations":{"new":"yes"}}}}}"#,
    )?;
    let most = most_at_once(scene, 3, 180)?;
    ensure!(most <= 2, "{most} nodes at once, and 50 % of 3 are 2");
    scene.clear()
}

fn drifted_within_budget(scene: &Scene) -> Result<()> {
    pool(
        scene,
        "consolidateAfter: Never, budgets: [{nodes: '3'}]",
        "",
        &size(2),
    )?;
    scene.deployment("web", 5, "1", "", APART)?;
    scene.run(60, 5)?;
    patch(
        scene,
        r#"{"spec":{"template":{"metadata":{"annotations":{"new":"yes"}}}}}"#,
    )?;
    let most = most_at_once(scene, 5, 240)?;
    ensure!(
        (1..=3).contains(&most),
        "{most} nodes at once, and 3 may be"
    );
    scene.run(60, 5)?;
    for node in scene.all("nodes")? {
        ensure!(node["metadata"]["annotations"]["new"] == "yes", "{node}");
    }
    scene.clear()
}

fn drifted_and_no_budget(scene: &Scene) -> Result<()> {
    let budget = "[{nodes: '0', schedule: '* * * * *', duration: 10m}]";
    pool(
        scene,
        &format!("consolidateAfter: Never, budgets: {budget}"),
        "",
        "",
    )?;
    scene.deployment("web", 1, "1", "", "")?;
    scene.run(60, 1)?;
    drifts_and_stays(scene, 45)
}

/// The only node drifts, and stays for so many seconds.
fn drifts_and_stays(scene: &Scene, seconds: u64) -> Result<()> {
    let change = r#"{"spec":{"template":{"metadata":{"labels":{"new":"yes"}}}}}"#;
    patch(scene, change)?;
    scene.until(30, "the NodeClaim is Drifted", || {
        Ok(is_true(&scene.only("nodeclaims")?, "Drifted"))
    })?;
    scene.stays(seconds, "the node stays", || {
        Ok(!disrupted(&scene.only("nodes")?))
    })?;
    scene.clear()
}

/// Annotations, labels, taints and requirements of the template: each replaces the node.
fn templates(scene: &Scene) -> Result<()> {
    pool(
        scene,
        "consolidateAfter: Never, budgets: [{nodes: 100%}]",
        "",
        "",
    )?;
    let tolerates = "tolerations: [{key: new, operator: Exists}]";
    scene.deployment("web", 1, "1", "", tolerates)?;
    scene.run(60, 1)?;
    for change in [
        r#"{"spec":{"template":{"metadata":{"annotations":{"new":"yes"}}}}}"#,
        r#"{"spec":{"template":{"metadata":{"labels":{"new":"yes"}}}}}"#,
        r#"{"spec":{"template":{"spec":{"taints":[{"key":"new","effect":"NoSchedule"}]}}}}"#,
        r#"{"spec":{"template":{"spec":{"requirements":[
            {"key":"kubernetes.io/os","operator":"In","values":["linux"]},
            {"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]}]}}}}"#,
    ] {
        let old = name(&scene.only("nodeclaims")?);
        patch(scene, change)?;
        scene
            .until(90, "the node is replaced", || {
                let claims = scene.names("nodeclaims")?;
                Ok(claims.len() == 1 && !claims.contains(&old) && scene.all("nodes")?.len() == 1)
            })
            .with_context(|| change.to_owned())?;
        scene.run(60, 1)?;
    }
    let node = scene.only("nodes")?;
    let kind = &node["metadata"]["labels"]["karpenter.sh/capacity-type"];
    ensure!(*kind == "spot", "{kind}");
    scene.clear()
}

/// What replaces it never gets ready: the node stays, with its taint while it is waited for.
fn never_initialized(scene: &Scene) -> Result<()> {
    pool(
        scene,
        "consolidateAfter: Never, budgets: [{nodes: 100%}]",
        "",
        "",
    )?;
    scene.deployment("web", 1, "1", "", "tolerations: [{operator: Exists}]")?;
    scene.run(60, 1)?;
    let old = name(&scene.only("nodeclaims")?);
    let startup = r#"{"spec":{"template":{"spec":{"startupTaints":[{"key":"wait","effect":"NoSchedule"}]}}}}"#;
    patch(scene, startup)?;
    scene.until(60, "a replacement comes", || {
        Ok(scene.all("nodes")?.len() == 2)
    })?;
    scene.stays(45, "the old one stays", || {
        let claims = scene.all("nodeclaims")?;
        let claim = claims
            .iter()
            .find(|claim| name(claim) == old)
            .context("it is gone")?;
        Ok(!deleting(claim) && claims.len() == 2)
    })?;
    let claims = scene.all("nodeclaims")?;
    let claim = claims
        .iter()
        .find(|claim| name(claim) == old)
        .context("gone")?;
    ensure!(is_true(claim, "DisruptionReason"), "{claim}");
    // Without its replacement it is given back to its pods.
    let other = claims
        .iter()
        .map(name)
        .find(|claim| *claim != old)
        .context("none")?;
    patch(
        scene,
        r#"{"spec":{"disruption":{"budgets":[{"nodes":"0"}]}}}"#,
    )?;
    scene.kubectl(&["delete", "nodeclaim", &other, "--wait=false"])?;
    scene.until(60, "taint and condition are taken back", || {
        let claim = scene.only("nodeclaims")?;
        let annotations = &claim["metadata"]["annotations"];
        Ok(!disrupted(&scene.only("nodes")?)
            && !is_true(&claim, "DisruptionReason")
            && annotations["longshore.dev/disruption"].is_null())
    })?;
    scene.clear()
}

/// A PodDisruptionBudget that allows nothing keeps a drifted node.
fn pods_without_budget(scene: &Scene) -> Result<()> {
    pool(
        scene,
        "consolidateAfter: Never, budgets: [{nodes: 100%}]",
        "",
        "",
    )?;
    scene.apply(
        "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: $}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}
",
    )?;
    scene.deployment("web", 1, "1", "", "")?;
    scene.run(60, 1)?;
    drifts_and_stays(scene, 30)
}

/// Nodes that were needed for many pods are replaced once there are few.
fn several_for_fewer(scene: &Scene) -> Result<()> {
    pool(
        scene,
        "consolidateAfter: 0s, budgets: [{nodes: 100%}]",
        "",
        "",
    )?;
    scene.deployment("web", 8, "3", "", APART)?;
    scene.run(90, 8)?;
    ensure!(scene.all("nodes")?.len() == 8, "a node each");
    scene.deployment("small", 8, "100m", "", "")?;
    scene.run(60, 16)?;
    scale(scene, "web", 0)?;
    scene.until(240, "one cheap node is left", || {
        let claims = scene.all("nodeclaims")?;
        Ok(claims.len() == 1 && scene.all("nodes")?.len() == 1)
    })?;
    scene.run(60, 8)?;
    let node = scene.only("nodes")?;
    let cpus = node["metadata"]["labels"]["karpenter.kwok.sh/instance-cpu"].clone();
    let cpus: u32 = cpus.as_str().unwrap_or_default().parse()?;
    ensure!(cpus <= 2, "{cpus} CPUs for 800m");
    scene.clear()
}

/// A pod that must not be disrupted keeps its node; the others go.
fn do_not_disrupt(scene: &Scene) -> Result<()> {
    pool(
        scene,
        "consolidateAfter: 0s, budgets: [{nodes: 100%}]",
        "",
        &size(4),
    )?;
    scene.deployment("web", 3, "3", "", APART)?;
    scene.run(60, 3)?;
    let held = "karpenter.sh/do-not-disrupt: 'true'";
    scene.deployment("held", 1, "100m", held, "")?;
    scene.run(60, 4)?;
    let pods = scene.all("pods")?;
    let is_held = |pod: &&Value| pod["metadata"]["labels"]["app"] == "held";
    let pod = pods.iter().find(is_held).context("no pod is held")?.clone();
    scale(scene, "web", 0)?;
    scene.until(120, "the other nodes are gone", || {
        Ok(scene.all("nodes")?.len() == 1)
    })?;
    scene.stays(30, "the pod stays where it is", || {
        let pods = scene.all("pods")?;
        let now = pods.iter().find(is_held).context("it is gone")?;
        Ok(now["metadata"]["uid"] == pod["metadata"]["uid"] && !deleting(now))
    })?;
    scene.clear()
}

/// Pods come and go, and no more nodes come than they need.
fn no_runaway(scene: &Scene) -> Result<()> {
    pool(
        scene,
        "consolidationPolicy: WhenEmpty, consolidateAfter: 5s, budgets: [{nodes: 100%}]",
        "",
        &size(2),
    )?;
    scene.deployment("web", 0, "1", "", APART)?;
    for _ in 0..3 {
        scale(scene, "web", 5)?;
        scene.run(60, 5)?;
        let nodes = scene.all("nodes")?.len();
        ensure!(nodes <= 10, "{nodes} nodes for 5 pods");
        scale(scene, "web", 0)?;
        scene.gone(120)?;
    }
    scene.clear()
}

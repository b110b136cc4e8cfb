//! The control plane itself: that it does what tests of an autoscaler count on. Against the real
//! one, or not at all: where it cannot be had, each test is reported as ignored, by name. In CI
//! each of them fails there.

use std::sync::OnceLock;

use anyhow::{Context as _, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use longshore_xtask::control_plane::{self, ControlPlane, Program};

type Test = fn(&ControlPlane) -> Result<()>;

/// Tests that share a cluster, each in a namespace and on nodes of its own.
const SHARED: [(&str, Test); 8] = [
    (
        "pods_of_a_deployment_run_on_a_node_played_by_kwok",
        pods_run,
    ),
    ("a_job_completes", jobs_complete),
    (
        "an_eviction_is_refused_when_the_disruption_budget_is_used_up",
        evictions_obey_budgets,
    ),
    (
        "a_deleted_pod_takes_as_long_to_end_as_it_asks_for",
        pods_end_late,
    ),
    (
        "what_is_labelled_unhealthy_is_not_ready_until_the_label_goes",
        unhealthy_on_request,
    ),
    ("a_namespace_goes_with_all_that_is_in_it", namespaces_go),
    (
        "longshore_may_do_what_deploy_ships_and_nothing_else",
        rights,
    ),
    (
        "the_deployment_that_deploy_ships_is_accepted",
        deployment_is_accepted,
    ),
];

fn main() {
    let arguments = Arguments::from_args();
    let ignored = control_plane::tests_are_ignored();
    static PLANE: OnceLock<Result<ControlPlane, String>> = OnceLock::new();
    let shared = || match PLANE
        .get_or_init(|| ControlPlane::start("itself").map_err(|error| format!("{error:#}")))
    {
        Ok(plane) => Ok(plane),
        Err(error) => Err(Failed::from(error)),
    };
    let fails = |error: anyhow::Error| Failed::from(format!("{error:#}"));
    let mut trials: Vec<Trial> = SHARED
        .into_iter()
        .map(|(name, test)| Trial::test(name, move || test(shared()?).map_err(fails)))
        .collect();
    trials.push(Trial::test(
        "a_program_that_was_killed_comes_back_with_nothing_lost",
        move || killed_programs_come_back().map_err(fails),
    ));
    let trials = trials
        .into_iter()
        .map(|trial| trial.with_ignored_flag(ignored))
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    // A static is never dropped.
    if let Some(Ok(plane)) = PLANE.get()
        && let Err(error) = plane.down()
    {
        eprintln!("{error:#}");
    }
    conclusion.exit();
}

fn deployment_is_accepted(plane: &ControlPlane) -> Result<()> {
    let file = std::path::Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap())
        .join("../../deploy/deployment.yaml");
    let file = file.to_str().context("the repository's path is not text")?;
    let said = plane.run(&["apply", "--dry-run=server", "--validate=strict", "-f", file])?;
    ensure!(said.contains("deployment.apps/longshore created"), "{said}");
    Ok(())
}

fn pods_run(plane: &ControlPlane) -> Result<()> {
    node(plane, "run")?;
    plane.apply(&deployment("run", 3))?;
    wait(
        plane,
        "run",
        "jsonpath={.status.readyReplicas}=3",
        "deployment/web",
    )?;
    let on = plane.run(&[
        "-n",
        "run",
        "get",
        "pods",
        "-o",
        "jsonpath={.items[*].spec.nodeName}",
    ])?;
    ensure!(on == "run run run", "pods are on {on:?}");
    let lease = plane.run(&["-n", "kube-node-lease", "get", "lease", "run", "-o", "name"])?;
    ensure!(lease.contains("lease"), "no lease: {lease}");
    Ok(())
}

fn jobs_complete(plane: &ControlPlane) -> Result<()> {
    node(plane, "job")?;
    plane.apply(
        "{apiVersion: batch/v1, kind: Job, metadata: {name: once, namespace: job}, spec: {completions: 2, template: {spec: \
         {nodeSelector: {of: job}, restartPolicy: Never, containers: [{name: main, image: none}]}}}}",
    )?;
    wait(plane, "job", "condition=Complete", "job/once")
}

fn evictions_obey_budgets(plane: &ControlPlane) -> Result<()> {
    node(plane, "evict")?;
    plane.apply(
        "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: pair, namespace: evict}, \
         spec: {minAvailable: 1, selector: {matchLabels: {app: pair}}}}",
    )?;
    // Without a controller, so that nothing replaces the one that is evicted.
    let pods = ["one", "other"];
    for name in pods {
        plane.apply(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: evict, labels: {{app: pair}}}}, \
             spec: {{nodeSelector: {{of: evict}}, containers: [{{name: main, image: none}}]}}}}"
        ))?;
    }
    wait(
        plane,
        "evict",
        "jsonpath={.status.disruptionsAllowed}=1",
        "pdb/pair",
    )?;
    evict(plane, "evict", pods[0])?;
    let refused = evict(plane, "evict", pods[1]);
    let why = refused
        .err()
        .map(|error| format!("{error:#}"))
        .unwrap_or_default();
    ensure!(
        why.contains("violate the pod's disruption budget"),
        "the second eviction: {why:?}"
    );
    Ok(())
}

fn pods_end_late(plane: &ControlPlane) -> Result<()> {
    node(plane, "late")?;
    for (name, delay) in [("quick", "0s"), ("slow", "1h")] {
        plane.apply(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: late, annotations: \
             {{pod-delete.stage.kwok.x-k8s.io/delay: {delay}}}}}, spec: {{nodeSelector: {{of: late}}, \
             containers: [{{name: main, image: none}}]}}}}"
        ))?;
        wait(plane, "late", "condition=Ready", &format!("pod/{name}"))?;
    }
    plane.run(&["-n", "late", "delete", "pod", "slow", "--wait=false"])?;
    plane.run(&["-n", "late", "delete", "pod", "quick", "--timeout=60s"])?;
    let left = plane.run(&[
        "-n",
        "late",
        "get",
        "pods",
        "-o",
        "jsonpath={.items[*].metadata.name}",
    ])?;
    ensure!(left == "slow", "left: {left:?}");
    plane
        .run(&[
            "-n",
            "late",
            "delete",
            "pod",
            "slow",
            "--grace-period=0",
            "--force",
        ])
        .map(drop)
}

fn unhealthy_on_request(plane: &ControlPlane) -> Result<()> {
    node(plane, "ill")?;
    plane.apply(&deployment("ill", 1))?;
    wait(
        plane,
        "ill",
        "jsonpath={.status.readyReplicas}=1",
        "deployment/web",
    )?;
    let pod = plane.run(&["-n", "ill", "get", "pods", "-o", "name"])?;
    for thing in [pod.trim(), "node/ill"] {
        plane.run(&["-n", "ill", "label", thing, "kwok.x-k8s.io/stage=unhealthy"])?;
        wait(plane, "ill", "condition=Ready=False", thing)?;
        plane.run(&["-n", "ill", "label", thing, "kwok.x-k8s.io/stage-"])?;
        wait(plane, "ill", "condition=Ready", thing)?;
    }
    Ok(())
}

fn namespaces_go(plane: &ControlPlane) -> Result<()> {
    node(plane, "gone")?;
    plane.apply(&deployment("gone", 2))?;
    wait(
        plane,
        "gone",
        "jsonpath={.status.readyReplicas}=2",
        "deployment/web",
    )?;
    plane
        .run(&["delete", "namespace", "gone", "--timeout=120s"])
        .map(drop)
}

fn rights(plane: &ControlPlane) -> Result<()> {
    let config = plane.longshore_kubeconfig();
    let config = config.to_str().context("a path that is no text")?;
    let may = |words: &str| {
        let mut args = vec!["--kubeconfig", config, "auth", "can-i"];
        args.extend(words.split(' '));
        // It answers with its exit code as well.
        plane.run(&args).is_ok_and(|answer| answer.trim() == "yes")
    };
    for allowed in [
        "list pods --all-namespaces",
        "patch nodes",
        "create pods --subresource=eviction --all-namespaces",
        "update leases/karpenter-leader-election -n kube-system",
        "create events -n shop",
    ] {
        ensure!(may(allowed), "it may not {allowed}");
    }
    for refused in [
        "create pods -n shop",
        "get secrets -n kube-system",
        "update leases/kube-scheduler -n kube-system",
        "update deployments -n shop",
        "create clusterrolebindings",
    ] {
        ensure!(!may(refused), "it may {refused}");
    }
    Ok(())
}

fn killed_programs_come_back() -> Result<()> {
    let plane = ControlPlane::start("mended")?;
    plane.apply("{apiVersion: v1, kind: Namespace, metadata: {name: kept}}")?;
    for program in [Program::ApiServer, Program::Scheduler, Program::Kwok] {
        plane.kill(program)?;
    }
    let running = || {
        Ok::<_, anyhow::Error>(
            plane
                .status()?
                .iter()
                .filter(|state| state.running.is_some())
                .count(),
        )
    };
    ensure!(running()? == 2, "{} run", running()?);
    plane.restart()?;
    ensure!(running()? == 5, "{} run", running()?);
    plane.run(&["get", "namespace", "kept"])?;
    let folder = plane.folder().to_owned();
    drop(plane);
    ensure!(!folder.exists(), "{} is still there", folder.display());
    Ok(())
}

/// A namespace, and a node of the same name that kwok plays, labelled `of: NAME`.
fn node(plane: &ControlPlane, name: &str) -> Result<()> {
    plane.apply(&format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}
---
{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{of: {name}}}, \
         annotations: {{kwok.x-k8s.io/node: fake}}}}}}"
    ))?;
    wait(plane, name, "condition=Ready", &format!("node/{name}"))
}

/// Deployment `web` on the node of its namespace.
fn deployment(namespace: &str, replicas: u32) -> String {
    format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web, namespace: {namespace}}}, spec: \
         {{replicas: {replicas}, selector: {{matchLabels: {{app: web}}}}, template: {{metadata: {{labels: {{app: web}}}}, \
         spec: {{nodeSelector: {{of: {namespace}}}, \
         containers: [{{name: main, image: none}}]}}}}}}}}"
    )
}

fn wait(plane: &ControlPlane, namespace: &str, until: &str, what: &str) -> Result<()> {
    plane
        .run(&[
            "-n",
            namespace,
            "wait",
            &format!("--for={until}"),
            what,
            "--timeout=90s",
        ])
        .map(drop)
}

fn evict(plane: &ControlPlane, namespace: &str, pod: &str) -> Result<()> {
    let file = plane.folder().join(format!("eviction-of-{pod}.json"));
    let eviction = format!(
        r#"{{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {{"name": "{pod}", "namespace": "{namespace}"}}}}"#
    );
    std::fs::write(&file, eviction)?;
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction");
    plane
        .run(&[
            "create",
            "--raw",
            &path,
            "-f",
            file.to_str().context("a path that is no text")?,
        ])
        .map(drop)
}

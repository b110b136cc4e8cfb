//! Pods become fewer and more again on a real control plane, and nodes follow: within the NodePool's
//! budgets and its window, without a pod that must stay, and through the eviction API only. What
//! Longshore did is judged by the API server's audit log.
//!
//! Run by `cargo test --test disruption_live -- --ignored`: pods become fewer with 120 pods, with
//! 1 000, and with a daemon that is killed every twenty seconds; a hundred nodes drift.

#![allow(clippy::print_stdout, reason = "figures, for a person that runs it")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use libtest_mimic::{Arguments, Failed, Trial};
use longshore_core::model::Symbols;
use longshore_xtask::control_plane::ControlPlane;
use serde_json::Value;

mod drift;
mod judge;
#[allow(dead_code, reason = "its other users need the rest")]
#[path = "../plane/mod.rs"]
mod plane;

use judge::Judge;
use plane::{CLASS, Daemon, objects, running, within};

/// How many pods there are, how fast nodes may go, and how often the daemon is killed.
#[derive(Clone, Copy)]
struct Load {
    deployments: usize,
    /// Pods of each Deployment at first and at last, and in between.
    many: usize,
    few: usize,
    /// Most nodes of 100 that are disrupted at once.
    percent: usize,
    killed_every: Option<Duration>,
}

const SMALL: Load = Load {
    deployments: 4,
    many: 30,
    few: 9,
    percent: 30,
    killed_every: None,
};
const LARGE: Load = Load {
    deployments: 20,
    many: 50,
    few: 15,
    percent: 10,
    killed_every: None,
};
const KILLED: Load = Load {
    killed_every: Some(Duration::from_secs(20)),
    ..LARGE
};

/// Pods that must not be disrupted.
const HELD: usize = 4;
/// How long a node keeps its pods before it is looked at.
const CONSOLIDATE_AFTER: i64 = 20;
/// Minutes in which no node may go.
const WINDOW: i64 = 1;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let trial = |name: &str, test: Box<dyn FnOnce() -> Result<()> + Send>| {
        Trial::test(name, move || {
            test().map_err(|error| Failed::from(format!("{error:#}")))
        })
        // They take minutes each.
        .with_ignored_flag(true)
    };
    let scaled = |load: Load| Box::new(move || down_and_up(load));
    let trials = vec![
        trial("pods_become_fewer_and_more", scaled(SMALL)),
        trial("a_thousand_pods_become_fewer_and_more", scaled(LARGE)),
        trial("the_same_with_a_daemon_that_is_killed", scaled(KILLED)),
        trial(
            "a_hundred_nodes_drift",
            Box::new(drift::a_hundred_nodes_drift),
        ),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

/// A NodePool of on-demand nodes with up to eight CPUs, with budgets.
fn pool(budgets: &str) -> String {
    format!(
        "{CLASS}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec:
  disruption: {{consolidateAfter: {CONSOLIDATE_AFTER}s, budgets: [{budgets}]}}
  template:
    spec:
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
      requirements:
      - {{key: kubernetes.io/os, operator: In, values: [linux]}}
      - {{key: kubernetes.io/arch, operator: In, values: [amd64]}}
      - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
      - {{key: karpenter.kwok.sh/instance-cpu, operator: In, values: ['2', '4', '8']}}
"
    )
}

/// A Deployment of pods of half a core, and a PodDisruptionBudget of its name that lets a fifth of
/// them go if `budget` says so.
fn deployment(name: &str, replicas: usize, annotations: &str, budget: bool) -> String {
    let selector = format!("selector: {{matchLabels: {{app: {name}}}}}");
    let budget = if budget {
        format!(
            "
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: {name}}}
spec: {{maxUnavailable: 20%, {selector}}}"
        )
    } else {
        String::new()
    };
    format!(
        "
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  {selector}
  template:
    metadata: {{labels: {{app: {name}}}, annotations: {{{annotations}}}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{{name: c, image: pause, resources: {{requests: {{cpu: 500m, memory: 512Mi}}}}}}]
{budget}"
    )
}

fn down_and_up(load: Load) -> Result<()> {
    let plane = ControlPlane::start("scale-down")?;
    let percent = format!("{{nodes: {}%}}", load.percent);
    plane.apply(&pool(&percent))?;
    let daemon = Mutex::new(Some(start(&plane)?));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| keep_killing(&plane, &daemon, load.killed_every, &ended));
        let told = phases(&plane, load, &percent);
        ended.store(true, Ordering::Relaxed);
        told
    })
    .with_context(|| {
        let daemon = daemon.lock().unwrap_or_else(PoisonError::into_inner);
        last_lines(daemon.as_ref())
    })
}

/// What a daemon said at last.
fn last_lines(daemon: Option<&Daemon>) -> String {
    let log = daemon.and_then(|daemon| daemon.log().ok());
    let log = log.unwrap_or_default();
    let lines: Vec<&str> = log.lines().rev().take(60).collect();
    format!("the daemon's log, last line first:\n{}", lines.join("\n"))
}

fn start(plane: &ControlPlane) -> Result<Daemon> {
    Daemon::start(&plane.longshore_kubeconfig(), &[])
}

/// Kills the daemon every so often and starts another at once.
fn keep_killing(
    plane: &ControlPlane,
    daemon: &Mutex<Option<Daemon>>,
    every: Option<Duration>,
    ended: &AtomicBool,
) {
    let Some(every) = every else { return };
    let mut last = Instant::now();
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(200));
        if last.elapsed() >= every {
            let mut daemon = daemon.lock().unwrap_or_else(PoisonError::into_inner);
            drop(daemon.take());
            // Without a daemon the phases run into their time limits and say so.
            *daemon = start(plane).ok();
            last = Instant::now();
        }
    }
}

/// How long phases may take; a daemon that is killed begins to wait anew each time.
fn patience(load: Load) -> u64 {
    if load.killed_every.is_some() {
        2400
    } else {
        1200
    }
}

fn phases(plane: &ControlPlane, load: Load, percent: &str) -> Result<()> {
    let apps: Vec<String> = (0..load.deployments).map(|at| format!("web{at}")).collect();
    let manifests = apps
        .iter()
        .enumerate()
        .map(|(at, app)| deployment(app, load.many, "", at % 2 == 0));
    plane.apply(&manifests.collect::<String>())?;
    let held = "karpenter.sh/do-not-disrupt: 'true'";
    plane.apply(&deployment("held", HELD, held, false))?;
    let pods = HELD + load.deployments * load.many;
    let all_run = |pods: usize| {
        within(
            patience(load),
            Duration::from_secs(1),
            &format!("{pods} pods run"),
            || Ok(running(plane)? == pods),
        )
    };
    all_run(pods)?;
    let held = uids_of_held(plane)?;
    let nodes = objects(plane, "nodes", &[])?;
    let before = cost(&nodes)?;
    println!("{pods} pods on {} nodes: {before:.2} USD/h", nodes.len());

    let window = next_minute();
    let closed = format!(
        "{{nodes: '0', schedule: '{}', duration: {WINDOW}m}}",
        window.strftime("%M %H * * *")
    );
    plane.apply(&pool(&format!("{percent}, {closed}")))?;
    let shrinks = Timestamp::now();
    scale(plane, &apps, load.few)?;
    let end = window + SignedDuration::from_mins(WINDOW);
    let (nodes, cost) = settle(plane, load, end)?;
    let few = HELD + load.deployments * load.few;
    all_run(few)?;
    println!(
        "{few} pods on {nodes} nodes after {} s: {cost:.2} USD/h",
        Timestamp::now().duration_since(shrinks).as_secs()
    );
    // What pods cost in nodes that are filled, and a half more for those that held pods keep.
    let share = few as f64 / pods as f64;
    ensure!(
        cost <= 1.5 * share * before,
        "{cost} USD/h for {few} pods, and {pods} cost {before}"
    );

    scale(plane, &apps, load.many)?;
    all_run(pods)?;
    ensure!(
        uids_of_held(plane)? == held,
        "a pod that must stay is another one"
    );
    Judge::new(plane, &held)?.judge(load.percent, window, end)
}

fn scale(plane: &ControlPlane, apps: &[String], replicas: usize) -> Result<()> {
    let replicas = format!("--replicas={replicas}");
    let mut words = vec!["scale", "deployment", &replicas];
    words.extend(apps.iter().map(String::as_str));
    plane.run(&words).map(drop)
}

/// The first full minute that is at least half a minute away.
fn next_minute() -> Timestamp {
    let second = Timestamp::now().as_second() + 30;
    let minute = second - second.rem_euclid(60) + 60;
    Timestamp::from_second(minute).unwrap_or(Timestamp::MAX)
}

/// Pods that must not be disrupted: UIDs by name.
fn uids_of_held(plane: &ControlPlane) -> Result<BTreeMap<String, String>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = objects(plane, "pods", &["--selector=app=held"])?;
    let uids = pods.iter().map(|pod| {
        let metadata = &pod["metadata"];
        (text(&metadata["name"]), text(&metadata["uid"]))
    });
    Ok(uids.collect())
}

/// Waits until the nodes have been the same for two minutes, none disrupted, after a time: for five
/// where the daemon is killed, which looks twice, 15 s apart, and often does not live so long.
/// Returns their number and what they cost, USD per hour.
fn settle(plane: &ControlPlane, load: Load, after: Timestamp) -> Result<(usize, f64)> {
    let (mut last, mut since) = (BTreeSet::new(), Instant::now());
    let same_for = if load.killed_every.is_some() {
        300
    } else {
        120
    };
    let mut found = (0, 0.0);
    within(
        patience(load),
        Duration::from_secs(2),
        "nodes stay the same",
        || {
            let nodes = objects(plane, "nodes", &[])?;
            let busy = nodes.iter().any(|node| {
                !node["metadata"]["deletionTimestamp"].is_null() || is_disrupted(&node["spec"])
            });
            let names: BTreeSet<String> = nodes
                .iter()
                .map(|node| node["metadata"]["name"].to_string())
                .collect();
            if busy || names != last || Timestamp::now() < after {
                (last, since) = (names, Instant::now());
            }
            found = (nodes.len(), cost(&nodes)?);
            Ok(since.elapsed() >= Duration::from_secs(same_for))
        },
    )?;
    Ok(found)
}

fn is_disrupted(spec: &Value) -> bool {
    spec["taints"]
        .to_string()
        .contains("karpenter.sh/disrupted")
}

/// What nodes cost on demand by the built-in catalogue, USD per hour.
fn cost(nodes: &[Value]) -> Result<f64> {
    let mut names = Symbols::default();
    let catalogue = longshore_kwok::catalogue::built_in(&mut names);
    let mut prices = BTreeMap::new();
    for offering in catalogue.offerings() {
        if offering.capacity_type.map(|kind| names.text(kind)) == Some("on-demand") {
            let kind = &catalogue.types()[offering.instance_type.0 as usize];
            prices.insert(names.text(kind.name), offering.price);
        }
    }
    let price = |node: &Value| {
        let kind = node["metadata"]["labels"]["node.kubernetes.io/instance-type"].as_str();
        kind.and_then(|kind| prices.get(kind).copied())
            .with_context(|| format!("a node of no known type: {}", node["metadata"]["name"]))
    };
    nodes.iter().map(price).sum()
}

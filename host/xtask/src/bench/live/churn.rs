//! Pods that come and go on existing nodes: no pod waits long, and the controller's memory does not
//! grow.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use longshore_xtask::control_plane::ControlPlane;
use serde_json::json;

use super::controller::{Bench, Controller};
use super::load;
use super::readiness::Readiness;
use super::wait::pool_is_ready;
use crate::commands::table;

const DEPLOYMENTS: usize = 40;
const REPLICAS: usize = 50;
/// Pods that are deleted at a time.
const PODS_AT_ONCE: usize = 10;
/// How often pods are deleted.
const DELETION_INTERVAL: Duration = Duration::from_secs(2);
/// How long the controller is looked at with nothing to do.
const IDLE_TIME: Duration = Duration::from_secs(60);

const HEADINGS: [&str; 5] = ["MINUTE", "PODS DELETED", "LONGEST WAIT S", "MIB", "CPU %"];

/// 2 000 pods on about 100 nodes, 300 a minute deleted and made again, for some minutes; ours
/// alone.
pub fn churn(bench: &Bench, minutes: u64) -> anyhow::Result<String> {
    let kind = &bench.kinds[0];
    let plane = ControlPlane::start("bench-churn")?;
    // Twenty pods of 0.7 CPUs fill such a node.
    let types = [
        "m7i.4xlarge",
        "m7a.4xlarge",
        "m6i.4xlarge",
        "m6a.4xlarge",
        "m7g.4xlarge",
        "m6g.4xlarge",
    ];
    let size =
        json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types});
    plane.apply(&load::list(&load::pool(&[size])))?;
    let mut controller = Controller::start(kind, &plane, &bench.types)?;
    pool_is_ready(&plane)?;
    let service = |at: usize| {
        let requests = json!({"cpu": "700m", "memory": "600Mi"});
        let spec = json!({"containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}]});
        load::deployment(
            &format!("web{at}"),
            REPLICAS,
            &json!({"app": format!("web{at}")}),
            &spec,
        )
    };
    let begun = Instant::now();
    plane.apply(&load::list(
        &(0..DEPLOYMENTS).map(service).collect::<Vec<_>>(),
    ))?;
    Readiness::watch(&plane)?.until(DEPLOYMENTS * REPLICAS)?;
    let nodes = plane.run(&["get", "nodes", "-o", "name"])?.lines().count();
    println!(
        "    {} pods run on {nodes} nodes after {:.0} s",
        DEPLOYMENTS * REPLICAS,
        begun.elapsed().as_secs_f64()
    );
    let mut rows = Vec::new();
    let (mut deleted, mut turn) = (0, 0);
    let mut waits: BTreeMap<String, Instant> = BTreeMap::new();
    for minute in 1..=minutes {
        let (start, before) = (Instant::now(), controller.usage()?);
        let mut longest = 0.0f64;
        while start.elapsed() < Duration::from_secs(60) {
            let step = Instant::now();
            // Another service each time, so that every node is hit.
            let app = format!("--selector=app=web{}", turn % DEPLOYMENTS);
            let names = plane.run(&[
                "get",
                "pods",
                &app,
                "-o",
                "jsonpath={.items[*].metadata.name}",
            ])?;
            let victims: Vec<&str> = names
                .split_whitespace()
                .skip(turn / DEPLOYMENTS % 3 * PODS_AT_ONCE)
                .take(PODS_AT_ONCE)
                .collect();
            if !victims.is_empty() {
                let mut delete = vec!["delete", "pods", "--wait=false", "--now"];
                delete.extend(&victims);
                plane.run(&delete)?;
                deleted += victims.len();
            }
            turn += 1;
            let lonely = plane.run(&[
                "get",
                "pods",
                "--field-selector=spec.nodeName=",
                "-o",
                "name",
            ])?;
            let now = Instant::now();
            waits.retain(|name, _| lonely.lines().any(|line| line == name));
            lonely.lines().for_each(|name| {
                waits.entry(name.to_owned()).or_insert(now);
            });
            let wait = waits
                .values()
                .map(|since| (now - *since).as_secs_f64())
                .fold(0.0, f64::max);
            longest = longest.max(wait);
            std::thread::sleep(DELETION_INTERVAL.saturating_sub(step.elapsed()));
        }
        let usage = controller.usage()?;
        let share = 100.0 * (usage.cpu - before.cpu) / start.elapsed().as_secs_f64();
        let row = [
            minute.to_string(),
            deleted.to_string(),
            format!("{longest:.0}"),
            format!("{:.1}", usage.memory),
            format!("{share:.1}"),
        ];
        println!("    {}", row.join("  "));
        rows.push(row.to_vec());
    }
    Readiness::watch(&plane)?.until(DEPLOYMENTS * REPLICAS)?;
    let nodes = plane.run(&["get", "nodes", "-o", "name"])?.lines().count();
    std::thread::sleep(Duration::from_secs(15));
    let before = controller.usage()?;
    std::thread::sleep(IDLE_TIME);
    let usage = controller.usage()?;
    let idle = 100.0 * (usage.cpu - before.cpu) / IDLE_TIME.as_secs_f64();
    Ok(format!(
        "{}\nAfterwards {nodes} nodes; with nothing to do {idle:.2} % of a core and {:.1} MiB.\n",
        table(&HEADINGS, &rows),
        usage.memory
    ))
}

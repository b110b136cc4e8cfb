//! Pods that arrive at once: time until they run, their nodes, and the resources used.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use longshore_xtask::control_plane::{ControlPlane, Request};
use serde_json::Value;

use super::controller::{Bench, Controller, ControllerKind, Usage};
use super::load::{self, Mixes};
use super::readiness::Readiness;
use super::wait::{pool_is_ready, until};
use crate::commands::table;

/// Claims that are made so much later than the first are another purchase.
const ONE_PURCHASE: u64 = 2;

/// What came of a run.
struct RunOutcome {
    seconds: f64,
    usage: Usage,
    nodes: usize,
    usd: f64,
    /// Claims made with the first, and later.
    claims: (usize, usize),
    /// Seconds of CPU of all else that ran for it.
    others: f64,
    /// Requests that the controller made of the API server, from its start on.
    requests: Requests,
}

/// How many requests a controller made, by what they asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Requests {
    /// get, list, watch.
    reads: usize,
    creates: usize,
    /// update, patch.
    updates: usize,
    deletes: usize,
}

impl Requests {
    /// Counts those of the API server's audit log; only one controller runs in such a cluster.
    fn count(requests: &[Request]) -> Self {
        let of = |verbs: &[&str]| {
            requests
                .iter()
                .filter(|request| verbs.contains(&&*request.verb))
                .count()
        };
        Requests {
            reads: of(&["get", "list", "watch"]),
            creates: of(&["create"]),
            updates: of(&["update", "patch"]),
            deletes: of(&["delete", "deletecollection"]),
        }
    }
}

const HEADINGS: [&str; 14] = [
    "CASE",
    "CONTROLLER",
    "SECONDS",
    "CPU S",
    "MIB",
    "NODES",
    "USD/H",
    "CLAIMS",
    "LATER",
    "OTHERS' CPU S",
    "READS",
    "CREATES",
    "UPDATES",
    "DELETES",
];

/// The case of Deployments as a platform has them.
const SERVICES: &str = "20 × 50 services";

/// Twenty Deployments of fifty pods, or one of a thousand, applied while the controller waits for
/// work; only cases whose name contains `only`.
pub fn wave(bench: &Bench, mixes: &Mixes, only: &str) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    let mut cases = vec![
        ("20 × 50 small", load::plain(20, 50, &load::SMALL)),
        ("20 × 50 of a core", load::plain(20, 50, &load::A_CORE)),
        ("1 × 1000 alike", load::plain(1, 1000, &load::SMALL)),
        (
            "20 × 50 over zones",
            load::over_zones(load::plain(20, 50, &load::SMALL)),
        ),
    ];
    cases.retain(|(case, _)| case.contains(only));
    if SERVICES.contains(only) {
        match mixes.even(20, 50)? {
            Some(services) => cases.push((SERVICES, services)),
            None => println!("    without services: {}", load::NO_DATA),
        }
    }
    for (case, objects) in cases {
        for kind in &bench.kinds {
            let outcome = once(kind, &bench.types, &objects, 1000, true)?;
            rows.push(row(case, kind.name, &outcome));
            println!("    {}", rows[rows.len() - 1].join("  "));
        }
    }
    Ok(table(&HEADINGS, &rows))
}

/// Platforms whose pods all wait when the controller starts, so that one plan can answer all of
/// them; only those whose name, `mix N,`, contains `only`.
pub fn mixes(
    bench: &Bench,
    mixes: &Mixes,
    count: u64,
    pods: u32,
    only: &str,
) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    let mut enough: BTreeMap<&str, usize> = BTreeMap::new();
    let seeds: Vec<u64> = (1..=count)
        .filter(|seed| format!("mix {seed},").contains(only))
        .collect();
    for seed in &seeds {
        let (objects, wanted) = mixes.platform(*seed, pods)?;
        for kind in &bench.kinds {
            let outcome = once(kind, &bench.types, &objects, wanted, false)?;
            *enough.entry(kind.name).or_default() += usize::from(outcome.claims.1 == 0);
            rows.push(row(
                &format!("mix {seed}, {wanted} pods"),
                kind.name,
                &outcome,
            ));
            println!("    {}", rows[rows.len() - 1].join("  "));
        }
    }
    let said = enough.iter().map(|(name, times)| {
        format!(
            "{name}: one purchase was enough {times} times of {}\n",
            seeds.len()
        )
    });
    Ok(format!(
        "{}\n{}",
        table(&HEADINGS, &rows),
        said.collect::<String>()
    ))
}

fn row(case: &str, kind: &str, outcome: &RunOutcome) -> Vec<String> {
    let RunOutcome {
        seconds,
        usage,
        nodes,
        usd,
        claims,
        others,
        requests,
    } = outcome;
    vec![
        case.to_owned(),
        kind.to_owned(),
        format!("{seconds:.1}"),
        format!("{:.1}", usage.cpu),
        format!("{:.0}", usage.most),
        nodes.to_string(),
        format!("{usd:.3}"),
        claims.0.to_string(),
        claims.1.to_string(),
        format!("{others:.1}"),
        requests.reads.to_string(),
        requests.creates.to_string(),
        requests.updates.to_string(),
        requests.deletes.to_string(),
    ]
}

/// One run: with `ready`, the controller is there before the pods are; else the pods are there
/// before it is.
fn once(
    kind: &ControllerKind,
    types: &Path,
    objects: &[Value],
    wanted: usize,
    ready: bool,
) -> anyhow::Result<RunOutcome> {
    let plane = ControlPlane::start(&format!("bench-{}", kind.name))?;
    plane.apply(&load::list(&load::pool(&[])))?;
    let mut readiness = Readiness::watch(&plane)?;
    let mut controller;
    let begun;
    if ready {
        controller = Controller::start(kind, &plane, types)?;
        pool_is_ready(&plane)?;
        begun = (Instant::now(), others()?);
        plane.apply(&load::list(objects))?;
    } else {
        plane.apply(&load::list(objects))?;
        until("all pods wait", || Ok(waiting(&plane)? >= wanted))?;
        begun = (Instant::now(), others()?);
        controller = Controller::start(kind, &plane, types)?;
    }
    let done = readiness.until(wanted);
    let seconds = begun.0.elapsed().as_secs_f64();
    if let Err(error) = done {
        let log = std::fs::read_to_string(&controller.log).unwrap_or_default();
        let end: Vec<&str> = log.lines().rev().take(5).collect();
        bail!(
            "{error:#}; {} of {wanted} do; its log ends (last line first)\n{}",
            readiness.count(),
            end.join("\n")
        );
    }
    let usage = controller.usage()?;
    let others = others()? - begun.1;
    // A second purchase would come now: after a batch of pods left over.
    std::thread::sleep(Duration::from_secs(5));
    let (nodes, usd) = bought(&plane, types)?;
    let requests = Requests::count(&plane.requests()?);
    Ok(RunOutcome {
        seconds,
        usage,
        nodes,
        usd,
        claims: claims(&plane)?,
        others,
        requests,
    })
}

/// How many pods kube-scheduler has found no node for.
fn waiting(plane: &ControlPlane) -> anyhow::Result<usize> {
    let path = "jsonpath={.items[*].status.conditions[?(@.reason=='Unschedulable')].reason}";
    Ok(plane
        .run(&["get", "pods", "-o", path])?
        .split_whitespace()
        .count())
}

/// How many nodes there are, and what they cost in an hour.
fn bought(plane: &ControlPlane, types: &Path) -> anyhow::Result<(usize, f64)> {
    let nodes: Value = serde_json::from_str(&plane.run(&["get", "nodes", "-o", "json"])?)?;
    let types: Value = serde_json::from_slice(&std::fs::read(types)?)?;
    let nodes = nodes["items"].as_array().context("nodes")?;
    let mut usd = 0.0;
    for node in nodes {
        let label = |key: &str| node["metadata"]["labels"][key].as_str().unwrap_or("");
        let place = [
            "node.kubernetes.io/instance-type",
            "topology.kubernetes.io/zone",
            "karpenter.sh/capacity-type",
        ];
        let [name, zone, capacity] = place.map(label);
        let found = types
            .as_array()
            .into_iter()
            .flatten()
            .find(|row| row["name"] == name);
        let offerings = found
            .and_then(|row| row["offerings"].as_array())
            .into_iter()
            .flatten();
        let mut fits = offerings.filter(|offering| {
            let requires = |key: &str, value: &str| {
                let all = offering["Requirements"].as_array().into_iter().flatten();
                all.filter(|r| r["key"] == key).all(|r| {
                    r["values"]
                        .as_array()
                        .is_some_and(|v| v.contains(&value.into()))
                })
            };
            requires(place[1], zone) && requires(place[2], capacity)
        });
        let price = fits.next().and_then(|offering| offering["Price"].as_f64());
        usd += price.with_context(|| format!("no price of {name} {zone} {capacity}"))?;
    }
    Ok((nodes.len(), usd))
}

/// How many claims were made with the first, and how many later.
fn claims(plane: &ControlPlane) -> anyhow::Result<(usize, usize)> {
    let path = "jsonpath={.items[*].metadata.creationTimestamp}";
    let text = plane.run(&["get", "nodeclaims", "-o", path])?;
    let times: Vec<u64> = text.split_whitespace().map(second).collect();
    let first = times.iter().min().copied().unwrap_or(0);
    let later = times
        .iter()
        .filter(|time| **time > first + ONE_PURCHASE)
        .count();
    Ok((times.len() - later, later))
}

/// Seconds since midnight of `2026-01-01T10:20:30Z`; a run at midnight is out of luck.
fn second(time: &str) -> u64 {
    let clock = time.split('T').nth(1).unwrap_or("").trim_end_matches('Z');
    clock
        .split(':')
        .filter_map(|part| part.parse::<u64>().ok())
        .fold(0, |sum, part| sum * 60 + part)
}

/// Seconds of CPU that control planes have taken, all together.
fn others() -> anyhow::Result<f64> {
    let names = [
        "kube-apiserver",
        "kube-controller",
        "kube-scheduler",
        "etcd",
        "kwok",
    ];
    let mut ticks = 0.0;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let Some((head, tail)) = stat.rsplit_once(')') else {
            continue;
        };
        // The kernel cuts names after 15 letters.
        let name = head.split('(').nth(1).unwrap_or("");
        if names
            .iter()
            .any(|known| known.starts_with(name) || *known == name)
            && !name.is_empty()
        {
            let fields: Vec<&str> = tail.split_whitespace().collect();
            ticks += fields[11..13]
                .iter()
                .filter_map(|text| text.parse::<f64>().ok())
                .sum::<f64>();
        }
    }
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_what_they_ask_for() {
        let request = |verb: &str| Request {
            verb: verb.to_owned(),
            ..Request::default()
        };
        let made = [
            "get", "watch", "create", "patch", "update", "patch", "delete",
        ]
        .map(request);
        assert_eq!(
            Requests::count(&made),
            Requests {
                reads: 2,
                creates: 1,
                updates: 3,
                deletes: 1
            }
        );
    }

    #[test]
    fn times_of_day_become_seconds() {
        assert_eq!(second("2026-01-01T10:20:30Z"), 37_230);
    }
}

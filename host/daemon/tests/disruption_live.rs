//! Pods become fewer and more again on a real control plane, and nodes follow: within the NodePool's
//! budgets and its window, without a pod that must stay, and through the eviction API only. What
//! Longshore did is judged by the API server's audit log.
//!
//! Run by `cargo test --test clusters -- --ignored disruption_live`: pods become fewer with 120 pods, with
//! 1 000, and with a daemon that is killed every twenty seconds; a hundred nodes drift.

#![allow(clippy::print_stdout, reason = "figures, for a person that runs it")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use longshore_core::model::Symbols;
use longshore_xtask::control_plane::ControlPlane;

mod drift;
mod judge;
mod scaling;

use crate::plane::{self, CLASS, Daemon, Suite};
use scaling::{CONSOLIDATE_AFTER, LARGE, Load, Scaling};

const SMALL: Load = Load {
    deployments: 4,
    many: 30,
    few: 9,
    percent: 30,
    killed_every: None,
};
const KILLED: Load = Load {
    killed_every: Some(Duration::from_secs(20)),
    ..LARGE
};

pub fn suite() -> Suite {
    // They take minutes each.
    let minutes = true;
    Suite::empty("disruption_live", Some(1))
        .test("pods_become_fewer_and_more", minutes, || down_and_up(SMALL))
        .test("a_thousand_pods_become_fewer_and_more", minutes, || {
            down_and_up(LARGE)
        })
        .test("the_same_with_a_daemon_that_is_killed", minutes, || {
            down_and_up(KILLED)
        })
        .test(
            "a_hundred_nodes_drift",
            minutes,
            drift::a_hundred_nodes_drift,
        )
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

fn down_and_up(load: Load) -> Result<()> {
    let plane = ControlPlane::start("scale-down")?;
    let prices = prices();
    let scaling = Scaling {
        plane: &plane,
        load,
        pool: &pool,
        price: &|kind| prices.get(kind).copied(),
        over: &|_| Ok(()),
    };
    plane.apply(&pool(&scaling.percent()))?;
    let daemon = Mutex::new(Some(start(&plane)?));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| keep_killing(&plane, &daemon, load.killed_every, &ended));
        let outcome = scaling.run().and_then(|scaled| scaled.judge(&plane));
        ended.store(true, Ordering::Relaxed);
        outcome
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

/// Prices on demand by the built-in catalogue, USD per hour.
fn prices() -> BTreeMap<String, f64> {
    let mut names = Symbols::default();
    let catalogue = longshore_kwok::catalogue::built_in(&mut names);
    let mut prices = BTreeMap::new();
    for offering in catalogue.offerings() {
        if offering.capacity_type.map(|kind| names.text(kind)) == Some("on-demand") {
            let kind = &catalogue.types()[offering.instance_type.0 as usize];
            prices.insert(names.text(kind.name).to_owned(), offering.price);
        }
    }
    prices
}

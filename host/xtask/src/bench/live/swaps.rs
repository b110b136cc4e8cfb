//! A policy that is replaced repeatedly while rounds are made: no round is lost, and none is
//! delayed.
//!
//! 1 000 pods run. Each step adds a pod that no node will ever take, so that a round is made for
//! it; the file of the policy is replaced just before. Two components alternate. Every tenth
//! replacement is broken, each time in another way, and must leave the previous one in place.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use longshore_xtask::control_plane::ControlPlane;
use serde_json::{Value, json};

use super::controller::{Bench, Controller, ControllerKind};
use super::load;
use super::readiness::Readiness;
use super::wait::{pool_is_ready, until, within};
use crate::commands::{self, table};

/// The components that take turns, by what they call themselves.
const NAMES: [&str; 2] = ["price", "spot-risk"];
/// Deployments and their pods.
const PODS: (usize, usize) = (20, 50);
/// So many replacements, one is broken.
const BROKEN_EVERY: u64 = 10;
/// Pods that wait for ever, at most; then they are deleted, and others come.
const MAX_WAITING_PODS: usize = 40;
/// How long after a replacement the next pod comes, and how long status may take to say so.
const POD_DELAY: Duration = Duration::from_millis(700);
/// How long a round may take.
const MAX_ROUND_TIME: Duration = Duration::from_secs(30);
/// How often the daemon is asked.
const STATUS_POLL: Duration = Duration::from_millis(20);

/// A round follows a pod at once.
const QUICK: &[(&str, &str)] = &[("BATCH_IDLE_DURATION", "100ms")];

/// What is put in the place of a component.
enum Broken {
    Bytes(Vec<u8>),
    Missing,
    Folder,
}

/// Replaces the policy `count` times; ours alone.
pub fn swaps(bench: &Bench, count: u64) -> anyhow::Result<String> {
    let home = commands::plugins()?;
    let read = |name: &str| std::fs::read(home.join(format!("{name}.wasm")));
    let good = [read(NAMES[0])?, read(NAMES[1])?];
    let folder = crate::commands::target().join("bench/swaps");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("policy.wasm");
    let config = folder.join("longshore.toml");
    std::fs::write(
        &config,
        "[[policy]]\nname = \"it\"\npath = \"policy.wasm\"\n",
    )?;
    put(&folder, &file, &Broken::Bytes(good[0].clone()))?;
    let plane = ControlPlane::start("bench-swaps")?;
    plane.apply(&load::list(&load::pool(&[])))?;
    let ours = &bench.kinds[0];
    let kind = ControllerKind {
        name: ours.name,
        program: ours.program.clone(),
        config: Some(config),
        variables: QUICK,
    };
    let mut controller = Controller::start(&kind, &plane, &bench.types)?;
    pool_is_ready(&plane)?;
    plane.apply(&load::list(&load::plain(PODS.0, PODS.1, &load::A_CORE)))?;
    Readiness::watch(&plane)?.until(PODS.0 * PODS.1)?;
    until("the policy is loaded", || {
        Ok(status(&controller)?["policies"]["policies"][0]["digest"].is_string())
    })?;
    let before = controller.usage()?;
    let (mut waiting, mut turn) = (0, 0);
    // Seconds from a pod to its answer, by what happened to the policy meanwhile.
    let mut rounds: [Vec<f64>; 3] = Default::default();
    let begun = Instant::now();
    for step in 1..=count {
        if waiting >= MAX_WAITING_PODS {
            plane.run(&[
                "delete",
                "pods",
                "--selector=nowhere=yes",
                "--wait=false",
                "--now",
            ])?;
            waiting = 0;
            until("no pod waits", || Ok(waiting_pods(&controller)? == 0))?;
        }
        let bad = step % BROKEN_EVERY == 0;
        if bad {
            put(&folder, &file, &broken(step / BROKEN_EVERY, &good[0]))?;
        } else {
            turn = 1 - turn;
            put(&folder, &file, &Broken::Bytes(good[turn].clone()))?;
        }
        // The file is looked at twice a second; what is new is taken over by the round after that.
        std::thread::sleep(POD_DELAY);
        let first = if bad { 2 } else { 1 };
        for at in 0.. {
            let since = Instant::now();
            plane.apply(&load::list(&[nowhere(&format!("nowhere-{step}-{at}"))]))?;
            waiting += 1;
            within(MAX_ROUND_TIME, STATUS_POLL, "a pod is answered", || {
                Ok(waiting_pods(&controller)? == waiting)
            })?;
            rounds[if at == 0 { first } else { 0 }].push(since.elapsed().as_secs_f64());
            let seen = within(POD_DELAY, STATUS_POLL, "the replacement is seen", || {
                let policy = &status(&controller)?["policies"]["policies"][0];
                let version = policy["version"].as_str().unwrap_or_default();
                Ok(policy["error"].is_null() != bad && version.starts_with(NAMES[turn]))
            });
            match seen {
                Ok(()) => break,
                Err(_) if at < 20 => {}
                Err(error) => return Err(error.context(format!("replacement {step}"))),
            }
        }
        if step % 100 == 0 {
            println!(
                "    {step}: {:.1} MiB, {:.0} s",
                controller.usage()?.memory,
                begun.elapsed().as_secs_f64()
            );
        }
    }
    let refused = count / BROKEN_EVERY;
    let swapped = count - refused;
    let after = controller.usage()?;
    std::thread::sleep(Duration::from_secs(10));
    let later = controller.usage()?;
    let policies = &status(&controller)?["policies"];
    let metrics = controller.ask("/metrics").unwrap_or_default();
    let lost = metrics
        .lines()
        .filter(|l| l.starts_with("longshore_rounds_total") && !l.ends_with(" 0"));
    let lost: Vec<&str> = lost
        .filter(|l| l.contains("rejected") || l.contains("replaced"))
        .collect();
    let row = |name: &str, times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| {
            times
                .get((times.len() as f64 * share) as usize)
                .copied()
                .unwrap_or_default()
        };
        let most = times.last().copied().unwrap_or_default();
        vec![
            name.to_owned(),
            times.len().to_string(),
            format!("{:.2}", at(0.5)),
            format!("{:.2}", at(0.99)),
            format!("{most:.2}"),
        ]
    };
    let [still, swap, bad] = &mut rounds;
    let rows = [
        row("nothing", still),
        row("a new component", swap),
        row("a broken one", bad),
    ];
    Ok(format!(
        "{}\n{swapped} components taken over, {refused} refused; rounds took over something new {} times, the longest hold-up was {:.0} µs.\n\
         Rounds that failed: {}.\nMemory {:.1} MiB before, {:.1} at the end, {:.1} ten seconds later; {:.1} CPU-seconds.\n",
        table(
            &["MEANWHILE", "ROUNDS", "MEDIAN S", "99 % S", "LONGEST S"],
            &rows
        ),
        policies["swaps"],
        policies["longest_swap_micros"].as_f64().unwrap_or(f64::NAN),
        if lost.is_empty() {
            "none".to_owned()
        } else {
            lost.join(", ")
        },
        before.memory,
        after.memory,
        later.memory,
        after.cpu - before.cpu,
    ))
}

/// What `longshore status` is made from.
fn status(controller: &Controller) -> anyhow::Result<Value> {
    let body = controller
        .ask("/status")
        .context("the daemon does not answer")?;
    Ok(serde_json::from_str(&body)?)
}

/// How many pods the daemon says no node can be had for.
fn waiting_pods(controller: &Controller) -> anyhow::Result<usize> {
    let status = status(controller)?;
    let reasons = status["waiting"].as_array().cloned().unwrap_or_default();
    Ok(reasons
        .iter()
        .filter_map(|reason| reason["pods"].as_u64())
        .sum::<u64>() as usize)
}

/// A pod that wants a label that nothing has.
fn nowhere(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"nowhere": "yes"}},
        "spec": {
            "terminationGracePeriodSeconds": 0, "nodeSelector": {"kubernetes.io/arch": "vax"},
            "containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}],
        },
    })
}

/// What is wrong with the n-th broken component.
fn broken(n: u64, good: &[u8]) -> Broken {
    let to = |share: usize| good[..good.len() * share / 8].to_vec();
    match n % 10 {
        0 => Broken::Bytes(Vec::new()),
        1 => Broken::Missing,
        2 => Broken::Folder,
        3 => Broken::Bytes(b"[[policy]]\n".to_vec()),
        4 => Broken::Bytes(to(4)),
        5 => Broken::Bytes(good[..good.len() - 1].to_vec()),
        6 => Broken::Bytes(b"\0asm\x01\0\0\0".to_vec()),
        7 => Broken::Bytes(good[..8].to_vec()),
        8 => Broken::Bytes(good[good.len() / 2..].to_vec()),
        _ => Broken::Bytes([&good[..8], &[0xff; 64], &good[8..]].concat()),
    }
}

/// Puts something in the place of the component, as an atomic rename does.
fn put(folder: &Path, file: &Path, what: &Broken) -> anyhow::Result<()> {
    if file.is_dir() {
        std::fs::remove_dir(file)?;
    }
    match what {
        Broken::Bytes(bytes) => {
            let next: PathBuf = folder.join("next");
            std::fs::write(&next, bytes)?;
            std::fs::rename(next, file)?;
        }
        Broken::Missing => std::fs::remove_file(file)?,
        Broken::Folder => {
            std::fs::remove_file(file)?;
            std::fs::create_dir(file)?;
        }
    }
    Ok(())
}

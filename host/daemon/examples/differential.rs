//! Works with the seeds of the differential test.
//!
//! ```text
//! cargo run -p longshore --example differential -- dump SEED DIRECTORY          writes cluster.json and types.json
//! cargo run -p longshore --example differential -- record FROM TO ORACLE OUT    asks Karpenter, appends a line a seed
//! ```
//!
//! `ORACLE schedule -snapshot F -instance-types F` prints what Karpenter does. It is asked three
//! times, for it leaves some things to chance. A line holds, with tabs between: the seed, the least
//! cost in USD per hour, and names of pods that it placed always, sometimes and never.

#![allow(clippy::print_stdout)]

#[path = "../tests/differential/generate.rs"]
mod generate;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const RUNS: usize = 3;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["dump", seed, directory] => dump(seed.parse()?, Path::new(directory)),
        ["record", from, to, oracle, out] => {
            record(from.parse()?, to.parse()?, oracle, Path::new(out))
        }
        _ => Err("usage: dump SEED DIRECTORY | record FROM TO ORACLE OUT".into()),
    }
}

fn dump(seed: u64, directory: &Path) -> Result<()> {
    let (cluster, types) = generate::cluster(seed);
    fs::create_dir_all(directory)?;
    fs::write(
        directory.join("cluster.json"),
        serde_json::to_vec_pretty(&cluster)?,
    )?;
    fs::write(
        directory.join("types.json"),
        serde_json::to_vec_pretty(&types)?,
    )?;
    Ok(())
}

fn record(from: u64, to: u64, oracle: &str, out: &Path) -> Result<()> {
    let directory =
        std::env::temp_dir().join(format!("longshore-differential-{}", std::process::id()));
    let mut out = fs::OpenOptions::new().append(true).create(true).open(out)?;
    for seed in from..to {
        dump(seed, &directory)?;
        match ask(&directory, oracle) {
            Ok(line) => writeln!(out, "{seed}\t{line}")?,
            Err(error) => println!("seed {seed}: {error}"),
        }
    }
    fs::remove_dir_all(directory)?;
    Ok(())
}

/// Cost, and pods placed always, sometimes and never.
fn ask(directory: &Path, oracle: &str) -> Result<String> {
    let mut least = f64::INFINITY;
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..RUNS {
        let mut command = Command::new(oracle);
        command
            .arg("schedule")
            .arg("-snapshot")
            .arg(directory.join("cluster.json"));
        let ran = command
            .arg("-instance-types")
            .arg(directory.join("types.json"))
            .output()?;
        if !ran.status.success() {
            let said = String::from_utf8_lossy(&ran.stderr);
            return Err(format!(
                "the oracle failed: {}",
                said.lines().next().unwrap_or("without a word")
            )
            .into());
        }
        let answer: Value = serde_json::from_slice(&ran.stdout)?;
        least = least.min(answer["cost"].as_f64().ok_or("no cost in the answer")?);
        for pod in placed(&answer) {
            *runs.entry(pod).or_default() += 1;
        }
        for pod in answer["errors"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(pod, _)| name(pod))
        {
            runs.entry(pod).or_default();
        }
    }
    let with = |keep: fn(usize) -> bool| {
        runs.iter()
            .filter(|(_, times)| keep(**times))
            .map(|(pod, _)| pod.as_str())
            .collect::<Vec<_>>()
            .join(",")
    };
    let (always, never) = (with(|times| times == RUNS), with(|times| times == 0));
    Ok(format!(
        "{least:.5}\t{always}\t{}\t{never}",
        with(|times| times > 0 && times < RUNS)
    ))
}

fn placed(answer: &Value) -> Vec<String> {
    let claims = answer["claims"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|claim| &claim["pods"]);
    let existing = answer["existing"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(_, pods)| pods);
    claims
        .chain(existing)
        .flat_map(|pods| pods.as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .map(name)
        .collect()
}

fn name(pod: &str) -> String {
    pod.rsplit('/').next().unwrap_or(pod).to_owned()
}

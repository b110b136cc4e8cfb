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
mod recorder;

use std::collections::BTreeMap;

use recorder::{Oracle, Result};
use serde_json::Value;

const RUNS: usize = 3;

fn main() -> Result<()> {
    recorder::run(generate::cluster, line)
}

/// Seed, cost, and pods placed always, sometimes and never.
fn line(seed: u64, oracle: &Oracle<'_>) -> Result<String> {
    let mut least = f64::INFINITY;
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..RUNS {
        let answer = oracle.ask("schedule")?;
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
        "{seed}\t{least:.5}\t{always}\t{}\t{never}",
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

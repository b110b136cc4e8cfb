//! Works with the seeds of the vectors of disruption (`tests/disruption_vectors.rs`).
//!
//! ```text
//! cargo run -p longshore --example disruption_vectors -- dump SEED DIRECTORY          writes cluster.json and types.json
//! cargo run -p longshore --example disruption_vectors -- record FROM TO ORACLE OUT    asks Karpenter, appends a line a seed
//! ```
//!
//! `ORACLE disrupt -snapshot F -instance-types F` prints what Karpenter does. A line is a JSON
//! object: the seed, and by method its candidates and its commands, each with its nodes and what it
//! saves, USD per hour.

#![allow(clippy::print_stdout)]

#[path = "../tests/disruption_vectors/generate.rs"]
mod generate;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

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
    for (name, content) in [("cluster.json", cluster), ("types.json", types)] {
        fs::write(directory.join(name), serde_json::to_vec_pretty(&content)?)?;
    }
    Ok(())
}

fn record(from: u64, to: u64, oracle: &str, out: &Path) -> Result<()> {
    let directory = std::env::temp_dir().join(format!("longshore-vectors-{}", std::process::id()));
    let mut out = fs::OpenOptions::new().append(true).create(true).open(out)?;
    for seed in from..to {
        dump(seed, &directory)?;
        match ask(seed, &directory, oracle) {
            Ok(line) => writeln!(out, "{line}")?,
            Err(error) => println!("seed {seed}: {error}"),
        }
    }
    fs::remove_dir_all(directory)?;
    Ok(())
}

fn ask(seed: u64, directory: &Path, oracle: &str) -> Result<Value> {
    let mut command = Command::new(oracle);
    command
        .arg("disrupt")
        .arg("-snapshot")
        .arg(directory.join("cluster.json"));
    let ran = command
        .arg("-instance-types")
        .arg(directory.join("types.json"))
        .output()?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        return Err(format!("the oracle failed: {}", said.lines().next().unwrap_or("")).into());
    }
    let answer: Value = serde_json::from_slice(&ran.stdout)?;
    let mut line = json!({"seed": seed});
    for method in answer.as_array().into_iter().flatten() {
        let name = method["method"].as_str().unwrap_or_default();
        if !method["error"].is_null() {
            return Err(format!("{name}: {}", method["error"]).into());
        }
        let commands = method["commands"].as_array().into_iter().flatten();
        let commands: Vec<Value> = commands
            .map(|command| {
                let savings = command["savings"].as_f64().unwrap_or(0.0);
                json!({"nodes": command["nodes"], "savings": (savings * 1e5).round() / 1e5})
            })
            .collect();
        line[name] = json!({"candidates": method["candidates"], "commands": commands});
    }
    Ok(line)
}

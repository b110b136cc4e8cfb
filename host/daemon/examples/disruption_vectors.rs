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
mod recorder;

use recorder::{Oracle, Result};
use serde_json::{Value, json};

fn main() -> Result<()> {
    recorder::run(generate::cluster, line)
}

fn line(seed: u64, oracle: &Oracle<'_>) -> Result<String> {
    let answer = oracle.ask("disrupt")?;
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
    Ok(line.to_string())
}

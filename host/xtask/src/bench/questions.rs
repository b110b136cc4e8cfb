//! Benchmarks on clusters of 1 000 and of 10 000 nodes.
//!
//! `cargo xtask bench questions`: for each node, where its pods would go if the node were gone.
//! `cargo xtask bench freeze`: how long a round holds up the thread that folds observations.

use anyhow::{Context as _, bail};

use super::cases::{Inputs, USUAL};
use crate::commands::{self, Steps, cargo};

/// Clusters as `make_cluster.py` makes them, and what is to be reached: seconds for the answers of
/// all nodes.
const CLUSTERS: [(&str, f64); 2] = [
    ("--profile services --nodes 1000 --pods 30000", 0.5),
    ("--profile services --nodes 10000 --pods 100000", 10.0),
];

/// Asks about every node of all clusters; the benchmark prints a line for each.
pub fn run() -> anyhow::Result<()> {
    each(&["longshore-core", "questions"], |seconds| {
        format!("{seconds} s for all answers, on one core")
    })
}

/// Takes the objects of all clusters for a round; the benchmark prints a line for each.
pub fn freeze() -> anyhow::Result<()> {
    each(&["longshore-api", "freeze"], |_| "taken in 2 ms".to_owned())
}

/// EC2's catalogue for ten NodeClasses: time, memory, and what a changed price costs.
pub fn catalogue() -> anyhow::Result<()> {
    let bench = cargo(&[
        "bench",
        "--package",
        "longshore-ec2",
        "--bench",
        "catalogue",
    ]);
    print!(
        "{}",
        String::from_utf8(commands::output(bench)?).context("the benchmark prints text")?
    );
    Ok(())
}

fn each([package, name]: &[&str; 2], goal: impl Fn(f64) -> String) -> anyhow::Result<()> {
    let mut steps = Steps::default();
    let inputs = steps.run("find inputs", Inputs::find)?;
    let Some(data) = &inputs.data else {
        bail!(
            "clusters of this size come from make_cluster.py alone: LONGSHORE_DATA names its folder"
        );
    };
    let types = data.join(USUAL);
    for (arguments, seconds) in CLUSTERS {
        let cluster = steps.run(arguments, || inputs.made(data, arguments, &types))?;
        let mut bench = cargo(&["bench", "--package", package, "--bench", name, "--"]);
        bench.arg(&cluster).arg(&types);
        let said =
            String::from_utf8(commands::output(bench)?).context("the benchmark prints text")?;
        print!("{said}");
        println!("    to be reached: {}", goal(seconds));
    }
    Ok(())
}

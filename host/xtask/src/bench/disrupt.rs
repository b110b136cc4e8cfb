//! `cargo xtask bench disrupt`: what `longshore plan --converge` reaches, beside Karpenter's core.
//!
//! `goals` are the clusters of one NodePool that the search has goals for. `mixes` are clusters
//! with several NodePools, taints, volumes and affinity ([`mix`]), beside Karpenter's outcome. The
//! objective is the price of all nodes, a cost for each, and what a moved pod has to save
//! ([`MOVE_COST`]) for each move.

mod mix;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::cases::{Inputs, USUAL};
use super::karpenter_baseline::KarpenterBaseline;
use super::outcome::number;
use crate::commands::{self, Steps, table};
use mix::Mix;

/// What one moved pod must save, USD per hour.
const MOVE_COST: f64 = 0.02;
/// Cost of a node beside its price, USD per hour: the default.
const NODE_COST: f64 = 0.015;
/// Our objective is at most this share of Karpenter's.
const SHARE: f64 = 0.97;

/// A cluster of one NodePool, and what is to be reached on it.
struct Goal {
    nodes: u32,
    pods: u32,
    /// USD per hour, and pods moved at most.
    most: (f64, f64),
}

const GOALS: [Goal; 3] = [
    Goal {
        nodes: 100,
        pods: 3_000,
        most: (73.0, 1_520.0),
    },
    Goal {
        nodes: 300,
        pods: 9_000,
        most: (197.0, 5_500.0),
    },
    Goal {
        nodes: 1_000,
        pods: 30_000,
        most: (905.0, 19_300.0),
    },
];

const MIXES: [Mix; 5] = [
    Mix {
        seed: 11,
        nodes: [60, 25, 15],
    },
    Mix {
        seed: 12,
        nodes: [70, 30, 20],
    },
    Mix {
        seed: 13,
        nodes: [80, 30, 30],
    },
    Mix {
        seed: 14,
        nodes: [90, 40, 30],
    },
    Mix {
        seed: 15,
        nodes: [100, 60, 40],
    },
];

/// What measuring needs.
struct Bench {
    longshore: PathBuf,
    oracle: Option<KarpenterBaseline>,
    inputs: Inputs,
    data: PathBuf,
}

/// Runs the parts asked for, both if none is named.
pub fn run(args: &[&str]) -> anyhow::Result<()> {
    if let Some(other) = args.iter().find(|word| !["goals", "mixes"].contains(word)) {
        bail!("unknown word {other:?}: expected goals or mixes");
    }
    let asks = |part: &str| args.is_empty() || args.contains(&part);
    let mut steps = Steps::default();
    let longshore = steps.run("build longshore", commands::longshore)?;
    let inputs = steps.run("find inputs", Inputs::find)?;
    let Some(data) = inputs.data.clone() else {
        bail!("clusters come from make_cluster.py alone: LONGSHORE_DATA names its folder");
    };
    let oracle = steps.run("find Karpenter's oracle", KarpenterBaseline::find)?;
    let bench = Bench {
        longshore,
        oracle,
        inputs,
        data,
    };
    if asks("goals") {
        println!("\n{}", bench.goals(&mut steps)?);
    }
    if asks("mixes") {
        println!("\n{}", bench.mixes(&mut steps)?);
    }
    Ok(())
}

/// What was reached on a cluster.
struct Reached {
    cost: f64,
    nodes: f64,
    moved: f64,
    seconds: f64,
}

impl Reached {
    /// USD per hour.
    fn objective(&self) -> f64 {
        self.cost + NODE_COST * self.nodes + MOVE_COST * self.moved
    }
}

impl Bench {
    fn goals(&self, steps: &mut Steps) -> anyhow::Result<String> {
        let mut rows = Vec::new();
        for goal in GOALS {
            let name = format!("{} nodes, {} pods", goal.nodes, goal.pods);
            let (nodes, pods) = (goal.nodes, goal.pods);
            let arguments = format!("--profile services --nodes {nodes} --pods {pods}");
            let types = self.data.join(USUAL);
            let cluster = self.inputs.made(&self.data, &arguments, &types)?;
            let ours = steps.run(&name, || self.converge(&cluster))?;
            let met = ours.cost <= goal.most.0 && ours.moved <= goal.most.1;
            rows.push(vec![
                name,
                format!("{:.2}", ours.cost),
                format!("{:.2}", goal.most.0),
                format!("{:.0}", ours.moved),
                format!("{:.0}", goal.most.1),
                format!("{:.3}", ours.seconds),
                if met { "met" } else { "MISSED" }.into(),
            ]);
        }
        let headings = ["CLUSTER", "USD/H", "GOAL", "MOVED", "GOAL", "SECONDS", ""];
        Ok(table(&headings, &rows))
    }

    fn mixes(&self, steps: &mut Steps) -> anyhow::Result<String> {
        let mut rows = Vec::new();
        for mix in MIXES {
            let name = mix.name();
            let cluster = steps.run(&format!("make {name}"), || self.mixed(&mix))?;
            let ours = steps.run(&name, || self.converge(&cluster))?;
            let theirs = match &self.oracle {
                Some(oracle) => {
                    let run = || self.karpenter(oracle, &cluster);
                    Some(steps.run(&format!("{name}, Karpenter"), run)?)
                }
                None => None,
            };
            rows.push(row(name, &ours, theirs.as_ref()));
        }
        let headings = [
            "CLUSTER",
            "USD/H",
            "NODES",
            "MOVED",
            "SECONDS",
            "KARPENTER",
            "NODES",
            "MOVED",
            "SECONDS",
            "SHARE",
            "",
        ];
        Ok(table(&headings, &rows))
    }

    /// The manifests of a mix; made once.
    fn mixed(&self, mix: &Mix) -> anyhow::Result<PathBuf> {
        let types = self.data.join(USUAL);
        let file = self.inputs.kept(&format!("{}.json", mix.file()));
        if !file.exists() {
            let mut parts = Vec::new();
            for arguments in mix.arguments() {
                let part = self.inputs.made(&self.data, &arguments, &types)?;
                parts.push(serde_json::from_slice(&std::fs::read(part)?)?);
            }
            std::fs::write(&file, mix.mixed(parts)?.to_string())?;
        }
        Ok(file)
    }

    /// Carries everything out on paper, then makes sure that nothing more is found. The command
    /// itself checks every wave.
    fn converge(&self, cluster: &Path) -> anyhow::Result<Reached> {
        let after = cluster.with_extension("after.json");
        let mut command = self.plan(cluster);
        command.arg("--converge").arg("--write").arg(&after);
        let answer: Value = serde_json::from_slice(&commands::output(command)?)?;
        ensure!(answer["finished"] == true, "it does not come to an end");
        let mut command = self.plan(&after);
        command.arg("--disrupt");
        let again: Value = serde_json::from_slice(&commands::output(command)?)?;
        std::fs::remove_file(&after)?;
        let proposals = again["proposals"].as_array().map_or(0, Vec::len);
        ensure!(proposals == 0, "a second run proposes {proposals} more");
        Ok(Reached {
            cost: number(&answer, "after"),
            nodes: number(&answer, "nodesAfter"),
            moved: number(&answer, "podsMoved"),
            seconds: number(&answer, "seconds"),
        })
    }

    fn plan(&self, cluster: &Path) -> Command {
        let mut command = Command::new(&self.longshore);
        command.arg("plan").arg("--snapshot").arg(cluster);
        command.arg("--instance-types").arg(self.data.join(USUAL));
        command.args(["--move-cost", &MOVE_COST.to_string(), "--output", "json"]);
        command
    }

    /// What Karpenter comes to; asked once for each cluster, for it takes minutes.
    fn karpenter(&self, oracle: &KarpenterBaseline, cluster: &Path) -> anyhow::Result<Reached> {
        let kept = cluster.with_extension("karpenter.json");
        if !kept.exists() {
            let answer = oracle.converge(cluster, &self.data.join(USUAL))?;
            std::fs::write(&kept, answer)?;
        }
        let answer: Value =
            serde_json::from_slice(&std::fs::read(&kept)?).context("the oracle's answer")?;
        Ok(Reached {
            cost: number(&answer, "After"),
            nodes: number(&answer, "NodesNow"),
            moved: number(&answer, "PodsMoved"),
            seconds: number(&answer, "Seconds"),
        })
    }
}

fn row(name: String, ours: &Reached, theirs: Option<&Reached>) -> Vec<String> {
    let figures = |of: &Reached| {
        [
            format!("{:.2}", of.cost),
            format!("{:.0}", of.nodes),
            format!("{:.0}", of.moved),
            format!("{:.2}", of.seconds),
        ]
    };
    let none = || std::array::from_fn(|_| "-".to_owned());
    let share = theirs.map(|theirs| ours.objective() / theirs.objective());
    let mut row = vec![name];
    row.extend(figures(ours));
    row.extend(theirs.map_or_else(none, figures));
    row.push(share.map_or("-".into(), |share| format!("{share:.3}")));
    let missed = share.is_some_and(|share| share > SHARE);
    row.push(if missed { "MISSED" } else { "met" }.into());
    row
}

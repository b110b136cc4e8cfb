//! `cargo xtask bench`: cost and time of plans, beside Karpenter's if its oracle is installed.
//!
//! Both get the same files, one after the other, in the same run, on the same machine. Quote ratios
//! from one run only. `seconds` is the time of deciding alone on both sides, as each reports it,
//! without reading and parsing.

mod cases;
mod classes;
mod crossing;
mod disrupt;
mod karpenter_baseline;
mod launches;
mod live;
mod questions;
mod scheduler;
mod tables;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::commands::{self, Steps};
use cases::{Case, Inputs};
use karpenter_baseline::KarpenterBaseline;

/// What was asked for.
struct Options<'a> {
    parts: Vec<&'a str>,
    effort: Option<&'a str>,
    karpenter_baseline: bool,
    only: Option<&'a str>,
}

/// A case with both answers.
struct Outcome<'c> {
    case: &'c Case,
    ours: Value,
    /// The same with `price.wasm`, where the case asks for it.
    scored: Option<Value>,
    karpenters: Option<Value>,
}

/// Runs the parts asked for, all of them if none is named.
pub fn run(args: &[&str]) -> anyhow::Result<()> {
    if let Some((&"live", rest)) = args.split_first() {
        return live::run(rest);
    }
    if let Some((&"disrupt", rest)) = args.split_first() {
        return disrupt::run(rest);
    }
    if let Some((&"launches", rest)) = args.split_first() {
        return launches::run(rest);
    }
    if let Some((&"classes", rest)) = args.split_first() {
        return classes::run(rest);
    }
    if let Some((&"scheduler-differential", rest)) = args.split_first() {
        return scheduler::run(rest);
    }
    if let Some((&"api-crossing", rest)) = args.split_first() {
        return crossing::run(rest);
    }
    if args == ["freeze"] {
        return questions::freeze();
    }
    if args == ["questions"] {
        return questions::run();
    }
    if args == ["catalogue"] {
        return questions::catalogue();
    }
    let asked = asked(args)?;
    let mut steps = Steps::default();
    let longshore = steps.run("build longshore", commands::longshore)?;
    let inputs = steps.run("find inputs", Inputs::find)?;
    let oracle = if asked.karpenter_baseline {
        steps.run("find Karpenter's oracle", KarpenterBaseline::find)?
    } else {
        None
    };
    for part in ["cost", "speed", "policy"] {
        if !asked.parts.is_empty() && !asked.parts.contains(&part) {
            continue;
        }
        let wanted = |case: &&Case| {
            case.part == part && asked.only.is_none_or(|text| case.name.contains(text))
        };
        let all = cases::all(&inputs);
        let mut outcomes = Vec::new();
        for case in all.iter().filter(wanted) {
            let run = || outcome(case, &inputs, &longshore, oracle.as_ref(), asked.effort);
            outcomes.push(steps.run(&format!("{part}: {}", case.name), run)?);
        }
        println!("\n{}", tables::tables(part, &outcomes));
    }
    if oracle.is_none() {
        println!(
            "Karpenter's column is empty: set LONGSHORE_ORACLE to its oracle, or keep its sources in ../shared/oracle."
        );
    }
    Ok(())
}

fn asked<'a>(args: &[&'a str]) -> anyhow::Result<Options<'a>> {
    let mut asked = Options {
        parts: Vec::new(),
        effort: None,
        karpenter_baseline: true,
        only: None,
    };
    let mut words = args.iter();
    while let Some(&word) = words.next() {
        match word {
            "cost" | "speed" | "policy" => asked.parts.push(word),
            "--no-oracle" => asked.karpenter_baseline = false,
            "--improve" => asked.effort = words.next().copied(),
            "--only" => asked.only = words.next().copied(),
            other => bail!(
                "unknown word {other:?}: expected cost, speed, policy, disrupt, questions, freeze, catalogue, classes, launches, live, scheduler-differential, api-crossing, --improve, --only or --no-oracle"
            ),
        }
    }
    Ok(asked)
}

fn outcome<'c>(
    case: &'c Case,
    inputs: &Inputs,
    longshore: &Path,
    oracle: Option<&KarpenterBaseline>,
    effort: Option<&str>,
) -> anyhow::Result<Outcome<'c>> {
    let snapshot = inputs.cluster(case)?;
    let types = inputs.types(case);
    let plan = |scorer: Option<&Path>| -> anyhow::Result<Value> {
        let mut best: Option<Value> = None;
        // The fastest of a few runs: whatever else the machine does only makes it slower. The plan
        // is the same each time, which is checked.
        for _ in 0..case.repeats {
            let mut command = Command::new(longshore);
            command
                .arg("plan")
                .arg("--snapshot")
                .arg(&snapshot)
                .arg("--instance-types")
                .arg(&types);
            command.args([
                "--improve",
                effort.unwrap_or(case.effort),
                "--output",
                "json",
            ]);
            if let Some(scorer) = scorer {
                command.arg("--scorer").arg(scorer);
            }
            let answer: Value = serde_json::from_slice(&commands::output(command)?)
                .context("longshore's answer")?;
            if let Some(other) = best
                .as_ref()
                .filter(|other| other["digest"] != answer["digest"])
            {
                bail!(
                    "two runs, two plans: {} and {}",
                    other["digest"],
                    answer["digest"]
                );
            }
            if best.as_ref().is_none_or(|best| {
                tables::number(best, "seconds") > tables::number(&answer, "seconds")
            }) {
                best = Some(answer);
            }
        }
        best.context("a case without runs")
    };
    let ours = plan(None)?;
    println!(
        "    longshore: {:.3} s, {:.3} USD/h",
        tables::number(&ours, "seconds"),
        tables::number(&ours, "cost")
    );
    let scored = match case.scorer {
        Some(name) => Some(plan(Some(&scorer(name)?))?),
        None => None,
    };
    let karpenters = match oracle.filter(|_| case.karpenter_baseline) {
        Some(oracle) => Some(oracle.schedule(&snapshot, &types)?),
        None => None,
    };
    if let Some(theirs) = &karpenters {
        let (seconds, cost) = (
            tables::number(theirs, "seconds"),
            tables::number(theirs, "cost"),
        );
        println!("    Karpenter: {seconds:.3} s, {cost:.3} USD/h");
    }
    Ok(Outcome {
        case,
        ours,
        scored,
        karpenters,
    })
}

/// A first-party policy, built.
fn scorer(name: &str) -> anyhow::Result<PathBuf> {
    Ok(commands::plugins()?.join(name).with_extension("wasm"))
}

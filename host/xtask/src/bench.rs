//! `cargo xtask bench`: cost and time of plans, beside Karpenter's if its oracle is installed.
//!
//! Both get the same files, one after the other, in the same run, on the same machine. Quote ratios
//! from one run only. `seconds` is the time of deciding alone on both sides, as each reports it,
//! without reading and parsing.

mod beside;
mod cases;
mod classes;
mod crossing;
mod disrupt;
mod karpenter_baseline;
mod launches;
mod live;
mod outcome;
mod questions;
mod scheduler;
mod tables;

use anyhow::bail;

use crate::commands::{self, Steps};
use cases::{Case, Inputs};
use karpenter_baseline::KarpenterBaseline;

struct BenchOptions<'a> {
    parts: Vec<&'a str>,
    effort: Option<&'a str>,
    karpenter_baseline: bool,
    only: Option<&'a str>,
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
    if let Some((&"beside", rest)) = args.split_first() {
        return beside::run(rest);
    }
    if let Some((&"scheduler-differential", rest)) = args.split_first() {
        return scheduler::run(rest);
    }
    if let Some((&"api-crossing", rest)) = args.split_first() {
        return crossing::run(rest);
    }
    if let Some((&"scorers", rest)) = args.split_first() {
        return scorers(rest);
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
            let run = || outcome::outcome(case, &inputs, &longshore, oracle.as_ref(), asked.effort);
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

/// Nanoseconds per offering of each scorer through the real host; of those that a word names.
fn scorers(words: &[&str]) -> anyhow::Result<()> {
    let mut bench =
        commands::cargo(&["bench", "--package", "longshore-policy", "--bench", "score"]);
    bench.arg("--").args(words);
    commands::run(bench)
}

fn asked<'a>(args: &[&'a str]) -> anyhow::Result<BenchOptions<'a>> {
    let mut asked = BenchOptions {
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
                "unknown word {other:?}: expected cost, speed, policy, beside, disrupt, questions, freeze, catalogue, classes, launches, live, scorers, scheduler-differential, api-crossing, --improve, --only or --no-oracle"
            ),
        }
    }
    Ok(asked)
}

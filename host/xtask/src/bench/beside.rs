//! `cargo xtask bench beside PROGRAM`: time and memory of plans, beside another build of `longshore`.
//!
//! Both plan the same files by turns, so that what else the machine does slows both. Medians count.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::cases::{self, Inputs};
use super::outcome::{answer, number, plan_command};
use crate::commands::{self, Steps, table};

/// How often each of both plans, unless the words say another number.
const RUNS: usize = 11;
/// Most of the other's time and memory.
const MAX_SHARE: f64 = 1.05;

struct BesideOptions {
    other: PathBuf,
    longshore: Option<PathBuf>,
    only: Option<String>,
    runs: usize,
}

/// Runs the cases of `speed`, all or those whose name has the text of `--only`.
pub fn run(args: &[&str]) -> anyhow::Result<()> {
    let asked = asked(args)?;
    let mut steps = Steps::default();
    let ours = match asked.longshore {
        Some(program) => program,
        None => steps.run("build longshore", commands::longshore)?,
    };
    let inputs = steps.run("find inputs", Inputs::find)?;
    let all = cases::all(&inputs);
    let is_asked = |name: &str| asked.only.as_deref().is_none_or(|text| name.contains(text));
    let mut rows = Vec::new();
    let mut missed = Vec::new();
    for case in all
        .iter()
        .filter(|case| case.part == "speed" && is_asked(case.name))
    {
        let (snapshot, types) = (inputs.cluster(case)?, inputs.types(case));
        let plan = |program: &Path| answer(plan_command(program, &snapshot, &types, case.effort));
        let run = || -> anyhow::Result<[Vec<Value>; 2]> {
            let mut answers = [Vec::new(), Vec::new()];
            for _ in 0..asked.runs {
                answers[0].push(plan(&ours)?);
                answers[1].push(plan(&asked.other)?);
            }
            Ok(answers)
        };
        let answers = steps.run(case.name, run)?;
        for (key, unit) in [("seconds", "s"), ("parseSeconds", "s"), ("mib", "MiB")] {
            let [ours, theirs] = [0, 1].map(|at| median(&answers[at], key));
            let share = ours / theirs;
            if share > MAX_SHARE {
                missed.push(format!("{}: {share:.2} of the other's {key}", case.name));
            }
            rows.push(vec![
                case.name.to_owned(),
                key.to_owned(),
                format!("{ours:.4} {unit}"),
                format!("{theirs:.4} {unit}"),
                format!("{share:.2}"),
            ]);
        }
    }
    let headings = ["CASE", "WHAT", "THIS", "THE OTHER", "SHARE"];
    println!("\n{}", table(&headings, &rows));
    match missed.is_empty() {
        true => Ok(()),
        false => bail!("more than {MAX_SHARE}: {}", missed.join("; ")),
    }
}

fn asked(args: &[&str]) -> anyhow::Result<BesideOptions> {
    let (other, rest) = args
        .split_first()
        .context("expected the path of another build of longshore")?;
    let mut asked = BesideOptions {
        other: std::path::absolute(other)?,
        longshore: None,
        only: None,
        runs: RUNS,
    };
    let mut words = rest.iter();
    while let Some(&word) = words.next() {
        let value = words
            .next()
            .with_context(|| format!("{word} needs a value"))?;
        match word {
            "--longshore" => asked.longshore = Some(std::path::absolute(value)?),
            "--only" => asked.only = Some((*value).to_owned()),
            "--runs" => asked.runs = value.parse::<usize>().context("--runs is a number")?.max(1),
            other => bail!("unknown word {other:?}: expected --longshore, --only or --runs"),
        }
    }
    Ok(asked)
}

fn median(answers: &[Value], key: &str) -> f64 {
    let mut all: Vec<f64> = answers.iter().map(|answer| number(answer, key)).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

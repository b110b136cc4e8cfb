//! A case with its answers: Longshore's, the scored one and Karpenter's.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::cases::{Case, Inputs};
use super::karpenter_baseline::KarpenterBaseline;
use crate::commands;

/// A case with both answers.
pub struct CaseAnswers<'c> {
    pub case: &'c Case,
    pub ours: Value,
    /// The same with `price.wasm`, where the case asks for it.
    pub scored: Option<Value>,
    pub karpenters: Option<Value>,
}

/// A number of an answer; 0 if it is not there.
pub fn number(answer: &Value, key: &str) -> f64 {
    answer[key].as_f64().unwrap_or(0.0)
}

/// Asks for all of them.
pub fn outcome<'c>(
    case: &'c Case,
    inputs: &Inputs,
    longshore: &Path,
    oracle: Option<&KarpenterBaseline>,
    effort: Option<&str>,
) -> anyhow::Result<CaseAnswers<'c>> {
    let snapshot = inputs.cluster(case)?;
    let types = inputs.types(case);
    let plan = |scorer: Option<&Path>| -> anyhow::Result<Value> {
        let mut best: Option<Value> = None;
        // The fastest of a few runs: whatever else the machine does only makes it slower. The plan
        // is the same each time, which is checked.
        for _ in 0..case.repeats {
            let effort = effort.unwrap_or(case.effort);
            let mut command = plan_command(longshore, &snapshot, &types, effort);
            if let Some(scorer) = scorer {
                command.arg("--scorer").arg(scorer);
            }
            let answer = answer(command)?;
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
            if best
                .as_ref()
                .is_none_or(|best| number(best, "seconds") > number(&answer, "seconds"))
            {
                best = Some(answer);
            }
        }
        best.context("a case without runs")
    };
    let ours = plan(None)?;
    println!(
        "    longshore: {:.3} s, {:.3} USD/h",
        number(&ours, "seconds"),
        number(&ours, "cost")
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
        let (seconds, cost) = (number(theirs, "seconds"), number(theirs, "cost"));
        println!("    Karpenter: {seconds:.3} s, {cost:.3} USD/h");
    }
    Ok(CaseAnswers {
        case,
        ours,
        scored,
        karpenters,
    })
}

/// What plans the manifests of a file with the instance types of another, and answers in JSON.
pub fn plan_command(program: &Path, snapshot: &Path, types: &Path, effort: &str) -> Command {
    let mut command = Command::new(program);
    command.arg("plan").arg("--snapshot").arg(snapshot);
    command.arg("--instance-types").arg(types);
    command.args(["--improve", effort, "--output", "json"]);
    command
}

/// What a command of `longshore` answers in JSON.
pub fn answer(command: Command) -> anyhow::Result<Value> {
    serde_json::from_slice(&commands::output(command)?).context("longshore's answer")
}

/// A first-party policy, built.
fn scorer(name: &str) -> anyhow::Result<PathBuf> {
    Ok(commands::plugins()?.join(name).with_extension("wasm"))
}

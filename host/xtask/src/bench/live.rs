//! `cargo xtask bench live`: a controller beside a real control plane, from pods to nodes, with the
//! resources that it takes.
//!
//! `scale` is one wave of pods of four kinds, `mixes` are the services of many generated platforms,
//! `churn` is pods that come and go on existing nodes, `swaps` is a policy that is replaced
//! repeatedly, `fold` is an initial list of 10 000 nodes. Karpenter's KWOK controller runs the
//! first two as well if `LONGSHORE_KARPENTER` names it. Each run has its own control plane. Nothing
//! else should run on the machine: the API server uses more of it than any controller.

mod churn;
mod controller;
mod fold;
mod listing;
mod load;
mod readiness;
mod scale;
mod swaps;
mod wait;

use std::path::PathBuf;

use anyhow::{Context as _, bail};

use crate::commands::{self, Steps};
use controller::{Bench, ControllerKind};
use load::Mixes;

struct LiveBenchOptions<'a> {
    parts: Vec<&'a str>,
    mixes: u64,
    pods: u32,
    minutes: u64,
    swaps: u64,
    config: Option<&'a str>,
    only: &'a str,
}

/// Runs the parts asked for; `scale` if none is named.
pub fn run(args: &[&str]) -> anyhow::Result<()> {
    let asked = asked(args)?;
    let mut steps = Steps::default();
    let longshore = steps.run("build longshore", commands::longshore)?;
    let mut kinds = vec![ControllerKind {
        name: "longshore",
        program: longshore,
        config: asked.config.map(PathBuf::from),
        variables: &[],
    }];
    match std::env::var_os("LONGSHORE_KARPENTER").map(PathBuf::from) {
        Some(program) => kinds.push(ControllerKind {
            name: "karpenter",
            program,
            config: None,
            variables: &[],
        }),
        None => println!(
            "    without Karpenter: LONGSHORE_KARPENTER names its KWOK controller where it is"
        ),
    }
    let mixes = Mixes::find()?;
    let types = mixes.types();
    let bench = Bench { kinds, types };
    for part in asked.parts {
        let text = match part {
            "scale" => steps.run("scale", || scale::wave(&bench, &mixes, asked.only))?,
            "mixes" => steps.run("mixes", || {
                scale::mixes(&bench, &mixes, asked.mixes, asked.pods, asked.only)
            })?,
            "fold" => steps.run("fold", || fold::fold(&bench, &mixes))?,
            "swaps" => steps.run("swaps", || swaps::swaps(&bench, asked.swaps))?,
            _ => steps.run("churn", || churn::churn(&bench, asked.minutes))?,
        };
        println!("\n{text}");
    }
    Ok(())
}

fn asked<'a>(args: &[&'a str]) -> anyhow::Result<LiveBenchOptions<'a>> {
    let mut asked = LiveBenchOptions {
        parts: Vec::new(),
        mixes: 20,
        pods: 500,
        minutes: 10,
        swaps: 1000,
        config: None,
        only: "",
    };
    let mut words = args.iter();
    while let Some(&word) = words.next() {
        let mut number = || {
            let word = words
                .next()
                .with_context(|| format!("{word} wants a number"))?;
            word.parse::<u32>()
                .with_context(|| format!("{word:?} is no number"))
        };
        match word {
            "scale" | "mixes" | "churn" | "swaps" | "fold" => asked.parts.push(word),
            "--config" => asked.config = words.next().copied(),
            "--only" => asked.only = words.next().copied().unwrap_or_default(),
            "--mixes" => asked.mixes = number()?.into(),
            "--pods" => asked.pods = number()?,
            "--minutes" => asked.minutes = number()?.into(),
            "--swaps" => asked.swaps = number()?.into(),
            other => bail!(
                "unknown word {other:?}: expected scale, mixes, churn, swaps, fold, --mixes, --pods, \
                 --minutes, --swaps, --only or --config"
            ),
        }
    }
    if asked.parts.is_empty() {
        asked.parts.push("scale");
    }
    Ok(asked)
}

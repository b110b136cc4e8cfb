//! `cargo xtask bench scheduler-differential`: plans beside the real kube-scheduler.
//!
//! Random worlds on a real control plane. In half of them nothing can be bought. What differs there
//! is explained by order and packing only if both sides say so:
//!
//! - What kube-scheduler bound is asked of the planner, each pod in a state in which others were
//!   bound before it and with room on its node alone. The model of kube-scheduler has to agree.
//! - What kube-scheduler left over has to have no place in the end, for the planner too.
//! - What the planner placed is asked of kube-scheduler, with room on the planned node alone.
//!
//! In the other half the nodes of a plan are made, and what the model said of the plan ("10 of 10", "0
//! of 10") is held against what happens. So it is in worlds of a third kind, whose nodes have no room to
//! spare: plans are chosen so that "0 of 10" is rare elsewhere.

mod api;
mod generate;
mod judge;
mod stage;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, bail};

use crate::commands::{self, Steps};
use judge::Judge;
use stage::Stage;

/// Worlds of each of the three kinds, unless the words say another number.
const WORLDS: u64 = 20;

struct SchedulerBenchOptions {
    worlds: u64,
    first: u64,
    /// Control planes side by side: a world is mostly waiting.
    side: usize,
    longshore: Option<PathBuf>,
    keep: PathBuf,
}

/// Plans of which the model said the same: in how many a pod was left over, and how many there are.
type Verdict = (u64, u64);

/// What came of all worlds.
#[derive(Default)]
struct Total {
    worlds: u64,
    equal: u64,
    asked: usize,
    bound: usize,
    planned: usize,
    /// Pods of worlds without NodePools that kube-scheduler alone placed, and the planner alone.
    alone: (usize, usize),
    /// Pods that only one side places and that order and packing do not explain.
    faults: Vec<String>,
    /// Without NodePools, with, and without room to spare: "10 of 10", between, "0 of 10".
    verdicts: [[Verdict; 3]; 3],
    /// Plans that the model was certain of, and wrong.
    wrong: Vec<String>,
    /// Worlds that were not judged to the end, with the reason.
    unjudged: Vec<String>,
}

/// Runs the worlds asked for. Fails if there is a fault.
pub fn run(args: &[&str]) -> anyhow::Result<()> {
    let asked = asked(args)?;
    let mut steps = Steps::default();
    let longshore = match asked.longshore {
        Some(program) => program,
        None => steps.run("build longshore", commands::longshore)?,
    };
    std::fs::create_dir_all(&asked.keep)?;
    let start = |_| Stage::start();
    let stages = steps.run("start control planes", || {
        (0..asked.side)
            .map(start)
            .collect::<anyhow::Result<Vec<_>>>()
    })?;
    let seeds = Seeds {
        next: AtomicU64::new(asked.first),
        end: asked.first + asked.worlds,
    };
    let total = all(stages, &seeds, &longshore, &asked.keep)?;
    println!("\n{}", total.text());
    if !(total.faults.is_empty() && total.wrong.is_empty() && total.unjudged.is_empty()) {
        bail!(
            "differences that order and packing do not explain, or worlds without a verdict; the \
            worlds are in {}",
            asked.keep.display()
        );
    }
    Ok(())
}

/// The worlds that are left.
struct Seeds {
    next: AtomicU64,
    end: u64,
}

impl Seeds {
    fn next(&self) -> Option<u64> {
        let seed = self.next.fetch_add(1, Ordering::Relaxed);
        (seed < self.end).then_some(seed)
    }
}

/// Plays the worlds, each on the control plane that is free first.
fn all(stages: Vec<Stage>, seeds: &Seeds, longshore: &Path, keep: &Path) -> anyhow::Result<Total> {
    std::thread::scope(|scope| {
        let play = |stage| scope.spawn(move || some(&stage, seeds, longshore, keep));
        let threads: Vec<_> = stages.into_iter().map(play).collect();
        let mut total = Total::default();
        for thread in threads {
            let part = thread.join().ok().context("a thread has panicked")??;
            total.add(part);
        }
        Ok(total)
    })
}

/// Plays worlds on one control plane until none is left. One that fails keeps no other from being
/// judged.
fn some(stage: &Stage, seeds: &Seeds, longshore: &Path, keep: &Path) -> anyhow::Result<Total> {
    let mut total = Total::default();
    let judge = Judge {
        stage,
        longshore,
        keep,
    };
    while let Some(seed) = seeds.next() {
        let judged = judge
            .without_pool(seed, &mut total)
            .and_then(|()| judge.with_pool(seed, &mut total))
            .and_then(|()| judge.without_slack(seed, &mut total));
        if let Err(error) = judged {
            println!("world {seed}: not judged: {error:#}");
            total.unjudged.push(format!("world {seed}: {error:#}"));
            stage.clear()?;
        }
    }
    Ok(total)
}

fn asked(args: &[&str]) -> anyhow::Result<SchedulerBenchOptions> {
    let mut asked = SchedulerBenchOptions {
        worlds: WORLDS,
        first: 0,
        side: 1,
        longshore: None,
        keep: std::env::temp_dir().join("longshore-scheduler-differential"),
    };
    let mut words = args.iter();
    while let Some(&word) = words.next() {
        let value = words
            .next()
            .with_context(|| format!("{word} needs a value"))?;
        match word {
            "--worlds" => asked.worlds = value.parse()?,
            "--first" => asked.first = value.parse()?,
            "--side" => asked.side = value.parse::<usize>()?.max(1),
            "--longshore" => asked.longshore = Some(std::path::absolute(value)?),
            "--keep" => asked.keep = std::path::absolute(value)?,
            other => bail!(
                "unknown word {other:?}: expected --worlds N, --first SEED, --side PLANES, --longshore PROGRAM or --keep FOLDER"
            ),
        }
    }
    Ok(asked)
}

impl Total {
    fn add(&mut self, other: Total) {
        self.worlds += other.worlds;
        self.equal += other.equal;
        self.asked += other.asked;
        self.bound += other.bound;
        self.planned += other.planned;
        self.alone.0 += other.alone.0;
        self.alone.1 += other.alone.1;
        self.faults.extend(other.faults);
        self.wrong.extend(other.wrong);
        self.unjudged.extend(other.unjudged);
        let ours = self.verdicts.iter_mut().flatten();
        for (mine, more) in ours.zip(other.verdicts.iter().flatten()) {
            mine.0 += more.0;
            mine.1 += more.1;
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{} worlds were not judged.\n{} worlds without a NodePool: {} pods wait, kube-scheduler bound {}, planned {}; the same \
            set in {} worlds.\nOnly kube-scheduler placed {}, only the plan {}.\nPods that only one \
            side places and that order and packing do not explain: {}\n",
            self.unjudged.len(),
            self.worlds,
            self.asked,
            self.bound,
            self.planned,
            self.equal,
            self.alone.0,
            self.alone.1,
            self.faults.len()
        );
        for (kind, verdicts) in ["nodes that exist", "nodes bought", "nodes without slack"]
            .iter()
            .zip(self.verdicts)
        {
            let said = ["10 of 10", "1 to 9 of 10", "0 of 10"];
            for (said, (over, all)) in said.iter().zip(verdicts) {
                text += &format!("{kind}, {said}: pods were left over in {over} of {all} plans\n");
            }
        }
        let lines = self.faults.iter().chain(&self.wrong);
        for line in lines.chain(&self.unjudged) {
            text += &format!("{line}\n");
        }
        text
    }
}

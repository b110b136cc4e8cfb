//! `cargo xtask bench scheduler-differential`: plans beside the real kube-scheduler.
//!
//! Random worlds on a real control plane. In half of them nothing can be bought: what kube-scheduler
//! bound, one pod after the other, is asked of the planner again, each pod in the state in which it
//! was bound and with room on its node alone, and what kube-scheduler left over has to have no place
//! in the end. Whatever differs then is no matter of order or packing. In the others the nodes of a
//! plan are made, and what the model of kube-scheduler said of the plan ("10 of 10", "0 of 10") is held
//! against what happens.

mod generate;
mod rng;
mod stage;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use crate::commands::{self, Steps};
use stage::{Bound, Stage};

/// Worlds of each of the two kinds, unless the words say another number.
const WORLDS: u64 = 20;

/// What was asked for.
struct Options {
    worlds: u64,
    first: u64,
    longshore: Option<PathBuf>,
    keep: PathBuf,
}

/// What came of all worlds.
#[derive(Default)]
struct Total {
    worlds: u64,
    equal: u64,
    asked: usize,
    bound: usize,
    planned: usize,
    /// Pods that only one side places, in the same state.
    faults: Vec<String>,
    /// By what the model said, worlds in which a pod was left over and all.
    verdicts: [(u64, u64); 3],
    /// Worlds that the model was certain of, and wrong.
    wrong: Vec<String>,
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
    let stage = steps.run("start a control plane", Stage::start)?;
    let mut total = Total::default();
    for seed in asked.first..asked.first + asked.worlds {
        let bench = Bench {
            stage: &stage,
            longshore: &longshore,
            keep: &asked.keep,
        };
        bench.without_pool(seed, &mut total)?;
        bench.with_pool(seed, &mut total)?;
    }
    println!("\n{}", total.text());
    if !total.faults.is_empty() || !total.wrong.is_empty() {
        bail!("differences that order and packing do not explain");
    }
    Ok(())
}

fn asked(args: &[&str]) -> anyhow::Result<Options> {
    let mut asked = Options {
        worlds: WORLDS,
        first: 0,
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
            "--longshore" => asked.longshore = Some(std::path::absolute(value)?),
            "--keep" => asked.keep = std::path::absolute(value)?,
            other => bail!(
                "unknown word {other:?}: expected --worlds N, --first SEED, --longshore PROGRAM or --keep FOLDER"
            ),
        }
    }
    Ok(asked)
}

struct Bench<'a> {
    stage: &'a Stage,
    longshore: &'a Path,
    keep: &'a Path,
}

impl Bench<'_> {
    /// Nothing can be bought: which pods go where.
    fn without_pool(&self, seed: u64, total: &mut Total) -> anyhow::Result<()> {
        let world = generate::world(seed, false);
        let before = self.stage.play(&world)?;
        let planned = self.plan(&before, &format!("{seed}-before"))?;
        self.stage.schedule()?;
        let mut end = self.stage.settled(&world, 3)?;
        let mut left = self.plan(&end.objects, &format!("{seed}-end"))?;
        if !placed(&left).is_empty() {
            // Pods are tried again after a back-off of 10 s at most.
            end = self.stage.settled(&world, 12)?;
            left = self.plan(&end.objects, &format!("{seed}-end"))?;
        }
        let ours = placed(&planned);
        let theirs: Vec<&str> = (end.bound.iter().chain(&end.chosen))
            .map(|bound| bound.pod.as_str())
            .collect();
        let mut faults: Vec<String> = (placed(&left).iter())
            .map(|pod| format!("world {seed}: {pod} has a place only as planned"))
            .collect();
        for (at, bound) in end.bound.iter().enumerate() {
            // When pods whose volume is to be made took their places is not known.
            let mut earlier = end.bound[..at].to_vec();
            let mut answer = Value::Null;
            for _ in 0..=usize::from(!end.chosen.is_empty()) {
                let state = then(&before, &end, &earlier, bound);
                answer = self.plan(&state, &format!("{seed}-{at}"))?;
                if placed(&answer) == [bound.pod.as_str()] {
                    break;
                }
                earlier.extend(end.chosen.iter().cloned());
            }
            if placed(&answer) != [bound.pod.as_str()] {
                let why = &answer["errors"][&bound.pod];
                faults.push(format!(
                    "world {seed}: {} went to {} only on the control plane: {why}",
                    bound.pod, bound.node
                ));
            } else {
                std::fs::remove_file(self.file(&format!("{seed}-{at}")))?;
            }
        }
        let is_equal =
            ours.len() == theirs.len() && ours.iter().all(|pod| theirs.contains(&pod.as_str()));
        println!(
            "world {seed}: {} pods wait, kube-scheduler bound {}, planned {}{}",
            world.pending.len(),
            theirs.len(),
            ours.len(),
            if faults.is_empty() { "" } else { ", FAULTS" }
        );
        faults.iter().for_each(|fault| println!("    {fault}"));
        total.worlds += 1;
        total.equal += u64::from(is_equal);
        total.asked += world.pending.len();
        total.bound += theirs.len();
        total.planned += ours.len();
        if faults.is_empty() {
            std::fs::remove_file(self.file(&format!("{seed}-end")))?;
            std::fs::remove_file(self.file(&format!("{seed}-before")))?;
        }
        total.faults.extend(faults);
        self.stage.clear()
    }

    /// The nodes of a plan are made, all at once.
    fn with_pool(&self, seed: u64, total: &mut Total) -> anyhow::Result<()> {
        let world = generate::world(seed, true);
        let mut before = self.stage.play(&world)?;
        before.extend(world.pools.clone());
        let plan = self.plan(&before, &format!("{seed}-bought"))?;
        let claims = plan["claims"].as_array().map_or(0, Vec::len);
        let survived = plan["survives"]["survived"].as_u64().unwrap_or(0);
        if claims == 0 {
            std::fs::remove_file(self.file(&format!("{seed}-bought")))?;
            return self.stage.clear();
        }
        self.stage.buy(&plan, &world, &self.types()?)?;
        self.stage.schedule()?;
        let mut end = self.stage.settled(&world, 4)?;
        let planned = placed_or_bought(&plan);
        let over = |end: &stage::End| {
            let waits = |pod: &&String| !end.has_placed(pod);
            planned.iter().filter(waits).count()
        };
        if over(&end) > 0 {
            end = self.stage.settled(&world, 12)?;
        }
        let over = over(&end);
        println!("world {seed}: {claims} nodes bought, {survived} of 10, {over} pods left over");
        let row = match survived {
            10 => 0,
            0 => 2,
            _ => 1,
        };
        total.verdicts[row].0 += u64::from(over > 0);
        total.verdicts[row].1 += 1;
        let is_wrong = (row == 0 && over > 0) || (row == 2 && over == 0);
        if is_wrong {
            let text = format!("world {seed}: {survived} of 10, and {over} pods were left over");
            total.wrong.push(text);
        } else {
            std::fs::remove_file(self.file(&format!("{seed}-bought")))?;
        }
        self.stage.clear()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.keep.join(format!("{name}.json"))
    }

    /// What `longshore plan` makes of objects. Their file stays where it may have to be looked at.
    fn plan(&self, objects: &[Value], name: &str) -> anyhow::Result<Value> {
        let file = self.file(name);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        std::fs::write(&file, list.to_string())?;
        let mut command = Command::new(self.longshore);
        command
            .args(["plan", "--output", "json", "--snapshot"])
            .arg(&file);
        let out = command.output().context("cannot run longshore")?;
        serde_json::from_slice(&out.stdout).with_context(|| {
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            format!("no plan for {}: {said}", file.display())
        })
    }

    fn types(&self) -> anyhow::Result<Value> {
        let mut command = Command::new(self.longshore);
        command.args(["types", "--output", "json"]);
        let out = command.output().context("cannot run longshore")?;
        serde_json::from_slice(&out.stdout).context("longshore types prints no JSON")
    }
}

/// Pods that a plan puts on nodes that exist.
fn placed(plan: &Value) -> Vec<String> {
    let nodes = plan["existing"].as_object().into_iter().flatten();
    let pods = nodes.flat_map(|(_, pods)| pods.as_array().into_iter().flatten());
    pods.filter_map(|pod| pod.as_str().map(str::to_owned))
        .collect()
}

/// The same with those that nodes are bought for.
fn placed_or_bought(plan: &Value) -> Vec<String> {
    let claims = plan["claims"].as_array().into_iter().flatten();
    let bought = claims.flat_map(|claim| claim["pods"].as_array().into_iter().flatten());
    let bought = bought.filter_map(|pod| pod.as_str().map(str::to_owned));
    placed(plan).into_iter().chain(bought).collect()
}

/// The world as it was when a pod was bound, with room on the node that it was bound to alone.
fn then(before: &[Value], end: &stage::End, earlier: &[Bound], bound: &Bound) -> Vec<Value> {
    let claims: Vec<String> = (earlier.iter())
        .flat_map(|one| stage::claims_of(before, &one.pod))
        .collect();
    let mut all = Vec::new();
    for object in before {
        let name = stage::name_of(object);
        let mut object = object.clone();
        match object["kind"].as_str() {
            Some("Pod") if stage::is_pending(&object) && name != bound.pod => {
                let Some(one) = earlier.iter().find(|one| one.pod == name) else {
                    continue;
                };
                object["spec"]["nodeName"] = json!(one.node);
                object["status"] = json!({"phase": "Running"});
            }
            Some("Node") if name != bound.node => {
                object["status"]["allocatable"]["pods"] = json!("0");
            }
            Some("PersistentVolumeClaim") if claims.contains(&name) => {
                object = end.object("PersistentVolumeClaim", &name).unwrap_or(object);
            }
            Some("PersistentVolume") => {
                let claim = end.object("PersistentVolume", &name);
                let of = |volume: &Value| {
                    let claim = &volume["spec"]["claimRef"];
                    format!(
                        "{}/{}",
                        claim["namespace"].as_str().unwrap_or_default(),
                        claim["name"].as_str().unwrap_or_default()
                    )
                };
                if let Some(volume) = claim.filter(|volume| claims.contains(&of(volume))) {
                    object = volume;
                }
            }
            _ => {}
        }
        all.push(object);
    }
    all
}

impl Total {
    fn text(&self) -> String {
        let mut text = format!(
            "{} worlds without a NodePool: {} pods wait, kube-scheduler bound {}, planned {}; the same \
            set in {} worlds.\nPods that only one side places and that order and packing do not \
            explain: {}\n",
            self.worlds,
            self.asked,
            self.bound,
            self.planned,
            self.equal,
            self.faults.len()
        );
        for (words, (over, all)) in ["10 of 10", "1 to 9 of 10", "0 of 10"]
            .iter()
            .zip(self.verdicts)
        {
            text += &format!("{words}: pods were left over in {over} of {all} worlds\n");
        }
        for line in self.faults.iter().chain(&self.wrong) {
            text += &format!("{line}\n");
        }
        text
    }
}

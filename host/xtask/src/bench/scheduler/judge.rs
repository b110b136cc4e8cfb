//! What is asked of both sides about a world, and which answers are faults.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::generate::{self, World};
use super::stage::{self, Bound, End, Stage};
use super::{Total, Verdict};

/// Both sides.
pub struct Judge<'a> {
    pub stage: &'a Stage,
    pub longshore: &'a Path,
    pub keep: &'a Path,
}

impl Judge<'_> {
    /// Nothing can be bought: which pods go where.
    pub fn without_pool(&self, seed: u64, total: &mut Total) -> anyhow::Result<()> {
        let world = generate::world(seed, false);
        let before = self.stage.play(&world)?;
        let plan = self.plan(&before, &format!("{seed}-before"))?;
        self.stage.schedule()?;
        let end = self.stage.settled(&world, 3)?;
        let (end, mut faults) = self.left_over(&world, end, &format!("{seed}-end"))?;
        faults.extend(self.refused_by_the_planner(&before, &end, seed)?);
        self.stage.clear()?;
        let ours = placements(&plan);
        if !ours.is_empty() {
            faults.extend(self.refused_by_kube_scheduler(&world, &[], &ours)?);
        }
        let theirs = end.placed();
        let (only_theirs, only_ours) = (beyond(&theirs, &ours), beyond(&ours, &theirs));
        // Counted, and no fault: the model scores nodes by an older rule than 1.36.4 on purpose
        // (core/src/kube_scheduler.rs), and plans are chosen by what becomes of nodes bought.
        judged(&plan, only_ours, &mut total.verdicts[0]);
        println!(
            "world {seed}: {} pods wait, kube-scheduler bound {}, planned {}, {only_theirs} and \
            {only_ours} alone, {} of 10{}",
            world.pending.len(),
            theirs.len(),
            ours.len(),
            survived(&plan),
            if faults.is_empty() { "" } else { ", FAULTS" }
        );
        total.worlds += 1;
        total.equal += u64::from(only_ours + only_theirs == 0);
        total.asked += world.pending.len();
        total.bound += theirs.len();
        total.planned += ours.len();
        total.alone.0 += only_theirs;
        total.alone.1 += only_ours;
        self.keep_or_remove(seed, &["before", "end"], faults, None, total)
    }

    /// kube-scheduler has left pods over, and the nodes of a plan are made for them.
    pub fn with_pool(&self, seed: u64, total: &mut Total) -> anyhow::Result<()> {
        let world = generate::world(seed, true);
        self.stage.play(&world)?;
        self.stage.schedule()?;
        let end = self.stage.settled(&world, 3)?;
        let (before, mut faults) = self.left_over(&world, end, &format!("{seed}-without"))?;
        let mut objects = before.objects.clone();
        objects.extend(world.pools.clone());
        // Every other plan is the first-fit plan: the model is more often certain that it fails.
        let effort = ["normal", "none"][(seed % 2) as usize];
        let plan = self.plan_with(&objects, &format!("{seed}-bought"), effort)?;
        let bought = stage::nodes_of(&plan, &world, &self.types()?);
        let files = ["bought", "without", "full"];
        if bought.is_empty() {
            self.stage.clear()?;
            return self.keep_or_remove(seed, &files, faults, None, total);
        }
        self.stage.buy(&bought)?;
        let planned = placements(&plan);
        let beyond_plan = |end: &End| {
            let after = end.placed();
            let is_new = |one: &Bound| !before.placed().iter().any(|old| old.pod == one.pod);
            let new: Vec<Bound> = after.into_iter().filter(is_new).collect();
            beyond(&planned, &new)
        };
        let mut end = self.stage.settled(&world, 4)?;
        if beyond_plan(&end) > 0 {
            // Pods are tried again after a back-off of 10 s at most.
            end = self.stage.settled(&world, 12)?;
        }
        let (end, more) = self.left_over(&world, end, &format!("{seed}-full"))?;
        faults.extend(more);
        let over = beyond_plan(&end);
        self.stage.clear()?;
        if over > 0 {
            let old = before.placed();
            faults.extend(self.refused_by_kube_scheduler(
                &world,
                &bought,
                &[old, planned].concat(),
            )?);
        }
        let wrong = judged(&plan, over, &mut total.verdicts[1]);
        println!(
            "world {seed}: {} nodes bought with effort {effort}, {} of 10, {over} pods left over{}",
            bought.len(),
            survived(&plan),
            if faults.is_empty() { "" } else { ", FAULTS" }
        );
        self.keep_or_remove(seed, &files, faults, wrong, total)
    }

    /// Nodes that exist have no room to spare: what the model says of the plan is held against what
    /// happens.
    pub fn without_slack(&self, seed: u64, total: &mut Total) -> anyhow::Result<()> {
        let world = generate::tight(seed);
        let before = self.stage.play(&world)?;
        let plan = self.plan(&before, &format!("{seed}-tight"))?;
        self.stage.schedule()?;
        let end = self.stage.settled(&world, 3)?;
        self.stage.clear()?;
        let over = beyond(&placements(&plan), &end.placed());
        let wrong = judged(&plan, over, &mut total.verdicts[2]);
        println!(
            "world {seed}: no slack, {} of 10, {over} pods left over",
            survived(&plan)
        );
        self.keep_or_remove(seed, &["tight"], Vec::new(), wrong, total)
    }

    /// Pods that kube-scheduler has left over and that the planner has a place for.
    fn left_over(&self, world: &World, end: End, name: &str) -> anyhow::Result<(End, Vec<String>)> {
        let mut end = end;
        let mut plan = self.plan(&end.objects, name)?;
        if !placements(&plan).is_empty() {
            // Pods are tried again after a back-off of 10 s at most.
            end = self.stage.settled(world, 12)?;
            plan = self.plan(&end.objects, name)?;
        }
        if !placements(&plan).is_empty() {
            // A pod whose event was missed while it was tried waits for five minutes.
            self.stage.schedule_anew()?;
            end = self.stage.settled(world, 4)?;
            plan = self.plan(&end.objects, name)?;
        }
        let fault =
            |one: &Bound| format!("{} has a place on {} only as planned", one.pod, one.node);
        Ok((end, placements(&plan).iter().map(fault).collect()))
    }

    /// Pods that kube-scheduler has placed and that the planner or its model of kube-scheduler does
    /// not place there, however late they are asked. Pods are bound side by side, so that the order
    /// of their bindings is only near the order in which they were given their nodes.
    fn refused_by_the_planner(
        &self,
        before: &[Value],
        end: &End,
        seed: u64,
    ) -> anyhow::Result<Vec<String>> {
        let mut earlier: Vec<Bound> = Vec::new();
        let mut left: Vec<Bound> = end.placed();
        let mut faults = Vec::new();
        'next: while !left.is_empty() {
            faults.clear();
            for at in 0..left.len() {
                let one = &left[at];
                let name = format!("{seed}-{}", one.pod.replace('/', "-"));
                let answer = self.plan(&then(before, end, &earlier, one), &name)?;
                let is_placed = matches!(placements(&answer).as_slice(),
                    [only] if only.pod == one.pod && only.node == one.node);
                if is_placed && survived(&answer) == 10 {
                    std::fs::remove_file(self.file(&name))?;
                    earlier.push(left.remove(at));
                    continue 'next;
                }
                let why = match is_placed {
                    true => "the model refuses it".to_owned(),
                    false => answer["errors"][&one.pod]["message"].to_string(),
                };
                faults.push(format!(
                    "{} went to {} only on the control plane: {why}",
                    one.pod, one.node
                ));
            }
            break;
        }
        Ok(if left.is_empty() { Vec::new() } else { faults })
    }

    /// Pods that a plan places and that kube-scheduler does not place there, in any order: those that
    /// are refused come first when it is asked again.
    fn refused_by_kube_scheduler(
        &self,
        world: &World,
        bought: &[Value],
        planned: &[Bound],
    ) -> anyhow::Result<Vec<String>> {
        let mut first: Vec<String> = Vec::new();
        loop {
            let refused = self.stage.replay(world, bought, planned, &first)?;
            self.stage.clear()?;
            let is_new = |(one, _): &(Bound, String)| !first.contains(&one.pod);
            if !refused.iter().any(is_new) {
                let fault = |(one, why): &(Bound, String)| {
                    format!("kube-scheduler refuses {} on {}: {why}", one.pod, one.node)
                };
                return Ok(refused.iter().map(fault).collect());
            }
            first.extend(refused.into_iter().map(|(one, _)| one.pod));
        }
    }

    /// Counts what was found. Files of a world that is in order go; beside the others is how to
    /// get them again.
    fn keep_or_remove(
        &self,
        seed: u64,
        files: &[&str],
        faults: Vec<String>,
        wrong: Option<String>,
        total: &mut Total,
    ) -> anyhow::Result<()> {
        let found: Vec<&String> = faults.iter().chain(&wrong).collect();
        if found.is_empty() {
            for file in files {
                let file = self.file(&format!("{seed}-{file}"));
                if file.exists() {
                    std::fs::remove_file(file)?;
                }
            }
            return Ok(());
        }
        let mut text = format!(
            "cargo xtask bench scheduler-differential --worlds 1 --first {seed}\nfiles: {seed}-{}\n",
            files.join(&format!(" {seed}-"))
        );
        for line in found {
            println!("    {line}");
            text += &format!("{line}\n");
        }
        std::fs::write(self.keep.join(format!("{seed}-{}.txt", files[0])), text)?;
        let with_seed = |text: String| format!("world {seed}: {text}");
        total.faults.extend(faults.into_iter().map(with_seed));
        total.wrong.extend(wrong.into_iter().map(with_seed));
        Ok(())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.keep.join(format!("{name}.json"))
    }

    /// What `longshore plan` makes of objects. Their file stays where it may have to be looked at.
    fn plan(&self, objects: &[Value], name: &str) -> anyhow::Result<Value> {
        self.plan_with(objects, name, "normal")
    }

    fn plan_with(&self, objects: &[Value], name: &str, effort: &str) -> anyhow::Result<Value> {
        let file = self.file(name);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        std::fs::write(&file, list.to_string())?;
        let mut command = Command::new(self.longshore);
        command
            .args([
                "plan",
                "--output",
                "json",
                "--improve",
                effort,
                "--snapshot",
            ])
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

/// In how many of ten runs the model of kube-scheduler placed every pod of a plan.
fn survived(plan: &Value) -> u64 {
    plan["survives"]["survived"].as_u64().unwrap_or(0)
}

/// Counts what became of a plan. Returns what the model was certain of, and wrong.
fn judged(plan: &Value, over: usize, verdicts: &mut [Verdict; 3]) -> Option<String> {
    let survived = survived(plan);
    let (row, is_wrong) = match survived {
        10 => (0, over > 0),
        0 => (2, over == 0),
        _ => (1, false),
    };
    verdicts[row].0 += u64::from(over > 0);
    verdicts[row].1 += 1;
    is_wrong.then(|| format!("{survived} of 10, and {over} pods were left over"))
}

/// How many pods one side has placed beyond the other. Pods of one workload stand for each other.
fn beyond(one: &[Bound], other: &[Bound]) -> usize {
    let mut counts: BTreeMap<&str, isize> = BTreeMap::new();
    for (all, by) in [(one, 1), (other, -1)] {
        for bound in all {
            let workload = bound.pod.rsplit_once('-').map_or("", |(name, _)| name);
            *counts.entry(workload).or_default() += by;
        }
    }
    counts
        .values()
        .map(|count| count.max(&0).unsigned_abs())
        .sum()
}

/// The pods of a plan with their nodes, those to be bought by the names that they will have.
fn placements(plan: &Value) -> Vec<Bound> {
    let existing = plan["existing"].as_object().into_iter().flatten();
    let existing = existing.map(|(node, pods)| (node.clone(), pods));
    let claims = plan["claims"].as_array().into_iter().flatten().enumerate();
    let claims = claims.map(|(at, claim)| (stage::bought_name(at), &claim["pods"]));
    let mut all = Vec::new();
    for (node, pods) in existing.chain(claims) {
        let pods = pods.as_array().into_iter().flatten();
        all.extend(pods.filter_map(Value::as_str).map(|pod| Bound {
            pod: pod.to_owned(),
            node: node.clone(),
        }));
    }
    all
}

/// The world as it was when a pod was bound, with room on the node that it was bound to alone.
fn then(before: &[Value], end: &End, earlier: &[Bound], bound: &Bound) -> Vec<Value> {
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

//! Which pods get a node is Karpenter's question as much as ours: on small clusters from seeds, what is placed must be
//! what Karpenter's own core placed when it was asked.
//!
//! Karpenter's answers are recorded in `differential/answers.tsv` (by `examples/differential.rs`, with 1.14.1). What it
//! places only sometimes is left open. Seeds with a known difference stand in `differential/exceptions.tsv` with a
//! class, and `differential/EXCEPTIONS.md` explains every class. An exception that is no longer needed fails too.

#[path = "differential/generate.rs"]
mod generate;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use longshore_api::manifests::Reader;
use longshore_core::plan::{Effort, Plan};
use longshore_core::planner::{self, Options};
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use serde_json::Value;

const ANSWERS: &str = include_str!("differential/answers.tsv");
const EXCEPTIONS: &str = include_str!("differential/exceptions.tsv");
const CLASSES: &str = include_str!("differential/EXCEPTIONS.md");

/// Names of pods.
type Pods = BTreeSet<String>;

/// What Karpenter did with the pods of a seed; all others it left alone or refused every time.
struct Answer {
    seed: u64,
    always: Pods,
    sometimes: Pods,
}

#[test]
fn the_same_pods_are_placed_as_by_karpenter() {
    let exceptions = exceptions();
    let (mut report, mut needed) = (String::new(), BTreeSet::new());
    for answer in answers() {
        let told = differences(&answer);
        if told.is_empty() {
            continue;
        }
        needed.insert(answer.seed);
        if !exceptions.contains_key(&answer.seed) {
            report.push_str(&told);
        }
    }
    for (seed, class) in exceptions.iter().filter(|(seed, _)| !needed.contains(*seed)) {
        _ = writeln!(report, "seed {seed}: the exception {class} is no longer needed, remove it");
    }
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn every_class_of_exceptions_is_explained() {
    for (seed, class) in exceptions() {
        assert!(CLASSES.contains(&format!("## {class}\n")), "seed {seed}: EXCEPTIONS.md has no heading `## {class}`");
    }
}

/// What is different, in lines, ending with how to look at it; empty if nothing is. The floor is compared with
/// Karpenter; more effort must place as many pods as the floor, the same ones unless it places more.
fn differences(answer: &Answer) -> String {
    let snapshot = snapshot(answer.seed);
    let seed = answer.seed;
    let mut lines = String::new();
    let mut plan = |effort| match planner::plan(&snapshot, &ByPrice, Options { effort, seed }) {
        Ok(plan) => Some(placed(&snapshot, &plan)),
        Err(rejected) => {
            _ = writeln!(lines, "seed {seed} (effort {effort:?}): rejected: {:?}", rejected.violations);
            None
        }
    };
    if let (Some(floor), Some(normal)) = (plan(Effort::None), plan(Effort::Normal)) {
        let theirs: Vec<_> = answer.always.difference(&floor).map(String::as_str).collect();
        let only_ours = floor.iter().filter(|pod| !answer.always.contains(*pod) && !answer.sometimes.contains(*pod));
        let only_ours: Vec<_> = only_ours.map(String::as_str).collect();
        for (pods, who) in
            [(theirs, "Karpenter places {} and we do not"), (only_ours, "we place {} and Karpenter does not")]
        {
            if !pods.is_empty() {
                _ = writeln!(lines, "seed {seed}: {}", who.replace("{}", &pods.join(",")));
            }
        }
        if normal.len() < floor.len() || (normal.len() == floor.len() && normal != floor) {
            _ = writeln!(lines, "seed {seed}: the floor places {floor:?}, effort makes it {normal:?}");
        }
    }
    if !lines.is_empty() {
        _ = writeln!(lines, "  cargo run -p longshore --example differential -- dump {seed} /tmp/seed-{seed}");
    }
    lines
}

/// The cluster of a seed, through the same door as a user's files.
fn snapshot(seed: u64) -> Snapshot {
    let (cluster, types) = generate::cluster(seed);
    let mut reader = Reader::new();
    reader.read("cluster.json", &bytes(&cluster));
    let (mut world, _) = reader.finish();
    let (catalogue, problems) = longshore_kwok::catalogue::parse("types.json", &bytes(&types), &mut world.names);
    assert!(problems.list.is_empty(), "seed {seed}: {problems}");
    world.catalogue = catalogue;
    world.now = NOW;
    Snapshot::new(Arc::new(world))
}

/// When every object was made, which is when plans are made: 2026-11-01T00:00:00Z.
const NOW: i64 = 1_793_491_200;

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn placed(snapshot: &Snapshot, plan: &Plan) -> Pods {
    let claims = plan.claims.iter().flat_map(|claim| &claim.pods);
    let existing = plan.existing.iter().flat_map(|placement| &placement.pods);
    claims.chain(existing).map(|pod| snapshot.world.pods[pod.0 as usize].name.to_string()).collect()
}

fn answers() -> impl Iterator<Item = Answer> {
    ANSWERS.lines().map(|line| {
        let mut fields = line.split('\t');
        let seed = fields.next().and_then(|seed| seed.parse().ok());
        let mut pods =
            fields.skip(1).map(|list| list.split(',').filter(|pod| !pod.is_empty()).map(str::to_owned).collect());
        match (seed, pods.next(), pods.next()) {
            (Some(seed), Some(always), Some(sometimes)) => Answer { seed, always, sometimes },
            _ => panic!("answers.tsv: cannot read {line:?}"),
        }
    })
}

/// Class by seed.
fn exceptions() -> BTreeMap<u64, &'static str> {
    let line = |line: &'static str| {
        let (seed, class) = line.split_once('\t').unwrap_or((line, ""));
        (seed.parse().unwrap_or_else(|_| panic!("exceptions.tsv: cannot read {line:?}")), class)
    };
    EXCEPTIONS.lines().map(line).collect()
}

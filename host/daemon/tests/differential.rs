//! Which pods get a node is Karpenter's question as much as ours: on small clusters from seeds,
//! what is placed must be what Karpenter's own core placed when it was asked.
//!
//! Karpenter's answers are recorded in `differential/answers.tsv` (by `examples/differential.rs`).
//! What it places only sometimes is left open. Known differences stand in
//! `differential/exceptions.tsv`: seed, class, which of the two places the pods, and the pods;
//! `differential/EXCEPTIONS.md` explains every class. Another pod, another direction, or a pod that
//! is no difference any more fails.

#[path = "differential/objects.rs"]
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use longshore_api::manifests::Reader;
use longshore_core::plan::{Effort, Plan, Unfit};
use longshore_core::planner::{self, PlanOptions};
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

/// Which of the two places a pod that the other leaves over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Places {
    Longshore,
    Karpenter,
}

/// Pods of a seed that one places and the other does not.
type Differences = BTreeSet<(u64, Places, String)>;

#[test]
fn the_same_pods_are_placed_as_by_karpenter() {
    let known: Differences = exceptions().into_keys().collect();
    let (mut report, mut found) = (String::new(), Differences::new());
    for answer in answers() {
        report += &differences(&answer, &mut found);
    }
    for (seed, places, pod) in found.difference(&known) {
        _ = writeln!(
            report,
            "seed {seed}: {places:?} places {pod} and the other does not"
        );
        _ = writeln!(
            report,
            "  cargo run -p longshore --example differential -- dump {seed} /tmp/seed-{seed}"
        );
    }
    for (seed, places, pod) in known.difference(&found) {
        _ = writeln!(
            report,
            "seed {seed}: it is not {places:?} alone that places {pod}: remove the exception"
        );
    }
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn every_class_of_exceptions_is_explained_and_used() {
    let used: BTreeSet<&str> = exceptions().into_values().collect();
    let explained: BTreeSet<&str> = CLASSES
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    assert_eq!(
        used, explained,
        "left: classes in exceptions.tsv, right: headings of EXCEPTIONS.md"
    );
}

/// Adds pods that only one of the two places, and reports what is wrong independently of Karpenter.
/// First-fit is compared with Karpenter; more effort must place as many pods as first-fit, the same
/// ones unless it places more.
fn differences(answer: &Answer, found: &mut Differences) -> String {
    let snapshot = snapshot(answer.seed);
    let seed = answer.seed;
    let mut lines = String::new();
    let mut plan = |effort| match planner::plan(&snapshot, &ByPrice, PlanOptions { effort, seed }) {
        Ok(plan) => {
            for unplaced in &plan.unplaced {
                if unplaced
                    .refusals
                    .iter()
                    .any(|refusal| refusal.unfit == Unfit::Unexplained)
                {
                    let pod = &snapshot.world.pods[unplaced.pod.0 as usize].name;
                    _ = writeln!(
                        lines,
                        "seed {seed} (effort {effort:?}): nothing explains why {pod} is left over"
                    );
                }
            }
            let unrealised = |refusal: &_| matches!(refusal, Unfit::Unrealised { .. });
            let refusals = plan.unplaced.iter().flat_map(|one| &one.refusals);
            let runs_refuse = refusals.into_iter().any(|one| unrealised(&one.unfit));
            Some((placed(&snapshot, &plan), runs_refuse))
        }
        Err(rejected) => {
            _ = writeln!(
                lines,
                "seed {seed} (effort {effort:?}): rejected: {:?}",
                rejected.violations
            );
            None
        }
    };
    if let (Some((first, _)), Some((normal, runs_refuse))) =
        (plan(Effort::None), plan(Effort::Normal))
    {
        let theirs = answer
            .always
            .difference(&first)
            .map(|pod| (seed, Places::Karpenter, pod.clone()));
        let ours = first
            .iter()
            .filter(|pod| !answer.always.contains(*pod) && !answer.sometimes.contains(*pod));
        found.extend(theirs.chain(ours.map(|pod| (seed, Places::Longshore, pod.clone()))));
        // Without effort the model of kube-scheduler is not asked. A pod that it binds in no run is
        // not bought for, and others may get its room.
        if !runs_refuse
            && (normal.len() < first.len() || (normal.len() == first.len() && normal != first))
        {
            _ = writeln!(
                lines,
                "seed {seed}: first-fit places {first:?}, effort makes it {normal:?}"
            );
        }
    }
    lines
}

/// The cluster of a seed, through the same reader as a user's files.
fn snapshot(seed: u64) -> Snapshot {
    let (cluster, types) = crate::generate::cluster(seed);
    let mut reader = Reader::new();
    reader.read("cluster.json", &bytes(&cluster));
    let (mut world, _) = reader.finish();
    let (catalogue, problems) =
        longshore_kwok::catalogue::parse("types.json", &bytes(&types), &mut world.names);
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
    let existing = plan
        .on_existing_nodes
        .iter()
        .flat_map(|placement| &placement.pods);
    claims
        .chain(existing)
        .map(|pod| snapshot.world.pods[pod.0 as usize].name.to_string())
        .collect()
}

fn answers() -> impl Iterator<Item = Answer> {
    ANSWERS.lines().map(|line| {
        let mut fields = line.split('\t');
        let seed = fields.next().and_then(|seed| seed.parse().ok());
        let mut pods = fields.skip(1).map(|list| {
            list.split(',')
                .filter(|pod| !pod.is_empty())
                .map(str::to_owned)
                .collect()
        });
        match (seed, pods.next(), pods.next()) {
            (Some(seed), Some(always), Some(sometimes)) => Answer {
                seed,
                always,
                sometimes,
            },
            _ => panic!("answers.tsv: cannot read {line:?}"),
        }
    })
}

/// Known differences, each with its class.
fn exceptions() -> BTreeMap<(u64, Places, String), &'static str> {
    let mut known = BTreeMap::new();
    for line in EXCEPTIONS.lines() {
        let fields: Vec<&'static str> = line.split('\t').collect();
        let [seed, class, places, pods] = fields[..] else {
            panic!("exceptions.tsv: cannot read {line:?}")
        };
        let places = match places {
            "longshore" => Places::Longshore,
            "karpenter" => Places::Karpenter,
            _ => panic!("exceptions.tsv: {line:?} must say longshore or karpenter"),
        };
        let seed = seed
            .parse()
            .unwrap_or_else(|_| panic!("exceptions.tsv: cannot read {line:?}"));
        for pod in pods.split(',') {
            let twice = known.insert((seed, places, pod.to_owned()), class);
            assert!(
                twice.is_none(),
                "exceptions.tsv: {pod} of seed {seed} stands there twice"
            );
        }
    }
    known
}

//! What Karpenter's own core would do with small clusters, recorded, beside what we would do.
//!
//! `disruption_vectors/answers.jsonl` (by `examples/disruption_vectors.rs`) has, by method, how many
//! candidates Karpenter has, and its commands. For each seed: we have as many candidates; the nodes
//! of each command may go; no node goes that is no candidate; `check` passes what we propose; and
//! what we carry out on paper saves at least as much as Karpenter's largest command. Moved pods cost
//! nothing, so that savings alone count, as in Karpenter.
//!
//! Known differences stand in `disruption_vectors/exceptions.tsv`: seed, what differs, and the class,
//! which `EXCEPTIONS.md` explains. One that is none any more fails.

#[path = "disruption_vectors/generate.rs"]
mod generate;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use longshore_api::manifests::Reader;
use longshore_core::disrupt::costs::{MoveCost, price_of};
use longshore_core::disrupt::methods::{self, Explain, Round, RoundOptions};
use longshore_core::disrupt::paper::{self, Serial};
use longshore_core::disrupt::proposals;
use longshore_core::disrupt::verdicts::{Candidate, Method, Stays};
use longshore_core::ids::NodeIx;
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;
use serde_json::Value;

const ANSWERS: &str = include_str!("disruption_vectors/answers.jsonl");
const EXCEPTIONS: &str = include_str!("disruption_vectors/exceptions.tsv");
const CLASSES: &str = include_str!("disruption_vectors/EXCEPTIONS.md");

/// Rounding of recorded savings, USD per hour.
const CENT: f64 = 1e-4;

/// What differs, by seed, with words about it.
type Differences = BTreeMap<(u64, String), String>;

#[test]
fn what_karpenter_would_do_is_allowed_and_what_it_must_not_do_is_not_proposed() {
    let known = exceptions();
    let mut found = Differences::new();
    let mut compared = 0;
    for line in ANSWERS.lines() {
        let answer: Value = serde_json::from_str(line).unwrap();
        compare(&answer, &mut found);
        compared += 1;
    }
    assert!(compared >= 1_000, "{compared} vectors");
    let mut report = String::new();
    for ((seed, what), words) in found.iter().filter(|(key, _)| !known.contains_key(*key)) {
        _ = writeln!(report, "{seed}\t{what}\t{words}");
    }
    for (seed, what) in known.keys().filter(|key| !found.contains_key(*key)) {
        _ = writeln!(
            report,
            "{seed}\t{what}: no difference any more, remove the exception"
        );
    }
    assert!(
        report.is_empty(),
        "\n{report}cargo run -p longshore --example disruption_vectors -- dump SEED DIRECTORY\n"
    );
}

#[test]
fn every_class_of_exceptions_is_explained_and_used() {
    let used: BTreeSet<&str> = exceptions().into_values().collect();
    let explained: BTreeSet<&str> = CLASSES
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    assert_eq!(used, explained);
}

fn exceptions() -> BTreeMap<(u64, String), &'static str> {
    let one = |line: &'static str| {
        let mut fields = line.split('\t');
        let seed = fields.next()?.parse().ok()?;
        Some(((seed, fields.next()?.to_owned()), fields.next()?))
    };
    let lines = EXCEPTIONS.lines();
    lines
        .map(|line| one(line).unwrap_or_else(|| panic!("no exception: {line:?}")))
        .collect()
}

/// One round of a method on the cluster of a seed: moved pods cost nothing, so that only savings
/// count, as in Karpenter.
fn asked(snapshot: &Snapshot, method: Method) -> Round {
    let options = RoundOptions {
        move_cost: Some(MoveCost::Amount(0.0)),
        only: Some(method),
        explain: Explain::All,
        ..RoundOptions::default()
    };
    methods::round(snapshot, &ByPrice, options, Stop::never())
}

fn compare(answer: &Value, found: &mut Differences) {
    let seed = answer["seed"].as_u64().unwrap();
    let snapshot = snapshot(seed);
    let name = |node: NodeIx| {
        snapshot
            .world
            .names
            .text(snapshot.nodes[node.0 as usize].name)
    };
    let mut differs = |what: String, words: String| _ = found.insert((seed, what), words);
    let mut best = 0.0_f64;
    // The clusters have no static NodePools and no unhealthy nodes.
    let recorded = [
        Method::Emptiness,
        Method::Drift,
        Method::MultiNode,
        Method::SingleNode,
    ];
    for method in recorded {
        let theirs = &answer[method.name()];
        assert!(
            theirs.is_object(),
            "seed {seed}: no answer for {}",
            method.name()
        );
        let round = asked(&snapshot, method);
        if let Err(violations) = proposals::check(&snapshot, &round.now()) {
            differs(
                format!("{} check", method.name()),
                format!("{violations:?}"),
            );
        }
        let number = Method::ALL
            .iter()
            .position(|other| *other == method)
            .unwrap();
        let candidates: BTreeSet<&str> = (0..snapshot.nodes.len())
            .filter(|&at| is_candidate(&round.candidates[at], number))
            .map(|at| name(NodeIx(at as u32)))
            .collect();
        if theirs["candidates"] != candidates.len() {
            let words = format!("{} of theirs, {candidates:?} of ours", theirs["candidates"]);
            differs(format!("{} candidates", method.name()), words);
        }
        let mut most: f64 = 0.0;
        for command in theirs["commands"].as_array().into_iter().flatten() {
            most = most.max(command["savings"].as_f64().unwrap());
            for node in command["nodes"].as_array().into_iter().flatten() {
                let node = node.as_str().unwrap();
                if !candidates.contains(node) {
                    let words = format!("{:?}", refusal(&snapshot, &round, number, node));
                    differs(format!("{} {node} goes", method.name()), words);
                }
            }
        }
        let ours = round.now();
        for node in ours.iter().flat_map(|proposal| &proposal.nodes) {
            assert!(
                candidates.contains(name(*node)),
                "seed {seed}: {}",
                name(*node)
            );
        }
        if method == Method::Drift {
            if ours.is_empty() && most != 0.0 {
                let words = format!("we replace nothing: {}", theirs["commands"]);
                differs("drift commands".to_owned(), words);
            }
            continue;
        }
        best = best.max(most);
    }
    let saved = converged(snapshot);
    if saved < best - CENT {
        let words = format!("they save {best:.4}, we {saved:.4}: {answer}");
        differs("savings".to_owned(), words);
    }
}

/// What a cluster saves until nothing is left to do, USD per hour.
fn converged(mut snapshot: Snapshot) -> f64 {
    let cost = |snapshot: &Snapshot| {
        let prices = snapshot
            .nodes
            .iter()
            .filter_map(|node| price_of(snapshot, node));
        prices.sum::<f64>()
    };
    let before = cost(&snapshot);
    let mut serial = Serial::default();
    for _ in 0..100 {
        let options = RoundOptions {
            move_cost: Some(MoveCost::Amount(0.0)),
            ..RoundOptions::default()
        };
        let round = methods::round(&snapshot, &ByPrice, options, Stop::never());
        let now = round.now();
        if now.is_empty() {
            return before - cost(&snapshot);
        }
        let (world, _) = paper::carry_out(&snapshot, &now, &mut serial);
        snapshot = Snapshot::new(world.into());
    }
    panic!("a hundred rounds and no end");
}

/// Whether the rules let a method look at a node. A NodePool's budget counts later.
fn is_candidate(candidate: &Candidate, method: usize) -> bool {
    matches!(
        candidate.refusals[method],
        None | Some(Stays::NodePoolBudget(_) | Stays::NotModelled(_))
    )
}

fn refusal(snapshot: &Snapshot, round: &Round, method: usize, node: &str) -> Option<Stays> {
    let at = snapshot
        .nodes
        .iter()
        .position(|other| snapshot.world.names.text(other.name) == node)?;
    round.candidates[at].refusals[method].clone()
}

fn snapshot(seed: u64) -> Snapshot {
    let (cluster, types) = generate::cluster(seed);
    let mut reader = Reader::new();
    reader.read("cluster.json", cluster.to_string().as_bytes());
    let (mut world, problems) = reader.finish();
    assert!(problems.list.is_empty(), "seed {seed}: {problems}");
    let types = types.to_string();
    let (catalogue, problems) =
        longshore_kwok::catalogue::parse("types.json", types.as_bytes(), &mut world.names);
    assert!(problems.list.is_empty(), "seed {seed}: {problems}");
    world.catalogue = catalogue;
    world.now = NOW;
    Snapshot::new(Arc::new(world))
}

/// Long after every object was made: 2026-11-01T00:00:00Z.
const NOW: i64 = 1_793_491_200;

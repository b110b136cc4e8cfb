//! How long it takes to search a whole cluster for nodes that are worth removing, what is found, and
//! whether it keeps every rule; then the same for what is left, until nothing is found. At the end
//! some workloads shrink, and the sweep after such a change is measured.
//! `cargo bench -p longshore-core --bench disrupt -- CLUSTER.json TYPES.json [USD] [tries] [no-budgets]`.
#![allow(clippy::print_stdout, missing_docs)]

mod common;

use std::sync::Arc;

use longshore_core::disrupt::budgets::Budgets;
use longshore_core::disrupt::compile::NodeTerms;
use longshore_core::disrupt::compiled::Compiled;
use longshore_core::disrupt::costs::{self, MoveCost, price_of};
use longshore_core::disrupt::methods::{self, Round, RoundOptions};
use longshore_core::disrupt::paper::{self, Serial};
use longshore_core::disrupt::proposals::{self, Proposal};
use longshore_core::disrupt::search::{self, Effort};
use longshore_core::disrupt::verdicts::{self, Method};
use longshore_core::model::Records;
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;

/// Rounds after which a cluster that still finds something is given up.
const MAX_ROUNDS: usize = 12;
/// How often a sweep is measured: the clock of CPU time is coarse.
const SWEEPS: u32 = 50;
/// One workload of so many loses every second pod before the sweep.
const SHRINKS: u32 = 20;

fn main() {
    let words = common::words();
    let [cluster, types, rest @ ..] = words.as_slice() else {
        println!("disrupt: no cluster and no instance types were given, nothing is measured");
        return;
    };
    let number = |at: usize| rest.get(at).and_then(|word| word.parse::<f64>().ok());
    let mut objects = common::objects(cluster, types);
    if rest.get(2).is_some_and(|word| word == "no-budgets") {
        objects.budgets = Records::default();
    }
    let mut effort = Effort::default();
    effort.tries = number(1).map_or(effort.tries, |tries| tries as usize);
    let options = RoundOptions {
        move_cost: number(0).map(MoveCost::Amount),
        effort,
        ..RoundOptions::default()
    };
    let after = converge(Snapshot::new(Arc::new(objects)), options);
    sweep(&after, options);
    println!("peak memory {}", peak_memory());
}

/// The cluster when nothing more is found.
fn converge(mut snapshot: Snapshot, options: RoundOptions<'_>) -> Snapshot {
    let mut serial = Serial::default();
    let mut moved = 0;
    for round in 1..=MAX_ROUNDS {
        let begun = cpu();
        let found = methods::round(&snapshot, &ByPrice, options, Stop::never());
        let seconds = cpu() - begun;
        let now = found.now();
        let begun = cpu();
        let wrong = proposals::check(&snapshot, &now).err().unwrap_or_default();
        let checking = cpu() - begun;
        let (after, _) = paper::carry_out(&snapshot, &now, &mut serial);
        let after = Snapshot::new(Arc::new(after));
        moved += now.iter().map(|of| of.moves.len()).sum::<usize>();
        println!(
            "round {round}: {} to {} nodes, {:.2} to {:.2} USD/h, {moved} pods moved so far, \
             {seconds:.3} s, checked in {checking:.3} s",
            snapshot.nodes.len(),
            after.nodes.len(),
            cost(&snapshot),
            cost(&after),
        );
        describe(&found, &now);
        for violation in wrong.iter().take(3) {
            println!("  WRONG: {violation}");
        }
        snapshot = after;
        if now.is_empty() {
            break;
        }
    }
    snapshot
}

fn describe(found: &Round, now: &[Proposal]) {
    let largest = now.iter().map(|of| of.nodes.len()).max().unwrap_or(0);
    println!(
        "  {} proposals of at most {largest} nodes, {} later, {} dropped, bound {:.2}",
        now.len(),
        found.proposals.len() - now.len(),
        found.dropped.len(),
        found.lower_bound.unwrap_or(f64::NAN),
    );
    for dropped in found.dropped.iter().take(2) {
        println!("  dropped {} nodes: {:?}", dropped.nodes.len(), dropped.why);
    }
}

/// Shrinks some workloads and measures what is found by looking at nodes one by one.
fn sweep(snapshot: &Snapshot, options: RoundOptions<'_>) {
    let mut world = (*snapshot.world).clone();
    let mut number = 0u32;
    world.pods.retain(|pod| {
        number += 1;
        let owner = pod.owner.map_or(0, |(_, name)| name.0);
        !owner.is_multiple_of(SHRINKS) || number.is_multiple_of(2)
    });
    let snapshot = Snapshot::new(Arc::new(world));
    let budgets = Budgets::new(&snapshot.world);
    let each = costs::move_costs(&snapshot, options.move_cost);
    let candidates = verdicts::candidates(&snapshot, &budgets);
    let terms: Vec<NodeTerms> = (candidates.iter().zip(&snapshot.nodes))
        .map(|(candidate, node)| NodeTerms {
            removable: candidate.may(Method::MultiNode),
            weight: candidate.weight,
            move_cost: candidate.weight * node.pool.map_or(0.0, |pool| each[&pool]),
        })
        .collect();
    let begun = cpu();
    let c = Compiled::new(&snapshot, &ByPrice, &terms, &[], options.effort.rounds);
    let compiling = cpu() - begun;
    let whole = search::search(&c, options.effort, Stop::never()).cost;
    let begun = cpu();
    let mut swept = 0.0;
    for _ in 0..SWEEPS {
        swept = search::sweep(&c, options.effort).cost;
    }
    let milliseconds = 1e3 * (cpu() - begun) / f64::from(SWEEPS);
    println!(
        "{} pods less: compiled in {compiling:.3} s, swept in {milliseconds:.2} ms, objective \
         {swept:.2}, of the whole search {whole:.2} USD/h",
        number as usize - snapshot.world.pods.len(),
    );
}

fn cost(snapshot: &Snapshot) -> f64 {
    let nodes = snapshot.nodes.iter();
    nodes.filter_map(|node| price_of(snapshot, node)).sum()
}

/// CPU time of this thread, seconds: a busy machine does not add to it.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next();
    first
        .and_then(|n| n.parse::<f64>().ok())
        .unwrap_or(f64::NAN)
        / 1e9
}

fn peak_memory() -> String {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or("unknown".into(), |line| line.trim().to_owned())
}

//! How long it takes to search a whole cluster for nodes that are worth removing, what is found, and
//! whether it keeps every rule; then the same for what is left, until nothing is found.
//! `cargo bench -p longshore-core --bench disrupt -- CLUSTER.json TYPES.json [USD] [tries] [no-budgets]`.
#![allow(clippy::print_stdout, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "a benchmark looks at the clock")]

use std::sync::Arc;
use std::time::Instant;

use longshore_api::manifests::Reader;
use longshore_core::disrupt::costs::{MoveCost, price_of};
use longshore_core::disrupt::methods::{self, Options};
use longshore_core::disrupt::paper::{self, Serial};
use longshore_core::disrupt::proposals;
use longshore_core::disrupt::search::Effort;
use longshore_core::model::Records;
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;

fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let [cluster, types, rest @ ..] = words.as_slice() else {
        println!("disrupt: no cluster and no instance types were given, nothing is measured");
        return;
    };
    let number = |at: usize| rest.get(at).and_then(|word| word.parse::<f64>().ok());
    let read =
        |file: &String| std::fs::read(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut reader = Reader::new();
    reader.read(cluster, &read(cluster));
    let (mut objects, problems) = reader.finish();
    assert!(problems.list.is_empty(), "{problems}");
    objects.catalogue = longshore_kwok::catalogue::parse(types, &read(types), &mut objects.names).0;
    if rest.get(2).is_some_and(|word| word == "no-budgets") {
        objects.budgets = Records::default();
    }
    let mut effort = Effort::default();
    effort.tries = number(1).map_or(effort.tries, |tries| tries as usize);
    let options = Options {
        move_cost: number(0).map(MoveCost::Amount),
        effort,
        ..Options::default()
    };
    let mut snapshot = Snapshot::new(Arc::new(objects));
    let mut serial = Serial::default();
    let mut moved = 0;
    for round in 1.. {
        let cost = |snapshot: &Snapshot| -> f64 {
            let prices = snapshot
                .nodes
                .iter()
                .filter_map(|node| price_of(snapshot, node));
            prices.sum()
        };
        let begun = Instant::now();
        let found = methods::round(&snapshot, &ByPrice, options, Stop::never());
        let seconds = begun.elapsed().as_secs_f64();
        let now = found.now();
        let begun = Instant::now();
        let wrong = proposals::check(&snapshot, &now).err().unwrap_or_default();
        let checking = begun.elapsed().as_secs_f64();
        let (before, nodes) = (cost(&snapshot), snapshot.nodes.len());
        let (after, _) = paper::carry_out(&snapshot, &now, &mut serial);
        snapshot = Snapshot::new(Arc::new(after));
        moved += now
            .iter()
            .map(|proposal| proposal.moves.len())
            .sum::<usize>();
        println!(
            "round {round}: {nodes} to {} nodes, {before:.2} to {:.2} USD/h, {} proposals of at most {} \
             nodes, {} later, {} dropped, {moved} pods moved so far, bound {:.2}, {seconds:.3} s, \
             checked in {checking:.3} s: {} violations {:?} {:?}",
            snapshot.nodes.len(),
            cost(&snapshot),
            now.len(),
            now.iter()
                .map(|proposal| proposal.nodes.len())
                .max()
                .unwrap_or(0),
            found.proposals.len() - now.len(),
            found.dropped.len(),
            found.lower_bound.unwrap_or(f64::NAN),
            wrong.len(),
            wrong
                .iter()
                .take(3)
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            found
                .dropped
                .iter()
                .take(2)
                .map(|dropped| &dropped.why)
                .collect::<Vec<_>>(),
        );
        if now.is_empty() || round == 12 {
            return;
        }
    }
}

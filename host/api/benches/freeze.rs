//! How long a store holds up the thread that folds observations when a round takes its objects, and
//! how long the round then takes to make a world of them: `cargo xtask bench freeze` runs it with
//! the clusters that it has: `cargo bench -p longshore-api --bench freeze -- CLUSTER.json`.
#![allow(clippy::print_stdout, missing_docs)]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark looks at the clock, and ends where its input is wrong"
)]

use std::time::{Duration, Instant};

use longshore_api::manifests::Store;
use serde_json::Value;
use serde_json::value::RawValue;

/// Rounds that are measured.
const ROUNDS: usize = 21;
/// Pods that change after each round has taken its objects, while it still holds them.
const CHANGES: usize = 100;

#[derive(serde::Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

fn main() {
    let file = std::env::args()
        .skip(1)
        .find(|word| !word.starts_with("--"));
    let Some(file) = file else {
        println!("freeze: no cluster was given, nothing is measured");
        return;
    };
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let list: List<'_> = serde_json::from_str(&text).unwrap();
    let mut store = Store::new();
    let mut pods = Vec::new();
    for item in list.items {
        store
            .apply("", "", item.get())
            .unwrap_or_else(|problem| panic!("{problem}"));
        if serde_json::from_str::<Value>(item.get()).unwrap()["kind"] == "Pod" {
            pods.push(item.get());
        }
    }
    let (mut taken, mut folded, mut made) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let begun = Instant::now();
        let frozen = store.freeze();
        taken.push(begun.elapsed());
        let begun = Instant::now();
        for at in 0..CHANGES {
            let pod = pods[(round + at * 997) % pods.len()];
            store
                .apply("", "", pod)
                .unwrap_or_else(|problem| panic!("{problem}"));
        }
        folded.push(begun.elapsed() / CHANGES as u32);
        let begun = Instant::now();
        let world = frozen.world();
        made.push(begun.elapsed());
        drop(world);
    }
    let millis = |mut all: Vec<Duration>| {
        all.sort();
        let of = |at: usize| all[at].as_secs_f64() * 1e3;
        format!("{:.3} ms (at most {:.3})", of(ROUNDS / 2), of(ROUNDS - 1))
    };
    println!(
        "{} objects, {} pods: taken in {}, then one pod is folded in {}, made a world in {}",
        store.count(),
        pods.len(),
        millis(taken),
        millis(folded),
        millis(made),
    );
}

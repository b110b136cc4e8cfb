//! A run for programs.
//!
//! | key | is |
//! |---|---|
//! | `version` | of this format: 1 |
//! | `scenario`, `seed`, `policy`, `begins`, `seconds` | what was run |
//! | `totals.usd`, `nodeHours`, `mostNodes` | money, hours of instances, most at once |
//! | `totals.byCapacityType`, `byNodePool` | the same by name: `usd`, `nodeHours` |
//! | `totals.pendingSeconds` | how long pods waited for a node: `p50`, `p90`, `p99`, `max`, `mean`, `pods`, `still` |
//! | `totals.launches`, `launchesFailed`, `launchesShort` | of these, for want of capacity |
//! | `totals.interruptions`, `machinesLost`, `podsEvicted`, `podsLost` | disruption |
//! | `totals.daemonRestarts`, `requests`, `violations` | the daemon; rules that safety checks saw broken, in words |
//! | `samples` | a moment each: `seconds`, `running`, `pending`, `mostPending`, `usdPerHour`, `podsEvicted` so far, `nodes` (`nodePool`, `capacityType`, `family`, `count`) |
//! | `events` | `seconds`, `kind`, `times`, `words` |
//!
//! Several runs are an array of these.

use serde_json::{Map, Value, json};

use crate::scenario::play::ScenarioOutcome;
use crate::stats::{Money, Note, Sample, Totals};

/// One run, or several as an array.
pub fn json(runs: &[ScenarioOutcome]) -> String {
    let value = match runs {
        [one] => run(one),
        all => all.iter().map(run).collect(),
    };
    let mut text = serde_json::to_string_pretty(&value).unwrap_or_default();
    text.push('\n');
    text
}

fn run(outcome: &ScenarioOutcome) -> Value {
    json!({
        "version": 1,
        "scenario": outcome.name,
        "seed": outcome.seed,
        "policy": outcome.policy,
        "begins": outcome.begins.to_string(),
        "seconds": outcome.totals.time.as_secs(),
        "totals": totals(&outcome.totals),
        "samples": outcome.samples.iter().map(sample).collect::<Vec<_>>(),
        "events": outcome.notes.iter().map(note).collect::<Vec<_>>(),
    })
}

fn totals(totals: &Totals) -> Value {
    let w = &totals.waits;
    json!({
        "usd": totals.all.usd,
        "nodeHours": totals.all.node_hours,
        "mostNodes": totals.most_nodes,
        "byCapacityType": totals.by_capacity.iter().map(money).collect::<Map<_, _>>(),
        "byNodePool": totals.by_pool.iter().map(money).collect::<Map<_, _>>(),
        "pendingSeconds": {
            "p50": w.p50, "p90": w.p90, "p99": w.p99, "max": w.max, "mean": w.mean, "pods": w.pods, "still": w.still,
        },
        "launches": totals.launched,
        "launchesFailed": totals.launches_failed,
        "launchesShort": totals.short,
        "interruptions": totals.interruptions,
        "machinesLost": totals.taken_back,
        "podsEvicted": totals.evicted,
        "podsLost": totals.lost,
        "daemonRestarts": totals.restarts,
        "requests": totals.requests,
        "violations": totals.violations,
    })
}

fn money((name, money): (&String, &Money)) -> (String, Value) {
    (
        name.clone(),
        json!({"usd": money.usd, "nodeHours": money.node_hours}),
    )
}

fn sample(sample: &Sample) -> Value {
    let nodes: Vec<Value> = sample
        .nodes
        .iter()
        .map(|(kind, count)| {
            json!({"nodePool": kind.pool, "capacityType": kind.capacity_type, "family": kind.family, "count": count})
        })
        .collect();
    json!({
        "seconds": sample.at.as_secs(), "running": sample.running, "pending": sample.pending,
        "mostPending": sample.most_pending, "usdPerHour": sample.usd_per_hour, "podsEvicted": sample.evicted,
        "nodes": nodes,
    })
}

fn note(note: &Note) -> Value {
    json!({"seconds": note.at.as_secs(), "kind": note.what.word(), "times": note.times, "words": note.words})
}

//! Collects samples and notes into rows of a timeline.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::scenario::play::ScenarioOutcome;
use crate::stats::{Note, Sample, What};

/// A stretch of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Its end, since the beginning.
    pub at: Duration,
    /// Pods that run, at its end.
    pub running: usize,
    /// Most pods without a node at once.
    pub pending: usize,
    /// Instances at its end.
    pub nodes: usize,
    pub spot: usize,
    /// On average.
    pub usd_per_hour: f64,
    pub notes: Vec<String>,
}

/// The rows of a run.
pub fn rows(outcome: &ScenarioOutcome) -> Vec<Row> {
    let mut rows = Vec::new();
    let end = outcome.totals.time;
    let mut from = Duration::ZERO;
    while from < end {
        let to = (from + outcome.step).min(end);
        let inside = |at: Duration| from < at && at <= to || at.is_zero() && from.is_zero();
        let samples: Vec<&Sample> = outcome
            .samples
            .iter()
            .filter(|sample| inside(sample.at))
            .collect();
        let notes = outcome.notes.iter().filter(|note| inside(note.at));
        rows.push(row(to, &samples, said(notes)));
        from = to;
    }
    rows
}

fn row(at: Duration, samples: &[&Sample], notes: Vec<String>) -> Row {
    let mut row = Row {
        at,
        notes,
        ..Row::default()
    };
    if let Some(last) = samples.last() {
        (row.running, row.nodes) = (last.running, last.all_nodes());
        row.spot = last
            .nodes
            .iter()
            .filter(|(kind, _)| kind.capacity_type == "spot")
            .map(|(_, n)| n)
            .sum();
        row.pending = samples
            .iter()
            .map(|sample| sample.most_pending)
            .max()
            .unwrap_or(0);
        row.usd_per_hour = samples
            .iter()
            .map(|sample| sample.usd_per_hour)
            .sum::<f64>()
            / samples.len() as f64;
    }
    row
}

/// Notes in words: what is counted is summed up, the rest said once each.
fn said<'a>(notes: impl Iterator<Item = &'a Note>) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut counted: BTreeMap<What, (u64, &str)> = BTreeMap::new();
    let mut repeated: BTreeMap<&str, usize> = BTreeMap::new();
    for note in notes {
        match note.what {
            What::Interruption | What::Loss | What::Launch => {
                let sum = counted.entry(note.what).or_insert((0, &note.words));
                sum.0 += note.times;
            }
            _ => match repeated.get(note.words.as_str()) {
                Some(_) => *repeated.entry(&note.words).or_default() += 1,
                None => {
                    repeated.insert(&note.words, 1);
                    words.push(note.words.clone());
                }
            },
        }
    }
    for word in &mut words {
        if let Some(times) = repeated.get(word.as_str()).filter(|times| **times > 1) {
            *word = format!("{word} ({times} times)");
        }
    }
    words.extend(counted.into_values().map(|(times, what)| match times {
        1 => format!("1 {}", what.replacen("nodes", "node", 1).replacen("launches", "launch", 1)),
        _ => format!("{times} {what}"),
    }));
    words
}

//! Runs of one scenario side by side: the cost and the waiting pods under another policy.

use super::rows::rows;
use super::{moment, seconds};
use crate::scenario::acts;
use crate::scenario::play::ScenarioOutcome;
use crate::stats::Totals;

/// Columns: the first run, and each other with its difference.
pub fn compare(runs: &[ScenarioOutcome]) -> String {
    let Some(first) = runs.first() else {
        return String::new();
    };
    let mut text = format!(
        "{}: {}, seed {}\n\n",
        first.name,
        acts::text(first.totals.time),
        first.seed
    );
    text += &totals(runs);
    text.push('\n');
    text += &timeline(runs);
    text
}

/// A line of the table: what it is, and the number of a run with its digits.
type Line = (&'static str, fn(&Totals) -> f64, Form);

#[derive(Clone, Copy)]
enum Form {
    Usd,
    Rate,
    Hours,
    Count,
    Time,
}

impl Form {
    fn show(self, number: f64) -> String {
        match self {
            Form::Usd => format!("{number:.2} USD"),
            Form::Rate => format!("{number:.3}"),
            Form::Hours => format!("{number:.1}"),
            Form::Count => format!("{number:.0}"),
            Form::Time => seconds(number),
        }
    }
}

const LINES: [Line; 18] = [
    ("cost", |t| t.all.usd, Form::Usd),
    ("… spot", |t| capacity(t, "spot"), Form::Usd),
    ("… on-demand", |t| capacity(t, "on-demand"), Form::Usd),
    (
        "USD/h on average",
        |t| t.all.usd / (t.time.as_secs_f64() / 3600.0).max(f64::MIN_POSITIVE),
        Form::Rate,
    ),
    ("node-hours", |t| t.all.node_hours, Form::Hours),
    ("nodes at most", |t| t.most_nodes as f64, Form::Count),
    ("launches", |t| t.launched as f64, Form::Count),
    (
        "launches that failed",
        |t| t.launches_failed as f64,
        Form::Count,
    ),
    ("pods that waited", |t| t.waits.pods as f64, Form::Count),
    ("… half no longer than", |t| t.waits.p50, Form::Time),
    ("… 90 %", |t| t.waits.p90, Form::Time),
    ("… 99 %", |t| t.waits.p99, Form::Time),
    ("… the longest", |t| t.waits.max, Form::Time),
    (
        "pods without a node at the end",
        |t| t.waits.still as f64,
        Form::Count,
    ),
    ("interruptions", |t| t.interruptions as f64, Form::Count),
    (
        "pods lost with their machine",
        |t| t.lost as f64,
        Form::Count,
    ),
    ("pods evicted", |t| t.evicted as f64, Form::Count),
    ("rules broken", |t| t.violations.len() as f64, Form::Count),
];

fn capacity(totals: &Totals, name: &str) -> f64 {
    totals.by_capacity.get(name).map_or(0.0, |money| money.usd)
}

fn totals(runs: &[ScenarioOutcome]) -> String {
    let mut lines = vec![heads(runs, "")];
    for (name, number, form) in LINES {
        let base = runs.first().map_or(0.0, |run| number(&run.totals));
        let mut line = vec![name.to_owned(), form.show(base)];
        for run in &runs[1..] {
            let number = number(&run.totals);
            line.push(form.show(number));
            line.push(difference(base, number));
        }
        lines.push(line);
    }
    columns(&lines)
}

/// How much more or less, as a share; `=` where there is none.
fn difference(base: f64, number: f64) -> String {
    if (number - base).abs() < 1e-9 {
        return "=".to_owned();
    }
    if base.abs() < 1e-9 {
        return "new".to_owned();
    }
    format!("{:+.1} %", 100.0 * (number - base) / base)
}

fn timeline(runs: &[ScenarioOutcome]) -> String {
    let first = &runs[0];
    let all: Vec<_> = runs.iter().map(rows).collect();
    let mut names = vec![String::new()];
    runs.iter()
        .for_each(|run| names.extend([run.policy.to_uppercase(), String::new(), String::new()]));
    let mut head = vec!["UNTIL".to_owned()];
    runs.iter()
        .for_each(|_| head.extend(["USD/H", "NODES", "WAITING"].map(str::to_owned)));
    let mut lines = vec![names, head];
    for at in 0..all[0].len() {
        let mut line = vec![moment(first.begins, all[0][at].at, first.totals.time)];
        for rows in &all {
            let row = rows.get(at).cloned().unwrap_or_default();
            line.extend([
                format!("{:.3}", row.usd_per_hour),
                row.nodes.to_string(),
                row.pending.to_string(),
            ]);
        }
        lines.push(line);
    }
    columns(&lines)
}

fn heads(runs: &[ScenarioOutcome], first: &str) -> Vec<String> {
    let mut line = vec![first.to_owned()];
    for (at, run) in runs.iter().enumerate() {
        line.push(run.policy.to_uppercase());
        if at > 0 {
            line.push(String::new());
        }
    }
    line
}

/// The first column to the left, the others to the right, two spaces between.
fn columns(lines: &[Vec<String>]) -> String {
    let count = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(at))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(at, (cell, width))| {
                if at == 0 {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            })
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

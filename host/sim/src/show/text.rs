//! A run as text: a timeline, then totals.

use std::fmt::Write as _;
use std::time::Duration;

use super::rows::rows;
use super::{moment, seconds};
use crate::scenario::acts;
use crate::scenario::play::ScenarioOutcome;
use crate::stats::Totals;

/// Most notes of one row that are printed.
const MAX_NOTES: usize = 4;

/// Timeline and totals.
pub fn text(outcome: &ScenarioOutcome) -> String {
    let mut text = heading(outcome);
    text.push('\n');
    text += &timeline(outcome);
    text.push('\n');
    text += &totals(&outcome.totals);
    for trouble in &outcome.trouble {
        let _ = writeln!(text, "note: {trouble}");
    }
    text
}

fn heading(outcome: &ScenarioOutcome) -> String {
    let ScenarioOutcome {
        name,
        seed,
        policy,
        begins,
        totals,
        ..
    } = outcome;
    let (length, day) = (acts::text(totals.time), begins.to_string());
    let day = day.get(..10).unwrap_or_default();
    format!("{name}: {length} from {day} on, seed {seed}, scored by {policy}\n")
}

/// A row for each step.
pub fn timeline(outcome: &ScenarioOutcome) -> String {
    let mut text = format!(
        "{:<11}  {:>6}  {:>7}  {:>5}  {:>5}  {:>8}\n",
        "UNTIL", "PODS", "WAITING", "NODES", "SPOT", "USD/H"
    );
    for row in rows(outcome) {
        let time = moment(outcome.begins, row.at, outcome.totals.time);
        let pending = if row.pending == 0 {
            "·".to_owned()
        } else {
            row.pending.to_string()
        };
        let line = format!(
            "{time:<11}  {:>6}  {pending:>7}  {:>5}  {:>5}  {:>8.3}",
            row.running, row.nodes, row.spot, row.usd_per_hour
        );
        let more = row.notes.len().saturating_sub(MAX_NOTES);
        let mut notes: Vec<String> = row.notes.into_iter().take(MAX_NOTES).collect();
        if more > 0 {
            notes.push(format!("and {more} more"));
        }
        let first = notes.first().cloned().unwrap_or_default();
        let _ = writeln!(text, "{}", format!("{line}  {first}").trim_end());
        for note in notes.iter().skip(1) {
            let _ = writeln!(text, "{:52}{note}", "");
        }
    }
    text
}

/// The sums.
pub fn totals(totals: &Totals) -> String {
    let mut text = String::new();
    let money = &totals.all;
    let hours = totals.time.as_secs_f64() / 3600.0;
    let _ = writeln!(
        text,
        "cost         {:.2} USD, {:.3} USD/h on average, {:.1} node-hours, {} nodes at most",
        money.usd,
        money.usd / hours.max(f64::MIN_POSITIVE),
        money.node_hours,
        totals.most_nodes
    );
    for (what, sums) in [("", &totals.by_capacity), ("NodePool ", &totals.by_pool)] {
        for (name, money) in sums {
            let share = 100.0 * money.usd / totals.all.usd.max(f64::MIN_POSITIVE);
            let _ = writeln!(
                text,
                "             {:<24} {:>10.2} USD  {share:>3.0} %  {:>9.1} node-hours",
                format!("{what}{name}"),
                money.usd,
                money.node_hours
            );
        }
    }
    let w = &totals.waits;
    let _ = writeln!(
        text,
        "waiting      {} pods: half {}, 90 % {}, 99 % {}, the longest {}, on average {}",
        w.pods,
        seconds(w.p50),
        seconds(w.p90),
        seconds(w.p99),
        seconds(w.max),
        seconds(w.mean)
    );
    if w.still > 0 {
        let _ = writeln!(text, "             {} have no node at the end", w.still);
    }
    let _ = writeln!(
        text,
        "disruption   {} pods evicted, {} lost with their machine; {} interruptions, {} machines taken back",
        totals.evicted, totals.lost, totals.interruptions, totals.taken_back
    );
    let _ = writeln!(
        text,
        "daemon       {} launches, {} failed ({} for want of capacity); {} restarts, {} requests",
        totals.launched, totals.launches_failed, totals.short, totals.restarts, totals.requests
    );
    let rules = match totals.violations.len() {
        0 => "none broken".to_owned(),
        broken => format!("{broken} BROKEN, a defect of Longshore, please report it:"),
    };
    let _ = writeln!(text, "rules        {rules}");
    for violation in totals.violations.iter().take(10) {
        let _ = writeln!(text, "             {violation}");
    }
    text
}

/// How fast it went: for standard error, for it is not the same twice.
pub fn speed(time: Duration, took: Duration) -> String {
    let times = time.as_secs_f64() / took.as_secs_f64().max(1e-6);
    format!(
        "{} in {}: {times:.0} times as fast as life",
        acts::text(time),
        seconds(took.as_secs_f64())
    )
}

//! What disruption finds, for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::report::{Converged, ProposalReport, Proposed};
use crate::count;
use crate::messages;
use crate::table::{Align, table};

/// How many proposals and reasons are shown.
const MAX_SHOWN: usize = 10;

/// What could be saved, at which price, and why the other nodes stay.
pub fn proposed(report: &Proposed) -> String {
    let mut text = String::new();
    let usd = |amount| messages::usd(amount, 2, report.estimates.is_some());
    let now: Vec<&ProposalReport> = report
        .proposals
        .iter()
        .filter(|p| p.verdict == "now")
        .collect();
    let savings: f64 = now.iter().map(|p| p.savings).sum();
    if now.is_empty() {
        _ = writeln!(
            text,
            "Nothing to disrupt now; nodes cost {} USD per hour.",
            usd(report.cost)
        );
    } else {
        let nodes: usize = now.iter().map(|p| p.nodes.len()).sum();
        let bought: usize = now.iter().map(|p| p.replacements.len()).sum();
        let pods: usize = now.iter().map(|p| p.pods_moved).sum();
        _ = writeln!(
            text,
            "Remove {}, buy {}, move {}: {} instead of {} USD per hour.",
            count(nodes, "node"),
            count(bought, "node"),
            count(pods, "pod"),
            usd(report.cost - savings),
            usd(report.cost)
        );
    }
    if !report.proposals.is_empty() {
        text += "\n";
        text += &table(
            &COLUMNS,
            &report
                .proposals
                .iter()
                .take(MAX_SHOWN)
                .map(|proposal| row(proposal, report.estimates.is_some()))
                .collect::<Vec<_>>(),
        );
        if report.proposals.len() > MAX_SHOWN {
            _ = writeln!(text, "… and {} more", report.proposals.len() - MAX_SHOWN);
        }
    }
    text += &reasons(report);
    text + &messages::estimates(report.estimates.as_deref())
}

const COLUMNS: [(&str, Align); 7] = [
    ("METHOD", Align::Left),
    ("NODES", Align::Right),
    ("REPLACEMENTS", Align::Right),
    ("PODS", Align::Right),
    ("USD/H", Align::Right),
    ("WHEN", Align::Left),
    ("FIRST NODE", Align::Left),
];

fn row(proposal: &ProposalReport, estimated: bool) -> Vec<String> {
    vec![
        proposal.method.into(),
        proposal.nodes.len().to_string(),
        proposal.replacements.len().to_string(),
        proposal.pods_moved.to_string(),
        messages::usd(proposal.savings, 4, estimated),
        proposal.verdict.into(),
        proposal.nodes.first().cloned().unwrap_or_default(),
    ]
}

/// The most common reasons why nodes stay, with one node as an example of each.
fn reasons(report: &Proposed) -> String {
    let mut all: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    for stays in &report.stays {
        let Some(last) = stays.decisive() else {
            continue;
        };
        let example = || format!("{}: {}", stays.node, last.blocked_by);
        all.entry(last.reason).or_insert_with(|| (0, example())).0 += 1;
    }
    if all.is_empty() {
        return String::new();
    }
    let mut rows: Vec<(usize, Vec<String>)> = all
        .into_iter()
        .map(|(reason, (nodes, example))| (nodes, vec![nodes.to_string(), reason.into(), example]))
        .collect();
    rows.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .take(MAX_SHOWN)
        .map(|(_, row)| row)
        .collect();
    let columns = [
        ("NODES", Align::Right),
        ("STAY FOR", Align::Left),
        ("FOR EXAMPLE", Align::Left),
    ];
    format!("\n{}", table(&columns, &rows))
}

/// What carrying everything out comes to.
pub fn converged(report: &Converged) -> String {
    let estimated = report.estimates.is_some();
    let usd = |amount| messages::usd(amount, 2, estimated);
    let mut text = format!(
        "{} instead of {} USD per hour: {} instead of {}, {} moved{}\n\n",
        usd(report.after),
        usd(report.before),
        count(report.nodes_after, "node"),
        report.nodes_before,
        count(report.pods_moved, "pod"),
        if report.finished {
            "."
        } else {
            "; there is more to do."
        }
    );
    let columns = [
        ("METHOD", Align::Left),
        ("NODES", Align::Right),
        ("REPLACEMENTS", Align::Right),
        ("PODS", Align::Right),
        ("SAVES", Align::Right),
        ("COST", Align::Right),
    ];
    let rows = report.steps.iter().map(|step| {
        vec![
            step.method.into(),
            step.nodes.to_string(),
            step.replacements.to_string(),
            step.pods_moved.to_string(),
            messages::usd(step.savings, 4, estimated),
            usd(step.cost),
        ]
    });
    text += &table(&columns, &rows.collect::<Vec<_>>());
    if let Some(bound) = report.lower_bound {
        _ = writeln!(
            text,
            "\nNo outcome costs less than {} USD per hour, nodes and moves counted.",
            usd(bound)
        );
    }
    text + &messages::estimates(report.estimates.as_deref())
}

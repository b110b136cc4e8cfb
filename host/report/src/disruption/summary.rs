//! What a look for disruption came to, for the journal.

use longshore_core::disrupt::methods::Round;
use longshore_core::snapshot::Snapshot;

use super::report::{ProposalReport, proposals};
use crate::count;
use crate::decision::digest;

/// What a look came to.
#[derive(Debug, Default)]
pub struct Found {
    /// SHA-256 over all proposals.
    pub digest: String,
    /// USD per hour that proposals save which may be carried out now.
    pub savings: f64,
    /// Nodes that go by them.
    pub nodes: usize,
    /// Nodes that are bought for them.
    pub replacements: usize,
    /// Pods that they move.
    pub pods: usize,
    /// Each proposal for people, with the report that holds everything about it.
    pub parts: Vec<(String, ProposalReport)>,
}

/// What a round of disruption came to. Why nodes stay is no part of it.
pub fn summary_of(snapshot: &Snapshot, round: &Round) -> Found {
    let all = proposals(snapshot, round);
    let mut found = Found {
        digest: digest(&all),
        ..Found::default()
    };
    for of in all.iter().filter(|of| of.verdict == "now") {
        found.savings += of.savings;
        found.nodes += of.nodes.len();
        found.replacements += of.replacements.len();
        found.pods += of.pods_moved;
    }
    found.parts = all.into_iter().map(|of| (words(&of), of)).collect();
    found
}

fn words(of: &ProposalReport) -> String {
    let first = of.nodes.first().map_or("", String::as_str);
    let nodes = match of.nodes.len() {
        1 => format!("node {first}"),
        more => format!("{more} nodes from {first} on"),
    };
    format!(
        "{} removes {nodes} for {}, {} to move: {}",
        of.method,
        count(of.replacements.len(), "node"),
        count(of.pods_moved, "pod"),
        of.verdict
    )
}

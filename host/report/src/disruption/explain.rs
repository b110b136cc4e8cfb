//! `longshore explain node NAME`: what disruption would do with a node, and why it stays.

use std::fmt::Write as _;

use longshore_core::disrupt::methods::Round;
use longshore_core::disrupt::verdicts::Method;
use longshore_core::model::NodeRecord;
use longshore_core::snapshot::Snapshot;
use serde::Serialize;

use super::report::{MethodVerdict, ProposalReport, Proposed};
use crate::explained::{Explained, NoExplanation};
use crate::table::{Align, table};

/// What becomes of a node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeExplanation {
    node: String,
    /// The proposals that it is part of.
    proposals: Vec<ProposalReport>,
    /// Why each method leaves it; empty where it is proposed.
    verdicts: Vec<MethodVerdict>,
}

/// Explains what a round found for one node. `repairs_off` says that unhealthy nodes are not repaired
/// at all.
///
/// # Errors
/// There is no such node, with the name that is most like it.
pub fn explain(
    snapshot: &Snapshot,
    round: &Round,
    name: &str,
    repairs_off: bool,
) -> Result<Explained, NoExplanation> {
    let world = &*snapshot.world;
    let names = || {
        snapshot
            .nodes
            .iter()
            .map(|node| world.names.text(node.name))
    };
    if !names().any(|known| known == name) {
        let is_there = |node: &NodeRecord| world.names.text(node.name) == name;
        if world.nodes.iter().any(is_there) {
            let going = format!("node {name} is being deleted or has not joined\n");
            return Err(NoExplanation::NotFound(going));
        }
        let likeness = |other: &&str| strsim::jaro_winkler(name, other);
        let like = names().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let hint = like.map_or_else(String::new, |like| format!(", did you mean {like}?"));
        let none = format!("there is no node {name}{hint}\n");
        return Err(NoExplanation::NotFound(none));
    }
    let report = Proposed::new(snapshot, round, 0.0, 0.0);
    let has = |proposal: &ProposalReport| proposal.nodes.iter().any(|node| node == name);
    let mut explanation = NodeExplanation {
        node: name.to_owned(),
        proposals: report.proposals.into_iter().filter(has).collect(),
        verdicts: report
            .stays
            .into_iter()
            .find(|stays| stays.node == name)
            .map(|stays| stays.verdicts)
            .unwrap_or_default(),
    };
    if repairs_off && explanation.proposals.is_empty() {
        explanation.verdicts.insert(0, no_repair());
    }
    Ok(Explained {
        text: text(&explanation),
        explanation: serde_json::to_value(&explanation)?,
    })
}

/// What is said of repair where it is off.
fn no_repair() -> MethodVerdict {
    MethodVerdict {
        method: Method::Repair.name(),
        reason: "Off",
        blocked_by: "unhealthy nodes are not repaired; FEATURE_GATES=NodeRepair=true allows it"
            .into(),
    }
}

fn text(explanation: &NodeExplanation) -> String {
    let mut text = String::new();
    for proposal in &explanation.proposals {
        let others = proposal.nodes.len() - 1;
        _ = writeln!(
            text,
            "Node {} would go {} by {}, with {others} others, for {} replacements: {}.",
            explanation.node,
            proposal.verdict,
            proposal.method,
            proposal.replacements.len(),
            proposal.why
        );
    }
    if !explanation.verdicts.is_empty() {
        _ = writeln!(text, "Node {} stays.\n", explanation.node);
        let row = |verdict: &MethodVerdict| {
            vec![
                verdict.method.to_owned(),
                verdict.reason.to_owned(),
                verdict.blocked_by.clone(),
            ]
        };
        let columns = [
            ("METHOD", Align::Left),
            ("REASON", Align::Left),
            ("WHAT IS IN THE WAY", Align::Left),
        ];
        text += &table(
            &columns,
            &explanation.verdicts.iter().map(row).collect::<Vec<_>>(),
        );
    }
    if text.is_empty() {
        _ = writeln!(
            text,
            "Node {} stays: no method looked at it.",
            explanation.node
        );
    }
    text
}

//! Events of commands, with the reasons that Karpenter's dashboards know.

use longshore_api::crd::{NodeClaim, NodePool};
use longshore_core::model::Failures;

use crate::act::events::Events;
use crate::decide::command::Worth;
use crate::decide::command::{Candidate, Command};
use longshore_report::count;

/// Says of a candidate's node and claim what becomes of them.
async fn both(events: &Events, candidate: &Candidate, warning: bool, reason: &str, message: &str) {
    for node in &candidate.nodes {
        events.node(&node.name, warning, reason, message).await;
    }
    events
        .claim(&candidate.claim, warning, reason, message)
        .await;
}

/// Consolidation takes it: what that saves, and what a policy says of it if one was asked.
pub async fn candidate(events: &Events, candidate: &Candidate, command: &Command, worth: &Worth) {
    for (reason, message) in of_candidate(command, worth) {
        both(events, candidate, false, reason, &message).await;
    }
}

/// Reasons and messages of what is said of a candidate of consolidation.
fn of_candidate(command: &Command, worth: &Worth) -> Vec<(&'static str, String)> {
    let message = format!(
        "{} ({}): {}; {} of the same command",
        command.reason.name(),
        command.method,
        worth.text,
        count(command.candidates, "node")
    );
    let mut all = vec![("ConsolidationCandidate", message)];
    if worth.is_approved {
        all.push(("ConsolidationApproved", worth.text.clone()));
    }
    all
}

/// Its replacements are being launched, and it waits for them. Nothing is said if it goes without any.
pub async fn launching(events: &Events, candidate: &Candidate, command: &Command) {
    if command.replacements.is_empty() {
        return;
    }
    let names = command.replacements.join(", ");
    let message = format!("Launching NodeClaim: {names} ({})", command.reason.name());
    both(events, candidate, false, "DisruptionLaunching", &message).await;
    let message = format!("Waiting until {names} can take its pods: it stays until then");
    both(
        events,
        candidate,
        false,
        "DisruptionWaitingReadiness",
        &message,
    )
    .await;
}

/// Writes that a candidate's NodeClaim is deleted, with the reason.
pub async fn terminating(events: &Events, candidate: &Candidate, command: &Command) {
    let message = format!(
        "Disrupting Node: {} ({})",
        command.reason.name(),
        command.method
    );
    both(events, candidate, false, "DisruptionTerminating", &message).await;
}

/// Writes that a candidate stays, because its command was taken back.
pub async fn taken_back(events: &Events, candidate: &Candidate, why: &str) {
    let message = format!("Disruption was taken back: {why}");
    both(events, candidate, true, "DisruptionFailed", &message).await;
}

/// Nothing is bought to replace nodes of a NodePool for so many seconds.
pub async fn backs_off(
    events: &Events,
    pool: &NodePool,
    reason: &str,
    failures: Failures,
    seconds: i64,
) {
    let message = format!(
        "Replacements for reason {reason} did not become ready, {} in a row: nothing is bought to \
        replace nodes of this NodePool for {seconds} s; then one node at a time is tried",
        count(failures.count as usize, "command")
    );
    events.pool(pool, true, "DisruptionBackoff", &message).await;
}

/// Something keeps an unhealthy node from being repaired.
pub async fn node_blocked(events: &Events, node: &str, claim: Option<&NodeClaim>, message: &str) {
    stays(events, node, claim, ("DisruptionBlocked", message)).await;
}

/// A node is not disrupted, for a reason and with a message.
pub async fn stays(
    events: &Events,
    node: &str,
    claim: Option<&NodeClaim>,
    (reason, message): (&str, &str),
) {
    events.node(node, false, reason, message).await;
    if let Some(claim) = claim {
        events.claim(claim, false, reason, message).await;
    }
}

/// So many nodes of a NodePool are unhealthy that none is repaired.
pub async fn repair_blocked(
    events: &Events,
    node: &str,
    claim: Option<&NodeClaim>,
    pool: Option<&NodePool>,
    message: &str,
) {
    let reason = "NodeRepairBlocked";
    events.node(node, true, reason, message).await;
    if let Some(claim) = claim {
        events.claim(claim, true, reason, message).await;
    }
    if let Some(pool) = pool {
        events.pool(pool, true, reason, message).await;
    }
}

/// The budgets of a NodePool let no more nodes go now.
pub async fn blocked(events: &Events, pool: &NodePool, reason: &str, left: u32) {
    let message = format!(
        "No allowed disruptions for reason {reason} due to blocking budget: {left} nodes may go now"
    );
    events
        .pool(pool, false, "DisruptionBlocked", &message)
        .await;
}

#[cfg(test)]
mod tests {
    use longshore_core::disrupt::verdicts::Reason;

    use super::*;

    #[test]
    fn a_policy_that_was_asked_has_approved_a_candidate() {
        let command = Command {
            method: "consolidation".into(),
            reason: Reason::Underutilized,
            candidates: 2,
            replacements: Vec::new(),
            pools: Vec::new(),
            began: 0,
            limit: None,
            repair: None,
            first: None,
        };
        let said = |is_approved| {
            let text = "saves 0.1000 USD/h".to_owned();
            of_candidate(&command, &Worth { text, is_approved })
        };
        let candidate = (
            "ConsolidationCandidate",
            "Underutilized (consolidation): saves 0.1000 USD/h; 2 nodes of the same command"
                .to_owned(),
        );
        assert_eq!(said(false), std::slice::from_ref(&candidate));
        let approved = ("ConsolidationApproved", "saves 0.1000 USD/h".to_owned());
        assert_eq!(said(true), [candidate, approved]);
    }
}

//! `longshore explain node NAME` for a node that is on its way out: by which command, and what that
//! waits for. Everything is read from the objects.

use longshore_core::disrupt::verdicts::{COMMAND, REPLACES, Stays, held_pods};
use longshore_core::model::conditions::{INITIALIZED, LAUNCHED, REGISTERED};
use longshore_core::model::{ClusterObjects, NodeClaim, NodeRecord, Symbol};
use serde::Serialize;

use super::command::{Command, DETAILS};
use crate::count;
use crate::decision::pod_name;
use crate::explained::{Explained, NoExplanation};
use crate::messages::rfc3339;

/// A node that is on its way out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Going {
    node: String,
    node_claim: String,
    /// The command that it belongs to, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<CommandUnderWay>,
    /// What has to happen next.
    waits_for: String,
}

/// A command that has begun.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CommandUnderWay {
    id: String,
    method: String,
    reason: String,
    /// How many nodes go together.
    nodes: usize,
    /// When it was decided, RFC 3339.
    began: String,
    replacements: Vec<ReplacementUnderWay>,
}

/// A NodeClaim that was bought first.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplacementUnderWay {
    node_claim: String,
    state: &'static str,
}

/// Explains a node whose NodeClaim is in a command or is being deleted; nothing for other nodes.
///
/// # Errors
/// It cannot be written as JSON: a defect.
pub fn explain_going(
    world: &ClusterObjects,
    name: &str,
) -> Result<Option<Explained>, NoExplanation> {
    let known = world.names.get(name);
    let record = world.nodes.iter().find(|node| Some(node.name) == known);
    let Some(record) = record else {
        return Ok(None);
    };
    let Some(claim) = claim_of(world, record) else {
        return Ok(None);
    };
    let id = annotation(world, claim, COMMAND).filter(|id| !id.is_empty());
    if id.is_none() && !claim.deleting {
        return Ok(None);
    }
    let command = id.and_then(|id| under_way(world, claim, id));
    let waits_for = match (&command, claim.deleting) {
        (_, true) => format!(
            "eviction of its pods{}; then its instance ends",
            held(world, record)
        ),
        (Some((command, replacements)), false) => waits_for(command, replacements),
        (None, false) => "its command cannot be read; the node will stay".to_owned(),
    };
    let going = Going {
        node: name.to_owned(),
        node_claim: world.names.text(claim.name).to_owned(),
        command: id
            .zip(command)
            .map(|(id, (command, replacements))| CommandUnderWay {
                id: id.to_owned(),
                method: command.method,
                reason: command.reason.name().to_owned(),
                nodes: command.candidates,
                began: rfc3339(command.began),
                replacements,
            }),
        waits_for,
    };
    Ok(Some(Explained {
        text: text(&going),
        explanation: serde_json::to_value(&going)?,
    }))
}

/// What keeps pods on a node that goes.
fn held(world: &ClusterObjects, record: &NodeRecord) -> String {
    let text = |symbol| world.names.text(symbol);
    let pod = |pod| pod_name(world, pod);
    let sentence = |why: &Stays| match why {
        Stays::PodBudget(of, budget) => {
            let budget = &world.budgets[*budget];
            let (namespace, name) = (text(budget.namespace), text(budget.name));
            format!(
                "PodDisruptionBudget {namespace}/{name} allows none of pod {} now",
                pod(*of)
            )
        }
        Stays::SeveralPodBudgets(of) => format!(
            "several PodDisruptionBudgets select pod {}, so the API server does not evict it",
            pod(*of)
        ),
        Stays::PodDoNotDisrupt(of, _) if world.pods[of.0 as usize].unreadable => {
            format!("pod {} cannot be read", pod(*of))
        }
        Stays::PodDoNotDisrupt(of, _) => {
            format!("annotation karpenter.sh/do-not-disrupt of pod {}", pod(*of))
        }
        _ => "a pod that may not be evicted".to_owned(),
    };
    let all = held_pods(world, record.name);
    match all.as_slice() {
        [] => String::new(),
        [one] => format!(" ({})", sentence(one)),
        [first, more @ ..] => format!(
            " ({}; and {} more may not be evicted)",
            sentence(first),
            count(more.len(), "pod")
        ),
    }
}

/// The NodeClaim of a node.
fn claim_of<'w>(world: &'w ClusterObjects, record: &NodeRecord) -> Option<&'w NodeClaim> {
    let by_id = |claim: &&NodeClaim| {
        record.provider_id.is_some() && claim.provider_id == record.provider_id
    };
    let by_name = |claim: &&NodeClaim| claim.node_name == Some(record.name);
    let mut claims = world.claims.iter();
    claims
        .find(by_id)
        .or_else(|| world.claims.iter().find(by_name))
}

fn annotation<'w>(world: &'w ClusterObjects, claim: &NodeClaim, key: &str) -> Option<&'w str> {
    let value = claim.annotations.get(world.names.get(key)?)?;
    Some(world.names.text(value))
}

fn has(world: &ClusterObjects, claim: &NodeClaim, condition: &str) -> bool {
    let known: Option<Symbol> = world.names.get(condition);
    known.is_some_and(|known| claim.conditions.contains(&known))
}

/// The command that a candidate names, with its replacements as they are; nothing if it cannot be
/// read.
fn under_way(
    world: &ClusterObjects,
    claim: &NodeClaim,
    id: &str,
) -> Option<(Command, Vec<ReplacementUnderWay>)> {
    let command: Command = serde_json::from_str(annotation(world, claim, DETAILS)?).ok()?;
    let state = |name: &String| {
        let bought = world.claims.iter().find(|claim| {
            world.names.text(claim.name) == name && annotation(world, claim, REPLACES) == Some(id)
        });
        bought.map_or("gone", |claim| match claim {
            claim if claim.deleting => "being deleted",
            claim if has(world, claim, INITIALIZED) => "initialized",
            claim if has(world, claim, REGISTERED) => "registered",
            claim if has(world, claim, LAUNCHED) => "launched",
            _ => "not launched",
        })
    };
    let replacements = command.replacements.iter().map(|name| ReplacementUnderWay {
        node_claim: name.clone(),
        state: state(name),
    });
    let replacements = replacements.collect();
    Some((command, replacements))
}

fn waits_for(command: &Command, replacements: &[ReplacementUnderWay]) -> String {
    let left: Vec<String> = replacements
        .iter()
        .filter(|of| of.state != "initialized")
        .map(|of| format!("{} ({})", of.node_claim, of.state))
        .collect();
    if left.is_empty() {
        return "its NodeClaim is deleted next".into();
    }
    let names = left.join(", ");
    match replacements
        .iter()
        .any(|of| matches!(of.state, "gone" | "being deleted"))
    {
        true => format!("replacement {names}: the node will stay"),
        false => format!(
            "initialization of {names}; the node stays if that is not done by {}",
            rfc3339(command.ends())
        ),
    }
}

fn text(going: &Going) -> String {
    let node = &going.node;
    let Some(command) = &going.command else {
        let (claim, waits_for) = (&going.node_claim, &going.waits_for);
        return format!("Node {node} goes, with NodeClaim {claim}: {waits_for}.\n");
    };
    let (id, others) = (&command.id, command.nodes.saturating_sub(1));
    format!(
        "Node {node} goes by {} ({}), with {others} others, for {} replacements: command {id} of \
        {}.\nIt waits for: {}.\n",
        command.method,
        command.reason,
        command.replacements.len(),
        command.began,
        going.waits_for
    )
}

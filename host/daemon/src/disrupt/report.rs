//! What disruption finds as it leaves the process: names instead of positions, sorted, with a digest.

use std::collections::{BTreeMap, HashMap, HashSet};

use longshore_core::disrupt::methods::{Round, Verdict};
use longshore_core::disrupt::proposals::{Dropped, Proposal, To};
use longshore_core::disrupt::verdicts::{Method, Stays};
use longshore_core::ids::NodeIx;
use longshore_core::snapshot::Snapshot;
use serde::Serialize;

use super::messages::Messages;
use crate::report::{claim_of, digest, pod_name};

/// What `longshore plan --disrupt -o json` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proposed {
    /// Seconds of deciding.
    pub seconds: f64,
    /// Price of all nodes, USD per hour.
    pub cost: f64,
    /// No outcome of consolidation has a smaller objective (price, cost of nodes and of moves), USD per
    /// hour.
    pub lower_bound: Option<f64>,
    /// What could be done.
    pub proposals: Vec<ProposalReport>,
    /// Why nodes stay.
    pub stays: Vec<Staying>,
    /// SHA-256 over proposals and nodes that stay.
    pub digest: String,
}

/// Nodes that could go together.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposalReport {
    /// Which method.
    pub method: &'static str,
    /// The reason that budgets know it by.
    pub reason: &'static str,
    /// NodePools of its nodes.
    pub node_pools: Vec<String>,
    /// Nodes that go.
    pub nodes: Vec<String>,
    /// Nodes that are bought first.
    pub replacements: Vec<ReplacementReport>,
    /// USD per hour.
    pub savings: f64,
    /// How many pods move.
    pub pods_moved: usize,
    /// Eviction cost of these pods.
    pub disruption_cost: f64,
    /// Where each pod goes: a node, or `replacement N`.
    pub moves: BTreeMap<String, String>,
    /// `now`, `later` if a budget has to have more left, `refused` or `deferred` by a policy.
    pub verdict: &'static str,
    /// Why.
    pub why: String,
}

/// A node to buy.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacementReport {
    /// Its NodePool.
    pub node_pool: String,
    /// Instance types that hold its pods and are cheap enough, cheapest first.
    pub instance_types: Vec<String>,
    /// USD per hour of the cheapest; nothing where a static NodePool leaves the choice to the cloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
    /// Labels narrowed to values.
    pub requirements: BTreeMap<String, Vec<String>>,
}

/// A node that stays.
#[derive(Debug, Serialize)]
pub struct Staying {
    /// The node.
    pub node: String,
    /// Why each method leaves it.
    pub verdicts: Vec<MethodVerdict>,
}

/// Why a method leaves a node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MethodVerdict {
    /// The method.
    pub method: &'static str,
    /// A code.
    pub reason: &'static str,
    /// What is in the way, and what would have to change.
    pub blocked_by: String,
}

impl Proposed {
    /// The names of what a round found.
    pub fn new(snapshot: &Snapshot, round: &Round, seconds: f64, cost: f64) -> Self {
        let messages = Messages { snapshot };
        let mut proposals: Vec<ProposalReport> = round
            .proposals
            .iter()
            .map(|(proposal, verdict)| of_proposal(&messages, proposal, verdict))
            .collect();
        proposals.sort_by(|a, b| {
            b.savings
                .total_cmp(&a.savings)
                .then_with(|| a.nodes.cmp(&b.nodes))
        });
        let mut stays = stays(&messages, round);
        stays.sort_by(|a, b| a.node.cmp(&b.node));
        let digest = digest(&(&proposals, &stays));
        Proposed {
            seconds,
            cost,
            lower_bound: round.lower_bound,
            proposals,
            stays,
            digest,
        }
    }
}

fn of_proposal(messages: &Messages<'_>, proposal: &Proposal, verdict: &Verdict) -> ProposalReport {
    let (snapshot, world) = (messages.snapshot, &*messages.snapshot.world);
    let text = |symbol| world.names.text(symbol).to_owned();
    let mut nodes: Vec<String> = proposal
        .nodes
        .iter()
        .map(|&node| messages.node(node))
        .collect();
    nodes.sort_unstable();
    let pools = proposal
        .nodes
        .iter()
        .filter_map(|node| snapshot.nodes[node.0 as usize].pool);
    let mut node_pools: Vec<String> = pools.map(text).collect();
    node_pools.sort_unstable();
    node_pools.dedup();
    let place = |to: To| match to {
        To::Node(node) => messages.node(node),
        To::Replacement(at) => format!("replacement {at}"),
    };
    let mut replacements: Vec<ReplacementReport> = proposal
        .replacements
        .iter()
        .map(|replacement| {
            let claim = claim_of(world, &replacement.claim);
            ReplacementReport {
                node_pool: claim.node_pool,
                instance_types: claim.instance_types,
                price: Some(claim.price),
                requirements: claim.requirements,
            }
        })
        .collect();
    if proposal.method == Method::StaticDrift {
        replacements.extend(node_pools.iter().map(|pool| ReplacementReport {
            node_pool: pool.clone(),
            instance_types: Vec::new(),
            price: None,
            requirements: BTreeMap::new(),
        }));
    }
    let (verdict, why) = match verdict {
        Verdict::Now => ("now", messages.worth(proposal)),
        Verdict::Later(pool, left) => ("later", messages.budget_left(*pool, proposal, *left)),
        Verdict::Refused => ("refused", messages.kept(proposal, false)),
        Verdict::Deferred => ("deferred", messages.kept(proposal, true)),
    };
    ProposalReport {
        method: proposal.method.name(),
        reason: proposal.reason.name(),
        node_pools,
        nodes,
        replacements,
        savings: proposal.savings,
        pods_moved: proposal.moves.len(),
        disruption_cost: proposal.disruption_cost,
        moves: proposal
            .moves
            .iter()
            .map(|m| (pod_name(world, m.pod), place(m.to)))
            .collect(),
        verdict,
        why,
    }
}

fn stays(messages: &Messages<'_>, round: &Round) -> Vec<Staying> {
    let kept = |of: &&(Proposal, Verdict)| of.1.is_by_policy();
    let proposed = round.proposals.iter().filter(|of| !kept(of));
    let proposed = proposed.map(|(proposal, _)| proposal);
    let goes: HashSet<NodeIx> = proposed.flat_map(|p| p.nodes.iter().copied()).collect();
    // Of several reasons the first counts.
    let found: HashMap<NodeIx, &Stays> =
        round.stays.iter().rev().map(|(n, why)| (*n, why)).collect();
    let dropped: HashMap<NodeIx, &Dropped> = round
        .dropped
        .iter()
        .rev()
        .flat_map(|dropped| dropped.nodes.iter().map(move |node| (*node, dropped)))
        .collect();
    let mut all = Vec::new();
    for (at, candidate) in round.candidates.iter().enumerate() {
        let node = NodeIx(at as u32);
        if goes.contains(&node) {
            continue;
        }
        let (found, dropped) = (found.get(&node), dropped.get(&node));
        let mut verdicts = Vec::new();
        for method in Method::ALL {
            let refusal = candidate.refusal(method).cloned();
            if matches!(refusal, Some(Stays::NotStatic | Stays::Healthy)) {
                continue;
            }
            let why = refusal.or_else(|| {
                let by_policy = |why: &&&Stays| matches!(why, Stays::Policy { .. });
                let searched = found.filter(|why| method != Method::Emptiness || by_policy(why));
                searched.map(|why| (*why).clone())
            });
            match (why, dropped) {
                (Some(why), _) => verdicts.push(verdict(messages, method, &why)),
                (None, Some(dropped)) => verdicts.push(MethodVerdict {
                    method: method.name(),
                    reason: "Dropped",
                    blocked_by: Messages::dropped(&dropped.why),
                }),
                (None, None) => {}
            }
        }
        all.push(Staying {
            node: messages.node(node),
            verdicts,
        });
    }
    all
}

fn verdict(messages: &Messages<'_>, method: Method, why: &Stays) -> MethodVerdict {
    MethodVerdict {
        method: method.name(),
        reason: Messages::code(why),
        blocked_by: messages.stays(why),
    }
}

/// What `longshore plan --converge -o json` prints.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Converged {
    /// Price of all nodes before, USD per hour.
    pub before: f64,
    /// The same afterwards.
    pub after: f64,
    /// No outcome of consolidation has a smaller objective (price, cost of nodes and of moves), USD per
    /// hour.
    pub lower_bound: Option<f64>,
    /// Nodes before.
    pub nodes_before: usize,
    /// Nodes afterwards.
    pub nodes_after: usize,
    /// Pods that moved; one that moved twice counts twice.
    pub pods_moved: usize,
    /// Seconds of deciding.
    pub seconds: f64,
    /// Nothing more is found.
    pub finished: bool,
    /// What was carried out.
    pub steps: Vec<Step>,
    /// SHA-256 over the steps and what was reached.
    pub digest: String,
}

/// Proposals of one method that were carried out together.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The method.
    pub method: &'static str,
    /// Nodes that went.
    pub nodes: usize,
    /// Nodes that were bought.
    pub replacements: usize,
    /// Pods that moved.
    pub pods_moved: usize,
    /// USD per hour.
    pub savings: f64,
    /// Price of all nodes afterwards, USD per hour.
    pub cost: f64,
}

impl Step {
    /// What proposals of a method come to; `cost` is what is paid afterwards.
    pub fn new(method: Method, proposals: &[&Proposal], cost: f64) -> Self {
        Step {
            method: method.name(),
            nodes: proposals.iter().map(|proposal| proposal.nodes.len()).sum(),
            replacements: proposals
                .iter()
                .map(|proposal| proposal.replacements.len())
                .sum(),
            pods_moved: proposals.iter().map(|proposal| proposal.moves.len()).sum(),
            savings: proposals.iter().map(|proposal| proposal.savings).sum(),
            cost,
        }
    }
}

impl Converged {
    /// Sums up.
    pub fn settle(&mut self, after: f64, nodes: usize) {
        (self.after, self.nodes_after) = (after, nodes);
        self.pods_moved = self.steps.iter().map(|step| step.pods_moved).sum();
        self.digest = digest(&(self.before, self.after, self.finished, &self.steps));
    }
}

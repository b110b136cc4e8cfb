//! What disruption finds as it leaves the process: names instead of positions, sorted, with a digest.

use std::collections::{BTreeMap, HashMap, HashSet};

use longshore_core::disrupt::budgets::Budgets;
use longshore_core::disrupt::methods::{Act, Round, Single, Verdict};
use longshore_core::disrupt::proposals::{Proposal, To, Why};
use longshore_core::disrupt::verdicts::{Method, Stays};
use longshore_core::ids::NodeIx;
use longshore_core::snapshot::Snapshot;
use serde::Serialize;

use super::messages::Messages;
use crate::decision::{claim_of, digest, pod_name};
use crate::messages::estimated_from;

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
    /// What could be done, in the order in which it was found.
    pub proposals: Vec<ProposalReport>,
    /// Why nodes stay.
    pub stays: Vec<Staying>,
    /// SHA-256 over proposals and nodes that stay.
    pub digest: String,
    /// What prices are estimated from, if some are estimates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimates: Option<String>,
}

/// Nodes that could go together.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposalReport {
    /// The method that found it, as `--method` calls it.
    pub method: &'static str,
    /// The reason that budgets know it by.
    pub reason: &'static str,
    /// The NodePools of the nodes that go.
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
    /// The reason of the verdict, in words.
    pub why: String,
}

/// A node to buy.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacementReport {
    /// The NodePool that it is bought from.
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
    /// The node's name.
    pub node: String,
    /// Why each method leaves it.
    pub verdicts: Vec<MethodVerdict>,
}

/// Why a method leaves a node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MethodVerdict {
    /// The method, as `--method` calls it.
    pub method: &'static str,
    /// A code.
    pub reason: &'static str,
    /// What is in the way, and what would have to change.
    pub blocked_by: String,
}

impl Staying {
    /// The verdict that keeps the node: that of drift if it has drifted, that of emptiness if it is empty,
    /// and otherwise that of the last method, which every node could be asked.
    pub fn decisive(&self) -> Option<&MethodVerdict> {
        let of = |method: Method| {
            let mut all = self.verdicts.iter();
            all.find(|verdict| verdict.method == method.name())
        };
        let drifted = [Method::StaticDrift, Method::Drift]
            .into_iter()
            .find_map(|method| {
                of(method).filter(|of| !matches!(of.reason, "NotDrifted" | "Static" | "NotStatic"))
            });
        let last = self.verdicts.last()?;
        let empty = (last.reason == "IsEmpty")
            .then(|| of(Method::Emptiness))
            .flatten();
        Some(drifted.or(empty).unwrap_or(last))
    }
}

impl Proposed {
    /// The names of what a round found.
    pub fn new(snapshot: &Snapshot, round: &Round, seconds: f64, cost: f64) -> Self {
        let messages = Messages { snapshot };
        let proposals = proposals(snapshot, round);
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
            estimates: estimated_from(&snapshot.world).map(str::to_owned),
        }
    }
}

/// What could be done, what saves most first.
pub fn proposals(snapshot: &Snapshot, round: &Round) -> Vec<ProposalReport> {
    let messages = Messages { snapshot };
    let several = round.proposals.iter();
    let budgets = Budgets::new(&snapshot.world);
    let several =
        several.map(|(proposal, verdict)| of_proposal(&messages, &budgets, proposal, verdict));
    let singles = round.singles.iter();
    let singles = singles.map(|of| of_single(&messages, &budgets, round, of));
    let mut all: Vec<ProposalReport> = several.chain(singles).collect();
    all.sort_by(|a, b| {
        b.savings
            .total_cmp(&a.savings)
            .then_with(|| a.nodes.cmp(&b.nodes))
    });
    all
}

fn of_proposal(
    messages: &Messages<'_>,
    budgets: &Budgets,
    proposal: &Proposal,
    verdict: &Verdict,
) -> ProposalReport {
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
        replacements.extend(of_static(&node_pools));
    }
    let (verdict, why) = match verdict {
        Verdict::Now => ("now", messages.worth(proposal)),
        Verdict::Later(pool, left) => {
            let budget = budgets.of(*pool, proposal.reason).budget;
            let why = messages.budget_left(*pool, budget, proposal, *left);
            ("later", why)
        }
        Verdict::BacksOff(pool, trouble) => ("later", messages.backs_off(*pool, *trouble)),
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

/// A node for whose pods no place is needed.
fn of_single(
    messages: &Messages<'_>,
    budgets: &Budgets,
    round: &Round,
    single: &Single,
) -> ProposalReport {
    let weight = round.candidates[single.node.0 as usize].weight;
    let proposal = Proposal {
        disruption_cost: weight,
        ..Proposal::of_node(single.node, single.method)
    };
    let mut report = of_proposal(messages, budgets, &proposal, &Verdict::Now);
    report.replacements = match single.act {
        Act::ReplaceStatic => of_static(&report.node_pools),
        Act::Reboot | Act::TerminateFirst(_) => Vec::new(),
    };
    report.why = Messages::act(single.act).into();
    report
}

/// A node of each static NodePool.
fn of_static(node_pools: &[String]) -> Vec<ReplacementReport> {
    let one = |pool: &String| ReplacementReport {
        node_pool: pool.clone(),
        instance_types: Vec::new(),
        price: None,
        requirements: BTreeMap::new(),
    };
    node_pools.iter().map(one).collect()
}

fn stays(messages: &Messages<'_>, round: &Round) -> Vec<Staying> {
    let reasons = Reasons::new(round);
    let nodes = (0..round.candidates.len()).map(|at| NodeIx(at as u32));
    let stays = nodes.filter(|node| !reasons.goes.contains(node));
    let staying = |node: NodeIx| {
        let of = |method| Some(verdict(messages, node, method, reasons.of(node, method)?));
        Staying {
            node: messages.node(node),
            verdicts: Method::ALL.into_iter().filter_map(of).collect(),
        }
    };
    stays.map(staying).collect()
}

/// Why nodes stay, by node and method.
pub struct Reasons<'r> {
    round: &'r Round,
    /// Nodes that are proposed and that no consolidation policy keeps.
    pub goes: HashSet<NodeIx>,
    found: HashMap<NodeIx, &'r Stays>,
    dropped: HashMap<NodeIx, &'r Why>,
}

/// Why a method leaves a node.
#[derive(Clone, Copy)]
pub enum Reason<'r> {
    /// A rule, or what the search has found.
    Stays(&'r Stays),
    /// The search would remove it, but that may not be carried out.
    Dropped(&'r Why),
}

impl<'r> Reasons<'r> {
    /// Takes the reasons of a look apart by node.
    pub fn new(round: &'r Round) -> Self {
        let kept = |of: &&(Proposal, Verdict)| of.1.is_by_policy();
        let proposed = round.proposals.iter().filter(|of| !kept(of));
        let proposed = proposed.flat_map(|(proposal, _)| proposal.nodes.iter().copied());
        let singles = round.singles.iter().map(|single| single.node);
        let dropped = round.dropped.iter().rev();
        let dropped = dropped.flat_map(|of| of.nodes.iter().map(move |node| (*node, &of.why)));
        Reasons {
            round,
            goes: proposed.chain(singles).collect(),
            // Of several reasons the first counts.
            found: round.stays.iter().rev().map(|(n, why)| (*n, why)).collect(),
            dropped: dropped.collect(),
        }
    }

    /// Why a method leaves a node; nothing where the method has nothing to say of it.
    pub fn of(&self, node: NodeIx, method: Method) -> Option<Reason<'r>> {
        match self.round.candidates[node.0 as usize].refusal(method) {
            Some(Stays::NotStatic | Stays::Healthy) => return None,
            Some(refusal) => return Some(Reason::Stays(refusal)),
            None => {}
        }
        let by_policy = |why: &&Stays| matches!(why, Stays::Policy { .. });
        let found = self.found.get(&node).copied();
        let searched = found.filter(|why| method != Method::Emptiness || by_policy(why));
        let dropped = || self.dropped.get(&node).copied().map(Reason::Dropped);
        searched.map(Reason::Stays).or_else(dropped)
    }
}

impl Reason<'_> {
    /// Stable, for programs.
    pub fn code(self) -> &'static str {
        match self {
            Reason::Stays(why) => Messages::code(why),
            Reason::Dropped(_) => "Dropped",
        }
    }

    /// What is in the way of a node's disruption, and what would have to change.
    pub fn text(self, node: NodeIx, messages: &Messages<'_>) -> String {
        match self {
            Reason::Stays(why) => messages.stays(node, why),
            Reason::Dropped(why) => messages.dropped(why),
        }
    }
}

fn verdict(
    messages: &Messages<'_>,
    node: NodeIx,
    method: Method,
    why: Reason<'_>,
) -> MethodVerdict {
    MethodVerdict {
        method: method.name(),
        reason: why.code(),
        blocked_by: why.text(node, messages),
    }
}

/// What `longshore plan --converge -o json` prints.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Converged {
    /// What prices are estimated from, if some are estimates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimates: Option<String>,
    /// Price of all nodes before, USD per hour.
    pub before: f64,
    /// USD per hour afterwards.
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
    /// The method that found them, as `--method` calls it.
    pub method: &'static str,
    /// Nodes that went.
    pub nodes: usize,
    /// Nodes that were bought.
    pub replacements: usize,
    /// Pods that were moved.
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
    /// Notes what was reached: the price of all nodes in USD per hour, and how many there are.
    pub fn settle(&mut self, after: f64, nodes: usize) {
        (self.after, self.nodes_after) = (after, nodes);
        self.pods_moved = self.steps.iter().map(|step| step.pods_moved).sum();
        self.digest = digest(&(self.before, self.after, self.finished, &self.steps));
    }
}

//! Proposals: what one outcome of the search means for nodes and pods, in parts that do not depend on
//! each other.
//!
//! A node that stays keeps all its own pods, so its free room is the only thing that removed nodes
//! share, and that is divided among them here. Removed nodes whose pods meet on a new node belong
//! together; everything else can be carried out alone, in any order.

mod limits;
mod parts;
mod spot;

use rustc_hash::FxHashMap;

use super::compiled::Compiled;
use super::consolidation::Decision;
use super::costs::MIN_GAIN;
use super::fill::{Admits, Demand, Filler};
pub use super::replacements::Replacement;
use super::replacements::{ReplacementError, replacement};
use super::verdicts::{Method, Reason};
use crate::check::{Violation, disruption};
use crate::ids::{NodeIx, PodIx};
use crate::model::Symbol;
use crate::snapshot::Snapshot;

pub use self::limits::Limits;
pub(super) use self::limits::NODEPOOL;
use self::limits::fits;
pub use self::parts::SearchOutcome;
use self::parts::{Part, Target};
pub(super) use self::spot::SPOT;
pub use self::spot::SPOT_FLEXIBILITY;
use self::spot::{is_spot, is_spot_to_spot, merge_spot, node_is_spot};

/// Where a pod goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum To {
    /// A node that is there.
    Node(NodeIx),
    /// A replacement of the same proposal.
    Replacement(usize),
}

/// A pod that moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// Index into the observed pods.
    pub pod: PodIx,
    /// Where it goes.
    pub to: To,
}

/// Nodes to remove, and what becomes of their pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The method that found it.
    pub method: Method,
    /// As budgets and conditions name it.
    pub reason: Reason,
    /// Nodes that go.
    pub nodes: Vec<NodeIx>,
    /// Nodes that are bought first. None for static drift: each of its nodes is replaced by one that
    /// its NodePool describes.
    pub replacements: Vec<Replacement>,
    /// Pods that move.
    pub moves: Vec<Move>,
    /// Price of the nodes less that of their replacements, USD per hour.
    pub savings: f64,
    /// What the objective gains: savings, cost of nodes and cost of moves, USD per hour.
    pub gain: f64,
    /// Eviction cost of the pods that move.
    pub disruption_cost: f64,
    /// What a consolidation policy says of it, if there is one.
    pub decision: Option<Decision>,
}

impl Proposal {
    /// A node goes: nothing is bought, no pod moves, and what it saves is not counted yet.
    pub fn of_node(node: NodeIx, method: Method) -> Self {
        Proposal {
            method,
            reason: method.reason(),
            nodes: vec![node],
            replacements: Vec::new(),
            moves: Vec::new(),
            savings: 0.0,
            gain: 0.0,
            disruption_cost: 0.0,
            decision: None,
        }
    }

    /// The proposal in the terms of the check.
    pub fn to_check(&self) -> disruption::Disruption {
        let bought = self
            .replacements
            .iter()
            .map(|of| of.claim.clone())
            .collect();
        let place = |to: To| match to {
            To::Node(node) => disruption::Place::Node(node),
            To::Replacement(at) => disruption::Place::Bought(at),
        };
        disruption::Disruption {
            reason: self.reason.name(),
            nodes: self.nodes.clone(),
            bought,
            moves: self.moves.iter().map(|m| (m.pod, place(m.to))).collect(),
            of_static: self.method == Method::StaticDrift,
        }
    }
}

/// What is wrong with proposals that would be carried out together.
///
/// # Errors
/// Everything that is wrong.
pub fn check(snapshot: &Snapshot, proposals: &[Proposal]) -> Result<(), Vec<Violation>> {
    let all: Vec<disruption::Disruption> = proposals.iter().map(Proposal::to_check).collect();
    disruption::check(snapshot, &all)
}

/// How proposals are made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Spot nodes may be replaced by spot nodes (gate SpotToSpotConsolidation).
    pub spot_to_spot: bool,
}

/// What of an outcome cannot be carried out, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropped {
    /// Nodes that stay for it.
    pub nodes: Vec<NodeIx>,
    /// The rule that it would break.
    pub why: Why,
}

/// Why a part of an outcome is dropped.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// It alone is not worth it.
    NotWorthIt(f64),
    /// Its replacements are not cheaper than its nodes.
    NotCheaper,
    /// Spot nodes would be replaced by spot nodes.
    SpotToSpot,
    /// It replaces a spot node by a spot node of so few types, see [`SPOT_FLEXIBILITY`].
    FewSpotTypes(usize),
    /// Its replacements are beyond the limits of their NodePool.
    Limits,
    /// Some of its pods have room on this node, which is not initialised yet: nothing is bought for
    /// them before it is.
    Awaits(NodeIx),
    /// A replacement cannot be had as planned.
    Replacement(ReplacementError),
}

/// The parts of an outcome, dearest nodes first, and what is dropped of it. `left` is how many nodes
/// of each NodePool may go now: of a part that is larger, as much as may go is proposed, and the rest is
/// found again afterwards.
pub fn of_state(
    c: &mut Compiled<'_>,
    outcome: SearchOutcome,
    rules: Rules,
    mut left: FxHashMap<Symbol, u32>,
) -> (Vec<Proposal>, Vec<Dropped>) {
    let mut parts = merge_spot(c, outcome.parts(c), rules);
    parts.sort_by(|a, b| {
        let dearest = |part: &Part| {
            part.nodes
                .iter()
                .map(|&at| c.nodes[at].price)
                .fold(0.0, f64::max)
        };
        dearest(b)
            .total_cmp(&dearest(a))
            .then_with(|| a.nodes.cmp(&b.nodes))
    });
    let (mut proposals, mut dropped) = (Vec::new(), Vec::new());
    let mut limits = Limits::new(c);
    for part in parts {
        let whole = fits(c, &part.nodes, &left);
        let part = match whole {
            true => part,
            false => split(c, &part, &left, rules).unwrap_or(part),
        };
        let made = proposal(c, &part, rules);
        let made = made.and_then(|made| limits.admit(c, made, false).ok_or(Why::Limits));
        match made {
            Ok(proposal) => {
                if fits(c, &part.nodes, &left) {
                    for pool in part.nodes.iter().filter_map(|&at| pool_of(c, at)) {
                        left.entry(pool).and_modify(|left| *left -= 1);
                    }
                }
                proposals.push(proposal);
            }
            Err(why) => {
                let nodes = part.nodes.iter().map(|&at| NodeIx(at as u32)).collect();
                dropped.push(Dropped { nodes, why });
            }
        }
    }
    (proposals, dropped)
}

fn pool_of(c: &Compiled<'_>, node: usize) -> Option<Symbol> {
    c.problem.snapshot.nodes[node].pool
}

/// As many nodes of a part as may go now, such that going without the others pays. What is bought for
/// them has room for the others later.
fn split(
    c: &Compiled<'_>,
    part: &Part,
    left: &FxHashMap<Symbol, u32>,
    rules: Rules,
) -> Option<Part> {
    let mut needs: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for &(node, .., target) in &part.moves {
        if let Target::Bought(at) = target {
            let of_node = needs.entry(node).or_default();
            if !of_node.contains(&at) {
                of_node.push(at);
            }
        }
    }
    let spot = |at: usize| is_spot(c, Some(c.offers[part.bought[at].0].offering));
    let mut bought = vec![false; part.bought.len()];
    let (mut chosen, mut best): (Vec<usize>, usize) = (Vec::new(), 0);
    let mut gain = 0.0;
    let (mut price, mut paid) = (0.0, 0.0);
    loop {
        let mut next: Option<(f64, usize)> = None;
        let needs_other = !rules.spot_to_spot && chosen.is_empty() && (0..bought.len()).any(spot);
        for &node in part.nodes.iter().filter(|node| !chosen.contains(node)) {
            let mut with = chosen.clone();
            with.push(node);
            if !fits(c, &with, left) || (needs_other && node_is_spot(c, node)) {
                continue;
            }
            let new = needs
                .get(&node)
                .into_iter()
                .flatten()
                .filter(|&&at| !bought[at]);
            let new: f64 = new.map(|&at| c.offers[part.bought[at].0].cost).sum();
            let marginal = c.nodes[node].cost - c.nodes[node].move_cost - new;
            if next.is_none_or(|(known, _)| marginal > known) {
                next = Some((marginal, node));
            }
        }
        let Some((marginal, node)) = next else { break };
        chosen.push(node);
        gain += marginal;
        price += c.nodes[node].price;
        for &at in needs.get(&node).into_iter().flatten() {
            if !std::mem::replace(&mut bought[at], true) {
                paid += price_of_offer(c, part.bought[at].0);
            }
        }
        if gain >= MIN_GAIN && price > paid {
            best = chosen.len();
        }
    }
    chosen.truncate(best);
    (!chosen.is_empty()).then(|| restrict(part, chosen))
}

/// A part with some of its nodes.
fn restrict(part: &Part, nodes: Vec<usize>) -> Part {
    let mut small = Part {
        bought: Vec::new(),
        moves: Vec::new(),
        nodes,
    };
    let mut place_of: FxHashMap<usize, usize> = FxHashMap::default();
    for &(node, class, pods, target) in &part.moves {
        if !small.nodes.contains(&node) {
            continue;
        }
        let target = match target {
            Target::Node(_) => target,
            Target::Bought(at) => {
                let place = *place_of.entry(at).or_insert_with(|| {
                    small.bought.push((part.bought[at].0, Vec::new()));
                    small.bought.len() - 1
                });
                small.bought[place].1.push((class, pods));
                Target::Bought(place)
            }
        };
        small.moves.push((node, class, pods, target));
    }
    small
}

/// The replacement of a drifted or unhealthy node: whatever it costs. It may take the node's share
/// of the limits before the node is gone, or a NodePool at its limits would keep such nodes for
/// ever.
pub fn of_one(
    c: &mut Compiled<'_>,
    outcome: SearchOutcome,
    method: Method,
    limits: &mut Limits,
) -> (Vec<Proposal>, Vec<Dropped>) {
    let (mut proposals, mut dropped) = (Vec::new(), Vec::new());
    for part in outcome.parts(c) {
        let made = at_any_price(c, &part, method);
        match made.and_then(|made| limits.admit(c, made, true).ok_or(Why::Limits)) {
            Ok(proposal) => proposals.push(proposal),
            Err(why) => {
                let nodes = part.nodes.iter().map(|&at| NodeIx(at as u32)).collect();
                dropped.push(Dropped { nodes, why });
            }
        }
    }
    (proposals, dropped)
}

/// Pods with their targets, and the pods of each bought node.
fn moves_of(c: &Compiled<'_>, part: &Part) -> (Vec<Move>, Vec<Vec<PodIx>>) {
    let mut pods_of: FxHashMap<(usize, u32), Vec<PodIx>> = FxHashMap::default();
    for &node in &part.nodes {
        for own in &c.nodes[node].own {
            pods_of.insert((node, own.class), own.pods.iter().rev().copied().collect());
        }
    }
    let mut moves = Vec::new();
    let mut on_bought: Vec<Vec<PodIx>> = vec![Vec::new(); part.bought.len()];
    for &(node, class, pods, target) in &part.moves {
        let Some(list) = pods_of.get_mut(&(node, class)) else {
            continue;
        };
        let pods = (pods * c.classes[class as usize].pods) as usize;
        for pod in list.split_off(list.len() - pods.min(list.len())) {
            match target {
                Target::Node(node) => moves.push(Move {
                    pod,
                    to: To::Node(NodeIx(node as u32)),
                }),
                Target::Bought(at) => {
                    on_bought[at].push(pod);
                    moves.push(Move {
                        pod,
                        to: To::Replacement(at),
                    });
                }
            }
        }
    }
    moves.sort_by_key(|m| m.pod);
    (moves, on_bought)
}

fn price_of_offer(c: &Compiled<'_>, offer: usize) -> f64 {
    c.problem
        .snapshot
        .world
        .catalogue
        .offering(c.offers[offer].offering)
        .price
}

fn described(
    c: &Compiled<'_>,
    part: &Part,
    (method, reason): (Method, Reason),
    replacements: Vec<Replacement>,
    moves: Vec<Move>,
) -> Proposal {
    let mut nodes: Vec<NodeIx> = part.nodes.iter().map(|&node| NodeIx(node as u32)).collect();
    nodes.sort_unstable();
    let price: f64 = part.nodes.iter().map(|&node| c.nodes[node].price).sum();
    let paid: f64 = replacements
        .iter()
        .map(|replacement| replacement.claim.price)
        .sum();
    Proposal {
        method,
        reason,
        disruption_cost: part.nodes.iter().map(|&node| c.nodes[node].weight).sum(),
        nodes,
        replacements,
        moves,
        savings: price - paid,
        gain: gain(c, part),
        decision: None,
    }
}

/// Karpenter's rule: nothing is bought for pods that would go onto a node that is not initialised
/// yet. Room that others are expected to take does not count.
fn awaits(c: &Compiled<'_>, part: &Part) -> Result<(), Why> {
    let awaited = (0..c.nodes.len()).filter(|&at| c.nodes[at].awaited);
    if part.bought.is_empty() {
        return Ok(());
    }
    let mut demand = Demand::none(c);
    for (_, guests) in &part.bought {
        guests.iter().for_each(|&guest| demand.add(c, guest));
    }
    let mut filler = Filler::default();
    for at in awaited {
        let place = OnAwaited(c, at);
        let (_, picks) = filler.fill(c, &demand, &c.nodes[at].free, &place);
        if !picks.is_empty() {
            return Err(Why::Awaits(NodeIx(at as u32)));
        }
    }
    Ok(())
}

/// A node that is not initialised, as if it were.
struct OnAwaited<'c, 'a>(&'c Compiled<'a>, usize);

impl Admits for OnAwaited<'_, '_> {
    fn admits(&self, class: u32) -> bool {
        let place = self.0.classes[class as usize].place;
        self.0.places[place].nodes.has(self.1)
    }

    fn there(&self, group: u32) -> u32 {
        u32::from(self.0.on_host(group, self.1))
    }
}

fn at_any_price(c: &mut Compiled<'_>, part: &Part, method: Method) -> Result<Proposal, Why> {
    awaits(c, part)?;
    let (moves, on_bought) = moves_of(c, part);
    let mut replacements = Vec::new();
    for ((offer, guests), pods) in part.bought.iter().zip(on_bought) {
        replacements
            .push(replacement(c, *offer, guests, pods, f64::INFINITY).map_err(Why::Replacement)?);
    }
    Ok(described(
        c,
        part,
        (method, method.reason()),
        replacements,
        moves,
    ))
}

fn proposal(c: &mut Compiled<'_>, part: &Part, rules: Rules) -> Result<Proposal, Why> {
    let price: f64 = part.nodes.iter().map(|&node| c.nodes[node].price).sum();
    let spot_to_spot = is_spot_to_spot(c, part);
    if spot_to_spot && !rules.spot_to_spot {
        return Err(Why::SpotToSpot);
    }
    let new: f64 = part
        .bought
        .iter()
        .map(|(offer, _)| price_of_offer(c, *offer))
        .sum();
    if !part.bought.is_empty() && new >= price {
        return Err(Why::NotCheaper);
    }
    let gain = gain(c, part);
    if gain < MIN_GAIN {
        return Err(Why::NotWorthIt(-gain));
    }
    awaits(c, part)?;
    let (moves, on_bought) = moves_of(c, part);
    let mut replacements = Vec::new();
    for ((offer, guests), pods) in part.bought.iter().zip(on_bought) {
        // All of them together, however dear they turn out, cost less than what they replace.
        // Rounding must not make as dear of cheaper.
        let most = price_of_offer(c, *offer) * price / new.max(1e-12) * (1.0 - 1e-9);
        replacements.push(replacement(c, *offer, guests, pods, most).map_err(Why::Replacement)?);
    }
    if let ([_], [one]) = (part.nodes.as_slice(), replacements.as_mut_slice())
        && spot_to_spot
    {
        if one.claim.types.len() < SPOT_FLEXIBILITY {
            return Err(Why::FewSpotTypes(one.claim.types.len()));
        }
        one.claim.types.truncate(SPOT_FLEXIBILITY);
    }
    let method = if part.nodes.len() == 1 {
        Method::SingleNode
    } else {
        Method::MultiNode
    };
    Ok(described(
        c,
        part,
        (method, Reason::Underutilized),
        replacements,
        moves,
    ))
}

/// What the objective gains if a part is carried out alone.
fn gain(c: &Compiled<'_>, part: &Part) -> f64 {
    let bought: f64 = part
        .bought
        .iter()
        .map(|(offer, _)| c.offers[*offer].cost)
        .sum();
    part.nodes
        .iter()
        .map(|&node| c.nodes[node].cost - c.nodes[node].move_cost)
        .sum::<f64>()
        - bought
}

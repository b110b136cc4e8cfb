//! What the check refuses of a round is left out, and the rest is looked for again: one pod must not
//! keep the others' nodes.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::consolidation::DisruptionPolicies;
use super::methods::{self, Round, RoundOptions, Single, Verdict};
use super::proposals::Proposal;
use super::verdicts::{Method, Stays};
use crate::check::Violation;
use crate::check::disruption::{Disruption, check, check_alone};
use crate::ids::NodeIx;
use crate::model::Symbol;
use crate::snapshot::Snapshot;
use crate::stop::Stop;

/// So often a round is looked for again without what the check has refused of the one before.
const MAX_TRIES: usize = 3;

/// Nodes that a round would have taken, and the rules that this breaks: a defect of Longshore.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// Indices into the snapshot's nodes.
    pub nodes: Vec<NodeIx>,
    /// The method that found them.
    pub method: Method,
    /// The rules that these nodes' removal would break.
    pub violations: Vec<Violation>,
}

/// Looks at a cluster once, and leaves out what the check refuses: see [`without_refused`].
pub fn round<'s>(
    snapshot: &'s Snapshot,
    policies: &'s dyn DisruptionPolicies,
    options: RoundOptions<'_>,
    stop: Stop<'_>,
) -> Round {
    let found = methods::round(snapshot, policies, options, stop);
    without_refused(snapshot, policies, options, stop, found)
}

/// A round of which all that may be carried out now keeps every rule, together. What does not is in
/// [`Round::refused`], its nodes stay, and the rest is looked for again without them.
pub fn without_refused<'s>(
    snapshot: &'s Snapshot,
    policies: &'s dyn DisruptionPolicies,
    options: RoundOptions<'_>,
    stop: Stop<'_>,
    mut round: Round,
) -> Round {
    let mut refused: Vec<Refused> = Vec::new();
    let mut except: FxHashMap<NodeIx, Arc<str>> = FxHashMap::default();
    for attempt in 0..=MAX_TRIES {
        let found = leave_out(snapshot, &mut round);
        if found.is_empty() {
            break;
        }
        for one in &found {
            let why = one.violations.first().map(ToString::to_string);
            let why: Arc<str> = why.unwrap_or_default().into();
            let nodes = one.nodes.iter();
            except.extend(nodes.map(|&node| (node, why.clone())));
        }
        refused.extend(found);
        if attempt < MAX_TRIES {
            let options = RoundOptions {
                except: Some(&except),
                ..options
            };
            round = methods::round(snapshot, policies, options, stop);
        }
    }
    for (&node, why) in &except {
        round.stays.retain(|(of, _)| *of != node);
        round.stays.push((node, Stays::BreaksRule(why.clone())));
    }
    round.stays.sort_by_key(|(node, _)| *node);
    round.refused = refused;
    round
}

/// What may be carried out by itself.
#[derive(Clone)]
enum Part {
    Proposal(Proposal),
    Single(Single),
}

impl Part {
    fn refused(&self, violations: Vec<Violation>) -> Refused {
        let (nodes, method) = match self {
            Part::Proposal(of) => (of.nodes.clone(), of.method),
            Part::Single(of) => (vec![of.node], of.method),
        };
        Refused {
            nodes,
            method,
            violations,
        }
    }
}

/// Takes out of a round what breaks a rule, alone or with what is kept before it.
fn leave_out(snapshot: &Snapshot, round: &mut Round) -> Vec<Refused> {
    let singles = round.singles.iter().copied().map(Part::Single);
    let proposals = round.now().into_iter().map(Part::Proposal);
    let all: Vec<Part> = proposals.chain(singles).collect();
    let (mut kept, mut refused) = (Vec::new(), Vec::new());
    keep(snapshot, &all, &mut kept, &mut refused);
    if refused.is_empty() {
        return refused;
    }
    let is_kept = |proposal: &Proposal| {
        let mut parts = kept.iter();
        parts.any(|part| matches!(part, Part::Proposal(of) if of == proposal))
    };
    round
        .proposals
        .retain(|(proposal, verdict)| *verdict != Verdict::Now || is_kept(proposal));
    let single = |part: &Part| match part {
        Part::Single(single) => Some(*single),
        Part::Proposal(_) => None,
    };
    round.singles = kept.iter().filter_map(single).collect();
    refused
}

/// Keeps parts: all of them, or each half of them by itself.
fn keep(snapshot: &Snapshot, more: &[Part], kept: &mut Vec<Part>, refused: &mut Vec<Refused>) {
    if more.is_empty() {
        return;
    }
    let before = kept.len();
    kept.extend_from_slice(more);
    let Err(violations) = permitted(snapshot, kept) else {
        return;
    };
    kept.truncate(before);
    if let [one] = more {
        refused.push(one.refused(violations));
        return;
    }
    let (first, second) = more.split_at(more.len() / 2);
    keep(snapshot, first, kept, refused);
    keep(snapshot, second, kept, refused);
}

/// Whether these may be carried out together.
fn permitted(snapshot: &Snapshot, parts: &[Part]) -> Result<(), Vec<Violation>> {
    let (mut together, mut alone) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Part::Proposal(proposal) => together.push(proposal.to_check()),
            Part::Single(single) => alone.push(Disruption {
                reason: single.method.reason().name(),
                nodes: vec![single.node],
                bought: Vec::new(),
                moves: Vec::new(),
                of_static: is_static(snapshot, single.node),
            }),
        }
    }
    check(snapshot, &together)?;
    check_alone(snapshot, &together, &alone)
}

/// Whether the NodePool of a node keeps a number of nodes.
fn is_static(snapshot: &Snapshot, node: NodeIx) -> bool {
    let pool: Option<Symbol> = snapshot.nodes[node.0 as usize].pool;
    let mut pools = snapshot.world.pools.iter();
    pools.any(|known| Some(known.name) == pool && known.replicas.is_some())
}

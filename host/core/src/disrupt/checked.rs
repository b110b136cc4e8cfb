//! What the check refuses of a round is left out, and the rest is looked for again: one pod must not
//! keep the others' nodes.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::consolidation::DisruptionPolicies;
use super::methods::{self, Options, Round, Single, Verdict};
use super::proposals::{self, Proposal};
use super::verdicts::{Method, Stays};
use crate::check::Violation;
use crate::check::disruption::{Disruption, check_alone};
use crate::ids::NodeIx;
use crate::model::Symbol;
use crate::snapshot::Snapshot;
use crate::stop::Stop;

/// So often a round is looked for again without what the check has refused of the one before.
const TRIES: usize = 3;

/// Nodes that a round would have taken, and the rules that this breaks: a defect of Longshore.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// The nodes.
    pub nodes: Vec<NodeIx>,
    /// The method that found them.
    pub method: Method,
    /// The rules.
    pub violations: Vec<Violation>,
}

/// A round of which all that may be carried out now keeps every rule, together. What does not is in
/// [`Round::refused`], its nodes stay, and the rest is looked for again without them.
pub fn checked<'s>(
    snapshot: &'s Snapshot,
    policies: &'s dyn DisruptionPolicies,
    options: Options<'_>,
    stop: Stop<'_>,
    mut round: Round,
) -> Round {
    let mut refused: Vec<Refused> = Vec::new();
    let mut except: FxHashMap<NodeIx, Arc<str>> = FxHashMap::default();
    for attempt in 0..=TRIES {
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
        if attempt < TRIES {
            let options = Options {
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

/// Takes out of a round what breaks a rule, alone or with what is kept before it.
fn leave_out(snapshot: &Snapshot, round: &mut Round) -> Vec<Refused> {
    let mut kept: (Vec<Proposal>, Vec<Single>) = (Vec::new(), Vec::new());
    let mut refused = Vec::new();
    let now = round.now();
    keep_proposals(snapshot, &now, &mut kept, &mut refused);
    keep_singles(snapshot, &round.singles, &mut kept, &mut refused);
    if refused.is_empty() {
        return refused;
    }
    let (proposals, singles) = kept;
    round.proposals.retain(|(proposal, verdict)| {
        *verdict != Verdict::Now || proposals.iter().any(|of| of == proposal)
    });
    round.singles = singles;
    refused
}

/// Keeps proposals: all of them, or each half of them by itself.
fn keep_proposals(
    snapshot: &Snapshot,
    more: &[Proposal],
    kept: &mut (Vec<Proposal>, Vec<Single>),
    refused: &mut Vec<Refused>,
) {
    if more.is_empty() {
        return;
    }
    let before = kept.0.len();
    kept.0.extend(more.iter().cloned());
    let Err(violations) = permitted(snapshot, &kept.0, &kept.1) else {
        return;
    };
    kept.0.truncate(before);
    if let [one] = more {
        refused.push(Refused {
            nodes: one.nodes.clone(),
            method: one.method,
            violations,
        });
        return;
    }
    let (first, second) = more.split_at(more.len() / 2);
    keep_proposals(snapshot, first, kept, refused);
    keep_proposals(snapshot, second, kept, refused);
}

/// The same for commands on one node.
fn keep_singles(
    snapshot: &Snapshot,
    more: &[Single],
    kept: &mut (Vec<Proposal>, Vec<Single>),
    refused: &mut Vec<Refused>,
) {
    if more.is_empty() {
        return;
    }
    let before = kept.1.len();
    kept.1.extend_from_slice(more);
    let Err(violations) = permitted(snapshot, &kept.0, &kept.1) else {
        return;
    };
    kept.1.truncate(before);
    if let [one] = more {
        refused.push(Refused {
            nodes: vec![one.node],
            method: one.method,
            violations,
        });
        return;
    }
    let (first, second) = more.split_at(more.len() / 2);
    keep_singles(snapshot, first, kept, refused);
    keep_singles(snapshot, second, kept, refused);
}

/// Whether these may be carried out together.
fn permitted(
    snapshot: &Snapshot,
    proposals: &[Proposal],
    singles: &[Single],
) -> Result<(), Vec<Violation>> {
    proposals::check(snapshot, proposals)?;
    let together: Vec<Disruption> = proposals.iter().map(Proposal::to_check).collect();
    let alone = |single: &Single| Disruption {
        reason: single.method.reason().name(),
        nodes: vec![single.node],
        bought: Vec::new(),
        moves: Vec::new(),
        of_static: is_static(snapshot, single.node),
    };
    let alone: Vec<Disruption> = singles.iter().map(alone).collect();
    check_alone(snapshot, &together, &alone)
}

/// Whether the NodePool of a node keeps a number of nodes.
fn is_static(snapshot: &Snapshot, node: NodeIx) -> bool {
    let pool: Option<Symbol> = snapshot.nodes[node.0 as usize].pool;
    let mut pools = snapshot.world.pools.iter();
    pools.any(|known| Some(known.name) == pool && known.replicas.is_some())
}

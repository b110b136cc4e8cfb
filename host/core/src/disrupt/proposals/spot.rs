//! Proposals that replace spot nodes by spot nodes.

use super::Rules;
use super::parts::{Part, Target};
use crate::disrupt::compiled::Compiled;

/// Kinds of instances by how they are paid for: `spot` ones get less flexible replacements.
pub(in crate::disrupt) const SPOT: &str = "spot";

/// Cheaper types that replacing one spot node by another wants.
pub const SPOT_FLEXIBILITY: usize = 15;

pub(super) fn is_spot(c: &Compiled<'_>, offering: Option<crate::model::OfferingId>) -> bool {
    let world = &c.problem.snapshot.world;
    let kind = offering.and_then(|offering| world.catalogue.offering(offering).capacity_type);
    kind.is_some_and(|kind| world.names.text(kind) == SPOT)
}

pub(super) fn node_is_spot(c: &Compiled<'_>, node: usize) -> bool {
    let snapshot = c.problem.snapshot;
    is_spot(
        c,
        crate::disrupt::costs::offering_of(snapshot, &snapshot.nodes[node]),
    )
}

/// Spot nodes alone may not be replaced by spot nodes; beside a node that is paid for by the hour they
/// may, as in Karpenter.
pub(super) fn is_spot_to_spot(c: &Compiled<'_>, part: &Part) -> bool {
    part.bought
        .iter()
        .any(|(offer, _)| is_spot(c, Some(c.offers[*offer].offering)))
        && part.nodes.iter().all(|&node| node_is_spot(c, node))
}

pub(super) fn merge_spot(c: &Compiled<'_>, parts: Vec<Part>, rules: Rules) -> Vec<Part> {
    if rules.spot_to_spot {
        return parts;
    }
    let (alone, mut others): (Vec<Part>, Vec<Part>) =
        parts.into_iter().partition(|part| is_spot_to_spot(c, part));
    let mut hosts: Vec<usize> = (0..others.len())
        .filter(|&at| others[at].nodes.iter().any(|&node| !node_is_spot(c, node)))
        .collect();
    hosts.sort_by_key(|&at| others[at].nodes.len());
    let mut turn = hosts.iter().cycle().copied();
    for part in alone {
        match turn.next() {
            Some(at) => {
                let host = &mut others[at];
                let offset = host.bought.len();
                host.nodes.extend(part.nodes);
                host.bought.extend(part.bought);
                host.moves
                    .extend(part.moves.into_iter().map(
                        |(node, class, pods, target)| match target {
                            Target::Bought(at) => (node, class, pods, Target::Bought(at + offset)),
                            Target::Node(_) => (node, class, pods, target),
                        },
                    ));
            }
            None => others.push(part),
        }
    }
    others
}

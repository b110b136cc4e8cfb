//! Drifted nodes of static NodePools: each is replaced by a node of its own NodePool. Their pods are not
//! planned for: the replacement is as large as the node.

use rustc_hash::FxHashMap;

use super::{Act, Asked};
use crate::disrupt::proposals::Proposal;
use crate::disrupt::static_capacity;
use crate::disrupt::verdicts::{Candidate, Method, Stays};
use crate::ids::NodeIx;
use crate::model::Symbol;

impl Asked<'_> {
    /// Proposes what budgets, node limits and replicas allow at once: nodes without pods first, then
    /// those that drifted first. At the node limit a node goes before its replacement is there, if
    /// `first` allows that. A consolidation policy is not asked.
    pub(super) fn static_drift(&mut self, first: bool) {
        let mut room: FxHashMap<Symbol, Result<u32, Stays>> = FxHashMap::default();
        for at in self.drifted(Method::StaticDrift) {
            let node = NodeIx(at as u32);
            let Some(pool) = self.snapshot.nodes[at].pool else {
                continue;
            };
            let world = &self.snapshot.world;
            let room = room
                .entry(pool)
                .or_insert_with(|| static_capacity::room_to_replace(world, pool));
            let why = match room {
                Err(why) => why.clone(),
                Ok(0) => {
                    // What this round has used up is not the limit's doing.
                    let act = static_capacity::replaces(world, pool, first);
                    let limit = Stays::StaticAtLimit;
                    let gone = match act {
                        Ok(Act::TerminateFirst(why)) => {
                            self.goes_first(node, Method::StaticDrift, why, limit)
                        }
                        _ => Err(limit),
                    };
                    match gone {
                        Ok(()) => continue,
                        Err(why) => why,
                    }
                }
                Ok(left) => {
                    *left -= 1;
                    let proposal = Proposal {
                        disruption_cost: self.round.candidates[at].weight,
                        ..Proposal::of_node(node, Method::StaticDrift)
                    };
                    let verdict = self.verdict(&proposal);
                    self.round.proposals.push((proposal, verdict));
                    continue;
                }
            };
            self.round.stays.push((node, why));
        }
    }

    /// Nodes that a method of drift may take: those without pods first, then those that drifted first.
    pub(super) fn drifted(&self, method: Method) -> Vec<usize> {
        let candidates = self.round.candidates.iter().enumerate();
        let may: Vec<(usize, &Candidate)> = candidates.filter(|(_, of)| of.may(method)).collect();
        if may.is_empty() {
            return Vec::new();
        }
        let since = self.drifted_since();
        let mut nodes: Vec<(bool, i64, usize)> = may
            .into_iter()
            .map(|(at, candidate)| {
                let since = since.get(&self.snapshot.nodes[at].name);
                (candidate.pods > 0, since.copied().unwrap_or(0), at)
            })
            .collect();
        nodes.sort_unstable();
        nodes.into_iter().map(|(.., at)| at).collect()
    }

    /// When each Node drifted, seconds since 1970: when it was made, where that is not known.
    fn drifted_since(&self) -> FxHashMap<Symbol, i64> {
        let world = &self.snapshot.world;
        let drifted: FxHashMap<Symbol, i64> = world
            .claims
            .iter()
            .filter_map(|claim| Some((claim.provider_id?, claim.drifted?)))
            .collect();
        let since = |id: Option<Symbol>| id.and_then(|id| drifted.get(&id).copied());
        world
            .nodes
            .iter()
            .map(|node| (node.name, since(node.provider_id).unwrap_or(node.created)))
            .collect()
    }
}

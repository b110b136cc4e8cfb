//! Nodes looked at one at a time: where no proposal may be carried out, and to explain why they stay.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Asked, Explain, Nodes, RoundOptions, SearchInput, Verdict};
use crate::disrupt::compile::NodeTerms;
use crate::disrupt::compiled::Compiled;
use crate::disrupt::decided;
use crate::disrupt::fill::Filler;
use crate::disrupt::pack;
use crate::disrupt::proposals::{self, Dropped, Proposal, SPOT, SearchOutcome, To};
use crate::disrupt::state::SearchState;
use crate::disrupt::verdicts::{Method, Reason, Stays};
use crate::ids::NodeIx;
use crate::model::{ClusterObjects, OfferingId};
use crate::snapshot::Snapshot;

/// Nodes that a consolidation policy judges alone where it lets no proposal go.
const MAX_ALONE: usize = 8;

impl Asked<'_> {
    /// Where no proposal may be carried out: nodes one at a time, each looked at alone. Of those
    /// that are found only one is proposed: the others do not know of it. Says whether it may be
    /// carried out now; nothing if there is none.
    pub(super) fn alone(
        &mut self,
        c: &mut Compiled<'_>,
        options: &RoundOptions<'_>,
    ) -> Option<bool> {
        let kept: Nodes = (self.round.proposals.iter())
            .filter(|(of, verdict)| of.nodes.len() == 1 && verdict.is_by_policy())
            .map(|(of, _)| of.nodes[0])
            .collect();
        let mut nodes: Vec<usize> = (0..c.nodes.len())
            .filter(|&at| c.nodes[at].removable)
            .collect();
        nodes.sort_by(|&a, &b| {
            c.worth_per_cost(a)
                .total_cmp(&c.worth_per_cost(b))
                .then(a.cmp(&b))
        });
        // A consolidation policy is asked about several at once.
        let most = if self.judge.is_some() { MAX_ALONE } else { 1 };
        let mut all: Vec<Proposal> = Vec::new();
        for at in nodes {
            let Some(pool) = self.snapshot.nodes[at].pool else {
                continue;
            };
            if self.left(pool, Reason::Underutilized) == 0 {
                continue;
            }
            let outcome = {
                let mut state = SearchState::new(c);
                let left = pack::pack(&mut state, &mut Filler::default(), &[at]);
                if !left.is_empty() || state.cost >= 0.0 {
                    continue;
                }
                SearchOutcome::new(&state)
            };
            let (found, _) = proposals::of_state(c, outcome, options.rules, self.left_of_all());
            // A node that was judged alone is not judged again.
            let known = |of: &Proposal| of.nodes.len() == 1 && kept.contains(&of.nodes[0]);
            all.extend(found.into_iter().take(1).filter(|of| !known(of)));
            if all.len() >= most {
                break;
            }
        }
        if let Some(judge) = &self.judge {
            judge.decide(&mut all);
            let now = self.snapshot.world.now;
            all.retain(|of| decided::kept(of, now).is_none());
            all.sort_by(|a, b| decided::priority(b).total_cmp(&decided::priority(a)));
        }
        let proposal = all.into_iter().next()?;
        let verdict = self.verdict(&proposal);
        let goes = verdict == Verdict::Now;
        self.round.proposals.push((proposal, verdict));
        Some(goes)
    }

    /// What `alone` finds if there were no spot capacity. The search replaces a spot node by the
    /// cheapest instances. Where these are spot, the replacement is not allowed, but instances on
    /// demand may be cheaper than the node as well.
    pub(super) fn alone_on_demand(
        &mut self,
        input: &SearchInput<'_>,
        snapshot: &Snapshot,
        terms: &[NodeTerms],
    ) -> Option<bool> {
        let world = &*snapshot.world;
        let kind = world.names.get(SPOT)?;
        let offerings = world.catalogue.offerings().iter().enumerate();
        let spot = offerings.filter(|(_, offering)| offering.capacity_type == Some(kind));
        // The list takes the place of the one that holds now.
        let short: Vec<_> = spot
            .map(|(at, _)| (OfferingId(at as u32), i64::MAX))
            .chain(world.catalogue.short().iter().copied())
            .collect();
        let catalogue = world.catalogue.without_capacity(&short);
        let snapshot = Snapshot::new(Arc::new(ClusterObjects {
            catalogue,
            ..world.clone()
        }));
        let mut c = self.compile_to_consolidate(input, &snapshot, terms);
        self.alone(&mut c, input.options)
    }

    /// What it would take to remove nodes that could go and do not.
    pub(super) fn explain(&mut self, c: &mut Compiled<'_>, options: &RoundOptions<'_>) {
        let which = options.explain;
        let mut left = match which {
            Explain::Nothing => return,
            Explain::All => usize::MAX,
            Explain::Some(most, _) => most,
        };
        let world = &self.snapshot.world;
        let is_known = |at: usize| {
            let name = world.names.text(self.snapshot.nodes[at].name);
            matches!(which, Explain::Some(_, known) if known.contains(name))
        };
        let proposed: Nodes = self
            .round
            .proposals
            .iter()
            .flat_map(|(proposal, _)| proposal.nodes.iter().copied())
            .collect();
        let moves = self.round.proposals.iter().flat_map(|(of, _)| &of.moves);
        let receives: Nodes = moves
            .filter_map(|of| match of.to {
                To::Node(node) => Some(node),
                To::Replacement(_) => None,
            })
            .collect();
        for at in 0..c.nodes.len() {
            let node = NodeIx(at as u32);
            if !self.round.candidates[at].may(Method::MultiNode) || proposed.contains(&node) {
                continue;
            }
            if left == 0 || is_known(at) {
                continue;
            }
            left -= 1;
            if !c.nodes[at].removable {
                if let Some(pod) = c.nodes[at].unmovable {
                    self.round.stays.push((node, c.unmovable(pod)));
                }
                continue;
            }
            let mut state = SearchState::new(c);
            let left = pack::pack_elsewhere(&mut state, &mut Filler::default(), at);
            let (cost, outcome) = (state.cost, SearchOutcome::new(&state));
            let why = match c.no_place(at, &left) {
                Some(why) => why,
                None if cost < 0.0 => match self.goes_alone(c, outcome, options) {
                    Ok(()) if receives.contains(&node) => Stays::Needed,
                    Ok(()) => Stays::NotNow,
                    Err(dropped) => {
                        self.round.dropped.push(dropped);
                        continue;
                    }
                },
                None => {
                    let judge = self.judge.as_ref();
                    let kept = judge.and_then(|judge| judge.keeps(at, cost));
                    kept.unwrap_or(Stays::NotWorthIt(cost))
                }
            };
            self.round.stays.push((node, why));
        }
    }

    /// Whether removing one node is a proposal.
    ///
    /// # Errors
    /// Why it is none.
    fn goes_alone(
        &self,
        c: &mut Compiled<'_>,
        outcome: SearchOutcome,
        options: &RoundOptions<'_>,
    ) -> Result<(), Dropped> {
        let all = FxHashMap::default();
        let (found, dropped) = proposals::of_state(c, outcome, options.rules, all);
        match dropped.into_iter().next() {
            Some(dropped) if found.is_empty() => Err(dropped),
            _ => Ok(()),
        }
    }
}

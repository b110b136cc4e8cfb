//! Proposals for drifted nodes.

use super::{Act, Asked, FirstWhy, SearchInput, Single, Verdict};
use crate::disrupt::fill::Filler;
use crate::disrupt::proposals::{Limits, Proposal, SearchOutcome};
use crate::disrupt::state::SearchState;
use crate::disrupt::verdicts::{Candidate, Method, Stays};
use crate::disrupt::{pack, proposals, static_capacity};
use crate::ids::NodeIx;
use crate::snapshot::Snapshot;

impl<'s> Asked<'s> {
    pub(super) fn drift(&mut self, input: &SearchInput<'_>) {
        let mut nodes = self.drifted(Method::Drift);
        nodes.retain(|&at| !input.going.contains(&NodeIx(at as u32)));
        let healthy = self.without_troubled();
        let usual = self.snapshot;
        let (found, mut stuck) = self.drift_in(input, healthy.as_ref().unwrap_or(usual), &nodes);
        self.admit(found);
        if healthy.is_some() {
            // What no other NodePool takes waits until its own may be bought from again.
            let left: Vec<usize> = stuck.iter().map(|&(at, _)| at).collect();
            let (found, _) = self.drift_in(input, usual, &left);
            for proposal in found {
                let pools = self.buys_from(&proposal);
                if let Some((pool, trouble)) = self.backs_off(&pools) {
                    stuck.retain(|&(at, _)| NodeIx(at as u32) != proposal.nodes[0]);
                    let verdict = Verdict::BacksOff(pool, trouble);
                    self.round.proposals.push((proposal, verdict));
                }
            }
        }
        for (at, why) in stuck {
            self.drift_first(input, at, why);
        }
    }

    /// Proposals for drifted nodes, one by one, and those whose pods find no place.
    fn drift_in(
        &mut self,
        input: &SearchInput<'_>,
        snapshot: &Snapshot,
        nodes: &[usize],
    ) -> (Vec<Proposal>, Vec<(usize, Stays)>) {
        let drifts = |candidate: &Candidate| candidate.may(Method::Drift);
        let terms = self.terms(input.options, |_, candidate| drifts(candidate));
        let mut c = input.compile(snapshot, &terms);
        for at in self.drifted(Method::Drift) {
            c.nodes[at].destination = false;
        }
        let (mut outcomes, mut stuck) = (Vec::new(), Vec::new());
        let mut filler = Filler::default();
        let mut state = SearchState::new(&c);
        for &at in nodes {
            if let Some(pod) = c.nodes[at].unmovable {
                stuck.push((at, c.unmovable(pod)));
                continue;
            }
            let (mark, before) = (state.mark(), SearchOutcome::new(&state));
            let left = pack::pack_elsewhere(&mut state, &mut filler, at);
            if let Some(why) = c.no_place(at, &left) {
                state.undo(mark);
                stuck.push((at, why));
                continue;
            }
            outcomes.push(SearchOutcome::new(&state).since(&before));
        }
        let mut limits = Limits::new(&c);
        let mut found = Vec::new();
        for outcome in outcomes {
            let (proposals, dropped) =
                proposals::of_one(&mut c, outcome, Method::Drift, &mut limits);
            found.extend(proposals);
            self.round.dropped.extend(dropped);
        }
        (found, stuck)
    }

    /// A drifted node whose pods find no place: it goes first if that frees what they need.
    fn drift_first(&mut self, input: &SearchInput<'_>, at: usize, stuck: Stays) {
        let node = NodeIx(at as u32);
        let homeless = matches!(stuck, Stays::NoPlace(_) | Stays::NoPlaceTogether(..));
        let may = homeless && input.options.terminate_first.drift && self.frees_enough(input, at);
        let first = FirstWhy::NoReservedCapacity;
        let gone = match may {
            true => self.goes_first(node, Method::Drift, first, stuck),
            false => Err(stuck),
        };
        if let Err(why) = gone {
            self.round.stays.push((node, why));
        }
    }

    /// Lets a node go before it is replaced, if the budget of its NodePool has one left and no node of
    /// the NodePool is on its way.
    ///
    /// # Errors
    /// Why it stays: `otherwise`, where the budget has none left.
    pub(super) fn goes_first(
        &mut self,
        node: NodeIx,
        method: Method,
        why: FirstWhy,
        otherwise: Stays,
    ) -> Result<(), Stays> {
        let of = &self.snapshot.nodes[node.0 as usize];
        let pool = of.pool.filter(|&pool| self.left(pool, method.reason()) > 0);
        let pool = pool.ok_or(otherwise)?;
        static_capacity::nothing_comes(&self.snapshot.world, pool, of.name)?;
        let act = Act::TerminateFirst(why);
        *self.used.entry(pool).or_default() += 1;
        self.round.singles.push(Single { node, method, act });
        Ok(())
    }
}

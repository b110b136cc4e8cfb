//! Proposals that save cost: emptiness, and consolidation by the search.

use super::{Asked, Explain, RoundOptions, SearchInput, Verdict};
use crate::disrupt::compile::NodeTerms;
use crate::disrupt::compiled::Compiled;
use crate::disrupt::proposals::{Proposal, SearchOutcome, Why};
use crate::disrupt::verdicts::{Candidate, Method};
use crate::disrupt::{bound, costs, search};
use crate::ids::NodeIx;
use crate::snapshot::Snapshot;
use crate::stop::Stop;

impl<'s> Asked<'s> {
    pub(super) fn emptiness(&mut self) {
        let candidates = self.round.candidates.iter().enumerate();
        let empty = candidates.filter(|(_, candidate)| candidate.may(Method::Emptiness));
        let mut nodes: Vec<(f64, usize)> = empty.map(|(at, _)| (self.price(at), at)).collect();
        nodes.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let node_cost = self.snapshot.world.settings.node_cost;
        let mut found = Vec::new();
        for (price, at) in nodes {
            let gain = price + node_cost - self.weight(at);
            let kept = self.judge.as_ref().filter(|_| gain < 0.0);
            if let Some(kept) = kept.and_then(|judge| judge.keeps(at, -gain)) {
                self.round.stays.push((NodeIx(at as u32), kept));
                continue;
            }
            found.push(Proposal {
                savings: price,
                gain,
                ..Proposal::of_node(NodeIx(at as u32), Method::Emptiness)
            });
        }
        self.admit(found);
    }

    /// Terms of each node for the search; `may` says which it may remove.
    pub(super) fn terms(
        &self,
        options: &RoundOptions<'_>,
        may: impl Fn(usize, &Candidate) -> bool,
    ) -> Vec<NodeTerms> {
        let move_costs = costs::move_costs(self.snapshot, options.move_cost);
        let of = |(at, candidate): (usize, &Candidate)| {
            let pool = self.snapshot.nodes[at].pool;
            let each = pool
                .and_then(|pool| move_costs.get(&pool))
                .copied()
                .unwrap_or(0.0);
            NodeTerms {
                removable: may(at, candidate),
                weight: candidate.weight,
                move_cost: each * candidate.weight + self.weight(at),
            }
        };
        self.round.candidates.iter().enumerate().map(of).collect()
    }

    pub(super) fn consolidation(&mut self, input: &SearchInput<'_>, stop: Stop<'_>) {
        let options = input.options;
        let terms = self.terms(options, |at, candidate| {
            candidate.may(Method::MultiNode) && !input.going.contains(&NodeIx(at as u32))
        });
        let all = matches!(options.explain, Explain::All);
        if !all && terms.iter().all(|of| !of.removable) {
            return;
        }
        if let Some(healthy) = self.without_troubled() {
            let before = (self.round.clone(), self.used.clone(), self.trouble.clone());
            if self.consolidate(input, &healthy, &terms, stop) {
                return;
            }
            // What it takes to say what has to pass.
            (self.round, self.used, self.trouble) = before;
        }
        self.consolidate(input, self.snapshot, &terms, stop);
    }

    /// Searches a cluster. Whether anything may be carried out now.
    fn consolidate(
        &mut self,
        input: &SearchInput<'_>,
        snapshot: &Snapshot,
        terms: &[NodeTerms],
        stop: Stop<'_>,
    ) -> bool {
        let options = input.options;
        let mut c = self.compile_to_consolidate(input, snapshot, terms);
        let bound = bound::lower_bound(&c)
            - input
                .going
                .iter()
                .map(|node| c.nodes[node.0 as usize].cost)
                .sum::<f64>();
        self.round.lower_bound = Some(bound);
        let one_by_one = options.effort.sweep_only || options.only == Some(Method::SingleNode);
        let outcome = match one_by_one {
            true => SearchOutcome::new(&search::sweep(&c, options.effort)),
            false => SearchOutcome::new(&search::search(&c, options.effort, stop)),
        };
        let (dropped, found) = (self.round.dropped.len(), self.round.proposals.len());
        let mut any = self.propose(&mut c, outcome, options);
        let waits = |(_, verdict): &(_, Verdict)| matches!(verdict, Verdict::Later(..));
        let barred =
            self.round.dropped.len() > dropped || self.round.proposals[found..].iter().any(waits);
        if !any && barred && !one_by_one {
            // What the whole search likes best is against a rule, or more than a budget lets go. A
            // shorter one may like something else, and must not be the only one to find it: what a
            // look proposes, the next one has to find again.
            let outcome = SearchOutcome::new(&search::sweep(&c, options.effort));
            any = self.propose(&mut c, outcome, options);
        }
        if !any && options.only != Some(Method::MultiNode) {
            let spot_to_spot = !options.rules.spot_to_spot
                && self
                    .round
                    .dropped
                    .iter()
                    .any(|part| part.why == Why::SpotToSpot);
            let found = self.alone(&mut c, options);
            let found = match found {
                None if spot_to_spot => self.alone_on_demand(input, snapshot, terms),
                found => found,
            };
            any = found == Some(true);
        }
        self.explain(&mut c, options);
        any
    }

    /// A cluster compiled for consolidation. It moves no pods to nodes whose own have just changed.
    pub(super) fn compile_to_consolidate<'c>(
        &self,
        input: &SearchInput<'_>,
        snapshot: &'c Snapshot,
        terms: &[NodeTerms],
    ) -> Compiled<'c> {
        let mut c = input.compile(snapshot, terms);
        for (node, candidate) in c.nodes.iter_mut().zip(&self.round.candidates) {
            node.destination &= !candidate.settles;
        }
        c
    }
}

//! Repair: at most one unhealthy node in a round, replacement first.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::{Act, Asked, Effort, FirstWhy, Nodes, RoundOptions, SearchInput, Single, Verdict};
use crate::disrupt::fill::Filler;
use crate::disrupt::pack;
use crate::disrupt::proposals::{self, Limits, Proposal, SearchOutcome, Why};
use crate::disrupt::state::SearchState;
use crate::disrupt::static_capacity;
use crate::disrupt::verdicts::{Method, Stays};
use crate::ids::{NodeIx, PodIx};
use crate::model::{ClusterObjects, NodeClaim, RepairAction, Symbol};
use crate::policy::Policies;
use crate::snapshot::{Snapshot, StateNode};
use crate::{plan, planner};

impl Asked<'_> {
    /// Repairs the first node that can be: those whose conditions are most urgent first, then those
    /// whose pods cost least to evict. Whether there was one.
    pub(super) fn repair(
        &mut self,
        policies: &dyn Policies,
        options: &RoundOptions<'_>,
        reserved: &[(NodeIx, PodIx)],
    ) -> bool {
        let due = self.due_repairs();
        if due.is_empty() {
            return false;
        }
        let input = SearchInput {
            policies,
            options: &RoundOptions {
                effort: Effort {
                    rounds: 0,
                    ..options.effort
                },
                ..*options
            },
            going: Nodes::default(),
            reserved: reserved.to_vec(),
        };
        for (at, action) in due {
            match self.repair_one(&input, at, action) {
                Ok(()) => return true,
                Err(why) => self.round.stays.push((NodeIx(at as u32), why)),
            }
        }
        false
    }

    /// Nodes that may be repaired with what is due for them, in order.
    fn due_repairs(&self) -> Vec<(usize, RepairAction)> {
        let world = &self.snapshot.world;
        let due = |at: usize| {
            let name = self.snapshot.nodes[at].name;
            let of = world.unhealthy.iter().find(|of| of.node == name);
            of.and_then(|of| of.due)
        };
        let candidates = self.round.candidates.iter().enumerate();
        let mut found: Vec<_> = candidates
            .filter(|(_, candidate)| candidate.may(Method::Repair))
            .filter_map(|(at, candidate)| Some((at, due(at)?, candidate.weight)))
            .collect();
        found.sort_by(|a, b| {
            let name = |at: usize| world.names.text(self.snapshot.nodes[at].name);
            (b.1.score.total_cmp(&a.1.score))
                .then(a.2.total_cmp(&b.2))
                .then_with(|| name(a.0).cmp(name(b.0)))
        });
        found.iter().map(|(at, due, _)| (*at, due.action)).collect()
    }

    /// Adds what repairs a node to the round. Its candidate has passed the budget, which a node that
    /// is not initialised does not need.
    fn repair_one(
        &mut self,
        input: &SearchInput<'_>,
        at: usize,
        action: RepairAction,
    ) -> Result<(), Stays> {
        if action == RepairAction::Reboot {
            self.repair_by(at, Act::Reboot);
            return Ok(());
        }
        let name = self.snapshot.nodes[at].name;
        let world = &self.snapshot.world;
        let pool = self.snapshot.nodes[at].pool;
        let record = world.pools.iter().find(|record| Some(record.name) == pool);
        if let Some(record) = record.filter(|record| record.replicas.is_some()) {
            let first = input.options.terminate_first.repair;
            let act = static_capacity::replaces(world, record.name, first)?;
            if act == Act::ReplaceStatic
                && let Some((_, trouble)) = self.backs_off(&[record.name])
            {
                return Err(trouble.stays());
            }
            if matches!(act, Act::TerminateFirst(_)) {
                static_capacity::nothing_comes(world, record.name, name)?;
            }
            self.repair_by(at, act);
            return Ok(());
        }
        let proposal = if self.round.candidates[at].pods == 0 {
            let price = self.price(at);
            Proposal {
                savings: price,
                gain: price + world.settings.node_cost,
                ..Proposal::of_node(NodeIx(at as u32), Method::Repair)
            }
        } else {
            let healthy = self.without_troubled();
            let usual = self.snapshot;
            let mut found = self.moved_elsewhere(input, healthy.as_ref().unwrap_or(usual), at);
            if healthy.is_some() && found.is_err() {
                found = self.moved_elsewhere(input, usual, at);
            }
            match found {
                Err(Stays::NoPlace(_) | Stays::NoPlaceTogether(..))
                    if input.options.terminate_first.repair && self.frees_enough(input, at) =>
                {
                    if let Some(pool) = pool {
                        static_capacity::nothing_comes(world, pool, name)?;
                    }
                    self.repair_by(at, Act::TerminateFirst(FirstWhy::NoReservedCapacity));
                    return Ok(());
                }
                found => found?,
            }
        };
        let pools = self.buys_from(&proposal);
        if let Some((_, trouble)) = self.backs_off(&pools) {
            return Err(trouble.stays());
        }
        self.round.proposals.push((proposal, Verdict::Now));
        Ok(())
    }

    fn repair_by(&mut self, at: usize, act: Act) {
        self.round.singles.push(Single {
            node: NodeIx(at as u32),
            method: Method::Repair,
            act,
        });
    }

    /// A proposal that moves the pods of an unhealthy node to healthy ones and to what is bought.
    fn moved_elsewhere(
        &mut self,
        input: &SearchInput<'_>,
        snapshot: &Snapshot,
        at: usize,
    ) -> Result<Proposal, Stays> {
        let terms = self.terms(input.options, |of, _| of == at);
        let mut c = input.compile(snapshot, &terms);
        for (of, candidate) in self.round.candidates.iter().enumerate() {
            // An unhealthy node is no place for the pods of another.
            let healthy = candidate.refusal(Method::Repair) == Some(&Stays::Healthy);
            c.nodes[of].destination &= healthy;
        }
        if let Some(pod) = c.nodes[at].unmovable {
            return Err(c.unmovable(pod));
        }
        let mut state = SearchState::new(&c);
        let left = pack::pack_elsewhere(&mut state, &mut Filler::default(), at);
        if let Some(why) = c.no_place(at, &left) {
            return Err(why);
        }
        let outcome = SearchOutcome::new(&state);
        let mut limits = Limits::new(&c);
        let (found, dropped) = proposals::of_one(&mut c, outcome, Method::Repair, &mut limits);
        let awaited = dropped.iter().find_map(|part| match part.why {
            Why::Awaits(node) => Some(Stays::Awaits(node)),
            _ => None,
        });
        self.round.dropped.extend(dropped);
        let first = self.snapshot.nodes[at]
            .own_pods(&self.snapshot.world)
            .next();
        let pod = first.unwrap_or(PodIx(0));
        let found = found.into_iter().next();
        found.ok_or(awaited.unwrap_or(Stays::NoPlace(pod)))
    }

    /// Whether all pods of a node find a place once the slot of the capacity reservation that it
    /// holds is free. Pods that wait are not in the way: they may take the slot later.
    pub(super) fn frees_enough(&self, input: &SearchInput<'_>, at: usize) -> bool {
        let world = &*self.snapshot.world;
        let node = &self.snapshot.nodes[at];
        let label = |key: &str| world.names.get(key).and_then(|key| node.labels.get(key));
        let slot = label("karpenter.sh/capacity-type")
            .filter(|kind| world.names.text(*kind) == "reserved")
            .and_then(|_| self.reservation_of(node));
        let Some(slot) = slot else { return false };
        let record = world.nodes.iter().find(|record| record.name == node.name);
        let id = record.and_then(|record| record.provider_id);
        let going = |claim: &NodeClaim| {
            claim.node_name == Some(node.name) || (id.is_some() && claim.provider_id == id)
        };
        let mut after = ClusterObjects {
            catalogue: world.catalogue.with_one_more(slot),
            ..world.clone()
        };
        let Some(of) = (0..after.claims.len()).find(|&of| going(&after.claims[of])) else {
            return false;
        };
        after.claims[of].deleting = true;
        let after = Snapshot::new(Arc::new(after));
        let options = planner::PlanOptions {
            effort: plan::Effort::None,
            seed: 0,
        };
        let Ok(found) = planner::plan(&after, input.policies, options) else {
            return false;
        };
        let own: FxHashSet<PodIx> = node.own_pods(world).collect();
        !found.unplaced.iter().any(|of| own.contains(&of.pod))
    }

    /// The capacity reservation that a node's labels name.
    fn reservation_of(&self, node: &StateNode) -> Option<Symbol> {
        let offerings = self.snapshot.world.catalogue.offerings().iter();
        let mut known = offerings.filter_map(|offering| offering.reservation);
        let has = |id: Symbol| node.labels.iter().any(|(_, value)| value == id);
        known.find(|&(id, _)| has(id)).map(|(id, _)| id)
    }
}

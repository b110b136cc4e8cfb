//! Repair: at most one unhealthy node in a round, replacement first.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::{Act, Asked, Effort, FirstWhy, Nodes, Options, SearchInput, Single, Verdict};
use crate::disrupt::fill::Filler;
use crate::disrupt::pack;
use crate::disrupt::proposals::{self, Limits, Outcome, Proposal};
use crate::disrupt::state::State;
use crate::disrupt::static_capacity;
use crate::disrupt::verdicts::{Method, Reason, Stays};
use crate::ids::{NodeIx, PodIx};
use crate::model::{ClusterObjects, NodeClaim, RepairAction, Symbol};
use crate::policy::Policies;
use crate::snapshot::{Snapshot, StateNode};
use crate::{plan, planner};

/// What is found for one node.
enum Found {
    Proposal(Box<Proposal>),
    Single(Act),
}

impl Asked<'_> {
    /// Repairs the first node that can be: those whose conditions are most urgent first, then those
    /// whose pods cost least to evict. Whether there was one.
    pub(super) fn repair(
        &mut self,
        policies: &dyn Policies,
        options: &Options,
        reserved: &[(NodeIx, PodIx)],
    ) -> bool {
        let due = self.due_repairs();
        if due.is_empty() {
            return false;
        }
        let input = SearchInput {
            policies,
            options: &Options {
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
            match self.repaired(&input, at, action) {
                Ok(Found::Single(act)) => {
                    self.round.singles.push(Single {
                        node: NodeIx(at as u32),
                        method: Method::Repair,
                        act,
                    });
                    return true;
                }
                Ok(Found::Proposal(proposal)) => {
                    // Its candidate has passed the budget, which a node that is not initialised
                    // does not need.
                    self.round.proposals.push((*proposal, Verdict::Now));
                    return true;
                }
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

    fn repaired(
        &mut self,
        input: &SearchInput<'_>,
        at: usize,
        action: RepairAction,
    ) -> Result<Found, Stays> {
        if action == RepairAction::Reboot {
            return Ok(Found::Single(Act::Reboot));
        }
        let world = &self.snapshot.world;
        let pool = self.snapshot.nodes[at].pool;
        let record = world.pools.iter().find(|record| Some(record.name) == pool);
        if let Some(record) = record.filter(|record| record.replicas.is_some()) {
            let first = input.options.terminate_first.repair;
            return static_capacity::replaces(world, record.name, first).map(Found::Single);
        }
        if self.round.candidates[at].pods == 0 {
            return Ok(Found::Proposal(Box::new(self.empty(at, Method::Repair))));
        }
        let terms = self.terms(input.options, |of, _| of == at);
        let mut c = input.compile(self.snapshot, &terms);
        for (of, candidate) in self.round.candidates.iter().enumerate() {
            // A sick node is no place for the pods of another.
            let healthy = candidate.refusal(Method::Repair) == Some(&Stays::Healthy);
            c.nodes[of].destination &= healthy;
        }
        let pods = self.snapshot.nodes[at].pods.iter();
        let unknown = pods.copied().find(|pod| !c.members.contains_key(pod));
        if !c.nodes[at].removable {
            return Err(Stays::NotModelled(unknown.unwrap_or(PodIx(0))));
        }
        let outcome = {
            let mut state = State::new(&c);
            let left = pack::pack(&mut state, &mut Filler::default(), &[at]);
            let own = |class: u32| c.nodes[at].own.iter().find(|own| own.class == class);
            match left.first() {
                None => Ok(Outcome::new(&state)),
                Some(&(class, _)) => {
                    let pod = own(class).and_then(|own| own.pods.first());
                    Err(pod.copied().unwrap_or(PodIx(0)))
                }
            }
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(_) if input.options.terminate_first.repair && self.frees_enough(input, at) => {
                let act = Act::TerminateFirst(FirstWhy::NoReservedCapacity);
                return Ok(Found::Single(act));
            }
            Err(pod) => return Err(Stays::NoPlace(pod)),
        };
        let mut limits = Limits::new(&c);
        let (found, dropped) = proposals::of_one(&mut c, outcome, Method::Repair, &mut limits);
        self.round.dropped.extend(dropped);
        let found = found.into_iter().next();
        let why = Stays::NoPlace(unknown.unwrap_or(PodIx(0)));
        found.map(|one| Found::Proposal(Box::new(one))).ok_or(why)
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
        let options = planner::Options {
            effort: plan::Effort::None,
            seed: 0,
        };
        let Ok(found) = planner::plan(&after, input.policies, options) else {
            return false;
        };
        let own: FxHashSet<PodIx> = node.pods.iter().copied().collect();
        !found.unplaced.iter().any(|of| own.contains(&of.pod))
    }

    /// The capacity reservation that a node's labels name.
    fn reservation_of(&self, node: &StateNode) -> Option<Symbol> {
        let offerings = self.snapshot.world.catalogue.offerings().iter();
        let mut known = offerings.filter_map(|offering| offering.reservation);
        let has = |id: Symbol| node.labels.iter().any(|(_, value)| value == id);
        known.find(|&(id, _)| has(id)).map(|(id, _)| id)
    }

    /// A proposal that removes a node without pods that would move.
    pub(super) fn empty(&self, at: usize, method: Method) -> Proposal {
        let price = self.price(at);
        let reason = method.reason();
        let gain = price + self.snapshot.world.settings.node_cost;
        debug_assert!(matches!(reason, Reason::Empty | Reason::Unhealthy));
        Proposal {
            method,
            reason,
            nodes: vec![NodeIx(at as u32)],
            replacements: Vec::new(),
            moves: Vec::new(),
            savings: price,
            gain,
            disruption_cost: 0.0,
            decision: None,
        }
    }
}

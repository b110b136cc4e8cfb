//! Questions to consolidation policies that no search has found: about any nodes of a cluster, for any
//! reason, at any time of two weeks. They are asked one after the other, so thousands of them take as
//! long as one search.

use longshore_core::disrupt::budgets::Budgets;
use longshore_core::disrupt::consolidation::{Decision, Facts};
use longshore_core::disrupt::proposals::{Move, Proposal, Replacement, To};
use longshore_core::disrupt::verdicts::{Candidate, Method, candidates};
use longshore_core::ids::{NodeIx, PoolIx};
use longshore_core::model::{OfferingId, Resources};
use longshore_core::plan::PlannedClaim;
use longshore_core::policy::{ByPrice, Policies};
use longshore_core::snapshot::Snapshot;

use crate::clusters::{Cluster, NOW, OFFERINGS, cluster, snapshot};
use crate::judges::{Broken, Judge, JudgeProperty, shown};
use crate::random::Random;

/// What is asked about in two weeks, seconds.
const TWO_WEEKS: usize = 14 * 24 * 3600;
/// Proposals of a call at most.
const OF_A_CALL: usize = 6;

/// Proposals for one cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    pub cluster: Cluster,
    /// Seconds after [`NOW`].
    at: i64,
    /// The proposals of each call.
    calls: Vec<Vec<Removal>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Removal {
    method: Method,
    /// Positions of nodes, at least one.
    nodes: Vec<usize>,
    /// What is bought instead.
    bought: Option<OfferingId>,
}

/// So many proposals for the cluster of a question.
pub fn drawn(seed: u64, number: u64, proposals: u64) -> Drawn {
    let cluster = cluster(seed, number);
    // Other numbers than those that made the cluster.
    let random = &mut Random::new(!seed, number);
    let mut left = proposals as usize;
    let mut calls = Vec::new();
    while left > 0 {
        let of_call = (1 + random.below(OF_A_CALL)).min(left);
        left -= of_call;
        calls.push((0..of_call).map(|_| removal(&cluster, random)).collect());
    }
    Drawn {
        cluster,
        at: random.below(TWO_WEEKS) as i64,
        calls,
    }
}

fn removal(of: &Cluster, random: &mut Random) -> Removal {
    let chosen: Vec<usize> = (0..of.nodes.len()).filter(|_| random.once_in(2)).collect();
    let nodes = match chosen.is_empty() {
        true => vec![random.below(of.nodes.len())],
        false => chosen,
    };
    let method = random.pick(&[
        Method::Emptiness,
        Method::Drift,
        Method::MultiNode,
        Method::SingleNode,
    ]);
    let buys = method != Method::Emptiness && random.once_in(2);
    let bought = buys.then(|| OfferingId(random.below(OFFERINGS) as u32));
    Removal {
        method,
        nodes,
        bought,
    }
}

/// A cluster, and what is the same for each time that it is asked about.
struct Seen {
    snapshot: Snapshot,
    budgets: Budgets,
    candidates: Vec<Candidate>,
}

impl Seen {
    fn facts(&self, policies: &dyn Policies) -> Facts<'_> {
        Facts::new(&self.snapshot, &self.candidates, &self.budgets, policies)
    }
}

impl Drawn {
    /// Asks all of them, and again: at once, and then of a fresh instance in the opposite order.
    pub fn ask(&self, judge: &mut dyn Judge) -> Result<(), Broken> {
        let mut world = self.cluster.world();
        world.now = NOW + self.at;
        let snapshot = snapshot(world);
        let budgets = Budgets::new(&snapshot.world);
        let seen = Seen {
            candidates: candidates(&snapshot, &budgets),
            snapshot,
            budgets,
        };
        let facts = seen.facts(&ByPrice);
        let of_call = |call: &Vec<Removal>| call.iter().map(|one| one.proposal(&facts)).collect();
        let calls: Vec<Vec<Proposal>> = self.calls.iter().map(of_call).collect();
        let forward: Vec<usize> = (0..calls.len()).flat_map(|at| [at, at]).collect();
        let backward: Vec<usize> = (0..calls.len()).rev().collect();
        judge.fresh();
        let mut said = self.said(judge, &seen, &calls, &forward)?;
        judge.fresh();
        let again = self.said(judge, &seen, &calls, &backward)?;
        said.sort_by_key(|(at, _)| *at);
        for (twice, other) in said.chunks(2).zip(again.iter().rev()) {
            let [(at, first), (_, second)] = twice else {
                continue;
            };
            self.alike(&seen.snapshot, &calls[*at], first, second, "asked again")?;
            let fresh = "asked of a fresh instance, in another order";
            self.alike(&seen.snapshot, &calls[*at], first, &other.1, fresh)?;
            self.says_why(&seen.snapshot, &calls[*at], first)?;
        }
        Ok(())
    }

    /// What is said of calls, in this order.
    fn said(
        &self,
        judge: &dyn Judge,
        seen: &Seen,
        calls: &[Vec<Proposal>],
        order: &[usize],
    ) -> Result<Vec<(usize, Vec<Decision>)>, Broken> {
        let mut said = Vec::new();
        let failed = judge.ask(seen.snapshot.world.now, &mut |policies| {
            let facts = seen.facts(policies);
            let Some(policy) = policies.consolidation() else {
                return;
            };
            policy.weigh(&facts);
            said.extend(
                order
                    .iter()
                    .map(|&at| (at, policy.decide(&facts, &calls[at]))),
            );
        });
        match failed.into_iter().next() {
            Some(why) => Err((JudgeProperty::Answers, self.when(&why))),
            None => Ok(said),
        }
    }

    fn alike(
        &self,
        of: &Snapshot,
        call: &[Proposal],
        first: &[Decision],
        second: &[Decision],
        when: &str,
    ) -> Result<(), Broken> {
        let mut both = call.iter().zip(first.iter().zip(second));
        match both.find(|(_, (first, second))| first != second) {
            Some((proposal, _)) => {
                let why = format!("{when} it says something else: {}", shown(of, proposal));
                Err((JudgeProperty::Alike, self.when(&why)))
            }
            None => Ok(()),
        }
    }

    fn says_why(&self, of: &Snapshot, call: &[Proposal], said: &[Decision]) -> Result<(), Broken> {
        let keeps = |decision: &Decision| {
            decision.priority < 0.0 || decision.not_before > of.world.now as f64
        };
        let is_silent = |decision: &Decision| decision.reason.trim().is_empty();
        let mut all = call.iter().zip(said);
        match all.find(|(_, decision)| keeps(decision) && is_silent(decision)) {
            Some((proposal, _)) => {
                let why = format!("without a reason it keeps {}", shown(of, proposal));
                Err((JudgeProperty::SaysWhy, self.when(&why)))
            }
            None => Ok(()),
        }
    }

    /// With the time at which it was asked.
    fn when(&self, why: &str) -> String {
        let hours = self.at / 3600;
        format!("{why} (asked {hours} h after the cluster was seen)")
    }

    /// Questions that are a step smaller.
    pub fn smaller(&self) -> Vec<Drawn> {
        let mut all = Vec::new();
        let mut with = |change: &dyn Fn(&mut Drawn)| {
            let mut other = self.clone();
            change(&mut other);
            other.calls.retain(|call| !call.is_empty());
            if other != *self && !other.calls.is_empty() {
                all.push(other);
            }
        };
        let calls = self.calls.len();
        with(&|of| of.calls.truncate(calls / 2));
        with(&|of| drop(of.calls.drain(..calls / 2)));
        for call in 0..calls {
            with(&|of| drop(of.calls.remove(call)));
            for at in 0..self.calls[call].len() {
                with(&|of| drop(of.calls[call].remove(at)));
                with(&|of| of.calls[call][at].nodes.truncate(1));
                with(&|of| of.calls[call][at].bought = None);
            }
        }
        for at in 0..self.cluster.nodes.len() {
            with(&|of| of.remove_node(at));
        }
        with(&|of| of.at = 0);
        for cluster in self.cluster.smaller() {
            if cluster.nodes.len() == self.cluster.nodes.len() {
                with(&|of| of.cluster = cluster.clone());
            }
        }
        all
    }

    fn remove_node(&mut self, at: usize) {
        self.cluster.remove_node(at);
        for call in &mut self.calls {
            for removal in call.iter_mut() {
                removal.nodes.retain(|node| *node != at);
                let later = removal.nodes.iter_mut().filter(|node| **node > at);
                later.for_each(|node| *node -= 1);
            }
            call.retain(|removal| !removal.nodes.is_empty());
        }
    }
}

impl Removal {
    fn proposal(&self, facts: &Facts<'_>) -> Proposal {
        let (of, world) = (facts.snapshot, &facts.snapshot.world);
        let position = |node: &usize| {
            let name = world.names.get(&Cluster::node_name(*node));
            of.nodes.iter().position(|of| Some(of.name) == name)
        };
        let nodes = self.nodes.iter().filter_map(position);
        let nodes: Vec<NodeIx> = nodes.map(|at| NodeIx(at as u32)).collect();
        let pods = nodes
            .iter()
            .flat_map(|node| &of.nodes[node.0 as usize].pods);
        let moves: Vec<Move> = pods
            .map(|&pod| Move {
                pod,
                to: To::Replacement(0),
            })
            .collect();
        let claim = |offering: OfferingId| {
            let price = world.catalogue.offering(offering).price;
            Replacement {
                claim: PlannedClaim {
                    pool: PoolIx(0),
                    offering,
                    types: Vec::new(),
                    requirements: Vec::new(),
                    open: Vec::new(),
                    price,
                    effective_cost: price,
                    pods: moves.iter().map(|of| of.pod).collect(),
                    requests: Resources::default(),
                    min_values_relaxed: false,
                    discouraged_by: None,
                    dearer_at_same_price: false,
                },
                worst_price: price,
            }
        };
        let mut proposal = Proposal {
            nodes,
            replacements: self.bought.map(claim).into_iter().collect(),
            disruption_cost: moves.len() as f64,
            moves,
            ..Proposal::of_node(NodeIx(0), self.method)
        };
        proposal.savings = facts.savings(&proposal);
        proposal
    }
}

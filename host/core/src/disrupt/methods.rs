//! One round of disruption: every method in its order, within the budgets.
//!
//! Unhealthy nodes are repaired first, one in a round that does nothing else. Empty nodes follow,
//! then drifted ones, one by one. Consolidation waits for a round without drift, so that it does
//! not pack pods onto nodes that are about to be replaced.

mod alone;
mod consolidate;
mod drift;
mod repair;
mod static_drift;

use std::collections::BTreeSet;
use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::backoff;
use super::budgets::Budgets;
use super::checked::Refused;
use super::compile::NodeTerms;
use super::compiled::Compiled;
use super::consolidation::{DisruptionPolicies, Facts};
use super::costs::{self, MoveCost};
use super::decided::{self, Judge};
use super::proposals;
use super::proposals::{Dropped, NODEPOOL, Proposal, Rules, SearchOutcome};
use super::search::Effort;
use super::verdicts::{self, COMMAND, Candidate, Method, REPLACES, Reason, Stays};
use crate::ids::{NodeIx, PodIx, PoolIx};
use crate::model::{ClusterObjects, NodeClaim, Symbol};
use crate::policy::Policies;
use crate::snapshot::Snapshot;
use crate::stop::Stop;

/// How to look for disruption.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundOptions<'a> {
    /// What one moved pod must save where its NodePool does not say. Without it, the NodePool's policy
    /// decides.
    pub move_cost: Option<MoveCost>,
    /// The only method that may find something. `None` for all methods.
    pub only: Option<Method>,
    /// Which replacements proposals may have.
    pub rules: Rules,
    /// Limits of the search, in steps.
    pub effort: Effort,
    /// Which nodes that stay are asked what it would take to remove them.
    pub explain: Explain<'a>,
    /// What may be deleted before its replacement is there.
    pub terminate_first: TerminateFirst,
    /// Nodes that stay because the check refuses what was planned for them: the rule.
    pub except: Option<&'a FxHashMap<NodeIx, Arc<str>>>,
}

/// Which nodes that stay are asked what it would take to remove them.
#[derive(Clone, Copy, Debug, Default)]
pub enum Explain<'a> {
    /// No node is asked about.
    #[default]
    Nothing,
    /// Every node that stays.
    All,
    /// At most so many, and none of these names.
    Some(usize, &'a BTreeSet<String>),
}

/// Methods that may delete a node before its replacement is there, where the replacement needs
/// what the node holds (gates TerminateFirstDrift and TerminateFirstRepair).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminateFirst {
    /// Drift, of static NodePools too.
    pub drift: bool,
    /// Repair, of static NodePools too.
    pub repair: bool,
}

impl RoundOptions<'_> {
    fn asks(&self, method: Method) -> bool {
        self.only.is_none_or(|only| only == method)
    }
}

/// Whether a proposal may be carried out now.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Budgets and policies allow it.
    Now,
    /// A budget of a NodePool has to have more left: its name and what is left.
    Later(Symbol, u32),
    /// Commands on nodes of a NodePool have failed, and it would buy again: what has to pass.
    BacksOff(Symbol, Trouble),
    /// A consolidation policy says no: see [`Proposal::decision`].
    Refused,
    /// A consolidation policy says not yet: see [`Proposal::decision`].
    Deferred,
}

impl Verdict {
    /// A consolidation policy is in the way.
    pub fn is_by_policy(&self) -> bool {
        matches!(self, Verdict::Refused | Verdict::Deferred)
    }
}

/// What keeps a NodePool whose commands have failed from buying again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Time: until this second since 1970.
    Until(i64),
    /// The command that is tried now.
    OneAtATime,
}

impl Trouble {
    fn stays(self) -> Stays {
        match self {
            Trouble::Until(until) => Stays::BacksOff(until),
            Trouble::OneAtATime => Stays::OneAtATime,
        }
    }
}

/// A command on one node that needs no place for its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Single {
    /// Index into the snapshot's nodes.
    pub node: NodeIx,
    /// The method that found it.
    pub method: Method,
    /// What is done with it.
    pub act: Act,
}

/// What is done with one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A node of its static NodePool takes its place.
    ReplaceStatic,
    /// Its machine is started anew; it keeps its place and its pods come back.
    Reboot,
    /// It goes first: what its replacement needs is what it holds.
    TerminateFirst(FirstWhy),
}

/// Why a node goes before it is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstWhy {
    /// Its pods need the capacity reservation that it holds a slot of.
    NoReservedCapacity,
    /// Its static NodePool is at its node limit.
    StaticAtLimit,
}

/// What of a look changes with time alone: which methods may take each node, how many nodes of each
/// NodePool may go for each reason, which NodePools wait after failures or may not be bought from, and
/// which Nodes count as hosts without pods. Two looks at one unchanged cluster find the same where
/// their questions are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    may: Vec<[bool; Method::ALL.len()]>,
    left: Vec<[u32; Reason::ALL.len()]>,
    waits: Vec<bool>,
    bought_from: Vec<PoolIx>,
    tried_once: Vec<PoolIx>,
    hosts_without_pods: Vec<u32>,
}

impl Question {
    /// How many nodes of a NodePool may go for a reason, before anything is proposed; `u32::MAX`
    /// where no budget is active.
    pub fn left(&self, pool: PoolIx, reason: Reason) -> u32 {
        let of = Reason::ALL.iter().position(|known| *known == reason);
        let pool = self.left.get(pool.0 as usize);
        pool.zip(of).map_or(0, |(left, at)| left[at])
    }

    fn new(snapshot: &Snapshot, candidates: &[Candidate], budgets: &Budgets) -> Self {
        let pools = snapshot.world.pools.iter();
        let left = pools.map(|pool| Reason::ALL.map(|of| budgets.of(pool.name, of).nodes));
        let may = candidates
            .iter()
            .map(|of| Method::ALL.map(|method| of.may(method)));
        let now = snapshot.world.now;
        let waits = snapshot.world.pools.iter();
        let waits = waits.map(|pool| backoff::waits(pool, now).is_some());
        Question {
            may: may.collect(),
            left: left.collect(),
            waits: waits.collect(),
            bought_from: snapshot.pools.clone(),
            tried_once: snapshot.trial.clone(),
            hosts_without_pods: snapshot.hosts_without_pods.clone(),
        }
    }
}

/// What one round finds.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Which nodes may go, and what budgets leave, before anything is proposed.
    pub question: Question,
    /// Proposals, each with its verdict. Those that may be carried out now do not depend on each other.
    pub proposals: Vec<(Proposal, Verdict)>,
    /// Parts of the search's outcome that may not be carried out.
    pub dropped: Vec<Dropped>,
    /// Candidates, in the order of [`Snapshot::nodes`].
    pub candidates: Vec<Candidate>,
    /// Commands on one node that need no place for its pods.
    pub singles: Vec<Single>,
    /// Why each node stays that consolidation could have taken.
    pub stays: Vec<(NodeIx, Stays)>,
    /// What the check has refused: [`without_refused`](super::checked::without_refused) fills it.
    pub refused: Vec<Refused>,
    /// No outcome has a smaller objective, USD per hour; nothing if consolidation was not asked, or
    /// may take no node and none is explained.
    pub lower_bound: Option<f64>,
}

impl Round {
    /// Proposals that may be carried out now.
    pub fn now(&self) -> Vec<Proposal> {
        let now = self
            .proposals
            .iter()
            .filter(|(_, verdict)| *verdict == Verdict::Now);
        now.map(|(proposal, _)| proposal.clone()).collect()
    }
}

/// Looks at a cluster once.
pub fn round<'s>(
    snapshot: &'s Snapshot,
    policies: &'s dyn DisruptionPolicies,
    options: RoundOptions<'_>,
    stop: Stop<'_>,
) -> Round {
    answer(snapshot, policies, options, stop, ask(snapshot))
}

/// Which nodes may go, what budgets leave, and both as a question.
fn ask(snapshot: &Snapshot) -> (Question, Budgets, Vec<Candidate>) {
    let budgets = Budgets::new(&snapshot.world);
    let candidates = verdicts::candidates(snapshot, &budgets);
    let question = Question::new(snapshot, &candidates, &budgets);
    (question, budgets, candidates)
}

/// Looks at a cluster that is as it was when `before` was asked; nothing if the question is the
/// same.
pub fn round_if_new<'s>(
    snapshot: &'s Snapshot,
    policies: &'s dyn DisruptionPolicies,
    options: RoundOptions<'_>,
    stop: Stop<'_>,
    before: &Question,
) -> Option<Round> {
    let found = ask(snapshot);
    if *before == found.0 {
        return None;
    }
    Some(answer(snapshot, policies, options, stop, found))
}

fn answer<'s>(
    snapshot: &'s Snapshot,
    policies: &'s dyn DisruptionPolicies,
    options: RoundOptions<'_>,
    stop: Stop<'_>,
    (question, budgets, mut candidates): (Question, Budgets, Vec<Candidate>),
) -> Round {
    let reserved = room_for_pending(snapshot, policies);
    for &(node, pod) in &reserved {
        candidates[node.0 as usize].refuse(&Stays::Nominated(pod));
    }
    for (&node, why) in options.except.into_iter().flatten() {
        candidates[node.0 as usize].refuse(&Stays::BreaksRule(why.clone()));
    }
    let judge = policies.consolidation().map(|policy| {
        let facts = Facts::new(snapshot, &candidates, &budgets, policies);
        Judge::new(policy, facts, &mut candidates)
    });
    let mut asked = Asked {
        snapshot,
        budgets,
        judge,
        trouble: trouble(&snapshot.world),
        used: FxHashMap::default(),
        round: Round {
            question,
            ..Round::default()
        },
    };
    asked.round.candidates = candidates;
    if options.asks(Method::Repair) && asked.repair(policies, &options, &reserved) {
        return asked.round;
    }
    if options.asks(Method::Emptiness) {
        asked.emptiness();
    }
    if options.asks(Method::StaticDrift) {
        asked.static_drift(options.terminate_first.drift);
    }
    let input = SearchInput {
        policies,
        options: &options,
        going: asked.going(),
        reserved,
    };
    if options.asks(Method::Drift) && asked.any(Method::Drift, &input.going) {
        asked.drift(&input);
    }
    // What only has to wait for its own NodePool keeps no other from being consolidated.
    let drifts = asked.round.proposals.iter().any(|(proposal, verdict)| {
        let goes = matches!(verdict, Verdict::Now | Verdict::Later(..));
        proposal.method == Method::Drift && goes
    });
    if !drifts && (options.asks(Method::MultiNode) || options.asks(Method::SingleNode)) {
        asked.consolidation(&input, stop);
    }
    asked.round
}

/// Pods that wait, and the existing nodes that have room for them. One that kube-scheduler refuses on a
/// node that was bought for it holds no room: the node goes if nothing else uses it.
fn room_for_pending(snapshot: &Snapshot, policies: &dyn Policies) -> Vec<(NodeIx, PodIx)> {
    use crate::planner::{PlanOptions, plan};
    if snapshot.pending.is_empty() {
        return Vec::new();
    }
    let options = PlanOptions {
        effort: crate::plan::Effort::None,
        seed: 0,
    };
    let Ok(plan) = plan(snapshot, policies, options) else {
        return Vec::new();
    };
    let refused = snapshot.pending.iter().filter(|pending| {
        let useless = pending.useless.as_ref();
        useless.is_some_and(|useless| useless.times > 0)
    });
    let refused: FxHashSet<PodIx> = refused.map(|pending| pending.pod).collect();
    let room = plan.on_existing_nodes.iter();
    room.flat_map(|at| at.pods.iter().map(|&pod| (at.node, pod)))
        .filter(|(_, pod)| !refused.contains(pod))
        .collect()
}

/// Nodes, in the order in which they were found.
type Nodes = IndexSet<NodeIx, FxBuildHasher>;

/// What the methods that search are given.
struct SearchInput<'i> {
    policies: &'i dyn Policies,
    options: &'i RoundOptions<'i>,
    /// Nodes that earlier methods take now.
    going: Nodes,
    /// Room that pending pods will take.
    reserved: Vec<(NodeIx, PodIx)>,
}

impl SearchInput<'_> {
    /// A cluster compiled for a search. Nodes that earlier methods take are no destinations.
    fn compile<'s>(&self, snapshot: &'s Snapshot, terms: &[NodeTerms]) -> Compiled<'s> {
        let rounds = self.options.effort.rounds;
        let mut c = Compiled::new(snapshot, self.policies, terms, &self.reserved, rounds);
        for node in &self.going {
            c.nodes[node.0 as usize].destination = false;
        }
        c
    }
}

/// NodePools whose nodes did not become ready for commands, with what keeps each from being bought from
/// again, if anything does.
fn trouble(world: &ClusterObjects) -> FxHashMap<Symbol, Option<Trouble>> {
    let get = |key: &str| world.names.get(key);
    let (command, replaces, nodepool) = (get(COMMAND), get(REPLACES), get(NODEPOOL));
    let said = |claim: &NodeClaim, key: Option<Symbol>| claim.annotations.get(key?);
    let commands = verdicts::commands(world);
    let is_busy = |pool: Symbol| {
        let is_own =
            |claim: &&NodeClaim| nodepool.is_some_and(|key| claim.labels.get(key) == Some(pool));
        let busy = |claim: &NodeClaim| {
            let bought = said(claim, replaces).is_some_and(|id| commands.contains(&id));
            bought || said(claim, command).is_some()
        };
        world.claims.iter().filter(is_own).any(busy)
    };
    let failed = world.pools.iter().filter(|pool| pool.failures.is_some());
    failed
        .map(|pool| {
            let waits = backoff::waits(pool, world.now).map(Trouble::Until);
            let busy = || is_busy(pool.name).then_some(Trouble::OneAtATime);
            (pool.name, waits.or_else(busy))
        })
        .collect()
}

struct Asked<'s> {
    snapshot: &'s Snapshot,
    budgets: Budgets,
    /// NodePools whose last commands have failed.
    trouble: FxHashMap<Symbol, Option<Trouble>>,
    /// The consolidation policy, if there is one.
    judge: Option<Judge<'s>>,
    /// Nodes of each NodePool that proposals take.
    used: FxHashMap<Symbol, u32>,
    round: Round,
}

impl<'s> Asked<'s> {
    fn any(&self, method: Method, going: &Nodes) -> bool {
        let candidates = self.round.candidates.iter().enumerate();
        candidates
            .into_iter()
            .any(|(at, c)| c.may(method) && !going.contains(&NodeIx(at as u32)))
    }

    /// Nodes that proposals take now.
    fn going(&self) -> Nodes {
        let now = self
            .round
            .proposals
            .iter()
            .filter(|(_, verdict)| *verdict == Verdict::Now);
        now.flat_map(|(proposal, _)| proposal.nodes.iter().copied())
            .collect()
    }

    /// How many more nodes of a NodePool may go for a reason.
    fn left(&self, pool: Symbol, reason: Reason) -> u32 {
        let used = self.used.get(&pool).copied().unwrap_or(0);
        self.budgets.of(pool, reason).nodes.saturating_sub(used)
    }

    /// How many more nodes of each NodePool consolidation may take.
    fn left_of_all(&self) -> FxHashMap<Symbol, u32> {
        let pools = self.snapshot.world.pools.iter();
        pools
            .map(|pool| (pool.name, self.left(pool.name, Reason::Underutilized)))
            .collect()
    }

    /// NodePools that a proposal buys from.
    fn buys_from(&self, proposal: &Proposal) -> Vec<Symbol> {
        if proposal.method == Method::StaticDrift {
            let nodes = proposal.nodes.iter();
            return nodes.filter_map(|node| self.pool_of(*node)).collect();
        }
        let pools = &self.snapshot.world.pools;
        let bought = proposal.replacements.iter();
        bought
            .map(|of| pools[of.claim.pool.0 as usize].name)
            .collect()
    }

    /// What keeps NodePools from being bought from because their nodes did not become ready: the
    /// first, and what has to pass.
    fn backs_off(&self, pools: &[Symbol]) -> Option<(Symbol, Trouble)> {
        let of = |pool: &Symbol| Some((*pool, (*self.trouble.get(pool)?)?));
        pools.iter().filter_map(of).next()
    }

    /// NodePools are bought from. From one whose nodes did not become ready, nothing else is meanwhile.
    fn buys(&mut self, pools: &[Symbol]) {
        for pool in pools {
            if let Some(trouble) = self.trouble.get_mut(pool) {
                trouble.get_or_insert(Trouble::OneAtATime);
            }
        }
    }

    /// The cluster as if NodePools could not be bought from whose nodes did not become ready; nothing if
    /// all may be.
    fn without_troubled(&self) -> Option<Snapshot> {
        let world = &*self.snapshot.world;
        let waits = |pool: &Symbol| self.trouble.get(pool).copied().flatten().is_some();
        if !world.pools.iter().any(|pool| waits(&pool.name)) {
            return None;
        }
        let mut world = world.clone();
        for pool in world.pools.iter_mut().filter(|pool| waits(&pool.name)) {
            pool.node_limit = Some(0);
        }
        Some(Snapshot::new(Arc::new(world)))
    }

    fn pool_of(&self, node: NodeIx) -> Option<Symbol> {
        self.snapshot.nodes[node.0 as usize].pool
    }

    /// Whether all nodes of a proposal are within the budgets; they are used up if so. What would buy
    /// waits where that failed.
    fn verdict(&mut self, proposal: &Proposal) -> Verdict {
        let buys = self.buys_from(proposal);
        if let Some((pool, trouble)) = self.backs_off(&buys) {
            return Verdict::BacksOff(pool, trouble);
        }
        let mut wanted: Vec<(Symbol, u32)> = Vec::new();
        for node in &proposal.nodes {
            let Some(pool) = self.snapshot.nodes[node.0 as usize].pool else {
                continue;
            };
            match wanted.iter_mut().find(|(known, _)| *known == pool) {
                Some((_, nodes)) => *nodes += 1,
                None => wanted.push((pool, 1)),
            }
        }
        for &(pool, nodes) in &wanted {
            let left = self.left(pool, proposal.reason);
            if nodes > left {
                return Verdict::Later(pool, left);
            }
        }
        wanted
            .into_iter()
            .for_each(|(pool, nodes)| *self.used.entry(pool).or_default() += nodes);
        self.buys(&buys);
        Verdict::Now
    }

    /// Has the policy judge what a method found, and gives out the budgets: higher priorities
    /// first, then in the order found. Whether anything may be carried out now.
    fn admit(&mut self, mut found: Vec<Proposal>) -> bool {
        if let Some(judge) = &self.judge {
            judge.decide(&mut found);
            found.sort_by(|a, b| decided::priority(b).total_cmp(&decided::priority(a)));
        }
        let now = self.snapshot.world.now;
        let mut any = false;
        for proposal in found {
            let verdict = match decided::kept(&proposal, now) {
                Some(kept) => {
                    self.round.keep(&proposal, &kept);
                    kept
                }
                None => self.verdict(&proposal),
            };
            any |= verdict == Verdict::Now;
            self.round.proposals.push((proposal, verdict));
        }
        any
    }

    /// What a consolidation policy has a node save, USD per hour.
    fn weight(&self, at: usize) -> f64 {
        self.judge.as_ref().map_or(0.0, |judge| judge.usd(at))
    }

    fn price(&self, at: usize) -> f64 {
        costs::price_of(self.snapshot, &self.snapshot.nodes[at]).unwrap_or(0.0)
    }

    /// Admits what an outcome proposes. Whether there was anything.
    fn propose(
        &mut self,
        c: &mut Compiled<'_>,
        outcome: SearchOutcome,
        options: &RoundOptions<'_>,
    ) -> bool {
        let left = self.left_of_all();
        let (mut found, dropped) = proposals::of_state(c, outcome, options.rules, left);
        if let Some(only @ (Method::SingleNode | Method::MultiNode)) = options.only {
            found.retain(|proposal| proposal.method == only);
        }
        self.round.dropped.extend(dropped);
        self.admit(found)
    }
}

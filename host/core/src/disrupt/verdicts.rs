//! Whether a node may be disrupted, by method: the rules of Karpenter, each refusal with its reason.
//!
//! Nothing here says that disruption is worth it. [`search`](super::search) says that.

mod evictions;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::budgets::Budgets;
use super::{costs, repair};
use crate::ids::{NodeIx, PodIx};
use crate::model::conditions::{CONSOLIDATABLE, DRIFTED, REGISTERED};
use crate::model::{
    ClusterObjects, ConsolidationPolicy, Labels, NodeClaim, NodePool, NodeRecord, Pod, Symbol,
    UnhealthyNode,
};
use crate::reasons::Unfit;
pub use crate::snapshot::moves::COMMAND;
use crate::snapshot::{Snapshot, StateNode, moves};

pub(super) use self::evictions::PodRules;

/// A method of voluntary disruption, in the order in which methods are asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Method {
    /// Nodes whose conditions their cloud says they do not recover from.
    Repair,
    /// Nodes without pods that would move.
    Emptiness,
    /// Nodes of static NodePools that no longer are what their NodePool says.
    StaticDrift,
    /// Drift of nodes of other NodePools.
    Drift,
    /// Several nodes for fewer or cheaper ones.
    MultiNode,
    /// One node for one cheaper node, or for none.
    SingleNode,
}

impl Method {
    /// All methods, in order.
    pub const ALL: [Method; 6] = [
        Method::Repair,
        Method::Emptiness,
        Method::StaticDrift,
        Method::Drift,
        Method::MultiNode,
        Method::SingleNode,
    ];

    /// What reports and `--method` call it.
    pub fn name(self) -> &'static str {
        match self {
            Method::Repair => "repair",
            Method::Emptiness => "emptiness",
            Method::StaticDrift => "static-drift",
            Method::Drift => "drift",
            Method::MultiNode => "multi",
            Method::SingleNode => "single",
        }
    }

    /// The reason that budgets know it by.
    pub fn reason(self) -> Reason {
        match self {
            Method::Repair => Reason::Unhealthy,
            Method::Emptiness => Reason::Empty,
            Method::StaticDrift | Method::Drift => Reason::Drifted,
            Method::MultiNode | Method::SingleNode => Reason::Underutilized,
        }
    }
}

/// Why a node is disrupted, as budgets and conditions name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// It has no pods that would move.
    Empty,
    /// It no longer is what its NodePool says.
    Drifted,
    /// Its pods fit elsewhere for less.
    Underutilized,
    /// Its cloud says that it does not recover by itself.
    Unhealthy,
}

impl Reason {
    /// The reasons that budgets can name.
    pub const ALL: [Reason; 4] = [
        Reason::Empty,
        Reason::Drifted,
        Reason::Underutilized,
        Reason::Unhealthy,
    ];

    /// What the API calls it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Empty => "Empty",
            Reason::Drifted => "Drifted",
            Reason::Underutilized => "Underutilized",
            Reason::Unhealthy => "Unhealthy",
        }
    }
}

/// Why a node stays.
#[derive(Clone, Debug, PartialEq)]
pub enum Stays {
    /// No NodePool owns it, or it has no NodeClaim. Without a Node it is [`Stays::NotInitialized`].
    NotManaged,
    /// It has not joined, or is not ready for pods.
    NotInitialized,
    /// Its NodePool is not there.
    NodePoolMissing,
    /// Its NodePool keeps a number of nodes.
    Static,
    /// Its NodePool does not keep a number of nodes.
    NotStatic,
    /// Its NodePool has more or fewer nodes than replicas or is being deleted, which comes first.
    StaticScales,
    /// The node limit of its static NodePool leaves no room for a replacement.
    StaticAtLimit,
    /// It would go before it is replaced, and nodes of its NodePool are not initialised yet.
    OthersNotReady,
    /// A pod that waits is expected on it.
    Nominated(PodIx),
    /// A command disrupts it already.
    Disrupting,
    /// Its machine is being started anew.
    Rebooting,
    /// No condition of it is one that its cloud repairs.
    Healthy,
    /// Its condition, as `Type=Status`, is still tolerated.
    Tolerated(Symbol),
    /// Annotation `karpenter.sh/do-not-repair` of the Node, or of its NodeClaim before it registers.
    DoNotRepair,
    /// So many nodes of its NodePool are unhealthy, of so many: the cause is probably elsewhere.
    TooManyUnhealthy(u32, u32),
    /// It was bought to replace a node that is still there.
    Replaces,
    /// Annotation `karpenter.sh/do-not-disrupt` of the Node or its NodeClaim.
    DoNotDisrupt,
    /// Annotation `karpenter.sh/do-not-disrupt` of a pod; until a second since 1970, if it ends.
    PodDoNotDisrupt(PodIx, Option<i64>),
    /// A PodDisruptionBudget allows no eviction of the pod: position in
    /// [`ClusterObjects::budgets`](crate::model::ClusterObjects::budgets).
    PodBudget(PodIx, usize),
    /// Several PodDisruptionBudgets select the pod, which the eviction API refuses.
    SeveralPodBudgets(PodIx),
    /// A budget of its NodePool allows no more: position in `spec.disruption.budgets`.
    NodePoolBudget(usize),
    /// Commands on nodes of its NodePool have failed: nothing is bought to replace it before this
    /// second since 1970.
    BacksOff(i64),
    /// After failures of its NodePool one command at a time is tried, and another one is under way.
    OneAtATime,
    /// Its pods would go onto this node, which is not initialised yet.
    Awaits(NodeIx),
    /// `consolidateAfter: Never`.
    ConsolidationOff,
    /// Condition Consolidatable is not True: `consolidateAfter` has not passed.
    NotConsolidatable,
    /// `consolidationPolicy: WhenEmpty`, and it has pods.
    OnlyWhenEmpty,
    /// It has pods that would move.
    NotEmpty(u32),
    /// It has no pods that would move: emptiness takes it.
    IsEmpty,
    /// Condition Drifted is not True.
    NotDrifted,
    /// The catalogue does not have its instance type, or not in its zone and capacity type.
    UnknownOffering,
    /// Some of its pods have rules that the search does not move them under.
    NotModelled(PodIx),
    /// One of its pods could not be scheduled anew, whatever nodes there were.
    Unschedulable(PodIx, Unfit),
    /// A pod of a StatefulSet is ending on it, and its successor will need a place.
    Leaving(PodIx),
    /// Its pods find no place, or none that is allowed.
    NoPlace(PodIx),
    /// No place elsewhere for a pod and so many others that have to be on its host.
    NoPlaceTogether(PodIx, u32),
    /// It could go alone, but what others would save by moving pods to it is worth more.
    Needed,
    /// It could go alone, and others go first.
    NotNow,
    /// What it costs is less than what its pods' new places would cost and what it costs to move them:
    /// USD per hour that are missing.
    NotWorthIt(f64),
    /// The check refuses what was planned for it, which is a defect of Longshore: the rule.
    BreaksRule(Arc<str>),
    /// Several NodeClaims say that its instance is theirs.
    SeveralClaims,
    /// A consolidation policy does not let it go.
    Policy {
        /// The policy's name.
        by: Arc<str>,
        /// What it says; may be empty.
        why: Arc<str>,
        /// It may go from this time on, seconds since 1970; nothing if the policy names no time.
        until: Option<i64>,
    },
}

/// A node's pods as disruption looks at them, and whether each method may take it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Pods that would move.
    pub pods: u32,
    /// Sum of these pods' eviction costs.
    pub weight: f64,
    /// `consolidateAfter` of its NodePool has not passed since its pods changed: consolidation moves no
    /// pods to it either.
    pub settles: bool,
    /// Why each method may not take it, in the order of [`Method::ALL`].
    pub refusals: [Option<Stays>; Method::ALL.len()],
}

impl Candidate {
    /// Why a method may not take it.
    pub fn refusal(&self, method: Method) -> Option<&Stays> {
        self.refusals[method as usize].as_ref()
    }

    /// Keeps it from all methods that may take it, for this reason.
    pub(super) fn refuse(&mut self, why: &Stays) {
        for refusal in &mut self.refusals {
            refusal.get_or_insert_with(|| why.clone());
        }
    }

    /// Whether a method may take it.
    pub fn may(&self, method: Method) -> bool {
        self.refusal(method).is_none()
    }
}

/// Condition of a NodeClaim whose machine is being started anew.
pub const REBOOTING: &str = "Rebooting";
/// Annotation of a NodeClaim that was bought by a command.
pub const REPLACES: &str = "longshore.dev/replaces";

/// Whether annotations of a Node or a NodeClaim say `karpenter.sh/do-not-disrupt: "true"`.
pub fn forbids(world: &ClusterObjects, annotations: &Labels) -> bool {
    says_true(world, annotations, "karpenter.sh/do-not-disrupt")
}

fn says_true(world: &ClusterObjects, annotations: &Labels, key: &str) -> bool {
    let key = world.names.get(key);
    let value = key.and_then(|key| annotations.get(key));
    value.is_some_and(|value| world.names.text(value) == "true")
}

/// The commands that NodeClaims are candidates of.
pub(super) fn commands(world: &ClusterObjects) -> FxHashSet<Symbol> {
    let Some(key) = world.names.get(COMMAND) else {
        return FxHashSet::default();
    };
    let claims = world.claims.iter();
    claims
        .filter_map(|claim| claim.annotations.get(key))
        .collect()
}

/// Candidates of all nodes of a snapshot, in its order.
pub fn candidates(snapshot: &Snapshot, budgets: &Budgets) -> Vec<Candidate> {
    let rules = Rules::new(snapshot);
    (0..snapshot.nodes.len())
        .map(|at| rules.candidate(NodeIx(at as u32), budgets))
        .collect()
}

/// What is on a node.
#[derive(Clone, Copy)]
struct Contents {
    /// Pods that would move and whose eviction costs something.
    pods: u32,
    /// A pod of a StatefulSet that is ending.
    leaving: Option<PodIx>,
}

/// What is looked up for every node.
struct Rules<'s> {
    snapshot: &'s Snapshot,
    world: &'s ClusterObjects,
    records: FxHashMap<Symbol, &'s NodeRecord>,
    claims: FxHashMap<Symbol, &'s NodeClaim>,
    /// Provider IDs that several NodeClaims have.
    shared: FxHashSet<Symbol>,
    pools: FxHashMap<Symbol, &'s NodePool>,
    nominated: FxHashMap<Symbol, PodIx>,
    /// Commands of NodeClaims that are still there.
    commands: FxHashSet<Symbol>,
    unhealthy: FxHashMap<Symbol, &'s UnhealthyNode>,
    /// NodePools of which so many nodes are unhealthy that none is repaired: those, and all.
    broken: FxHashMap<Symbol, (u32, u32)>,
    pods: PodRules,
    daemon: Option<Symbol>,
    /// Pods of StatefulSets that are ending, by node.
    leaving: FxHashMap<Symbol, PodIx>,
}

/// Pods of StatefulSets that are ending, by node: each comes back under its name.
fn leaving(world: &ClusterObjects) -> FxHashMap<Symbol, PodIx> {
    let Some(kind) = world.names.get("StatefulSet") else {
        return FxHashMap::default();
    };
    let ends =
        |pod: &Pod| pod.deleting && !pod.terminal && pod.owner.is_some_and(|owner| owner.0 == kind);
    let pods = (0..)
        .map(PodIx)
        .zip(&world.pods)
        .filter(|(_, pod)| ends(pod));
    pods.filter_map(|(ix, pod)| Some((pod.node?, ix))).collect()
}

impl<'s> Rules<'s> {
    fn new(snapshot: &'s Snapshot) -> Self {
        let world = &*snapshot.world;
        let mut claims: FxHashMap<Symbol, &NodeClaim> = FxHashMap::default();
        let mut shared: FxHashSet<Symbol> = FxHashSet::default();
        for claim in &world.claims {
            if let Some(id) = claim.provider_id
                && claims.insert(id, claim).is_some()
            {
                shared.insert(id);
            }
            claim.node_name.map(|name| claims.insert(name, claim));
        }
        let waits = |pod: &Pod| pod.node.is_none() && !pod.terminal && !pod.deleting;
        let pods = (0..)
            .map(PodIx)
            .zip(&world.pods)
            .filter(|(_, pod)| waits(pod));
        Rules {
            snapshot,
            world,
            records: world.nodes.iter().map(|node| (node.name, node)).collect(),
            claims,
            shared,
            pools: world.pools.iter().map(|pool| (pool.name, pool)).collect(),
            nominated: pods
                .filter_map(|(ix, pod)| Some((pod.nominated?, ix)))
                .chain(
                    moves::destinations(world)
                        .into_iter()
                        .map(|(ix, to)| (to, ix)),
                )
                .chain(snapshot.useless.awaited().iter().copied())
                .collect(),
            commands: commands(world),
            unhealthy: world.unhealthy.iter().map(|of| (of.node, of)).collect(),
            broken: repair::broken_pools(world),
            pods: PodRules::new(world),
            daemon: world.names.get("DaemonSet"),
            leaving: leaving(world),
        }
    }

    /// The Node and the NodeClaim of a node.
    fn objects(&self, node: &StateNode) -> Result<(&'s NodeRecord, &'s NodeClaim), Stays> {
        let record = self.records.get(&node.name).ok_or(Stays::NotInitialized)?;
        if record
            .provider_id
            .is_some_and(|id| self.shared.contains(&id))
        {
            return Err(Stays::SeveralClaims);
        }
        let claim = record.provider_id.and_then(|id| self.claims.get(&id));
        let claim = claim
            .or_else(|| self.claims.get(&node.name))
            .ok_or(Stays::NotManaged)?;
        Ok((record, claim))
    }

    /// Whether a condition of a NodeClaim is True.
    fn has(&self, claim: &NodeClaim, condition: &str) -> bool {
        let known = self.world.names.get(condition);
        known.is_some_and(|symbol| claim.conditions.contains(&symbol))
    }

    /// The command that an annotation of a NodeClaim names.
    fn command(&self, claim: &NodeClaim, annotation: &str) -> Option<Symbol> {
        claim.annotations.get(self.world.names.get(annotation)?)
    }

    fn pod(&self, ix: PodIx) -> &'s Pod {
        &self.world.pods[ix.0 as usize]
    }

    /// What disrupting a node costs, and for each method whether it may take the node, or why not.
    fn candidate(&self, at: NodeIx, budgets: &Budgets) -> Candidate {
        let node = &self.snapshot.nodes[at.0 as usize];
        let moving: Vec<PodIx> = node
            .own_pods(self.world)
            .filter(|&ix| costs::has_to_move(self.pod(ix), self.daemon))
            .collect();
        let cost = |ix: &PodIx| costs::eviction_cost(self.world, self.pod(*ix)).max(0.0);
        let weight = moving.iter().map(cost).sum();
        let contents = Contents {
            // Pods that cost little to lose do not fill a node.
            pods: moving.iter().filter(|ix| cost(ix) > 0.0).count() as u32,
            leaving: self.leaving.get(&node.name).copied(),
        };
        let refusals = Method::ALL.map(|method| match method {
            Method::Repair => self.no_repair(at, budgets).err(),
            method => self.refusal(at, method, contents, budgets).err(),
        });
        Candidate {
            pods: moving.len() as u32,
            weight,
            settles: self.settles(node),
            refusals,
        }
    }

    /// Whether `consolidateAfter` has not passed since pods of a node changed.
    fn settles(&self, node: &StateNode) -> bool {
        let pool = node.pool.and_then(|name| self.pools.get(&name));
        let waits = pool
            .and_then(|pool| pool.consolidate_after)
            .is_some_and(|after| after > 0);
        waits
            && self
                .objects(node)
                .is_ok_and(|(_, claim)| !self.has(claim, CONSOLIDATABLE))
    }

    /// Why a method may not take a node.
    fn refusal(
        &self,
        at: NodeIx,
        method: Method,
        contents: Contents,
        budgets: &Budgets,
    ) -> Result<(), Stays> {
        let node = &self.snapshot.nodes[at.0 as usize];
        let name = node.pool.ok_or(Stays::NotManaged)?;
        let (record, claim) = self.objects(node)?;
        let reboots = self.has(claim, REBOOTING);
        if !node.initialized && !reboots {
            return Err(Stays::NotInitialized);
        }
        let pool = self.pools.get(&name).ok_or(Stays::NodePoolMissing)?;
        match (pool.replicas.is_some(), method == Method::StaticDrift) {
            (true, false) => return Err(Stays::Static),
            (false, true) => return Err(Stays::NotStatic),
            _ => {}
        }
        if self.command(claim, COMMAND).is_some() {
            return Err(Stays::Disrupting);
        }
        if reboots {
            return Err(Stays::Rebooting);
        }
        if self
            .command(claim, REPLACES)
            .is_some_and(|of| self.commands.contains(&of))
        {
            return Err(Stays::Replaces);
        }
        let expected = self
            .nominated
            .get(&node.name)
            .or_else(|| self.nominated.get(&claim.name));
        if let Some(&pod) = expected {
            return Err(Stays::Nominated(pod));
        }
        let forbids = |annotations| forbids(self.world, annotations);
        if forbids(&record.annotations) || forbids(&claim.annotations) {
            return Err(Stays::DoNotDisrupt);
        }
        self.by_method(method, node, claim, pool, contents)?;
        // Drift ends some time anyway where the NodeClaim bounds how long its node may drain.
        if !(method.reason() == Reason::Drifted && claim.termination_grace.is_some()) {
            self.by_pods(node)?;
        }
        let allowed = budgets.of(name, method.reason());
        match (allowed.nodes, allowed.budget) {
            (0, Some(budget)) => Err(Stays::NodePoolBudget(budget)),
            (0, None) => Err(Stays::NodePoolMissing),
            _ => Ok(()),
        }
    }

    /// Why a node is not repaired. A pod that must not be disrupted is in the way only where nothing
    /// bounds how long the node drains. Neither do-not-disrupt of the node nor a NotReady node's
    /// missing initialization is.
    fn no_repair(&self, at: NodeIx, budgets: &Budgets) -> Result<(), Stays> {
        let node = &self.snapshot.nodes[at.0 as usize];
        let unhealthy = self.unhealthy.get(&node.name).ok_or(Stays::Healthy)?;
        let name = node.pool.ok_or(Stays::NotManaged)?;
        let (record, claim) = self.objects(node)?;
        if !self.pools.contains_key(&name) {
            return Err(Stays::NodePoolMissing);
        }
        if self.command(claim, COMMAND).is_some() || claim.deleting {
            return Err(Stays::Disrupting);
        }
        if self.has(claim, REBOOTING) {
            return Err(Stays::Rebooting);
        }
        let due = unhealthy.due.ok_or(Stays::Tolerated(unhealthy.condition))?;
        let said = if self.has(claim, REGISTERED) {
            &record.annotations
        } else {
            &claim.annotations
        };
        if says_true(self.world, said, "karpenter.sh/do-not-repair") {
            return Err(Stays::DoNotRepair);
        }
        if costs::offering_of(self.snapshot, node).is_none() {
            return Err(Stays::UnknownOffering);
        }
        let expected = self.nominated.get(&node.name);
        if let Some(&pod) = expected.filter(|_| node.initialized) {
            return Err(Stays::Nominated(pod));
        }
        if due.grace.is_none() && claim.termination_grace.is_none() {
            self.by_pods(node)?;
        }
        if let Some(&(unhealthy, nodes)) = self.broken.get(&name) {
            return Err(Stays::TooManyUnhealthy(unhealthy, nodes));
        }
        let allowed = budgets.of(name, Reason::Unhealthy);
        match (allowed.nodes, allowed.budget) {
            (0, Some(budget)) if node.initialized => Err(Stays::NodePoolBudget(budget)),
            _ => Ok(()),
        }
    }

    /// Why a method does not take a node that may be disrupted: what its own conditions say.
    fn by_method(
        &self,
        method: Method,
        node: &StateNode,
        claim: &NodeClaim,
        pool: &NodePool,
        contents: Contents,
    ) -> Result<(), Stays> {
        let has = |condition: &str| self.has(claim, condition);
        if method.reason() == Reason::Drifted {
            return if has(DRIFTED) {
                Ok(())
            } else {
                Err(Stays::NotDrifted)
            };
        }
        if pool.consolidate_after.is_none() {
            return Err(Stays::ConsolidationOff);
        }
        match (method, contents.pods, contents.leaving) {
            (Method::Emptiness, 0, Some(pod)) => return Err(Stays::Leaving(pod)),
            (Method::Emptiness, pods @ 1.., _) => return Err(Stays::NotEmpty(pods)),
            (Method::MultiNode | Method::SingleNode, _, Some(pod)) => {
                return Err(Stays::Leaving(pod));
            }
            (Method::MultiNode | Method::SingleNode, 0, None) => return Err(Stays::IsEmpty),
            _ => {}
        }
        if method != Method::Emptiness {
            if pool.consolidation == ConsolidationPolicy::WhenEmpty {
                return Err(Stays::OnlyWhenEmpty);
            }
            if costs::offering_of(self.snapshot, node).is_none() {
                return Err(Stays::UnknownOffering);
            }
        }
        if has(CONSOLIDATABLE) {
            Ok(())
        } else {
            Err(Stays::NotConsolidatable)
        }
    }

    /// Whether every pod of a node may be evicted, daemons and static pods included.
    fn by_pods(&self, node: &StateNode) -> Result<(), Stays> {
        let refusal = node
            .own_pods(self.world)
            .find_map(|ix| self.pods.refuses(self.world, ix));
        refusal.map_or(Ok(()), Err)
    }
}

/// Why pods of a node may not be evicted now; nothing of those that may.
pub fn held_pods(world: &ClusterObjects, node: Symbol) -> Vec<Stays> {
    let rules = PodRules::new(world);
    let pods = world.pods.iter().enumerate();
    let here = pods.filter(|(_, pod)| pod.node == Some(node) && !pod.deleting);
    here.filter_map(|(at, _)| rules.refuses(world, PodIx(at as u32)))
        .collect()
}

//! What a consolidation policy gets, and what it answers.
//!
//! The rules of NodePools are the floor: a policy makes disruption dearer, later or impossible, and
//! orders what is left. It never allows what a rule forbids.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::budgets::Budgets;
use super::costs;
use super::proposals::Proposal;
use super::verdicts::{Candidate, PodRules, Reason};
use crate::ids::{NodeIx, PodIx};
use crate::model::disruptions::{DAY_SECONDS, Disruptions, HOUR_SECONDS};
use crate::model::{OfferingId, Pod, Symbol};
use crate::policy::{ByPrice, Policies};
use crate::snapshot::Snapshot;

/// Pods that started within so many seconds count as young.
pub const YOUNG_SECONDS: i64 = 3600;

/// Requests to a consolidation policy. Implementations answer always: where a policy fails, they
/// fall back to its last good version and then to [`Weight::default`] and [`Decision::default`],
/// and report so themselves.
pub trait Consolidation {
    /// What disturbing each node costs beside what is counted anyway: a weight for each of
    /// [`Facts::nodes`]. Asked once in a round, before the search.
    fn weigh(&self, facts: &Facts<'_>) -> Vec<Weight>;

    /// What becomes of each proposal. Asked after each method that found any.
    fn decide(&self, facts: &Facts<'_>, proposals: &[Proposal]) -> Vec<Decision>;
}

/// The policies of a round of disruption.
pub trait DisruptionPolicies: Policies {
    /// Which policy has the last word; nothing where the rules of NodePools alone count.
    fn consolidation(&self) -> Option<&dyn Consolidation> {
        None
    }
}

impl DisruptionPolicies for ByPrice {}

/// What disturbing a node costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weight {
    /// USD per hour that removing the node has to save beside the cost of its moves; 0 or more,
    /// infinite for never.
    pub usd: f64,
    /// The policy that says so.
    pub by: Option<Arc<str>>,
}

/// What becomes of a proposal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// Higher first, within a method; below 0 is a no.
    pub priority: f64,
    /// Seconds since 1970; not before this time.
    pub not_before: f64,
    /// Why, for people; may be empty.
    pub reason: Arc<str>,
    /// The policy that says so.
    pub by: Option<Arc<str>>,
}

/// A node that a NodePool owns.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFacts {
    /// Index into the snapshot's nodes.
    pub node: NodeIx,
    /// Position of its NodePool in [`Facts::pools`].
    pub pool: u32,
    /// What it was bought as, if the catalogue has it.
    pub offering: Option<OfferingId>,
    /// Effective cost, USD per hour: the price where the scorer excludes the offering; nothing where
    /// it is not offered any more.
    pub cost: Option<f64>,
    /// Seconds since it was made; nothing where that is not known.
    pub age: Option<i64>,
    /// Pods that would move.
    pub pods: u32,
    /// Pods, daemons included, that may not be evicted now.
    pub blocked: u32,
    /// Pods that would move and are the only running one of their owner.
    pub single: u32,
    /// Pods that would move and that no controller owns.
    pub bare: u32,
    /// The fewest disruptions that a PodDisruptionBudget of a pod that would move allows now;
    /// nothing without one.
    pub allowed: Option<u32>,
    /// Pods that would move and that no PodDisruptionBudget selects.
    pub unprotected: u32,
    /// Seconds since the last of the pods that would move has started; nothing without pods.
    pub youngest: Option<i64>,
    /// Eviction cost of the pods that would move.
    pub weight: f64,
    /// The longest termination grace of the pods that would move, seconds: 0 without pods, nothing
    /// where one of them cannot be read.
    pub grace: Option<u32>,
}

/// A NodePool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolFacts {
    /// `metadata.name` of the NodePool.
    pub name: Symbol,
    /// Effective cost of its nodes, USD per hour, as far as it is known.
    pub cost: f64,
    /// Eviction cost of the pods on them that would move.
    pub weight: f64,
    /// Nodes that were disrupted within the last hour, and day; nothing where that is not known.
    pub disrupted: Option<(u32, u32)>,
    /// Seconds since a node was last disrupted, infinite for never; nothing where that is not known.
    pub since_disruption: Option<f64>,
    /// Nodes that may go now by reason, in the order of [`Reason::ALL`]; `u32::MAX` without a budget.
    pub allowed: [u32; Reason::ALL.len()],
}

/// A controller of pods that would move with their node.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerFacts {
    /// Namespace, kind and name.
    pub name: (Symbol, Symbol, Symbol),
    /// Its pods that have a node, have not ended and are not being deleted.
    pub pods: u32,
    /// Those of them that started within [`YOUNG_SECONDS`].
    pub young: u32,
}

/// A cluster as a consolidation policy sees it.
pub struct Facts<'s> {
    /// The cluster.
    pub snapshot: &'s Snapshot,
    /// Nodes that a NodePool owns, in the order of [`Snapshot::nodes`].
    pub nodes: Vec<NodeFacts>,
    /// NodePools that own a node.
    pub pools: Vec<PoolFacts>,
    /// Controllers of pods on these nodes.
    pub owners: Vec<OwnerFacts>,
    /// Position among the owners, by pod.
    owner_of: FxHashMap<PodIx, u32>,
    /// Position in `nodes`, by node.
    row_of: FxHashMap<NodeIx, u32>,
    /// Effective costs by offering, by NodePool.
    costs: FxHashMap<Symbol, Arc<[f64]>>,
}

impl<'s> Facts<'s> {
    /// Looks at a cluster. `candidates` has an entry for each node.
    pub fn new(
        snapshot: &'s Snapshot,
        candidates: &[Candidate],
        budgets: &Budgets,
        policies: &dyn Policies,
    ) -> Self {
        let world = &*snapshot.world;
        policies.node_pools(&world.pools, &world.names);
        let costs = world.pools.iter().map(|pool| {
            let scores = policies.score(&world.catalogue, &world.names, pool.name);
            (pool.name, scores.cost)
        });
        let mut facts = Facts {
            snapshot,
            nodes: Vec::new(),
            pools: Vec::new(),
            owners: Vec::new(),
            owner_of: FxHashMap::default(),
            row_of: FxHashMap::default(),
            costs: costs.collect(),
        };
        facts.count_owners();
        let rules = PodRules::new(world);
        let created = world.nodes.iter().map(|node| (node.name, node.created));
        let created: FxHashMap<Symbol, i64> = created.collect();
        for (at, candidate) in candidates.iter().enumerate() {
            facts.add(NodeIx(at as u32), candidate, &rules, &created, budgets);
        }
        facts
    }

    fn count_owners(&mut self) {
        let world = &*self.snapshot.world;
        let daemon = world.names.get("DaemonSet");
        let mut known: FxHashMap<(Symbol, Symbol, Symbol), u32> = FxHashMap::default();
        for (ix, pod) in (0..).map(PodIx).zip(&world.pods) {
            let runs = pod.node.is_some() && !pod.deleting && costs::has_to_move(pod, daemon);
            let Some((kind, name)) = pod.owner.filter(|_| runs) else {
                continue;
            };
            let name = (world.shapes.get(pod.shape).namespace, kind, name);
            let at = *known.entry(name).or_insert_with(|| {
                let (pods, young) = (0, 0);
                self.owners.push(OwnerFacts { name, pods, young });
                self.owners.len() as u32 - 1
            });
            let owner = &mut self.owners[at as usize];
            owner.pods += 1;
            owner.young += u32::from(age(world.now, pod) < YOUNG_SECONDS);
            self.owner_of.insert(ix, at);
        }
    }

    fn add(
        &mut self,
        node: NodeIx,
        candidate: &Candidate,
        rules: &PodRules,
        created: &FxHashMap<Symbol, i64>,
        budgets: &Budgets,
    ) {
        let world = &*self.snapshot.world;
        let of = &self.snapshot.nodes[node.0 as usize];
        let Some(name) = of.pool.filter(|name| self.costs.contains_key(name)) else {
            return;
        };
        let offering = costs::offering_of(self.snapshot, of);
        let cost = offering.map(|offering| self.cost(name, offering));
        let made = created.get(&of.name).copied().filter(|&made| made > 0);
        let daemon = world.names.get("DaemonSet");
        let mut facts = NodeFacts {
            node,
            pool: self.pool(name, budgets),
            offering,
            cost,
            age: made.map(|made| (world.now - made).max(0)),
            pods: candidate.pods,
            blocked: 0,
            single: 0,
            bare: 0,
            allowed: None,
            unprotected: 0,
            youngest: None,
            weight: candidate.weight,
            grace: Some(0),
        };
        for &ix in &of.pods {
            let pod = &world.pods[ix.0 as usize];
            facts.blocked += u32::from(rules.refuses(world, ix).is_some());
            if !costs::has_to_move(pod, daemon) {
                continue;
            }
            let owner = self.owner_of.get(&ix);
            let alone = owner.is_some_and(|&owner| self.owners[owner as usize].pods == 1);
            facts.single += u32::from(alone);
            facts.bare += u32::from(pod.owner.is_none());
            let grace = (!pod.unreadable).then_some(pod.grace);
            facts.grace = facts.grace.zip(grace).map(|(a, b)| a.max(b));
            let age = age(world.now, pod);
            facts.youngest = Some(facts.youngest.map_or(age, |known| known.min(age)));
            match rules.allowed(world, pod) {
                Some(allowed) => {
                    let least = facts.allowed.map_or(allowed, |known| known.min(allowed));
                    facts.allowed = Some(least);
                }
                None => facts.unprotected += 1,
            }
        }
        let pool = &mut self.pools[facts.pool as usize];
        pool.cost += facts.cost.unwrap_or(0.0);
        pool.weight += facts.weight;
        self.row_of.insert(node, self.nodes.len() as u32);
        self.nodes.push(facts);
    }

    fn pool(&mut self, name: Symbol, budgets: &Budgets) -> u32 {
        if let Some(at) = self.pools.iter().position(|pool| pool.name == name) {
            return at as u32;
        }
        let world = &*self.snapshot.world;
        let record = world.pools.iter().find(|pool| pool.name == name);
        let known = record.and_then(|pool| pool.disruptions.as_ref());
        let within = |of: &Disruptions, seconds| of.within(seconds, world.now);
        self.pools.push(PoolFacts {
            name,
            cost: 0.0,
            weight: 0.0,
            disrupted: known.map(|of| (within(of, HOUR_SECONDS), within(of, DAY_SECONDS))),
            since_disruption: known.map(|of| {
                let since = of.since_last(world.now);
                since.map_or(f64::INFINITY, |seconds| seconds as f64)
            }),
            allowed: Reason::ALL.map(|reason| budgets.of(name, reason).nodes),
        });
        self.pools.len() as u32 - 1
    }

    /// Effective cost of an offering to a NodePool, USD per hour; the price where it is excluded.
    fn cost(&self, pool: Symbol, offering: OfferingId) -> f64 {
        let costs = self.costs.get(&pool);
        let scored = costs.and_then(|costs| costs.get(offering.0 as usize).copied());
        let price = || self.snapshot.world.catalogue.offering(offering).price;
        scored.filter(|cost| cost.is_finite()).unwrap_or_else(price)
    }

    /// Position of a node in [`Facts::nodes`]; nothing where no NodePool owns it.
    pub fn row(&self, node: NodeIx) -> Option<u32> {
        self.row_of.get(&node).copied()
    }

    /// Effective cost that a proposal saves, USD per hour; may be negative for drift. A node whose cost
    /// is not known saves nothing.
    pub fn savings(&self, proposal: &Proposal) -> f64 {
        let rows = proposal.nodes.iter().filter_map(|&node| self.row(node));
        let goes = rows.fold(0.0, |sum, row| {
            sum + self.nodes[row as usize].cost.unwrap_or(0.0)
        });
        let comes = proposal.replacements.iter().map(|of| {
            let pool = self.snapshot.world.pools[of.claim.pool.0 as usize].name;
            self.cost(pool, of.claim.offering)
        });
        goes - comes.fold(0.0, |sum, cost| sum + cost)
    }

    /// Owners of the pods that a proposal moves, with how many pods of each, in the order of
    /// [`Facts::owners`].
    pub fn moved_owners(&self, proposal: &Proposal) -> Vec<(u32, u32)> {
        let moves = proposal.moves.iter();
        let mut owners: Vec<u32> = moves
            .filter_map(|moved| self.owner_of.get(&moved.pod).copied())
            .collect();
        owners.sort_unstable();
        let runs = owners.chunk_by(|a, b| a == b);
        runs.map(|same| (same[0], same.len() as u32)).collect()
    }
}

/// Seconds since a pod has started, or was made where it has not.
fn age(now: i64, pod: &Pod) -> i64 {
    (now - pod.started.unwrap_or(pod.created)).max(0)
}

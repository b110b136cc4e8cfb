//! What a plan asks of policies. The host of WebAssembly components implements [`Policies`];
//! [`ByPrice`] is the built-in default.

use std::sync::Arc;

use crate::model::{Catalogue, NodePool, OfferingId, Records, Symbol, Symbols};

/// A finite, shared amount of something prepaid (a reservation, a savings plan): while any is left,
/// offerings that draw on it cost less.
#[derive(Clone, Debug, PartialEq)]
pub struct CommitmentPool {
    /// Whose it is: names are unique for one owner only.
    pub owner: u32,
    /// What to call it in reports.
    pub name: String,
    /// How much is left, in the pool's own unit (instances, vCPUs, USD per hour); finite, not
    /// negative.
    pub remaining: f64,
    /// Which offerings draw on it.
    pub draws: Vec<Draw>,
}

/// An offering that draws on a commitment pool. A node draws wholly or not at all: it costs `cost`
/// if the pool has at least `amount` left, and then takes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Index into the catalogue's offerings.
    pub offering: OfferingId,
    /// How much one node takes; positive.
    pub amount: f64,
    /// USD per hour of effective cost inside the pool; finite, not negative.
    pub cost: f64,
}

/// A scorer's answer about a whole catalogue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// The policies that made it, in the order in which they were asked; none for the price.
    pub policies: Vec<PolicyCosts>,
    /// Effective cost in USD per hour by [`OfferingId`]; infinite to exclude. Never NaN, never
    /// negative. Shared: where NodePools are many, so are the copies, and most are equal.
    pub cost: Arc<[f64]>,
    /// Commitments. Of several for an offering the first that has enough counts.
    pub pools: Vec<CommitmentPool>,
}

/// What offerings cost after one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyCosts {
    /// What the policy is called.
    pub policy: Arc<str>,
    /// As [`Scores::cost`].
    pub cost: Arc<[f64]>,
    /// Rows of offerings that it excludes where the operator has that discourage only, in order. They
    /// cost [`DISCOURAGED`] more.
    pub discouraged: Arc<[u32]>,
}

/// What an offering costs more that a policy discourages, in USD per hour: a few times what the dearest
/// node costs, so that another node that takes the pods is bought before it. Once it is bought, other
/// pods may go to it.
pub const DISCOURAGED: f64 = 1000.0;

impl Scores {
    /// Whether the policies exclude the offering of that row.
    pub fn excludes(&self, row: u32) -> bool {
        self.cost[row as usize].is_infinite()
    }

    /// The policy that excludes the offering of that row, if it is known: the first that does. Those
    /// after it may not say otherwise.
    pub fn excluded_by(&self, row: u32) -> Option<&Arc<str>> {
        let excludes =
            |of: &&PolicyCosts| of.cost.get(row as usize).is_some_and(|c| c.is_infinite());
        self.policies.iter().find(excludes).map(|of| &of.policy)
    }

    /// The first policy that discourages the offering of that row.
    pub fn discouraged_by(&self, row: u32) -> Option<&Arc<str>> {
        let discourages = |of: &&PolicyCosts| of.discouraged.binary_search(&row).is_ok();
        self.policies.iter().find(discourages).map(|of| &of.policy)
    }

    /// Whether any offering is discouraged.
    pub fn discourages_any(&self) -> bool {
        self.policies.iter().any(|of| !of.discouraged.is_empty())
    }
}

/// A policy whose costs tell no two offerings apart, so that the price decides nothing. Offerings that
/// it excludes do not count.
#[derive(Clone, Debug, PartialEq)]
pub struct AlikeCosts {
    /// What the policy is called.
    pub policy: Arc<str>,
    /// The NodePool that it was asked for.
    pub node_pool: Arc<str>,
    /// How many offerings that are.
    pub offerings: usize,
    /// What each of them costs, in USD per hour.
    pub cost: f64,
}

/// What one policy adds to what an offering cost before it.
#[derive(Clone, Debug, PartialEq)]
pub struct CostTerm {
    /// What the policy is called.
    pub policy: Arc<str>,
    /// USD per hour; below zero for a discount, infinite where it excludes the offering.
    pub usd: f64,
    /// What the offering costs after it, outside of commitments.
    pub cost: f64,
    /// Whether the offering draws on a commitment of this policy.
    pub draws: bool,
    /// Whether it discourages the offering: the first that does adds [`DISCOURAGED`].
    pub discourages: bool,
}

/// Requests to policies while planning. Implementations answer always: where a policy fails,
/// they fall back to its last good version and then to the built-in answer, and report so
/// themselves.
pub trait Policies {
    /// Takes note of the NodePools that scores will be asked for.
    fn node_pools(&self, pools: &Records<NodePool>, names: &Symbols) {
        let _ = (pools, names);
    }

    /// Effective costs of the whole catalogue for nodes of one NodePool.
    fn score(&self, catalogue: &Catalogue, names: &Symbols, pool: Symbol) -> Scores;

    /// Policies that cost all offerings alike in their last answers, for explanations.
    fn alike(&self) -> Vec<AlikeCosts> {
        Vec::new()
    }

    /// What each policy added to the list price of an offering in its last answer about a NodePool, in
    /// the order in which they were asked, for explanations.
    fn terms(&self, node_pool: &str, offering: OfferingId) -> Vec<CostTerm> {
        let _ = (node_pool, offering);
        Vec::new()
    }
}

/// The built-in scorer: an offering costs its price.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByPrice;

impl Policies for ByPrice {
    fn score(&self, catalogue: &Catalogue, _: &Symbols, _: Symbol) -> Scores {
        Scores {
            policies: Vec::new(),
            cost: catalogue.prices().clone(),
            pools: Vec::new(),
        }
    }
}

//! A plan: NodeClaims to create, a node for each pod, and reasons for the pods without one.

pub use crate::ids::{NodeIx, PodIx, PoolIx};
use crate::model::{Catalogue, Offering, OfferingId, Op, Requirement, Resources, Symbol, TypeId};
use crate::reasons::Violation;
pub use crate::reasons::{Barred, Least, Refusal, Target, TopologyRule, TypesLeft, Unfit};

/// How much work goes into a cheaper plan, counted in steps and not in time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Effort {
    /// First-fit decreasing alone, without optimization.
    None,
    /// About 10 ms for a thousand pods.
    Quick,
    /// About 50 ms for a thousand pods; up to four times that where many of them must spread.
    #[default]
    Normal,
    /// About a second for a thousand pods.
    Thorough,
}

impl Effort {
    /// All efforts with their names, least first.
    pub const ALL: [(&'static str, Effort); 4] = [
        ("none", Effort::None),
        ("quick", Effort::Quick),
        ("normal", Effort::Normal),
        ("thorough", Effort::Thorough),
    ];

    /// Its name in configuration, on the command line and in the journal.
    pub fn name(self) -> &'static str {
        match self {
            Effort::None => "none",
            Effort::Quick => "quick",
            Effort::Normal => "normal",
            Effort::Thorough => "thorough",
        }
    }

    /// The effort of a name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find_map(|(known, effort)| (known == name).then_some(effort))
    }
}

/// What to do for the pods of a snapshot. Complete: the code that carries it out has nothing left
/// to choose.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Plan {
    /// Nodes to buy.
    pub claims: Vec<PlannedClaim>,
    /// Pods for nodes that exist or are in flight, by node.
    pub on_existing_nodes: Vec<Placement>,
    /// Unplaced pods with reasons, by namespace and name.
    pub unplaced: Vec<Unplaced>,
    /// USD per hour of all claims, each at the price of its offering.
    pub cost: f64,
    /// The objective, USD per hour: effective cost of all claims as the scorer sees it, and the
    /// cost per node.
    pub effective_cost: f64,
    /// No plan that places the pods placed here on new nodes has a smaller objective (USD per hour,
    /// as `effective`).
    pub lower_bound: f64,
    /// NodePools that nothing can be bought for, whatever pod asks, in order of preference.
    pub incompatible_pools: Vec<IncompatiblePool>,
    /// Violations of a cheaper plan that this one replaces: a defect of the planner, worth a
    /// report.
    pub rejected_candidates: Vec<Violation>,
    /// Violations of whole plans that this one replaces. The pods that they name are left out of it
    /// ([`Unfit::BreaksPlan`]): a defect of the planner, worth a report. Sums that do not add up name
    /// none.
    pub left_out: Vec<Violation>,
    /// The search for a cheaper plan was stopped, and this is the plan that a lesser effort gives:
    /// that one.
    pub cut_short: Option<Effort>,
}

/// A NodePool without a compatible instance type, independent of any pod.
#[derive(Clone, Debug, PartialEq)]
pub struct IncompatiblePool {
    /// The NodePool.
    pub pool: PoolIx,
    /// [`Unfit::Types`], or [`Unfit::MinValues`] if the compatible types have too few values.
    pub unfit: Unfit,
    /// The label whose requirement alone excludes all types. Nothing if only several requirements
    /// together do.
    pub requirement: Option<Symbol>,
}

/// A node to buy.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedClaim {
    /// The NodePool.
    pub pool: PoolIx,
    /// What the planner counts on: the cheapest of all the offerings that the claim admits.
    pub offering: OfferingId,
    /// Instance types that take all its pods, cheapest first (by effective cost, then price, then
    /// name), the type of `offering` first; at most 600.
    pub types: Vec<TypeId>,
    /// Labels narrowed to a set of values, by key text: what NodePool, pods and topology leave
    /// (zone, capacity type, arch, …), the instance type left out. Values are sorted by text.
    pub requirements: Vec<(Symbol, Vec<Symbol>)>,
    /// What is required of labels that types and offerings do not settle, where no set of values is
    /// known (NotIn, Exists, bounds).
    pub open: Vec<Requirement>,
    /// Price of `offering`, USD per hour.
    pub price: f64,
    /// Effective cost of `offering` to this plan, USD per hour, without the cost per node.
    pub effective_cost: f64,
    /// Its pods, by namespace and name.
    pub pods: Vec<PodIx>,
    /// Total requests of its pods and of the daemons of its first type.
    pub requests: Resources,
    /// Which `minValues` were lowered (MIN_VALUES_POLICY BestEffort).
    pub min_values_relaxed: bool,
    /// The policy that discourages `offering`: nothing that it leaves costs less.
    pub discouraged_by: Option<std::sync::Arc<str>>,
    /// Another offering that the claim admits has the list price of `offering` and a higher cost: a
    /// cloud that goes by list prices may take either. See [`PlannedClaim::has_dearer_at_same_price`].
    pub dearer_at_same_price: bool,
}

impl PlannedClaim {
    /// Whether an offering that the claim admits has the list price of the planned one, and a cost
    /// above `planned_cost`. `costs` has USD per hour by [`OfferingId`], as in
    /// [`Scores`](crate::policy::Scores).
    pub fn has_dearer_at_same_price(
        &self,
        catalogue: &Catalogue,
        costs: &[f64],
        planned_cost: f64,
    ) -> bool {
        let planned = catalogue.offering(self.offering).price;
        self.types.iter().any(|of| {
            let rows = catalogue.instance_type(*of).offerings.clone();
            let costs = &costs[rows.start as usize..rows.end as usize];
            let mut offerings = catalogue.offerings_of(*of).iter().zip(costs);
            // Whether it is admitted is the dearest question.
            offerings.any(|(one, cost)| {
                let is_dearer = one.price == planned && *cost > planned_cost;
                is_dearer && one.available && admits(&self.requirements, one)
            })
        })
    }
}

/// Whether an offering is among what values of labels leave.
pub fn admits(requirements: &[(Symbol, Vec<Symbol>)], offering: &Offering) -> bool {
    offering.requirements.iter().all(|of| {
        let Op::In(values) = &of.op else { return true };
        let mut own = requirements.iter().filter(|(key, _)| *key == of.key);
        own.all(|(_, admitted)| values.iter().any(|value| admitted.contains(value)))
    })
}

/// Pods for a node that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Index into the snapshot's nodes.
    pub node: NodeIx,
    /// Its new pods, by namespace and name.
    pub pods: Vec<PodIx>,
}

/// A pod without a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Unplaced {
    /// Index into the observed pods.
    pub pod: PodIx,
    /// For a pod that cannot be planned at all one reason without a target; otherwise the first
    /// rule that refuses it, for each NodePool. Never empty.
    pub refusals: Vec<Refusal>,
}

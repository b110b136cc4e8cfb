//! A plan: what to buy, which pods go where, and why the rest go nowhere.

use crate::check::Violation;
use crate::model::{Excess, OfferingId, Requirement, ResourceId, Resources, Sym, Taint, TypeId};
use crate::snapshot::Unusable;

/// Index of a pod in [`World::pods`](crate::model::World::pods).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PodIx(pub u32);

/// Index of a node in [`Snapshot::nodes`](crate::snapshot::Snapshot::nodes).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIx(pub u32);

/// Index of a NodePool in [`World::pools`](crate::model::World::pools).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolIx(pub u32);

/// How much work goes into a cheaper plan, counted in steps and not in time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Effort {
    /// The first-fit-decreasing answer.
    None,
    /// About 10 ms for a thousand pods.
    Quick,
    /// About 50 ms for a thousand pods; up to four times that where many of them must spread.
    #[default]
    Normal,
    /// About a second for a thousand pods.
    Thorough,
}

/// What to do for the pods of a snapshot. Complete: whoever carries it out has nothing left to choose.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Plan {
    /// Nodes to buy.
    pub claims: Vec<PlannedClaim>,
    /// Pods for nodes that exist or are in flight, by node.
    pub existing: Vec<Placement>,
    /// Pods left over, with the reasons, by namespace and name.
    pub unplaced: Vec<Unplaced>,
    /// USD per hour of all claims, each at the price of its offering.
    pub cost: f64,
    /// The objective, USD per hour: effective cost of all claims as the scorer sees it, and the cost per node.
    pub effective: f64,
    /// No plan that places the pods placed here on new nodes has a smaller objective (USD per hour, as `effective`).
    pub lower_bound: f64,
    /// NodePools that nothing can be bought for, whatever pod asks, in order of preference.
    pub barren: Vec<Barren>,
    /// What was wrong with a cheaper plan whose place this one has taken: a defect of the planner, worth a report.
    pub replaced: Vec<Violation>,
    /// The search for a cheaper plan was stopped, and this is the one that effort `none` gives.
    pub cut_short: bool,
}

/// A NodePool that no instance type is left for before any pod is looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Barren {
    /// The NodePool.
    pub pool: PoolIx,
    /// [`Unfit::Types`], or [`Unfit::MinValues`] where the types that there are have too few values.
    pub unfit: Unfit,
    /// The label whose requirement, taken alone, is more than there is; nothing where only several together are.
    pub requirement: Option<Sym>,
}

/// A node to buy.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedClaim {
    /// The NodePool.
    pub pool: PoolIx,
    /// What the planner counts on: the cheapest of all the offerings that the claim admits.
    pub offering: OfferingId,
    /// Instance types that take all its pods, cheapest first (by effective cost, then price, then name), the type of
    /// `offering` first; at most 600.
    pub types: Vec<TypeId>,
    /// Labels narrowed to a set of values, by key text: what NodePool, pods and topology leave (zone, capacity type,
    /// arch, …), the instance type left out. Values are sorted by text.
    pub requirements: Vec<(Sym, Vec<Sym>)>,
    /// What is required of labels that types and offerings do not settle, where no set of values is known (NotIn, Exists,
    /// bounds).
    pub open: Vec<Requirement>,
    /// Price of `offering`, USD per hour.
    pub price: f64,
    /// Effective cost of `offering` to this plan, USD per hour, without the cost per node.
    pub effective: f64,
    /// Its pods, by namespace and name.
    pub pods: Vec<PodIx>,
    /// What its pods and the daemons of its first type ask for together.
    pub requests: Resources,
    /// Which `minValues` were lowered (MIN_VALUES_POLICY BestEffort).
    pub min_values_relaxed: bool,
}

/// Pods for a node that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The node.
    pub node: NodeIx,
    /// Its new pods, by namespace and name.
    pub pods: Vec<PodIx>,
}

/// A pod without a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Unplaced {
    /// The pod.
    pub pod: PodIx,
    /// For a pod that cannot be planned at all one reason without a target; otherwise the first rule that refuses it,
    /// for each NodePool. Never empty.
    pub refusals: Vec<Refusal>,
}

/// Who refuses a pod, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Who refuses.
    pub target: Target,
    /// Why.
    pub unfit: Unfit,
}

/// Where a pod might have gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// Nowhere: the pod itself is the reason.
    Pod,
    /// A new node of a NodePool.
    Pool(PoolIx),
    /// A node that exists.
    Node(NodeIx),
}

/// Which topology rule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TopologyRule {
    /// A topology spread constraint.
    Spread,
    /// Pod affinity.
    Affinity,
    /// Pod anti-affinity of the pod.
    AntiAffinity,
    /// Anti-affinity of a pod that is there already and selects this one.
    InverseAntiAffinity,
}

/// Why a pod does not fit: the first rule that refuses, as data.
#[derive(Clone, Debug, PartialEq)]
pub enum Unfit {
    /// The pod's own specification cannot be planned.
    Invalid(Box<str>),
    /// It has more of something than is planned for.
    Excess(Excess),
    /// It asks for dynamic resource claims, which are not looked at (IGNORE_DRA_REQUESTS).
    ResourceClaims,
    /// One of its volumes cannot be had.
    Volume(Box<str>),
    /// There is no NodePool.
    NoPools,
    /// The NodePool may not be bought from.
    Unusable(Unusable),
    /// A taint that it does not tolerate.
    Taint(Taint),
    /// A label is not what it requires.
    Label {
        /// The label.
        key: Sym,
    },
    /// Too little of a resource is free (existing nodes).
    Resource {
        /// The resource.
        resource: ResourceId,
        /// How much it needs.
        wants: i64,
        /// How much is free.
        free: i64,
    },
    /// No instance type is left. Counts of types by the first reason that removes each; they add up to the types of
    /// the catalogue.
    Types(TypesLeft),
    /// A topology rule.
    Topology {
        /// Which kind of rule.
        rule: TopologyRule,
        /// Its topology key.
        key: Sym,
        /// For a spread constraint, where it has too few pods.
        least: Option<Box<Least>>,
    },
    /// A host port is taken.
    HostPort {
        /// The port.
        port: u16,
    },
    /// A CSI driver's limit of volumes.
    VolumeLimit {
        /// The driver.
        driver: Sym,
    },
    /// The NodePool's limit of a resource.
    LimitReached {
        /// The resource.
        resource: ResourceId,
    },
    /// The NodePool's limit of nodes.
    NodeLimitReached,
    /// The NodePool's `minValues` of a label.
    MinValues {
        /// The label.
        key: Sym,
    },
    /// Reserved capacity that would fit is used up; the pod waits for it instead of paying more.
    ReservedCapacity,
    /// The scorer excludes every offering that would do.
    Excluded,
    /// Nothing that is looked at refuses it, and yet it was not placed: a defect of the planner or of its reasons.
    Unexplained,
}

/// The domain with the fewest pods, which a spread constraint would have filled first.
#[derive(Clone, Debug, PartialEq)]
pub struct Least {
    /// The domain.
    pub domain: Sym,
    /// How many pods it has.
    pub pods: u32,
    /// What keeps pods out of it.
    pub barred: Barred,
}

/// What keeps pods out of a domain.
#[derive(Clone, Debug, PartialEq)]
pub enum Barred {
    /// Not asked, or not known.
    Unasked,
    /// There are fewer domains than `minDomains`, so each is compared with 0.
    TooFewDomains {
        /// How many domains count.
        domains: u32,
        /// `minDomains`.
        wanted: u32,
    },
    /// No NodePool offers the domain: only nodes that exist are in it.
    NotOffered,
    /// A NodePool that offers it refuses the pod there; of several the one whose refusal is likeliest to pass.
    Refused(Refusal),
}

impl Unfit {
    /// Whether the pod itself is the reason, whatever there is to buy.
    pub fn is_of_the_pod(&self) -> bool {
        matches!(self, Unfit::Invalid(_) | Unfit::Excess(_) | Unfit::ResourceClaims | Unfit::Volume(_))
    }
}

/// How many instance types each reason removes, in the order in which they are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TypesLeft {
    /// Types in the catalogue.
    pub all: u32,
    /// Labels of the type against NodePool and pod.
    pub labels: u32,
    /// Too small, by resource that is short first: cpu, memory, pods, ephemeral storage, any other.
    pub resources: [u32; 5],
    /// No offering that is available in the zones and capacity types left.
    pub offerings: u32,
    /// Would pass the NodePool's limits.
    pub limits: u32,
    /// Offerings of the types counted in `offerings` that would do and are taken to be without capacity for now.
    pub short: u32,
    /// When the first of those is offered again, seconds since 1970; 0 where there is none.
    pub short_until: i64,
}

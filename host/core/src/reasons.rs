//! Reasons as data: why a pod does not fit, why a NodePool is not bought from, why a plan is
//! refused.

use std::fmt;
use std::sync::Arc;

use crate::ids::{NodeIx, PodIx, PoolIx};
use crate::model::{Excess, NodeClassRef, ResourceId, Symbol, Taint};

/// Who refuses a pod, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The node or NodePool that refuses the pod, or the pod itself.
    pub target: Target,
    /// The rule that the pod does not meet.
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

/// The three topology rules of pods.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TopologyRule {
    /// A topology spread constraint.
    Spread,
    /// Pod affinity.
    Affinity,
    /// Pod anti-affinity of the pod.
    AntiAffinity,
    /// Anti-affinity of a running pod that selects this one.
    InverseAntiAffinity,
}

/// Why a pod does not fit: the first rule that refuses, as data.
#[derive(Clone, Debug, PartialEq)]
pub enum Unfit {
    /// The pod's own specification cannot be planned.
    Invalid(Box<str>),
    /// It has more of something than is planned for.
    Excess(Excess),
    /// It has dynamic resource claims, which are not supported (IGNORE_DRA_REQUESTS).
    ResourceClaims,
    /// It asks for a resource that no node has and no instance type offers.
    NoSuchResource {
        /// The resource asked for.
        resource: ResourceId,
    },
    /// One of its volumes is unavailable.
    Volume(Box<str>),
    /// There is no NodePool.
    NoPools,
    /// The NodePool may not be bought from.
    Unusable(Ineligible),
    /// A taint that it does not tolerate.
    Taint(Taint),
    /// A label does not satisfy a requirement.
    Label {
        /// The label.
        key: Symbol,
    },
    /// Too little of a resource is free (existing nodes).
    Resource {
        /// The first resource that is short.
        resource: ResourceId,
        /// How much the pod needs, in the unit of the resource.
        wants: i64,
        /// How much is free, in the unit of the resource.
        free: i64,
    },
    /// No instance type is left. Counts of types by the first reason that removes each; they add up
    /// to the types of the catalogue.
    Types(TypesLeft),
    /// A topology rule.
    Topology {
        /// Spread, affinity or anti-affinity.
        rule: TopologyRule,
        /// Its topology key.
        key: Symbol,
        /// For a spread constraint, where it has too few pods; for affinity of a new node, where the
        /// pods are.
        least: Option<Box<Least>>,
    },
    /// A host port is taken.
    HostPort {
        /// Number of the port.
        port: u16,
    },
    /// A CSI driver's limit of volumes.
    VolumeLimit {
        /// Name of the CSI driver.
        driver: Symbol,
    },
    /// The NodePool's limit of a resource.
    LimitReached(LimitReached),
    /// The NodePool's limit of nodes.
    NodeLimitReached {
        /// The limit, and how many nodes there are with those of the plan. Nothing if one node is tried
        /// before others are bought.
        limit: Option<(i64, i64)>,
    },
    /// The NodePool's `minValues` of a label.
    MinValues {
        /// The label.
        key: Symbol,
    },
    /// Reserved capacity that would fit is used up; the pod waits for it instead of paying more.
    ReservedCapacity,
    /// Policies exclude every offering that fits.
    Excluded {
        /// These, as far as they are known: each excludes some of the offerings.
        policies: Vec<Arc<str>>,
    },
    /// A node that was bought for its group did not help; only nodes that exist may take it.
    UselessPurchase(UselessPurchase),
    /// The check refuses plans with it: a defect of the planner. It is left out, so that others get
    /// their nodes.
    BreaksPlan {
        /// The rule that such a plan breaks.
        rule: Invariant,
        /// What was wrong with it.
        detail: Box<str>,
    },
    /// kube-scheduler as modelled would not bind it to any node of the plan, in any of some runs.
    Unrealised {
        /// Number of simulated runs.
        runs: u32,
    },
    /// No evaluated rule refuses it, but it was not placed: a defect of the planner or of its
    /// reasons.
    Unexplained,
}

/// The domain with the fewest pods, which a spread constraint would have filled first.
#[derive(Clone, Debug, PartialEq)]
pub struct Least {
    /// Value of the topology key.
    pub domain: Symbol,
    /// How many pods it has.
    pub pods: u32,
    /// What keeps pods out of it.
    pub barred: Barred,
}

/// What keeps pods out of a domain.
#[derive(Clone, Debug, PartialEq)]
pub enum Barred {
    /// Not evaluated, or unknown.
    Unasked,
    /// There are fewer domains than `minDomains`, so each is compared with 0.
    TooFewDomains {
        /// Number of domains that the constraint counts.
        domains: u32,
        /// `minDomains`.
        wanted: u32,
    },
    /// No NodePool offers the domain: only nodes that exist are in it.
    NotOffered,
    /// The NodePools that offer it refuse the pod; this is the refusal that is likeliest to end.
    Refused(Refusal),
}

impl Unfit {
    /// Whether the pod itself is the reason, whatever there is to buy.
    pub fn is_of_the_pod(&self) -> bool {
        matches!(
            self,
            Unfit::Invalid(_)
                | Unfit::Excess(_)
                | Unfit::ResourceClaims
                | Unfit::NoSuchResource { .. }
                | Unfit::Volume(_)
        )
    }
}

/// A NodePool's limit of a resource that leaves no room for another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitReached {
    /// The resource.
    pub resource: ResourceId,
    /// The limit of the NodePool, in the unit of the resource.
    pub limit: i64,
    /// What its nodes have of it, with those of the plan.
    pub used: i64,
    /// What the smallest node that would do has of it.
    pub wants: i64,
}

/// Number of instance types that each reason removes, in the order of evaluation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TypesLeft {
    /// Types in the catalogue.
    pub all: u32,
    /// Labels of the type against NodePool and pod.
    pub labels: u32,
    /// Too small, by resource that is short first: cpu, memory, pods, ephemeral storage, any other.
    pub resources: [u32; 5],
    /// No offering that is available in the zones and capacity types left.
    pub offerings: u32,
    /// Offerings that are available, and a policy excludes all of them.
    pub excluded: u32,
    /// The policies that do, as far as they are known: each excludes some of these offerings.
    pub excluded_by: Vec<Arc<str>>,
    /// Cannot be made with the node class.
    pub incompatible: u32,
    /// Why the first of those cannot, see [`InstanceType::incompatible`].
    ///
    /// [`InstanceType::incompatible`]: crate::model::InstanceType::incompatible
    pub incompatible_for: Option<Symbol>,
    /// Of those that are too small, types that would be large enough without their DaemonSets.
    pub by_daemons: u32,
    /// What DaemonSets take of the first of those, of the resource that is short.
    pub daemons: Option<(ResourceId, i64)>,
    /// Would pass the NodePool's limits.
    pub limits: u32,
    /// Offerings of the types counted in `offerings` and `excluded` that would do and are taken to be without
    /// capacity for now.
    pub short: u32,
    /// When the first of those is offered again, seconds since 1970; 0 where there is none.
    pub short_until: i64,
}

/// Why a NodePool may not be bought from now, whatever pod asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Ineligible {
    /// It is being deleted.
    Deleting,
    /// `spec.replicas`: its nodes are kept by count, not by pods.
    Static,
    /// Its condition Ready is False or Unknown.
    NotReady,
    /// Its node class is of a kind that another provider manages.
    ForeignClass(NodeClassRef),
    /// Its node class does not exist.
    ClassMissing(NodeClassRef),
    /// Its node class is being deleted.
    ClassDeleting(NodeClassRef),
    /// Its node class has condition Ready False.
    ClassNotReady(NodeClassRef),
    /// Other agents taint its new nodes.
    ForeignTaints(ForeignTaintBackoff),
    /// Its last nodes never joined.
    NeverJoined(UnjoinedBackoff),
    /// It has no room to remember another purchase in vain.
    FullMemory(FullMemory),
}

/// A purchase that did not help a group of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UselessPurchase {
    /// The NodeClaim.
    pub claim: Box<str>,
    /// How often in a row nodes were bought in vain; 0 while the node may still help.
    pub times: u32,
    /// When the next node may be bought, seconds since 1970.
    pub until: i64,
    /// That is so by now, and it is bought for another pod of the group alone.
    pub after_another: bool,
}

/// Nodes of a NodePool that never joined or never became ready, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct UnjoinedBackoff {
    /// Number of such nodes.
    pub nodes: u32,
    /// How many of these have joined and are not ready for pods.
    pub not_ready: u32,
    /// The node class, which is the suspect.
    pub class: NodeClassRef,
    /// When the next node may be bought, seconds since 1970. One that is tried has to join first.
    pub until: i64,
}

/// A NodePool that remembers as many purchases in vain as it can.
#[derive(Clone, Debug, PartialEq)]
pub struct FullMemory {
    /// Groups of pods whose pause runs.
    pub groups: u32,
    /// When the first of the pauses has passed, seconds since 1970.
    pub until: i64,
}

/// Useless new nodes of a NodePool.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignTaintBackoff {
    /// Number of such nodes.
    pub nodes: u32,
    /// A taint of the newest that neither its NodeClaim nor Kubernetes has put there.
    pub taint: Taint,
    /// When the next node may be bought, seconds since 1970.
    pub until: i64,
}

/// A rule that a plan breaks.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// Which rule.
    pub invariant: Invariant,
    /// The claim (by position) or node (by name) where it shows.
    pub at: Option<String>,
    /// The pod that it is about, `namespace/name`, if it is about one.
    pub pod: Option<String>,
    /// Pods without which the plan does not break it here; none where no pod is to blame (sums).
    pub pods: Vec<PodIx>,
    /// The claims (positions in the plan) where it shows.
    pub claims: Vec<usize>,
    /// What is wrong, with numbers.
    pub detail: String,
}

/// Rules that are checked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Invariant {
    /// Every pending pod is in exactly one place of the plan, and nothing else is.
    Accounting,
    /// The NodePool of a claim may be bought from.
    Pool,
    /// The claim's types, offering and price belong together.
    Offering,
    /// Taints are tolerated.
    Taints,
    /// Labels satisfy node selectors and required node affinity.
    Labels,
    /// Resources suffice, daemons included.
    Resources,
    /// Host ports are free.
    Ports,
    /// Volumes can be attached, and where they are.
    Volumes,
    /// Topology spread constraints.
    Spread,
    /// Required pod affinity.
    Affinity,
    /// Required pod anti-affinity, both ways.
    AntiAffinity,
    /// Limits of NodePools.
    Limits,
    /// `minValues` of NodePools.
    MinValues,
    /// Reservations are not used beyond their capacity.
    Reservations,
    /// The sums of the plan.
    Totals,
    /// What may be disrupted, and when.
    Disruption,
    /// Replacements are cheaper than what they replace.
    Price,
    /// Planning for the pods comes to an end.
    Completion,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.invariant)?;
        if let Some(at) = &self.at {
            write!(f, " at {at}")?;
        }
        if let Some(pod) = &self.pod {
            write!(f, ", pod {pod}")?;
        }
        write!(f, ": {}", self.detail)
    }
}

//! NodePools and the classes they point at.

use super::disruptions::Disruptions;
use super::node::Taint;
use super::purchases::Purchases;
use super::requirement::Requirement;
use super::resources::{ResourceId, Resources};
use super::symbols::{Labels, Symbol, Symbols};

/// `nodeClassRef`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeClassRef {
    /// Its API group.
    pub group: Symbol,
    /// `kind` of the class, without its group.
    pub kind: Symbol,
    /// `metadata.name` of the class.
    pub name: Symbol,
}

/// A kind of node class: each provider has its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodeClassKind {
    /// Its API group.
    pub group: Symbol,
    /// `kind`, such as `EC2NodeClass`.
    pub kind: Symbol,
}

impl NodeClassRef {
    /// The kind of the class.
    pub fn of_kind(self) -> NodeClassKind {
        NodeClassKind {
            group: self.group,
            kind: self.kind,
        }
    }

    /// The label of nodes with the name of their class, such as `karpenter.k8s.aws/ec2nodeclass`.
    pub fn label(self, names: &Symbols) -> String {
        let kind = names.text(self.kind).to_ascii_lowercase();
        format!("{}/{kind}", names.text(self.group))
    }
}

/// A node class as far as planning needs to know it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeClass {
    /// Group, kind and name.
    pub id: NodeClassRef,
    /// Condition Ready; `None` if the object does not say (then it is taken for ready).
    pub ready: Option<bool>,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.generation`, 0 if absent.
    pub generation: i64,
}

/// When nodes may be consolidated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConsolidationPolicy {
    /// Only empty ones.
    WhenEmpty,
    /// Empty or underutilised ones.
    WhenEmptyOrUnderutilized,
    /// Underutilised ones if savings outweigh disruption.
    Balanced,
}

/// What one moved pod must save, unless its eviction cost says otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MoveCost {
    /// A share of what a pod of its NodePool costs on average.
    Share(f64),
    /// An amount, USD per hour.
    Amount(f64),
}

impl MoveCost {
    /// Reads `10%`, or an amount like `0.002`: nothing if it is neither, or negative.
    pub fn read(text: &str) -> Option<Self> {
        let number = |text: &str| {
            let number: f64 = text.trim().parse().ok()?;
            (number.is_finite() && number >= 0.0).then_some(number)
        };
        match text.trim().strip_suffix('%') {
            Some(share) => number(share).map(|share| MoveCost::Share(share / 100.0)),
            None => number(text).map(MoveCost::Amount),
        }
    }
}

/// Commands of disruption that failed one after the other: what they had bought did not become a
/// node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failures {
    /// How many, at least one.
    pub count: u32,
    /// Nothing is bought to replace a node before this, seconds since 1970.
    pub until: i64,
}

/// A disruption budget, kept as written; later issues evaluate it.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// `nodes`: a count or a percentage.
    pub nodes: Box<str>,
    /// `reasons`; `None` for all.
    pub reasons: Option<Vec<Symbol>>,
    /// `schedule`.
    pub schedule: Option<Box<str>>,
    /// `duration`, in seconds.
    pub duration: Option<i64>,
}

/// A NodePool of `karpenter.sh/v1`, as far as it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePool {
    /// `metadata.name`.
    pub name: Symbol,
    /// `metadata.uid`.
    pub uid: Symbol,
    /// `spec.template.metadata.labels`.
    pub labels: Labels,
    /// `spec.template.metadata.annotations`.
    pub annotations: Labels,
    /// `spec.template.spec.requirements`.
    pub requirements: Vec<Requirement>,
    /// `spec.template.spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.template.spec.startupTaints`.
    pub startup_taints: Vec<Taint>,
    /// `spec.template.spec.nodeClassRef`.
    pub class: NodeClassRef,
    /// `spec.template.spec.expireAfter`, seconds; `None` for Never.
    pub expire_after: Option<i64>,
    /// `spec.template.spec.terminationGracePeriod`, seconds.
    pub termination_grace: Option<i64>,
    /// `spec.limits`, only the resources named. `Some(0)` is a limit too, hence pairs and not
    /// [`Resources`].
    pub limits: Vec<(ResourceId, i64)>,
    /// `spec.limits.nodes`.
    pub node_limit: Option<i64>,
    /// `spec.weight`, 0 if absent.
    pub weight: i32,
    /// `spec.replicas`: a static pool.
    pub replicas: Option<i64>,
    /// `spec.disruption.consolidateAfter`, seconds; `None` for Never.
    pub consolidate_after: Option<i64>,
    /// `spec.disruption.consolidationPolicy`.
    pub consolidation: ConsolidationPolicy,
    /// `spec.disruption.budgets`.
    pub budgets: Vec<Budget>,
    /// Annotation `longshore.dev/move-cost`; `None` without one, or where it cannot be read.
    pub move_cost: Option<MoveCost>,
    /// Annotation `longshore.dev/disruption-failures`: the last commands of disruption have failed.
    /// `None` without one, or where it was written for another generation of the NodePool.
    pub failures: Option<Failures>,
    /// Annotation `longshore.dev/disruptions`; `None` where it cannot be read.
    pub disruptions: Option<Disruptions>,
    /// Condition Ready; `None` if the object does not say (then it is taken for ready).
    pub ready: Option<bool>,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.generation`, 0 if absent.
    pub generation: i64,
    /// What its annotations remember of purchases that did not help.
    pub purchases: Purchases,
    /// `status.resources`, as last written.
    pub usage: Resources,
}

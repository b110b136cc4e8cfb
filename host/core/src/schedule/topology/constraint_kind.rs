//! What pods are counted for.

use crate::reasons::TopologyRule;

/// What a group is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConstraintKind {
    /// Topology spread.
    Spread {
        /// `maxSkew`.
        max_skew: i32,
        /// `minDomains`, 0 if absent.
        min_domains: i32,
    },
    /// Pod affinity.
    Affinity,
    /// Pod anti-affinity: counts pods that are selected.
    AntiAffinity,
    /// The inverse: counts pods that own the term.
    InverseAntiAffinity,
}

impl ConstraintKind {
    /// What a refusal calls it.
    pub fn name(self) -> TopologyRule {
        match self {
            ConstraintKind::Spread { .. } => TopologyRule::Spread,
            ConstraintKind::Affinity => TopologyRule::Affinity,
            ConstraintKind::AntiAffinity => TopologyRule::AntiAffinity,
            ConstraintKind::InverseAntiAffinity => TopologyRule::InverseAntiAffinity,
        }
    }

    /// Whether it holds on a node without the topology label.
    pub fn allows_absence(self) -> bool {
        match self {
            ConstraintKind::Spread { .. } | ConstraintKind::Affinity => false,
            ConstraintKind::AntiAffinity | ConstraintKind::InverseAntiAffinity => true,
        }
    }
}

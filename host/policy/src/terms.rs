//! What an operator's file lets a policy do, whatever its component exports, declares and answers.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Something that a policy can be asked, by the interface that it exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ability {
    /// What offerings cost.
    Scorer,
    /// Which of them draw on something prepaid.
    Commitments,
    /// Which nodes are disrupted, and when.
    Consolidation,
    /// What nodes boot with: root on every one of them.
    Bootstrap,
}

impl Ability {
    /// All, by the names of their interfaces.
    pub const ALL: [(&'static str, Ability); 4] = [
        ("scorer", Ability::Scorer),
        ("commitments", Ability::Commitments),
        ("consolidation", Ability::Consolidation),
        ("bootstrap", Ability::Bootstrap),
    ];

    /// The name of its interface.
    pub fn name(self) -> &'static str {
        let named = Ability::ALL.iter().find(|(_, ability)| *ability == self);
        named.map_or("", |(name, _)| name)
    }
}

/// What becomes of offerings that a policy excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Exclusions {
    /// They are not bought at all.
    #[default]
    Allow,
    /// They cost so much that they are bought only where nothing else fits.
    Discourage,
}

/// What counts for a policy that gives no answer, once its last good version gives none either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// What it last said: differences to the list price, and exclusions.
    #[default]
    LastAnswer,
    /// The list price, or the rules of NodePools: as if it were not there.
    Price,
    /// Nothing is bought for its NodePools, and none of their nodes is consolidated.
    Hold,
}

/// How far below the list price a cost may be, unless an operator says otherwise.
pub const MAX_DISCOUNT: f64 = 0.9;

/// What an operator lets a policy do.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// What the operator calls it; none where nobody gave it a name of its own.
    pub name: Option<Arc<str>>,
    /// What it may be asked, if it exports it.
    pub grants: BTreeSet<Ability>,
    /// The signals that it may read, of those that it declares; none for all of these.
    pub signals: Option<BTreeSet<String>>,
    /// The share of the list price that it may take off, 0 to 1. Commitments are excepted.
    pub max_discount: f64,
    /// What becomes of offerings that it excludes.
    pub exclusions: Exclusions,
    /// What counts where it gives no answer.
    pub on_failure: OnFailure,
}

impl Default for Terms {
    /// Costs and commitments, and every signal that it declares.
    fn default() -> Self {
        Terms {
            name: None,
            grants: BTreeSet::from([Ability::Scorer, Ability::Commitments]),
            signals: None,
            max_discount: MAX_DISCOUNT,
            exclusions: Exclusions::Allow,
            on_failure: OnFailure::LastAnswer,
        }
    }
}

impl Terms {
    /// The least share of its list price that an offering costs, 0 to 1.
    pub(crate) fn least_share(&self) -> f64 {
        (1.0 - self.max_discount).clamp(0.0, 1.0)
    }

    /// Everything that a component exports and declares, for tools and tests.
    pub fn everything() -> Self {
        Terms {
            grants: Ability::ALL.iter().map(|(_, ability)| *ability).collect(),
            ..Terms::default()
        }
    }
}

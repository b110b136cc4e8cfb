//! A policy that was loaded: what it exports and says about itself, its limits and its settings.

use std::collections::BTreeSet;
use std::sync::Arc;

use wasmtime::component::{ComponentExportIndex, InstancePre};

use crate::call::answer::About;
use crate::engine::Limits;
use crate::imports::state::StoreData;
use crate::score_request::ScoreRequest;
use crate::signals::DeclaredSignals;
use crate::terms::{Ability, Terms};

/// A policy that was loaded and took its settings. Cheap to clone.
#[derive(Clone)]
pub struct LoadedPolicy(pub(crate) Arc<Loaded>);

#[derive(Clone)]
pub(crate) struct Loaded {
    pub pre: InstancePre<StoreData>,
    pub exports: Exports,
    pub limits: Limits,
    pub about: About,
    /// What an operator lets it do.
    pub terms: Terms,
    /// Signals that it declares, and whether it may read them.
    pub visible: Arc<DeclaredSignals>,
    pub digest: String,
    pub settings: Arc<str>,
    /// What it is asked before its first question.
    pub nothing: ScoreRequest,
}

/// Where to find the functions that are called.
#[derive(Clone)]
pub(crate) struct Exports {
    pub describe: ComponentExportIndex,
    pub configure: ComponentExportIndex,
    pub score: Option<ComponentExportIndex>,
    pub pools: Option<ComponentExportIndex>,
    pub weigh: Option<ComponentExportIndex>,
    pub decide: Option<ComponentExportIndex>,
    pub overheads: Option<ComponentExportIndex>,
    pub user_data: Option<ComponentExportIndex>,
}

impl LoadedPolicy {
    /// Whether both are the one that was loaded once.
    pub fn is_same(&self, other: &LoadedPolicy) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Exports {
    /// Forgets what the operator does not grant: it is never asked.
    pub fn restrict(&mut self, grants: &BTreeSet<Ability>) {
        let withheld = |ability| !grants.contains(&ability);
        if withheld(Ability::Scorer) {
            (self.score, self.pools) = (None, None);
        }
        if withheld(Ability::Commitments) {
            self.pools = None;
        }
        if withheld(Ability::Consolidation) {
            (self.weigh, self.decide) = (None, None);
        }
        if withheld(Ability::Bootstrap) {
            (self.overheads, self.user_data) = (None, None);
        }
    }
}

impl LoadedPolicy {
    /// What it says about itself.
    pub fn about(&self) -> &About {
        &self.0.about
    }

    /// What the operator calls it, else what it calls itself.
    pub fn name(&self) -> &str {
        (self.0.terms.name.as_deref()).unwrap_or(&self.0.about.name)
    }

    /// Its name, with the version that it says it is.
    pub fn called(&self) -> String {
        format!("{} {}", self.name(), self.0.about.version)
    }

    /// What the operator lets it do.
    pub fn terms(&self) -> &Terms {
        &self.0.terms
    }

    /// What it exports and is not asked, since the operator does not grant that.
    pub fn not_granted(&self) -> Vec<Ability> {
        let exported = self.0.about.implements.iter();
        let exported = exported.filter_map(|name| {
            let known = Ability::ALL.iter().find(|(known, _)| known == name);
            known.map(|(_, ability)| *ability)
        });
        exported
            .filter(|ability| !self.0.terms.grants.contains(ability))
            .collect()
    }

    /// Signals that it declares and does not see, since the operator does not grant them.
    pub fn withheld_signals(&self) -> Vec<&str> {
        let declared = self.0.about.signals.iter().map(|of| of.name.as_str());
        declared
            .filter(|name| !self.0.visible.may_read(name))
            .collect()
    }

    /// Whether it says what offerings cost.
    pub fn is_scorer(&self) -> bool {
        self.0.exports.score.is_some()
    }

    /// Whether it says which nodes are disrupted, and when.
    pub fn is_consolidation(&self) -> bool {
        self.0.exports.decide.is_some()
    }

    /// SHA-256 of its bytes, in hex.
    pub fn digest(&self) -> &str {
        &self.0.digest
    }

    /// Its settings, a JSON object.
    pub fn settings(&self) -> &str {
        &self.0.settings
    }
}

impl std::fmt::Debug for LoadedPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} {} ({})",
            self.0.about.name,
            self.0.about.version,
            &self.0.digest[..12]
        )
    }
}

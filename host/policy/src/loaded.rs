//! A policy that was loaded: what it exports and says about itself, its limits and its settings.

use std::sync::Arc;

use wasmtime::component::{ComponentExportIndex, InstancePre};

use crate::call::answer::About;
use crate::columns::Columns;
use crate::engine::Limits;
use crate::imports::state::State;

/// A policy that was loaded and took its settings. Cheap to clone.
#[derive(Clone)]
pub struct LoadedPolicy(pub(crate) Arc<Loaded>);

pub(crate) struct Loaded {
    pub pre: InstancePre<State>,
    pub exports: Exports,
    pub limits: Limits,
    pub about: About,
    pub digest: String,
    pub settings: Arc<str>,
    pub no_columns: Arc<Columns>,
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
    /// What it says about itself.
    pub fn about(&self) -> &About {
        &self.0.about
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

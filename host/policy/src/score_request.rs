//! The request to a policy. It can be kept, and sent again to another policy.

use std::sync::Arc;

use longshore_core::model::{Labels, NodePool, Symbols};

use crate::cluster_columns::{ClusterColumns, ProposalColumns};
use crate::columns::Columns;
use crate::signals::Signals;

/// A question as policies see it: the catalogue's columns, signals, NodePool and time. Everything
/// is shared, so that a copy costs nothing and holds no world.
#[derive(Clone)]
pub struct ScoreRequest {
    pub(crate) columns: Arc<Columns>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) node_pool: Arc<str>,
    pub(crate) pool: Arc<PoolFacts>,
    pub(crate) now: f64,
    /// What offerings cost before it: by the policies before it in the chain, else the list price.
    pub(crate) costs: Arc<[f64]>,
}

impl ScoreRequest {
    /// About nothing: no offerings, signals or NodePool.
    pub(crate) fn nothing() -> Self {
        ScoreRequest {
            columns: Arc::new(Columns::empty()),
            signals: Arc::default(),
            pool: Arc::default(),
            node_pool: "".into(),
            now: 0.0,
            costs: Arc::default(),
        }
    }

    /// The NodePool that nodes are wanted for.
    pub fn node_pool(&self) -> &str {
        &self.node_pool
    }

    /// How many offerings it is about.
    pub fn offerings(&self) -> usize {
        self.columns.count()
    }

    /// This request for a policy that is given other costs, by policies before it.
    pub fn with_costs(&self, costs: &Arc<[f64]>) -> Self {
        ScoreRequest {
            costs: costs.clone(),
            ..self.clone()
        }
    }

    /// This request in the light of other signals.
    pub fn with_signals(&self, signals: &Arc<Signals>) -> Self {
        ScoreRequest {
            signals: signals.clone(),
            ..self.clone()
        }
    }
}

/// What is known of a NodePool beside its name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PoolFacts {
    /// Labels of its nodes, by key.
    pub labels: Pairs,
    /// Annotations of its nodes, by key.
    pub annotations: Pairs,
    pub weight: u32,
}

/// Keys and values.
pub(crate) type Pairs = Arc<[(Arc<str>, Arc<str>)]>;

impl PoolFacts {
    pub fn of(pool: &NodePool, names: &Symbols) -> Self {
        let pairs = |labels: &Labels| {
            let text = |symbol| -> Arc<str> { names.text(symbol).into() };
            let pairs = labels.iter().map(|(key, value)| (text(key), text(value)));
            let mut pairs: Vec<(Arc<str>, Arc<str>)> = pairs.collect();
            pairs.sort();
            pairs.into()
        };
        PoolFacts {
            labels: pairs(&pool.labels),
            annotations: pairs(&pool.annotations),
            weight: u32::try_from(pool.weight).unwrap_or(0),
        }
    }
}

/// A question about consolidation as policies see it.
#[derive(Clone)]
pub(crate) struct JudgeRequest {
    pub base: ScoreRequest,
    pub cluster: Arc<ClusterColumns>,
    pub proposals: Arc<ProposalColumns>,
}

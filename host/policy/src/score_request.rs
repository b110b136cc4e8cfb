//! The request to a policy. It can be kept, and sent again to another policy.

use std::sync::Arc;

use crate::cluster_columns::{ClusterColumns, ProposalColumns};
use crate::columns::Columns;
use crate::signals::Signals;

/// A question as policies see it: the catalogue's columns, signals, NodePool and time. Everything
/// is shared, so that a copy costs nothing and holds no world.
#[derive(Clone)]
pub struct ScoreRequest {
    pub(crate) columns: Arc<Columns>,
    pub(crate) signals: (Arc<Signals>, u32),
    pub(crate) node_pool: Arc<str>,
    pub(crate) now: f64,
    /// What offerings cost before it: by the policies before it in the chain, else the list price.
    pub(crate) costs: Arc<[f64]>,
}

impl ScoreRequest {
    /// About nothing: no offerings, signals or NodePool.
    pub(crate) fn nothing() -> Self {
        ScoreRequest {
            columns: Arc::new(Columns::empty()),
            signals: (Arc::default(), 0),
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

    /// This request in the light of other signals.
    pub fn with_signals(&self, signals: &Arc<Signals>) -> Self {
        ScoreRequest {
            columns: Arc::new(self.columns.with_signals(signals)),
            signals: (signals.clone(), self.signals.1.wrapping_add(1)),
            ..self.clone()
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

//! One policy called directly with one catalogue, without a substitute: for tools, golden vectors
//! and benchmarks.

use std::sync::Arc;

use longshore_core::model::{Catalogue, NodePool, Symbols};
use longshore_core::policy::Scores;

use crate::call::Instance;
use crate::call::answer::CallError;
use crate::call::scores::Guard;
use crate::chain::dearer;
use crate::columns::Columns;
use crate::imports::state::Message;
use crate::loaded::LoadedPolicy;
use crate::report::CallUsage;
use crate::score_request::{PoolFacts, ScoreRequest};
use crate::signals::Signals;

/// An instance of a policy with a request set.
pub struct Session {
    instance: Instance,
    request: ScoreRequest,
    guard: Guard,
}

impl Session {
    /// A fresh instance, and the request that [`Session::ask`] asks.
    pub fn new(
        policy: &LoadedPolicy,
        catalogue: &Catalogue,
        names: &Symbols,
        signals: Signals,
        node_pool: &str,
        now: i64,
    ) -> Result<Self, CallError> {
        let request = request(catalogue, names, signals, node_pool, now);
        Session::of(policy, &request)
    }

    /// As [`Session::new`], with what is known of a NodePool.
    pub fn for_pool(
        policy: &LoadedPolicy,
        catalogue: &Catalogue,
        names: &Symbols,
        signals: Signals,
        pool: &NodePool,
        now: i64,
    ) -> Result<Self, CallError> {
        let facts = Arc::new(PoolFacts::of(pool, names));
        let request = request(catalogue, names, signals, names.text(pool.name), now);
        let request = ScoreRequest {
            pool: facts,
            ..request
        };
        Session::of(policy, &request)
    }

    /// A new instance that gets an earlier request.
    pub fn of(policy: &LoadedPolicy, request: &ScoreRequest) -> Result<Self, CallError> {
        let mut instance = policy.instantiate()?;
        instance.set_request(request);
        Ok(Session {
            instance,
            request: request.clone(),
            guard: Guard::of(policy.terms()),
        })
    }

    /// Asks. After an error the session is of no use any more.
    pub fn ask(&mut self) -> Result<Scores, CallError> {
        let answer = self.instance.score()?;
        let guarded = self.guard.apply(answer, &self.request)?;
        let cost = dearer(&guarded.scores.cost, &guarded.discouraged);
        Ok(Scores {
            cost,
            ..guarded.scores
        })
    }

    /// Asks the same instance something else.
    pub fn put(&mut self, request: &ScoreRequest) {
        self.instance.set_request(request);
        self.request = request.clone();
    }

    /// The most that a call used, since last asked.
    pub fn usage(&mut self) -> CallUsage {
        self.instance.take_usage()
    }

    /// What the policy has said since last asked.
    pub fn messages(&mut self) -> Vec<Message> {
        self.instance.take_messages()
    }
}

fn request(
    catalogue: &Catalogue,
    names: &Symbols,
    signals: Signals,
    node_pool: &str,
    now: i64,
) -> ScoreRequest {
    let columns = Arc::new(Columns::build(catalogue, names, None));
    ScoreRequest {
        costs: columns.moving.prices.clone(),
        columns,
        signals: Arc::new(signals),
        node_pool: node_pool.into(),
        pool: Arc::default(),
        now: now as f64,
    }
}

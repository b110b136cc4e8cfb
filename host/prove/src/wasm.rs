//! Components as what is proved.

use std::cell::RefCell;
use std::sync::Arc;

use longshore_core::disrupt::consolidation::DisruptionPolicies;
use longshore_policy::{Assignment, Case, Host, LoadedPolicy, Report, Session, WasmPolicies};

use crate::judges::Judge;
use crate::scorers::{NoCosts, Scorer};

/// A component that scores.
pub struct WasmScorer {
    policy: LoadedPolicy,
    session: Option<Session>,
    /// Of the case that was asked last.
    order: Vec<usize>,
}

impl WasmScorer {
    /// One with settings.
    pub fn new(policy: LoadedPolicy) -> Self {
        WasmScorer {
            policy,
            session: None,
            order: Vec::new(),
        }
    }
}

impl Scorer for WasmScorer {
    fn fresh(&mut self) {
        self.session = None;
    }

    fn costs(&mut self, case: &Case) -> Result<Vec<f64>, NoCosts> {
        self.order = case.order();
        let request = case.request(&self.order);
        match &mut self.session {
            Some(session) => session.put(&request),
            empty => {
                *empty = Some(Session::of(&self.policy, &request)?);
            }
        }
        self.costs_again(case)
    }

    fn costs_again(&mut self, case: &Case) -> Result<Vec<f64>, NoCosts> {
        let Some(session) = &mut self.session else {
            return self.costs(case);
        };
        match session.ask() {
            Ok(scores) => Ok(case.in_order(&self.order, &scores.cost)),
            Err(error) => {
                self.session = None;
                Err(error.into())
            }
        }
    }

    fn fuel_permille(&mut self) -> u32 {
        let session = self.session.as_mut();
        session.map_or(0, |session| session.usage().fuel_permille)
    }
}

/// A component that decides about disruption.
pub struct WasmJudge {
    host: Host,
    policy: LoadedPolicy,
    policies: RefCell<Arc<WasmPolicies>>,
}

impl WasmJudge {
    /// One with settings.
    pub fn new(host: Host, policy: LoadedPolicy) -> Self {
        let policies = RefCell::new(Arc::new(served(&host, &policy)));
        WasmJudge {
            host,
            policy,
            policies,
        }
    }
}

fn served(host: &Host, policy: &LoadedPolicy) -> WasmPolicies {
    host.policies(vec![Assignment {
        policy: policy.clone(),
        node_pools: vec![],
    }])
}

impl Judge for WasmJudge {
    fn fresh(&mut self) {
        *self.policies.get_mut() = Arc::new(served(&self.host, &self.policy));
    }

    fn ask(&self, now: i64, with: &mut dyn FnMut(&dyn DisruptionPolicies)) -> Vec<String> {
        let policies = self.policies.borrow().clone();
        policies.begin_round(now);
        with(&*policies);
        let failed = policies
            .reports()
            .into_iter()
            .filter_map(|report| match report {
                Report::Failed { error, .. } => Some(error.to_string()),
                _ => None,
            });
        failed.collect()
    }
}

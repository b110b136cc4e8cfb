//! Who is asked for which NodePool, and who answers where a policy fails: its last good version, then the price.
//!
//! A version that failed is not asked again before the next round, so that a bad policy costs a round one failure and
//! not one for every NodePool. Which one answered, and why, is in the reports.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_core::model::{Catalogue, Names, Sym};
use longshore_core::policy::{ByPrice, Policies, Scores};

use crate::call::{CallError, Instance};
use crate::columns::Columns;
use crate::imports::Message;
use crate::load::{Host, LoadedPolicy};
use crate::signals::Signals;

/// After so many questions an instance is replaced, even within a round. Garbage collectors in guests lag behind: Go's
/// was seen to fill 64 MiB within 1 500 questions on 5 000 offerings.
const CALLS_PER_INSTANCE: u32 = 200;

/// A policy and whom it serves.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The policy.
    pub policy: LoadedPolicy,
    /// NodePools by name; empty for all. Of several assignments for a NodePool the first counts.
    pub node_pools: Vec<String>,
}

/// Who answered instead of a policy that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// The version that last gave a good answer.
    LastGood,
    /// Nobody: an offering costs its price.
    Price,
}

/// What happened while policies were asked.
#[derive(Debug)]
pub enum Report {
    /// A policy gave no answer that could be used.
    Failed {
        /// Its name and version.
        policy: String,
        /// SHA-256 of the component.
        digest: String,
        /// The NodePool that it was asked for.
        node_pool: String,
        /// What went wrong.
        error: CallError,
        /// Who answers for the rest of the round.
        instead: Fallback,
    },
    /// A policy said something.
    Said {
        /// Its name and version.
        policy: String,
        /// What it said.
        message: Message,
    },
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Report::Failed { policy, node_pool, error, instead, .. } => {
                let instead = match instead {
                    Fallback::LastGood => "its last good version answers",
                    Fallback::Price => "offerings cost their price",
                };
                write!(
                    f,
                    "policy {policy} failed for NodePool {node_pool}: {error}; {instead} for the rest of the round"
                )
            }
            Report::Said { policy, message } => write!(f, "policy {policy} says: {}", message.text),
        }
    }
}

/// Scorers by NodePool: the host's side of [`Policies`].
pub struct WasmPolicies {
    inner: Mutex<Inner>,
}

struct Inner {
    scorers: Vec<Scorer>,
    columns: Option<Arc<Columns>>,
    signals: (Arc<Signals>, u32),
    now: f64,
    reports: Vec<Report>,
}

struct Scorer {
    current: Version,
    last_good: Option<Version>,
    node_pools: Vec<String>,
}

struct Version {
    policy: LoadedPolicy,
    /// An instance, and how often it has been asked.
    instance: Option<(Instance, u32)>,
    answered: bool,
    failed: bool,
}

impl Host {
    /// Policies at work. NodePools that no assignment serves are scored by price.
    pub fn policies(&self, assignments: Vec<Assignment>) -> WasmPolicies {
        let scorers = assignments
            .into_iter()
            .map(|a| Scorer { current: Version::new(a.policy), last_good: None, node_pools: a.node_pools })
            .collect();
        let inner = Inner { scorers, columns: None, signals: (Arc::default(), 0), now: 0.0, reports: Vec::new() };
        WasmPolicies { inner: Mutex::new(inner) }
    }
}

impl WasmPolicies {
    /// Begins a round at `now` (seconds since 1970): instances are made anew, failed versions get another chance.
    pub fn begin_round(&self, now: i64) {
        let mut inner = self.lock();
        inner.now = now as f64;
        for scorer in &mut inner.scorers {
            for version in std::iter::once(&mut scorer.current).chain(&mut scorer.last_good) {
                version.instance = None;
                version.failed = false;
            }
        }
    }

    /// Puts new signals in the place of all that were there.
    pub fn set_signals(&self, signals: Signals) {
        let mut inner = self.lock();
        if *inner.signals.0 != signals {
            inner.signals = (Arc::new(signals), inner.signals.1.wrapping_add(1));
        }
    }

    /// Puts another version in the place of assignment `at`. The one that goes stays as last good version if it ever
    /// gave a good answer.
    pub fn replace(&self, at: usize, policy: LoadedPolicy) {
        let mut inner = self.lock();
        let Some(scorer) = inner.scorers.get_mut(at) else { return };
        let old = std::mem::replace(&mut scorer.current, Version::new(policy));
        if old.answered {
            scorer.last_good = Some(old);
        }
    }

    /// What happened since last asked, in order.
    pub fn reports(&self) -> Vec<Report> {
        std::mem::take(&mut self.lock().reports)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic in between leaves at worst an instance behind that fails and is dropped.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Policies for WasmPolicies {
    fn score(&self, catalogue: &Catalogue, names: &Names, pool: Sym) -> Scores {
        self.lock().score(catalogue, names, pool).unwrap_or_else(|| ByPrice.score(catalogue, names, pool))
    }
}

impl Inner {
    fn score(&mut self, catalogue: &Catalogue, names: &Names, pool: Sym) -> Option<Scores> {
        let node_pool = names.text(pool);
        let serves = |s: &&mut Scorer| s.node_pools.is_empty() || s.node_pools.iter().any(|name| name == node_pool);
        let scorer = self.scorers.iter_mut().find(serves)?;
        let columns = Arc::new(Columns::build(catalogue, names, &self.signals.0, self.columns.as_deref()));
        self.columns = Some(columns.clone());

        let Scorer { current, last_good, .. } = scorer;
        let spare = last_good.as_ref().is_some_and(|version| !version.failed);
        let ask = |version: &mut Version, instead, reports: &mut Vec<Report>| {
            version.ask(
                |instance| instance.set_question(&columns, &self.signals, node_pool, self.now),
                node_pool,
                instead,
                reports,
            )
        };
        let instead = if spare { Fallback::LastGood } else { Fallback::Price };
        ask(current, instead, &mut self.reports)
            .or_else(|| ask(last_good.as_mut()?, Fallback::Price, &mut self.reports))
    }
}

impl Version {
    fn new(policy: LoadedPolicy) -> Self {
        Version { policy, instance: None, answered: false, failed: false }
    }

    /// Its scores, unless it fails or has failed in this round.
    fn ask(
        &mut self,
        question: impl FnOnce(&mut Instance),
        node_pool: &str,
        instead: Fallback,
        reports: &mut Vec<Report>,
    ) -> Option<Scores> {
        if self.failed {
            return None;
        }
        let about = self.policy.about();
        let name = format!("{} {}", about.name, about.version);
        let made = match self.instance.take().filter(|&(_, calls)| calls < CALLS_PER_INSTANCE) {
            Some(kept) => Ok(kept),
            None => self.policy.instantiate().map(|instance| (instance, 0)),
        };
        let (messages, answer) = match made {
            Ok((mut instance, calls)) => {
                question(&mut instance);
                let answer = instance.score();
                let messages = instance.take_messages();
                // An instance that failed is dropped here.
                self.instance = answer.is_ok().then_some((instance, calls + 1));
                (messages, answer)
            }
            Err(error) => (Vec::new(), Err(error)),
        };
        reports.extend(messages.into_iter().map(|message| Report::Said { policy: name.clone(), message }));
        match answer {
            Ok(scores) => {
                self.answered = true;
                Some(scores)
            }
            Err(error) => {
                self.failed = true;
                let (digest, node_pool) = (self.policy.digest().to_owned(), node_pool.to_owned());
                reports.push(Report::Failed { policy: name, digest, node_pool, error, instead });
                None
            }
        }
    }
}

impl LoadedPolicy {
    /// A fresh instance with its settings.
    pub(crate) fn instantiate(&self) -> Result<Instance, CallError> {
        let mut instance = Instance::new(&self.0)?;
        instance.configure(self.0.settings.clone())?;
        Ok(instance)
    }
}

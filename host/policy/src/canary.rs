//! The next version of a policy beside the one at work: it is asked the same questions in the same
//! round, and obeyed for some NodePools.
//!
//! What it does wrong is noted, and it is not asked again before the next round; the version at work
//! has answered already. Whether it is asked then is for the caller to say.

use crate::call::Instance;
use crate::call::answer::CallError;
use crate::loaded::LoadedPolicy;
use crate::report::{CallUsage, Fallback, Report};
use crate::round_budget::RoundBudget;
use crate::version::{Call, Version, Versions};

/// NodePools that a version is obeyed for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Obeyed {
    /// None: it is not even asked.
    #[default]
    NotAsked,
    /// These; it is asked about all that the policy serves.
    Named(Vec<String>),
    /// All that the policy serves.
    All,
}

impl Obeyed {
    /// Whether it is obeyed for a NodePool.
    pub fn has(&self, node_pool: &str) -> bool {
        match self {
            Obeyed::NotAsked => false,
            Obeyed::Named(names) => names.iter().any(|name| name == node_pool),
            Obeyed::All => true,
        }
    }
}

/// What the next version of a policy did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CanaryFault {
    /// It gave no answer that could be used.
    NoAnswer(String),
    /// It gave two answers to one question, about a NodePool or in words.
    TwoAnswers(String),
    /// Costs were too far below the list price.
    Discount(String),
}

/// What was seen of a next version since last asked.
#[derive(Clone, Debug, Default)]
pub struct CanarySeen {
    /// Questions about NodePools that it is obeyed for.
    pub asked: u64,
    /// The first thing that it did wrong.
    pub fault: Option<CanaryFault>,
    /// The most that a call used.
    pub usage: CallUsage,
}

/// The next version of a place.
pub(crate) struct Next {
    version: Version,
    pub obeyed: Obeyed,
    seen: CanarySeen,
}

/// How answers to a question are judged.
pub(crate) struct Judged<'j, T> {
    /// Whether two are the same.
    pub same: &'j dyn Fn(&T, &T) -> bool,
    /// What is wrong with one that could be used.
    pub wrong: &'j dyn Fn(&LoadedPolicy, &T) -> Option<CanaryFault>,
    /// What it is about, for messages.
    pub about: &'j str,
}

impl Next {
    /// One that is not asked before a caller says so.
    pub fn new(policy: LoadedPolicy) -> Self {
        Next {
            version: Version::new(policy),
            obeyed: Obeyed::NotAsked,
            seen: CanarySeen::default(),
        }
    }

    /// The same without an instance, with another chance, and with nothing seen.
    pub fn rested(&self) -> Self {
        Next {
            version: self.version.rested(),
            obeyed: self.obeyed.clone(),
            seen: CanarySeen::default(),
        }
    }

    pub fn is(&self, policy: &LoadedPolicy) -> bool {
        std::sync::Arc::ptr_eq(&self.version.policy.0, &policy.0)
    }

    pub fn begin_round(&mut self, budget: RoundBudget) {
        self.version.begin_round(budget);
    }

    pub fn take_seen(&mut self) -> CanarySeen {
        std::mem::take(&mut self.seen)
    }

    /// Its answer if it is good; twice the same.
    fn ask<T>(&mut self, call: &Call<'_, T>, judged: &Judged<'_, T>) -> Option<T> {
        if self.obeyed == Obeyed::NotAsked || self.seen.fault.is_some() {
            return None;
        }
        let asked = match self.version.known(call) {
            Some(known) => Ok(known),
            None => self.ask_twice(call, judged),
        };
        self.seen.usage.add(self.version.take_usage());
        let fault = match asked {
            Ok(answer) => match (judged.wrong)(&self.version.policy, &answer) {
                None => return Some(answer),
                Some(wrong) => wrong,
            },
            Err(fault) => fault,
        };
        self.seen.fault = Some(fault);
        None
    }

    fn ask_twice<T>(
        &mut self,
        call: &Call<'_, T>,
        judged: &Judged<'_, T>,
    ) -> Result<T, CanaryFault> {
        let mut reports = Vec::new();
        let answer = self.version.ask(call, Fallback::LastGood, &mut reports);
        let Some(answer) = answer else {
            let failed = reports.into_iter().find_map(|report| match report {
                Report::Failed { error, .. } => Some(error.to_string()),
                Report::Said { .. } | Report::Raised { .. } => None,
            });
            return Err(CanaryFault::NoAnswer(failed.unwrap_or_default()));
        };
        let again = self.version.ask_again(call);
        let again = again.map_err(|error| CanaryFault::NoAnswer(error.to_string()))?;
        match (judged.same)(&answer, &again) {
            true => Ok(answer),
            false => Err(CanaryFault::TwoAnswers(judged.about.to_owned())),
        }
    }
}

impl Version {
    /// Its answer to what it was just asked: of an instance that was asked before, if the first one was
    /// not, else of one that was not.
    fn ask_again<T>(&mut self, call: &Call<'_, T>) -> Result<T, CallError> {
        let mut fresh: Instance;
        let instance = match &mut self.instance {
            Some((instance, 1)) => instance,
            _ => {
                fresh = self.policy.instantiate_within(self.budget)?;
                &mut fresh
            }
        };
        let answer = (call.ask)(instance, &self.policy, None);
        self.budget = instance.budget();
        // What it says was said the first time.
        _ = instance.take_messages();
        answer
    }
}

impl Versions {
    /// What the next version answers; nothing if there is none, or it is not asked, or did something
    /// wrong.
    pub fn ask_next<T>(
        &mut self,
        call: &Call<'_, T>,
        judged: &Judged<'_, T>,
    ) -> Option<(LoadedPolicy, T)> {
        let next = self.next.as_mut()?;
        let answer = next.ask(call, judged)?;
        Some((next.version.policy.clone(), answer))
    }

    /// Whether the next version is obeyed for a NodePool; one that did something wrong is not.
    pub fn obeys_next(&mut self, node_pool: &str) -> bool {
        let Some(next) = &mut self.next else {
            return false;
        };
        let is_obeyed = next.obeyed.has(node_pool);
        next.seen.asked += u64::from(is_obeyed);
        is_obeyed && next.seen.fault.is_none()
    }
}

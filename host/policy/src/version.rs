//! One place among the policies: the version at work, its last good one, and how they are asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::answer_cache::KeptAnswers;
use crate::call::Instance;
use crate::call::answer::CallError;
use crate::canary::Next;
use crate::last_answers::LastAnswer;
use crate::last_decisions::LastDecisions;
use crate::loaded::LoadedPolicy;
use crate::report::{CallStats, CallUsage, Fallback, Report};
use crate::round_budget::{ROUND_TIME, RoundBudget};
use crate::terms::{OnFailure, Terms};

/// Number of calls after which an instance is replaced, even within a round. Garbage collectors in
/// guests lag behind: Go's was seen to fill 64 MiB within 1 500 questions on 5 000 offerings.
const CALLS_PER_INSTANCE: u32 = 200;

/// The versions of a place for one kind of question.
#[derive(Default)]
pub(crate) struct Versions {
    pub current: Option<Version>,
    pub last_good: Option<Version>,
    pub node_pools: Vec<String>,
    /// Whether this kind of question is for it.
    pub is_asked: bool,
    pub tally: CallStats,
    /// What the operator says of it, loaded or not.
    pub terms: Terms,
    /// Its last good answers by NodePool, if they count when it fails.
    pub last_answers: BTreeMap<Arc<str>, LastAnswer>,
    /// What it last said of nodes, if that counts when it fails.
    pub last_decisions: LastDecisions,
    /// The version that is to follow the one at work.
    pub next: Option<Next>,
}

pub(crate) struct Version {
    pub policy: LoadedPolicy,
    /// An instance, and how often it has been asked.
    pub instance: Option<(Instance, u32)>,
    pub answered: bool,
    pub failed: bool,
    /// Whether costs of it were raised.
    pub said_raised: bool,
    /// Answers that hold for other questions.
    kept: KeptAnswers,
    /// The most that a call used, since last taken.
    usage: CallUsage,
    /// What is left to it in this round.
    pub budget: RoundBudget,
}

/// A question of one kind: what it is about, how it is set, and how the answer is had.
pub(crate) struct Call<'q, T> {
    /// Position of the place among the assignments.
    pub place: usize,
    /// The NodePool; empty for a question about all.
    pub node_pool: &'q str,
    /// What answers where no version does.
    pub fallback: Fallback,
    /// Puts the question to an instance and has it answered. The answers that are kept of the version
    /// come along where this is the instance's first question.
    pub ask: Ask<'q, T>,
    /// An answer that is kept and holds for this question.
    pub known: &'q dyn Fn(&KeptAnswers, &LoadedPolicy) -> Option<T>,
}

pub(crate) type Ask<'q, T> =
    &'q dyn Fn(&mut Instance, &LoadedPolicy, Option<&mut KeptAnswers>) -> Result<T, CallError>;

impl Versions {
    /// A place that follows another one: the version that goes stays as last good one if it ever
    /// gave a good answer.
    pub fn follow(
        policy: Option<LoadedPolicy>,
        node_pools: Vec<String>,
        terms: &Terms,
        old: Option<&Self>,
    ) -> Self {
        let (answered, last_good) = match (&policy, old) {
            (
                Some(new),
                Some(Versions {
                    current: Some(old),
                    last_good,
                    ..
                }),
            ) => {
                let same = std::sync::Arc::ptr_eq(&new.0, &old.policy.0);
                let spare = if same || !old.answered {
                    last_good.as_ref()
                } else {
                    Some(old)
                };
                (same && old.answered, spare.map(Version::rested))
            }
            (Some(_), Some(old)) => (false, old.last_good.as_ref().map(Version::rested)),
            _ => (false, None),
        };
        // What an operator has taken back is not done by an older version either.
        let last_good = last_good.filter(|version: &Version| version.policy.terms() == terms);
        let last_answers = old.map(|old| old.last_answers.clone()).unwrap_or_default();
        let last_decisions = old.map(|old| old.last_decisions.clone());
        Versions {
            current: policy.map(|policy| Version {
                answered,
                ..Version::new(policy)
            }),
            last_good,
            node_pools,
            is_asked: true,
            tally: CallStats::default(),
            terms: terms.clone(),
            last_answers,
            last_decisions: last_decisions.unwrap_or_default(),
            next: None,
        }
    }

    /// Has a next version asked beside the one at work; the one that was before, if it is that.
    pub fn with_next(mut self, policy: Option<LoadedPolicy>, old: Option<&Self>) -> Self {
        let before = old.and_then(|old| old.next.as_ref());
        self.next = policy.map(|policy| match before {
            Some(next) if next.is(&policy) => next.rested(),
            _ => Next::new(policy),
        });
        self
    }

    /// What counts about a NodePool where no version answers; `usual` if that is said to be the same as
    /// without the policy, or it never answered.
    pub fn fallback(&self, has_answered: bool, usual: Fallback) -> Fallback {
        match self.terms.on_failure {
            OnFailure::LastAnswer if has_answered => Fallback::LastAnswer,
            OnFailure::LastAnswer | OnFailure::Price => usual,
            OnFailure::Hold => Fallback::Hold,
        }
    }

    /// The same versions without instances, with another chance and without a tally.
    pub fn rested(&self) -> Self {
        let rested = |version: &Option<Version>| version.as_ref().map(Version::rested);
        Versions {
            current: rested(&self.current),
            last_good: rested(&self.last_good),
            node_pools: self.node_pools.clone(),
            is_asked: self.is_asked,
            tally: CallStats::default(),
            terms: self.terms.clone(),
            last_answers: self.last_answers.clone(),
            last_decisions: self.last_decisions.clone(),
            next: self.next.as_ref().map(Next::rested),
        }
    }

    /// Whether it is for a NodePool.
    pub fn serves(&self, node_pool: &str) -> bool {
        let named = || self.node_pools.iter().any(|name| name == node_pool);
        self.is_asked && (self.node_pools.is_empty() || named())
    }

    /// The version of this policy.
    pub fn version_of(&mut self, policy: &LoadedPolicy) -> Option<&mut Version> {
        let mut versions = self.current.iter_mut().chain(&mut self.last_good);
        versions.find(|version| std::sync::Arc::ptr_eq(&version.policy.0, &policy.0))
    }

    /// Whether a version is the one at work or the next one, and not the last good one.
    pub fn is_at_work(&self, policy: &LoadedPolicy) -> bool {
        let current = self.current.as_ref();
        let is_current =
            current.is_some_and(|version| std::sync::Arc::ptr_eq(&version.policy.0, &policy.0));
        is_current || self.next.as_ref().is_some_and(|next| next.is(policy))
    }

    /// Instances are made anew, failed versions get another chance, and each has `budget`.
    pub fn begin_round(&mut self, budget: RoundBudget) {
        for version in self.current.iter_mut().chain(&mut self.last_good) {
            version.begin_round(budget);
        }
        if let Some(next) = &mut self.next {
            next.begin_round(budget);
        }
    }

    /// Puts another version in its place.
    pub fn replace(&mut self, policy: LoadedPolicy) {
        let new = Version::new(policy);
        if let Some(old) = self.current.replace(new).filter(|old| old.answered) {
            self.last_good = Some(old);
        }
    }

    /// The answer of the version at work, else of the last good one, and which it was; nothing if
    /// neither has one.
    pub fn ask<T>(
        &mut self,
        call: &Call<'_, T>,
        reports: &mut Vec<Report>,
    ) -> Option<(LoadedPolicy, T)> {
        let Versions {
            current,
            last_good,
            tally,
            ..
        } = self;
        tally.calls += 1;
        let spare = last_good.as_ref().is_some_and(|version| !version.failed);
        let instead = if spare {
            Fallback::LastGood
        } else {
            call.fallback
        };
        let mut ask = |version: &mut Version, instead| {
            let before = version.failed;
            if let Some(known) = version.known(call) {
                tally.kept += 1;
                return Some(known);
            }
            let answer = version.ask(call, instead, reports);
            tally.failures += u64::from(version.failed && !before);
            tally.usage.add(version.take_usage());
            answer
        };
        if let Some(version) = current
            && let Some(answer) = ask(version, instead)
        {
            return Some((version.policy.clone(), answer));
        }
        let answer = last_good.as_mut().and_then(|version| {
            ask(version, call.fallback).map(|answer| (version.policy.clone(), answer))
        });
        let by = match (answer.is_some(), call.fallback) {
            (true, _) => &mut tally.by_last_good,
            (false, Fallback::LastAnswer) => &mut tally.by_last_answer,
            (false, Fallback::Hold) => &mut tally.by_hold,
            (false, Fallback::Rules) => &mut tally.by_rules,
            (false, _) => &mut tally.by_price,
        };
        *by += 1;
        answer
    }
}

impl Version {
    pub fn new(policy: LoadedPolicy) -> Self {
        Version {
            policy,
            instance: None,
            answered: false,
            failed: false,
            said_raised: false,
            kept: KeptAnswers::default(),
            usage: CallUsage::default(),
            budget: RoundBudget::share(ROUND_TIME, 1),
        }
    }

    /// Its instance is made anew, it gets another chance, and has `budget`.
    pub fn begin_round(&mut self, budget: RoundBudget) {
        self.instance = None;
        self.failed = false;
        self.budget = budget;
    }

    /// The most that its calls used, since last taken.
    pub fn take_usage(&mut self) -> CallUsage {
        std::mem::take(&mut self.usage)
    }

    /// The same version without an instance, with another chance.
    pub fn rested(&self) -> Self {
        Version {
            answered: self.answered,
            said_raised: self.said_raised,
            kept: self.kept.clone(),
            ..Version::new(self.policy.clone())
        }
    }

    /// An answer that it gave before and that holds for this question.
    pub fn known<T>(&mut self, call: &Call<'_, T>) -> Option<T> {
        if self.failed {
            return None;
        }
        let known = (call.known)(&self.kept, &self.policy)?;
        self.answered = true;
        Some(known)
    }

    /// Its answer, unless it fails or has failed in this round.
    pub fn ask<T>(
        &mut self,
        call: &Call<'_, T>,
        instead: Fallback,
        reports: &mut Vec<Report>,
    ) -> Option<T> {
        if self.failed {
            return None;
        }
        let name = self.policy.called();
        let made = match self
            .instance
            .take()
            .filter(|&(_, calls)| calls < CALLS_PER_INSTANCE)
        {
            Some(kept) => Ok(kept),
            None => (self.policy.instantiate_within(self.budget)).map(|instance| (instance, 0)),
        };
        let (messages, answer) = match made {
            Ok((mut instance, calls)) => {
                let kept = (calls == 0).then_some(&mut self.kept);
                let answer = (call.ask)(&mut instance, &self.policy, kept);
                self.budget = instance.budget();
                self.usage.add(instance.take_usage());
                let messages = instance.take_messages();
                // An instance that failed is dropped here.
                self.instance = answer.is_ok().then_some((instance, calls + 1));
                (messages, answer)
            }
            Err(error) => (Vec::new(), Err(error)),
        };
        reports.extend(messages.into_iter().map(|message| Report::Said {
            place: call.place,
            policy: name.clone(),
            message,
        }));
        match answer {
            Ok(answer) => {
                self.answered = true;
                Some(answer)
            }
            Err(error) => {
                self.failed = true;
                reports.push(Report::Failed {
                    place: call.place,
                    policy: name,
                    digest: self.policy.digest().to_owned(),
                    node_pool: call.node_pool.to_owned(),
                    error,
                    instead,
                });
                None
            }
        }
    }
}

impl LoadedPolicy {
    /// A fresh instance with its settings.
    pub(crate) fn instantiate(&self) -> Result<Instance, CallError> {
        self.instantiate_within(RoundBudget::NONE)
    }

    /// As [`LoadedPolicy::instantiate`], with what is left in a round for that and all that it is
    /// asked.
    pub(crate) fn instantiate_within(&self, budget: RoundBudget) -> Result<Instance, CallError> {
        let mut instance = Instance::within(&self.0, budget)?;
        instance.configure(self.0.settings.clone())?;
        Ok(instance)
    }
}

//! What happened while policies were asked: failures, substitutes, messages and counts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::call::answer::CallError;
use crate::call::scores::Raised;
use crate::imports::state::Message;

/// The most that a call of one place used.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CallUsage {
    /// Longest time of a call by the clock.
    pub longest: Duration,
    /// Fuel, in thousandths of what a call has.
    pub fuel_permille: u32,
    /// Bytes of memories and tables.
    pub memory: usize,
}

impl CallUsage {
    pub(crate) fn add(&mut self, other: CallUsage) {
        self.longest = self.longest.max(other.longest);
        self.fuel_permille = self.fuel_permille.max(other.fuel_permille);
        self.memory = self.memory.max(other.memory);
    }
}

/// What was asked of one place, and how it went, since last asked.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct CallStats {
    /// Questions that were asked, those with a kept answer included.
    pub calls: u64,
    /// Answers of a version, the current or the last good one, that could not be used.
    pub failures: u64,
    /// Questions whose answer was there already: all that it is made of was the same.
    pub kept: u64,
    /// Questions that the last good version answered.
    pub by_last_good: u64,
    /// Questions that the price answered, or the built-in user data.
    pub by_price: u64,
    /// Questions that its last answer answered.
    pub by_last_answer: u64,
    /// Questions after which nothing was bought or consolidated.
    pub by_hold: u64,
    /// Costs that were raised: too far below the list price.
    pub raised: u64,
    /// The most that a call used.
    #[serde(skip)]
    pub usage: CallUsage,
    /// Questions about consolidation that no version answered: the rules alone counted.
    pub by_rules: u64,
    /// Proposals that it let go.
    pub approved: u64,
    /// Proposals that it put off.
    pub deferred: u64,
    /// Proposals that it refused.
    pub declined: u64,
}

/// What answered instead of a policy that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// The version that last gave a good answer.
    LastGood,
    /// No version: what it last said, by offering or node.
    LastAnswer,
    /// No version: nothing is bought or consolidated.
    Hold,
    /// No version: an offering costs its list price, or what the policies before it say.
    Price,
    /// No version: the rules of NodePools alone say what is disrupted.
    Rules,
}

/// What happened while policies were asked.
#[derive(Debug)]
pub enum Report {
    /// A policy gave no answer that could be used.
    Failed {
        /// Its place among the assignments.
        place: usize,
        /// Its name and version.
        policy: String,
        /// SHA-256 of the component.
        digest: String,
        /// The NodePool of the request; empty for one about all.
        node_pool: String,
        /// What went wrong with the call.
        error: CallError,
        /// What answers for the rest of the round.
        instead: Fallback,
    },
    /// A policy has logged a message.
    Said {
        /// Its place among the assignments.
        place: usize,
        /// Its name and version.
        policy: String,
        /// Level and text.
        message: Message,
    },
    /// Costs of a policy are too far below the list price. Said once for each version.
    Raised {
        /// Its place among the assignments.
        place: usize,
        /// Its name and version.
        policy: String,
        /// Which, and how far.
        what: String,
    },
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Report::Failed {
                policy,
                node_pool,
                error,
                instead,
                ..
            } => {
                let instead = match instead {
                    Fallback::LastGood => "its last good version answers",
                    Fallback::LastAnswer => "its last answer counts",
                    Fallback::Hold => "nothing is bought or consolidated in its NodePools",
                    Fallback::Price => "offerings cost what they do without it",
                    Fallback::Rules => "the rules of NodePools alone count",
                };
                let place = match node_pool.as_str() {
                    "" => String::new(),
                    name => format!(" for NodePool {name}"),
                };
                write!(
                    f,
                    "policy {policy} failed{place}: {error}; {instead} for the rest of the round"
                )
            }
            Report::Said {
                policy, message, ..
            } => write!(f, "policy {policy} says: {}", message.text),
            Report::Raised { policy, what, .. } => write!(f, "policy {policy}: {what}"),
        }
    }
}

impl Report {
    pub(crate) fn raised(place: usize, node_pool: &str, policy: &str, raised: Raised) -> Self {
        let Raised {
            offerings,
            row,
            instance_type,
            cost,
            least,
        } = raised;
        let what = format!(
            "score: for NodePool {} it costs {offerings} offerings less than `max-discount` allows; \
             they cost the least that it does; the first is offering {row} ({instance_type}), which \
             costs {cost} and at least {least}",
            node_pool
        );
        Report::Raised {
            place,
            policy: policy.to_owned(),
            what,
        }
    }
}

impl CallStats {
    /// Counts what another one has counted as well.
    pub fn add(&mut self, other: &CallStats) {
        self.calls += other.calls;
        self.kept += other.kept;
        self.failures += other.failures;
        self.by_last_good += other.by_last_good;
        self.by_price += other.by_price;
        self.by_rules += other.by_rules;
        self.raised += other.raised;
        self.usage.add(other.usage);
        self.by_last_answer += other.by_last_answer;
        self.by_hold += other.by_hold;
        self.approved += other.approved;
        self.deferred += other.deferred;
        self.declined += other.declined;
    }
}

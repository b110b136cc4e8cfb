//! What the loop remembers of disruption.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::Look;
use crate::decide::claims::NewNodeClaim;
use crate::decide::disruption::{IdleLook, Rested};
use crate::decide::staying::ReportTimes;
use crate::status::parts::Held;

/// What the loop knows of disruption. What has to outlive the process is on objects as well.
#[derive(Default)]
pub(in crate::controller) struct Disruption {
    /// A round is being decided.
    pub(super) deciding: bool,
    /// When the next look is due, unless something changes.
    pub(super) due: Option<Instant>,
    /// When one more node is to be repaired, as of the last look.
    pub(super) repair_due: Option<Instant>,
    /// The version of the state at the last look.
    pub(super) revision: u64,
    /// When the last look ended.
    pub(super) looked: Option<Instant>,
    /// The last look, if it found nothing to do.
    pub(super) idle: Option<IdleLook>,
    /// The last whole search that found nothing to do.
    pub(super) rested: Option<Rested>,
    /// How many looks this process has begun.
    pub(super) looks: u64,
    /// What was found while a round was being planned or written: its result is waited for.
    pub(super) held: Option<Option<Look>>,
    /// What rounds have used since the look began.
    pub(super) used: Used,
    /// No look begins before this: what a search costs is paid for by a pause.
    pub(super) rests_until: Option<Instant>,
    /// How many looks have panicked one after the other.
    pub(super) panics: u32,
    /// Nodes that the last look wants to disrupt, and when it was.
    pub(super) proposed: Option<(Instant, BTreeSet<String>)>,
    /// NodePools whose budgets are in the way of a reason, and how many more nodes may go, as of the
    /// last look that found something new.
    pub(super) blocked: BTreeMap<(String, &'static str), u32>,
    /// Nodes that a budget or an annotation keeps, as of the same look.
    pub(in crate::controller) kept: Vec<Held>,
    /// When it was last reported of each node that it stays.
    pub(super) last_reported: ReportTimes,
    /// Commands that are being begun, with what they buy.
    pub(super) beginning: BTreeMap<String, Vec<NewNodeClaim>>,
    /// Commands that could not be begun, before anything was bought for them.
    pub(super) unbegun: BTreeSet<String>,
    /// Claims of each command, candidates and replacements.
    pub(super) commands: BTreeMap<String, BTreeSet<String>>,
    /// The command of each claim.
    of_claim: BTreeMap<String, String>,
}

/// What rounds of provisioning have used that a look did not know of.
#[derive(Default)]
pub(super) struct Used {
    /// Nodes that pods were planned onto.
    pub(super) nodes: BTreeSet<String>,
    /// NodePools that were bought from.
    pub(super) pools: BTreeSet<String>,
    /// How many rounds there were; only mutants use this.
    pub(super) rounds: u32,
}

impl Disruption {
    /// Notes which command a claim belongs to, if any; `None` for one that is gone. Returns the
    /// command that it concerns.
    pub(super) fn note(&mut self, name: &str, command: Option<&str>) -> Option<String> {
        let before = self.of_claim.get(name).cloned();
        if before.as_deref() == command {
            return before;
        }
        if let Some(id) = &before {
            self.of_claim.remove(name);
            if let Some(claims) = self.commands.get_mut(id) {
                claims.remove(name);
                if claims.is_empty() {
                    self.commands.remove(id);
                }
            }
        }
        if let Some(id) = command {
            self.of_claim.insert(name.to_owned(), id.to_owned());
            let claims = self.commands.entry(id.to_owned()).or_default();
            claims.insert(name.to_owned());
        }
        command.map(str::to_owned).or(before)
    }

    /// A command is being begun, and what it buys.
    pub(in crate::controller) fn begins(&mut self, id: String, buys: Vec<NewNodeClaim>) {
        self.beginning.insert(id, buys);
    }

    /// Replacements that are being created.
    pub(in crate::controller) fn expected(&self) -> impl Iterator<Item = NewNodeClaim> + use<> {
        let all: Vec<NewNodeClaim> = self.beginning.values().flatten().cloned().collect();
        all.into_iter()
    }

    /// A round begins. What earlier ones have used matters to a look that is under way alone.
    pub(in crate::controller) fn round_begins(&mut self) {
        if !self.deciding {
            self.used = Used::default();
        }
        self.used.rounds = self.used.rounds.saturating_add(1);
    }

    /// A round has planned pods onto these nodes, and bought from these NodePools.
    pub(in crate::controller) fn round_used(
        &mut self,
        nodes: impl Iterator<Item = String>,
        pools: impl Iterator<Item = String>,
    ) {
        self.used.nodes.extend(nodes);
        self.used.pools.extend(pools);
    }

    /// Whether claims of a command may be created that the state has not.
    pub(in crate::controller) fn is_beginning(&self) -> bool {
        !self.beginning.is_empty()
    }

    /// Whether a process that retires has to wait.
    pub(in crate::controller) fn is_idle(&self) -> bool {
        !self.deciding && self.beginning.is_empty()
    }
}

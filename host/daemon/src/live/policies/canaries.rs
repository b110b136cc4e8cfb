//! The next versions of policies: which of them are loaded, for which NodePools they are obeyed, and
//! what is seen of them.
//!
//! Decisions are [`crate::canary`]'s, and the controller has them written down. Here is what lies
//! between them and the rounds.

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_policy::{CanaryFault, CanarySeen, LoadedPolicy, Obeyed};
use sha2::{Digest as _, Sha256};

use super::PolicyReloader;
use super::diff::Fingerprint;
use super::notice::Kind;
use super::serve::ActivePolicies;
use super::slots::LoadedSlot;
use super::status::CanaryStatus;
use crate::canary::{Facts, Fault, Terms};
use crate::config::{Mode, canary_name};
use crate::live::process::lock::lock;
use longshore_report::hex::hex;

/// A policy whose next version is loaded.
#[derive(Clone)]
pub struct CanarySlot {
    /// The policy's name in the configuration.
    pub policy: String,
    /// Its place among the enforced ones.
    pub(super) place: usize,
    pub(super) loaded: LoadedPolicy,
    /// The next version, and the one that it is compared with.
    pub version: String,
    pub old: String,
    /// Whether it says what nodes boot with.
    pub boots: bool,
    /// NodePools that the policy is for; `None` for all.
    pub nodepools: Option<Vec<String>>,
    /// How it takes over.
    pub terms: Terms,
}

/// For which NodePools versions are obeyed, by policy: the version with them.
pub type ObeyedVersions = BTreeMap<String, (String, Obeyed)>;

/// What was seen of a version: the policy, the version and the facts.
pub type Sighting = (String, String, Facts);

impl CanarySlot {
    /// The next versions of enforced policies, by place.
    pub(super) fn all(obeyed: &[&LoadedSlot], slots: &[LoadedSlot]) -> Vec<CanarySlot> {
        let slot = |(place, slot): (usize, &&LoadedSlot)| {
            let terms = slot.entry.canary.clone()?;
            let (version, loaded) = next_of(slot, slots)?;
            let old = slot.running.as_ref();
            Some(CanarySlot {
                policy: slot.entry.name.clone(),
                place,
                loaded: loaded.clone(),
                version: version_of(version),
                old: old.map_or_else(String::new, |(version, _)| version_of(version)),
                boots: loaded.is_bootstrap(),
                nodepools: slot.entry.nodepools.clone(),
                terms,
            })
        };
        obeyed.iter().enumerate().filter_map(slot).collect()
    }

    /// Whether the policy is for a NodePool.
    pub fn serves(&self, node_pool: &str) -> bool {
        let names = self.nodepools.as_ref();
        names.is_none_or(|names| names.iter().any(|name| name == node_pool))
    }

    /// What a NodeClaim is marked with that it decided.
    pub fn mark(&self) -> String {
        format!("{}@{}", self.policy, self.version)
    }
}

/// The next version of a policy, if it is loaded.
pub(super) fn next_of<'s>(
    slot: &LoadedSlot,
    slots: &'s [LoadedSlot],
) -> Option<&'s (Fingerprint, LoadedPolicy)> {
    let name = canary_name(&slot.entry.name);
    let mut slots = slots.iter();
    let next = slots.find(|one| one.entry.mode == Mode::Canary && one.entry.name == name)?;
    next.running.as_ref()
}

/// What tells a version from others: its component and its settings.
fn version_of(version: &Fingerprint) -> String {
    let sum = Sha256::digest([&*version.digest, "\0", &version.settings].concat());
    hex(&sum[..8])
}

/// What a round or a look showed.
pub(super) fn facts_of(seen: CanarySeen) -> Option<Facts> {
    let fault = seen.fault.map(|fault| match fault {
        CanaryFault::NoAnswer(error) => Fault::NoAnswer(error),
        CanaryFault::TwoAnswers(about) => Fault::TwoAnswers(about),
        CanaryFault::Discount(what) => Fault::Discount(what),
    });
    let facts = Facts {
        asked: seen.asked > 0,
        fault,
        ..Facts::default()
    };
    (facts != Facts::default()).then_some(facts)
}

impl ActivePolicies {
    /// Has the next versions obeyed as far as they are the ones that are meant.
    pub(super) fn obey(&self, obeyed: &ObeyedVersions) {
        for canary in self.canaries.iter() {
            let known = obeyed.get(&canary.policy);
            let known = known.filter(|(version, _)| *version == canary.version);
            let none = Obeyed::NotAsked;
            self.wasm
                .obey(canary.place, known.map_or(&none, |(_, obeyed)| obeyed));
        }
    }

    /// What NodeClaims of NodePools are marked with, where next versions were obeyed in this round.
    pub fn canary_marks(&self) -> BTreeMap<String, String> {
        let mut marks: BTreeMap<String, String> = BTreeMap::new();
        if self.canaries.is_empty() {
            return marks;
        }
        for answer in self.answered() {
            let decided = self.canaries.iter().filter(|canary| {
                let mut links = answer.links.iter();
                links.any(|link| {
                    link.by
                        .as_ref()
                        .is_some_and(|by| by.is_same(&canary.loaded))
                })
            });
            let mark: Vec<String> = decided.map(CanarySlot::mark).collect();
            if !mark.is_empty() {
                marks.insert(answer.node_pool.to_string(), mark.join(","));
            }
        }
        marks
    }

    /// What a round showed of next versions; `broken` is the rule that its plan broke, if it did.
    fn seen_in_round(&self, broken: Option<&str>) -> Vec<Sighting> {
        let seen = |canary: &CanarySlot| {
            let mut facts = facts_of(self.wasm.take_seen(canary.place)?)?;
            if let (Some(rule), true, None) = (broken, facts.asked, &facts.fault) {
                facts.fault = Some(Fault::PlanRefused(rule.to_owned()));
            }
            Some((canary.policy.clone(), canary.version.clone(), facts))
        };
        self.canaries.iter().filter_map(seen).collect()
    }

    fn seen_in_look(&self) -> Vec<Sighting> {
        let seen = |canary: &CanarySlot| {
            let facts = facts_of(self.wasm.take_seen_in_looks(canary.place)?)?;
            Some((canary.policy.clone(), canary.version.clone(), facts))
        };
        self.canaries.iter().filter_map(seen).collect()
    }
}

impl PolicyReloader {
    /// The next versions that are loaded. Each new state is another list.
    pub fn canaries(&self) -> Arc<[CanarySlot]> {
        self.shared.slot().current.canaries.clone()
    }

    /// Has next versions obeyed for these NodePools from the next round on, and for no others.
    pub fn obey(&self, obeyed: ObeyedVersions) {
        self.shared.slot().obeyed = Arc::new(obeyed);
    }

    /// Takes in what a round showed of next versions; `broken` is the rule that its plan broke.
    pub fn round_ended(&self, live: &ActivePolicies, broken: Option<&str>) {
        self.sight(live.seen_in_round(broken));
    }

    /// As [`PolicyReloader::round_ended`], for a look for disruption.
    pub(super) fn look_ended(&self, live: &ActivePolicies) {
        self.sight(live.seen_in_look());
    }

    pub(super) fn sight(&self, sightings: Vec<Sighting>) {
        if !sightings.is_empty() {
            lock(&self.shared.sightings).extend(sightings);
        }
    }

    /// What was seen of next versions since last asked.
    pub fn take_sightings(&self) -> Vec<Sighting> {
        std::mem::take(&mut lock(&self.shared.sightings))
    }

    /// Says how the canary of a policy does.
    pub fn canary_stands(&self, policy: &str, status: CanaryStatus) {
        let mut board = self.shared.board();
        if let Some(known) = board.policy(&canary_name(policy)) {
            known.canary = Some(status);
        }
    }

    /// Says what became of the canary of a policy.
    pub fn canary_moved(&self, kind: Kind, policy: &str, message: String, hint: &str) {
        self.shared.board().note(kind, policy, message, hint);
    }
}

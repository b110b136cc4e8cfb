//! The next versions of policies: which of them are loaded, for which NodePools they are obeyed, and
//! what is seen of them.
//!
//! Decisions are [`crate::canary`]'s, and the controller has them written down. Here is what lies
//! between them and the rounds.

use std::collections::BTreeMap;

use longshore_policy::{LoadedPolicy, Obeyed};
use sha2::{Digest as _, Sha256};

use super::diff::Fingerprint;
use super::next_version::{CanarySlot, ObeyedVersions, Sighting, facts_of};
use super::serve::ActivePolicies;
use super::slots::LoadedSlot;
use crate::canary::Fault;
use crate::config::{Mode, canary_name};
use longshore_report::hex::hex;

/// The next versions of enforced policies, by place.
pub(super) fn next_versions(obeyed: &[&LoadedSlot], slots: &[LoadedSlot]) -> Vec<CanarySlot> {
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
    pub(super) fn seen_in_round(&self, broken: Option<&str>) -> Vec<Sighting> {
        let seen = |canary: &CanarySlot| {
            let mut facts = facts_of(self.wasm.take_seen(canary.place)?)?;
            if let (Some(rule), true, None) = (broken, facts.asked, &facts.fault) {
                facts.fault = Some(Fault::PlanRefused(rule.to_owned()));
            }
            Some((canary.policy.clone(), canary.version.clone(), facts))
        };
        self.canaries.iter().filter_map(seen).collect()
    }

    /// As [`ActivePolicies::seen_in_round`], of a look for disruption.
    pub(super) fn seen_in_look(&self) -> Vec<Sighting> {
        let seen = |canary: &CanarySlot| {
            let facts = facts_of(self.wasm.take_seen_in_looks(canary.place)?)?;
            Some((canary.policy.clone(), canary.version.clone(), facts))
        };
        self.canaries.iter().filter_map(seen).collect()
    }
}

//! What this process knows of the next versions of policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use crate::act::canary_config_map::CanaryMap;
use crate::canary::{Kept, Obeyed, Rollout};
use crate::policies::{CanarySlot, ObeyedVersions};
use crate::process::mutants::mutant;
use crate::process::step_error::StepError;

/// The canaries that this process knows of.
#[derive(Default)]
pub(super) struct Canaries {
    /// Next versions that are loaded, as they were last followed.
    pub(super) slots: Arc<[CanarySlot]>,
    pub(super) kept: BTreeMap<String, Kept>,
    /// The ConfigMap; none before it was read.
    pub(super) map: Option<CanaryMap>,
    /// A read or a write is under way.
    pub(super) busy: bool,
    /// When it is read next, when written, and when time alone is taken in.
    pub(super) read_at: Option<Instant>,
    pub(super) write_at: Option<Instant>,
    pub(super) look_at: Option<Instant>,
}

/// What a read or a write of the ConfigMap came to.
pub(super) struct CanariesDone {
    pub(super) result: Result<CanaryMap, StepError>,
    /// What was written, by policy; none after a read.
    pub(super) written: BTreeMap<String, Rollout>,
}

impl Canaries {
    /// When there is something to do; nothing without canaries.
    pub(super) fn next(&self) -> Option<Instant> {
        let looks = self.look_at.filter(|_| !self.slots.is_empty());
        let reads = self
            .read_at
            .filter(|_| !self.slots.is_empty() && !self.busy);
        looks.into_iter().chain(reads).min()
    }

    pub(super) fn is_due(at: Option<Instant>, now: Instant) -> bool {
        at.is_none_or(|at| at <= now)
    }

    /// NodePools for which next versions are obeyed.
    pub(super) fn obeyed(&self) -> ObeyedVersions {
        let of = |(policy, kept): (&String, &Kept)| {
            let obeyed = match mutant("canary-beyond-step") {
                true if kept.obeyed() != Obeyed::NotAsked => Obeyed::All,
                _ => kept.obeyed(),
            };
            (policy.clone(), (kept.wanted().version.clone(), obeyed))
        };
        self.kept.iter().map(of).collect()
    }

    /// Follows the operator's file, once it is known what is written down.
    pub(super) fn follow(&mut self, slots: &Arc<[CanarySlot]>, now: i64) {
        let Some(map) = &self.map else {
            return;
        };
        if Arc::ptr_eq(&self.slots, slots) && self.kept.len() == slots.len() {
            return;
        }
        self.slots = slots.clone();
        self.kept
            .retain(|policy, _| slots.iter().any(|slot| slot.policy == *policy));
        for slot in slots.iter() {
            let version = (&*slot.version, &*slot.old, slot.boots);
            if let Some(kept) = self.kept.get_mut(&slot.policy) {
                kept.follow(version, &slot.terms, now);
                continue;
            }
            let written = map.entry(&slot.policy).map(|entry| entry.rollout);
            let kept = Kept::open(written, version, &slot.terms, now);
            self.kept.insert(slot.policy.clone(), kept);
        }
    }
}

//! What rounds, the watcher of files and shadow policies share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard};

use longshore_policy::Signals;

use super::board::{PolicyBoard, SwapTimes};
use super::health::Health;
use super::next_version::{ObeyedVersions, Sighting};
use super::serve::ActivePolicies;
use super::signals::ScoresAsker;
use crate::bootstrap::LastTexts;
use crate::process::lock::lock;

/// What the threads of a [`PolicyReloader`](super::PolicyReloader) share.
pub(super) struct Shared {
    pub(super) slot: Mutex<Slot>,
    pub(super) board: Mutex<PolicyBoard>,
    pub(super) health: Mutex<Health>,
    /// What bootstrap policies last answered, by name.
    pub(super) last_texts: Mutex<BTreeMap<String, Arc<LastTexts>>>,
    /// Rounds that were handed back.
    pub(super) rounds: AtomicU64,
    /// What was seen of next versions of policies.
    pub(super) sightings: Mutex<Vec<Sighting>>,
    /// Whether the heap has free what compiling took, or a version that is not asked any more.
    pub(super) trim_due: AtomicBool,
}

/// What runs and what is ready to. Locked for a few pointers at a time only.
pub(super) struct Slot {
    pub(super) current: Arc<ActivePolicies>,
    pub(super) next: Option<Arc<ActivePolicies>>,
    pub(super) signals: Option<Arc<Signals>>,
    /// What answers spot placement scores from now on.
    pub(super) scores: Option<Arc<ScoresAsker>>,
    /// Dropped by the watcher: to unmap code takes longer than a swap may.
    pub(super) retired: Vec<Arc<ActivePolicies>>,
    pub(super) swaps: SwapTimes,
    /// NodePools for which nothing is bought, with the bootstrap policy that is the reason.
    pub(super) held: Arc<BTreeMap<String, Arc<str>>>,
    /// For which NodePools next versions of policies are obeyed.
    pub(super) obeyed: Arc<ObeyedVersions>,
}

impl Shared {
    /// What runs, locked.
    pub(super) fn slot(&self) -> MutexGuard<'_, Slot> {
        lock(&self.slot)
    }

    /// What is known of policies and signals, locked.
    pub(super) fn board(&self) -> MutexGuard<'_, PolicyBoard> {
        lock(&self.board)
    }
}

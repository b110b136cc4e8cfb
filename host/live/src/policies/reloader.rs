//! What the round's thread holds of the policies.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, TrySendError};
use std::time::{Duration, Instant, SystemTime};

use longshore_core::model::MinValuesPolicy;
use longshore_core::plan::Plan;
use longshore_core::planner::PlanOptions;
use longshore_core::snapshot::Snapshot;
use tokio::sync::watch::channel as watch_channel;

use super::compare::{Job, Shadows};
use super::file_events::FileEvents;
use super::health::Trouble;
use super::next_version::{CanarySlot, ObeyedVersions, Sighting};
use super::notice::{Notice, NoticeKind};
use super::serve::{ActivePolicies, BootSlot};
use super::setup::Setup;
use super::shared::Shared;
use super::signals::{self, ScoresAsker};
use super::watch::Watcher;
use crate::bootstrap::{BootedBy, LastTexts};
use crate::config::canary_name;
use crate::error::Failure;
use crate::process::lock::lock;
use crate::status::policies::{CanaryStatus, PoliciesStatus, PolicyStatus};

/// How often signals are seen to, and what rounds have done with is dropped.
const TICK: Duration = Duration::from_millis(500);

/// What the round's thread holds. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct PolicyReloader {
    shared: Arc<Shared>,
    jobs: SyncSender<Job>,
    /// Whether everything was loaded once.
    loaded: tokio::sync::watch::Receiver<bool>,
    /// The threads stop when the last manager is gone.
    alive: Arc<Alive>,
}

/// Ends the thread that watches when it is dropped.
struct Alive {
    stopped: Arc<AtomicBool>,
    wakes: SyncSender<()>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = self.wakes.try_send(());
    }
}

/// A reloader with what its threads need.
type Parts = (
    PolicyReloader,
    Watcher,
    Shadows,
    tokio::sync::watch::Sender<bool>,
    mpsc::Receiver<()>,
);

impl PolicyReloader {
    /// Reads the configuration, and loads what it names and watches all of it from now on, on a
    /// thread of its own: [`PolicyReloader::loaded`] says when the configured policies answer. An
    /// unusable component or signal is a notice and no error. Fails on a configuration that cannot
    /// be read, or has faults and no good copy.
    pub fn start(setup: Setup) -> Result<PolicyReloader, Failure> {
        let (manager, mut watcher, shadows, done, woken) = PolicyReloader::make(setup)?;
        let alive = &manager.alive;
        let (stopped, mut events) = (alive.stopped.clone(), FileEvents::new(alive.wakes.clone()));
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let spawned = std::thread::Builder::new().name(name.into()).spawn(run);
            spawned.map_err(|error| Failure::Usage {
                message: format!("cannot start a thread: {error}"),
                hint: "raise the limit of processes".into(),
            })
        };
        spawn(
            "policies",
            Box::new(move || {
                watcher.begin(SystemTime::now());
                let mut last = Instant::now();
                while !stopped.load(Ordering::Relaxed) {
                    // Each policy has come from its registry, or was refused there.
                    done.send_if_modified(|done| {
                        !*done && !watcher.awaits_registries() && {
                            *done = true;
                            true
                        }
                    });
                    let now = Instant::now();
                    match woken.recv_timeout(events.wait(now).min(TICK)) {
                        Ok(()) => events.heard(Instant::now()),
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                    let now = Instant::now();
                    if events.wait(now).is_zero() || now - last >= TICK {
                        last = now;
                        watcher.turn(&mut events);
                    }
                }
            }),
        )?;
        spawn("shadows", Box::new(move || while shadows.wait() {}))?;
        Ok(manager)
    }

    /// As [`PolicyReloader::start`], for callers that drive watching and comparing themselves, with
    /// their own clock.
    pub fn manual(setup: Setup) -> Result<(PolicyReloader, Watcher, Shadows), Failure> {
        let (manager, mut watcher, shadows, done, _) = PolicyReloader::make(setup)?;
        watcher.begin(SystemTime::now());
        done.send_replace(true);
        Ok((manager, watcher, shadows))
    }

    fn make(setup: Setup) -> Result<Parts, Failure> {
        // One wake waits at most: what comes meanwhile is seen by the same look.
        let (wakes, woken) = mpsc::sync_channel(1);
        let stopped = Arc::default();
        // One round waits while another is compared; what comes in between is skipped and counted.
        let (jobs, todo) = mpsc::sync_channel(1);
        let (done, loaded) = watch_channel(false);
        let (shared, watcher) = Watcher::new(setup)?;
        let shadows = Shadows::new(shared.clone(), todo);
        Ok((
            PolicyReloader {
                shared,
                jobs,
                loaded,
                alive: Arc::new(Alive { stopped, wakes }),
            },
            watcher,
            shadows,
            done,
            woken,
        ))
    }

    /// Returns once every configured policy was loaded or refused.
    pub async fn loaded(&self) {
        let mut loaded = self.loaded.clone();
        // A thread that is gone loads nothing any more.
        let _ = loaded.wait_for(|loaded| *loaded).await;
    }

    /// Takes over what is ready. To be called between two rounds; what it returns serves until the
    /// next call.
    pub fn take(&self) -> Arc<ActivePolicies> {
        let start = Instant::now();
        let mut slot = self.shared.slot();
        if let Some(next) = slot.next.take() {
            let old = std::mem::replace(&mut slot.current, next);
            slot.retired.push(old);
            slot.swaps.times += 1;
        }
        if let Some(signals) = slot.signals.take() {
            slot.current.share_signals(signals);
        }
        slot.current.wasm.hold(&slot.held);
        slot.current.obey(&slot.obeyed);
        slot.swaps.longest = slot.swaps.longest.max(start.elapsed());
        slot.current.clone()
    }

    /// Enforced policies that say what nodes boot with. Each new state is another list: nothing has
    /// changed while it is the same one.
    pub fn boots(&self) -> Arc<[BootSlot]> {
        self.shared.slot().current.boots.clone()
    }

    /// Has nothing bought for NodePools from the next round on: each with the bootstrap policy that does
    /// not say what its nodes boot with.
    pub fn hold(&self, node_pools: BTreeMap<String, Arc<str>>) {
        self.shared.slot().held = Arc::new(node_pools);
    }

    /// What a bootstrap policy last answered, in this process or one before it.
    pub fn last_texts(&self, policy: &str) -> Arc<LastTexts> {
        let all = lock(&self.shared.last_texts);
        all.get(policy).cloned().unwrap_or_default()
    }

    /// Has a process after this one know what a bootstrap policy last answered.
    pub fn keep_texts(&self, policy: &str, texts: &Arc<LastTexts>) {
        lock(&self.shared.last_texts).insert(policy.to_owned(), texts.clone());
    }

    /// Counts a question about what nodes boot with: whose answer counts, and why not the policy's.
    pub fn booted(&self, policy: &str, by: BootedBy, failing: Option<String>) {
        self.shared.board().booted(policy, by, failing);
    }

    /// `min-values-policy` of the configuration that is in force.
    pub fn min_values(&self) -> Option<MinValuesPolicy> {
        self.shared.slot().current.planning().min_values
    }

    /// Has spot placement scores answered by `scores` from now on.
    pub fn ask_scores_with(&self, scores: Arc<ScoresAsker>) {
        self.shared.slot().scores = Some(scores);
    }

    /// Says that a policy fails or recovers outside of rounds.
    pub fn report(&self, kind: NoticeKind, name: &str, message: &str) {
        let mut board = self.shared.board();
        board.note(kind, name, message.to_owned(), "");
    }

    /// Hands back what a round decided, for shadows to be compared with. Without shadows it does
    /// nothing; with some it copies the claims without their pods. If the previous comparison is
    /// still running, this round is skipped and counted.
    pub fn finish(
        &self,
        live: &Arc<ActivePolicies>,
        snapshot: &Snapshot,
        options: PlanOptions,
        plan: &Plan,
    ) {
        let turn = self.shared.rounds.fetch_add(1, Ordering::Relaxed);
        self.send(Job::of_round(live, snapshot, (options, turn), plan));
    }

    /// As [`PolicyReloader::finish`], for a look for disruption.
    pub fn finish_look(&self, live: &ActivePolicies) {
        self.look_ended(live);
        self.send(Job::of_look(live));
    }

    fn send(&self, job: Option<Job>) {
        if let Some(Err(TrySendError::Full(job))) = job.map(|job| self.jobs.try_send(job)) {
            self.shared.board().skipped(job.shadows().into_iter());
        }
    }

    /// Whether something was replaced or refused since this was last asked: the heap has free what
    /// it took.
    pub fn take_trim_due(&self) -> bool {
        self.shared.trim_due.swap(false, Ordering::Relaxed)
    }

    /// Everything about policies and signals as it stands.
    pub fn status(&self) -> PoliciesStatus {
        self.status_at(SystemTime::now())
    }

    /// As [`PolicyReloader::status`], for callers with a clock of their own.
    pub fn status_at(&self, now: SystemTime) -> PoliciesStatus {
        let (current, took) = {
            let slot = self.shared.slot();
            (slot.current.clone(), slot.swaps)
        };
        let mut board = self.shared.board();
        board.collect(&current);
        board.judge(&current);
        board.status(took, signals::seconds(now))
    }

    /// Takes in at `now`, seconds since 1970, which policies give no answer.
    pub fn note_health(&self, policies: &[PolicyStatus], now: i64) {
        lock(&self.shared.health).note(policies, now);
    }

    /// Policies that give no answer: another list each time that it has changed.
    pub fn troubles(&self) -> Arc<[Trouble]> {
        lock(&self.shared.health).current()
    }

    /// What happened since last asked, oldest first.
    pub fn notices(&self) -> Vec<Notice> {
        let current = self.shared.slot().current.clone();
        let mut board = self.shared.board();
        board.collect(&current);
        board.judge(&current);
        board.take_notices()
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
    pub fn canary_moved(&self, kind: NoticeKind, policy: &str, message: String, hint: &str) {
        self.shared.board().note(kind, policy, message, hint);
    }
}

impl std::fmt::Debug for PolicyReloader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Manager")
    }
}

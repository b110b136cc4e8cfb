//! Reloads policies while the daemon runs: `longshore.toml` and every file that it names are
//! watched. A new version is prepared beside the running one, and takes its place between two
//! rounds.
//!
//! Three parties take part. The round's thread holds a [`PolicyReloader`]. It takes what is ready
//! ([`PolicyReloader::take`], a few pointers), plans with it ([`ActivePolicies`] answers the
//! planner) and hands back what it decided ([`PolicyReloader::finish`]). The [`Watcher`], on its
//! own thread, does everything that takes time: reading, compiling, validating, fetching. The
//! [`Shadows`], on another thread, run the shadow policies. Neither can delay a round. A bad file
//! replaces nothing: the old version stays in place, with a [`Notice`] and an entry in the
//! [`Status`].
//!
//! Logs, metrics and Events are made by the loop from notices and status. This module has no say in
//! what a round decides. Signals also change only between rounds, so that a round sees consistent
//! signals.

mod compare;
mod diff;
mod files;
mod load;
mod serve;
mod signals;
mod status;
mod watch;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use longshore_core::model::MinValuesPolicy;
use longshore_core::plan::Plan;
use longshore_core::snapshot::Snapshot;
use longshore_policy::{Limits, Signals};

use super::journal::Journal;
use super::lock::lock;
use crate::config::Config;
use crate::error::Failure;

pub use compare::Shadows;
pub use serve::{ActivePolicies, BootSlot};
pub use signals::ScoresAsker;
pub use status::{
    Alike, ConfigStatus, DatedBy, Kind, Notice, PolicyStatus, Problem, ShadowStatus, SignalStatus,
    Status,
};
pub use watch::Watcher;

use compare::Job;
use status::PolicyBoard;

/// How often files are polled. A look is a `stat` for each file, a few microseconds; a change is
/// picked up at the second look that finds it at rest. There is no inotify in it: that does not see
/// writes over a network file system, runs out of watches on busy nodes, and would need the slow
/// look beside it anyway.
const FILE_POLL: Duration = Duration::from_millis(500);

/// Where everything comes from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// `longshore.toml`; none for [`Setup::inline`].
    pub config: Option<PathBuf>,
    /// What is in force where no file is named: by default it plans by price.
    pub inline: Config,
    /// A folder for compiled components, private to this user.
    pub cache: Option<PathBuf>,
    /// What a policy may use.
    pub limits: Limits,
    /// Whether something asks what nodes boot with.
    pub boots: bool,
    /// Whether nodes come from EC2, so that signals may as well.
    pub on_ec2: bool,
    /// How long an address of a signal may take to answer.
    pub signal_timeout: Duration,
    /// Who writes down which components rounds may ask.
    pub journal: Journal,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            config: None,
            inline: Config::default(),
            cache: None,
            limits: Limits::default(),
            boots: false,
            on_ec2: false,
            signal_timeout: Duration::from_secs(10),
            journal: Journal::off(),
        }
    }
}

/// What the round's thread holds. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct PolicyReloader {
    shared: Arc<Shared>,
    jobs: SyncSender<Job>,
    /// The threads stop when the last manager is gone.
    _alive: Arc<mpsc::Sender<()>>,
}

struct Shared {
    slot: Mutex<Slot>,
    board: Mutex<PolicyBoard>,
    /// Whether the heap has free what compiling took, or a version that is not asked any more.
    trim_due: AtomicBool,
}

/// What runs and what is ready to. Locked for a few pointers at a time only.
struct Slot {
    current: Arc<ActivePolicies>,
    next: Option<Arc<ActivePolicies>>,
    signals: Option<Arc<Signals>>,
    /// What answers spot placement scores from now on.
    scores: Option<Arc<ScoresAsker>>,
    /// Dropped by the watcher: to unmap code takes longer than a swap may.
    retired: Vec<Arc<ActivePolicies>>,
    swaps: SwapTimes,
}

/// What taking over has cost rounds.
#[derive(Clone, Copy, Default)]
struct SwapTimes {
    times: u64,
    longest: Duration,
}

impl PolicyReloader {
    /// Reads the configuration, loads what it names, and watches all of it from now on. Waits until
    /// components are compiled, so that the first round uses the configured policies. An unusable
    /// component or signal is a notice and no error. Fails on a configuration that cannot be read
    /// or has faults.
    pub fn start(setup: Setup) -> Result<PolicyReloader, Failure> {
        let (manager, mut watcher, mut shadows, stop) = PolicyReloader::make(setup)?;
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
                while stop.recv_timeout(FILE_POLL) == Err(RecvTimeoutError::Timeout) {
                    watcher.step(SystemTime::now());
                }
            }),
        )?;
        spawn("shadows", Box::new(move || while shadows.wait() {}))?;
        Ok(manager)
    }

    /// As [`PolicyReloader::start`], for callers that drive watching and comparing themselves, with
    /// their own clock.
    pub fn manual(setup: Setup) -> Result<(PolicyReloader, Watcher, Shadows), Failure> {
        PolicyReloader::make(setup)
            .map(|(manager, watcher, shadows, _)| (manager, watcher, shadows))
    }

    fn make(
        setup: Setup,
    ) -> Result<(PolicyReloader, Watcher, Shadows, mpsc::Receiver<()>), Failure> {
        let (alive, stop) = mpsc::channel();
        // One round waits while another is compared; what comes in between is skipped and counted.
        let (jobs, todo) = mpsc::sync_channel(1);
        let (shared, watcher) = Watcher::new(setup)?;
        let shadows = Shadows::new(shared.clone(), todo);
        Ok((
            PolicyReloader {
                shared,
                jobs,
                _alive: Arc::new(alive),
            },
            watcher,
            shadows,
            stop,
        ))
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
        slot.swaps.longest = slot.swaps.longest.max(start.elapsed());
        slot.current.clone()
    }

    /// Enforced policies that say what nodes boot with. Each new state is another list: nothing has
    /// changed while it is the same one.
    pub fn boots(&self) -> Arc<[BootSlot]> {
        self.shared.slot().current.boots.clone()
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
    pub fn report(&self, kind: Kind, name: &str, message: &str) {
        let mut board = self.shared.board();
        board.note(kind, name, message.to_owned(), "");
    }

    /// Hands back what a round decided, for shadows to be compared with. Without shadows it does
    /// nothing; with some it copies the claims without their pods. If the previous comparison is
    /// still running, this round is skipped and counted.
    pub fn finish(&self, live: &Arc<ActivePolicies>, snapshot: &Snapshot, plan: &Plan) {
        let Some(job) = Job::new(live, snapshot, plan) else {
            return;
        };
        if let Err(TrySendError::Full(job)) = self.jobs.try_send(job) {
            self.shared.board().skipped(job.shadows());
        }
    }

    /// Whether something was replaced or refused since this was last asked: the heap has free what
    /// it took.
    pub fn take_trim_due(&self) -> bool {
        self.shared.trim_due.swap(false, Ordering::Relaxed)
    }

    /// Everything about policies and signals as it stands.
    pub fn status(&self) -> Status {
        self.status_at(SystemTime::now())
    }

    /// As [`PolicyReloader::status`], for callers with a clock of their own.
    pub fn status_at(&self, now: SystemTime) -> Status {
        let (current, took) = {
            let slot = self.shared.slot();
            (slot.current.clone(), slot.swaps)
        };
        let mut board = self.shared.board();
        board.collect(&current);
        board.judge(&current);
        board.status(took, signals::seconds(now))
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

impl Shared {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        lock(&self.slot)
    }

    fn board(&self) -> MutexGuard<'_, PolicyBoard> {
        lock(&self.board)
    }
}

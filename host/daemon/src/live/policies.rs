//! Policies that change while the daemon runs: `longshore.toml` and every file that it names are
//! watched, a new version is made ready beside the running one, and the round takes it over between
//! two rounds.
//!
//! Three parties. The round's thread holds a [`PolicyReloader`]: it takes over what is ready
//! ([`PolicyReloader::take`], a few pointers), plans with it ([`ActivePolicies`] answers the
//! planner) and hands back what it decided ([`PolicyReloader::finish`]). The [`Watcher`], on a
//! thread of its own, does everything that takes time: reading, compiling, trying out, fetching.
//! The [`Shadows`], on another, ask the policies that are compared and never obeyed. Nothing that
//! one of those two does can hold up a round, and nothing bad replaces what runs: a file that
//! cannot be used leaves the old version in place, with a [`Notice`] and an entry in the
//! [`Status`].
//!
//! Absent on purpose: logs, metrics and Events (the loop makes them of notices and status), and any
//! say in what a round decides. Signals change between rounds too, so that a round sees one state
//! of the world.

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

use longshore_core::plan::Plan;
use longshore_core::snapshot::Snapshot;
use longshore_policy::{Limits, Signals};

use super::journal::Journal;
use super::lock::lock;
use crate::config::Config;
use crate::error::Failure;

pub use compare::Shadows;
pub use serve::ActivePolicies;
pub use status::{
    ConfigStatus, Kind, Notice, PolicyStatus, Problem, ShadowStatus, SignalStatus, Status,
};
pub use watch::Watcher;

use compare::Job;
use status::PolicyBoard;

/// How often files are looked at. A look is a `stat` for each file, a few microseconds; a change is
/// picked up at the second look that finds it at rest. There is no inotify in it: that does not see
/// writes over a network file system, runs out of watches on busy nodes, and would need the slow
/// look beside it anyway.
const LOOK: Duration = Duration::from_millis(500);

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
    /// Reads the configuration, loads what it names, and watches all of it from now on. Waits for
    /// components to be compiled, so that the first round asks who it is meant to; a component or a
    /// signal that cannot be had is no failure but a notice. Fails on a configuration that cannot
    /// be read or has faults.
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
                while stop.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    watcher.step(SystemTime::now());
                }
            }),
        )?;
        spawn("shadows", Box::new(move || while shadows.wait() {}))?;
        Ok(manager)
    }

    /// As [`PolicyReloader::start`], for who drives watching and comparing himself, with a clock of
    /// his own.
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

    /// Hands back what a round decided, for shadows to be compared with. Without shadows it does
    /// nothing; with some it copies the claims without their pods. If the last comparison still
    /// goes on, this round is skipped and counted.
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
        let (current, took) = {
            let slot = self.shared.slot();
            (slot.current.clone(), slot.swaps)
        };
        let mut board = self.shared.board();
        board.collect(&current);
        board.status(took)
    }

    /// What happened since last asked, oldest first.
    pub fn notices(&self) -> Vec<Notice> {
        let current = self.shared.slot().current.clone();
        let mut board = self.shared.board();
        board.collect(&current);
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

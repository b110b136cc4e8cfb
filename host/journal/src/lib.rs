//! The journal: records every observation and every round, so that they can be read and planned
//! again.
//!
//! This module has what the loop calls, and builds the record of a round. It never blocks: a thread
//! ([`writer`]) writes, and records that it cannot take are counted and marked as missing. A
//! segment ([`files`]) can be read by itself, because it begins with all live objects; only the
//! positions of their records are kept in memory ([`index`]). Nothing here reads the state or
//! decides anything. Reading is in [`read`]; planning again is `longshore replay`.
//!
//! The record of a round has everything that its plan depends on beside the observations: time,
//! seed, effort and settings, nominations, instance types and unavailable offerings, signals, the
//! policy of each NodePool, and the components themselves.

#![warn(missing_docs)]

pub mod bug_report;

mod blobs;
mod catalogue;
mod costs;
mod files;
pub mod format;
#[doc(hidden)]
pub mod fuzz;
mod index;
pub mod judged;
mod lock;
pub mod look;
pub mod messages;
pub mod read;
pub mod record;
pub mod round;
pub mod segment;
mod signals;
pub mod terms;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longshore_core::check::Violation;
use longshore_core::disrupt::methods;
use longshore_core::model::{Catalogue, Symbols};
use longshore_core::plan::Plan;
use longshore_core::planner::PlanOptions;
use longshore_core::snapshot::Snapshot;
use longshore_policy::{JudgeRecord, ScoreRecord, Signals};

pub use catalogue::{Wire, read as read_catalogue};
pub use costs::read as read_costs;
pub use files::Sizes;
pub use signals::read as read_signals;
pub use writer::Condition;

use blobs::BlobStore;
use judged::Counted;
use lock::lock;
use longshore_api::kinds::ObjectKind;
use longshore_report::decision::{Decision, pod_name};
use look::Look;
use record::{Began, Observed, What};
use round::{Answer, RecordedConfig, RecordedEffort, Round, RoundOutcome, Short, Summary, Version};
use writer::Queue;

/// Why no journal can be kept.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder cannot be made or written to.
    #[error("no journal can be kept in {}: {source}", folder.display())]
    Disk {
        /// Its path.
        folder: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Another process has it.
    #[error("no journal can be kept in {}: another process writes to it", .0.display())]
    InUse(PathBuf),
}

impl OpenError {
    /// What can be done about it.
    pub fn hint(&self) -> &'static str {
        match self {
            OpenError::Disk { .. } => "name a folder that the daemon's user may write to",
            OpenError::InUse(_) => "give each daemon a folder of its own",
        }
    }
}

/// Default size of all segments together.
pub const DEFAULT_MAX_BYTES: u64 = 1 << 30;
/// Default size of one segment.
pub const DEFAULT_SEGMENT_BYTES: u64 = 64 << 20;
/// How long the end of the process waits for what is still to be written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// The journal of this process, or none, and when a report of a defect was written last, milliseconds
/// since 1970. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Journal(Option<Arc<Open>>, Arc<Mutex<i64>>);

struct Open {
    folder: PathBuf,
    queue: Queue,
    blobs: Arc<BlobStore>,
    made: Mutex<EncodedCache>,
    /// Locked for as long as the folder is ours.
    lock: std::fs::File,
}

/// A round that was decided.
pub struct Decided<'a> {
    /// When, milliseconds since 1970.
    pub time: i64,
    /// Its number, as in its beginning.
    pub round: u64,
    /// The signals that policies could read.
    pub signals: Arc<Signals>,
    /// Which policy answered what, in the order of the questions.
    pub answers: Vec<ScoreRecord>,
    /// Policies that gave none.
    pub failed: Vec<String>,
    /// What it was decided on.
    pub snapshot: &'a Snapshot,
    /// Effort and seed.
    pub options: PlanOptions,
    /// The result, or why it was dropped.
    pub plan: Result<&'a Plan, &'a str>,
    /// How long deciding took.
    pub took: Duration,
}

/// A look for disruption that was decided.
pub struct Looked<'a> {
    /// When, milliseconds since 1970.
    pub time: i64,
    /// Its number, as in its beginning.
    pub number: u64,
    /// The policies that were asked.
    pub signals: Arc<Signals>,
    /// Which policy answered what, in the order of the questions.
    pub answers: Vec<ScoreRecord>,
    /// Policies that gave none.
    pub failed: Vec<String>,
    /// What consolidation policies answered, in the order of the questions.
    pub judged: Vec<JudgeRecord>,
    /// What it was decided on.
    pub snapshot: &'a Snapshot,
    /// Seed and effort of provisioning.
    pub planning: PlanOptions,
    /// The rest of how.
    pub look: Look,
    /// What the look found.
    pub found: &'a methods::Round,
    /// The search has ended at its time limit.
    pub cut_short: bool,
    /// How long deciding took.
    pub took: Duration,
}

/// What was last made into bytes, so that it is made once.
#[derive(Default)]
struct EncodedCache {
    catalogue: Option<(u64, String)>,
    signals: Option<(Arc<Signals>, String)>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() {
            "Journal"
        } else {
            "Journal(off)"
        })
    }
}

impl Journal {
    /// No journal: everything is let go.
    pub fn off() -> Self {
        Journal::default()
    }

    /// A journal in a folder, which is made if it is not there. What is in it stays until the limit
    /// takes it.
    ///
    /// # Errors
    /// The folder cannot be used, or another process uses it.
    pub fn open(folder: &Path, sizes: Sizes) -> Result<Self, OpenError> {
        Journal::open_retrying(folder, sizes, writer::DISK_RETRY)
    }

    /// The same, with how long to wait after the disk said no.
    ///
    /// # Errors
    /// The folder cannot be used, or another process uses it.
    pub fn open_retrying(
        folder: &Path,
        sizes: Sizes,
        disk_retry: Duration,
    ) -> Result<Self, OpenError> {
        let disk = |source| OpenError::Disk {
            folder: folder.into(),
            source,
        };
        std::fs::create_dir_all(folder).map_err(disk)?;
        let lock = folder.join("lock");
        let lock = std::fs::File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(lock)
            .map_err(disk)?;
        if let Err(std::fs::TryLockError::WouldBlock) = lock.try_lock() {
            return Err(OpenError::InUse(folder.into()));
        }
        let run = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64);
        let run = run ^ u64::from(std::process::id()).rotate_left(40);
        let blobs = Arc::new(BlobStore::default());
        let queue = writer::start(folder, sizes, run, blobs.clone(), disk_retry).map_err(disk)?;
        let open = Arc::new(Open {
            folder: folder.into(),
            queue,
            blobs,
            made: Mutex::default(),
            lock,
        });
        Ok(Journal(Some(open), Arc::default()))
    }

    /// Something was observed at `time` (milliseconds since 1970) and folded; `revision` is the
    /// state's with it.
    pub fn observed(&self, time: i64, revision: u64, kind: ObjectKind, what: What, refused: bool) {
        let Some(open) = &self.0 else { return };
        open.queue.observed(Observed {
            time,
            revision,
            kind,
            what,
            refused,
        });
    }

    /// A round took its snapshot at `time` (milliseconds since 1970) of the state at `revision`. To
    /// be called in order with the observations.
    pub fn began(&self, time: i64, round: u64, revision: u64) {
        if let Some(open) = &self.0 {
            open.queue.began(Began {
                round,
                revision,
                time,
            });
        }
    }

    /// A round was decided. To be called before the policies begin another one.
    pub fn decided(&self, decided: Decided<'_>) {
        let Decided {
            time,
            round,
            signals,
            answers,
            failed,
            snapshot,
            options,
            plan,
            took,
        } = decided;
        let Some(open) = &self.0 else { return };
        let mut note = Round {
            time,
            signals: open.signals(&signals),
            milliseconds: took.as_millis() as u64,
            failed,
            cut_short: plan
                .ok()
                .and_then(|plan| plan.cut_short)
                .map(RecordedEffort),
            ..open.input(round, snapshot, options)
        };
        note.answered(answers, &open.blobs);
        let size = size_of(snapshot);
        let plan = plan.cloned().map_err(str::to_owned);
        let snapshot = snapshot.clone();
        open.queue.decided(
            time,
            size,
            Box::new(move || {
                note.pods(&snapshot);
                note.outcome = match plan {
                    Ok(plan) => RoundOutcome::Decided(Summary::new(
                        &Decision::new(&snapshot, &plan),
                        snapshot.pending.len(),
                    )),
                    Err(why) => RoundOutcome::Rejected(why),
                };
                note
            }),
        );
    }

    /// The check refused parts of a round or a look at `time` (milliseconds since 1970): writes what is
    /// needed to find out why into a file of its own, now and then. Without a journal it is among the
    /// temporary files.
    pub fn defect(&self, time: i64, round: u64, snapshot: &Snapshot, violations: &[Violation]) {
        let mut reported = lock(&self.1);
        if time < reported.saturating_add(bug_report::REPORT_INTERVAL_MS) {
            return;
        }
        *reported = time;
        let name = format!("rejected-{time:014}-{round}");
        let folder = match &self.0 {
            Some(open) => open.folder.join("reports"),
            None => std::env::temp_dir().join("longshore-reports"),
        };
        match bug_report::write(&folder, &name, snapshot, violations) {
            Ok(file) => tracing::error!(
                file = %file.display(),
                "the check refused a plan: the file has the cluster for a report"
            ),
            Err(error) => tracing::warn!(%error, "writing the report of the refused plan failed"),
        }
    }

    /// A look for disruption was decided.
    pub fn looked(&self, looked: Looked<'_>) {
        let Some(open) = &self.0 else { return };
        let Looked {
            time, found, look, ..
        } = looked;
        let mut note = Round {
            time,
            signals: open.signals(&looked.signals),
            milliseconds: looked.took.as_millis() as u64,
            failed: looked.failed,
            look: Some(look),
            ..open.input(looked.number, looked.snapshot, looked.planning)
        };
        if looked.cut_short {
            note.missing
                .push("where the search stopped at its time limit".into());
        }
        note.answered(looked.answers, &open.blobs);
        note.judged(looked.judged, &open.blobs);
        let found = found.clone();
        let snapshot = looked.snapshot.clone();
        open.queue.decided(
            time,
            size_of(&snapshot),
            Box::new(move || {
                note.pods(&snapshot);
                note.outcome = RoundOutcome::Decided(Summary::of_look(&snapshot, &found));
                note
            }),
        );
    }

    /// A look for disruption was not made, because the one before has answered its question.
    pub fn looked_the_same(&self, time: i64, number: u64) {
        let Some(open) = &self.0 else { return };
        let note = Round {
            time,
            round: number,
            look: Some(Look {
                same: true,
                ..Look::default()
            }),
            ..Round::default()
        };
        open.queue.decided(time, 0, Box::new(move || note));
    }

    /// A component that rounds may ask from now on.
    pub fn component(&self, digest: &str, bytes: &[u8]) {
        if let Some(open) = &self.0 {
            open.blobs.put(digest, bytes);
        }
    }

    /// How writing goes; nothing without a journal.
    pub fn condition(&self) -> Option<Condition> {
        self.0.as_ref().map(|open| open.queue.condition())
    }

    /// Waits until everything so far is written. For callers in virtual time, which would overtake
    /// the disk.
    pub fn flush(&self) {
        if let Some(open) = &self.0 {
            open.queue.flush(CLOSE_TIMEOUT);
        }
    }

    /// Keeps no components any more.
    pub fn forget(&self) {
        if let Some(open) = &self.0 {
            open.blobs.clear();
        }
    }

    /// Writes what is still to be written and ends the segment. Nothing is written after it, and
    /// another may have the folder.
    pub fn close(&self) {
        if let Some(open) = &self.0 {
            open.queue.close(CLOSE_TIMEOUT);
            let _ = open.lock.unlock();
        }
    }
}

impl Open {
    /// What the records of all rounds have of what was decided on.
    fn input(&self, number: u64, snapshot: &Snapshot, options: PlanOptions) -> Round {
        let world = &snapshot.world;
        let text = |symbol| world.names.text(symbol).to_owned();
        Round {
            round: number,
            now: world.now,
            how: RecordedConfig::new(&world.settings, options, &world.names),
            managed: world.managed.map(|of| (text(of.group), text(of.kind))),
            catalogue: self.catalogue(&world.catalogue, &world.names),
            short: Short::all(world.catalogue.short()),
            ..Round::default()
        }
    }

    fn catalogue(&self, catalogue: &Catalogue, names: &Symbols) -> String {
        let mut made = lock(&self.made);
        if let Some((number, digest)) = &made.catalogue
            && *number == catalogue.origin()
            && self.blobs.get(digest).is_some()
        {
            return digest.clone();
        }
        let bytes = catalogue::write(catalogue, names);
        let digest = blobs::digest(&bytes);
        self.blobs.put(&digest, &bytes);
        made.catalogue = Some((catalogue.origin(), digest.clone()));
        digest
    }

    fn signals(&self, signals: &Arc<Signals>) -> Option<String> {
        if signals.tables.is_empty() {
            return None;
        }
        let mut made = lock(&self.made);
        if let Some((last, digest)) = &made.signals
            && Arc::ptr_eq(last, signals)
            && self.blobs.get(digest).is_some()
        {
            return Some(digest.clone());
        }
        let bytes = signals::write(signals);
        let digest = blobs::digest(&bytes);
        self.blobs.put(&digest, &bytes);
        made.signals = Some((signals.clone(), digest.clone()));
        Some(digest)
    }
}

/// About how many bytes the record of a round holds in the queue.
fn size_of(snapshot: &Snapshot) -> usize {
    (snapshot.world.pods.len() + snapshot.pending.len()) * 32
}

impl Round {
    /// Notes what is known of pods that wait.
    fn pods(&mut self, snapshot: &Snapshot) {
        self.nominated = nominated(snapshot);
        self.foreseen = foreseen(snapshot);
        self.queued = queued(snapshot);
    }

    /// Notes which policies answered what, and keeps answers that no component gives again.
    fn answered(&mut self, answers: Vec<ScoreRecord>, blobs: &BlobStore) {
        for answered in answers {
            let node_pool = answered.node_pool.to_string();
            if answered.links.is_empty() {
                self.answers.push(Answer {
                    node_pool,
                    sum: answered.sum,
                    ..Answer::default()
                });
                continue;
            }
            for (at, link) in answered.links.into_iter().enumerate() {
                let instead = link.is_instead().then(|| {
                    let bytes = costs::write(&link.cost);
                    let digest = blobs::digest(&bytes);
                    blobs.put(&digest, &bytes);
                    digest
                });
                let by = link.by.as_ref();
                let version = by.map(|policy| self.version(Version::new(link.place, policy)));
                self.answers.push(Answer {
                    node_pool: node_pool.clone(),
                    follows: at > 0,
                    version,
                    sum: link.sum,
                    kept: link.is_kept,
                    counted: link.instead.map(Counted::from),
                    policy: link.by.is_none().then(|| link.name.to_string()),
                    instead,
                });
            }
        }
    }

    /// The number of a version among those that answered.
    fn version(&mut self, version: Version) -> usize {
        let known = self.versions.iter().position(|known| *known == version);
        known.unwrap_or_else(|| {
            self.versions.push(version);
            self.versions.len() - 1
        })
    }
}

/// Pods without a node that one is nominated for.
fn nominated(snapshot: &Snapshot) -> Vec<(String, String)> {
    let world = &snapshot.world;
    let mut all = Vec::new();
    for (at, pod) in world.pods.iter().enumerate() {
        if let (None, Some(node)) = (pod.node, pod.nominated) {
            let pod = pod_name(world, longshore_core::plan::PodIx(at as u32));
            all.push((pod, world.names.text(node).to_owned()));
        }
    }
    all
}

/// Pods that are planned before kube-scheduler has tried them.
fn foreseen(snapshot: &Snapshot) -> Vec<String> {
    let world = &snapshot.world;
    let all = (0..world.pods.len()).filter(|&at| world.pods[at].unattempted);
    all.map(|at| pod_name(world, longshore_core::plan::PodIx(at as u32)))
        .collect()
}

/// The places of pods in kube-scheduler's queue, where they are known.
fn queued(snapshot: &Snapshot) -> Vec<(String, u64)> {
    let world = &snapshot.world;
    let pods = snapshot.pending.iter().map(|pending| pending.pod);
    let queued = pods.map(|pod| (pod, world.pods[pod.0 as usize].queued));
    queued
        .filter(|(_, queued)| *queued > 0)
        .map(|(pod, queued)| (pod_name(world, pod), queued))
        .collect()
}

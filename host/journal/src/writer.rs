//! The thread that writes the journal. Senders never block. If the disk is too slow or fails,
//! records that do not fit into the queue are counted, logged, and marked as missing in the
//! journal.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::blobs::BlobStore;
use super::files::{Files, Sizes, WriteError};
use super::index::Index;
use super::record::{Began, Blob, Gap, Observed, Record, What, bit};
use super::round::Round;
use crate::lock::lock;
use longshore_api::strip_managed_fields::full_name;
use longshore_fail_points::{fail_point, panic_at, panics_left};

/// Most bytes of texts that wait to be written.
const MAX_QUEUED_BYTES: usize = 64 << 20;
/// What a message takes beside its text.
const MESSAGE_OVERHEAD_BYTES: usize = 64;
/// How long what was observed may wait for more before it is written.
const FLUSH_IDLE: Duration = Duration::from_millis(500);
/// How long to wait after the disk said no.
pub const DISK_RETRY: Duration = Duration::from_secs(1);

/// A round, and how to make the record of it; that takes time and is done on the writer's thread.
pub type Decided = Box<dyn FnOnce() -> Round + Send>;

enum Message {
    Observed(Observed),
    Began(Began),
    Decided(Decided),
    Gap(Gap),
    /// Write everything, and say so.
    Flush(SyncSender<()>),
    /// Write everything, end the segment, and say so.
    Close(SyncSender<()>),
}

/// The sending side.
pub struct Queue {
    sender: Sender<Message>,
    shared: Arc<Shared>,
}

/// What both sides know.
#[derive(Default)]
pub struct Shared {
    /// Bytes that wait.
    queued: AtomicUsize,
    /// What was lost since it was last written down.
    lost: Mutex<Gap>,
    any_lost: AtomicBool,
    condition: Counters,
}

#[derive(Default)]
struct Counters {
    bytes: AtomicU64,
    lost: AtomicU64,
    failing: AtomicBool,
}

/// How writing goes, for metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Condition {
    /// Bytes of all segments.
    pub bytes: u64,
    /// Observations and rounds that were not written down.
    pub lost: u64,
    /// The disk says no, or the limit is too small.
    pub failing: bool,
}

/// Begins to write to an existing folder, and waits `disk_retry` after the disk said no. `run`
/// identifies this process.
///
/// # Errors
/// The folder cannot be read, or there can be no thread.
pub fn start(
    folder: &Path,
    sizes: Sizes,
    run: u64,
    blobs: Arc<BlobStore>,
    disk_retry: Duration,
) -> std::io::Result<Queue> {
    let files = Files::new(folder, sizes, run)?;
    let (sender, receiver) = channel();
    let shared = Arc::new(Shared::default());
    let writer = Writer {
        files,
        index: Index::default(),
        blobs,
        shared: shared.clone(),
        disk_retry,
        open: 0,
        time: 0,
        revision: 0,
    };
    let (place, times) = panics_left();
    std::thread::Builder::new()
        .name("journal".into())
        .spawn(move || {
            panic_at(place, times);
            let _said = SaysPanic(writer.shared.clone());
            writer.run(&receiver);
        })?;
    Ok(Queue { sender, shared })
}

impl Queue {
    /// Writes down what was observed.
    pub fn observed(&self, observed: Observed) {
        let size = match &observed.what {
            What::Upsert(text) | What::Remove(text) | What::Failed(text) => text.len(),
            What::Begin | What::End => 0,
        };
        let gap = Gap {
            since: observed.time,
            until: observed.time,
            observations: 1,
            rounds: 0,
            kinds: bit(observed.kind),
        };
        self.send(Message::Observed(observed), size, gap);
    }

    /// A round took its snapshot.
    pub fn began(&self, began: Began) {
        let gap = Gap {
            since: began.time,
            until: began.time,
            rounds: 1,
            ..Gap::default()
        };
        self.send(Message::Began(began), 0, gap);
    }

    /// A round was decided at `time`; `size` is about how many bytes what `decided` holds takes.
    pub fn decided(&self, time: i64, size: usize, decided: Decided) {
        let gap = Gap {
            since: time,
            until: time,
            rounds: 1,
            ..Gap::default()
        };
        self.send(Message::Decided(decided), size, gap);
    }

    /// How writing goes now.
    pub fn condition(&self) -> Condition {
        let of = &self.shared.condition;
        Condition {
            bytes: of.bytes.load(Ordering::Relaxed),
            lost: of.lost.load(Ordering::Relaxed),
            failing: of.failing.load(Ordering::Relaxed),
        }
    }

    /// Writes everything that was sent and ends the segment. Gives up after `longest`.
    pub fn close(&self, longest: Duration) {
        let (done, wait) = sync_channel(1);
        if self.sender.send(Message::Close(done)).is_ok() {
            let _ = wait.recv_timeout(longest);
        }
    }

    /// Writes everything that was sent. Gives up after `longest`.
    pub fn flush(&self, longest: Duration) {
        let (done, wait) = sync_channel(1);
        if self.sender.send(Message::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(longest);
        }
    }

    fn send(&self, message: Message, size: usize, gap: Gap) {
        let shared = &*self.shared;
        let size = size + MESSAGE_OVERHEAD_BYTES;
        if shared.queued.load(Ordering::Relaxed) + size > MAX_QUEUED_BYTES {
            shared.record_gap(gap);
            return;
        }
        // What was lost before this message is said before it.
        if shared.any_lost.load(Ordering::Relaxed)
            && let Some(gap) = shared.take_lost()
        {
            let _ = self.sender.send(Message::Gap(gap));
        }
        shared.queued.fetch_add(size, Ordering::Relaxed);
        // A writer that has ended has said why.
        if self.sender.send(message).is_err() {
            shared.record_gap(gap);
        }
    }
}

impl Shared {
    fn record_gap(&self, gap: Gap) {
        let mut lost = lock(&self.lost);
        if *lost == Gap::default() {
            *lost = gap;
            tracing::warn!("journal queue is full; observations are dropped until it drains");
        } else {
            *lost = lost.and(gap);
        }
        self.any_lost.store(true, Ordering::Relaxed);
        self.condition
            .lost
            .fetch_add(gap.observations + gap.rounds, Ordering::Relaxed);
    }

    fn take_lost(&self) -> Option<Gap> {
        let mut lost = lock(&self.lost);
        self.any_lost.store(false, Ordering::Relaxed);
        let gap = std::mem::take(&mut *lost);
        (gap != Gap::default()).then_some(gap)
    }
}

impl Gap {
    fn and(self, other: Gap) -> Gap {
        Gap {
            since: self.since.min(other.since),
            until: self.until.max(other.until),
            observations: self.observations + other.observations,
            rounds: self.rounds + other.rounds,
            kinds: self.kinds | other.kinds,
        }
    }
}

struct Writer {
    files: Files,
    index: Index,
    blobs: Arc<BlobStore>,
    shared: Arc<Shared>,
    disk_retry: Duration,
    /// Rounds that have begun and are not decided.
    open: u32,
    /// Of what was written last.
    time: i64,
    revision: u64,
}

/// Says that the writer has panicked: from then on everything counts as lost, and rounds go on
/// without it.
struct SaysPanic(Arc<Shared>);

impl Drop for SaysPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.condition.failing.store(true, Ordering::Relaxed);
            tracing::error!(
                "the journal's thread has panicked, the journal stops: a defect, please report it"
            );
        }
    }
}

impl Writer {
    fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let message = match messages.recv_timeout(FLUSH_IDLE) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    let _ = self.files.write().and_then(|()| self.files.close());
                    return;
                }
            };
            fail_point("journal");
            let asked = match message {
                Some(Message::Close(done)) => {
                    let closed = self.files.write().and_then(|()| self.files.close());
                    if let Err(error) = closed {
                        tracing::warn!(%error, "journal was not closed cleanly");
                    }
                    let _ = done.send(());
                    return;
                }
                Some(Message::Flush(done)) => {
                    let written = self.write();
                    self.shared
                        .condition
                        .bytes
                        .store(self.files.bytes(), Ordering::Relaxed);
                    let _ = done.send(());
                    written
                }
                Some(message) => self.take(message),
                None => self.rest(),
            };
            if let Err(error) = asked {
                // The queue is dropped with the thread; senders notice nothing and lose nothing but
                // the journal.
                self.shared.condition.failing.store(true, Ordering::Relaxed);
                tracing::error!(%error, "the journal stops");
                return;
            }
            self.shared
                .condition
                .bytes
                .store(self.files.bytes(), Ordering::Relaxed);
        }
    }

    /// Nothing has come for a while.
    fn rest(&mut self) -> Result<(), WriteError> {
        if let Some(gap) = self.shared.take_lost() {
            self.record(&Record::Gap(gap), self.time)?;
            self.index.record_gap(gap.kinds);
        }
        if self.files.is_empty() {
            Ok(())
        } else {
            self.write()
        }
    }

    fn take(&mut self, message: Message) -> Result<(), WriteError> {
        let size = match message {
            Message::Observed(observed) => self.observed(observed)?,
            Message::Began(began) => {
                self.open += 1;
                self.record(&Record::Began(began), began.time)?;
                0
            }
            Message::Decided(decided) => {
                let round = decided();
                self.open = self.open.saturating_sub(1);
                self.begin(round.time)?;
                self.blobs_of(&round)?;
                let time = round.time;
                self.record(&Record::Decided(Box::new(round)), time)?;
                0
            }
            Message::Gap(gap) => {
                self.record(&Record::Gap(gap), gap.until)?;
                self.index.record_gap(gap.kinds);
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.shared
            .queued
            .fetch_sub(size + MESSAGE_OVERHEAD_BYTES, Ordering::Relaxed);
        Ok(())
    }

    /// Writes an observation down; returns what it took in the queue.
    fn observed(&mut self, observed: Observed) -> Result<usize, WriteError> {
        let (name, size) = match &observed.what {
            What::Upsert(text) | What::Remove(text) => (full_name(text), text.len()),
            What::Failed(why) => (None, why.len()),
            What::Begin | What::End => (None, 0),
        };
        let record = Record::Observed(observed);
        let Record::Observed(Observed { time, revision, .. }) = record else {
            return Ok(size);
        };
        (self.time, self.revision) = (time, revision);
        self.begin(time)?;
        let at = self.files.add(&record);
        if let Record::Observed(observed) = record {
            self.index.note(
                observed.kind,
                &observed.what,
                name.as_deref(),
                observed.refused,
                at,
            );
        }
        self.after()?;
        Ok(size)
    }

    fn record(&mut self, record: &Record, time: i64) -> Result<(), WriteError> {
        self.time = self.time.max(time);
        self.begin(time)?;
        self.files.add(record);
        self.after()
    }

    /// Begins the first segment.
    fn begin(&mut self, time: i64) -> Result<(), WriteError> {
        if self.files.is_begun() {
            Ok(())
        } else {
            self.rotate(time)
        }
    }

    /// Blobs that a round names and this segment has not. No other segment is begun before the
    /// round is in this one.
    fn blobs_of(&mut self, round: &Round) -> Result<(), WriteError> {
        let components = round.versions.iter().map(|version| &version.digest);
        let instead = (round.answers.iter()).filter_map(|answer| answer.instead.as_ref());
        let questions = round.look.iter().flat_map(|look| &look.questions);
        let judged = questions.flat_map(|question| &question.answers);
        let judged = judged.filter_map(|answer| answer.instead.as_ref());
        for digest in std::iter::once(&round.catalogue)
            .chain(&round.signals)
            .chain(components)
            .chain(instead)
            .chain(judged)
        {
            if self.files.has_blob(digest) {
                continue;
            }
            // One that is not kept any more is missing, and a replay says so.
            if let Some(bytes) = self.blobs.get(digest) {
                let blob = Blob {
                    digest: digest.clone(),
                    bytes: bytes.to_vec(),
                };
                self.files.add(&Record::Blob(blob));
                if self.files.is_full() {
                    self.retry_until_written(Files::write)?;
                }
            }
        }
        Ok(())
    }

    fn after(&mut self) -> Result<(), WriteError> {
        if self.files.is_full() {
            self.write()
        } else {
            Ok(())
        }
    }

    /// Writes what was added, and goes on in another segment where this one is long enough. A round
    /// that has begun is waited for, so that both ends of it are in one segment, unless that takes
    /// too long.
    fn write(&mut self) -> Result<(), WriteError> {
        self.retry_until_written(Files::write)?;
        if self.files.is_long(self.open > 0) {
            self.open = 0;
            self.rotate(self.time)?;
        }
        Ok(())
    }

    fn rotate(&mut self, time: i64) -> Result<(), WriteError> {
        let revision = self.revision;
        let mut index = std::mem::take(&mut self.index);
        let rotated = self.retry_until_written(|files| files.rotate(&mut index, time, revision));
        self.index = index;
        let lost = rotated?;
        if lost > 0 {
            tracing::error!(
                objects = lost,
                "the journal could not read its own segment: these objects are missing in the next"
            );
            let gap = Gap {
                since: time,
                until: time,
                observations: lost as u64,
                rounds: 0,
                kinds: self.index.stale,
            };
            self.files.add(&Record::Gap(gap));
        }
        Ok(())
    }

    /// Tries until the disk says yes. Meanwhile the queue fills up, and the others go on.
    fn retry_until_written<T>(
        &mut self,
        mut work: impl FnMut(&mut Files) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        let failing = &self.shared.condition.failing;
        loop {
            match work(&mut self.files) {
                Ok(done) => {
                    if failing.swap(false, Ordering::Relaxed) {
                        tracing::info!("journal writes recovered");
                    }
                    return Ok(done);
                }
                Err(error @ WriteError::TooSmall { .. }) => return Err(error),
                Err(error) => {
                    // A full disk: older segments are worth less than what happens now.
                    let full = matches!(&error, WriteError::Disk { source, .. }
                        if source.kind() == std::io::ErrorKind::StorageFull);
                    if full && self.files.delete_oldest() {
                        continue;
                    }
                    if !failing.swap(true, Ordering::Relaxed) {
                        tracing::error!(%error, "journal write failed; retrying every second");
                    }
                    std::thread::sleep(self.disk_retry);
                }
            }
        }
    }
}

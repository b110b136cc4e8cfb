//! Says when to look at files: soon after their folders change, and now and then without that.
//!
//! An event is a hint and no more; what `stat` says counts ([`super::files`]). Watched are the
//! folder of each symbolic link on the way to a file, and the last folder: so the `..data` link
//! that Kubernetes swaps is seen, and a file that is replaced by a rename.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode};
use notify::{Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::places::{Mounts, folders};
use crate::status::policies::FilesStatus;

/// Files are looked at once their folders have been quiet for this long.
const QUIET_PERIOD: Duration = Duration::from_millis(200);
/// Folders that are never quiet are looked at this often.
const MAX_QUIET_PERIOD: Duration = Duration::from_secs(1);
/// How often files are looked at without an event.
const SLOW_LOOK: Duration = Duration::from_secs(30);
/// The same where events are missing, and while a file may change without a trace in `stat`.
const FAST_LOOK: Duration = Duration::from_millis(500);

/// Watches folders. `W` is what the system offers.
pub struct FileEvents<W: Watcher = RecommendedWatcher> {
    wakes: SyncSender<()>,
    watcher: Option<W>,
    /// Folders with a watch, and their device and inode: another folder of the name needs another.
    watched: BTreeMap<PathBuf, (u64, u64)>,
    /// When the first and the last event came that no look has followed.
    events: Option<(Instant, Instant)>,
    next: Instant,
    status: FilesStatus,
}

impl<W: Watcher> FileEvents<W> {
    /// Sends on `wakes` when something may have changed.
    pub fn new(wakes: SyncSender<()>) -> Self {
        FileEvents {
            wakes,
            watcher: None,
            watched: BTreeMap::new(),
            events: None,
            next: Instant::now(),
            status: FilesStatus::default(),
        }
    }

    /// Watches what these files hang on, and nothing else.
    pub fn arm<'f>(&mut self, files: impl Iterator<Item = &'f Path>, mounts: &Mounts) {
        let files: Vec<&Path> = files.collect();
        let folders: BTreeSet<PathBuf> = files.iter().copied().flat_map(folders).collect();
        let mut why = self.watch(&folders).err();
        for folder in &folders {
            let remote = mounts.of(folder).filter(|mount| mount.is_remote());
            why = why.or_else(|| remote.map(|m| format!("{} is on {}", folder.display(), m.kind)));
        }
        let fixed = files.iter().filter(|file| mounts.is_fixed(file));
        self.status = FilesStatus {
            look_every_ms: if why.is_some() { FAST_LOOK } else { SLOW_LOOK }.as_millis() as u64,
            without_events: why,
            fixed: fixed.map(|file| file.display().to_string()).collect(),
        };
    }

    fn watch(&mut self, folders: &BTreeSet<PathBuf>) -> Result<(), String> {
        if self.watcher.is_none() {
            let wakes = self.wakes.clone();
            let heard = move |event: notify::Result<Event>| {
                // Full: the thread is being woken already.
                if event.map_or(true, |event| matters(event.kind)) {
                    let _ = wakes.try_send(());
                }
            };
            let made = W::new(heard, Config::default());
            self.watcher = Some(made.map_err(|error| format!("no watch can be made: {error}"))?);
        }
        let Some(watcher) = &mut self.watcher else {
            return Ok(());
        };
        let mut failed = Ok(());
        self.watched.retain(|folder, is| {
            let stays = folders.contains(folder) && identity(folder) == Some(*is);
            if !stays {
                let _ = watcher.unwatch(folder);
            }
            stays
        });
        for folder in folders {
            let Some(is) = identity(folder).filter(|_| !self.watched.contains_key(folder)) else {
                continue;
            };
            match watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => _ = self.watched.insert(folder.clone(), is),
                Err(error) => failed = Err(format!("{}: {:?}", folder.display(), error.kind)),
            }
        }
        failed
    }

    /// Something may have changed.
    pub fn heard(&mut self, now: Instant) {
        let first = self.events.map_or(now, |(first, _)| first);
        self.events = Some((first, now));
    }

    /// How long it is until the next look.
    pub fn wait(&self, now: Instant) -> Duration {
        let rested =
            |(first, last): (Instant, Instant)| (last + QUIET_PERIOD).min(first + MAX_QUIET_PERIOD);
        let due = self.events.map_or(self.next, rested).min(self.next);
        due.saturating_duration_since(now)
    }

    /// Files were looked at: one of them is not at rest (`changing`), or may change without a trace
    /// (`young`).
    pub fn looked(&mut self, now: Instant, changing: bool, young: bool) {
        self.events = None;
        let every = match (changing, young) {
            (true, _) => QUIET_PERIOD,
            (false, true) => FAST_LOOK,
            (false, false) => Duration::from_millis(self.status.look_every_ms),
        };
        self.next = now + every;
    }

    /// How files are looked at.
    pub fn status(&self) -> &FilesStatus {
        &self.status
    }
}

/// Whether an event may mean other content: reading a file does not.
fn matters(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(_))
        || kind == EventKind::Access(AccessKind::Close(AccessMode::Write))
}

fn identity(folder: &Path) -> Option<(u64, u64)> {
    let is = std::fs::metadata(folder).ok()?;
    Some((is.dev(), is.ino()))
}

#[cfg(test)]
mod tests;

//! Detects changed files.
//!
//! Only the content behind a path counts, with links followed. So a rename, an edit in place and
//! the `..data` link that Kubernetes swaps under a mounted ConfigMap are treated alike. A file is
//! read only after its `stat` has changed and then stayed the same for one poll, so that a file
//! that is still being written is left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use super::bundles;
use crate::config::{Config, Mode, SignalEntry};
use longshore_policy::MAX_COMPONENT_BYTES;
use longshore_report::hex::hex;

/// Within this time after a change, another one may leave no trace in `stat` (its clock is coarse):
/// the content is compared again.
const CLOCK_GRANULARITY: Duration = Duration::from_secs(2);

/// Files and what was last found in them.
#[derive(Default)]
pub struct Files {
    seen: BTreeMap<PathBuf, Seen>,
}

struct Seen {
    stamp: Option<Stamp>,
    stable: bool,
    recent: bool,
    digest: Option<[u8; 32]>,
}

/// What `stat` says; `None` for a file that is not there.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Files {
    /// Watches these and no others. A new file counts as seen, because it is read afterwards.
    pub fn watch(&mut self, files: BTreeSet<PathBuf>, now: SystemTime) {
        self.seen.retain(|file, _| files.contains(file));
        for file in files {
            self.seen.entry(file).or_insert_with_key(|file| {
                let stamp = Stamp::of(file);
                Seen {
                    stamp,
                    stable: true,
                    recent: true,
                    digest: digest(file),
                }
                .backdated(now)
            });
        }
    }

    /// SHA-256 of what was last found in a file, in hex; nothing if it could not be read.
    pub fn digest(&self, file: &Path) -> Option<String> {
        self.seen.get(file)?.digest.map(|digest| hex(&digest))
    }

    /// The files, by name.
    pub fn names(&self) -> impl Iterator<Item = &Path> {
        self.seen.keys().map(PathBuf::as_path)
    }

    /// Whether one was found changed and has not been seen at rest.
    pub fn is_changing(&self) -> bool {
        self.seen.values().any(|seen| !seen.stable)
    }

    /// Whether one may change without a trace.
    pub fn is_young(&self) -> bool {
        self.seen.values().any(|seen| seen.recent)
    }

    /// Whether the content of any has changed since the last poll, and is stable.
    pub fn poll(&mut self, now: SystemTime) -> bool {
        self.seen
            .iter_mut()
            .fold(false, |any, (file, seen)| seen.poll(file, now) | any)
    }
}

impl Seen {
    fn poll(&mut self, file: &Path, now: SystemTime) -> bool {
        let stamp = Stamp::of(file);
        if stamp != self.stamp {
            (self.stamp, self.stable) = (stamp, false);
            return false;
        }
        if self.stable && !self.recent {
            return false;
        }
        (self.stable, self.recent) = (true, stamp.is_some_and(|stamp| stamp.is_young(now)));
        let digest = digest(file);
        std::mem::replace(&mut self.digest, digest) != digest
    }

    fn backdated(mut self, now: SystemTime) -> Self {
        self.recent = self.stamp.is_some_and(|stamp| stamp.is_young(now));
        self
    }
}

impl Stamp {
    fn of(file: &Path) -> Option<Self> {
        let is = std::fs::metadata(file).ok()?;
        Some(Stamp {
            device: is.dev(),
            inode: is.ino(),
            size: is.size(),
            modified: (is.mtime(), is.mtime_nsec()),
            changed: (is.ctime(), is.ctime_nsec()),
        })
    }

    fn is_young(&self, now: SystemTime) -> bool {
        let changed = Duration::from_secs(self.changed.0.max(self.modified.0).max(0) as u64);
        now.duration_since(SystemTime::UNIX_EPOCH + changed)
            .is_ok_and(|age| age <= CLOCK_GRANULARITY)
    }
}

/// Every file that a configuration names, and its own.
pub fn named(file: Option<&Path>, config: &Config) -> BTreeSet<PathBuf> {
    let on = config.policies.iter().filter(|p| p.mode != Mode::Off);
    // What is in a registry or a layout never changes: its digest names it.
    let policies = on.flat_map(|p| {
        p.source
            .file()
            .into_iter()
            .chain(p.settings_file.as_deref())
    });
    let signals = config.signals.values().filter_map(|signal| match signal {
        SignalEntry::File(file) => Some(file.as_path()),
        SignalEntry::Url { .. } | SignalEntry::PlacementScores(_) => None,
    });
    let bundles = bundles::named(config).map(PathBuf::as_path);
    let all = file.into_iter().chain(policies).chain(signals);
    all.chain(bundles).map(Path::to_owned).collect()
}

/// SHA-256 of a file, read piece by piece; `None` if it cannot be read.
fn digest(file: &Path) -> Option<[u8; 32]> {
    let mut sum = Sum(Sha256::new());
    longshore_files::copy(file, MAX_COMPONENT_BYTES, &mut sum).ok()?;
    Some(sum.0.finalize().into())
}

/// A sum that is written to.
struct Sum(Sha256);

impl Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with `file`, watched, long after it was written.
    fn watched(name: &str) -> (PathBuf, Files, SystemTime) {
        let folder =
            std::env::temp_dir().join(format!("longshore-files-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("file"), "one").unwrap();
        let mut files = Files::default();
        let later = SystemTime::now() + Duration::from_secs(60);
        files.watch(BTreeSet::from([folder.join("file")]), later);
        assert!(!files.poll(later), "nothing has changed");
        (folder, files, later)
    }

    #[test]
    fn an_edit_in_place_is_seen_once_it_rests() {
        let (folder, mut files, now) = watched("edit");
        std::fs::write(folder.join("file"), "two").unwrap();
        assert_eq!(
            [files.poll(now), files.poll(now), files.poll(now)],
            [false, true, false]
        );
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_rename_over_the_file_is_seen_and_one_with_the_same_content_is_not() {
        let (folder, mut files, now) = watched("rename");
        for (content, seen) in [("two", true), ("two", false), ("three", true)] {
            std::fs::write(folder.join("new"), content).unwrap();
            std::fs::rename(folder.join("new"), folder.join("file")).unwrap();
            assert_eq!([files.poll(now), files.poll(now)], [false, seen]);
        }
        std::fs::remove_file(folder.join("file")).unwrap();
        assert_eq!(
            [files.poll(now), files.poll(now)],
            [false, true],
            "gone is a change too"
        );
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_link_swapped_in_the_way_to_the_file_is_seen() {
        let (folder, mut files, now) = watched("link");
        let version = |name: &str, content: &str| {
            std::fs::create_dir(folder.join(name)).unwrap();
            std::fs::write(folder.join(name).join("file"), content).unwrap();
            std::os::unix::fs::symlink(name, folder.join("..tmp")).unwrap();
            std::fs::rename(folder.join("..tmp"), folder.join("..data")).unwrap();
        };
        version("..1", "one");
        std::fs::remove_file(folder.join("file")).unwrap();
        std::os::unix::fs::symlink("..data/file", folder.join("file")).unwrap();
        assert_eq!(
            [files.poll(now), files.poll(now)],
            [false, false],
            "the same content by another way"
        );
        version("..2", "two");
        assert_eq!([files.poll(now), files.poll(now)], [false, true]);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_young_file_is_compared_by_content_though_stat_says_nothing() {
        let (folder, mut files, _) = watched("young");
        let now = SystemTime::now();
        std::fs::write(folder.join("file"), "two").unwrap();
        assert_eq!([files.poll(now), files.poll(now)], [false, true]);
        let seen = files.seen.values_mut().next().unwrap();
        assert!(seen.recent);
        // As if the last change had left no trace.
        seen.digest = Some([0; 32]);
        assert!(files.poll(now));
        std::fs::remove_dir_all(folder).unwrap();
    }
}

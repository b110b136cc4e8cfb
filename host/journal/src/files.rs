//! The folder of a journal: a sequence of segments, each beginning with all live objects. The
//! oldest segments are deleted when the total size exceeds its limit.
//!
//! Only the writer's thread uses it. A failed write changes nothing: a retry writes the same bytes
//! to the same place, so that half a frame is never followed by another.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::format::{self, put};
use super::index::{At, Index, Kept};
use super::record::{Head, Observed, Record, What};
use super::segment::{Content, name_of, number_of, read_at};

/// A batch is written when it is this large, or a quarter of a segment.
pub const BATCH_BYTES: usize = 256 << 10;

/// How large a journal may become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// All segments together, bytes.
    pub all: u64,
    /// One segment, bytes; twice the size of what it begins with, if that is more.
    pub segment: u64,
}

/// Why something could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The disk says no; it may say yes later.
    #[error("cannot write {}: {source}", file.display())]
    Disk {
        file: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// What is known of this cluster does not fit twice.
    #[error(
        "max-size is {all} bytes and what a segment begins with takes {head} already; set three \
        times as much"
    )]
    TooSmall { all: u64, head: u64 },
}

/// The segments of a journal, one of which is written to.
pub struct Files {
    folder: PathBuf,
    sizes: Sizes,
    run: u64,
    /// Segments that are complete, oldest first, with their sizes.
    old: VecDeque<(PathBuf, u64)>,
    current: Option<Segment>,
    last: u64,
    /// The next text to write.
    batch: Batch,
}

/// The segment that is written to.
struct Segment {
    path: PathBuf,
    file: File,
    end: u64,
    /// Where what it began with ended.
    head: u64,
    /// Digests of the blobs in it.
    blobs: BTreeSet<String>,
}

/// Buffered records, each with its length before it.
#[derive(Default)]
struct Batch {
    plain: Vec<u8>,
    scratch: Vec<u8>,
    /// The frame, once it has been made; kept for another try.
    frame: Option<Vec<u8>>,
}

impl Batch {
    /// Appends a record; returns where it begins.
    fn add(&mut self, record: &Record) -> usize {
        self.scratch.clear();
        record.write(&mut self.scratch);
        let scratch = std::mem::take(&mut self.scratch);
        let at = self.add_bytes(&scratch);
        self.scratch = scratch;
        at
    }

    fn add_bytes(&mut self, record: &[u8]) -> usize {
        let at = self.plain.len();
        put(&mut self.plain, record.len() as u64);
        self.plain.extend_from_slice(record);
        at
    }

    fn frame(&mut self) -> &[u8] {
        self.frame.get_or_insert_with(|| format::frame(&self.plain))
    }

    fn clear(&mut self) {
        self.plain.clear();
        self.frame = None;
    }
}

impl Files {
    /// The journal in `folder`. Its existing segments stay and count. `run` identifies this
    /// process.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn new(folder: &Path, sizes: Sizes, run: u64) -> std::io::Result<Self> {
        let mut old = BTreeMap::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if let Some(number) = number_of(&entry.path()) {
                old.insert(number, (entry.path(), entry.metadata()?.len()));
            }
        }
        let last = old.keys().next_back().copied().unwrap_or(0);
        let old = old.into_values().collect();
        Ok(Files {
            folder: folder.into(),
            sizes,
            run,
            old,
            current: None,
            last,
            batch: Batch::default(),
        })
    }

    /// Bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.old.iter().map(|(_, size)| size).sum::<u64>()
            + self.current.as_ref().map_or(0, |segment| segment.end)
    }

    /// Appends a record to what is written next. Returns where it will be; a batch that was begun
    /// must not be larger than [`BATCH_BYTES`].
    pub fn add(&mut self, record: &Record) -> At {
        let frame = self.current.as_ref().map_or(0, |segment| segment.end);
        At::new(frame, self.batch.add(record))
    }

    /// Whether the batch has to be written before anything is added.
    pub fn is_full(&self) -> bool {
        let batch = (BATCH_BYTES as u64).min(self.sizes.segment / 4);
        self.batch.plain.len() as u64 >= batch || self.batch.frame.is_some()
    }

    /// Whether there is anything to write.
    pub fn is_empty(&self) -> bool {
        self.batch.plain.is_empty()
    }

    /// Whether a blob is in the current segment; it counts as there from now on.
    pub fn has_blob(&mut self, digest: &str) -> bool {
        self.current
            .as_mut()
            .is_none_or(|segment| !segment.blobs.insert(digest.to_owned()))
    }

    /// Whether the segment is as large as it should be, or far beyond that.
    pub fn is_long(&self, far: bool) -> bool {
        let Some(segment) = &self.current else {
            return true;
        };
        let most = self.sizes.segment.max(2 * segment.head);
        segment.end
            >= if far {
                most.saturating_add(most / 4)
            } else {
                most
            }
    }

    /// Whether a segment has been begun.
    pub fn is_begun(&self) -> bool {
        self.current.is_some()
    }

    /// Writes what has been added.
    ///
    /// # Errors
    /// It is not written; to be tried again.
    pub fn write(&mut self) -> Result<(), WriteError> {
        let Some(segment) = &mut self.current else {
            return Ok(());
        };
        if self.batch.plain.is_empty() {
            return Ok(());
        }
        let frame = self.batch.frame();
        let need = segment.end + frame.len() as u64;
        if !make_room(&mut self.old, self.sizes.all, need) {
            return Err(WriteError::TooSmall {
                all: self.sizes.all,
                head: segment.head,
            });
        }
        append(segment, frame)?;
        self.batch.clear();
        Ok(())
    }

    /// Ends the current segment.
    ///
    /// # Errors
    /// It is not written; to be tried again.
    pub fn close(&mut self) -> Result<(), WriteError> {
        self.write()?;
        let Some(segment) = &mut self.current else {
            return Ok(());
        };
        let mut last = Batch::default();
        last.add(&Record::Closed);
        append(segment, last.frame())?;
        segment.file.sync_data().map_err(|source| WriteError::Disk {
            file: segment.path.clone(),
            source,
        })
    }

    /// Deletes the oldest segment, where another is being written.
    pub fn delete_oldest(&mut self) -> bool {
        self.old
            .pop_front()
            .is_some_and(|(path, _)| std::fs::remove_file(path).is_ok())
    }

    /// Goes on in a new segment that begins with what `index` knows, which is copied from the
    /// current one. What was added has been written before. Returns how many records could not be
    /// copied.
    ///
    /// # Errors
    /// The current segment stays; to be tried again.
    pub fn rotate(
        &mut self,
        index: &mut Index,
        time: i64,
        revision: u64,
    ) -> Result<usize, WriteError> {
        let number = self.last + 1;
        let path = self.folder.join(name_of(number));
        let made = self.begin(number, &path, index, time, revision);
        let (segment, moved, lost) = match made {
            Ok(made) => made,
            Err(error) => {
                let _ = std::fs::remove_file(&path);
                return Err(error);
            }
        };
        // Begun and complete: only now the current one ends. If truncated here, it reads like the
        // journal of a killed process.
        if self.current.is_some() {
            self.close()?;
        }
        if let Some(before) = self.current.replace(segment) {
            self.old.push_back((before.path, before.end));
        }
        self.last = number;
        index.moved(&moved);
        Ok(lost)
    }

    /// A new segment with what is known; where each record has gone, and how many could not be
    /// copied.
    fn begin(
        &mut self,
        number: u64,
        path: &Path,
        index: &mut Index,
        time: i64,
        revision: u64,
    ) -> Result<(Segment, HashMap<At, At>, usize), WriteError> {
        let disk = |source| WriteError::Disk {
            file: path.into(),
            source,
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map_err(disk)?;
        let mut segment = Segment {
            path: path.into(),
            file,
            end: 0,
            head: 0,
            blobs: BTreeSet::new(),
        };
        append(&mut segment, &format::header())?;
        let (listed, others): (Vec<Kept>, Vec<Kept>) =
            index.kept().into_iter().partition(|kept| kept.listed);
        let mut copy = Copy {
            from: self.current.as_ref(),
            moved: HashMap::new(),
            lost: 0,
            batch: Batch::default(),
        };
        let by = env!("CARGO_PKG_VERSION").into();
        copy.batch.add(&Record::Head(Head {
            segment: number,
            run: self.run,
            time,
            by,
            stale: index.stale,
        }));
        let taken = self.current.as_ref().map_or(0, |current| current.end);
        let sizes = self.sizes.all;
        let old = &mut self.old;
        let mut write = |segment: &mut Segment, batch: &mut Batch| {
            let frame = batch.frame();
            let need = taken + segment.end + frame.len() as u64;
            if make_room(old, sizes, need) {
                append(segment, frame)?;
                batch.clear();
                return Ok(());
            }
            Err(WriteError::TooSmall {
                all: sizes,
                head: segment.end + frame.len() as u64,
            })
        };
        copy.all(&others, &mut segment, index, &mut write)?;
        // Of a list that is being read, what it has named comes after its beginning, so that its
        // end takes away the rest.
        for kind in index.listing().collect::<Vec<_>>() {
            copy.batch.add(&Record::Observed(Observed {
                time,
                revision,
                kind,
                what: What::Begin,
                refused: false,
            }));
        }
        copy.all(&listed, &mut segment, index, &mut write)?;
        copy.batch.add(&Record::CheckpointEnds {
            objects: copy.moved.len() as u64,
        });
        write(&mut segment, &mut copy.batch)?;
        segment.head = segment.end;
        Ok((segment, copy.moved, copy.lost))
    }
}

/// Records that are copied from one segment to the next.
struct Copy<'a> {
    from: Option<&'a Segment>,
    moved: HashMap<At, At>,
    lost: usize,
    batch: Batch,
}

impl Copy<'_> {
    fn all(
        &mut self,
        kept: &[Kept],
        to: &mut Segment,
        index: &mut Index,
        write: &mut impl FnMut(&mut Segment, &mut Batch) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let Some(from) = self.from else { return Ok(()) };
        for same in kept.chunk_by(|a, b| a.at.frame() == b.at.frame()) {
            // A frame that cannot be read any more costs its objects, and is said.
            let plain = read_at(&from.file, same[0].at.frame());
            for kept in same {
                let record = plain
                    .as_ref()
                    .ok()
                    .and_then(|plain| Content::record_at(plain, kept.at.inside()));
                let Some(record) = record else {
                    self.lost += 1;
                    index.record_gap(super::record::bit(kept.kind));
                    continue;
                };
                if !self.batch.plain.is_empty()
                    && self.batch.plain.len() + record.len() > BATCH_BYTES
                {
                    write(to, &mut self.batch)?;
                }
                let at = At::new(to.end, self.batch.add_bytes(record));
                self.moved.insert(kept.at, at);
            }
        }
        Ok(())
    }
}

/// Deletes old segments until `need` bytes fit beside the others. Says whether they do.
fn make_room(old: &mut VecDeque<(PathBuf, u64)>, all: u64, need: u64) -> bool {
    let mut taken: u64 = old.iter().map(|(_, size)| size).sum();
    while taken + need > all {
        let Some((path, size)) = old.pop_front() else {
            return false;
        };
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(file = %path.display(), %error, "an old segment of the journal cannot \
                be deleted");
        }
        taken -= size;
    }
    true
}

fn append(segment: &mut Segment, bytes: &[u8]) -> Result<(), WriteError> {
    let written = segment.file.write_all_at(bytes, segment.end);
    written.map_err(|source| WriteError::Disk {
        file: segment.path.clone(),
        source,
    })?;
    segment.end += bytes.len() as u64;
    Ok(())
}

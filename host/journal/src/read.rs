//! Reads a journal, one segment or a folder of them, as one stream of records.
//!
//! If a segment continues the previous one, its initial objects are known already and skipped. If
//! it does not (the first one, another process, a missing or truncated segment before it), the
//! reader says so and replays the initial objects as observations; everything before them is to be
//! forgotten.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::record::{Head, Record};
use super::segment::{Content, End, ReadError, Segment, number_of};

/// What is read.
#[derive(Debug)]
pub enum Item {
    /// A segment begins. If it does not continue the previous one, everything before is to be
    /// forgotten.
    Begins {
        /// Its path.
        file: PathBuf,
        /// Its first record.
        head: Head,
        /// Whether it goes on from the segment before.
        goes_on: bool,
    },
    /// Something is written down.
    Record {
        /// Whether it belongs to what the segment began with.
        checkpoint: bool,
        /// The record.
        record: Record,
    },
    /// A segment ends.
    Ends {
        /// Its path.
        file: PathBuf,
        /// Whether it is complete.
        end: End,
    },
}

/// A journal that is being read.
pub struct Reader {
    files: VecDeque<PathBuf>,
    current: Option<Current>,
    /// Run and number of the last segment, if it was complete.
    last: Option<(u64, u64)>,
}

struct Current {
    segment: Segment,
    head: Option<Head>,
    ready: VecDeque<Record>,
    content: Option<Content>,
    /// The initial objects of the segment are still being replayed or skipped.
    checkpoint: bool,
    pass_over: bool,
}

impl Reader {
    /// The segments of a folder, or one segment.
    ///
    /// # Errors
    /// There is nothing to read.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let read = |source| ReadError::Read {
            file: path.into(),
            source,
        };
        let mut files = Vec::new();
        if std::fs::metadata(path).map_err(read)?.is_dir() {
            for entry in std::fs::read_dir(path).map_err(read)? {
                let file = entry.map_err(read)?.path();
                files.extend(number_of(&file).map(|number| (number, file)));
            }
            if files.is_empty() {
                let nothing = std::io::Error::new(
                    std::io::ErrorKind::NotFound,
                    "there is no *.journal in it",
                );
                return Err(read(nothing));
            }
            files.sort();
        } else {
            files.push((0, path.into()));
        }
        Ok(Reader {
            files: files.into_iter().map(|(_, file)| file).collect(),
            current: None,
            last: None,
        })
    }

    /// What comes next; nothing at the end.
    ///
    /// # Errors
    /// A segment is damaged, or none. Nothing that comes after it is read.
    pub fn next_item(&mut self) -> Result<Option<Item>, ReadError> {
        loop {
            let Some(current) = &mut self.current else {
                let Some(file) = self.files.pop_front() else {
                    return Ok(None);
                };
                self.current = Some(Current::new(Segment::open(&file)?));
                continue;
            };
            let Some(record) = current.record()? else {
                let end = current.segment.end().unwrap_or(End::Open { at: 0 });
                let whole = current.head.as_ref().filter(|_| end == End::Closed);
                self.last = whole.map(|head| (head.run, head.segment));
                let file = current.segment.path().to_owned();
                self.current = None;
                return Ok(Some(Item::Ends { file, end }));
            };
            match record {
                Record::Head(head) if current.head.is_none() => {
                    let goes_on = self.last == Some((head.run, head.segment.wrapping_sub(1)));
                    current.head = Some(head.clone());
                    (current.checkpoint, current.pass_over) = (true, goes_on);
                    return Ok(Some(Item::Begins {
                        file: current.segment.path().to_owned(),
                        head,
                        goes_on,
                    }));
                }
                Record::Head(_) => return Err(current.wrong("a second beginning")),
                _ if current.head.is_none() => return Err(current.wrong("no beginning before it")),
                Record::CheckpointEnds { .. } if current.checkpoint => {
                    (current.checkpoint, current.pass_over) = (false, false);
                }
                Record::CheckpointEnds { .. } => {
                    return Err(current.wrong("the end of a list that never began"));
                }
                Record::Closed => {}
                _ if current.pass_over => {}
                record => {
                    return Ok(Some(Item::Record {
                        checkpoint: current.checkpoint,
                        record,
                    }));
                }
            }
        }
    }
}

impl Current {
    fn new(segment: Segment) -> Self {
        Current {
            segment,
            head: None,
            ready: VecDeque::new(),
            content: None,
            checkpoint: false,
            pass_over: false,
        }
    }

    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        while self.ready.is_empty() {
            let Some(content) = self.segment.next_frame()? else {
                return Ok(None);
            };
            self.ready = self.segment.records(&content)?.into();
            self.content = Some(content);
        }
        Ok(self.ready.pop_front())
    }

    fn wrong(&self, wrong: &str) -> ReadError {
        let offset = self.content.as_ref().map_or(0, |content| content.offset);
        self.segment
            .corrupt(offset, "the record", format!("there is {wrong}"))
    }
}

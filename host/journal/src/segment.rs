//! Reads one segment frame by frame, to its end or to where it is truncated or damaged.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::format::{self, Bytes, FRAME_BYTES, HEADER_BYTES, Header, VERSION, Wrong};
use super::record::Record;

/// The ending of a segment's file name.
const ENDING: &str = "journal";
/// A body with a larger announced size is treated as damage; see [`format::open`].
const MAX_BODY_BYTES: usize = 301 << 20;

/// The file name of a segment.
pub fn name_of(number: u64) -> String {
    format!("{number:08}.{ENDING}")
}

/// The number of a segment, by its file name.
pub fn number_of(path: &Path) -> Option<u64> {
    let stem = path
        .file_name()?
        .to_str()?
        .strip_suffix(ENDING)?
        .strip_suffix('.')?;
    stem.parse()
        .ok()
        .filter(|_| stem.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Why a segment cannot be read, or not any further.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// Its path.
        file: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// It is another file.
    #[error("{} is not a journal: it does not begin like one", file.display())]
    Foreign {
        /// Its path.
        file: PathBuf,
    },
    /// It is of a version to come.
    #[error("{} is a journal of version {version}, and this is a reader of versions up to \
        {VERSION}", file.display())]
    Newer {
        /// Its path.
        file: PathBuf,
        /// The version of its format.
        version: u32,
    },
    /// Bytes in it are not those that were written.
    #[error("{}: corrupt: {what} at byte {offset}: {wrong}", file.display())]
    Corrupt {
        /// Its path.
        file: PathBuf,
        /// Bytes before the one that is wrong.
        offset: u64,
        /// What is read there.
        what: String,
        /// How that is wrong.
        wrong: Wrong,
    },
}

impl ReadError {
    /// What can be done about it.
    pub fn hint(&self) -> &'static str {
        match self {
            ReadError::Read { .. } => "check the path, and that you may read the file",
            ReadError::Foreign { .. } => {
                "name a folder that `longshore run --journal` wrote, or a file in it"
            }
            ReadError::Newer { .. } => "read it with the Longshore that wrote it, or a newer one",
            ReadError::Corrupt { .. } => {
                "what comes before it can be seen with `longshore journal show`; every other \
                segment of the folder can be \
                 read by itself"
            }
        }
    }
}

/// How a segment ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It is complete.
    Closed,
    /// Nothing is missing that was written, but its process was ended before it could say so, or is
    /// still writing.
    Open {
        /// Its size.
        at: u64,
    },
    /// It ends in the middle of a record.
    Cut {
        /// Where the last complete frame ended.
        at: u64,
    },
}

/// A segment that is being read.
pub struct Segment {
    path: PathBuf,
    file: BufReader<File>,
    at: u64,
    size: u64,
    closed: bool,
    end: Option<End>,
}

/// The text of one frame.
pub struct Content {
    /// Where the frame is.
    pub offset: u64,
    plain: Vec<u8>,
}

impl Segment {
    /// Begins to read.
    ///
    /// # Errors
    /// It is not a segment of a version that is read.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let read = |source| ReadError::Read {
            file: path.into(),
            source,
        };
        let file = File::open(path).map_err(read)?;
        let size = file.metadata().map_err(read)?.len();
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut header = Vec::with_capacity(HEADER_BYTES);
        file.by_ref()
            .take(HEADER_BYTES as u64)
            .read_to_end(&mut header)
            .map_err(read)?;
        let mut segment = Segment {
            path: path.into(),
            file,
            at: HEADER_BYTES as u64,
            size,
            closed: false,
            end: None,
        };
        let Ok(header) = <[u8; HEADER_BYTES]>::try_from(header.as_slice()) else {
            if format::may_begin(&header) {
                segment.end = Some(End::Cut { at: 0 });
                return Ok(segment);
            }
            return Err(ReadError::Foreign { file: path.into() });
        };
        match format::read_header(&header) {
            Header::Known => Ok(segment),
            Header::Newer(version) => Err(ReadError::Newer {
                file: path.into(),
                version,
            }),
            Header::Foreign => Err(ReadError::Foreign { file: path.into() }),
            Header::Damaged => {
                Err(segment.corrupt(0, "the header", "its checksum is wrong".into()))
            }
        }
    }

    /// The next frame; nothing at the end, which [`Segment::end`] describes.
    ///
    /// # Errors
    /// It is damaged. Nothing that comes after it is read.
    pub fn next_frame(&mut self) -> Result<Option<Content>, ReadError> {
        if self.end.is_some() {
            return Ok(None);
        }
        let offset = self.at;
        let mut head = [0; FRAME_BYTES];
        let left = self.size - offset;
        if left < FRAME_BYTES as u64 {
            self.end = Some(match (left, self.closed) {
                (0, true) => End::Closed,
                (0, false) => End::Open { at: offset },
                _ => End::Cut { at: offset },
            });
            return Ok(None);
        }
        self.file
            .read_exact(&mut head)
            .map_err(|source| self.failed(source))?;
        let announced = match format::read_frame(&head) {
            Ok(announced) => announced,
            // Some file systems leave zeros if the power fails before data reaches the disk.
            Err(_) if head == [0; FRAME_BYTES] && self.rest_is_zero()? => {
                self.end = Some(End::Cut { at: offset });
                return Ok(None);
            }
            Err(wrong) => return Err(self.corrupt(offset, "the record", wrong)),
        };
        let (length, sum) = announced;
        if length > MAX_BODY_BYTES {
            return Err(self.corrupt(offset, "the record", format!("a length of {length} bytes")));
        }
        if length as u64 > left - FRAME_BYTES as u64 {
            self.end = Some(End::Cut { at: offset });
            return Ok(None);
        }
        let mut body = vec![0; length];
        self.file
            .read_exact(&mut body)
            .map_err(|source| self.failed(source))?;
        self.at += (FRAME_BYTES + length) as u64;
        match format::open(&body, sum) {
            Ok(plain) => Ok(Some(Content {
                offset,
                plain: plain.into_owned(),
            })),
            Err(wrong) => Err(self.corrupt(offset, "the record", wrong)),
        }
    }

    /// The records of a frame.
    ///
    /// # Errors
    /// One of them makes no sense.
    pub fn records(&mut self, content: &Content) -> Result<Vec<Record>, ReadError> {
        let mut records = Vec::new();
        let mut rest = Bytes(&content.plain);
        while !rest.0.is_empty() {
            let record = rest.bytes().and_then(Record::read);
            let record = record.map_err(|wrong| {
                let what = format!("record {} of those", records.len() + 1);
                self.corrupt(content.offset, &what, wrong)
            })?;
            self.closed = record == Record::Closed;
            records.push(record);
        }
        Ok(records)
    }

    /// How it ends, once that is known.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// An error at a place of this segment.
    pub fn corrupt(&self, offset: u64, what: &str, wrong: Wrong) -> ReadError {
        ReadError::Corrupt {
            file: self.path.clone(),
            offset,
            what: what.into(),
            wrong,
        }
    }

    fn failed(&self, source: std::io::Error) -> ReadError {
        ReadError::Read {
            file: self.path.clone(),
            source,
        }
    }

    fn rest_is_zero(&mut self) -> Result<bool, ReadError> {
        let mut rest = Vec::new();
        self.file
            .read_to_end(&mut rest)
            .map_err(|source| self.failed(source))?;
        Ok(rest.iter().all(|&byte| byte == 0))
    }
}

impl Content {
    /// The bytes of the record that begins at `inside`.
    pub fn record_at(plain: &[u8], inside: usize) -> Option<&[u8]> {
        Bytes(plain.get(inside..)?).bytes().ok()
    }
}

/// The text of the frame at a place of a file that is written to.
pub fn read_at(file: &File, offset: u64) -> Result<Vec<u8>, Wrong> {
    let text_of = |error: std::io::Error| error.to_string();
    let mut head = [0; FRAME_BYTES];
    file.read_exact_at(&mut head, offset).map_err(text_of)?;
    let (length, sum) = format::read_frame(&head)?;
    if length > MAX_BODY_BYTES {
        return Err(format!("a length of {length} bytes"));
    }
    let mut body = vec![0; length];
    file.read_exact_at(&mut body, offset + FRAME_BYTES as u64)
        .map_err(text_of)?;
    format::open(&body, sum).map(std::borrow::Cow::into_owned)
}

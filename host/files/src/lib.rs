//! Files that a person or a program names, read whole and within a limit, and private ones.

#![warn(missing_docs)]

pub mod private;

use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The largest configuration or settings file, in bytes.
pub const MAX_TEXT_BYTES: u64 = 4 << 20;

/// The content of a regular file of at most `most` bytes.
///
/// # Errors
/// It cannot be read, is larger, or is a pipe or a device: reading these may take without end.
pub fn read(file: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    copy(file, most, &mut bytes)?;
    Ok(bytes)
}

/// As [`read`], of a file that is UTF-8.
///
/// # Errors
/// As [`read`]; it is not UTF-8.
pub fn read_text(file: &Path, most: u64) -> Result<String> {
    let bytes = read(file, most)?;
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n');
        let line = line.count() + 1;
        Error::new(ErrorKind::InvalidData, format!("line {line} is not UTF-8"))
    })
}

/// Writes the content of a regular file of at most `most` bytes to `to`.
///
/// # Errors
/// As [`read`]; a part may have been written by then.
pub fn copy(file: &Path, most: u64, to: &mut impl Write) -> Result<()> {
    let no_file = || {
        Err(Error::new(
            ErrorKind::InvalidInput,
            "it is not a regular file",
        ))
    };
    // Asked before it is opened: to open a device may change something.
    if !std::fs::metadata(file)?.is_file() {
        return no_file();
    }
    // To open a pipe that took its place since would wait for a writer.
    let at_once = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(at_once)
        .open(file)?;
    let is = opened.metadata()?;
    if !is.is_file() {
        return no_file();
    }
    if is.len() > most {
        return Err(too_large(most));
    }
    // It may grow while it is read.
    copy_stream(opened, most, to)
}

/// All that comes from a pipe or a file, of at most `most` bytes.
///
/// # Errors
/// It cannot be read, or is larger.
pub fn read_stream(source: impl Read, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    copy_stream(source, most, &mut bytes)?;
    Ok(bytes)
}

fn copy_stream(source: impl Read, most: u64, to: &mut impl Write) -> Result<()> {
    match std::io::copy(&mut source.take(most.saturating_add(1)), to)? {
        read if read > most => Err(too_large(most)),
        _ => Ok(()),
    }
}

fn too_large(most: u64) -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        format!("it is larger than {most} bytes"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a file is refused with, of at most ten bytes.
    fn refused(file: &Path) -> String {
        read(file, 10).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_file_or_too_large_is_not_read() {
        let folder = std::env::temp_dir().join(format!("longshore-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (pipe, large, text) = (
            folder.join("pipe"),
            folder.join("large"),
            folder.join("text"),
        );
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        std::fs::write(&large, "12345678901").unwrap();
        std::fs::write(&text, b"one\ntwo\n\xff").unwrap();
        assert_eq!(refused(Path::new("/dev/zero")), "it is not a regular file");
        assert_eq!(refused(&pipe), "it is not a regular file");
        assert_eq!(refused(&folder), "it is not a regular file");
        assert_eq!(refused(&large), "it is larger than 10 bytes");
        assert_eq!(read(&large, 11).unwrap(), b"12345678901");
        assert_eq!(
            read_text(&text, 100).unwrap_err().to_string(),
            "line 3 is not UTF-8"
        );
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_stream_without_end_is_read_up_to_its_limit() {
        let endless = std::io::repeat(b'x');
        let refused = read_stream(endless, 1000).unwrap_err();
        assert_eq!(refused.to_string(), "it is larger than 1000 bytes");
        assert_eq!(read_stream(&b"all"[..], 3).unwrap(), b"all");
    }
}

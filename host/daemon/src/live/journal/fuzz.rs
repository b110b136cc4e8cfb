//! What the fuzz target of the journal (`host/fuzz`) calls.

use std::path::Path;

use super::format::{frame, header};
use super::read::Reader;

/// Any bytes are read as a file, and as the plain text of one frame whose checksums are right; the
/// file is written.
pub fn read_any(file: &Path, bytes: &[u8]) {
    let framed = [&header()[..], &frame(bytes)].concat();
    for content in [bytes, &framed] {
        if std::fs::write(file, content).is_err() {
            return;
        }
        let Ok(mut reader) = Reader::open(file) else {
            continue;
        };
        while let Ok(Some(_)) = reader.next() {}
    }
}

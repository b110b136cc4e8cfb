//! Functions that the fuzz target of the journal (`host/fuzz`) calls.

use std::path::Path;

use super::format::{frame, header};
use super::read::Reader;

/// Reads any bytes as a file, and as the plain text of one frame with correct checksums; then
/// writes the file.
pub fn read_any(file: &Path, bytes: &[u8]) {
    let framed = [&header()[..], &frame(bytes)].concat();
    for content in [bytes, &framed] {
        if std::fs::write(file, content).is_err() {
            return;
        }
        let Ok(mut reader) = Reader::open(file) else {
            continue;
        };
        while let Ok(Some(_)) = reader.next_item() {}
    }
}

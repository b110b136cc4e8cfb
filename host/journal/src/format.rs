//! How a segment is laid out in bytes: a header, then frames, each with its length and checksums.
//!
//! ```text
//! header  "LSJOURNL" · version u32 · checksum of the 12 bytes before u32
//! frame   length of the body u32 · checksum of the body u32 · checksum of the 8 bytes before u32 · body
//! body    compression u8 · length of the plain text u32 · plain text, as it is (0) or as a block of LZ4 (1)
//! ```
//!
//! Numbers are little endian, checksums are CRC-32. The header is the same in all future versions,
//! so that an old reader can report a newer version. A frame's length has its own checksum. Without
//! it a flipped bit in a length would look like a truncated file. What the plain text holds is for
//! [`super::record`]; when to write and where for [`super::files`].

use std::borrow::Cow;

/// The first bytes of every segment.
const MAGIC: &[u8; 8] = b"LSJOURNL";
/// The version that is written, and the newest that is read.
pub const VERSION: u32 = 1;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 16;
/// Bytes of a frame before its body.
pub const FRAME_BYTES: usize = 12;
/// Bytes of a body before its text.
const BODY_HEAD_BYTES: usize = 5;
/// The largest plain text that is read: components are at most 256 MiB, objects of Kubernetes at
/// most 3 MiB.
const MAX_TEXT_BYTES: usize = 300 << 20;
/// Texts below this are not worth compressing.
const MIN_COMPRESSED_BYTES: usize = 128;

/// What is wrong with bytes, in words; where they are, the caller knows.
pub type Wrong = String;

/// Whether a header is ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// It is a journal of a supported version.
    Known,
    /// It is, of this version, which is newer.
    Newer(u32),
    /// It is not: something else, or damaged.
    Foreign,
    /// It is ours and its checksum is wrong.
    Damaged,
}

/// The header of a new segment.
pub fn header() -> [u8; HEADER_BYTES] {
    header_of(VERSION)
}

/// The header of a segment of any version.
pub fn header_of(version: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    let sum = crc32fast::hash(&bytes[..12]);
    bytes[12..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// What `bytes` say they are.
pub fn read_header(bytes: &[u8; HEADER_BYTES]) -> Header {
    let version = number(bytes, 8);
    match (
        &bytes[..8] == MAGIC,
        number(bytes, 12) == crc32fast::hash(&bytes[..12]),
    ) {
        (false, _) => Header::Foreign,
        (true, false) => Header::Damaged,
        (true, true) if version > VERSION => Header::Newer(version),
        (true, true) => Header::Known,
    }
}

/// Whether a file that is shorter than a header may become one of ours.
pub fn may_begin(bytes: &[u8]) -> bool {
    let begins = bytes.len().min(MAGIC.len());
    bytes[..begins] == MAGIC[..begins]
}

/// A frame around `plain`.
pub fn frame(plain: &[u8]) -> Vec<u8> {
    let mut out = vec![0; FRAME_BYTES + BODY_HEAD_BYTES];
    let packed = if plain.len() < MIN_COMPRESSED_BYTES {
        None
    } else {
        Some(lz4_flex::block::compress(plain))
    };
    match packed.filter(|packed| packed.len() < plain.len()) {
        Some(packed) => {
            out[FRAME_BYTES] = 1;
            out.extend_from_slice(&packed);
        }
        None => out.extend_from_slice(plain),
    }
    out[FRAME_BYTES + 1..FRAME_BYTES + BODY_HEAD_BYTES]
        .copy_from_slice(&(plain.len() as u32).to_le_bytes());
    let length = (out.len() - FRAME_BYTES) as u32;
    let sum = crc32fast::hash(&out[FRAME_BYTES..]);
    out[..4].copy_from_slice(&length.to_le_bytes());
    out[4..8].copy_from_slice(&sum.to_le_bytes());
    let sum = crc32fast::hash(&out[..8]);
    out[8..FRAME_BYTES].copy_from_slice(&sum.to_le_bytes());
    out
}

/// The length of the body that a frame announces, and the body's checksum.
///
/// # Errors
/// The announcement is damaged.
pub fn read_frame(bytes: &[u8; FRAME_BYTES]) -> Result<(usize, u32), Wrong> {
    if number(bytes, 8) != crc32fast::hash(&bytes[..8]) {
        return Err("the checksum of its length is wrong".into());
    }
    Ok((number(bytes, 0) as usize, number(bytes, 4)))
}

/// The plain text of a body.
///
/// # Errors
/// It is damaged.
pub fn open(body: &[u8], sum: u32) -> Result<Cow<'_, [u8]>, Wrong> {
    if crc32fast::hash(body) != sum {
        return Err("its checksum is wrong".into());
    }
    let (Some(&how), Some(text)) = (body.first(), body.get(BODY_HEAD_BYTES..)) else {
        return Err("it is too short".into());
    };
    let length = number(body, 1) as usize;
    if length > MAX_TEXT_BYTES {
        return Err(format!(
            "it says that it holds {length} bytes, and {MAX_TEXT_BYTES} is the most"
        ));
    }
    match how {
        0 if text.len() == length => Ok(Cow::Borrowed(text)),
        1 => match lz4_flex::block::decompress(text, length) {
            Ok(plain) if plain.len() == length => Ok(Cow::Owned(plain)),
            Ok(plain) => Err(format!(
                "it says that it holds {length} bytes and has {}",
                plain.len()
            )),
            Err(error) => Err(format!("it cannot be decompressed: {error}")),
        },
        0 => Err(format!(
            "it says that it holds {length} bytes and has {}",
            text.len()
        )),
        other => Err(format!("its compression {other} is not known")),
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|four| four.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

/// Writes a number in groups of seven bits, the lowest first.
pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes bytes with their length before them.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes numbers and bytes off the front of a text.
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, Wrong> {
        let (&first, rest) = self.0.split_first().ok_or("it ends too early")?;
        self.0 = rest;
        Ok(first)
    }

    /// A number that [`put`] wrote.
    pub fn number(&mut self) -> Result<u64, Wrong> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number in it has no end".into())
    }

    /// Bytes that [`put_bytes`] wrote.
    pub fn bytes(&mut self) -> Result<&'a [u8], Wrong> {
        let length = self.number()?;
        let length = usize::try_from(length)
            .ok()
            .filter(|&l| l <= self.0.len())
            .ok_or("a length in it is too large")?;
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(taken)
    }

    /// Bytes that are text.
    pub fn text(&mut self) -> Result<&'a str, Wrong> {
        std::str::from_utf8(self.bytes()?).map_err(|_| "a text in it is not UTF-8".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(frame: &[u8]) -> Result<Vec<u8>, Wrong> {
        let (length, sum) = read_frame(frame[..FRAME_BYTES].try_into().unwrap())?;
        assert_eq!(length, frame.len() - FRAME_BYTES);
        open(&frame[FRAME_BYTES..], sum).map(Cow::into_owned)
    }

    #[test]
    fn a_frame_gives_back_what_was_put_into_it() {
        for plain in [
            b"".to_vec(),
            b"short".to_vec(),
            b"pod ".repeat(1000),
            (0..=255).collect(),
        ] {
            assert_eq!(opened(&frame(&plain)).unwrap(), plain);
        }
        assert!(frame(&b"pod ".repeat(1000)).len() < 100);
    }

    #[test]
    fn a_flipped_bit_anywhere_in_a_frame_is_found() {
        let whole = frame(&b"a pod and another pod ".repeat(20));
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(opened(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_header_tells_newer_from_damaged_from_foreign() {
        assert_eq!(read_header(&header()), Header::Known);
        assert_eq!(read_header(&header_of(7)), Header::Newer(7));
        let mut damaged = header();
        damaged[9] ^= 1;
        assert_eq!(read_header(&damaged), Header::Damaged);
        assert_eq!(read_header(b"#!/bin/sh\n......"), Header::Foreign);
        assert!(may_begin(b"LSJ") && may_begin(b"") && !may_begin(b"LX"));
    }

    #[test]
    fn a_length_that_lies_is_refused_without_taking_the_memory() {
        let mut body = vec![1, 0xff, 0xff, 0xff, 0xff, 0x10];
        assert!(
            open(&body, crc32fast::hash(&body))
                .unwrap_err()
                .contains("is the most")
        );
        body[0] = 9;
        body[1..5].copy_from_slice(&[1, 0, 0, 0]);
        assert_eq!(
            open(&body, crc32fast::hash(&body)).unwrap_err(),
            "its compression 9 is not known"
        );
        assert_eq!(open(&[], 0).unwrap_err(), "it is too short");
    }

    #[test]
    fn numbers_of_any_size_survive() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put(&mut out, number);
            assert_eq!(Bytes(&out).number(), Ok(number));
        }
        assert!(Bytes(&[0x80; 11]).number().is_err());
        assert!(Bytes(&[200, 1, 0]).bytes().is_err());
    }
}

//! Go structs as the library hashstructure hashes them (format 2, zero values ignored, lists as
//! sets), which Karpenter uses for its drift hashes.
//!
//! - a text, a number or a time is FNV-1 (not FNV-1a), 64 bits, of its bytes;
//! - a pair is the hash of two hashes, little-endian, one after the other;
//! - a map is the XOR of its pairs, hashed once more; a list is the XOR of its elements, so that
//!   two equal ones cancel out;
//! - a struct starts from the hash of its Go name; each field that is not zero, in the order of the
//!   Go declaration, is XORed in as a pair of name and value, and the result is hashed.

use std::collections::BTreeMap;

/// A field's Go name and the hash of its value, `None` if the value is zero.
pub type Field<'a> = (&'a str, Option<u64>);

/// A struct with a Go name.
pub fn structure(name: &str, fields: &[Field<'_>]) -> u64 {
    let set = fields
        .iter()
        .filter_map(|(name, value)| Some(pair(text(name), (*value)?)));
    set.fold(text(name), |hash, field| once_more(hash ^ field))
}

/// A map of texts.
pub fn map(map: &BTreeMap<String, String>) -> u64 {
    once_more(
        map.iter()
            .fold(0, |all, (key, value)| all ^ pair(text(key), text(value))),
    )
}

/// A text that is no field if it is empty.
pub fn some(value: &str) -> Option<u64> {
    (!value.is_empty()).then(|| text(value))
}

/// Hash of a string.
pub fn text(text: &str) -> u64 {
    bytes(text.bytes())
}

/// A boolean: one byte.
pub fn boolean(value: bool) -> u64 {
    bytes([u8::from(value)])
}

/// A number of 32 bits, little-endian.
pub fn int32(number: i32) -> u64 {
    bytes(number.to_le_bytes())
}

/// A number of 64 bits, little-endian.
pub fn int64(number: i64) -> u64 {
    bytes(number.to_le_bytes())
}

/// FNV-1, 64 bits.
pub fn bytes(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let hash = 0xcbf2_9ce4_8422_2325_u64;
    bytes.into_iter().fold(hash, |hash, byte| {
        hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte)
    })
}

fn pair(first: u64, second: u64) -> u64 {
    bytes(first.to_le_bytes().into_iter().chain(second.to_le_bytes()))
}

fn once_more(hash: u64) -> u64 {
    bytes(hash.to_le_bytes())
}

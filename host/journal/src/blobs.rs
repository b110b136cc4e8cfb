//! Blobs that rounds refer to by digest and that segments repeat: catalogues, signals, components.
//! They are kept while the daemon runs, so that each segment can contain those that its rounds
//! refer to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use sha2::{Digest as _, Sha256};

use crate::lock::lock;
use longshore_report::hex::hex;

/// Most bytes that are kept; the least recently used go first.
const MAX_CACHED_BYTES: usize = 256 << 20;

/// Bytes by digest.
#[derive(Default)]
pub struct BlobStore(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    all: HashMap<String, (Arc<[u8]>, u64)>,
    bytes: usize,
    used: u64,
}

/// SHA-256 in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

impl BlobStore {
    /// Keeps bytes under their digest.
    pub fn put(&self, digest: &str, bytes: &[u8]) {
        let mut inner = lock(&self.0);
        inner.used += 1;
        let used = inner.used;
        if let Some((_, last)) = inner.all.get_mut(digest) {
            *last = used;
            return;
        }
        while inner.bytes + bytes.len() > MAX_CACHED_BYTES && !inner.all.is_empty() {
            let oldest = inner
                .all
                .iter()
                .min_by_key(|(_, (_, last))| *last)
                .map(|(digest, _)| digest.clone());
            if let Some((gone, _)) = oldest.and_then(|digest| inner.all.remove(&digest)) {
                inner.bytes -= gone.len();
            }
        }
        inner.bytes += bytes.len();
        inner.all.insert(digest.to_owned(), (bytes.into(), used));
    }

    /// The bytes of a digest.
    pub fn get(&self, digest: &str) -> Option<Arc<[u8]>> {
        let mut inner = lock(&self.0);
        inner.used += 1;
        let used = inner.used;
        let (bytes, last) = inner.all.get_mut(digest)?;
        *last = used;
        Some(bytes.clone())
    }

    /// Forgets everything.
    pub fn clear(&self) {
        *lock(&self.0) = Inner::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_makes_room() {
        let blobs = BlobStore::default();
        let large = vec![0; MAX_CACHED_BYTES / 2];
        blobs.put("a", &large);
        blobs.put("b", &large);
        assert!(blobs.get("a").is_some());
        blobs.put("c", b"small");
        assert!(blobs.get("a").is_some() && blobs.get("b").is_none() && blobs.get("c").is_some());
        assert_eq!(&digest(b"")[..8], "e3b0c442");
    }
}

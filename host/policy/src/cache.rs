//! Compiled components on disk, so that a restart does not compile again; and marks of components
//! that killed their compiler.
//!
//! wasmtime runs any machine code in such a file. So the folder and its files must belong to this
//! user and be closed to others, and each file says for which component and engine it is, with a
//! SHA-256 of its code ([`longshore_files::private`]): a flipped bit, a file under another name and code of another release are
//! passed over, with a word. Files never come from outside. The folder has a size limit, because
//! every version of an edited policy leaves a file; the oldest are deleted.

use std::fs::Metadata;
use std::hash::Hasher;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::load::hex;
use longshore_files::private::{read, write};

/// What a file begins with: changed with its layout.
const MAGIC: [u8; 16] = *b"longshore code 2";
const SUM: usize = 32;
/// Magic, component, engine, code.
const HEADER: usize = MAGIC.len() + 3 * SUM;
/// Files of compiled code, and of marks.
const CODE: &str = "cwasm";
const MARK: &str = "died";
/// The most files kept of a kind, the youngest ones: a dozen policies with a few versions each.
const MAX_FILES: usize = 64;
/// The most bytes kept. A Python policy is 34 MiB compiled, one in Rust 0.1.
const MAX_BYTES: u64 = 256 << 20;
/// Most bytes of a mark, which is a sentence.
const MAX_MARK_BYTES: u64 = 4096;

/// What is kept of a component.
pub(crate) enum Kept {
    /// Compiled code that this engine runs.
    Code(Box<Component>),
    /// No file for this component and engine.
    Nothing,
    /// A file that is not used, and why.
    PassedOver(String),
}

/// A folder of compiled components for one engine.
pub(crate) struct Cache<'a> {
    pub folder: &'a Path,
    pub engine: &'a Engine,
}

impl Cache<'_> {
    /// The compiled component of that digest, if it is there and sound.
    pub fn get(&self, digest: &str) -> Kept {
        let file = self.file(digest);
        let bytes = match read(self.folder, &file, u64::MAX) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Kept::Nothing,
            Err(why) => return Kept::PassedOver(why),
        };
        let code = match checked(&bytes, digest, &engine_sum(self.engine)) {
            Ok(code) => code,
            Err(why) => return Kept::PassedOver(format!("{}: {why}", file.display())),
        };
        // SAFETY: the bytes are what `put` wrote for this component and engine: folder and file
        // belong to this user alone, and the digest of the code holds.
        match unsafe { Component::deserialize(self.engine, code) } {
            Ok(component) => Kept::Code(Box::new(component)),
            Err(error) => Kept::PassedOver(format!("{}: {error:#}", file.display())),
        }
    }

    /// Keeps compiled code.
    ///
    /// # Errors
    /// Why the next start compiles again.
    pub fn put(&self, digest: &str, code: &[u8]) -> Result<(), String> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(digest_bytes(digest));
        bytes.extend(engine_sum(self.engine));
        bytes.extend(Sha256::digest(code));
        bytes.extend_from_slice(code);
        write(self.folder, &self.file(digest), &bytes)?;
        prune(self.folder, CODE, MAX_FILES, MAX_BYTES);
        Ok(())
    }

    /// Named after the component and the engine. The name decides nothing.
    fn file(&self, digest: &str) -> PathBuf {
        let engine = hex(&engine_sum(self.engine)[..8]);
        self.folder.join(format!("{digest}-{engine}.{CODE}"))
    }
}

/// What is said of a component that killed its compiler, or may have.
pub(crate) fn mark(folder: &Path, digest: &str) -> Option<String> {
    let bytes = read(folder, &mark_file(folder, digest), MAX_MARK_BYTES);
    String::from_utf8(bytes.ok()??).ok()
}

/// Writes the mark of a component, in place of an earlier one.
pub(crate) fn set_mark(folder: &Path, digest: &str, what: &str) {
    // Without a mark it is tried again at the next start.
    let _ = write(folder, &mark_file(folder, digest), what.as_bytes());
    prune(folder, MARK, MAX_FILES, u64::MAX);
}

/// Removes the mark of a component whose compiler was not killed.
pub(crate) fn clear_mark(folder: &Path, digest: &str) {
    let _ = std::fs::remove_file(mark_file(folder, digest));
}

fn mark_file(folder: &Path, digest: &str) -> PathBuf {
    folder.join(format!("{digest}.{MARK}"))
}

/// The code in a file, if it is for this component and engine and whole.
fn checked<'b>(bytes: &'b [u8], digest: &str, engine: &[u8; SUM]) -> Result<&'b [u8], String> {
    let (header, code) = bytes.split_at_checked(HEADER).ok_or("cut short")?;
    let (magic, sums) = header.split_at(MAGIC.len());
    let (component, sums) = sums.split_at(SUM);
    let (made_by, sum) = sums.split_at(SUM);
    if magic != MAGIC {
        return Err("not a file of this release".into());
    }
    if component != digest_bytes(digest) {
        return Err("compiled code of another component".into());
    }
    if made_by != engine {
        return Err("compiled by another engine".into());
    }
    if sum != Sha256::digest(code).as_slice() {
        return Err("damaged".into());
    }
    Ok(code)
}

/// A digest in hex as bytes.
fn digest_bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks_exact(2);
    let byte = |pair| {
        let text = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(text, 16).ok()
    };
    pairs.filter_map(byte).collect()
}

/// A sum over everything about the engine that decides what machine code is made.
fn engine_sum(engine: &Engine) -> [u8; SUM] {
    struct Sum(Sha256);
    impl Hasher for Sum {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        fn finish(&self) -> u64 {
            0
        }
    }
    let mut sum = Sum(Sha256::new());
    std::hash::Hash::hash(&engine.precompile_compatibility_hash(), &mut sum);
    sum.0.finalize().into()
}

/// Deletes the oldest files of a kind until at most `files` with at most `bytes` are left.
fn prune(folder: &Path, kind: &str, files: usize, bytes: u64) {
    let found = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let is = entry.metadata().ok().filter(Metadata::is_file)?;
            Some((is.modified().ok()?, entry.path(), is.len()))
        });
    let mut found: Vec<_> = found
        .filter(|(_, path, _)| path.extension().is_some_and(|e| e == kind))
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    let mut sum: u64 = 0;
    for (nth, (_, path, size)) in found.iter().enumerate() {
        sum = sum.saturating_add(*size);
        if nth >= files || sum > bytes {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests;

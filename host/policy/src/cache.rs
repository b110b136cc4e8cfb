//! Compiled components on disk, so that a start does not compile again.
//!
//! wasmtime runs whatever machine code such a file holds, so the folder must be ours alone (mode 0700) and every file
//! carries a SHA-256 of its content: a flipped bit is a miss. Files never come from outside. Failing is a miss too.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

const DIGEST: usize = 32;

/// The compiled component of that digest, if it is there and sound.
pub(crate) fn get(engine: &Engine, folder: &Path, digest: &str) -> Option<Component> {
    if !private(folder) {
        return None;
    }
    let bytes = std::fs::read(file(engine, folder, digest)).ok()?;
    let (sum, code) = bytes.split_at_checked(DIGEST)?;
    if *sum != *Sha256::digest(code) {
        return None;
    }
    // SAFETY: the bytes are what `put` wrote: the folder is writable by this user only, and the digest holds.
    unsafe { Component::deserialize(engine, code) }.ok()
}

/// Keeps a compiled component.
pub(crate) fn put(engine: &Engine, folder: &Path, digest: &str, component: &Component) {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let (Ok(()), true, Ok(code)) = (made, private(folder), component.serialize()) else {
        return;
    };
    let mut bytes = Sha256::digest(&code).to_vec();
    bytes.extend_from_slice(&code);
    let (target, part) = (file(engine, folder, digest), folder.join(format!(".{digest}.{}", std::process::id())));
    let written = std::fs::write(&part, bytes).and_then(|()| std::fs::rename(&part, target));
    if written.is_err() {
        // Nothing was promised; the next start compiles again.
        let _ = std::fs::remove_file(part);
    }
}

fn private(folder: &Path) -> bool {
    std::fs::symlink_metadata(folder).is_ok_and(|is| is.is_dir() && is.permissions().mode() & 0o077 == 0)
}

/// Named after the component and everything about the engine that decides what machine code is made of it.
fn file(engine: &Engine, folder: &Path, digest: &str) -> PathBuf {
    let made_by = BuildHasherDefault::<DefaultHasher>::default().hash_one(Hashed(engine));
    folder.join(format!("{digest}-{made_by:016x}.cwasm"))
}

struct Hashed<'a>(&'a Engine);

impl std::hash::Hash for Hashed<'_> {
    fn hash<H: std::hash::Hasher>(&self, to: &mut H) {
        self.0.precompile_compatibility_hash().hash(to);
    }
}

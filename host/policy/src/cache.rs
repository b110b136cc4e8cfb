//! Compiled components on disk, so that a restart does not compile again.
//!
//! wasmtime runs any machine code in such a file. So the folder must be private (mode 0700) and
//! every file carries a SHA-256 of its content: a flipped bit is a miss. Files never come from
//! outside. Errors are misses too. The folder has a size limit, because every version of an edited
//! policy leaves a file; the oldest are deleted.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

const DIGEST_BYTES: usize = 32;
/// The most files kept, the youngest ones: a dozen policies with a few versions each.
const MAX_FILES: usize = 64;
/// The most bytes kept. A Python policy is 34 MiB compiled, one in Rust 0.1.
const MAX_BYTES: u64 = 512 << 20;

/// The compiled component of that digest, if it is there and sound.
pub(crate) fn get(engine: &Engine, folder: &Path, digest: &str) -> Option<Component> {
    if !private(folder) {
        return None;
    }
    let bytes = std::fs::read(file(engine, folder, digest)).ok()?;
    let (sum, code) = bytes.split_at_checked(DIGEST_BYTES)?;
    if *sum != *Sha256::digest(code) {
        return None;
    }
    // SAFETY: the bytes are what `put` wrote: the folder is writable by this user only, and the
    // digest holds.
    unsafe { Component::deserialize(engine, code) }.ok()
}

/// Keeps a compiled component.
pub(crate) fn put(engine: &Engine, folder: &Path, digest: &str, component: &Component) {
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder);
    let (Ok(()), true, Ok(code)) = (made, private(folder), component.serialize()) else {
        return;
    };
    let mut bytes = Sha256::digest(&code).to_vec();
    bytes.extend_from_slice(&code);
    let (target, part) = (
        file(engine, folder, digest),
        folder.join(format!(".{digest}.{}", std::process::id())),
    );
    let written = std::fs::write(&part, bytes).and_then(|()| std::fs::rename(&part, target));
    if written.is_err() {
        // Nothing was promised; the next start compiles again.
        let _ = std::fs::remove_file(part);
    }
    prune(folder, MAX_FILES, MAX_BYTES);
}

/// Deletes the oldest compiled components until at most `files` with at most `bytes` are left.
fn prune(folder: &Path, files: usize, bytes: u64) {
    let found = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let is = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
            Some((is.modified().ok()?, entry.path(), is.len()))
        });
    let mut found: Vec<_> = found
        .filter(|(_, path, _)| path.extension().is_some_and(|e| e == "cwasm"))
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    let mut sum = 0;
    for (nth, (_, path, size)) in found.iter().enumerate() {
        sum += size;
        if nth >= files || sum > bytes {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn private(folder: &Path) -> bool {
    std::fs::symlink_metadata(folder)
        .is_ok_and(|is| is.is_dir() && is.permissions().mode() & 0o077 == 0)
}

/// Named after the component and everything about the engine that decides what machine code is made
/// of it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_files_go_when_there_are_too_many_or_they_are_too_large() {
        let folder = std::env::temp_dir().join(format!("longshore-prune-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for nth in 0..5_u64 {
            let file = std::fs::File::create(folder.join(format!("{nth}.cwasm"))).unwrap();
            file.set_len(100).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000 + nth))
                .unwrap();
        }
        std::fs::write(folder.join("other"), "stays").unwrap();
        let left = || {
            let names = std::fs::read_dir(&folder).unwrap();
            let mut names: Vec<_> = names
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        prune(&folder, 4, 1000);
        assert_eq!(
            left(),
            ["1.cwasm", "2.cwasm", "3.cwasm", "4.cwasm", "other"]
        );
        prune(&folder, 4, 250);
        assert_eq!(left(), ["3.cwasm", "4.cwasm", "other"]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

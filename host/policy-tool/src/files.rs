//! What is in this program: SDKs, the contract, templates; and files on disk.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Files below a folder of [`FILES`], by their path inside of it.
pub fn below(folder: &str) -> impl Iterator<Item = (&'static str, &'static [u8])> {
    let folder = format!("{folder}/");
    FILES
        .iter()
        .filter_map(move |(name, content)| Some((name.strip_prefix(&folder)?, *content)))
}

/// Writes all files below a folder of [`FILES`] to disk.
pub fn unpack(from: &str, to: &Path) -> Result<()> {
    below(from).try_for_each(|(name, content)| write(&to.join(name), content))
}

/// Writes beside and renames, so that no reader sees half a file. What is there already is not
/// touched: its time tells build tools that it is new.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    let failed = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(failed)?;
    }
    let mut part = PathBuf::from(path);
    part.set_extension(format!("part-{}", std::process::id()));
    std::fs::write(&part, content).with_context(failed)?;
    std::fs::rename(&part, path).with_context(failed)
}
